/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <ftw.h>
#include <math.h>

/*
 * The distributed optimizer (ZeRO-1), with shards that split parameters anywhere, trains as
 * replicas that each hold all optimizer states: the same losses, in every layout and with each way
 * of gathering the weights, also across a checkpoint.  The sums of gradients and of the norm are
 * taken in another order, which is all that may differ.
 */
enum { ITERATIONS = 6 };

static enum tr_status hashed_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                    int32_t *text)
{
    struct tr_rng rng = tr_rng_key(7, TR_STREAM_INIT, (int)split, position);

    for (int64_t t = 0; t <= r->shape.dims.seq; t++) {
        double u = (double)tr_rng_u32(rng, (uint64_t)t) / 4294967296.0;

        text[t] = (int32_t)((double)r->shape.dims.vocab * u * u);
    }
    return TR_OK;
}

static void open_run(struct tr_run *r, struct tr_config *c, const char *more)
{
    char options[2048];

    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --global-batch-size 8 --train-iters %d --lr 0.003 "
             "--lr-warmup-iters 2 --lr-decay-style cosine --init-method-std 0.1 "
             "--attention-dropout 0.1 --hidden-dropout 0.1 --seed 4321 --clip-grad 0.5 %s",
             ITERATIONS, more);
    tiny_open(r, c, options, hashed_sample);
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

/* 1e-5 is what the order of sums may become in these steps, as in t_layouts; with bf16 weights one
   bit of a weight may round otherwise, 2^-9 of it. */
static void same_losses(void **state)
{
    static const struct {
        const char *layout, *how;
        double tolerance;
    } cases[] = {
        {"", "--ddp-bucket-size 3000", 1e-5},
        {"", "--ddp-bucket-size 3000 --overlap-param-gather", 1e-5},
        {"--tensor-model-parallel-size 2 --sequence-parallel", "--no-overlap-grad-reduce", 1e-5},
        {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
         "--ddp-bucket-size 500 --overlap-param-gather", 1e-5},
        {"--pipeline-model-parallel-size 2 --bf16", "--overlap-param-gather", 1e-3},
        {"--fp16 --initial-loss-scale 1e6 --tensor-model-parallel-size 2", "--overlap-param-gather",
         1e-3},
    };
    double whole[ITERATIONS + 1], shared[ITERATIONS + 1];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char options[256];

        losses_of(cases[i].layout, whole);
        snprintf(options, sizeof options, "%s --use-distributed-optimizer %s", cases[i].layout,
                 cases[i].how);
        losses_of(options, shared);
        print_message("%s: off by %.1e\n", options, apart(shared, whole));
        assert_all(apart(shared, whole) <= cases[i].tolerance);
        assert_all(whole[ITERATIONS - 1] < 0.99 * whole[0]);
    }
}

/* A replica holds its shard of the state and no more. */
static void shares(void **state)
{
    struct tr_config c;
    struct tr_run r;
    int64_t owned;

    (void)state;
    open_run(&r, &c, "--use-distributed-optimizer --ddp-bucket-size 3000");
    owned = r.optim.owned;
    assert_all(owned * world.size == r.model.params.size);
    assert_all(tr_tensor_elems(&r.optim.state[TR_STATE_EXP_AVG]) == owned &&
               tr_tensor_elems(&r.optim.state[TR_STATE_EXP_AVG_SQ]) == owned);
    tiny_close(&r, &c);
    open_run(&r, &c, "");
    assert_all(r.optim.owned == r.model.params.size);
    tiny_close(&r, &c);
}

static int drop(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
    (void)s, (void)flag, (void)ftw;
    return remove(path);
}

/* Saved one way in the middle and resumed the other way. */
static void resumes(void **state)
{
    static const char *const how[] = {
        "", "--use-distributed-optimizer --ddp-bucket-size 3000 --overlap-param-gather"};
    double whole[ITERATIONS + 1], loss[ITERATIONS + 1];

    (void)state;
    losses_of("", whole);
    for (int i = 0; i < 2; i++) {
        char dir[PATH_MAX] = "", options[PATH_MAX + 200];
        const char *tmp = getenv("TMPDIR");
        struct tr_config c;
        struct tr_run r;

        if (world.rank == 0)
            snprintf(dir, sizeof dir, "%s/sharded.XXXXXX", tmp ? tmp : "/tmp");
        assert_all(world.rank != 0 || mkdtemp(dir));
        MPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, MPI_COMM_WORLD);
        snprintf(options, sizeof options, "%s --save %s", how[i], dir);
        open_run(&r, &c, options);
        train(&r, 0, 3, loss);
        assert_all_ok(tr_run_save(&r));
        tiny_close(&r, &c);
        snprintf(options, sizeof options, "%s --load %s", how[1 - i], dir);
        open_run(&r, &c, options);
        assert_all_ok(tr_run_load(&r));
        assert_all(r.iteration == 3);
        train(&r, 3, ITERATIONS, loss);
        tiny_close(&r, &c);
        assert_all(apart(loss, whole) <= 1e-5);
        if (world.rank == 0)
            nftw(dir, drop, 8, FTW_DEPTH | FTW_PHYS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_losses),
        cmocka_unit_test(shares),
        cmocka_unit_test(resumes),
    };
    return run_mpi_tap(tests);
}
