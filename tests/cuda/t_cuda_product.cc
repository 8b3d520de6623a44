/* SPDX-License-Identifier: BSD-3-Clause */
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <cublasLt.h>

extern "C" {
#include "check.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_dense.h"
#include "device/cuda/cuda_product.h"
#include "device/ref/ref.h"
#include "device/trial.h"
}

#include "fake_cublaslt.h"

/* Of kernels/emulate.h, which cannot stand beside CUDA's own headers. */
extern "C" void trk_emulate_seed(uint64_t seed);

/*
 * linear, linear_dgrad and linear_wgrad of the cuda backend over a fake cuBLASLt and emulated kernels,
 * against their plain meaning: each way that a product can take, in every mixture of types, wherever
 * operands lie; that algorithms are chosen once; that timing them leaves no trace.
 */
namespace
{

/* ---- operands on the GPU ---- */

enum { ZONE = 256, ROOM = 256 << 20 };

struct tr_queue q;
char *room;
bool boundary; /* operands begin on ZONE bytes, and else where the trial put them */
int astray;    /* but for this one, which is 8 bytes off */

/* An operand of a trial on the GPU, with guards on both sides. */
struct moved {
    struct tr_tensor t;
    const struct tr_tensor *from;
    char *at;
    size_t bytes, offset;
};

std::vector<moved> all;
size_t used;

struct tr_tensor words(char *at, size_t bytes)
{
    return tr_tensor_1(at, TR_I32, (int64_t)(bytes / 4));
}

const struct tr_tensor *to_gpu(const struct tr_tensor *t)
{
    size_t bytes = t ? (size_t)tr_tensor_bytes(t) : 0;
    moved m = {{}, t, room + used, (bytes + 3 * ZONE) / ZONE * ZONE, ZONE};

    if (!t)
        return nullptr;
    m.t = *t;
    m.offset += boundary ? 0 : (uintptr_t)t->data % 64;
    m.offset += (int)all.size() == astray ? 8 : 0;
    m.bytes += ZONE;
    m.t.data = m.at + m.offset;
    std::vector<char> block(m.bytes, (char)0x5a);
    memcpy(block.data() + m.offset, t->data, bytes);
    struct tr_tensor to = words(m.at, m.bytes);
    q.on->upload(&q, &to, block.data());
    used += m.bytes;
    assert_true(used <= ROOM);
    all.push_back(m);
    return &all.back().t;
}

/* Everything back, looking at the guards. */
void back()
{
    for (const moved &m : all) {
        size_t bytes = (size_t)tr_tensor_bytes(m.from);
        std::vector<char> block(m.bytes);
        struct tr_tensor from = words(m.at, m.bytes);

        q.on->download(&q, block.data(), &from);
        for (size_t i = 0; i < m.bytes; i++)
            if ((i < m.offset || i >= m.offset + bytes) && block[i] != (char)0x5a)
                fail_msg("byte %zd beside an operand of %zu bytes was written",
                         (ssize_t)i - (ssize_t)m.offset, bytes);
        memcpy(m.from->data, block.data() + m.offset, bytes);
    }
    all.clear();
    used = 0;
}

void moved_linear(struct tr_queue *unused, const struct tr_tensor *y, const struct tr_tensor *pre,
                  const struct tr_tensor *x, const struct tr_tensor *w,
                  const struct tr_tensor *bias, enum tr_act act)
{
    (void)unused;
    all.reserve(8);
    y = to_gpu(y), pre = to_gpu(pre), x = to_gpu(x), w = to_gpu(w), bias = to_gpu(bias);
    tr_cuda_linear(&q, y, pre, x, w, bias, act);
    back();
}

void moved_dgrad(struct tr_queue *unused, const struct tr_tensor *dx, const struct tr_tensor *dy,
                 const struct tr_tensor *w, const struct tr_tensor *pre, enum tr_act act)
{
    (void)unused;
    all.reserve(8);
    dx = to_gpu(dx), dy = to_gpu(dy), w = to_gpu(w), pre = to_gpu(pre);
    tr_cuda_linear_dgrad(&q, dx, dy, w, pre, act);
    back();
}

void moved_wgrad(struct tr_queue *unused, const struct tr_tensor *dw, const struct tr_tensor *dbias,
                 const struct tr_tensor *dy, const struct tr_tensor *x, bool add)
{
    (void)unused;
    all.reserve(8);
    dw = to_gpu(dw), dbias = to_gpu(dbias), dy = to_gpu(dy), x = to_gpu(x);
    tr_cuda_linear_wgrad(&q, dw, dbias, dy, x, add);
    back();
}

int one_thread(const struct tr_device *d)
{
    (void)d;
    return 1;
}

/* Those that trials go through: one on the host, the other there and back. */
struct tr_backend plain, gpu;

int open_gpu(void **state)
{
    struct tr_device_how how = {};
    void *memory;

    (void)state;
    how.threads = how.local_size = 1;
    how.share = true;
    q.on = &tr_cuda;
    assert_ok(tr_cuda.open(&how, &q.device));
    assert_ok(tr_cuda.reserve(q.device, ROOM, &memory));
    room = static_cast<char *>(memory);
    plain.name = "ref";
    gpu.name = "cuda";
    plain.threads = gpu.threads = one_thread;
    plain.linear = tr_ref_linear;
    plain.linear_dgrad = tr_ref_linear_dgrad;
    plain.linear_wgrad = tr_ref_linear_wgrad;
    gpu.linear = moved_linear;
    gpu.linear_dgrad = moved_dgrad;
    gpu.linear_wgrad = moved_wgrad;
    return 0;
}

/* Nothing that was made is left. */
int close_gpu(void **state)
{
    (void)state;
    tr_cuda.close(q.device);
    return fake_cublaslt_alive();
}

int reset(void **state)
{
    (void)state;
    fake_cublaslt_refuse(FAKE_REFUSE_NOTHING);
    unsetenv("FAKE_CUDA_FAIL");
    trk_emulate_seed(0);
    boundary = true;
    astray = -1;
    return 0;
}

/* ---- one call ---- */

/* What is to be multiplied, as much as a test wants to fix; the rest by lot. */
struct wanted {
    int64_t size[3];         /* N, O, I; 0: by lot */
    int bias, pre, act, add; /* act beyond 1: that row */
};

const wanted anything = {{0, 0, 0}, -1, -1, -1, -1};
wanted want;

bool choose(struct trial *t, int wish)
{
    bool heads = coin(t);

    return wish < 0 ? heads : wish != 0;
}

/* Small and odd, or beyond one tile in a direction; half of them multiples of 8, as models have. */
void sizes_of(struct trial *t, int64_t *n, int64_t *o, int64_t *i)
{
    int64_t *to[] = {n, o, i};
    int longest = (int)(draw(t) % 3);
    bool eights = coin(t);

    for (int d = 0; d < 3; d++) {
        *to[d] = size(t, d == longest ? 300 : 40);
        if (eights)
            *to[d] = (*to[d] + 7) / 8 * 8;
        if (want.size[d] > 0)
            *to[d] = want.size[d];
    }
    if (*n * *o < 9 && want.size[1] == 0)
        *o = 9;
}

/* None, or that which cuBLASLt has, where a test says so; else half the time any. */
enum tr_act act_of(struct trial *t)
{
    const bool some = choose(t, want.act), any = coin(t);
    const uint32_t lot = draw(t);

