/* SPDX-License-Identifier: BSD-3-Clause */
#include "emulate.h"

#include <cstdlib>
#include <vector>
#ifdef TR_WATCHED
#include "watch.h"
#endif

extern "C" {
#include "check.h"
#include "device/cuda/cuda_attention.h"
#include "device/cuda/cuda_kernel.h"
#include "device/ref/ref.h"
#include "util/half.h"
#include "util/rng.h"
}

/*
 * The kernels of attention, emulated, against the plain meaning of the operation: sizes around the
 * edges of tiles, every type, documents, dropout; forward and backward.  What a kernel overwrites
 * is NaN before, what it must not touch is compared afterwards, and threads run in another order in
 * every trial.
 *
 * The GPU here is what this file makes of it: its generation, and scratch that is no longer than
 * what was asked for.
 */
static int arch;
static std::vector<unsigned char> scratch;

static void on_gpu(int generation)
{
    arch = generation;
    trk_emulate_gpu(generation);
    trk_emulate_code(generation);
}

extern "C" int tr_cuda_arch(const struct tr_queue *q)
{
    (void)q;
    return arch;
}

extern "C" size_t tr_cuda_shared(const struct tr_queue *q)
{
    (void)q;
    return trk_emulated_shared(arch);
}

extern "C" void *tr_cuda_stream(const struct tr_queue *q)
{
    (void)q;
    return nullptr;
}

extern "C" void *tr_cuda_scratch(const struct tr_queue *q, size_t bytes)
{
    (void)q;
    assert_true(bytes <= TR_CUDA_SCRATCH_BYTES);
    std::vector<unsigned char>(bytes, 0xff).swap(scratch);
    return scratch.data();
}

static const double MOST_TURNS = 1.12;

enum { OLD = 60, NEW = 90 }; /* without tensor cores, and with all of them */

/* ---- operands ---- */

/* A tensor between guards, on 16 bytes and no more, or one element behind. */
struct operand {
    struct tr_tensor t;
    std::vector<unsigned char> block, before;

    operand(enum tr_dtype type, int64_t n, int64_t columns, bool shifted)
    {
        enum { GUARD = 64 };
        size_t bytes = (size_t)(n * columns) * (size_t)tr_dtype_bytes(type);

        t = tr_tensor_2(nullptr, type, n, columns);
        block.assign(bytes + 3 * GUARD, 0xa5);
        from = ((uintptr_t)block.data() + GUARD) / 32 * 32 + 48 - (uintptr_t)block.data();
        from += shifted ? (size_t)tr_dtype_bytes(type) : 0;
        to = from + bytes;
        t.data = block.data() + from;
    }
    operand(const operand &) = delete;

    double get(int64_t i) const
    {
        return t.dtype == TR_F32   ? (double)tr_f32(&t)[i]
               : t.dtype == TR_F16 ? (double)tr_f16_to_float(tr_half(&t)[i])
                                   : (double)tr_bf16_to_float(tr_half(&t)[i]);
    }
    void set(int64_t i, float x)
    {
        if (t.dtype == TR_F32)
            tr_f32(&t)[i] = x;
        else
            tr_half(&t)[i] = t.dtype == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
    }
    void fill(float x)
    {
        for (int64_t i = 0; i < tr_tensor_elems(&t); i++)
            set(i, x);
    }
    /* Numbers around 0 with the deviation 1. */
    void draw(int item)
    {
        std::vector<float> x((size_t)tr_tensor_elems(&t));

        tr_rng_normal(tr_rng_key(5, TR_STREAM_INIT, 0, item), 0, (int64_t)x.size(), x.data());
        for (size_t i = 0; i < x.size(); i++)
            set((int64_t)i, x[i]);
    }
    void seal() { before = block; }
    /* Nothing but its own elements was written, and those only of a result. */
    void check(bool result, const char *what) const
    {
        for (size_t i = 0; i < block.size(); i++)
            if ((!result || i < from || i >= to) && block[i] != before[i])
                fail_msg("%s was written at byte %lld of %lld", what,
                         (long long)i - (long long)from, (long long)(to - from));
    }

