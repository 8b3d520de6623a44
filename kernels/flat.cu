/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

/*
 * What is done to flat operands, element by element.  Nothing but memory counts here: a thread
 * asks for AHEAD groups of 16 bytes from each operand before it uses the first, so that enough is
 * under way.
 */
enum { THREADS = 256, AHEAD = 4, PARTS = 1024 };

namespace
{

/* ---- which elements are moved together ---- */

/* Elements 0 .. head - 1 alone, then groups of N that lie on their boundaries, then the rest
   alone. */
struct span {
    int64_t n, head, groups;
};

template <int N, class T> bool begins_group(const T *p, int64_t i)
{
    const size_t bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;

    return !p || (uintptr_t)(p + i) % bytes == 0;
}

/* True if groups of N elements can begin at the same element of all operands. */
template <int N, class... T> bool find_span(int64_t n, span *s, const T *...p)
{
    for (int64_t head = 0; head < N; head++)
        if ((begins_group<N>(p, head) && ...)) {
            *s = head < n ? span{n, head, (n - head) / N} : span{n, n, 0};
            return true;
        }
    return false;
}

unsigned blocks_of(const span &s)
{
    return blocks_for(s.groups, THREADS * AHEAD, INT32_MAX);
}

/* The k-th element that is in no group, k < lone(). */
template <int N> TR_INLINE int64_t lone(const span &s)
{
    return s.n - s.groups * N;
}

template <int N> TR_INLINE int64_t lone_at(const span &s, int64_t k)
{
    return k < s.head ? k : k + s.groups * N;
}

/* ---- fill, copy: bytes ---- */

/* `bytes` from an element on; pattern is 16 bytes of elements.  The caller's groups are of 16
   bytes. */
__global__ void fill_kernel(unsigned char *y, span s, uint4 pattern)
{
    const int64_t first = (int64_t)blockIdx.x * THREADS * AHEAD + threadIdx.x;
    unsigned char one[16];

    memcpy(one, &pattern, sizeof one);
    for (int u = 0; u < AHEAD; u++)
        if (first + u * THREADS < s.groups)
            *reinterpret_cast<uint4 *>(y + s.head + (first + u * THREADS) * 16) = pattern;
    if (blockIdx.x == 0 && threadIdx.x < lone<16>(s)) {
        const int64_t i = lone_at<16>(s, threadIdx.x);

        y[i] = one[i % 16];
    }
}

template <class T> static void fill(struct tr_queue *q, const struct tr_tensor *y, T value)
{
    unsigned char *to = elements<unsigned char>(y);
    const int64_t bytes = tr_tensor_bytes(y);
    T values[16 / sizeof(T)];
    uint4 pattern;
    span s;

    for (T &v : values)
        v = value;
    memcpy(&pattern, values, sizeof pattern);
    TR_ASSERT(find_span<16>(bytes, &s, to));
    TR_LAUNCH(q, fill_kernel, blocks_of(s), THREADS, 0, to, s, pattern);
}

} // namespace

extern "C" const void *tr_cuda_any_kernel(void)
{
    return reinterpret_cast<const void *>(&fill_kernel);
}

extern "C" void tr_cuda_fill(struct tr_queue *q, const struct tr_tensor *y, float value)
{
    TR_ASSERT(y->dtype != TR_I32);
    if (y->dtype == TR_F64)
        fill(q, y, (double)value);
    else if (y->dtype == TR_F32)
        fill(q, y, value);
    else
        fill(q, y, y->dtype == TR_F16 ? tr_f16_from_float(value) : tr_bf16_from_float(value));
}

