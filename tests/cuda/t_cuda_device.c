/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cuda backend itself, over the fake runtime: which GPU a rank takes, memory, copies that keep their
 * place, marks, and what is said of errors.
 */
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_attention.h"
#include "device/ref/ref.h"
#include "util/half.h"
#include "fake_cudart.h"

static struct tr_device_how rank_of(int rank, int ranks)
{
    return (struct tr_device_how){.threads = 1, .local_rank = rank, .local_size = ranks};
}

static struct tr_queue open_queue(void)
{
    struct tr_device_how how = rank_of(0, 1);
    struct tr_queue q = {.on = &tr_cuda};

    assert_ok(tr_cuda.open(&how, &q.device));
    return q;
}

/* Back to one GPU with nothing planted. */
static int reset(void **state)
{
    static const char *const names[] = {
        "FAKE_CUDA_DEVICES", "FAKE_CUDA_ARCH",   "FAKE_CUDA_CODE",       "FAKE_CUDA_GIB",
        "FAKE_CUDA_FAIL",    "FAKE_CUDA_DRIVER", "CUDA_VISIBLE_DEVICES",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    return 0;
}

/* Bytes that differ from those of any other offset nearby. */
static unsigned char pattern(size_t i, unsigned turn)
{
    return (unsigned char)(i * 7 + i / 251 + turn * 13);
}

/* What a child says on stderr before it ends; *code is its exit code, or 128 + the signal. */
static char *told_by(void (*child)(void), int *code)
{
    static char text[4096];
    size_t length = 0;
    ssize_t n;
    int ends[2], how;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        child();
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)n;
    text[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    *code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    return text;
}

static void expect_told(void (*child)(void), int code, const char *text)
{
    int got;
    const char *told = told_by(child, &got);

    if (got != code || !strstr(told, text))
        fail_msg("exit code %d, not %d with \"%s\": %s", got, code, text, told);
}

/* ---- which GPU ---- */

static int gpu_of(int rank, int ranks, bool share)
{
    struct tr_device_how how = rank_of(rank, ranks);
    struct tr_device *d;
    int ordinal;

    how.share = share;
    assert_ok(tr_cuda.open(&how, &d));
    ordinal = tr_cuda_of(d)->ordinal;
    tr_cuda.close(d);
    return ordinal;
}

static void one_gpu_each(void **state)
{
    struct tr_device_how how = rank_of(0, 4);
    struct tr_device *d;

    (void)state;
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(gpu_of(i, 4, false), i);
    assert_int_equal(gpu_of(1, 2, false), 1);
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    assert_fails(TR_ERESOURCE, "2 GPUs for 4 ranks", tr_cuda.open(&how, &d));
    assert_fails(TR_ERESOURCE, "--gpu-oversubscribe", tr_cuda.open(&how, &d));
    assert_fails(TR_ERESOURCE, "--ntasks-per-node=2", tr_cuda.open(&how, &d));
    assert_null(d);
    for (int i = 0; i < 4; i++)
        assert_int_equal(gpu_of(i, 4, true), i % 2);
}

/* A launcher gave each rank its own. */
static void given_gpu(void **state)
{
    struct tr_device_how how = rank_of(3, 4);
    struct tr_device *d;

    (void)state;
    assert_fails(TR_ERESOURCE, "1 GPU for 4 ranks", tr_cuda.open(&how, &d));
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    assert_int_equal(gpu_of(3, 4, false), 0);
}

static void no_gpu(void **state)
{
    struct tr_device_how how = rank_of(0, 1);
    struct tr_device *d;

    (void)state;
    assert_true(tr_cuda_there());
    assert_ptr_equal(tr_backend_find("auto"), &tr_cuda);
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    assert_false(tr_cuda_there());
    assert_string_equal(tr_backend_find("auto")->name, "cpu");
    assert_fails(TR_ERESOURCE, "no GPU is here: the driver shows none", tr_cuda.open(&how, &d));
    setenv("FAKE_CUDA_FAIL", "cudaGetDeviceCount:0:35", 1);
    setenv("FAKE_CUDA_DRIVER", "0", 1);
    assert_fails(TR_ERESOURCE, "no driver of NVIDIA", tr_cuda.open(&how, &d));
    setenv("FAKE_CUDA_DRIVER", "11040", 1);
    assert_fails(TR_ERESOURCE, "is for CUDA 11.4", tr_cuda.open(&how, &d));
    setenv("FAKE_CUDA_FAIL", "cudaGetDeviceCount:0:802", 1);
    assert_fails(TR_ERESOURCE, "cudaError_t(802)", tr_cuda.open(&how, &d));
    assert_string_equal(tr_backend_find("auto")->name, "cpu");
}

/* There is code for 8.0 and 9.0, and a form of the latter for all that came after. */
static void code_for_gpu(void **state)
{
    static const struct {
        const char *arch;
        bool runs;
    } trials[] = {{"70", false}, {"75", false}, {"80", true}, {"86", true},
                  {"90", true},  {"100", true}, {"121", true}};
    struct tr_device_how how = rank_of(0, 1);
    struct tr_device *d;

    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        setenv("FAKE_CUDA_ARCH", trials[i].arch, 1);
        if (trials[i].runs)
            (void)gpu_of(0, 1, false);
        else
            assert_fails(TR_ERESOURCE, "--with-cuda-arch=7", tr_cuda.open(&how, &d));
    }
    setenv("FAKE_CUDA_FAIL", "cudaFuncGetAttributes:1:222", 1);
    assert_fails(TR_ERESOURCE, "the driver is too old", tr_cuda.open(&how, &d));
}

