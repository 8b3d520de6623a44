/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>

/*
 * Recipes: what people put together on one command line.  For each, every layout that it applies to
 * has the losses of one rank that runs alone, and where an option only moves work about, those of
 * the same layout without it, to the bit.
 *
 * In fp32, cuts differ by the order of sums: 1e-5, as in t_layouts.  In half precision partial
 * results of tensor ranks are rounded before they are added, which one rank does not do, and gradients
 * of replicas in fp16, too.  A rounding is up to 2^-9 (bf16) or 2^-12 (fp16) of a number, and they
 * average out over the tokens of a batch: 1.3e-4 and 4.5e-5 were found, and the tolerances are four
 * times that.  One wrong dropout mask costs 1e-2.
 */
enum { ITERATIONS = 3, LOSSES = ITERATIONS + 1 };
#define TOLERANCE 1e-5
#define BF16_TOLERANCE 5e-4
#define FP16_TOLERANCE 2e-4

static const char model[] =
    "--num-layers 8 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 --vocab-size 101 "
    "--make-vocab-size-divisible-by 8 "
    "--micro-batch-size 1 --global-batch-size 8 --train-samples 800 --lr 0.003 "
    "--lr-decay-style constant --init-method-std 0.1 --attention-dropout 0.1 "
    "--hidden-dropout 0.1 ";

struct cut {
    int w, p, k;
};

static const struct cut cuts[] = {
    {1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {1, 2, 2}, {2, 2, 1}, {2, 2, 2}, {1, 4, 1}, {1, 4, 2},
};
enum { CUTS = sizeof cuts / sizeof cuts[0], ALONE = CUTS };

/* Which layouts a recipe applies to: those with more than one of each of these,
 * and one chunk. */
enum { TENSOR = 1, STAGES = 2, CHUNKS = 4, REPLICAS = 8, ONE_CHUNK = 16 };

struct recipe {
    const char *name;
    const char *base; /* on one rank, too */
    const char *more; /* on the layouts only: changes no loss */
    unsigned needs;
    double tolerance;
    bool exact; /* `more` changes no bit */
};

#define FULL "--recompute-granularity full --recompute-method "
#define FP16 "--fp16 --loss-scale 1024 "

static struct recipe recipes[] = {
    {"fp32", "", "", 0, TOLERANCE, false},
    {"transfers one by one", "", "--no-overlap-p2p-communication", CHUNKS, TOLERANCE, true},
    {"groups of four", "", "--microbatch-group-size-per-virtual-pipeline-stage 4", CHUNKS,
     TOLERANCE, true},
    {"whole messages", "", "--no-scatter-gather-tensors-in-pipeline", TENSOR | STAGES, TOLERANCE,
     true},
    {"gpipe", "", "--pipeline-schedule gpipe", STAGES | ONE_CHUNK, TOLERANCE, true},
    {"uneven stages", "", "--decoder-first-pipeline-num-layers 5", STAGES | ONE_CHUNK, TOLERANCE,
     false},
    {"sums of gradients at the end", "", "--no-overlap-grad-reduce", REPLICAS, TOLERANCE, true},
    {"small buckets", "", "--ddp-bucket-size 1000", REPLICAS, TOLERANCE, false},
    {"recompute all", "", FULL "uniform --recompute-num-layers 1", 0, TOLERANCE, true},
    {"recompute some", "", FULL "block --recompute-num-layers 1", 0, TOLERANCE, true},
    {"ramp-up", "--global-batch-size 16 --rampup-batch-size 8 8 16", "", 0, TOLERANCE, false},
    {"ramp-up in groups of three", "--global-batch-size 12 --rampup-batch-size 10 2 10",
     "--microbatch-group-size-per-virtual-pipeline-stage 3 "
     "--no-overlap-p2p-communication",
     CHUNKS | REPLICAS, TOLERANCE, false},
    {"recompute from shares", "", "--checkpoint-activations --distribute-checkpointed-activations",
     TENSOR, TOLERANCE, true},
    {"sequence parallel", "", "--sequence-parallel", TENSOR, TOLERANCE, false},
    {"sequence parallel, recompute all", "", "--sequence-parallel --checkpoint-activations", TENSOR,
     TOLERANCE, false},
    {"distributed optimizer", "", "--use-distributed-optimizer", REPLICAS, TOLERANCE, false},
    {"distributed optimizer that gathers later", "",
     "--use-distributed-optimizer --overlap-param-gather", REPLICAS, TOLERANCE, false},
    {"bf16", "--bf16", "", 0, BF16_TOLERANCE, false},
    {"bf16, stream in fp32", "--bf16 --fp32-residual-connection", "", 0, BF16_TOLERANCE, false},
    {"bf16, sequence parallel, recompute all", "--bf16",
     "--sequence-parallel --checkpoint-activations", TENSOR, BF16_TOLERANCE, false},
    {"bf16, distributed optimizer, sequence parallel, recompute all", "--bf16",
     "--use-distributed-optimizer --overlap-param-gather --sequence-parallel "
     "--checkpoint-activations",
     TENSOR | REPLICAS, BF16_TOLERANCE, false},
    {"fp16", FP16, "", 0, FP16_TOLERANCE, false},
    {"fp16, gradients in fp32", FP16 "--accumulate-allreduce-grads-in-fp32", "", 0, FP16_TOLERANCE,
     false},
    {"fp16, sequence parallel, recompute some", FP16,
     "--sequence-parallel " FULL "block --recompute-num-layers 1", TENSOR, FP16_TOLERANCE, false},
};
enum { RECIPES = sizeof recipes / sizeof recipes[0] };

/* The losses of the first recipe, on each layout and alone. */
static double plain[CUTS + 1][LOSSES];

static enum tr_status skewed_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                    int32_t *text)
{
    struct tr_rng rng = tr_rng_key(7, TR_STREAM_INIT, (int)split, position);

