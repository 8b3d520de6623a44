/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/alone.h"
#include "device/cpu/cpu_dnnl.h"
#include "device/host.h"
#include "util/half.h"

/*
 * GEMMs of bf16 by own kernels and by oneDNN, whichever the device would choose, against `ref`: of
 * inputs that are rounded already, so all that differs is the order of fp32 sums and one rounding of the result.
 */
enum { MOST = 3072 * 768 };

static uint16_t x[MOST], w[MOST], pre[MOST], bias[3072];
static uint16_t y[2][MOST], z[2][MOST];
static float dw[2][MOST], dbias[2][3072];

static void fill(uint16_t *to, int64_t n, unsigned seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        to[i] = tr_bf16_from_float((float)(seed >> 8) / 8388608.0F - 1.0F);
    }
}

static void near(const char *what, const uint16_t *got, const uint16_t *want, int64_t n)
{
    double off = 0.0, all = 0.0;

    for (int64_t i = 0; i < n; i++) {
        double g = (double)tr_bf16_to_float(got[i]), v = (double)tr_bf16_to_float(want[i]);

        off += (g - v) * (g - v);
        all += v * v;
    }
    /* Sums that differ by an ulp of fp32 round to different neighbours now and then. */
    if (!(off <= 1e-7 * all))
        fail_msg("%s is off by %g", what, sqrt(off / all));
}

static void near_floats(const char *what, const float *got, const float *want, int64_t n)
{
    double off = 0.0, all = 0.0;

    for (int64_t i = 0; i < n; i++) {
        off += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        all += (double)want[i] * (double)want[i];
    }
    if (!(off <= 1e-11 * all))
        fail_msg("%s is off by %g", what, sqrt(off / all));
}

/* The three operations for N rows, O outputs and I inputs on one queue. */
static void products(struct tr_queue *q, int which, int64_t n, int64_t o, int64_t i)
{
    struct tr_tensor tx = tr_tensor_2(x, TR_BF16, n, i), tw = tr_tensor_2(w, TR_BF16, o, i);
    struct tr_tensor tb = tr_tensor_1(bias, TR_BF16, o), ty = tr_tensor_2(y[which], TR_BF16, n, o);
    struct tr_tensor tz = tr_tensor_2(z[which], TR_BF16, n, o);
    struct tr_tensor tp = tr_tensor_2(pre, TR_BF16, n, o);
    struct tr_tensor tdw = tr_tensor_2(dw[which], TR_F32, o, i);
    struct tr_tensor tdb = tr_tensor_1(dbias[which], TR_F32, o);

    q->on->linear(q, &ty, &tz, &tx, &tw, &tb, TR_ACT_GELU_TANH);
    q->on->linear_wgrad(q, &tdw, &tdb, &tp, &tx, false);
    q->on->linear_wgrad(q, &tdw, &tdb, &tp, &tx, true);
    /* x[n,i] times a weight [i,o], with the slope of what made [n,o]. */
    tw = tr_tensor_2(w, TR_BF16, i, o);
    q->on->linear_dgrad(q, &ty, &tx, &tw, &tp, TR_ACT_GELU_TANH);
    q->on->wait(q);
}

static struct tr_queue open_cpu(enum tr_gemm_by gemm, int threads)
{
    struct tr_queue q = {.on = tr_backend_find("cpu")};

    share_small_work();
    assert_ok(q.on->open(&(struct tr_device_how){.threads = threads, .gemm = gemm}, &q.device));
    return q;
}

static void prepare(int64_t n, int64_t o, int64_t i)
{
    fill(x, n * i, 1);
    fill(w, o * i, 2);
    fill(bias, o, 3);
    fill(pre, n * o, 4);
}

static void compare(int64_t n, int64_t o, int64_t i)
{
    near("linear_dgrad", y[0], y[1], n * o);
    near("linear", z[0], z[1], n * o);
    near_floats("linear_wgrad", dw[0], dw[1], o * i);
}

