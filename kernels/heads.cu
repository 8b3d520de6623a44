/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.cuh"

/*
 * What is done to queries and keys between their product and attention, on rows as struct tr_heads_how lays
 * them out: rotary positions, and norms of each head.  And columns from one matrix to another.
 */
namespace
{

enum { THREADS = 256, WARPS = 8, SLAB_ROWS = 16 };

/* A row is `count` parts of one width: of each group its queries, its key, its value. */
struct parts_of_row {
    int queries, count; /* of a group, and of all groups */

    TR_INLINE int in_group(int part) const { return part % (queries + 2); }
    TR_INLINE bool is_key(int part) const { return in_group(part) == queries; }
    TR_INLINE bool is_value(int part) const { return in_group(part) == queries + 1; }
    /* The place of a query or a key among those of a row: the queries come first. */
    TR_INLINE int place(int part) const
    {
        const int group = part / (queries + 2), groups = count / (queries + 2);

        return is_key(part) ? groups * queries + group : group * queries + in_group(part);
    }
};

parts_of_row parts_of(const struct tr_heads_how &how)
{
    return parts_of_row{how.heads / how.groups, how.heads + 2 * how.groups};
}

/* ---- rotary ---- */

struct rotation {
    parts_of_row parts;
    int width, half;
    float back; /* 1, or -1 for the negative angle */
    float *table;
    const int32_t *position;
};

/* N pairs, the first of which is pair `first` of its part, turn. */
template <bool PAIRS, int N>
TR_INLINE void turn(float (&z)[2 * N], const rotation &r, float *cosines, int first)
{
    const typed<float> table = {cosines};
    float c[N], s[N];

    table.get(first, c);
    table.get(r.half + first, s);
    TR_UNROLL
    for (int i = 0; i < N; i++) {
        float &a = z[PAIRS ? 2 * i : i], &b = z[PAIRS ? 2 * i + 1 : N + i];
        const float x = a, sine = s[i] * r.back;

        a = x * c[i] - b * sine;
        b = x * sine + b * c[i];
    }
}

/*
 * Threads side by side take items side by side of a row.  Of a part the first half / N items are N pairs each,
 * the others N numbers that are copied.  A thread has read what it writes, so y may be x.
 */
template <bool PAIRS, int N, class X>
__global__ void __launch_bounds__(THREADS) rotary_kernel(X y, X x, int64_t n, rotation r)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const int items = (r.width - r.half) / N;

    if (row >= n)
        return;
    float *const angles = r.table + (int64_t)r.position[row] * 2 * r.half;

    for (int i = (int)threadIdx.x; i < r.parts.count * items; i += (int)blockDim.x) {
        const int part = i / items, first = i % items * N;
        const int64_t at = (row * r.parts.count + part) * r.width;
        float z[2 * N], one[N];

        if (first >= r.half) {
            x.get(at + r.half + first, one);
            y.set(at + r.half + first, one);
            continue;
        }
        if constexpr (PAIRS) {
            x.get(at + 2 * first, z);
        } else {
            x.get(at + r.half + first, one);
            TR_UNROLL
            for (int k = 0; k < N; k++)
                z[N + k] = one[k];
            x.get(at + first, one);
            TR_UNROLL
            for (int k = 0; k < N; k++)
                z[k] = one[k];
        }
        if (!r.parts.is_value(part))
            turn<PAIRS, N>(z, r, angles, first);
        if constexpr (PAIRS) {
            y.set(at + 2 * first, z);
        } else {
            TR_UNROLL
            for (int k = 0; k < N; k++)
                one[k] = z[k];
            y.set(at + first, one);
            TR_UNROLL
            for (int k = 0; k < N; k++)
                one[k] = z[N + k];
            y.set(at + r.half + first, one);
        }
    }
}

template <int N, class X>
void rotary_launch(struct tr_queue *q, X y, X x, int64_t n, const rotation &r, bool pairs)
{
    const dim3 block =
        block_of_rows((int64_t)r.parts.count * ((r.width - r.half) / N), (int)THREADS);
    const unsigned blocks = blocks_for(n, block.y, INT32_MAX);

    if (pairs)
        TR_LAUNCH(q, (rotary_kernel<true, N, X>), blocks, block, 0, y, x, n, r);
    else
        TR_LAUNCH(q, (rotary_kernel<false, N, X>), blocks, block, 0, y, x, n, r);
}

/* Whether all parts of a row, and their halves that turn, begin on what N elements lie on. */
bool divides(const rotation &r, int n)
{
    return r.width % n == 0 && r.half % n == 0;
}

} // namespace