namespace
{

/* Groups of N units U, which are a move each. */
template <class U, int N> __global__ void copy_kernel(U *y, const U *x, span s)
{
    const int64_t first = (int64_t)blockIdx.x * THREADS * AHEAD + threadIdx.x;
    pack<U, N> moved[AHEAD];

    TR_UNROLL
    for (int u = 0; u < AHEAD; u++)
        if (first + u * THREADS < s.groups)
            moved[u] = load<N>(x + s.head + (first + u * THREADS) * N);
    TR_UNROLL
    for (int u = 0; u < AHEAD; u++)
        if (first + u * THREADS < s.groups)
            store<N>(y + s.head + (first + u * THREADS) * N, moved[u]);
    if (blockIdx.x == 0 && threadIdx.x < lone<N>(s))
        y[lone_at<N>(s, threadIdx.x)] = x[lone_at<N>(s, threadIdx.x)];
}

template <class U>
void copy_bits(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    const int64_t units = tr_tensor_bytes(x) / (int64_t)sizeof(U);
    const int N = wide<U>::N;
    U *to = elements<U>(y), *from = elements<U>(x);
    span s;

    if (find_span<N>(units, &s, to, from)) {
        TR_LAUNCH(q, (copy_kernel<U, N>), blocks_of(s), THREADS, 0, to, from, s);
    } else {
        s = span{units, 0, units};
        TR_LAUNCH(q, (copy_kernel<U, 1>), blocks_of(s), THREADS, 0, to, from, s);
    }
}

/* ---- copy, add, scale: y = op(y, x) ---- */

struct convert {
    static const bool READS = false;
    TR_INLINE float operator()(float, float x) const { return x; }
};

struct increase {
    static const bool READS = true;
    TR_INLINE float operator()(float y, float x) const { return y + x; }
};

struct multiply {
    static const bool READS = true;
    float factor;
    TR_INLINE float operator()(float y, float) const { return y * factor; }
};

template <int N, class Y, class X, class Op> __global__ void map_kernel(Y y, X x, span s, Op op)
{
    const int64_t first = (int64_t)blockIdx.x * THREADS * AHEAD + threadIdx.x;
    float a[AHEAD][N], b[AHEAD][N];

    TR_UNROLL
    for (int u = 0; u < AHEAD; u++) {
        const int64_t i = s.head + (first + u * THREADS) * N;

        if (first + u * THREADS >= s.groups)
            continue;
        if (Op::READS)
            y.get(i, a[u]);
        x.get(i, b[u]);
    }
    TR_UNROLL
    for (int u = 0; u < AHEAD; u++) {
        if (first + u * THREADS >= s.groups)
            continue;
        TR_UNROLL
        for (int k = 0; k < N; k++)
            a[u][k] = op(Op::READS ? a[u][k] : 0.0f, b[u][k]);
        y.set(s.head + (first + u * THREADS) * N, a[u]);
    }
    if (blockIdx.x == 0 && threadIdx.x < lone<N>(s)) {
        const int64_t i = lone_at<N>(s, threadIdx.x);

        y.set(i, op(Op::READS ? y.get(i) : 0.0f, x.get(i)));
    }
}

template <class Y, class X, class Op>
bool map_typed(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x, Op op)
{
    const int N = both<Y, X>::N;
    span s;

    if (!find_span<N>(tr_tensor_elems(y), &s, elements<Y>(y), elements<X>(x)))
        return false;
    TR_LAUNCH(q, (map_kernel<N, typed<Y>, typed<X>, Op>), blocks_of(s), THREADS, 0, typed_of<Y>(y),
              typed_of<X>(x), s, op);
    return true;
}

template <class Op>
void map_mixed(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x, Op op)
{
    const span s = {tr_tensor_elems(y), 0, tr_tensor_elems(y)};

    TR_LAUNCH(q, (map_kernel<1, mixed, mixed, Op>), blocks_of(s), THREADS, 0, mixed_of(y),
              mixed_of(x), s, op);
}

} // namespace

extern "C" void tr_cuda_copy(struct tr_queue *q, const struct tr_tensor *y,
                             const struct tr_tensor *x)
{
    bool done = false;

    tr_sizes_copy(y, x);
    if (y->dtype == x->dtype) {
        if (tr_dtype_bytes(x->dtype) == 2)
            copy_bits<uint16_t>(q, y, x);
        else if (tr_dtype_bytes(x->dtype) == 1)
            copy_bits<uint8_t>(q, y, x);
        else
            copy_bits<uint32_t>(q, y, x);
        return;
    }
    /* Between fp32 and halves, either way. */
    if (y->dtype == TR_F32)
        with_float(x->dtype,
                   [&](auto from) { done = map_typed<float, decltype(from)>(q, y, x, convert()); });
    else if (x->dtype == TR_F32)
        with_float(y->dtype,
                   [&](auto to) { done = map_typed<decltype(to), float>(q, y, x, convert()); });
    if (!done)
        map_mixed(q, y, x, convert());
}

extern "C" void tr_cuda_add(struct tr_queue *q, const struct tr_tensor *y,
                            const struct tr_tensor *x)
{
    bool done = false;

    tr_sizes_flat(y, x, x, x);
    with_pair(y->dtype, x->dtype, [&](auto to, auto from) {
        done = map_typed<decltype(to), decltype(from)>(q, y, x, increase());
    });
    if (!done)
        map_mixed(q, y, x, increase());
}

extern "C" void tr_cuda_scale(struct tr_queue *q, const struct tr_tensor *y, float factor)
{
    const multiply op = {factor};

    tr_sizes_flat(y, y, y, y);
    with_float(y->dtype, [&](auto type) {
        using T = decltype(type);
        const int N = wide<T>::N;
        span s;

        TR_ASSERT(find_span<N>(tr_tensor_elems(y), &s, elements<T>(y)));
        TR_LAUNCH(q, (map_kernel<N, typed<T>, absent, multiply>), blocks_of(s), THREADS, 0,
                  typed_of<T>(y), absent(), s, op);
    });
}