  private:
    size_t from, to;
};

/* Squared relative error; allowed is what ops.def allows that type. */
static double error_of(const operand &got, const operand &want)
{
    double error = 0.0, norm = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(&want.t); i++) {
        const double g = got.get(i), w = want.get(i);

        if (!(g - w < INFINITY && w - g < INFINITY))
            return INFINITY;
        error += (g - w) * (g - w);
        norm += w * w;
    }
    return error == 0.0 ? 0.0 : error / norm;
}

/*
 * Of halves ops.def allows 4 u^2, and where they are many it is less, as in tests/device/trial.c:
 * two of them, the largest, may be neighbours of what is wanted, and 1/8 u^2 is for the rest.
 * Probabilities and gradients of scores as halves add up to 0.21 u^2 to ctx and 0.34 u^2 to dqkv.
 */
static void compare(const char *what, const operand &got, const operand &want, double tol)
{
    const double u2 = got.t.dtype == TR_F16 ? 0x1p-22 : 0x1p-16;
    const double rest = arch == OLD ? 0.125 : 0.625;
    double most = 0.0, norm = 0.0, error = error_of(got, want), allowed = tol;

    for (int64_t i = 0; i < tr_tensor_elems(&want.t); i++) {
        const double square = want.get(i) * want.get(i);

        most = fmax(most, square);
        norm += square;
    }
    if (got.t.dtype != TR_F32)
        allowed = norm > 0.0 ? fmin(4.0, 8.0 * most / norm + rest) * u2 : 0.0;
    if (!(error <= allowed))
        fail_msg("%s (%s) is off by %.3g, allowed %.3g", what, tr_dtype_name(got.t.dtype), error,
                 allowed);
}

/* ---- one trial ---- */

struct trial {
    int64_t b, heads, t, d;
    enum tr_dtype qkv, ctx, dctx, dqkv;
    bool documents, shifted;
    double p, scale;
    int number;
    int64_t sharing = 0, window = 0; /* heads that share a key, 0: one; 0: no window */
    bool slopes = false;

    int64_t row() const { return (heads + 2 * (sharing ? heads / sharing : heads)) * d; }
};

static const char *name_of(const trial &x)
{
    static char name[200];

    snprintf(name, sizeof name,
             "B %d, heads %d, T %d, D %d, qkv in %s, ctx in %s, p %g%s%s, sharing %d, window %d%s",
             (int)x.b, (int)x.heads, (int)x.t, (int)x.d, tr_dtype_name(x.qkv), tr_dtype_name(x.ctx),
             x.p, x.documents ? ", documents" : "", x.shifted ? ", shifted" : "", (int)x.sharing,
             (int)x.window, x.slopes ? ", slopes" : "");
    return name;
}

/* One set of operands, as often as there are implementations. */
struct run {
    operand ctx, lse, qkv, dqkv, dctx;
    struct tr_tensor lse3, from_t, slopes_t;
    std::vector<int32_t> from;
    std::vector<float> slopes;
    std::vector<int64_t> sample;
    struct tr_dropout drop = {};
    float scale;
    const trial &x;