enum { TOKENS = 40, HEAD = 64 };

/* A tensor of host memory that is as large as `like` and its copy on the GPU. */
static struct tr_tensor on_gpu(struct tr_queue *q, const struct tr_tensor *like)
{
    struct tr_tensor t = *like;

    assert_ok(tr_cuda.reserve(q->device, (size_t)tr_tensor_bytes(like), &t.data));
    tr_cuda.upload(q, &t, like->data);
    return t;
}

/* Attention of one head in halves, against ref: 0 from both would be what no kernel left. */
static void attention_is_right(struct tr_queue *q, enum tr_dtype type)
{
    static uint16_t qkv[TOKENS * 3 * HEAD], want[TOKENS * HEAD], got[TOKENS * HEAD];
    float lse[TOKENS];
    struct tr_tensor in = tr_tensor_2(qkv, type, TOKENS, 3 * HEAD), in_gpu, lse_gpu, out_gpu;
    struct tr_tensor out = tr_tensor_2(want, type, TOKENS, HEAD);
    struct tr_tensor kept = tr_tensor_3(lse, TR_F32, 1, 1, TOKENS);
    const struct tr_dropout none = {.tokens = TOKENS};

    for (int i = 0; i < TOKENS * 3 * HEAD; i++) {
        const float x = (float)(i * 37 % 101) / 50.0f - 1.0f;

        qkv[i] = type == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
    }
    memset(want, 0, sizeof want);
    memset(lse, 0, sizeof lse);
    in_gpu = on_gpu(q, &in);
    out_gpu = on_gpu(q, &out);
    lse_gpu = on_gpu(q, &kept);
    tr_cuda.attention(q, &out_gpu, &lse_gpu, &in_gpu, NULL,
                      (struct tr_attention_how){.first_head = 0, .scale = 0.125f}, none);
    tr_cuda.download(q, got, &out_gpu);
    tr_ref.attention(NULL, &out, &kept, &in, NULL,
                     (struct tr_attention_how){.first_head = 0, .scale = 0.125f}, none);
    for (int i = 0; i < TOKENS * HEAD; i++) {
        const float w = type == TR_F16 ? tr_f16_to_float(want[i]) : tr_bf16_to_float(want[i]);
        const float g = type == TR_F16 ? tr_f16_to_float(got[i]) : tr_bf16_to_float(got[i]);

        if (!(fabsf(g - w) < 0.02f))
            fail_msg("%s: number %d is %g, not %g", tr_dtype_name(type), i, (double)g, (double)w);
    }
}

/* Which kernels run is told by the code that was loaded, which may be older than the GPU: those for newer
   code have no body there. */
static void older_code(void **state)
{
    static const struct {
        const char *code, *arch;
        int loaded;
    } trials[] = {{"70", "80", 70},       {"70", "90", 70},       {"70,80,90", "75", 70},
                  {"75", "80", 75},       {"80", "89", 80},       {"80", "90", 80},
                  {"70,80,90", "86", 80}, {"70,80,90", "90", 90}, {"70,80,90", "120", 90}};

    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        struct tr_queue q;

        setenv("FAKE_CUDA_CODE", trials[i].code, 1);
        setenv("FAKE_CUDA_ARCH", trials[i].arch, 1);
        q = open_queue();
        assert_int_equal(tr_cuda_of(q.device)->code, trials[i].loaded);
        attention_is_right(&q, TR_F16);
        attention_is_right(&q, TR_BF16);
        tr_cuda.close(q.device);
    }
}

/* ---- shared memory that kernels may have ---- */

static long allowances(void)
{
    return fake_cuda_calls("cudaFuncSetAttribute");
}

/* CUDA is told once of each kernel and GPU, whatever is launched how often, and by whom. */
static void allowed_once(void **state)
{
    struct tr_queue q;
    long before, first;

    (void)state;
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    for (int gpu = 0; gpu < 2; gpu++) {
        struct tr_device_how how = rank_of(gpu, 2);

        for (int again = 0; again < 2; again++) {
            q = (struct tr_queue){.on = &tr_cuda};
            assert_ok(tr_cuda.open(&how, &q.device));
            before = allowances();
            attention_is_right(&q, TR_BF16);
            first = allowances();
            attention_is_right(&q, TR_BF16);
            assert_int_equal(allowances(), first);
            /* The first GPU may have been told in another test. */
            if (gpu == 1 && again == 0)
                assert_int_equal(first - before, 1);
            if (again == 1)
                assert_int_equal(first, before);
            tr_cuda.close(q.device);
        }
    }
}

enum { ASKING = 8, ASKED_FOR = 64 };

static void *ask_for_many(void *q)
{
    static char kernels[ASKED_FOR];

    for (int i = 0; i < ASKED_FOR; i++)
        tr_cuda_allow_shared(q, &kernels[i], 49 << 10);
    return NULL;
}

