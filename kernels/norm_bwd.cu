/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.cuh"

/*
 * The gradient of a norm.  With g = dy * gain and u = (x - mean) * rstd
 *
 *     dx = dskip + rstd (g - mean(g) - u mean(g u)),   dgain += sum dy u,   dbias += sum dy
 *
 * where the means go along a row and the sums over all rows.  Up to NARROW elements a row, one
 * kernel reads everything once.  Wider rows, and operands that do not lie well, take two: the
 * means first, and then tiles of columns.  Either leaves the sums of slabs of rows in scratch,
 * gains before biases.  By the root mean square mean and mean(g) are 0, and no biases are there.
 */
namespace
{

/* Elements of a row that one thread has in the kernel for narrow rows, which has up to
   MOST_THREADS. */
enum { EACH = 8, MOST_THREADS = 1024, NARROW = EACH * MOST_THREADS, GOOD_THREADS = 512 };
enum { SLAB_ROWS = 16, TILE_WARPS = 8, THREADS = 256 };

/* The operands, as accessors.  LAYER stands for a layer norm whose gain is the parameter: a choice when kernels
   are compiled, so that it costs nothing. */
template <bool LAYER, class R, class A> struct norm_gradient {
    R dx, dskip, x;
    A dy, gain;
    const float *mean, *rstd; /* mean NULL: by the root mean square */
    int64_t n, h;
    bool one;

    TR_INLINE float mean_of(int64_t row) const { return LAYER || mean ? mean[row] : 0.0f; }
    template <int N> TR_INLINE void gain_of(int64_t i, float (&by)[N]) const
    {
        gain.get(i, by);
        TR_UNROLL
        for (int k = 0; k < N && !LAYER; k++)
            by[k] += one ? 1.0f : 0.0f;
    }
    /* What is subtracted from a gradient. */
    TR_INLINE float level(float g) const { return LAYER || mean ? g : 0.0f; }
};

struct means {
    float g, gu;
};

TR_INLINE means operator+(means a, means b)
{
    return means{a.g + b.g, a.gu + b.gu};
}

TR_INLINE means from_lane(means x, int other)
{
    return means{::from_lane(x.g, other), ::from_lane(x.gu, other)};
}

TR_INLINE float dx_of(float skip, float g, float u, float rstd, means m)
{
    return skip + rstd * (g - m.g - u * m.gu);
}

/* ---- rows that a block keeps in registers ---- */

/* What the rows of a block add to the sums of their columns: threads of one threadIdx.x have the
   same ones. */
template <int N>
TR_INLINE void leave_sums(float *part, int64_t h, const float (&sum)[EACH / N][N], float *room)
{
    const int span = (int)blockDim.x * EACH;

    for (int j = 0; j < EACH / N; j++)
        for (int k = 0; k < N; k++)
            room[(int)threadIdx.y * span + (j * N + k) * (int)blockDim.x + (int)threadIdx.x] =
                sum[j][k];
    __syncthreads();
    for (int e = (int)threadIdx.y; e < EACH; e += (int)blockDim.y) {
        const int at = e * (int)blockDim.x + (int)threadIdx.x;
        const int64_t i = ((int64_t)threadIdx.x + e / N * blockDim.x) * N + e % N;
        float all = room[at];

        for (int y = 1; y < (int)blockDim.y; y++)
            all += room[y * span + at];
        if (i < h)
            part[i] = all;
    }
}

/* A block takes a slab of rows, blockDim.y at a time. */
template <int N, bool LAYER, class R, class A>
__global__ void __launch_bounds__(MOST_THREADS)
    narrow_kernel(norm_gradient<LAYER, R, A> o, float *part, int64_t slab_rows)
{
    const int PER = EACH / N, h = (int)o.h;
    TR_SHARED(means, room, [2][GOOD_THREADS]);
    TR_DYNAMIC_SHARED(float, sums);
    const int64_t first = (int64_t)blockIdx.x * slab_rows, end = min(first + slab_rows, o.n);
    float to_gain[PER][N] = {}, to_bias[PER][N] = {};
    int turn = 0;

    for (int64_t start = first; start < end; start += blockDim.y, turn ^= 1) {
        const int64_t row = start + threadIdx.y;
        float dy[PER][N] = {}, x[PER][N] = {}, gain[N];
        float mean = 0.0f, rstd = 0.0f;
        means m = {0.0f, 0.0f};

        if (row < end) {
            mean = o.mean_of(row);
            rstd = o.rstd[row];
        }
        TR_UNROLL
        for (int j = 0; j < PER; j++) {
            const int i = ((int)threadIdx.x + j * (int)blockDim.x) * N;

            if (row >= end || i >= h)
                continue;
            o.dy.get(row * h + i, dy[j]);
            o.x.get(row * h + i, x[j]);
        }
        TR_UNROLL
        for (int j = 0; j < PER; j++) {
            const int i = ((int)threadIdx.x + j * (int)blockDim.x) * N;

            if (row >= end || i >= h)
                continue;
            o.gain_of(i, gain);
            TR_UNROLL
            for (int k = 0; k < N; k++) {
                x[j][k] = (x[j][k] - mean) * rstd;
                to_gain[j][k] = fmaf(dy[j][k], x[j][k], to_gain[j][k]);
                to_bias[j][k] += dy[j][k];
                dy[j][k] *= gain[k];
                m.g += dy[j][k];
                m.gu = fmaf(dy[j][k], x[j][k], m.gu);
            }
        }
        /* Two rooms in turn: a barrier lies between two uses of one, that of the other. */
        m = over_row(m, add_up(), room[turn]);
        m = means{o.level(m.g / (float)h), m.gu / (float)h};
        TR_UNROLL
        for (int j = 0; j < PER; j++) {
            const int i = ((int)threadIdx.x + j * (int)blockDim.x) * N;

            float skip[N] = {};

            if (row >= end || i >= h)
                continue;
            if (o.dskip.here())
                o.dskip.get(row * h + i, skip);
            TR_UNROLL
            for (int k = 0; k < N; k++)
                x[j][k] = dx_of(skip[k], dy[j][k], x[j][k], rstd, m);
            o.dx.set(row * h + i, x[j]);
        }
    }
    part += (int64_t)blockIdx.x * 2 * o.h;
    leave_sums<N>(part, o.h, to_gain, sums);
    __syncthreads();
    leave_sums<N>(part + o.h, o.h, to_bias, sums);
}

/* ---- rows of any width ---- */

/* m[row], by a block for each row. */
template <int N, bool LAYER, class R, class A>
__global__ void __launch_bounds__(THREADS) means_kernel(norm_gradient<LAYER, R, A> o, means *m)
{
    const int64_t row = blockIdx.x;
    TR_SHARED(means, room, [WARP]);
    const float mean = o.mean_of(row), rstd = o.rstd[row];
    means sum = {0.0f, 0.0f};

    for (int64_t i = (int64_t)threadIdx.x * N; i < o.h; i += THREADS * N) {
        float dy[N], x[N], gain[N];

        o.dy.get(row * o.h + i, dy);
        o.x.get(row * o.h + i, x);
        o.gain_of(i, gain);
        TR_UNROLL
        for (int k = 0; k < N; k++) {
            const float g = dy[k] * gain[k];

            sum.g += g;
            sum.gu = fmaf(g, (x[k] - mean) * rstd, sum.gu);
        }
    }
    sum = over_row(sum, add_up(), room);
    if (threadIdx.x == 0)
        m[row] = means{o.level(sum.g / (float)o.h), sum.gu / (float)o.h};
}

/* A block takes WARP groups of columns of one slab of rows, which its warps take in turn. */
template <int N, bool LAYER, class R, class A>
__global__ void __launch_bounds__(TILE_WARPS *WARP)
    tile_kernel(norm_gradient<LAYER, R, A> o, const means *m, float *part, int64_t slab_rows)
{
    TR_SHARED(float, room, [2][TILE_WARPS][WARP * N]);
    const int lane = (int)threadIdx.x, warp = (int)threadIdx.y;
    const int64_t i = ((int64_t)blockIdx.x * WARP + lane) * N;
    const int64_t first = (int64_t)blockIdx.y * slab_rows, end = min(first + slab_rows, o.n);
    float gain[N] = {}, to_gain[N] = {}, to_bias[N] = {};

    if (i < o.h)
        o.gain_of(i, gain);
    for (int64_t row = first + warp; i < o.h && row < end; row += TILE_WARPS) {
        const float mean = o.mean_of(row), rstd = o.rstd[row];
        const means of_row = m[row];
        float dy[N], x[N], skip[N] = {};

        o.dy.get(row * o.h + i, dy);
        o.x.get(row * o.h + i, x);
        if (o.dskip.here())
            o.dskip.get(row * o.h + i, skip);
        TR_UNROLL
        for (int k = 0; k < N; k++) {
            const float u = (x[k] - mean) * rstd;

            to_gain[k] = fmaf(dy[k], u, to_gain[k]);
            to_bias[k] += dy[k];
            x[k] = dx_of(skip[k], dy[k] * gain[k], u, rstd, of_row);
        }
        o.dx.set(row * o.h + i, x);
    }
    TR_UNROLL
    for (int k = 0; k < N; k++) {
        room[0][warp][k * WARP + lane] = to_gain[k];
        room[1][warp][k * WARP + lane] = to_bias[k];
    }
    __syncthreads();
    for (int c = warp; c < 2 * N; c += TILE_WARPS) {
        const int which = c / N, k = c % N;
        float all = room[which][0][k * WARP + lane];

        for (int w = 1; w < TILE_WARPS; w++)
            all += room[which][w][k * WARP + lane];
        if (i < o.h)
            part[((int64_t)blockIdx.y * 2 + which) * o.h + i + k] = all;
    }
}

/* ---- choice ---- */

struct norm_bwd_operands {
    const struct tr_tensor *dx, *dgain, *dbias, *dy, *dskip, *x, *gain, *mean, *rstd;
    struct tr_rows_sizes s;
};

void fold_both(struct tr_queue *q, const norm_bwd_operands &o, const float *part, unsigned count)
{
    trk_fold(q, o.dgain, part, count, 2 * o.s.h);
    if (o.dbias)
        trk_fold(q, o.dbias, part + o.s.h, count, 2 * o.s.h);
}

template <int N, bool LAYER, class R, class A>
void narrow_launch(struct tr_queue *q, const norm_bwd_operands &o,
                   const norm_gradient<LAYER, R, A> &g)
{
    const slabs cut = slabs_of(o.s.n, SLAB_ROWS, 2 * o.s.h, TR_CUDA_SCRATCH_BYTES);
    float *part =
        static_cast<float *>(tr_cuda_scratch(q, cut.count * 2 * (size_t)o.s.h * sizeof(float)));
    const int64_t groups = (o.s.h + EACH - 1) / EACH;
    const unsigned x = (unsigned)((groups + WARP - 1) / WARP * WARP);
    const unsigned y = x < GOOD_THREADS ? GOOD_THREADS / x : 1;

    TR_LAUNCH(q, (narrow_kernel<N, LAYER, R, A>), cut.count, dim3(x, y),
              x * y * EACH * sizeof(float), g, part, cut.rows);
    fold_both(q, o, part, cut.count);
}

template <int N, bool LAYER, class R, class A>
void wide_launch(struct tr_queue *q, const norm_bwd_operands &o,
                 const norm_gradient<LAYER, R, A> &g)
{
    const size_t means_bytes = (size_t)o.s.n * sizeof(means);
    const slabs cut =
        slabs_of(o.s.n, 2 * SLAB_ROWS, 2 * o.s.h, TR_CUDA_SCRATCH_BYTES - means_bytes);
    const size_t part_bytes = cut.count * 2 * (size_t)o.s.h * sizeof(float);
    unsigned char *scratch =
        static_cast<unsigned char *>(tr_cuda_scratch(q, part_bytes + means_bytes));
    float *part = reinterpret_cast<float *>(scratch);
    means *m = reinterpret_cast<means *>(scratch + part_bytes);

    TR_LAUNCH(q, (means_kernel<N, LAYER, R, A>), (unsigned)o.s.n, THREADS, 0, g, m);
    TR_LAUNCH(q, (tile_kernel<N, LAYER, R, A>),
              dim3(blocks_for(o.s.h, WARP * N, INT32_MAX), cut.count), dim3(WARP, TILE_WARPS), 0, g,
              m, part, cut.rows);
    fold_both(q, o, part, cut.count);
}

/* With operands that lie well. */
template <bool LAYER, class R, class A>
void choose(struct tr_queue *q, const norm_bwd_operands &o, struct tr_norm_how how)
{
    const int N = both<R, A>::N;
    const norm_gradient<LAYER, typed<R>, typed<A>> g = {typed_of<R>(o.dx),
                                                        typed_of<R>(o.dskip),
                                                        typed_of<R>(o.x),
                                                        typed_of<A>(o.dy),
                                                        typed_of<A>(o.gain),
                                                        elements<float>(o.mean),
                                                        elements<float>(o.rstd),
                                                        o.s.n,
                                                        o.s.h,
                                                        how.one};

    if (o.s.h <= NARROW)
        narrow_launch<N>(q, o, g);
    else
        wide_launch<N>(q, o, g);
}

} // namespace