    explicit run(const trial &y)
        : ctx(y.ctx, y.b * y.t, y.heads * y.d, y.shifted), lse(TR_F32, y.b * y.heads, y.t, true),
          qkv(y.qkv, y.b * y.t, y.row(), y.shifted), dqkv(y.dqkv, y.b * y.t, y.row(), y.shifted),
          dctx(y.dctx, y.b * y.t, y.heads * y.d, y.shifted), x(y)
    {
        ctx.fill(NAN);
        lse.fill(NAN);
        dqkv.fill(NAN);
        qkv.draw(2 * x.number);
        dctx.draw(2 * x.number + 1);
        lse3 = tr_tensor_3(lse.t.data, TR_F32, x.b, x.heads, x.t);
        scale = (float)(x.scale / sqrt((double)x.d));
        divide();
        drop.p = x.p;
        drop.seed = UINT64_C(0x123456789abcdef);
        drop.stream = TR_STREAM_ATTN_DROPOUT;
        drop.site = 11;
        for (int64_t i = 0; i < x.b; i++)
            sample.push_back(((int64_t)1 << 33) + 100 - 7 * i);
        drop.sample = sample.data();
        drop.tokens = x.t;
        for (int64_t h = 0; h < x.heads; h++)
            slopes.push_back(0.5f / (float)(h + 1));
        slopes_t = tr_tensor_1(slopes.data(), TR_F32, x.heads);
        seal();
    }

    void seal()
    {
        for (operand *o : {&ctx, &lse, &qkv, &dqkv, &dctx})
            o->seal();
    }

    /* A sample begins with one document and ends with short ones. */
    void divide()
    {
        int32_t begun = 0;

        for (int64_t n = 0; n < x.b * x.t; n++) {
            const int32_t token = (int32_t)(n % x.t);

            if (token == 0 || (token > x.t / 3 && (token * 7 + (int32_t)n / 3) % 31 == 0) ||
                (n >= x.t && token == x.t / 2))
                begun = token;
            from.push_back(begun);
        }
        from_t = tr_tensor_1(from.data(), TR_I32, x.b * x.t);
    }

    const struct tr_tensor *documents() const { return x.documents ? &from_t : nullptr; }

    struct tr_attention_how how() const
    {
        return {5, scale, x.window, x.slopes ? &slopes_t : nullptr};
    }

    template <class F> void forward(F attention)
    {
        attention(nullptr, &ctx.t, &lse3, &qkv.t, documents(), how(), drop);
        ctx.check(true, "ctx");
        lse.check(true, "lse");
        qkv.check(false, "qkv");
    }
    template <class F> void backward(F attention_bwd)
    {
        seal();
        attention_bwd(nullptr, &dqkv.t, &dctx.t, &ctx.t, &lse3, &qkv.t, documents(), how(), drop);
        dqkv.check(true, "dqkv");
        for (operand *o : {&ctx, &lse, &qkv, &dctx})
            o->check(false, "an operand of the gradient");
    }
    /* What the forward operation gave is the same for all. */
    void take(const run &other)
    {
        memcpy(ctx.t.data, other.ctx.t.data, (size_t)tr_tensor_bytes(&ctx.t));
        memcpy(lse.t.data, other.lse.t.data, (size_t)tr_tensor_bytes(&lse.t));
    }
};

static void own(run &r, const run &ref, int generation)
{
    const uint64_t before = emulate::barriers();

    on_gpu(generation);
    r.forward(tr_cuda_attention_own);
    compare("ctx", r.ctx, ref.ctx, 1e-11);
    compare("lse", r.lse, ref.lse, 1e-11);
    r.take(ref);
    if (fabs(r.x.scale) > 1.0)
        return;
    r.backward(tr_cuda_attention_own_bwd);
    compare("dqkv", r.dqkv, ref.dqkv, 1e-10);
    assert_true(emulate::barriers() > before);
}

/* Every generation for every trial, and all widths everywhere; else they take turns, and what is slow under the
   watch for races is tried less. */
static bool all_of_them(void)
{
    return getenv("TR_TEST_ALL") != nullptr;
}

