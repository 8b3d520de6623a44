/* SPDX-License-Identifier: BSD-3-Clause */
#include "finish.cuh"

/* Sums to results: bias, activation or its slope, rounding.  Moves memory and little else. */
enum { AT_ONCE = 8, FINISH_THREADS = 256, FINISH_BLOCKS = 1 << 16 };

/* AT_ONCE elements from i on, on 16 bytes. */
TR_INLINE void get_some(const mixed &m, int64_t i, float *out)
{
    if (m.type == TR_F32) {
        const float *p = static_cast<const float *>(m.data) + i;
        pack<float, 4> low = load<4>(p), high = load<4>(p + 4);

        for (int e = 0; e < 4; e++) {
            out[e] = low.x[e];
            out[e + 4] = high.x[e];
        }
    } else if (m.type == TR_F16) {
        pack<f16, AT_ONCE> all = load<AT_ONCE>(static_cast<const f16 *>(m.data) + i);

        for (int e = 0; e < AT_ONCE; e++)
            out[e] = widen(all.x[e]);
    } else {
        pack<bf16, AT_ONCE> all = load<AT_ONCE>(static_cast<const bf16 *>(m.data) + i);

        for (int e = 0; e < AT_ONCE; e++)
            out[e] = widen(all.x[e]);
    }
}

template <class T> TR_INLINE void set_halves(T *to, const float *from)
{
    pack<T, AT_ONCE> all;

    for (int e = 0; e < AT_ONCE; e++)
        all.x[e] = narrow<T>(from[e]);
    store(to, all);
}

TR_INLINE void set_some(const mixed &m, int64_t i, const float *from)
{
    if (m.type == TR_F32) {
        float *p = static_cast<float *>(m.data) + i;
        pack<float, 4> low, high;

        for (int e = 0; e < 4; e++) {
            low.x[e] = from[e];
            high.x[e] = from[e + 4];
        }
        store(p, low);
        store(p + 4, high);
    } else if (m.type == TR_F16) {
        set_halves(static_cast<f16 *>(m.data) + i, from);
    } else {
        set_halves(static_cast<bf16 *>(m.data) + i, from);
    }
}

TR_INLINE void finish_some(const struct finish &f, int64_t i, int64_t j, const mixed &sums)
{
    float z[AT_ONCE], other[AT_ONCE];

    get_some(sums, i, z);
    if (f.add) {
        get_some(f.c, i, other);
        for (int e = 0; e < AT_ONCE; e++)
            z[e] += other[e];
    }
    if (f.bias.data) {
        get_some(f.bias, j, other);
        for (int e = 0; e < AT_ONCE; e++)
            z[e] += other[e];
    }
    if (f.pre.data)
        set_some(f.pre, i, z);
    if (f.slope_of.data)
        get_some(f.slope_of, i, other);
    for (int e = 0; e < AT_ONCE; e++)
        z[e] = finished(f, z[e], f.slope_of.data ? other[e] : 0.0f);
    set_some(f.c, i, z);
}

/* The same of 2 AT_ONCE sums of a gated activation, or of AT_ONCE of its gradient. */
template <bool BACK>
TR_INLINE void gate_some(const struct finish &f, int64_t i, int64_t j, const mixed &sums)
{
    float z[2 * AT_ONCE], other[AT_ONCE];

    if constexpr (BACK) {
        get_some(sums, i, other);
        get_some(f.slope_of, 2 * i, z);
        get_some(f.slope_of, 2 * i + AT_ONCE, z + AT_ONCE);
        TR_UNROLL
        for (int e = 0; e < AT_ONCE; e++)
            close_gate(f.act, other[e], z[2 * e], z[2 * e + 1]);
        set_some(f.c, 2 * i, z);
        set_some(f.c, 2 * i + AT_ONCE, z + AT_ONCE);
    } else {
        TR_UNROLL
        for (int h = 0; h < 2 * AT_ONCE; h += AT_ONCE) {
            get_some(sums, i + h, z + h);
            if (f.bias.data) {
                get_some(f.bias, j + h, other);
                TR_UNROLL
                for (int e = 0; e < AT_ONCE; e++)
                    z[h + e] += other[e];
            }
            if (f.pre.data)
                set_some(f.pre, i + h, z + h);
        }
        TR_UNROLL
        for (int e = 0; e < AT_ONCE; e++)
            other[e] = opened(f.act, z[2 * e], z[2 * e + 1]);
        set_some(f.c, i / 2, other);
    }
}