extern "C" void tr_cuda_norm_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                                 const struct tr_tensor *dgain, const struct tr_tensor *dbias,
                                 const struct tr_tensor *dy, const struct tr_tensor *dskip,
                                 const struct tr_tensor *x, const struct tr_tensor *gain,
                                 const struct tr_tensor *mean, const struct tr_tensor *rstd,
                                 struct tr_norm_how how)
{
    const norm_bwd_operands o = {
        dx,    dgain,
        dbias, dy,
        dskip, x,
        gain,  mean,
        rstd,  tr_sizes_norm_bwd(dx, dgain, dbias, dy, dskip, x, gain, mean, rstd, how)};

    if (same_type(dx, x) && (!dskip || same_type(dx, dskip)) && same_type(dy, gain) &&
        lie_well(o.s.h, dx, dskip, x, dy, gain) &&
        with_pair(x->dtype, dy->dtype, [&](auto stream, auto inner) {
            if (how.rms || how.one)
                choose<false, decltype(stream), decltype(inner)>(q, o, how);
            else
                choose<true, decltype(stream), decltype(inner)>(q, o, how);
        }))
        return;
    wide_launch<1>(q, o,
                   norm_gradient<false, mixed, mixed>{
                       mixed_of(dx), mixed_of(dskip), mixed_of(x), mixed_of(dy), mixed_of(gain),
                       elements<float>(mean), elements<float>(rstd), o.s.n, o.s.h, how.one});
}
