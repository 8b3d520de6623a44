/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <string.h>
#include <unistd.h>

#include "pipeline/links.h"

/*
 * The memory plan is what the system counts: the resident memory of a rank grows, from before a run is
 * built to the end of its third step, by the plan to 1 %.  Not in the plan are the buffers of MPI, a few
 * times the longest message, and the scratch of the device, a few MiB per thread.  So the model is
 * large enough for 1 % to be more, its messages are short, and it has one thread.
 */
enum { MIB = 1 << 20 };

static enum tr_status some_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                  int32_t *text)
{
    (void)split;
    for (int64_t t = 0; t <= r->shape.dims.seq; t++)
        text[t] = (int32_t)((position * 31 + t * 7) % r->shape.dims.vocab);
    return TR_OK;
}

/* Resident bytes of this process that are its own: the second less the third number of statm. */
static double resident(void)
{
    long long total, all = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lld %lld %lld", &total, &all, &shared), 3);
    fclose(f);
    return (double)(all - shared) * (double)sysconf(_SC_PAGESIZE);
}

struct use {
    double plan, grown;   /* bytes */
    double per_parameter; /* of weights, gradients and optimizer */
};

static struct use measure(const char *size, const char *options)
{
    char text[1024];
    struct tr_config c;
    struct tr_run r;
    struct tr_step_result result;
    struct use u;
    double before = resident();

    snprintf(text, sizeof text,
             "--num-attention-heads 8 --seq-length 32 --max-position-embeddings 32 "
             "--micro-batch-size 2 --global-batch-size 4 --train-iters 10 --lr 0.001 --threads 1 "
             "--ddp-bucket-size 20000 "
             "%s %s",
             size, options);
    tiny_open(&r, &c, text, some_sample);
    for (int i = 0; i < 3; i++)
        tr_step(&r, &result);
    u.grown = resident() - before;
    u.plan = (double)r.arena.used_bytes;
    u.per_parameter = (double)(r.arena.bytes[TR_LABEL_WEIGHTS] + r.arena.bytes[TR_LABEL_GRADIENTS] +
                               r.arena.bytes[TR_LABEL_OPTIMIZER]) /
                      (double)tr_params_number(&r.model.params);
    tiny_close(&r, &c);
    return u;
}

static const double ONEDNN = 6.0 * MIB;

static void one(const char *options, double most_per_parameter)
{
    const char *large = "--num-layers 4 --hidden-size 512 --vocab-size 40000";
    struct use u;

    measure("--num-layers 4 --hidden-size 64 --vocab-size 300", options);
    u = measure(large, options);
    print_message("# %s: plan %.1f MiB, grown %.1f, %.2f bytes per parameter\n", options,
                  u.plan / MIB, u.grown / MIB, u.per_parameter);
    /* Code and buffers of oneDNN come on top, 2 to 6 MiB from run to run, whatever the model's size. */
    assert_all(u.grown >= 0.99 * u.plan && u.grown <= 1.01 * u.plan + ONEDNN);
    /* Padding to pieces for the replicas, and the ends of the blocks. */
    assert_all(u.per_parameter <= most_per_parameter + 0.01);
}

static void planned(void **state)
{
    int d = world.size;

    (void)state;
    one("", 16.0);
    if (getenv("TR_TEST_ALL"))
        one("--fp16 --initial-loss-scale 256", 16.0);
    if (d == 1 || getenv("TR_TEST_ALL")) {
        one("--bf16", 18.0);
        one("--fp16 --checkpoint-activations", 16.0);
        /* 2 (1 + 4 / 256) for 8 of each of 4 layers' 12 x 512 x 512 parameters, of 33.1 million. */
        one("--optimizer 8bit-adam", 16.0 - 5.96875 * 12582912.0 / 33123328.0);
    }
    if (d == 1)
        return;
    one("--fp16 --tensor-model-parallel-size 2 --sequence-parallel", 16.0);
    one("--bf16 --use-distributed-optimizer --optimizer 8bit-adam",
        6.0 + (12.0 - 5.96875 * 12582912.0 / 33123328.0) / d);
    one("--fp16 --dp-mode cocktail_sgd --topk-ratio 0.1 --randomp-ratio 0.1", 16.0);
    if (!getenv("TR_TEST_ALL"))
        return;
    one("--fp16 --pipeline-model-parallel-size 2", 16.0);
    one("--dp-wire fp16", 18.0);
    one("--fp16 --use-distributed-optimizer", 4.0 + 12.0 / d);
    one("--bf16 --use-distributed-optimizer", 6.0 + 12.0 / d);
    one("--bf16 --dp-mode sharded_ps_compressed --train-warmup-steps 1", 18.0);
}

/* Every sample in its turn, the same in each epoch. */
static int64_t some_id(struct tr_run *r, enum tr_split split, int64_t position)
{
    (void)split;
    return position % r->shape.epochs.blocks;
}

/* The activation cache of delta: of each sample the numbers of a message in fp16, and the table
   that finds them. */
static void remembered(void **state)
{
    enum { BLOCKS = 320, BATCH = 4, RECORD = 2 * 64 * 256, WARM = 20 };
    const int64_t tables = 21 * BLOCKS;
    struct tr_config c;
    struct tr_run r;
    double before = 0.0, each;
    int64_t host, files;

    (void)state;
    if (world.size == 1)
        return;
    tiny_open(&r, &c,
              "--num-layers 2 --hidden-size 256 --num-attention-heads 8 --seq-length 64 "
              "--max-position-embeddings 64 --vocab-size 300 --micro-batch-size 2 "
              "--global-batch-size 4 --n-epochs 2 --data-blocks 320 --eval-iters 0 --lr 0.001 "
              "--threads 1 --pipeline-model-parallel-size 2 --forward-compress-method delta",
              some_sample);
    r.sample_id = some_id;
    tr_links_bytes(r.links, &host, &files);
    assert_all(host >= BLOCKS * RECORD && host <= BLOCKS * RECORD + tables && files == 0);
    for (int i = 0; i < BLOCKS / BATCH; i++) {
        struct tr_step_result result;

        if (i == WARM)
            before = resident();
        tr_step(&r, &result);
        r.iteration++;
    }
    each = (resident() - before) / (BLOCKS - WARM * BATCH);
    print_message("# %.0f bytes for each sample, planned %.0f\n", each, (double)host / BLOCKS);
    assert_all(each >= 0.98 * RECORD && each <= 1.02 * (double)host / BLOCKS);
    tiny_close(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(planned), cmocka_unit_test(remembered)};

    return run_mpi_tap(tests);
}
