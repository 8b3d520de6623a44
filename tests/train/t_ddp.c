/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/golden.h"
#include "train/tiny.h"
#include "train/weights.h"

#include <math.h>

/*
 * PyTorch's data parallelism (tests/golden/make_ddp.py): 50 losses of a small GPT-2 on 2 and 4 processes under
 * DistributedDataParallel, with ZeroRedundancyOptimizer, and under FSDP, from the same weights and samples; here
 * under all-reduce and each stage of ZeRO, also with tensor and pipeline parallelism inside a replica.  Both stray
 * from the same steps in float64 by 4e-7.
 *
 *     t_ddp WAY OPTION...     the losses of that entry of ddp.index under these options alone, which are printed,
 *                             too; WAY "-": only printed
 */
enum { STEPS = 50, GLOBAL = 8, SAMPLES = 32 };
#define TOLERANCE 1e-5

static struct tr_golden *golden;

static enum tr_status golden_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                    int32_t *text)
{
    (void)r, (void)split;
    for (int t = 0; t <= GOLDEN_S; t++)
        text[t] = tr_golden_token(position % SAMPLES, t);
    return TR_OK;
}

static void losses_of(const char *options, int *replicas, double loss[STEPS])
{
    const float *setting = tr_golden_get(golden, "setting", 5);
    char text[1024];
    struct tr_config c;
    struct tr_run r;

    snprintf(text, sizeof text,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 16 --vocab-size 61 --make-vocab-size-divisible-by 1 "
             "--micro-batch-size %d --global-batch-size %d --train-iters %d --lr %g "
             "--lr-decay-style constant --adam-eps 1e-5 --attention-dropout 0 --hidden-dropout 0 "
             "--ddp-bucket-size 5000 %s",
             GOLDEN_B, GLOBAL, STEPS, (double)setting[3], options);
    assert_all(setting[0] == (float)STEPS && setting[1] == (float)GLOBAL &&
               setting[2] == (float)SAMPLES);
    tiny_open(&r, &c, text, golden_sample);
    weights_set(&r, tr_golden_weight);
    for (int i = 0; i < STEPS; i++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        r.iteration++;
        loss[i] = tiny_loss(result.loss);
    }
    *replicas = r.shape.layout.d;
    tiny_close(&r, &c);
}

static void agree(const char *way, int replicas, const char *options, const double loss[STEPS])
{
    const float *want;
    double worst = 0.0;
    char name[32];

    snprintf(name, sizeof name, "%s/%d", way, replicas);
    want = tr_golden_get(golden, name, STEPS);
    for (int i = 0; i < STEPS; i++) {
        const double off = fabs(loss[i] / (double)want[i] - 1.0);

        worst = isfinite(off) ? fmax(worst, off) : (double)INFINITY;
    }
    print_message("%s, as %s: off by %.1e\n", options, name, worst);
    assert_all(worst <= TOLERANCE);
    assert_all((double)want[STEPS - 1] < 0.6 * (double)want[0]);
}

static void lossless(void **state)
{
    static const char *const modes[] = {"",
                                        "--use-distributed-optimizer",
                                        "--zero-stage 2",
                                        "--zero-stage 3",
                                        "--chunk-memory 200K",
                                        "--dp-mode central_ps",
                                        "--dp-mode sharded_ps"};
    static const char *const inside[] = {
        "", "--tensor-model-parallel-size 2", "--pipeline-model-parallel-size 2",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"};
    const int of[] = {1, 2, 2, 4};

    (void)state;
    golden = tr_golden_open("ddp");
    for (int i = 0; i < 4; i++) {
        if (world.size / of[i] != 2 && world.size / of[i] != 4)
            continue;
        if (of[i] == 2 && !getenv("TR_TEST_ALL"))
            continue;
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            char options[256];
            double loss[STEPS];
            int d;

            snprintf(options, sizeof options, "%s %s", inside[i], modes[m]);
            losses_of(options, &d, loss);
            agree("ddp", d, options, loss);
            agree("zero", d, options, loss);
            agree("fsdp", d, options, loss);
        }
    }
    tr_golden_close(golden);
}

/* Adasum takes products over what tensor ranks share. */
static void adasum(void **state)
{
    static const char *const inside[] = {"", "--tensor-model-parallel-size 2",
                                         "--tensor-model-parallel-size 4"};
    const int of[] = {1, 2, 4};

    (void)state;
    golden = tr_golden_open("ddp");
    for (int i = 0; i < 3; i++) {
        char options[256];
        double loss[STEPS];
        int d;

        if (world.size / of[i] != 2 && world.size / of[i] != 4)
            continue;
        snprintf(options, sizeof options, "%s --dp-mode adasum", inside[i]);
        losses_of(options, &d, loss);
        agree("adasum", d, options, loss);
    }
    tr_golden_close(golden);
}

static const char *way, *options_given;

static void one(void **state)
{
    double loss[STEPS];
    int d;

    (void)state;
    golden = tr_golden_open("ddp");
    losses_of(options_given, &d, loss);
    for (int i = 0; i < STEPS; i++)
        print_message("# loss %d %a\n", i, loss[i]);
    if (strcmp(way, "-") != 0)
        agree(way, d, options_given, loss);
    tr_golden_close(golden);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(lossless), cmocka_unit_test(adasum)};
    const struct CMUnitTest alone[] = {cmocka_unit_test(one)};
    char options[512] = "";

    if (argc < 2)
        return run_mpi_tap(all);
    way = argv[1];
    for (int i = 2; i < argc; i++)
        snprintf(options + strlen(options), sizeof options - strlen(options), "%s ", argv[i]);
    options_given = options;
    return run_mpi_tap(alone);
}