/* Sums may be c itself, so they are not restrict. */
template <bool MANY>
__global__ void __launch_bounds__(FINISH_THREADS)
    finish_kernel(struct finish f, mixed sums, int64_t elements, int64_t n)
{
    const int64_t each = MANY ? AT_ONCE : 1, stride = (int64_t)gridDim.x * blockDim.x * each;
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * each;

    for (; i < elements; i += stride) {
        if (MANY)
            finish_some(f, i, i % n, sums);
        else
            finish_one(f, i, i % n, sums.get(i));
    }
}

/*
 * A gated activation or, with BACK, its gradient.  Sums are twice as wide as what they become, or half as wide;
 * n is how wide.
 */
template <bool MANY, bool BACK>
__global__ void __launch_bounds__(FINISH_THREADS)
    gate_kernel(struct finish f, mixed sums, int64_t elements, int64_t n)
{
    const int64_t each = (MANY ? AT_ONCE : 1) * (BACK ? 1 : 2);
    const int64_t stride = (int64_t)gridDim.x * blockDim.x * each;
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * each;

    for (; i < elements; i += stride) {
        if constexpr (MANY)
            gate_some<BACK>(f, i, i % n, sums);
        else if constexpr (BACK)
            finish_gated_bwd(f, i, sums.get(i));
        else
            finish_gated(f, i, i % n, sums.get(i), sums.get(i + 1));
    }
}

static bool wide_operand(const mixed &m)
{
    return on_16_bytes(m.data);
}

template <bool BACK>
static void launch_gates(struct tr_queue *q, const struct finish &f, const mixed &sums,
                         int64_t elements, int64_t n)
{
    const bool many = n % (2 * AT_ONCE) == 0 && wide_operand(sums) && wide_operand(f.c) &&
                      wide_operand(f.bias) && wide_operand(f.pre) && wide_operand(f.slope_of);
    const int64_t each = (many ? (int)AT_ONCE : 1) * (BACK ? 1 : 2);
    const unsigned blocks = blocks_for(elements, FINISH_THREADS * each, FINISH_BLOCKS);

    if (many)
        TR_LAUNCH(q, (gate_kernel<true, BACK>), blocks, FINISH_THREADS, 0, f, sums, elements, n);
    else
        TR_LAUNCH(q, (gate_kernel<false, BACK>), blocks, FINISH_THREADS, 0, f, sums, elements, n);
}

static void finish_all(struct tr_queue *q, const mixed &from, const struct finish &how,
                       const struct tr_tensor *c)
{
    const int64_t elements = tr_tensor_elems(c), n = c->dim[c->ndim - 1];

    if (tr_act_gated(how.act) && how.slope_of.data) {
        launch_gates<true>(q, how, from, elements / 2, n / 2);
        return;
    }
    if (tr_act_gated(how.act)) {
        launch_gates<false>(q, how, from, elements * 2, n * 2);
        return;
    }
    bool many = n % AT_ONCE == 0 && wide_operand(from) && wide_operand(how.c) &&
                wide_operand(how.bias) && wide_operand(how.pre) && wide_operand(how.slope_of);
    int64_t per_block = (int64_t)FINISH_THREADS * (many ? (int)AT_ONCE : 1);
    unsigned blocks = blocks_for(elements, per_block, FINISH_BLOCKS);

    if (many)
        TR_LAUNCH(q, finish_kernel<true>, blocks, FINISH_THREADS, 0, how, from, elements, n);
    else
        TR_LAUNCH(q, finish_kernel<false>, blocks, FINISH_THREADS, 0, how, from, elements, n);
}

extern "C" void tr_cuda_finish_sums(struct tr_queue *q, const float *sums,
                                    const struct tr_cuda_finish *f)
{
    TR_ASSERT(!f->add || (sums != f->c->data && !tr_act_gated(f->act)));
    finish_all(q, mixed{const_cast<float *>(sums), TR_F32}, finish_of(f), f->c);
}

extern "C" void tr_cuda_activate(struct tr_queue *q, const struct tr_tensor *y,
                                 const struct tr_tensor *z, enum tr_act act)
{
    struct tr_cuda_finish f = {};

    f.c = y;
    f.act = act;
    finish_all(q, mixed_of(z), finish_of(&f), y);
}

extern "C" void tr_cuda_activate_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                                     const struct tr_tensor *dy, const struct tr_tensor *x,
                                     enum tr_act act)
{
    struct tr_cuda_finish f = {};

    tr_sizes_flat(dx, dy, x, x);
    TR_ASSERT(!tr_act_gated(act));
    f.c = dx;
    f.slope_of = x;
    f.act = act;
    finish_all(q, mixed_of(dy), finish_of(&f), dx);
}