static void check(const trial &x)
{
    run ref(x), plain(x);
    int turn = x.number;

    print_message("# %s\n", name_of(x));
    ref.forward(tr_ref_attention);
    ref.backward(tr_ref_attention_bwd);
    emulate::seed((uint64_t)x.number);
    own(plain, ref, OLD);
    for (int generation : {70, 75, 86, 90}) {
        run fast(x);

        /* The others would do the same again; what the kernels of sm_75 and sm_86 differ in is the type. */
        if (x.qkv == TR_F32 || (x.qkv == TR_F16 && generation == 86) ||
            (x.qkv == TR_BF16 && generation < 80))
            continue;
        if ((x.d > 128 || !all_of_them()) && turn++ % 2 != 0)
            continue;
        own(fast, ref, generation);
        compare("ctx of the two kernels", fast.ctx, plain.ctx, 1e-11);
        if (fabs(x.scale) <= 1.0)
            compare("dqkv of the two kernels", fast.dqkv, plain.dqkv, 1e-10);
    }
}

/* ---- tests ---- */

/* Every size with a few of everything else; samples and heads are few where they are large. */
static void sizes(enum tr_dtype type)
{
    static const int64_t tokens[] = {1, 7, 63, 64, 65, 130, 257};
    static const int64_t widths[] = {5, 16, 64, 72, 80, 96, 128, 160, 224, 320};
    int number = 100 * (int)type;

    for (int64_t t : tokens)
        for (const int64_t &d : widths) {
            const int64_t work = t * t * d;
            const int many = work > 1000000 ? 1 : work > 200000 ? 2 : 3;
            /* Edges of tiles are the same for other widths. */
            const bool often = d == 5 || d == 64 || d == 128 || t == 1 || t == 65 || t == 130;
            trial x = {};

            number++;
#ifdef TR_SANITIZERS
            /* Five times slower.  What is left still has heads of every width, and more than one tile of
               rows and of columns. */
            if (many < 3 && !(t == 130 && d % 64 == 0))
                continue;
#endif
            if (!often || (t == 257 && d != 64 && !all_of_them()))
                continue;
            /* Where it takes long types take turns; 65 tokens, one more than a tile, have all widths. */
            if (t == 130 && (&d - widths + (int)type) % 3 != 0 && !all_of_them())
                continue;
            x.b = many > 1 ? 2 : 1;
            x.heads = many;
            x.t = t;
            x.d = d;
            x.qkv = x.ctx = x.dctx = x.dqkv = type;
            x.documents = number % 2 == 0;
            x.p = number % 3 == 0 ? 0.0 : number % 3 == 1 ? 0.1 : 0.5;
            x.scale = 1.0;
            x.number = number;
            check(x);
        }
}

static void test_fp32(void **state)
{
    (void)state;
    sizes(TR_F32);
}

static void test_fp16(void **state)
{
    (void)state;
    sizes(TR_F16);
}

static void test_bf16(void **state)
{
    (void)state;
    sizes(TR_BF16);
}

/*
 * Keys that heads share, windows that end in the middle of a tile, at its edge and within one, and ALiBi: each alone
 * and together, with and without documents and dropout.  Each with two types of three.
 */
static void test_groups_windows_slopes(void **state)
{
    static const struct {
        int64_t heads, sharing, t, d, window;
        bool slopes;
    } of[] = {{4, 2, 130, 64, 0, false}, {6, 3, 70, 128, 0, true},   {2, 1, 200, 64, 40, false},
              {2, 2, 150, 80, 64, true}, {4, 4, 65, 64, 1, false},   {2, 1, 130, 64, 0, true},
              {3, 3, 70, 160, 17, true}, {2, 2, 33, 320, 16, false}, {4, 2, 97, 16, 33, true}};
    int number = 7000;

    (void)state;
    for (const auto &o : of)
        for (enum tr_dtype type : {TR_F32, TR_F16, TR_BF16}) {
            trial x = {};

            x.b = number % 3 == 0 ? 2 : 1;
            x.heads = o.heads;
            x.sharing = o.sharing;
            x.t = o.t;
            x.d = o.d;
            x.window = o.window;
            x.slopes = o.slopes;
            x.qkv = x.ctx = x.dctx = x.dqkv = type;
            x.documents = number % 2 == 1;
            x.p = number % 4 < 2 ? 0.0 : 0.2;
            x.scale = 1.0;
            x.number = number++;
#ifdef TR_SANITIZERS
            if (o.d > 64 || o.t > 130)
                continue;
#endif
            if ((&o - of + (int)type) % 3 == 0 && !all_of_them())
                continue;
            check(x);
        }
}