extern "C" void tr_cuda_rotary(struct tr_queue *q, const struct tr_tensor *y,
                               const struct tr_tensor *x, const struct tr_tensor *table,
                               const struct tr_tensor *position, struct tr_rotary_how how)
{
    const struct tr_heads_sizes s = tr_sizes_rotary(y, x, table, position, how);
    const rotation r = {parts_of(how.heads),    (int)s.width,
                        how.rotary / 2,         how.back ? -1.0f : 1.0f,
                        elements<float>(table), elements<int32_t>(position)};

    if (!same_type(y, x) || !divides(r, 2) || !on_16_bytes(y->data) || !on_16_bytes(x->data) ||
        !on_16_bytes(table->data)) {
        rotary_launch<1>(q, mixed_of(y), mixed_of(x), s.n, r, how.pairs);
        return;
    }
    with_float(x->dtype, [&](auto t) {
        using T = decltype(t);

        if (divides(r, 8))
            rotary_launch<wide<T>::N>(q, typed_of<T>(y), typed_of<T>(x), s.n, r, how.pairs);
        else
            rotary_launch<2>(q, typed_of<T>(y), typed_of<T>(x), s.n, r, how.pairs);
    });
}

/* ---- norms of heads ---- */

namespace
{

/* Groups of N numbers of a head that a lane keeps. */
template <int N> struct of_lane {
    static const int PER = (TR_MAX_HEAD_DIM + WARP * N - 1) / (WARP * N);
};

template <class X, class W> struct head_norms {
    X x;
    W q_gain, k_gain;
    parts_of_row parts;
    int width;
    bool one;
    int64_t n;

    /* The gain of a query or a key from column i on. */
    template <int N> TR_INLINE void gain(bool key, int i, float (&by)[N]) const
    {
        if (key)
            k_gain.get(i, by);
        else
            q_gain.get(i, by);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            by[k] += one ? 1.0f : 0.0f;
    }
};

/* A warp takes a part of a row. */
template <int N, class X, class W>
__global__ void __launch_bounds__(WARPS *WARP)
    head_norm_kernel(X y, float *rstd, head_norms<X, W> o, float eps)
{
    const int PER = of_lane<N>::PER;
    const int64_t which = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    const int64_t row = which / o.parts.count;
    const int part = (int)(which % o.parts.count), lane = (int)threadIdx.x;
    float x[PER][N], squares = 0.0f;

    if (row >= o.n)
        return;
    TR_UNROLL
    for (int j = 0; j < PER; j++) {
        const int i = (lane + j * WARP) * N;

        if (i >= o.width)
            continue;
        o.x.get(which * o.width + i, x[j]);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            squares = fmaf(x[j][k], x[j][k], squares);
    }
    squares = over_warp(squares, add_up());
    const float r = 1.0f / sqrtf(squares / (float)o.width + eps);

    if (lane == 0 && !o.parts.is_value(part))
        rstd[row * (o.parts.count - o.parts.count / (o.parts.queries + 2)) + o.parts.place(part)] =
            r;
    TR_UNROLL
    for (int j = 0; j < PER; j++) {
        const int i = (lane + j * WARP) * N;
        float gain[N];

        if (i >= o.width)
            continue;
        if (!o.parts.is_value(part)) {
            o.gain(o.parts.is_key(part), i, gain);
            TR_UNROLL
            for (int k = 0; k < N; k++)
                x[j][k] *= r * gain[k];
        }
        y.set(which * o.width + i, x[j]);
    }
}

/*
 * The gradient: with g = dy * gain and u = x * rstd, dx = rstd (g - u mean(g u)), and the gains get the sums of
 * dy u.  A block has a slab of rows, whose parts its warps take in turn; what it adds to the gains, those of
 * queries before those of keys, is left in part[2 * width].  A lane has read what it writes: dx may be dy.
 */
template <int N, class X, class W>
__global__ void __launch_bounds__(WARPS *WARP)
    head_norm_bwd_kernel(X dx, X dy, const float *rstd, head_norms<X, W> o, float *sums,
                         int64_t slab_rows)
{
    const int PER = of_lane<N>::PER;
    TR_SHARED(float, room, [WARPS][TR_MAX_HEAD_DIM]);
    const int lane = (int)threadIdx.x, warp = (int)threadIdx.y, count = o.parts.count;
    const int64_t first = (int64_t)blockIdx.x * slab_rows, end = min(first + slab_rows, o.n);
    float to_gain[2][PER][N] = {};

    for (int64_t which = first * count + warp; which < end * count; which += WARPS) {
        const int64_t row = which / count;
        const int part = (int)(which % count);
        const bool key = o.parts.is_key(part), value = o.parts.is_value(part);
        float g[PER][N], u[PER][N], mean = 0.0f, r = 0.0f;

        if (!value)
            r = rstd[row * (count - count / (o.parts.queries + 2)) + o.parts.place(part)];
        TR_UNROLL
        for (int j = 0; j < PER; j++) {
            const int i = (lane + j * WARP) * N;
            float gain[N];

            if (i >= o.width)
                continue;
            dy.get(which * o.width + i, g[j]);
            if (value)
                continue;
            o.x.get(which * o.width + i, u[j]);
            o.gain(key, i, gain);
            TR_UNROLL
            for (int k = 0; k < N; k++) {
                u[j][k] *= r;
                to_gain[0][j][k] = fmaf(key ? 0.0f : g[j][k], u[j][k], to_gain[0][j][k]);
                to_gain[1][j][k] = fmaf(key ? g[j][k] : 0.0f, u[j][k], to_gain[1][j][k]);
                g[j][k] *= gain[k];
                mean = fmaf(g[j][k], u[j][k], mean);
            }
        }
        mean = over_warp(mean, add_up()) / (float)o.width;
        TR_UNROLL
        for (int j = 0; j < PER; j++) {
            const int i = (lane + j * WARP) * N;

            if (i >= o.width)
                continue;
            if (!value) {
                TR_UNROLL
                for (int k = 0; k < N; k++)
                    g[j][k] = r * (g[j][k] - u[j][k] * mean);
            }
            dx.set(which * o.width + i, g[j]);
        }
    }
    sums += (int64_t)blockIdx.x * 2 * o.width;
    TR_UNROLL
    for (int of = 0; of < 2; of++) {
        TR_UNROLL
        for (int j = 0; j < PER; j++)
            TR_UNROLL
        for (int k = 0; k < N; k++)
            if ((lane + j * WARP) * N + k < o.width)
                room[warp][(lane + j * WARP) * N + k] = to_gain[of][j][k];
        __syncthreads();
        for (int i = warp * WARP + lane; i < o.width; i += WARPS * WARP) {
            float all = room[0][i];

            for (int w = 1; w < WARPS; w++)
                all += room[w][i];
            sums[of * o.width + i] = all;
        }
        if (of == 0)
            __syncthreads();
    }
}

template <int N, class X, class W>
void head_norm_launch(struct tr_queue *q, X y, const struct tr_tensor *rstd,
                      const head_norms<X, W> &o, float eps)
{
    TR_LAUNCH(q, (head_norm_kernel<N, X, W>), blocks_for(o.n * o.parts.count, WARPS, INT32_MAX),
              dim3(WARP, WARPS), 0, y, elements<float>(rstd), o, eps);
}

template <int N, class X, class W>
void head_norm_bwd_launch(struct tr_queue *q, X dx, X dy, const struct tr_tensor *rstd,
                          const head_norms<X, W> &o, const struct tr_tensor *dq_gain,
                          const struct tr_tensor *dk_gain)
{
    const slabs cut = slabs_of(o.n, SLAB_ROWS, 2 * o.width, TR_CUDA_SCRATCH_BYTES);
    float *part =
        static_cast<float *>(tr_cuda_scratch(q, cut.count * 2 * (size_t)o.width * sizeof(float)));

    TR_LAUNCH(q, (head_norm_bwd_kernel<N, X, W>), cut.count, dim3(WARP, WARPS), 0, dx, dy,
              elements<float>(rstd), o, part, cut.rows);
    trk_fold(q, dq_gain, part, cut.count, 2 * o.width);
    trk_fold(q, dk_gain, part + o.width, cut.count, 2 * o.width);
}

/* Numbers of a head that a lane moves at once, so that a head of 128 takes all lanes. */
enum { AT_ONCE = 4 };

} // namespace

