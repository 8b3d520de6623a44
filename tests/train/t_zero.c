/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <ftw.h>
#include <math.h>

#include "optim/stat.h"

/*
 * --zero-stage 2 and 3: gradients and weights that are sharded over replicas train as those that are not.  Where
 * sums are the same, to the bit; where they are taken in another order, as close as that allows.  What a rank
 * holds is the closed form, and a checkpoint of one stage is resumed in another.
 */
enum { ITERATIONS = 5, HIDDEN = 32, LAYERS = 4, VOCAB = 104, POSITIONS = 20 };

static void open_run(struct tr_run *r, struct tr_config *c, const char *more)
{
    char options[2048];

    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --train-iters %d --lr 0.003 "
             "--lr-warmup-iters 2 --lr-decay-style cosine --init-method-std 0.1 "
             "--attention-dropout 0.1 --hidden-dropout 0.1 --seed 4321 %s",
             ITERATIONS, more);
    tiny_open(r, c, options, tiny_sample);
}

static void train(struct tr_run *r, int from, int to, double loss[])
{
    struct tr_step_result result;

    for (int i = from; i < to; i++) {
        tr_step(r, &result);
        r->iteration++;
        loss[i] = tiny_loss(result.loss);
        /* In the middle of things, as an evaluation is. */
        if (i == 1)
            loss[ITERATIONS] = tiny_loss(tr_eval(r, TR_SPLIT_VALID, 3, 1));
    }
}

static void losses_of(const char *options, double loss[ITERATIONS + 1])
{
    struct tr_config c;
    struct tr_run r;

    open_run(&r, &c, options);
    train(&r, 0, ITERATIONS, loss);
    tiny_close(&r, &c);
}

static double apart(const double *a, const double *b)
{
    double worst = 0.0;

    for (int i = 0; i <= ITERATIONS; i++)
        worst = fmax(worst, fabs(a[i] / b[i] - 1.0));
    return worst;
}

/* Losses of a stage, "" for none. */
static void stage_of(const char *layout, const char *stage, double loss[ITERATIONS + 1])
{
    char options[512];

    snprintf(options, sizeof options, "%s %s", layout, stage);
    losses_of(options, loss);
}

static bool same(const double *a, const double *b)
{
    return memcmp(a, b, (ITERATIONS + 1) * sizeof *a) == 0;
}

/* One micro-batch in a step, so that sums over replicas are all there are.  Without a norm, which is summed in the
   order of what ranks own; with two replicas an all-reduce adds the same two numbers. */
static void same_bits(void **state)
{
    static const char *const layouts[] = {
        "",
        "--tensor-model-parallel-size 2",
        "--pipeline-model-parallel-size 2",
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16",
        ("--tensor-model-parallel-size 2 --recompute-granularity full --recompute-method uniform "
         "--recompute-num-layers 2"),
        "--no-overlap-grad-reduce --untie-embeddings-and-output-weights --swiglu",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char layout[300];
        double loss[5][ITERATIONS + 1];
        const int w = strstr(layouts[i], "--tensor") ? 2 : 1;
        const int p = strstr(layouts[i], "--pipeline") ? 2 : 1, d = (int)world.size / w / p;

        if (d < 2)
            continue;
        snprintf(layout, sizeof layout, "--global-batch-size %d --clip-grad 0 %s", d, layouts[i]);
        stage_of(layout, "--zero-stage 0", loss[0]);
        stage_of(layout, "--use-distributed-optimizer", loss[1]);
        stage_of(layout, "--zero-stage 2", loss[2]);
        stage_of(layout, "--zero-stage 3", loss[3]);
        if (!strstr(layout, "--no-overlap"))
            stage_of(layout, "--zero-stage 2 --overlap-param-gather", loss[4]);
        else
            memcpy(loss[4], loss[2], sizeof loss[4]);
        print_message("%s: off by %.1e, %.1e, %.1e\n", layout, apart(loss[0], loss[1]),
                      apart(loss[1], loss[2]), apart(loss[1], loss[3]));
        assert_all(same(loss[1], loss[2]));
        assert_all(same(loss[1], loss[3]));
        assert_all(same(loss[1], loss[4]));
        assert_all(d > 2 || same(loss[0], loss[3]));
        assert_all(apart(loss[0], loss[3]) <= (strstr(layouts[i], "bf16") ? 1e-3 : 1e-5));
        assert_all(fabs(loss[3][4] - loss[3][0]) > 1e-3);
    }
}

/* Several micro-batches, whose sums are rounded in another order, in every layout.  Stages 2 and 3 do the same
   sums, to the bit. */