    if (want.act > 1)
        return (enum tr_act)want.act;
    return want.act < 0 && any ? (enum tr_act)(lot % TR_ACTS)
           : some              ? TR_ACT_GELU_TANH
                               : TR_ACT_NONE;
}

void linear_trial(struct trial *t)
{
    int64_t n, o, i;

    sizes_of(t, &n, &o, &i);
    enum tr_act act = act_of(t);
    const int64_t y_columns = o;
    const struct tr_tensor *y = floats(t, OUT, ACTIVATION, n, y_columns, 1.0);

    o *= tr_act_gated(act) ? 2 : 1;
    const struct tr_tensor *pre =
        choose(t, want.pre) ? floats(t, OUT, ACTIVATION, n, o, 1.0) : NULL;
    const struct tr_tensor *x = floats(t, IN, ACTIVATION, n, i, 1.0);
    const struct tr_tensor *w = floats(t, IN, WEIGHT, o, i, 1.0 / std::sqrt((double)i));
    const struct tr_tensor *bias = choose(t, want.bias) ? floats(t, IN, WEIGHT, 1, o, 2.0) : NULL;
    t->rounds = linear_rounds(y, pre, act);
    t->q.on->linear(&t->q, y, pre, x, w, bias, act);
}

void dgrad_trial(struct trial *t)
{
    int64_t n, o, i;

    sizes_of(t, &n, &i, &o);
    enum tr_act act = act_of(t);
    const int64_t columns = tr_act_gated(act) ? 2 * i : i;
    const struct tr_tensor *dx = floats(t, OUT, ACTIVATION, n, columns, 1.0);
    const struct tr_tensor *dy = floats(t, IN, ACTIVATION, n, o, 1.0);
    const struct tr_tensor *w = floats(t, IN, WEIGHT, o, i, 1.0);
    const struct tr_tensor *pre =
        act == TR_ACT_NONE ? NULL : floats(t, IN, ACTIVATION, n, columns, 2.0);
    t->q.on->linear_dgrad(&t->q, dx, dy, w, pre, act);
}

void wgrad_trial(struct trial *t)
{
    int64_t n, o, i;

    sizes_of(t, &o, &i, &n);
    bool add = choose(t, want.add);
    enum role role = add ? INOUT : OUT;
    const struct tr_tensor *dw = floats(t, role, GRADIENT, o, i, 3.0);
    const struct tr_tensor *dbias =
        choose(t, want.bias) ? floats(t, role, GRADIENT, 1, o, 3.0) : NULL;
    const struct tr_tensor *dy = floats(t, IN, ACTIVATION, n, o, 1.0);
    const struct tr_tensor *x = floats(t, IN, ACTIVATION, n, i, 1.0);
    t->q.on->linear_wgrad(&t->q, dw, dbias, dy, x, add);
}

struct row {
    const char *name;
    void (*trial)(struct trial *t);
};
const row rows[] = {
    {"linear", linear_trial}, {"linear_dgrad", dgrad_trial}, {"linear_wgrad", wgrad_trial}};

void run(struct trial *t, const row &r, const struct mix *mix, int number,
         const struct tr_backend *on)
{
    memset(t, 0, sizeof *t);
    t->q.on = on;
    t->row = r.name;
    t->mix = mix;
    t->number = number;
    r.trial(t);
    check_untouched(t);
}

/* Right, and with `twice` the same bits when repeated at other addresses.  How many calls of cuBLASLt the
   first time made. */
int check(const row &r, const struct mix *mix, int number, bool twice = true)
{
    struct trial right, got, again;
    int before = fake_cublaslt_multiplied(), calls;

    trk_emulate_seed((uint64_t)number);
    run(&right, r, mix, number, &plain);
    run(&got, r, mix, number, &gpu);
    calls = fake_cublaslt_multiplied() - before;
    compare(&got, &right, 1e-11);
    if (twice) {
        used = 32 * ZONE;
        run(&again, r, mix, number, &gpu);
        compare(&again, &got, 0.0);
        release(&again);
    }
    release(&right);
    release(&got);
    return calls;
}

enum { FP32, FP16, BF16, RESIDUAL32, GRADIENTS32, ANY };

/* ---- every way ---- */

/* A third of the trials unless all tests were asked for. */
void every_way(enum fake_cublaslt_refusal refused, bool on_boundary, int all)
{
    const int trials = getenv("TR_TEST_ALL") ? all : (all + 2) / 3;

    fake_cublaslt_refuse(refused);
    boundary = on_boundary;
    want = anything;
    for (const row &r : rows)
        for (int m = 0; m < MIXES; m++)
            for (int i = 0; i < trials * (m == ANY ? 3 : 1); i++)
                check(r, &mixes[m], i);
}

void fresh_product(bool tune);

void test_all_that_cublaslt_does(void **state)
{
    (void)state;
    every_way(FAKE_REFUSE_NOTHING, true, 16);
}

void test_without_epilogues(void **state)
{
    (void)state;
    fresh_product(false);
    every_way(FAKE_REFUSE_EPILOGUES, true, 12);
}

void test_without_cublaslt(void **state)
{
    (void)state;
    fresh_product(false);
    every_way(FAKE_REFUSE_ALL, true, 12);
}

void test_anywhere_in_memory(void **state)
{
    (void)state;
    fresh_product(false);
    every_way(FAKE_REFUSE_NOTHING, false, 16);
}

/* Where one operand cannot be moved 16 bytes at a time, the others must not drag it along. */
void test_one_astray(void **state)
{
    (void)state;
    for (fake_cublaslt_refusal refused : {FAKE_REFUSE_NOTHING, FAKE_REFUSE_EPILOGUES}) {
        fresh_product(false);
        fake_cublaslt_refuse(refused);
        want = {{24, 16, 40}, 1, 1, 1, 1};
        for (const row &r : rows)
            for (int m = 0; m < ANY; m++)
                for (astray = 0; astray < 5; astray++)
                    check(r, &mixes[m], astray);
    }
}

/* ---- which way ---- */

/* Another set of products, which knows of none that was made before. */
void fresh_product(bool tune)
{
    struct tr_cuda *g = tr_cuda_of(q.device);

    tr_cuda_product_close(g->product);
    assert_ok(tr_cuda_product_open(g, tune, &g->product));
}

/* How many calls of cuBLASLt a call of the operation makes. */
int calls_of(const row &r, const struct mix *mix, wanted what)
{
    struct trial t;
    int before = fake_cublaslt_multiplied();

    want = what;
    run(&t, r, mix, 1, &gpu);
    release(&t);
    return fake_cublaslt_multiplied() - before;
}

void expect(const row &r, int mix, wanted what, unsigned epilogue)
{
    assert_int_equal(calls_of(r, &mixes[mix], what), 1);
    assert_int_equal(fake_cublaslt_epilogue(), epilogue);
}

/* What models ask for is one call each, with the epilogue that is meant for it. */
void test_epilogues(void **state)
{
    const wanted fc1 = {{64, 48, 16}, 1, 1, 1, -1}, qkv = {{64, 48, 16}, 1, 0, 0, -1};
    const wanted no_bias = {{64, 48, 16}, 0, 1, 1, -1}, no_pre = {{64, 48, 16}, 1, 0, 1, -1};
    const wanted proj = {{64, 48, 16}, 0, 0, 0, 0}, sum = {{64, 48, 16}, 0, 0, 0, 1};
    const wanted fc2 = {{64, 48, 16}, -1, -1, 1, -1};
    const wanted first = {{64, 48, 16}, 1, 0, 0, 0}, next = {{64, 48, 16}, 1, 0, 0, 1};

    (void)state;
    fresh_product(false);
    for (int mix = FP16; mix <= GRADIENTS32; mix++) {
        expect(rows[0], mix, fc1, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
        expect(rows[0], mix, no_bias, CUBLASLT_EPILOGUE_GELU_AUX);
        expect(rows[0], mix, no_pre, CUBLASLT_EPILOGUE_GELU_BIAS);
        expect(rows[0], mix, qkv, CUBLASLT_EPILOGUE_BIAS);
        expect(rows[0], mix, proj, CUBLASLT_EPILOGUE_DEFAULT);
        expect(rows[1], mix, fc2, CUBLASLT_EPILOGUE_DGELU);
        expect(rows[1], mix, proj, CUBLASLT_EPILOGUE_DEFAULT);
        expect(rows[2], mix, proj, CUBLASLT_EPILOGUE_DEFAULT);
        expect(rows[2], mix, sum, CUBLASLT_EPILOGUE_DEFAULT);
        expect(rows[2], mix, first, CUBLASLT_EPILOGUE_BGRADB);
        /* Added in halves it would be rounded twice. */
        expect(rows[2], mix, next,
               mixes[mix].type[GRADIENT] == TR_F32 ? CUBLASLT_EPILOGUE_BGRADB
                                                   : CUBLASLT_EPILOGUE_DEFAULT);
    }
    /* A gate follows the product that makes its operand. */
    for (enum tr_act act : {TR_ACT_SWIGLU, TR_ACT_RELU}) {
        wanted up = fc1;

        up.act = act;
        expect(rows[0], BF16, up, CUBLASLT_EPILOGUE_BIAS);
        expect(rows[0], FP32, up, CUBLASLT_EPILOGUE_BIAS);
    }
    /* In fp32 this program's own GELU follows. */
    expect(rows[0], FP32, fc1, CUBLASLT_EPILOGUE_DEFAULT);
    expect(rows[0], FP32, qkv, CUBLASLT_EPILOGUE_BIAS);
    expect(rows[1], FP32, fc2, CUBLASLT_EPILOGUE_DEFAULT);
}

/* Factors in fp32 may be rounded where the user says so; halves never need it. */
void test_tf32(void **state)
{
    struct tr_cuda *g = tr_cuda_of(q.device);
    const wanted what = {{64, 48, 16}, 1, 0, 0, 1};

    (void)state;
    for (int allowed = 0; allowed < 2; allowed++) {
        g->tf32 = allowed != 0;
        fresh_product(false);
        for (const row &r : rows) {
            calls_of(r, &mixes[FP32], what);
            assert_int_equal(fake_cublaslt_compute(),
                             allowed ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
            calls_of(r, &mixes[BF16], what);
            assert_int_equal(fake_cublaslt_compute(), CUBLAS_COMPUTE_32F);
        }
    }
    g->tf32 = false;
    fresh_product(false);
}

/* The heuristic is asked once for a shape, whatever it answers; another shape is another question. */
void test_asked_once(void **state)
{
    wanted even = {{64, 48, 16}, 1, 1, 1, 0}, odd = {{65, 47, 15}, 1, 1, 1, 0};

    (void)state;
    fresh_product(false);
    for (const row &r : rows)
        for (const wanted &what : {even, odd}) {
            int before = fake_cublaslt_asked(), once;

            calls_of(r, &mixes[BF16], what);
            once = fake_cublaslt_asked();
            assert_true(once > before);
            calls_of(r, &mixes[BF16], what);
            calls_of(r, &mixes[BF16], what);
            assert_int_equal(fake_cublaslt_asked(), once);
            calls_of(r, &mixes[FP16], what);
            assert_true(fake_cublaslt_asked() > once);
        }
    /* Sums go by the same algorithm as what they add to. */
    calls_of(rows[2], &mixes[GRADIENTS32], even);
    even.add = 1;
    int before = fake_cublaslt_asked();
    calls_of(rows[2], &mixes[GRADIENTS32], even);
    assert_int_equal(fake_cublaslt_asked(), before);
}

/* ---- tuning ---- */

void test_tuned(void **state)
{
    (void)state;
    fresh_product(true);
    every_way(FAKE_REFUSE_NOTHING, true, 8);
}

/* The first call of a shape times all proposals, 1 + 3 times each, and the next one call is one call. */
void test_timed_once(void **state)
{
    const wanted what = {{64, 48, 16}, 1, 1, 1, 1};

    (void)state;
    fresh_product(true);
    for (const row &r : rows) {
        int proposals = 3; /* the fake's, without the one that does not run */

        assert_int_equal(calls_of(r, &mixes[BF16], what), 4 * proposals + 1);
        assert_int_equal(calls_of(r, &mixes[BF16], what), 1);
    }
}

/* What is added to and has no room beside it is not timed; nor is it added twice. */
void test_too_large_to_time(void **state)
{
    (void)state;
    fresh_product(true);
    want = {{4200, 4200, 2}, 0, 0, 0, 1};
    assert_int_equal(check(rows[2], &mixes[FP32], 1, false), 1);
}

/* ---- more than scratch holds ---- */

/* Sums of halves; the last part has rows of its own number, which cuBLASLt may not serve. */
void test_in_parts(void **state)
{
    static const struct mix odd = {
        "fp16, gradients in bf16", false, {TR_F16, TR_F16, TR_F16, TR_BF16, TR_F32}};

    (void)state;
    fresh_product(false);
    fake_cublaslt_refuse(FAKE_REFUSE_EPILOGUES);
    want = {{2100, 8200, 2}, 1, 1, 1, 0};
    assert_int_equal(check(rows[0], &mixes[BF16], 0, false), 2);
    /* Gates: sums of 8208 columns without `pre`, and of its gradient, for twice as many. */
    want = {{2100, 4104, 2}, 1, 0, TR_ACT_SWIGLU, 0};
    assert_int_equal(check(rows[0], &mixes[BF16], 0, false), 2);
    want = {{2100, 8200, 2}, 1, 1, TR_ACT_GEGLU, 0};
    assert_int_equal(check(rows[1], &mixes[BF16], 0, false), 2);
    want = {{2100, 8200, 2}, 1, 1, 1, 0};
    fake_cublaslt_refuse(FAKE_REFUSE_NARROW);
    want.add = 1;
    assert_int_equal(check(rows[2], &odd, 0, false), 1);
}

/* A factor in halves beside one in fp32. */
void test_converted_in_parts(void **state)
{
    static const struct mix odd = {
        "bf16 activations, fp32 weights", false, {TR_BF16, TR_F32, TR_F32, TR_F32, TR_F32}};

    (void)state;
    fresh_product(false);
    want = {{2100, 3, 8200}, 1, 0, 0, 0};
    assert_int_equal(check(rows[0], &odd, 0, false), 2);
}

/* ---- sums of columns ---- */

void sums_trial(struct trial *t)
{
    int64_t n = want.size[0], h = want.size[1];
    const struct tr_tensor *to = floats(t, want.add ? INOUT : OUT, GRADIENT, 1, h, 3.0);
    const struct tr_tensor *x = floats(t, IN, ACTIVATION, n, h, 1.0);

    if (t->q.on == &gpu) {
        all.reserve(8);
        const struct tr_tensor *there = to_gpu(to);
        tr_cuda_column_sums(&q, there, to_gpu(x), want.add != 0);
        back();
        return;
    }
    for (int64_t j = 0; j < h; j++) {
        double sum = want.add ? element(to, j) : 0.0;

        for (int64_t i = 0; i < n; i++)
            sum += element(x, i * h + j);
        put(to, j, (float)sum);
    }
}

/* Slabs of rows: one, some, and as many as there are; however threads run. */
void test_column_sums(void **state)
{
    const int64_t sizes[][2] = {{1, 9}, {255, 31}, {257, 264}, {3000, 40}, {3000, 31}, {140001, 9}};
    const row sums = {"column_sums", sums_trial};

    (void)state;
    for (const int64_t *size : sizes)
        for (int i = 0; i < MIXES; i++) {
            boundary = i % 2 == 0;
            want = {{size[0], size[1], 0}, 0, 0, 0, i / 2 % 2};
            check(sums, &mixes[i], i);
        }
}

/* ---- faults ---- */

/* What `f` says on stderr before it ends the process. */
std::string last_words(void (*f)())
{
    char text[4096];
    std::string all_text;
    int ends[2], how;
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        f();
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], text, sizeof text)) > 0)
        all_text.append(text, (size_t)n);
    close(ends[0]);
    assert_true(waitpid(pid, &how, 0) == pid);
    assert_false(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    return all_text;
}

