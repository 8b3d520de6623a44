/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * What a run promises whatever its model, for every family: it goes on after a stop as if there had been none,
 * to the bit, with weights, moments and losses; a checkpoint of tensor-parallel ranks goes on in stages, and with
 * the distributed optimizer, with the same losses; and schedules, recomputation and sharding leave the losses of
 * one stage.  Dropout is on, so that a wrong mask shows.  Models have four layers, for two chunks of two stages.
 * Arguments are names of families: only those.
 */
enum { ITERATIONS = 6, HALF = 3 };
#define TOLERANCE 1e-5 /* of sums in another order, as in t_layouts */

#define MODEL                                                                                     \
    "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "                    \
    "--max-position-embeddings 16 --vocab-size 101 --make-vocab-size-divisible-by 8 "             \
    "--micro-batch-size 1 --global-batch-size 8 --lr 0.01 --lr-warmup-iters 2 "                   \
    "--lr-decay-style cosine --init-method-std 0.2 --attention-dropout 0.1 --hidden-dropout 0.1 " \
    "--seed 4321 "

/* As many classes as tokens, so that any sample has one. */
#define CLASSES "--mock-data --num-labels 101 --position-buckets 8 --max-relative-positions 16"

/* What makes a row small, or makes a part of it matter in 16 tokens; THOROUGH ones together have every part. */
static const struct {
    const char *name, *options;
    bool thorough;
} small[] = {
    {"opt-350m", "--word-embed-proj-dim 16", true},
    {"gptj", "--rotary-percent 0.5", true},
    {"gpt-neox", "", true},
    {"bloom", "", true},
    {"llama3", "--num-query-groups 2", false},
    {"llama3.1", "--num-query-groups 2 --rope-scaling-original-length 12", false},
    {"mistral", "--num-query-groups 2 --window-size 5", true},
    {"qwen3", "--num-query-groups 1 --kv-channels 12", true},
    {"gemma", "--num-query-groups 2 --kv-channels 16", true},
    {"deberta-v2", CLASSES, false},
    {"deberta-v3", CLASSES, false},
};

static int chosen_families;
static char **chosen;

static const char *options_of(const char *family, bool *thorough)
{
    *thorough = false;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (strcmp(small[i].name, family) == 0) {
            *thorough = small[i].thorough;
            return small[i].options;
        }
    return "";
}

/* tiny_sample() in documents of seven tokens, if the vocabulary has an end of document. */
static enum tr_status sample_of(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    enum tr_status s = tiny_sample(r, split, position, text);

    for (int64_t t = position % 7; t <= r->shape.dims.seq && r->shape.dims.eod >= 0; t += 7)
        text[t] = (int32_t)r->shape.dims.eod;
    return s;
}

static void open_run(struct tr_run *r, struct tr_config *c, const char *family, const char *layout)
{
    char options[4096 + PATH_MAX];
    bool thorough;

    snprintf(options, sizeof options, MODEL "--train-iters %d --model-family %s %s %s", ITERATIONS,
             family, options_of(family, &thorough), layout);
    tiny_open(r, c, options, sample_of);
}

/* Iterations from..to, and behind the last a loss without dropout. */
static void train(struct tr_run *r, int from, int to, double loss[])
{
    for (int i = from; i < to; i++) {
        struct tr_step_result result;

        tr_step(r, &result);
        r->iteration++;
        loss[i] = tiny_loss(result.loss);
    }
    if (to == ITERATIONS)
        loss[ITERATIONS] = tiny_loss(tr_eval(r, TR_SPLIT_VALID, 3, 2));
}

static void losses_of(const char *family, const char *layout, double loss[ITERATIONS + 1])
{
    struct tr_config c;
    struct tr_run r;

    open_run(&r, &c, family, layout);
    train(&r, 0, ITERATIONS, loss);
    tiny_close(&r, &c);
}

static bool near(const char *what, const double *loss, const double *want, double tolerance)
{
    double worst = 0.0;

    for (int i = 0; i <= ITERATIONS; i++) {
        const double error = fabs(loss[i] / want[i] - 1.0);

        worst = isfinite(error) ? fmax(worst, error) : INFINITY;
    }
    print_message("%s: off by %.1e\n", what, worst);
    return worst <= tolerance;
}

