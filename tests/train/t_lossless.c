/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/curve.h"

/*
 * Lossless data-parallel modes over 50 steps, or 14 without TR_TEST_ALL: in every layout of the
 * ranks each has the losses of all-reduce.  To the
 * bit where sums are the same: of two replicas, with one micro-batch in a step, or where the sum over micro-batches
 * comes first; and between modes that add more replicas than two in the order of their ranks.  Elsewhere to 1e-6, of
 * which rounding in another order makes 2e-8.  Without clipping: a norm is summed in the order of what ranks own, and
 * its factor is in all weights.
 */
enum { LAYERS = 4, HEADS = 4 };
#define TOLERANCE 1e-6

static int steps(void)
{
    return getenv("TR_TEST_ALL") ? 50 : 14;
}

/* When sums over replicas come: once in a step, or for each micro-batch. */
enum when { STEP, MICRO };

static const struct mode {
    const char *name, *options;
    enum when when;
    bool apart; /* its sums have an order of their own */
} modes[] = {
    {"all-reduce", "", STEP, false},
    {"ZeRO-1", "--use-distributed-optimizer", STEP, false},
    {"ZeRO-1, small buckets", "--zero-stage 1 --ddp-bucket-size 500 --overlap-param-gather", STEP,
     false},
    {"ZeRO-3, reduced once", "--zero-stage 3 --zero-reduce-once", STEP, false},
    {"ZeRO-1, offloaded", "--zero-stage 1 --offload-optimizer cpu", STEP, false},
    {"parameter server", "--dp-mode central_ps --ddp-bucket-size 3000", STEP, false},
    {"sharded servers", "--dp-mode sharded_ps --ddp-bucket-size 3000", STEP, false},
    {"sharded servers, 32 bits",
     "--dp-mode sharded_ps_compressed --dp-bits 32 --ddp-bucket-size 3000", STEP, false},
    {"ZeRO-2", "--zero-stage 2", MICRO, false},
    {"ZeRO-3", "--zero-stage 3", MICRO, false},
    {"ZeRO-2, one by one", "--zero-stage 2 --no-overlap-grad-reduce", MICRO, false},
    {"ZeRO-3, one by one", "--zero-stage 3 --no-overlap-grad-reduce", MICRO, false},
    {"ZeRO-3, one layer", "--zero-stage 3 --zero-prefetch-depth 0", MICRO, false},
    {"ZeRO-2, offloaded", "--zero-stage 2 --offload-optimizer cpu", MICRO, false},
    {"ZeRO-3, offloaded", "--zero-stage 3 --offload-optimizer cpu --offload-param cpu", MICRO,
     false},
    {"chunks", "--chunk-memory 200K --chunk-size 5000", MICRO, false},
    {"ZeRO-2, hybrid", "--zero-stage 2 --zero-shard-size 2", MICRO, true},
    {"ZeRO-3, hybrid", "--zero-stage 3 --zero-shard-size 2", MICRO, true},
};
enum { MODES = sizeof modes / sizeof modes[0], SHARDED = 8 };

struct cut {
    int w, p, k;
};

/* In tests/run; the others with TR_TEST_ALL.  With four stages there are some without embedding and head. */
static bool is_short(const struct cut *cut)
{
    return cut->k == 1 && ((cut->w == 2 && cut->p == 2) || cut->p == LAYERS);
}

static int replicas_of(const struct cut *cut)
{
    return world.size / (cut->w * cut->p);
}

/* What a batch must be a multiple of: interleaved schedules take groups of P micro-batches. */
static int least_batch(const struct cut *cut)
{
    return replicas_of(cut) * (cut->k > 1 ? cut->p : 1);
}

static void losses_of(const struct cut *cut, int micros, const struct mode *mode, struct curve *out)
{
    char options[512], chunks[64] = "";

    if (cut->k > 1)
        snprintf(chunks, sizeof chunks, "--num-virtual-stages-per-pipeline-rank %d", cut->k);
    snprintf(options, sizeof options,
             "--clip-grad 0 --global-batch-size %d --tensor-model-parallel-size %d "
             "--pipeline-model-parallel-size %d %s %s",
             replicas_of(cut) * micros, cut->w, cut->p, chunks, mode->options);
    curve_of(steps(), options, out);
}