static void close_losses(void **state)
{
    static const struct {
        const char *layout;
        double tolerance;
    } cases[] = {
        {"--clip-grad 0.5", 1e-5},
        {"--tensor-model-parallel-size 2 --sequence-parallel --clip-grad 0.5", 1e-5},
        {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2", 1e-5},
        {"--pipeline-model-parallel-size 2 --bf16 --recompute-granularity full "
         "--recompute-method block --recompute-num-layers 1",
         1e-3},
        {"--fp16 --initial-loss-scale 1e6 --tensor-model-parallel-size 2", 1e-3},
        {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --clip-grad 0.5", 1e-5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double loss[3][ITERATIONS + 1];
        char layout[300];

        if (strstr(cases[i].layout, "2 --pipeline") && world.size < 8)
            continue;
        snprintf(layout, sizeof layout, "--global-batch-size %d %s", 2 * (int)world.size,
                 cases[i].layout);
        stage_of(layout, "", loss[0]);
        stage_of(layout, "--zero-stage 2", loss[1]);
        stage_of(layout, "--zero-stage 3", loss[2]);
        print_message("%s: off by %.1e\n", layout, apart(loss[0], loss[1]));
        assert_all(apart(loss[0], loss[1]) <= cases[i].tolerance);
        assert_all(same(loss[1], loss[2]));
    }
}

/* Elements of a layer, and of all that is none, each with padding to a multiple of 64 for each replica. */
static int64_t padded(int64_t n)
{
    const int64_t unit = 64 * (int64_t)world.size;

    return (n + unit - 1) / unit * unit;
}

/* With D replicas, fp32: gradients are a D-th of all, two layers, and what is no layer; so are weights, but for
   masters, which are the D-th of them that a rank owns. */
static void memory(void **state)
{
    const int64_t h = HIDDEN, layer = padded(12 * h * h + 13 * h);
    const int64_t rest = padded(2 * h) + padded(POSITIONS * h) + padded(VOCAB * h);
    const int64_t all = LAYERS * layer + rest, owned = all / (int64_t)world.size;

    (void)state;
    for (int stage = 2; stage <= 3; stage++) {
        const int64_t values = stage == 3 ? 2 * layer + rest : all;
        const int64_t states = (stage == 3 ? 3 : 2) * owned;
        struct tr_config c;
        struct tr_run r, dry;

        open_run(&r, &c,
                 stage == 2 ? "--global-batch-size 8 --zero-stage 2"
                            : "--global-batch-size 8 --zero-stage 3");
        assert_all(r.model.params.size == all && r.optim.owned == owned);
        assert_all((int64_t)r.arena.bytes[TR_LABEL_GRADIENTS] == 4 * (owned + 2 * layer + rest));
        assert_all((int64_t)r.arena.bytes[TR_LABEL_WEIGHTS] == 4 * values);
        assert_all((int64_t)r.arena.bytes[TR_LABEL_OPTIMIZER] >= 4 * states);
        assert_all((int64_t)r.arena.bytes[TR_LABEL_OPTIMIZER] <= 4 * states + 1024);
        assert_all_ok(tr_run_dry(&dry, &c, NULL, &r.shape, (int)world.rank));
        assert_all(memcmp(dry.arena.bytes, r.arena.bytes, sizeof dry.arena.bytes) == 0);
        tr_run_close(&dry);
        tiny_close(&r, &c);
    }
}

/* What the log says of weights and gradients: the norm of the former in another order, zeros to the number. */
static void numbers(void **state)
{
    double norm[4], zeros[4];

    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        struct tr_step_result result;
        char options[128];
        struct tr_config c;
        struct tr_run r;

        snprintf(options, sizeof options,
                 "--global-batch-size %d --tensor-model-parallel-size %d --zero-stage %d",
                 (int)world.size, world.size > 2 ? 2 : 1, stage);
        open_run(&r, &c, options);
        r.count_zeros = true;
        tr_step(&r, &result);
        zeros[stage] = result.zeros;
        tr_dp_need(&r.dp, 0, false);
        norm[stage] = tr_stat_params_norm(&r.optim, tr_dp_owners(&r.dp), &r.queue);
        tiny_close(&r, &c);
        assert_all(zeros[stage] == zeros[0] && zeros[0] > 0.0);
        assert_all(fabs(norm[stage] / norm[0] - 1.0) < 1e-6);
    }
}

static int drop(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
    (void)s, (void)flag, (void)ftw;
    return remove(path);
}

/* Saved in one stage in the middle and resumed in the next. */
static void resumes(void **state)
{
    static const char *const how[] = {"--zero-stage 3", "--zero-stage 0", "--zero-stage 2",
                                      "--zero-stage 1", "--zero-stage 3"};
    double whole[ITERATIONS + 1], loss[ITERATIONS + 1];
    char layout[64], dir[PATH_MAX], options[PATH_MAX + 200];

    (void)state;
    snprintf(layout, sizeof layout, "--bf16 --global-batch-size %d", (int)world.size);
    stage_of(layout, "", whole);
    for (int i = 0; i < 4; i++) {
        const char *tmp = getenv("TMPDIR");
        struct tr_config c;
        struct tr_run r;

        memset(dir, 0, sizeof dir);
        if (world.rank == 0)
            snprintf(dir, sizeof dir, "%s/zero.XXXXXX", tmp ? tmp : "/tmp");
        assert_all(world.rank != 0 || mkdtemp(dir));
        MPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, MPI_COMM_WORLD);
        snprintf(options, sizeof options, "%s %s --save %s", layout, how[i], dir);
        open_run(&r, &c, options);
        train(&r, 0, 3, loss);
        assert_all_ok(tr_run_save(&r));
        tiny_close(&r, &c);
        snprintf(options, sizeof options, "%s %s --load %s", layout, how[i + 1], dir);
        open_run(&r, &c, options);
        assert_all_ok(tr_run_load(&r));
        assert_all(r.iteration == 3);
        train(&r, 3, ITERATIONS, loss);
        tiny_close(&r, &c);
        assert_all(apart(loss, whole) <= 1e-3);
        if (world.rank == 0)
            nftw(dir, drop, 8, FTW_DEPTH | FTW_PHYS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits), cmocka_unit_test(close_losses), cmocka_unit_test(memory),
        cmocka_unit_test(numbers),   cmocka_unit_test(resumes),
    };
    return run_mpi_tap(tests);
}