/* The test would pass with a model that learns nothing. */
static bool learns(const double *loss)
{
    print_message("from %.6f to %.6f\n", loss[0], loss[ITERATIONS - 1]);
    return loss[ITERATIONS - 1] < 0.99 * loss[0];
}

/* ---- stopped and resumed ---- */

static char folder[PATH_MAX];

static void folder_open(void)
{
    const char *tmp = getenv("TMPDIR");

    if (world.rank == 0)
        snprintf(folder, sizeof folder, "%s/families.XXXXXX", tmp ? tmp : "/tmp");
    assert_all(world.rank != 0 || mkdtemp(folder));
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static int drop(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
    (void)s, (void)flag, (void)ftw;
    return remove(path);
}

static void folder_close(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank == 0)
        nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* Run `r` from the checkpoint to the end. */
static void resume(struct tr_run *r, struct tr_config *c, const char *family, const char *layout,
                   double loss[])
{
    char options[PATH_MAX + 512];

    snprintf(options, sizeof options, "%s --load %s", layout, folder);
    open_run(r, c, family, options);
    assert_all_ok(tr_run_load(r));
    assert_all(r->iteration == HALF);
    train(r, HALF, ITERATIONS, loss);
}

static bool same_bits(const struct tr_tensor *a, const struct tr_tensor *b)
{
    return tr_tensor_bytes(a) == tr_tensor_bytes(b) &&
           memcmp(a->data, b->data, (size_t)tr_tensor_bytes(a)) == 0;
}

static void stop_and_resume(const char *family)
{
    const char *const saved = world.size > 2 ? "--tensor-model-parallel-size 2 --sequence-parallel"
                                             : "--tensor-model-parallel-size 2";
    static const char *const others[] = {
        "--pipeline-model-parallel-size 2",
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 1,3 "
         "--use-distributed-optimizer"),
        "--use-distributed-optimizer --ddp-bucket-size 3000 --overlap-param-gather",
    };
    double whole[ITERATIONS + 1], loss[ITERATIONS + 1];
    char options[PATH_MAX + 512];
    struct tr_config c, again;
    struct tr_run r, resumed;

    folder_open();
    snprintf(options, sizeof options, "%s --save %s", saved, folder);
    open_run(&r, &c, family, options);
    train(&r, 0, HALF, loss);
    assert_all_ok(tr_run_save(&r));
    tiny_close(&r, &c);

    open_run(&r, &c, family, saved);
    train(&r, 0, ITERATIONS, whole);
    assert_all(learns(whole));
    resume(&resumed, &again, family, saved, loss);
    assert_all(memcmp(whole, loss, sizeof whole) == 0);
    assert_all(same_bits(&r.model.params.values, &resumed.model.params.values));
    assert_all(
        same_bits(&r.optim.state[TR_STATE_EXP_AVG], &resumed.optim.state[TR_STATE_EXP_AVG]) &&
        same_bits(&r.optim.state[TR_STATE_EXP_AVG_SQ], &resumed.optim.state[TR_STATE_EXP_AVG_SQ]));
    tiny_close(&resumed, &again);
    tiny_close(&r, &c);

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        resume(&resumed, &again, family, others[i], loss);
        tiny_close(&resumed, &again);
        assert_all(near(others[i], loss, whole, TOLERANCE));
    }
    folder_close();
}

/* ---- schedules and what saves memory ---- */