static void allowed_by_threads(void **state)
{
    struct tr_queue q = open_queue();
    const long before = allowances();
    static const char kernel[1];
    pthread_t thread[ASKING];

    (void)state;
    for (int i = 0; i < ASKING; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_for_many, &q), 0);
    for (int i = 0; i < ASKING; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(allowances(), before + ASKED_FOR);
    /* What wants more asks again; what wants less does not. */
    for (size_t kib = 50; kib < 53; kib++)
        tr_cuda_allow_shared(&q, kernel, kib << 10);
    tr_cuda_allow_shared(&q, kernel, 50 << 10);
    assert_int_equal(allowances(), before + ASKED_FOR + 3);
    tr_cuda.close(q.device);
}

static void refused_child(void)
{
    struct tr_queue q = open_queue();

    setenv("FAKE_CUDA_FAIL", "cudaFuncSetAttribute:1:1", 1);
    attention_is_right(&q, TR_F16);
}

static void greedy_kernel_child(void)
{
    struct tr_queue q = open_queue();
    static const char kernel[1];

    tr_cuda_allow_shared(&q, kernel, 228 << 10);
}

/* In children, to which no kernel of fp16 was allowed before. */
static void not_allowed(void **state)
{
    (void)state;
    expect_told(refused_child, 70, "cudaFuncSetAttribute failed with cudaError_t(1)");
    expect_told(greedy_kernel_child, 128 + SIGABRT,
                "more shared memory is to be allowed than a block of this GPU may have");
}

/* Whatever fails on the way, the rank is told, and what was taken is given back. */
static void broken_opening(void **state)
{
    static const char *const calls[] = {
        "cudaGetDeviceProperties:1:101",
        "cudaSetDevice:1:46",
        "cudaFuncGetAttributes:1:46",
        "cudaStreamCreateWithFlags:1:2",
        "cudaMalloc:1:2",
        "cudaEventCreate:700:2",
        "cudaMallocHost:1:2",
        "cudaMallocHost:2:2",
        "cudaEventCreateWithFlags:900:2",
    };
    struct tr_device_how how = rank_of(0, 1);
    struct tr_device *d;

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        setenv("FAKE_CUDA_FAIL", calls[i], 1);
        assert_fails(TR_ERESOURCE, "as the environment wants", tr_cuda.open(&how, &d));
        assert_null(d);
    }
    how.threads = -1;
    assert_fails(TR_ECONFIG, "-1 threads", tr_cuda.open(&how, &d));
}

static void description(void **state)
{
    struct tr_queue q = open_queue();
    const char *line = tr_cuda.describe(q.device);

    (void)state;
    assert_non_null(strstr(line, "cuda: Fake GPU (sm_90, 4 multiprocessors, 4.0 GiB), CUDA 1"));
    assert_int_equal(tr_cuda.threads(q.device), 1);
    assert_string_equal(tr_cuda_of(q.device)->uuid, "GPU-1b000000-0000-0000-0000-000000000000");
    tr_cuda.close(q.device);
}

/* ---- memory ---- */

static struct tr_tensor bytes_at(void *data, size_t bytes)
{
    assert_int_equal(bytes % 4, 0);
    return tr_i32_1(data, (int64_t)(bytes / 4));
}

static void memory(void **state)
{
    static const size_t sizes[] = {4, 1000, 5 << 20, 40 << 20};
    struct tr_queue q = open_queue();
    void *p;

    (void)state;
    for (int i = 0; i < 4; i++) {
        unsigned char *got = malloc(sizes[i]);
        struct tr_tensor t;

        assert_non_null(got);
        assert_ok(tr_cuda.reserve(q.device, sizes[i], &p));
        assert_int_equal((uintptr_t)p % 256, 0);
        assert_ptr_equal(tr_cuda_of(q.device)->base, p);
        assert_int_equal(tr_cuda_of(q.device)->base_bytes, sizes[i]);
        t = bytes_at(p, sizes[i]);
        tr_cuda.download(&q, got, &t);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_true(got[k] == 0);
        free(got);
    }
    assert_fails(TR_ERESOURCE, "1048576.00 GiB", tr_cuda.reserve(q.device, (size_t)1 << 50, &p));
    assert_fails(TR_ERESOURCE, "of its 4.00 GiB", tr_cuda.reserve(q.device, (size_t)4 << 30, &p));
    assert_null(p);
    tr_cuda.close(q.device);
}

/* There is enough, and not in one piece. */
static void scattered_memory(void **state)
{
    struct tr_queue q = open_queue();
    void *p;

    (void)state;
    setenv("FAKE_CUDA_FAIL", "cudaMalloc:0:2,ncclMemAlloc:0:1", 1);
    assert_fails(TR_ERESOURCE, "in one piece", tr_cuda.reserve(q.device, 1000, &p));
    assert_null(p);
    reset(NULL);
    assert_ok(tr_cuda.reserve(q.device, 1000, &p));
    tr_cuda.close(q.device);
}

static void touching_child(void)
{
    struct tr_queue q = open_queue();
    void *p;

    assert_ok(tr_cuda.reserve(q.device, 1000, &p));
    *(volatile int *)p = 1;
}

static void apart(void **state)
{
    (void)state;
    assert_true(tr_cuda.apart);
    expect_told(touching_child, 128 + 6, "the host touches memory of the GPU");
}