extern "C" void tr_cuda_head_norm(struct tr_queue *q, const struct tr_tensor *y,
                                  const struct tr_tensor *rstd, const struct tr_tensor *x,
                                  const struct tr_tensor *q_gain, const struct tr_tensor *k_gain,
                                  struct tr_heads_how heads, struct tr_norm_how how)
{
    const struct tr_heads_sizes s = tr_sizes_head_norm(y, rstd, x, q_gain, k_gain, heads);
    const parts_of_row parts = parts_of(heads);
    const int width = (int)s.width;

    TR_ASSERT(s.width <= TR_MAX_HEAD_DIM);
    if (same_type(y, x) && same_type(q_gain, k_gain) && same_type(x, q_gain) &&
        lie_well(s.width, y, x, q_gain, k_gain))
        with_float(x->dtype, [&](auto t) {
            using X = typed<decltype(t)>;

            head_norm_launch<AT_ONCE>(
                q, X{elements<decltype(t)>(y)}, rstd,
                head_norms<X, X>{X{elements<decltype(t)>(x)}, X{elements<decltype(t)>(q_gain)},
                                 X{elements<decltype(t)>(k_gain)}, parts, width, how.one, s.n},
                how.eps);
        });
    else
        head_norm_launch<1>(q, mixed_of(y), rstd,
                            head_norms<mixed, mixed>{mixed_of(x), mixed_of(q_gain),
                                                     mixed_of(k_gain), parts, width, how.one, s.n},
                            how.eps);
}