static void other_ways(const char *family)
{
#define CHUNKS "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 "
#define TENSOR "--tensor-model-parallel-size 2 "
    static const struct {
        int ranks; /* at least */
        const char *layout;
        double tolerance; /* 0: to the bit as the layout before */
    } ways[] = {
        {2, "--backend ref", TOLERANCE},
        {2, CHUNKS, TOLERANCE},
        {2, CHUNKS "--no-overlap-p2p-communication", TOLERANCE},
        {2, CHUNKS "--use-distributed-optimizer --overlap-param-gather --ddp-bucket-size 500",
         TOLERANCE},
        {2, "--pipeline-model-parallel-size 2 --pipeline-schedule gpipe", TOLERANCE},
        {2, "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|t*3L", TOLERANCE},
        {2, TENSOR "--sequence-parallel", TOLERANCE},
        {2, TENSOR "--sequence-parallel --recompute-granularity selective", 0.0},
        {2, TENSOR "--sequence-parallel --recompute-granularity full", 0.0},
        {2, TENSOR "--no-async-tensor-model-parallel-allreduce", TOLERANCE},
        {2, TENSOR "--recompute-granularity full --distribute-checkpointed-activations", 0.0},
        {2, "--use-distributed-optimizer --no-overlap-grad-reduce --ddp-bucket-size 3000",
         TOLERANCE},
        {2,
         "--recompute-granularity full --recompute-method block --recompute-num-layers 2 "
         "--micro-batch-size 2",
         TOLERANCE},
        {4, TENSOR CHUNKS "--sequence-parallel --recompute-granularity selective", TOLERANCE},
        {4, TENSOR CHUNKS "--sequence-parallel --recompute-granularity full", 0.0},
        {4, TENSOR "--pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping", TOLERANCE},
        {4,
         TENSOR "--use-distributed-optimizer --overlap-param-gather --sequence-parallel "
                "--ddp-bucket-size 3000",
         TOLERANCE},
        {4, "--tensor-model-parallel-size 4 --sequence-parallel", TOLERANCE},
    };
    double plain[ITERATIONS + 1], loss[2][ITERATIONS + 1];
    int at = 0;

    losses_of(family, "", plain);
    assert_all(learns(plain));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].ranks > world.size || (ways[i].ranks < world.size && !getenv("TR_TEST_ALL")))
            continue;
        at = !at;
        losses_of(family, ways[i].layout, loss[at]);
        assert_all(near(ways[i].layout, loss[at], plain, TOLERANCE));
        assert_all(ways[i].tolerance > 0.0 || memcmp(loss[0], loss[1], sizeof loss[0]) == 0);
    }
}

/* Positions and attention that begin anew with each document: the backends and layouts agree, and it matters.
   Rotary positions are relative, so with bounds of attention their beginning does not show; hence once without. */
static void documents(const char *family)
{
#define EOD "--tokenizer-type NullTokenizer "
    static const char *const bounds[] = {
        EOD "--reset-position-ids --reset-attention-mask --eod-mask-loss ",
        EOD "--reset-position-ids "};
    static const char *const layouts[] = {"--backend ref", TENSOR "--sequence-parallel", CHUNKS};
    double plain[ITERATIONS + 1], bounded[ITERATIONS + 1], loss[ITERATIONS + 1];
    char options[512];

    losses_of(family, EOD, plain);
    for (int b = 0; b < 2; b++) {
        losses_of(family, bounds[b], bounded);
        assert_all(learns(bounded));
        /* ALiBi is about distances alone. */
        assert_all(!near(bounds[b], plain, bounded, 1e-3) ==
                   (b == 0 || strcmp(family, "bloom") != 0));
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            snprintf(options, sizeof options, "%s%s", bounds[b], layouts[i]);
            losses_of(family, options, loss);
            assert_all(near(options, loss, bounded, TOLERANCE));
        }
    }
}

static bool is_chosen(const char *family)
{
    for (int i = 0; i < chosen_families; i++)
        if (strcmp(chosen[i], family) == 0)
            return true;
    return chosen_families == 0;
}

/* `all` of them, or only those that use every part unless there is time. */
static void each_family(void (*run)(const char *family), bool all)
{
    for (int i = 0; tr_family_row(i); i++) {
        const char *family = tr_family_row(i)->name;
        bool thorough;

        (void)options_of(family, &thorough);
        if (!is_chosen(family) || !(all || thorough || getenv("TR_TEST_ALL")))
            continue;
        /* Those have layouts that an encoder refuses. */
        if (tr_family_row(i)->encoder && !all)
            continue;
        print_message("%s\n", family);
        alarm(check_seconds()); /* each has the time of a program */
        run(family);
    }
}

static void resumes(void **state)
{
    (void)state;
    each_family(stop_and_resume, world.size == 2 && getenv("TR_TEST_ALL"));
}

static void same_losses(void **state)
{
    (void)state;
    each_family(other_ways, false);
}

static void in_documents(void **state)
{
    (void)state;
    if (world.size == 2)
        each_family(documents, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumes),
        cmocka_unit_test(same_losses),
        cmocka_unit_test(in_documents),
    };

    chosen_families = argc - 1;
    chosen = argv + 1;
    return run_mpi_tap(tests);
}