/* Those that learn nothing would agree, too. */
static bool learns(const struct curve *c)
{
    enum { OF = 5 };
    double first = 0.0, last = 0.0;

    for (int i = 0; i < OF; i++) {
        first += c->loss[i];
        last += c->loss[steps() - 1 - i];
    }
    return last < 0.98 * first;
}

static void in_layout(const struct cut *cut, int micros)
{
    const int d = replicas_of(cut);
    struct curve of[MODES];

    for (int m = 0; m < MODES; m++) {
        const bool exact = d == 2 && (micros == 1 || modes[m].when == STEP);
        double apart;

        losses_of(cut, micros, &modes[m], &of[m]);
        apart = curve_apart(&of[m], &of[0]);
        print_message("W=%d P=%d D=%d K=%d, %d micro-batches, %s: losses %.6f ... %.6f, off by "
                      "%.1e\n",
                      cut->w, cut->p, d, cut->k, micros, modes[m].name, of[m].loss[0],
                      of[m].loss[steps() - 1], apart);
        assert_all(exact ? curve_same(&of[m], &of[0]) : apart <= TOLERANCE);
        assert_all(learns(&of[m]));
    }
    for (int m = 1; m < MODES; m++) {
        const bool alike = modes[m].when == STEP || micros == 1;

        assert_all(modes[m].apart || curve_same(&of[m], alike ? &of[1] : &of[SHARDED]));
    }
}

static void every_layout(void **state)
{
    const bool all = getenv("TR_TEST_ALL");
    int layouts = 0;

    (void)state;
    for (int w = 1; w <= HEADS; w++)
        for (int p = 1; p <= LAYERS && w * p < world.size; p++)
            for (int k = 1; k <= (p == 2 ? 2 : 1); k++) {
                const struct cut cut = {w, p, k};

                if (world.size % (w * p) != 0 || (!all && !is_short(&cut)))
                    continue;
                layouts++;
                if (all || w > 1)
                    in_layout(&cut, least_batch(&cut) / replicas_of(&cut));
                if (all || w == 1)
                    in_layout(&cut, p > 1 ? p : 2);
            }
    assert_all(layouts == (!all ? 2 : 8));
}

/* Gradients in fp16 are added in fp32 and rounded once, by one server as by several. */
static void in_half_precision(void **state)
{
    static const char *const servers[] = {"central_ps", "sharded_ps"};
    struct curve of[2];
    char options[256];

    (void)state;
    for (int m = 0; m < 2; m++) {
        snprintf(options, sizeof options,
                 "--fp16 --loss-scale 1024 --clip-grad 0 --global-batch-size %d --dp-mode %s "
                 "--ddp-bucket-size 3000",
                 world.size, servers[m]);
        curve_of(steps(), options, &of[m]);
    }
    assert_all(curve_same(&of[0], &of[1]));
    assert_all(learns(&of[0]));
}

/* Adasum is not lossless, and yet no matter of layout. */
static void adasum_in_stages(void **state)
{
    static const char *const inside[] = {"--tensor-model-parallel-size 2",
                                         "--pipeline-model-parallel-size 2"};
    struct curve of[2];
    char options[256];

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(options, sizeof options,
                 "--clip-grad 0 --global-batch-size %d --dp-mode adasum "
                 "--untie-embeddings-and-output-weights %s",
                 world.size, inside[i]);
        curve_of(steps(), options, &of[i]);
    }
    assert_all(curve_apart(&of[0], &of[1]) <= TOLERANCE);
    assert_all(learns(&of[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout),
                                       cmocka_unit_test(in_half_precision),
                                       cmocka_unit_test(adasum_in_stages)};

    return run_mpi_tap(tests);
}
