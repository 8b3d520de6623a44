/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/curve.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

#include "ckpt/async.h"

/*
 * --async-save: the checkpoint has the numbers of the moment at which it began, whether the thread that copies them comes
 * when the optimizer has changed them all, or has copied and written them before the next iteration, or nothing is
 * trained before the checkpoint is to be there.  Where replicas diverge all is copied before training goes on.
 */
enum { HALF = 2, STEPS = 4 };

enum way { LATE, EARLY, ALONE };

static const struct mode {
    const char *options;
    /* LATER: while training goes on.  IN_FILES: so, too, but not by the thread; with() adds the option. */
    enum { AT_ONCE, LATER, IN_FILES } copied;
} modes[] = {
    {"", LATER},
    {"--bf16 --use-distributed-optimizer", LATER},
    {"--zero-stage 1 --ddp-bucket-size 500 --overlap-param-gather", LATER},
    {"--bf16 --zero-stage 3", LATER},
    {"--tensor-model-parallel-size 2", LATER},
    {"--pipeline-model-parallel-size 2 --fp16 --initial-loss-scale 1024", LATER},
    {"--optimizer 8bit-adam", LATER},
    {"--offload-optimizer cpu", LATER},
    {"--offload-optimizer cpu --optimizer-offload-fraction 0.4 --bf16", LATER},
    {"--offload-optimizer cpu --optimizer 8bit-adam --zero-stage 2", LATER},
    {"--bf16", IN_FILES},
    {"--optimizer 8bit-adam --use-distributed-optimizer", IN_FILES},
    {"--optimizer-offload-fraction 0.4", IN_FILES},
    {"--dp-mode cocktail_sgd --topk-ratio 0.5 --randomp-ratio 0.5", AT_ONCE},
};
enum { MODES = sizeof modes / sizeof modes[0] };

/* The options of a mode, and others. */
static void with(const struct mode *mode, char *out, size_t size, const char *others)
{
    const char *tmp = getenv("TMPDIR");
    const int used = snprintf(out, size, "--global-batch-size 4 %s %s", mode->options, others);

    if (mode->copied == IN_FILES)
        snprintf(out + used, size - (size_t)used,
                 " --offload-tile 1024 --offload-buffers 3 --offload-optimizer %s",
                 tmp ? tmp : "/tmp");
}

/* Threads that begin while this is set wait for the semaphore, each once. */
static bool held;
static sem_t go;

struct begin {
    void *(*run)(void *arg);
    void *arg;
};

static void *wait_and_run(void *arg)
{
    const struct begin b = *(struct begin *)arg;

    free(arg);
    while (sem_wait(&go) != 0)
        ;
    return b.run(b.arg);
}

int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct begin *b = held ? malloc(sizeof *b) : NULL;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (!b)
        return real(out, attr, run, arg);
    *b = (struct begin){run, arg};
    return real(out, attr, wait_and_run, b);
}

/* Weights and states of this rank, all rows one after the other; the caller frees them. */
static float *numbers(struct tr_run *r)
{
    const int64_t n = r->optim.owned;
    float *x = calloc((size_t)(n * TR_ROWS) + 1, sizeof *x);

    assert_all(x != NULL);
    for (int row = 0; row < TR_ROWS; row++)
        tr_optim_get(&r->optim, row, 0, n, x + row * n);
    return x;
}

/* The checkpoint comes to its end. */
static void end(struct tr_run *r, struct tr_ckpt_async *by)
{
    if (held) {
        /* All of it was copied by the optimizer. */
        assert_all(tr_ckpt_async_waited(by) > 0.0);
        held = false;
        sem_post(&go);
    }
    assert_all_ok(tr_run_end_async(r, by));
}

/* Save at step HALF, and go on to STEPS. */
static float *saved(struct tr_run *r, const struct mode *mode, enum way way, struct curve *curve)
{
    struct tr_ckpt_async *by;
    float *then;

    curve_train(r, 0, HALF, curve);
    then = numbers(r);
    held = way == LATE && mode->copied != AT_ONCE;
    assert_all_ok(tr_run_save_async(r, &by));
    while (way == EARLY && mode->copied != IN_FILES && !tr_ckpt_async_over(by))
        ;
    if (way == ALONE)
        end(r, by);
    curve_train(r, HALF, STEPS, curve);
    if (way != ALONE)
        end(r, by);
    return then;
}

static bool is_saved(const struct mode *mode, const char *folder, const float *then)
{
    char text[PATH_MAX + 1024], others[PATH_MAX + 32];
    struct tr_config c;
    struct tr_run r;
    float *now;
    bool same;

    snprintf(others, sizeof others, "--load %s", folder);
    with(mode, text, sizeof text, others);
    curve_open(&r, &c, STEPS, text);
    assert_all_ok(tr_run_load(&r));
    assert_all(r.iteration == HALF);
    now = numbers(&r);
    same = memcmp(now, then, (size_t)(r.optim.owned * TR_ROWS) * sizeof *now) == 0;
    free(now);
    tiny_close(&r, &c);
    return same;
}

static void in_mode(const struct mode *mode, enum way way)
{
    char folder[PATH_MAX], text[PATH_MAX + 1024], others[PATH_MAX + 64];
    struct curve before, curve = {.steps = STEPS};
    struct tr_config c;
    struct tr_run r;
    float *then;

    with(mode, text, sizeof text, "");
    curve_of(STEPS, text, &before);
    curve_folder(folder);
    snprintf(others, sizeof others, "--async-save --save-interval %d --save %s", HALF, folder);
    with(mode, text, sizeof text, others);
    curve_open(&r, &c, STEPS, text);
    then = saved(&r, mode, way, &curve);
    tiny_close(&r, &c);
    assert_all(curve_same(&before, &curve));
    assert_all(is_saved(mode, folder, then));
    free(then);
    curve_remove(folder);
}

static void late(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++)
        in_mode(&modes[i], LATE);
}

static void early(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++)
        in_mode(&modes[i], EARLY);
}

static void alone(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++)
        in_mode(&modes[i], ALONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(late), cmocka_unit_test(early),
                                       cmocka_unit_test(alone)};

    sem_init(&go, 0, 0);
    return run_mpi_tap(tests);
}