/* Each operand of another type, and operands that lie on nothing but their elements. */
static void test_mixtures(void **state)
{
    static const enum tr_dtype types[] = {TR_F32, TR_F16, TR_BF16};

    (void)state;
    for (int i = 0; i < 12; i++) {
        trial x = {2,
                   2,
                   70,
                   64,
                   types[i % 3],
                   types[i / 3 % 3],
                   types[(i + 1) % 3],
                   types[(i + 2) % 3],
                   i % 2 == 1,
                   false,
                   0.1,
                   1.0,
                   1000 + i};

        check(x);
        if (i % 2 != 0 && !all_of_them())
            continue;
        x.shifted = true;
        x.ctx = x.dctx = x.dqkv = x.qkv;
        x.t = 33 + i;
        check(x);
    }
}

/*
 * Scores of hundreds, of which the exponential would overflow (forward only: what remains of them
 * beside their logarithm is less exact than the gradient is to be); scores turned around, and none.
 */
static void test_large_scores(void **state)
{
    (void)state;
    for (enum tr_dtype type : {TR_F32, TR_F16, TR_BF16})
        for (double scale : {100.0, -1.0, 0.0}) {
            trial x = {1, 2, 70, 64, type, type, type, type, true, false, 0.0, scale, 2000};

            check(x);
        }
}

/* Whatever the order of threads, the bits are the same. */
static void test_same_bits(void **state)
{
    (void)state;
    for (enum tr_dtype type : {TR_F32, TR_F16, TR_BF16}) {
        trial x = {1, 2, 150, 64, type, type, type, type, true, false, 0.1, 1.0, 3000};

        x.sharing = 2;
        x.window = 90;
        run first(x);

        on_gpu(NEW);
        for (int seed = 0; seed < (all_of_them() ? 4 : 2); seed++) {
            run r(x);

            emulate::seed((uint64_t)seed);
            r.forward(tr_cuda_attention_own);
            r.backward(tr_cuda_attention_own_bwd);
            if (seed == 0) {
                first.take(r);
                first.dqkv.block = r.dqkv.block;
                memcpy(first.dqkv.t.data, r.dqkv.t.data, (size_t)tr_tensor_bytes(&r.dqkv.t));
            }
            assert_memory_equal(r.ctx.t.data, first.ctx.t.data, (size_t)tr_tensor_bytes(&r.ctx.t));
            assert_memory_equal(r.lse.t.data, first.lse.t.data, (size_t)tr_tensor_bytes(&r.lse.t));
            assert_memory_equal(r.dqkv.t.data, first.dqkv.t.data,
                                (size_t)tr_tensor_bytes(&r.dqkv.t));
        }
    }
}

/* ctx and dqkv as they come out on that GPU. */
static std::vector<unsigned char> bits_on(const trial &x, int generation)
{
    run r(x);
    std::vector<unsigned char> all;

    on_gpu(generation);
    r.forward(tr_cuda_attention_own);
    r.backward(tr_cuda_attention_own_bwd);
    for (const operand *o : {&r.ctx, &r.dqkv}) {
        const unsigned char *from = static_cast<const unsigned char *>(o->t.data);

        all.insert(all.end(), from, from + tr_tensor_bytes(&o->t));
    }
    return all;
}

