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

static bool wide_operand(const mixed &m)
{
    return on_16_bytes(m.data);
}

extern "C" void tr_cuda_finish_sums(struct tr_queue *q, const float *sums,
                                    const struct tr_cuda_finish *f)
{
    struct finish how = finish_of(f);
    mixed from = {const_cast<float *>(sums), TR_F32};
    int64_t elements = tr_tensor_elems(f->c), n = f->c->dim[f->c->ndim - 1];
    bool many = n % AT_ONCE == 0 && wide_operand(from) && wide_operand(how.c) &&
                wide_operand(how.bias) && wide_operand(how.pre) && wide_operand(how.slope_of);
    int64_t per_block = (int64_t)FINISH_THREADS * (many ? (int)AT_ONCE : 1);
    unsigned blocks = blocks_for(elements, per_block, FINISH_BLOCKS);

    TR_ASSERT(!f->add || sums != f->c->data);
    if (many)
        TR_LAUNCH(q, finish_kernel<true>, blocks, FINISH_THREADS, 0, how, from, elements, n);
    else
        TR_LAUNCH(q, finish_kernel<false>, blocks, FINISH_THREADS, 0, how, from, elements, n);
}