    for (int64_t t = 0; t <= r->shape.dims.seq; t++) {
        double u = (double)tr_rng_u32(rng, (uint64_t)t) / 4294967296.0;

        text[t] = (int32_t)((double)r->shape.dims.vocab * u * u);
    }
    return TR_OK;
}

/* Collective over `group`; losses on ranks of the last stage, else 0. */
static enum tr_status run(struct tr_comm *group, const char *options, double loss[LOSSES])
{
    struct tr_config c;
    struct tr_run r;
    enum tr_status s;

    tr_config_init(&c);
    s = tr_config_parse_text(&c, options);
    tiny_gemm(&c);
    if (s == TR_OK)
        s = tr_run_open(&r, &c, group);
    if (s == TR_OK) {
        r.sample = skewed_sample;
        for (int i = 0; i < ITERATIONS; i++) {
            struct tr_step_result result;

            tr_step(&r, &result);
            loss[i] = result.loss;
        }
        loss[ITERATIONS] = tr_eval(&r, TR_SPLIT_VALID, 3, 2);
        tr_run_close(&r);
    }
    tr_config_release(&c);
    return s;
}

static void losses_of(const struct cut *cut, const char *base, const char *more,
                      double loss[LOSSES])
{
    char options[2048], chunks[64] = "";

    if (cut->k > 1)
        snprintf(chunks, sizeof chunks, "--num-virtual-stages-per-pipeline-rank %d", cut->k);
    snprintf(options, sizeof options,
             "%s --tensor-model-parallel-size %d --pipeline-model-parallel-size "
             "%d %s %s %s",
             model, cut->w, cut->p, chunks, base, more);
    assert_all_ok(run(&world, options, loss));
    for (int i = 0; i < LOSSES; i++)
        loss[i] = tiny_loss(loss[i]);
}