/* Which kernels run is told by their rounding: with tensor cores probabilities are halves. */
static void test_choice(void **state)
{
    static const int generations[] = {60, 70, 75, 80, 86, 90, 120};

    (void)state;
    for (enum tr_dtype type : {TR_F32, TR_F16, TR_BF16})
        for (int64_t d : {32, 36, 40, 64, 80, 96, 112, 128, 160, 224, 320})
            for (bool shifted : {false, true}) {
                const trial x = {1,    1,     40,      d,   type, type, type,
                                 type, false, shifted, 0.0, 1.0,  4000};
                const std::vector<unsigned char> plain = bits_on(x, OLD);
                const int first = type == TR_F16 ? 70 : type == TR_BF16 ? 80 : 1000;

                for (int generation : generations) {
                    if ((shifted || type == TR_F32) && generation != NEW && !all_of_them())
                        continue;
                    const bool fast = generation >= first && !shifted && d % 8 == 0 && d > 32;

                    if ((bits_on(x, generation) != plain) != fast)
                        fail_msg("%s on sm_%d: %s", name_of(x), generation,
                                 fast ? "no tensor cores" : "tensor cores");
                }
            }
}

/* Heads that do not find room for what the gradient keeps per query come later. */
static void test_little_scratch(void **state)
{
    const trial x = {2, 3, 70, 64, TR_BF16, TR_BF16, TR_BF16, TR_BF16, true, false, 0.1, 1.0, 5000};
    const size_t all = tr_cuda_attention_scratch;

    (void)state;
    for (int generation : {OLD, NEW}) {
        const std::vector<unsigned char> want = bits_on(x, generation);

        for (size_t heads : {1, 4}) {
            tr_cuda_attention_scratch = heads * 70 * sizeof(float) + 3;
            assert_true(bits_on(x, generation) == want);
            assert_int_equal(scratch.size(), (heads == 1 ? 1 : 2) * 70 * sizeof(float));
            tr_cuda_attention_scratch = all;
        }
    }
}

/* Those that share keys come together. */
static void test_little_scratch_for_groups(void **state)
{
    trial x = {1, 6, 70, 64, TR_BF16, TR_BF16, TR_BF16, TR_BF16, true, false, 0.1, 1.0, 5000};
    const size_t all = tr_cuda_attention_scratch;

    (void)state;
    x.sharing = 3;
    for (int generation : {OLD, NEW}) {
        const std::vector<unsigned char> want = bits_on(x, generation);

        tr_cuda_attention_scratch = 5 * 70 * sizeof(float);
        assert_true(bits_on(x, generation) == want);
        assert_int_equal(scratch.size(), 3 * 70 * sizeof(float));
        tr_cuda_attention_scratch = all;
    }
}

#ifdef TR_WATCHED
/*
 * Bank conflicts: how many turns accesses to shared memory take, with and without them.  A row of a tile
 * has 16 bytes more than a multiple of 128, or 144, so that fragments are read and rows are written
 * without any; only results, as they leave, meet a few.
 */
static void test_banks(void **state)
{
    (void)state;
    for (int generation : {70, 75, 86, 90})
        for (int64_t d : {64, 80, 96, 128, 160, 224, 320}) {
            const trial x = {1,      1,     130,   d,   TR_F16, TR_F16, TR_F16,
                             TR_F16, false, false, 0.0, 1.0,    6000};
            watch_banks b;

            if (d != 64 && d != 96 && d != 320 && !all_of_them())
                continue;
            emulate::seed(0);
            watch_banks_begin();
            bits_on(x, generation);
            b = watch_banks_end();
            print_message("# sm_%d, D %d: %.1f instructions, %.3f turns for each that it needs\n",
                          generation, (int)d, (double)b.instructions,
                          (double)b.turns / (double)b.least);
            assert_true(b.instructions > 0);
            if ((double)b.turns > MOST_TURNS * (double)b.least)
                fail_msg("more than %.2f", MOST_TURNS);
        }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32),
        cmocka_unit_test(test_fp16),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_mixtures),
        cmocka_unit_test(test_groups_windows_slopes),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_little_scratch),
        cmocka_unit_test(test_little_scratch_for_groups),
#ifdef TR_WATCHED
        cmocka_unit_test(test_banks),
#endif
    };

    return run_tap(tests);
}