namespace
{

/* ---- sums in double ---- */

struct product {
    TR_INLINE double operator()(float x, float w) const { return (double)x * (double)w; }
};

struct square {
    TR_INLINE double operator()(float x, float) const { return (double)x * (double)x; }
};

struct is_zero {
    TR_INLINE double operator()(float x, float) const { return x == 0.0f ? 1.0 : 0.0; }
};

/* N elements, which lie on boundaries or do not: what is summed where must not depend on that. */
template <int N, class X> TR_INLINE void get_any(X x, int64_t i, bool aligned, float (&out)[N])
{
    if (aligned) {
        x.get(i, out);
    } else {
        TR_UNROLL
        for (int k = 0; k < N; k++)
            out[k] = x.get(i + k);
    }
}

/* partial[block] = the sum of term(x, w) over the groups of the block; the first has the rest. */
template <int N, class X, class W, class Term>
__global__ void partial_kernel(X x, W w, span s, bool aligned, Term term, double *partial)
{
    const int64_t stride = (int64_t)gridDim.x * THREADS;
    TR_SHARED(double, room, [WARP]);
    double sum = 0.0;

    for (int64_t g = (int64_t)blockIdx.x * THREADS + threadIdx.x; g < s.groups;
         g += AHEAD * stride) {
        float a[AHEAD][N], b[AHEAD][N];

        TR_UNROLL
        for (int u = 0; u < AHEAD; u++)
            if (g + u * stride < s.groups) {
                get_any(x, (g + u * stride) * N, aligned, a[u]);
                get_any(w, (g + u * stride) * N, aligned, b[u]);
            }
        TR_UNROLL
        for (int u = 0; u < AHEAD; u++)
            if (g + u * stride < s.groups) {
                TR_UNROLL
                for (int k = 0; k < N; k++)
                    sum += term(a[u][k], b[u][k]);
            }
    }
    if (blockIdx.x == 0 && threadIdx.x < lone<N>(s))
        sum += term(x.get(lone_at<N>(s, threadIdx.x)), w.get(lone_at<N>(s, threadIdx.x)));
    sum = over_row(sum, add_up(), room);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

__global__ void total_kernel(double *out, const double *partial, int parts)
{
    TR_SHARED(double, room, [WARP]);
    double sum = 0.0;

    for (int i = (int)threadIdx.x; i < parts; i += THREADS)
        sum += partial[i];
    sum = over_row(sum, add_up(), room);
    if (threadIdx.x == 0)
        *out += sum;
}

template <int N, class Term, class X, class W>
void sum_up(struct tr_queue *q, const struct tr_tensor *out, X x, W w, int64_t n, bool aligned,
            Term term)
{
    const span s = {n, 0, n / N};
    const unsigned parts = blocks_for(s.groups, THREADS * AHEAD, PARTS);
    double *partial = static_cast<double *>(tr_cuda_scratch(q, PARTS * sizeof(double)));

    tr_sizes_scalar(out);
    TR_LAUNCH(q, (partial_kernel<N, X, W, Term>), parts, THREADS, 0, x, w, s, aligned, term,
              partial);
    TR_LAUNCH(q, total_kernel, 1, THREADS, 0, elements<double>(out), partial, (int)parts);
}

template <class Term>
void sum_of_one(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x,
                Term term)
{
    with_float(x->dtype, [&](auto type) {
        using T = decltype(type);

        sum_up<wide<T>::N>(q, out, typed_of<T>(x), absent(), tr_tensor_elems(x),
                           on_16_bytes(x->data), term);
    });
}

} // namespace

extern "C" void tr_cuda_sumsq(struct tr_queue *q, const struct tr_tensor *out,
                              const struct tr_tensor *x)
{
    sum_of_one(q, out, x, square());
}

extern "C" void tr_cuda_count_zeros(struct tr_queue *q, const struct tr_tensor *out,
                                    const struct tr_tensor *x)
{
    sum_of_one(q, out, x, is_zero());
}

extern "C" void tr_cuda_weighted_sum(struct tr_queue *q, const struct tr_tensor *out,
                                     const struct tr_tensor *x, const struct tr_tensor *w)
{
    const int64_t n = tr_sizes_flat(x, w, w, w);

    if (x->dtype == TR_F32 && w->dtype == TR_F32)
        sum_up<wide<float>::N>(q, out, typed_of<float>(x), typed_of<float>(w), n,
                               on_16_bytes(x->data) && on_16_bytes(w->data), product());
    else
        sum_up<1>(q, out, mixed_of(x), mixed_of(w), n, true, product());
}

namespace
{

/* ---- adamw ---- */

/* struct tr_adamw with its quotients taken, in double. */
struct adamw_numbers {
    float beta1, beta2, to_m, to_v, rate, unbias, shrink, eps, factor;
};

TR_INLINE void adamw_one(const adamw_numbers &a, float g, float &p, float &m, float &v)
{
    g *= a.factor;
    m = fmaf(a.to_m, g, a.beta1 * m);
    v = fmaf(a.to_v * g, g, a.beta2 * v);
    p = fmaf(a.shrink, p, -(a.rate * m) / (sqrtf(v * a.unbias) + a.eps));
}

template <int N, class G, class H>
__global__ void adamw_kernel(H half, typed<float> p, typed<float> m, typed<float> v, G g, span s,
                             adamw_numbers how)
{
    const int64_t group = (int64_t)blockIdx.x * THREADS + threadIdx.x, i = s.head + group * N;
    float px[N], mx[N], vx[N], gx[N];

    if (group < s.groups) {
        g.get(i, gx);
        p.get(i, px);
        m.get(i, mx);
        v.get(i, vx);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            adamw_one(how, gx[k], px[k], mx[k], vx[k]);
        m.set(i, mx);
        v.set(i, vx);
        p.set(i, px);
        if (half.here())
            half.set(i, px);
    }
    if (blockIdx.x == 0 && threadIdx.x < lone<N>(s)) {
        const int64_t one = lone_at<N>(s, threadIdx.x);
        float p1 = p.get(one), m1 = m.get(one), v1 = v.get(one);

        adamw_one(how, g.get(one), p1, m1, v1);
        m.set(one, m1);
        v.set(one, v1);
        p.set(one, p1);
        if (half.here())
            half.set(one, p1);
    }
}

adamw_numbers numbers_of(const struct tr_adamw &how)
{
    adamw_numbers a;

    a.beta1 = how.beta1;
    a.beta2 = how.beta2;
    a.to_m = (float)(1.0 - (double)how.beta1);
    a.to_v = (float)(1.0 - (double)how.beta2);
    a.rate = (float)((double)how.lr / (double)how.bias1);
    a.unbias = (float)(1.0 / (double)how.bias2);
    a.shrink = (float)(1.0 - (double)how.lr * (double)how.decay);
    a.eps = how.eps;
    a.factor = how.grad_scale;
    return a;
}

struct adamw_operands {
    const struct tr_tensor *half, *p, *m, *v, *g;
};

template <int N, class G, class H>
void adamw_launch(struct tr_queue *q, const adamw_operands &o, H half, G g, const span &s,
                  const struct tr_adamw &how)
{
    TR_LAUNCH(q, (adamw_kernel<N, G, H>), blocks_for(s.groups, THREADS, INT32_MAX), THREADS, 0,
              half, typed_of<float>(o.p), typed_of<float>(o.m), typed_of<float>(o.v), g, s,
              numbers_of(how));
}

/* True if it did it. */
template <class G, class H>
bool adamw_typed(struct tr_queue *q, const adamw_operands &o, const struct tr_adamw &how)
{
    const int N = wide<float>::N;
    span s;

    if (!find_span<N>(tr_tensor_elems(o.p), &s, elements<H>(o.half), elements<float>(o.p),
                      elements<float>(o.m), elements<float>(o.v), elements<G>(o.g)))
        return false;
    adamw_launch<N>(q, o, typed_of<H>(o.half), typed_of<G>(o.g), s, how);
    return true;
}

} // namespace

extern "C" void tr_cuda_adamw(struct tr_queue *q, const struct tr_tensor *half,
                              const struct tr_tensor *p, const struct tr_tensor *m,
                              const struct tr_tensor *v, const struct tr_tensor *g,
                              struct tr_adamw how)
{
    const int64_t n = tr_sizes_adamw(half, p, m, v, g);
    const adamw_operands o = {half, p, m, v, g};
    const enum tr_dtype gradient = g->dtype, copy = half ? half->dtype : TR_F32;
    bool done = false;

    /* Without a copy `half` is NULL, and then its type does not matter. */
    if (gradient == TR_F32 && copy == TR_F16)
        done = adamw_typed<float, f16>(q, o, how);
    else if (gradient == TR_F32)
        done = adamw_typed<float, bf16>(q, o, how);
    else if (gradient == TR_F16 && copy == TR_F16)
        done = adamw_typed<f16, f16>(q, o, how);
    if (!done)
        adamw_launch<1>(q, o, mixed_of(half), mixed_of(g), span{n, 0, n}, how);
}