/* Of rank 0 in a world of its own. */
static void losses_alone(const char *base, double loss[LOSSES])
{
    char options[2048];
    enum tr_status s = TR_OK;
    struct tr_comm alone;

    snprintf(options, sizeof options, "%s %s", model, base);
    assert_all_ok(world.via->split(&world, world.rank == 0 ? 0 : -1, 0, "world", &alone));
    if (world.rank == 0)
        s = run(&alone, options, loss);
    world.via->release(&alone);
    assert_all_ok(s);
    MPI_Bcast(loss, LOSSES, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static bool applies(const struct recipe *r, const struct cut *cut)
{
    const int replicas = world.size / (cut->w * cut->p);

    return !((r->needs & TENSOR && cut->w == 1) || (r->needs & STAGES && cut->p == 1) ||
             (r->needs & CHUNKS && cut->k == 1) || (r->needs & REPLICAS && replicas == 1) ||
             (r->needs & ONE_CHUNK && cut->k > 1));
}

/*
 * The layouts of a recipe, at least one: of those it applies to every second one, odd recipes begin
 * with the second, and the first recipe has all.  With TR_TEST_ALL each has all.
 */
static void layouts_of(const struct recipe *r, bool takes[CUTS])
{
    const bool all = r == recipes || getenv("TR_TEST_ALL");
    int seen = 0, first = 0;

    for (int i = 0; i < CUTS; i++) {
        const bool fits = applies(r, &cuts[i]);

        takes[i] = fits && (all || (seen + (int)(r - recipes)) % 2 == 0);
        if (fits && seen++ == 0)
            first = i;
    }
    if (seen == 1)
        takes[first] = true;
}

static double distance(const double a[LOSSES], const double b[LOSSES])
{
    double worst = 0.0;

    for (int i = 0; i < LOSSES; i++)
        worst = fmax(worst, isfinite(a[i]) ? fabs(a[i] / b[i] - 1.0) : INFINITY);
    return worst;
}

static void cook(void **state)
{
    const struct recipe *r = *state;
    double alone[LOSSES], loss[LOSSES];
    bool takes[CUTS];
    int cuts_done = 0;

    alarm(CHECK_SECONDS); /* for each recipe, not for all of them */
    if (r == recipes || r->base[0] != '\0')
        losses_alone(r->base, alone);
    else
        memcpy(alone, plain[ALONE], sizeof alone);
    if (r == recipes)
        memcpy(plain[ALONE], alone, sizeof alone);
    layouts_of(r, takes);
    for (int i = 0; i < CUTS; i++) {
        const struct cut *cut = &cuts[i];

        if (!takes[i])
            continue;
        losses_of(cut, r->base, r->more, loss);
        if (r == recipes)
            memcpy(plain[i], loss, sizeof loss);
        print_message("%s, W=%d P=%d D=%d K=%d: losses %.6f ... %.6f, off by %.1e\n", r->name,
                      cut->w, cut->p, world.size / (cut->w * cut->p), cut->k, loss[0],
                      loss[ITERATIONS - 1], distance(loss, alone));
        assert_all(distance(loss, alone) <= r->tolerance);
        assert_all(!r->exact || memcmp(loss, plain[i], sizeof loss) == 0);
        cuts_done++;
    }
    assert_all(cuts_done > 0);
    /* Half precision is another way to the same losses, and takes it. */
    assert_all(r->tolerance <= TOLERANCE || distance(alone, plain[ALONE]) <= 1e-2);
    assert_all(r->base[0] == '\0' || distance(alone, plain[ALONE]) > 1e-7);
    /* The test would pass with a model that learns nothing. */
    assert_all(alone[ITERATIONS - 1] < 0.98 * alone[0]);
}

int main(void)
{
    struct CMUnitTest tests[RECIPES];

    for (int i = 0; i < RECIPES; i++)
        tests[i] = (struct CMUnitTest){
            .name = recipes[i].name, .test_func = cook, .initial_state = &recipes[i]};
    return run_mpi_tap(tests);
}