extern "C" void tr_cuda_head_norm_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                                      const struct tr_tensor *dq_gain,
                                      const struct tr_tensor *dk_gain, const struct tr_tensor *dy,
                                      const struct tr_tensor *x, const struct tr_tensor *q_gain,
                                      const struct tr_tensor *k_gain, const struct tr_tensor *rstd,
                                      struct tr_heads_how heads, struct tr_norm_how how)
{
    const struct tr_heads_sizes s = tr_sizes_head_norm(dx, rstd, x, q_gain, k_gain, heads);
    const parts_of_row parts = parts_of(heads);
    const int width = (int)s.width;

    tr_sizes_head_norm(dy, rstd, x, dq_gain, dk_gain, heads);
    TR_ASSERT(s.width <= TR_MAX_HEAD_DIM);
    if (same_type(dx, x) && same_type(dy, x) && same_type(q_gain, k_gain) && same_type(x, q_gain) &&
        lie_well(s.width, dx, dy, x, q_gain, k_gain))
        with_float(x->dtype, [&](auto t) {
            using X = typed<decltype(t)>;

            head_norm_bwd_launch<AT_ONCE>(
                q, X{elements<decltype(t)>(dx)}, X{elements<decltype(t)>(dy)}, rstd,
                head_norms<X, X>{X{elements<decltype(t)>(x)}, X{elements<decltype(t)>(q_gain)},
                                 X{elements<decltype(t)>(k_gain)}, parts, width, how.one, s.n},
                dq_gain, dk_gain);
        });
    else
        head_norm_bwd_launch<1>(q, mixed_of(dx), mixed_of(dy), rstd,
                                head_norms<mixed, mixed>{mixed_of(x), mixed_of(q_gain),
                                                         mixed_of(k_gain), parts, width, how.one,
                                                         s.n},
                                dq_gain, dk_gain);
}

/* ---- columns ---- */

namespace
{

/* Units of U: rows of y and x are y_row and x_row of them. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    columns_kernel(U *y, const U *x, int64_t n, int64_t y_row, int64_t x_row, int64_t count)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;

    if (row >= n)
        return;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        y[row * y_row + i] = x[row * x_row + i];
}

template <class U>
void columns_launch(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                    int64_t n, int64_t to, int64_t from, int64_t count)
{
    const int64_t bytes = tr_dtype_bytes(x->dtype), per = (int64_t)sizeof(U) / bytes;
    const dim3 block = block_of_rows(count / per, (int)THREADS);

    TR_LAUNCH(q, columns_kernel<U>, blocks_for(n, block.y, INT32_MAX), block, 0,
              elements<U>(y) + to / per, elements<const U>(x) + from / per, n,
              y->dim[y->ndim - 1] / per, x->dim[x->ndim - 1] / per, count / per);
}

} // namespace

extern "C" void tr_cuda_columns(struct tr_queue *q, const struct tr_tensor *y,
                                const struct tr_tensor *x, int64_t to, int64_t from, int64_t count)
{
    const int64_t n = tr_sizes_columns(y, x, to, from, count);
    const int64_t all = y->dim[y->ndim - 1] | x->dim[x->ndim - 1] | to | from | count;

    /* Numbers are moved as their bits. */
    if (all % 8 == 0 && on_16_bytes(y->data) && on_16_bytes(x->data))
        columns_launch<pack<uint32_t, 4>>(q, y, x, n, to, from, count);
    else if (x->dtype == TR_F32)
        columns_launch<uint32_t>(q, y, x, n, to, from, count);
    else
        columns_launch<uint16_t>(q, y, x, n, to, from, count);
}