static void against_ref(enum tr_gemm_by gemm)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {37, 65, 51}, {256, 300, 768}, {400, 900, 100}};

    for (int threads = 1; threads <= 2; threads++) {
        struct tr_queue cpu = open_cpu(gemm, threads), ref = {.on = tr_backend_find("ref")};

        assert_ok(ref.on->open(&(struct tr_device_how){.threads = 1}, &ref.device));
        assert_true((cpu.device->dnnl != NULL) == (gemm == TR_GEMM_ONEDNN));
        print_message("# %s\n", cpu.on->describe(cpu.device));
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            int64_t n = sizes[s][0], o = sizes[s][1], i = sizes[s][2];

            prepare(n, o, i);
            products(&cpu, 0, n, o, i);
            products(&ref, 1, n, o, i);
            compare(n, o, i);
        }
        cpu.on->close(cpu.device);
        ref.on->close(ref.device);
    }
}

static bool can_use(void)
{
    struct tr_dnnl *d = NULL;
    bool can = tr_dnnl_open(1, TR_GEMM_ONEDNN, &d) == TR_OK;

    tr_dnnl_close(d);
    return can;
}

static void by_own_kernels(void **state)
{
    (void)state;
    against_ref(TR_GEMM_OWN);
}

static void by_onednn(void **state)
{
    (void)state;
    if (!can_use())
        skip();
    against_ref(TR_GEMM_ONEDNN);
}

/* GEMMs of a step, each by several threads at once, again and again: none of them works where
   another does. */
static void threads_of_onednn(void **state)
{
    enum { N = 256, O = 3072, I = 768, TIMES = 8 };
    struct tr_queue own, cpu;

    (void)state;
    if (!can_use())
        skip();
    prepare(N, O, I);
    own = open_cpu(TR_GEMM_OWN, 1);
    products(&own, 1, N, O, I);
    for (int threads = 2; threads <= 4; threads++) {
        cpu = open_cpu(TR_GEMM_ONEDNN, threads);
        for (int t = 0; t < TIMES; t++) {
            products(&cpu, 0, N, O, I);
            compare(N, O, I);
        }
        cpu.on->close(cpu.device);
    }
    own.on->close(own.device);
}

static void refused_where_it_cannot(void **state)
{
    struct tr_device *d = NULL;

    (void)state;
    if (can_use())
        skip();
    assert_fails(TR_ERESOURCE, "use auto or own",
                 tr_backend_find("cpu")->open(
                     &(struct tr_device_how){.threads = 1, .gemm = TR_GEMM_ONEDNN}, &d));
    assert_null(d);
}

/* Processes that compute with subnormal numbers during the test, and end by themselves. */
enum { BUSY = 8, OPENINGS = 100 };

static void keep_busy(pid_t *child)
{
    for (int i = 0; i < BUSY; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            alarm(60);
            for (volatile double small = 1.0;; small = small * 0.5 + 1e-310)
                ;
        }
        assert_true(child[i] > 0);
    }
}

/* A choice by timing would differ between an idle and a busy machine, and where registers hold
   subnormal numbers. */
static void one_choice_under_load(void **state)
{
    const struct tr_backend *cpu = tr_backend_find("cpu");
    char first[128] = "";
    pid_t child[BUSY];

    (void)state;
    keep_busy(child);
    for (int i = 0; i < OPENINGS; i++) {
        struct tr_device *d;

        assert_ok(cpu->open(&(struct tr_device_how){.threads = 1}, &d));
        if (i == 0)
            snprintf(first, sizeof first, "%s", cpu->kernels(d, TR_BF16));
        assert_string_equal(cpu->kernels(d, TR_BF16), first);
        cpu->close(d);
    }
    for (int i = 0; i < BUSY; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_own_kernels),        cmocka_unit_test(by_onednn),
        cmocka_unit_test(threads_of_onednn),     cmocka_unit_test(refused_where_it_cannot),
        cmocka_unit_test(one_choice_under_load),
    };

    return run_tap(tests);
}