/* ---- copies ---- */

/* More than the ring holds, in lengths that leave its end unused; what was given is overwritten at once. */
static void uploads(void **state)
{
    enum { ROUNDS = 40, LARGEST = 5000000 };
    struct tr_queue q = open_queue();
    unsigned char *mine = malloc(LARGEST), *got = malloc(LARGEST);
    struct tr_tensor t[ROUNDS];
    char *p;

    (void)state;
    assert_true(mine && got);
    assert_ok(tr_cuda.reserve(q.device, (size_t)ROUNDS * LARGEST, (void **)&p));
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t bytes = i % 3 == 0 ? 4 + 4 * i : LARGEST - 4004 * i;

        t[i] = bytes_at(p + (size_t)i * LARGEST, bytes);
        for (size_t k = 0; k < bytes; k++)
            mine[k] = pattern(k, i);
        tr_cuda.upload(&q, &t[i], mine);
        memset(mine, 0xee, bytes);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t bytes = (size_t)tr_tensor_bytes(&t[i]);

        memset(got, 0xee, bytes);
        tr_cuda.download(&q, got, &t[i]);
        for (size_t k = 0; k < bytes; k++)
            assert_true(got[k] == pattern(k, i));
    }
    free(mine);
    free(got);
    tr_cuda.close(q.device);
}

/* Many small ones, more than there are pieces. */
static void small_uploads(void **state)
{
    enum { N = 5000 };
    static int32_t got[N];
    struct tr_queue q = open_queue();
    struct tr_tensor all;
    int32_t *p;

    (void)state;
    assert_ok(tr_cuda.reserve(q.device, sizeof got, (void **)&p));
    for (int32_t i = 0; i < N; i++) {
        struct tr_tensor one = tr_i32_1(p + i, 1);

        tr_cuda.upload(&q, &one, &i);
    }
    all = tr_i32_1(p, N);
    tr_cuda.download(&q, got, &all);
    for (int32_t i = 0; i < N; i++)
        assert_int_equal(got[i], i);
    tr_cuda.close(q.device);
}

/* Between two uploads to one place lies an operation that sees the first. */
static void uploads_keep_their_place(void **state)
{
    struct tr_queue q = open_queue();
    const int32_t first = 1, second = 2;
    int32_t *p, got[2];
    struct tr_tensor one, both;

    (void)state;
    assert_ok(tr_cuda.reserve(q.device, 8, (void **)&p));
    one = tr_i32_1(p, 1);
    both = tr_i32_1(p, 2);
    tr_cuda.upload(&q, &one, &first);
    assert_int_equal(cudaMemcpyAsync(p + 1, p, 4, cudaMemcpyDeviceToDevice, tr_cuda_stream(&q)), 0);
    tr_cuda.upload(&q, &one, &second);
    tr_cuda.download(&q, got, &both);
    assert_int_equal(got[0], 2);
    assert_int_equal(got[1], 1);
    tr_cuda.close(q.device);
}

/* Copies beside the queue, more than can be waited for one by one: each begins behind what was queued before it, and what
   is behind after() finds what came. */
static void lanes(void **state)
{
    enum { COPIES = 150, BYTES = 4096 };
    struct tr_queue q = open_queue();
    struct tr_device_used used;
    struct tr_tensor there, host;
    static unsigned char first[BYTES], got[BYTES];
    unsigned char *p, *h;

    (void)state;
    assert_ok(tr_cuda.reserve(q.device, BYTES, (void **)&p));
    assert_ok(tr_cuda.reserve_host(q.device, BYTES, (void **)&h));
    tr_cuda.used(q.device, &used);
    assert_int_equal(used.device, BYTES);
    assert_int_equal(used.host, BYTES);
    there = bytes_at(p, BYTES);
    host = bytes_at(h, BYTES);
    tr_cuda.moved(&q, 0);
    tr_cuda.after(&q, 0);
    for (unsigned i = 0; i < COPIES; i++) {
        int64_t copy;

        for (size_t k = 0; k < BYTES; k++)
            first[k] = pattern(k, 2 * i);
        fake_cuda_stall(tr_cuda_stream(&q), 1e-4);
        tr_cuda.upload(&q, &there, first);
        copy = tr_cuda.move(&q, TR_LANE_OUT, &host, &there);
        tr_cuda.moved(&q, copy);
        for (size_t k = 0; k < BYTES; k++) {
            assert_true(h[k] == pattern(k, 2 * i));
            h[k] = pattern(k, 2 * i + 1);
        }
        copy = tr_cuda.move(&q, TR_LANE_IN, &there, &host);
        tr_cuda.after(&q, copy);
        tr_cuda.download(&q, got, &there);
        for (size_t k = 0; k < BYTES; k++)
            assert_true(got[k] == pattern(k, 2 * i + 1));
    }
    setenv("FAKE_CUDA_FAIL", "cudaMallocHost:1:2", 1);
    assert_fails(TR_ERESOURCE, "gives no", tr_cuda.reserve_host(q.device, BYTES, (void **)&h));
    assert_null(h);
    tr_cuda.close(q.device);
}

/* ---- time ---- */