void failing_product()
{
    setenv("FAKE_CUDA_FAIL", "cublasLtMatmul:1:13", 1);
    calls_of(rows[0], &mixes[BF16], {{64, 48, 16}, 1, 1, 1, 0});
}

void test_a_failing_product_ends_the_job(void **state)
{
    std::string said = last_words(failing_product);

    (void)state;
    for (const char *part :
         {"cublasLtMatmul", "[64,16]", "[16,48]", "bf16", "CUBLAS_STATUS_EXECUTION_FAILED"})
        if (said.find(part) == std::string::npos)
            fail_msg("\"%s\" is not in: %s", part, said.c_str());
}

void test_cannot_open(void **state)
{
    struct tr_cuda *g = tr_cuda_of(q.device);
    struct tr_cuda_product *p;
    int alive = fake_cublaslt_alive();

    (void)state;
    setenv("FAKE_CUDA_FAIL", "cublasLtCreate:1:1", 1);
    assert_fails(TR_ERESOURCE, "cuBLASLt does not start", tr_cuda_product_open(g, false, &p));
    assert_null(p);
    setenv("FAKE_CUDA_FAIL", "cudaMalloc:1:2", 1);
    assert_fails(TR_ERESOURCE, "workspace", tr_cuda_product_open(g, false, &p));
    assert_null(p);
    assert_int_equal(fake_cublaslt_alive(), alive);
}

} // namespace

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_that_cublaslt_does, reset),
        cmocka_unit_test_setup(test_without_epilogues, reset),
        cmocka_unit_test_setup(test_without_cublaslt, reset),
        cmocka_unit_test_setup(test_anywhere_in_memory, reset),
        cmocka_unit_test_setup(test_one_astray, reset),
        cmocka_unit_test_setup(test_epilogues, reset),
        cmocka_unit_test_setup(test_tf32, reset),
        cmocka_unit_test_setup(test_asked_once, reset),
        cmocka_unit_test_setup(test_tuned, reset),
        cmocka_unit_test_setup(test_timed_once, reset),
        cmocka_unit_test_setup(test_too_large_to_time, reset),
        cmocka_unit_test_setup(test_in_parts, reset),
        cmocka_unit_test_setup(test_converted_in_parts, reset),
        cmocka_unit_test_setup(test_column_sums, reset),
        cmocka_unit_test_setup(test_a_failing_product_ends_the_job, reset),
        cmocka_unit_test_setup(test_cannot_open, reset),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