static void marks(void **state)
{
    struct tr_queue q = open_queue();

    (void)state;
    tr_cuda.mark(&q, 0);
    fake_cuda_stall(tr_cuda_stream(&q), 0.02);
    tr_cuda.mark(&q, TR_MARKS - 1);
    tr_cuda.wait(&q);
    assert_true(tr_cuda.between(&q, 0, TR_MARKS - 1) >= 0.0199);
    assert_true(tr_cuda.between(&q, 0, TR_MARKS - 1) < 10.0);
    fake_cuda_stall(tr_cuda_stream(&q), 0.01);
    tr_cuda.mark(&q, 0);
    tr_cuda.wait(&q);
    assert_true(tr_cuda.between(&q, TR_MARKS - 1, 0) >= 0.0099);
    tr_cuda.range(&q, "outer");
    tr_cuda.range(&q, "inner");
    tr_cuda.range(&q, NULL);
    tr_cuda.range(&q, NULL);
    tr_cuda.record(&q, true);
    tr_cuda.record(&q, false);
    tr_cuda.close(q.device);
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

/* A transport sees what goes on while the host waits, whatever it waits for. */
static void watched(void **state)
{
    struct tr_queue q = open_queue();
    struct tr_cuda *g = tr_cuda_of(q.device);
    int32_t *p, got;
    struct tr_tensor one;
    int times = 0;

    (void)state;
    assert_ok(tr_cuda.reserve(q.device, 4, (void **)&p));
    one = tr_i32_1(p, 1);
    g->watch = count;
    g->watch_ctx = &times;
    fake_cuda_stall(g->compute, 0.02);
    tr_cuda.wait(&q);
    assert_true(times > 0);
    times = 0;
    fake_cuda_stall(g->compute, 0.02);
    tr_cuda.download(&q, &got, &one);
    assert_true(times > 0);
    tr_cuda.close(q.device);
}

/* More operations, copies and marks than a stream takes, and nothing that waits for them: the fake stops
   where CUDA would block.  The wait is one that the transport sees. */
static void runs_ahead(void **state)
{
    enum { N = 3000 };
    struct tr_queue q = open_queue();
    struct tr_cuda *g = tr_cuda_of(q.device);
    float *p, one = 1.0F, got;
    struct tr_tensor x;
    int times = 0;

    (void)state;
    assert_ok(tr_cuda.reserve(q.device, sizeof got, (void **)&p));
    x = tr_f32_1(p, 1);
    tr_cuda.upload(&q, &x, &one);
    g->watch = count;
    g->watch_ctx = &times;
    fake_cuda_stall(g->compute, 0.02);
    for (int i = 0; i < N; i++)
        tr_cuda.scale(&q, &x, i % 2 ? 0.5F : 2.0F);
    assert_true(times > 0);
    for (int i = 0; i < N; i++)
        tr_cuda.mark(&q, i % TR_MARKS);
    for (int i = 0; i < N; i++)
        tr_cuda.upload(&q, &x, &one);
    tr_cuda.download(&q, &got, &x);
    assert_true(got == 1.0F);
    tr_cuda.close(q.device);
}

/* ---- graphs ---- */

/* What the fake refuses during a capture is what CUDA's documentation says, and the end of the capture says so
   once more. */
static void capture_is_spoilt_by(struct tr_cuda *g, cudaError_t got, cudaError_t want)
{
    cudaGraph_t graph;

    assert_int_equal(got, want);
    assert_int_equal(cudaStreamEndCapture(g->compute, &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    (void)cudaGetLastError();
    assert_int_equal(cudaStreamBeginCapture(g->compute, cudaStreamCaptureModeThreadLocal),
                     cudaSuccess);
}

static void *allocate_elsewhere(void *out)
{
    return cudaMalloc(out, 256) == cudaSuccess ? out : NULL;
}

static void capture_rules(void **state)
{
    struct tr_queue q = open_queue();
    struct tr_cuda *g = tr_cuda_of(q.device);
    cudaEvent_t inside, outside;
    cudaGraph_t graph;
    pthread_t thread;
    void *p, *done;

    (void)state;
    assert_int_equal(cudaStreamEndCapture(g->compute, &graph), cudaErrorIllegalState);
    assert_int_equal(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal),
                     cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaEventCreate(&inside), cudaSuccess);
    assert_int_equal(cudaEventCreate(&outside), cudaSuccess);
    assert_int_equal(cudaEventRecord(outside, g->compute), cudaSuccess);
    assert_int_equal(cudaStreamBeginCapture(g->compute, cudaStreamCaptureModeThreadLocal),
                     cudaSuccess);
    capture_is_spoilt_by(g, cudaStreamSynchronize(g->compute), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaStreamQuery(g->compute), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaMalloc(&p, 256), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaMallocHost(&p, 256), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaFree(NULL), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaEventQuery(outside), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaEventSynchronize(outside), cudaErrorStreamCaptureUnsupported);
    capture_is_spoilt_by(g, cudaStreamWaitEvent(g->compute, outside, 0),
                         cudaErrorStreamCaptureIsolation);
    assert_int_equal(cudaEventRecord(inside, g->compute), cudaSuccess);
    capture_is_spoilt_by(g, cudaEventQuery(inside), cudaErrorCapturedEvent);
    capture_is_spoilt_by(g, cudaStreamBeginCapture(g->compute, cudaStreamCaptureModeThreadLocal),
                         cudaErrorIllegalState);
    /* Another thread may do as it likes: the capture is of this one. */
    assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &p), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_true(done == &p);
    assert_int_equal(cudaStreamEndCapture(g->compute, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    assert_int_equal(cudaFree(p), cudaSuccess);
    assert_int_equal(cudaEventDestroy(inside), cudaSuccess);
    assert_int_equal(cudaEventDestroy(outside), cudaSuccess);
    tr_cuda.close(q.device);
}

static float number_at(struct tr_queue *q, const struct tr_tensor *x)
{
    float got;

    q->on->download(q, &got, x);
    return got;
}

/* Two numbers on the GPU. */
static void two_numbers(struct tr_queue *q, struct tr_tensor *x, struct tr_tensor *y)
{
    float *p;

    assert_ok(tr_cuda.reserve(q->device, 512, (void **)&p));
    *x = tr_f32_1(p, 1);
    *y = tr_f32_1(p + 64, 1);
}

/* Captured operations run when the graph does, on what is in memory then, with the numbers of then. */
static void graphs(void **state)
{
    struct tr_queue q = open_queue();
    struct tr_tensor x, y;
    struct tr_graph *graph;
    float by_value = 3.0F;

    (void)state;
    two_numbers(&q, &x, &y);
    tr_cuda.fill(&q, &x, 1.0F);
    tr_cuda.fill(&q, &y, 5.0F);
    tr_cuda.capture(&q);
    tr_cuda.add(&q, &x, &y);
    tr_cuda.scale(&q, &x, by_value);
    graph = tr_cuda.captured(&q);
    by_value = 100.0F;
    assert_true(number_at(&q, &x) == 1.0F);
    tr_cuda.replay(&q, graph);
    assert_true(number_at(&q, &x) == 18.0F);
    tr_cuda.fill(&q, &y, 2.0F);
    tr_cuda.replay(&q, graph);
    tr_cuda.replay(&q, graph);
    assert_true(number_at(&q, &x) == 186.0F && by_value == 100.0F);
    tr_cuda.close(q.device);
}

static long recorded(void)
{
    return fake_cuda_calls("cudaEventRecord");
}

/* A graph counts with its nodes, and half of the events at most; what is captured does not. */
static void graphs_are_paced(void **state)
{
    struct tr_queue q = open_queue();
    struct tr_tensor x, y;
    struct tr_graph *small, *large;
    long before;

    (void)state;
    two_numbers(&q, &x, &y);
    tr_cuda.wait(&q);
    before = recorded();
    tr_cuda.capture(&q);
    for (int i = 0; i < 2 * TR_CUDA_PACE_EVERY - 1; i++)
        tr_cuda.add(&q, &x, &y);
    small = tr_cuda.captured(&q);
    tr_cuda.capture(&q);
    for (int i = 0; i < 40 * TR_CUDA_PACE_EVERY; i++)
        tr_cuda.add(&q, &x, &y);
    large = tr_cuda.captured(&q);
    assert_int_equal(recorded(), before);
    for (int i = 1; i <= 3; i++) {
        tr_cuda.replay(&q, small);
        assert_int_equal(recorded(), before + 2L * i);
    }
    for (int i = 1; i <= 20; i++) {
        tr_cuda.replay(&q, large);
        assert_int_equal(recorded(), before + 6 + (long)TR_CUDA_PACE_EVENTS / 2 * i);
    }
    tr_cuda.close(q.device);
}

/* What graphs take is measured, told once, and given back. */
static void memory_of_graphs(void **state)
{
    size_t before, after, all;
    struct tr_queue q;
    struct tr_tensor x, y;

    (void)state;
    assert_int_equal(cudaMemGetInfo(&before, &all), cudaSuccess);
    q = open_queue();
    two_numbers(&q, &x, &y);
    assert_null(tr_cuda.news(q.device));
    for (int i = 0; i < 32; i++) {
        tr_cuda.capture(&q);
        tr_cuda.add(&q, &x, &y);
        tr_cuda.replay(&q, tr_cuda.captured(&q));
    }
    assert_string_equal(
        tr_cuda.news(q.device),
        "CUDA graphs: 32 captured, 32 operations; since the first the GPU has 2.0 MiB "
        "of memory less");
    assert_null(tr_cuda.news(q.device));
    tr_cuda.close(q.device);
    assert_int_equal(cudaMemGetInfo(&after, &all), cudaSuccess);
    assert_int_equal(after, before);
}

static void uploading_child(void)
{
    struct tr_queue q = open_queue();
    struct tr_tensor x, y;
    float one = 1.0F;

    two_numbers(&q, &x, &y);
    tr_cuda.capture(&q);
    tr_cuda.upload(&q, &x, &one);
}

static void waiting_child(void)
{
    struct tr_queue q = open_queue();

    tr_cuda.capture(&q);
    tr_cuda.wait(&q);
}

static void spoilt_child(void)
{
    struct tr_queue q = open_queue();

    tr_cuda.capture(&q);
    (void)cudaDeviceSynchronize();
    (void)tr_cuda.captured(&q);
}

static void crowded_child(void)
{
    struct tr_queue q = open_queue();

    setenv("FAKE_CUDA_GRAPH_KIB", "9999999", 1);
    tr_cuda.capture(&q);
    (void)tr_cuda.captured(&q);
}

static void faults_of_graphs(void **state)
{
    (void)state;
    expect_told(uploading_child, 70, "please report it");
    expect_told(waiting_child, 70, "please report it");
    expect_told(
        spoilt_child, 70,
        "cudaStreamEndCapture failed with cudaError_t(901): as the environment wants; without "
        "--cuda-graph-impl local there are no CUDA graphs");
    expect_told(crowded_child, 69, "cudaGraphInstantiateWithFlags failed with cudaError_t(2)");
}

/* ---- what is said of attention ---- */

static const struct tr_cuda_met dropped = {.way = TR_CUDA_BY_TILES,
                                           .type = TR_BF16,
                                           .head = 64,
                                           .dropout = 0.1,
                                           .cudnn = "cuDNN 9.19.0",
                                           .why = "of dropout"};

static void expect_next(struct tr_cuda_told *t, const char *line)
{
    const char *got = tr_cuda_told_next(t);

    if (!line)
        assert_null(got);
    else
        assert_string_equal(got, line);
}

/* Each kind once for each direction, however often it comes. */
static void attention_is_told(void **state)
{
    static struct tr_cuda_told t;
    struct tr_cuda_met met = {
        .way = TR_CUDA_BY_CUDNN, .type = TR_F16, .head = 128, .cudnn = "cuDNN 9.19.0", .why = ""};

    (void)state;
    for (int i = 0; i < 3; i++) {
        met.backward = i == 2;
        tr_cuda_tell(&t, &met);
    }
    expect_next(&t, "attention, forward, heads of 128 in fp16: cuDNN 9.19.0");
    expect_next(&t, "attention, backward, heads of 128 in fp16: cuDNN 9.19.0");
    expect_next(&t, NULL);
    met.way = TR_CUDA_BY_TILES;
    met.why = "it is Monday";
    tr_cuda_tell(&t, &met);
    tr_cuda_tell(&t, &met);
    expect_next(&t, "attention, backward, heads of 128 in fp16: kernels of this program on tensor "
                    "cores, since it is Monday");
    expect_next(&t, NULL);
}

/* Backward in any order, where cuDNN does it, and where it was asked for in vain. */
static void order_is_told(void **state)
{
    static struct tr_cuda_told t;
    struct tr_cuda_met met = {.way = TR_CUDA_BY_CUDNN,
                              .type = TR_F16,
                              .head = 128,
                              .any_order = true,
                              .cudnn = "cuDNN 9.19.0",
                              .why = ""};

    (void)state;
    for (int i = 0; i < 2; i++) {
        met.backward = i == 1;
        tr_cuda_tell(&t, &met);
    }
    expect_next(&t, "attention, forward, heads of 128 in fp16: cuDNN 9.19.0");
    expect_next(&t, "attention, backward, heads of 128 in fp16: cuDNN 9.19.0, non-deterministic: "
                    "last bits differ from run to run");
    met.way = TR_CUDA_BY_TILES;
    met.why = "it is Monday";
    tr_cuda_tell(&t, &met);
    expect_next(&t, "attention, backward, heads of 128 in fp16: kernels of this program on tensor "
                    "cores, deterministic though --no-deterministic-mode is given, since it is "
                    "Monday");
    expect_next(&t, NULL);
}

/* Each case that the graphs for cuDNN leave out is named; a window as long as the sequence is none, and dropout
   is named where it alone is in the way. */
static void reasons(void **state)
{
    static const struct {
        struct tr_attention_sizes sizes;
        bool bounds, slopes;
        int64_t window;
        double dropout;
        const char *why;
    } cases[] = {
        {{1, 4, 8, 64, 4}, false, false, 0, 0.0, NULL},
        {{1, 4, 8, 64, 4}, false, false, 8, 0.0, NULL},
        {{1, 4, 8, 64, 4}, false, false, 7, 0.0, "has no window (--window-size)"},
        {{1, 4, 8, 64, 2}, false, false, 0, 0.0, "as many keys as queries (--num-query-groups)"},
        {{1, 4, 8, 64, 4}, false, true, 0, 0.0, "no slopes of ALiBi (--position-embedding-type)"},
        {{1, 4, 8, 64, 4}, true, false, 0, 0.0, "no bounds of documents (--reset-attention-mask)"},
        {{1, 4, 8, 64, 4}, false, false, 0, 0.1, "other numbers for --attention-dropout"},
        {{1, 4, 8, 64, 2}, false, false, 0, 0.1, "(--num-query-groups)"},
        {{1, 4, 8, 64, 4}, false, false, 7, 0.1, "(--window-size)"},
        {{1, 4, 8, 64, 4}, false, true, 0, 0.1, "(--position-embedding-type)"},
        {{1, 4, 8, 64, 4}, true, false, 0, 0.1, "(--reset-attention-mask)"},
    };
    const struct tr_tensor slopes = {.dtype = TR_F32};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tr_attention_how how = {.window = cases[i].window,
                                             .slopes = cases[i].slopes ? &slopes : NULL};
        const struct tr_dropout drop = {.p = cases[i].dropout};
        const char *why = tr_cuda_attention_unsaid(cases[i].sizes, cases[i].bounds, how, &drop);

        if (!cases[i].why)
            assert_null(why);
        else if (!why || !strstr(why, cases[i].why))
            fail_msg("%s is not why: %s", cases[i].why, why ? why : "nothing");
    }
}

static void dropout_child(void)
{
    static struct tr_cuda_told t;

    tr_cuda_tell(&t, &dropped);
}

static void no_cudnn_child(void)
{
    static struct tr_cuda_told t;
    struct tr_cuda_met met = dropped;

    met.cudnn = NULL;
    tr_cuda_tell(&t, &met);
    fprintf(stderr, "%s", tr_cuda_told_next(&t));
}

static void odd_head_child(void)
{
    static struct tr_cuda_told t;
    struct tr_cuda_met met = {.way = TR_CUDA_BY_PLAIN, .type = TR_BF16, .head = 72, .why = ""};

    tr_cuda_tell(&t, &met);
}

static void fp32_child(void)
{
    static struct tr_cuda_told t;
    struct tr_cuda_met met = {.way = TR_CUDA_BY_PLAIN, .type = TR_F32, .head = 72, .why = ""};

    tr_cuda_tell(&t, &met);
    fprintf(stderr, "nothing else");
}

/* A warning where the slow one need not be, and only there. */
static void slow_attention_is_a_warning(void **state)
{
    int code;

    (void)state;
    expect_told(dropout_child, 0, "--attention-dropout 0.1 keeps attention out of cuDNN 9.19.0");
    assert_null(strstr(told_by(no_cudnn_child, &code), "warning"));
    expect_told(odd_head_child, 0, "heads of 72 in bf16 is computed by the plain fp32 kernels");
    assert_string_equal(told_by(fp32_child, &code), "nothing else");
}

/* ---- faults ---- */

static void failing_child(void)
{
    struct tr_queue q = open_queue();

    tr_cuda_launched(&q, "layernorm", 700);
}

static void ecc_child(void)
{
    struct tr_queue q = open_queue();

    setenv("FAKE_CUDA_FAIL", "cudaStreamQuery:0:214", 1);
    tr_cuda.wait(&q);
}

static void copying_child(void)
{
    struct tr_queue q = open_queue();
    int32_t *p, one = 1;
    struct tr_tensor t;

    assert_ok(tr_cuda.reserve(q.device, 4, (void **)&p));
    t = tr_i32_1(p, 1);
    setenv("FAKE_CUDA_FAIL", "cudaMemcpyAsync:1:719", 1);
    tr_cuda.upload(&q, &t, &one);
}

static void library_child(void)
{
    struct tr_queue q = open_queue();

    tr_cuda_die(tr_cuda_of(q.device), "cublasLtMatmul", "not today");
}

static void greedy_child(void)
{
    struct tr_queue q = open_queue();

    (void)tr_cuda_scratch(&q, TR_CUDA_SCRATCH_BYTES + 1);
}

static void broken_child(void)
{
    struct tr_queue q = open_queue();

    setenv("FAKE_CUDA_FAIL", "cudaEventRecord:1:700", 1);
    (void)cudaEventRecord(tr_cuda_of(q.device)->mark[0], tr_cuda_stream(&q));
    setenv("FAKE_CUDA_FAIL", "", 1);
    (void)cudaGetLastError();
    tr_cuda.wait(&q);
}

/* What broke the GPU is heard of at the next wait, whoever did not look. */
static void broken_stays(void **state)
{
    (void)state;
    expect_told(broken_child, 70, "work on a stream failed with cudaError_t(700)");
}

/* Codes: 70 for what should be reported, 75 for a GPU that another may replace. */
static void faults(void **state)
{
    (void)state;
    expect_told(failing_child, 70,
                "GPU 0 (Fake GPU, GPU-1b000000-0000-0000-0000-000000000000): layernorm failed with "
                "cudaError_t(700)");
    expect_told(ecc_child, 75, "work on a stream failed with cudaError_t(214)");
    expect_told(copying_child, 70, "cudaMemcpyAsync of 4 bytes to the GPU failed");
    expect_told(library_child, 70, "cublasLtMatmul failed: not today");
    expect_told(greedy_child, 70, "please report it");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_gpu_each),
        TEST(given_gpu),
        TEST(no_gpu),
        TEST(code_for_gpu),
        TEST(not_allowed), /* before other tests with kernels */
        TEST(allowed_once),
        TEST(allowed_by_threads),
        TEST(older_code),
        TEST(broken_opening),
        TEST(description),
        TEST(memory),
        TEST(scattered_memory),
        TEST(apart),
        TEST(uploads),
        TEST(small_uploads),
        TEST(uploads_keep_their_place),
        TEST(lanes),
        TEST(marks),
        TEST(watched),
        TEST(runs_ahead),
        TEST(capture_rules),
        TEST(graphs),
        TEST(graphs_are_paced),
        TEST(memory_of_graphs),
        TEST(faults_of_graphs),
        TEST(faults),
        TEST(broken_stays),
        TEST(attention_is_told),
        TEST(reasons),
        TEST(order_is_told),
        TEST(slow_attention_is_a_warning),
    };

    return run_tap(tests);
}
