/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Replicas that make steps of their own, in whole runs on four ranks: the mean over their own micro-batches,
 * copies within a replica that stay equal, rounds that fail, and memory as planned.
 */
static void open_run(struct tr_run *r, struct tr_config *c, const char *more,
                     enum tr_status (*sample)(struct tr_run *, enum tr_split, int64_t, int32_t *))
{
    char options[2048];

    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --train-iters 20 --lr 0.003 --lr-warmup-iters 2 "
             "--init-method-std 0.1 --attention-dropout 0 --hidden-dropout 0 --clip-grad 0.5 %s",
             more);
    tiny_open(r, c, options, sample);
}

/* All replicas see the samples of a single one. */
static enum tr_status same_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                  int32_t *text)
{
    return tiny_sample(r, split, position / r->shape.layout.d, text);
}

static void steps(struct tr_run *r, int n)
{
    struct tr_step_result result;

    for (int i = 0; i < n; i++) {
        tr_step(r, &result);
        r->iteration++;
        assert_all(!result.skipped);
        assert_all_ok(tr_dp_compare_due(&r->dp));
    }
}

/* What one rank alone makes of the samples. */
static float *alone(int n, int64_t *elems)
{
    struct tr_comm self, kept = world;
    struct tr_config c;
    struct tr_run r;
    float *x;

    tr_comm_self(&self);
    world = self;
    open_run(&r, &c, "--global-batch-size 2", same_sample);
    steps(&r, n);
    *elems = r.model.params.elems;
    x = malloc((size_t)*elems * sizeof *x);
    memcpy(x, tr_f32(&r.model.params.values), (size_t)*elems * sizeof *x);
    tiny_close(&r, &c);
    world = kept;
    return x;
}

/* Replicas that see the same are each the run that one rank makes: the mean is over micro-batches and
   not over replicas, and the mean of equal weights is each of them. */
static void means(void **state)
{
    static const char *const modes[] = {
        "--global-batch-size 8 --dp-mode local",
        "--global-batch-size 8 --dp-mode cocktail_sgd --quant-bits 32 --topk-ratio 1 "
        "--randomp-ratio 1",
    };
    int64_t elems;
    float *x = alone(6, &elems);

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tr_config c;
        struct tr_run r;

        open_run(&r, &c, modes[i], same_sample);
        assert_all(r.model.params.elems == elems);
        steps(&r, 6);
        /* Padding at the end of the buffer depends on the replicas; what comes first does not. */
        assert_all(memcmp(x, r.model.params.values.data, (size_t)elems * sizeof *x) == 0);
        tiny_close(&r, &c);
    }
    free(x);
}

/* `n` floats are the same on all ranks of the group. */
static bool alike(struct tr_comm *c, const float *x, int64_t n)
{
    size_t bytes = (size_t)n * sizeof *x;
    float *all = malloc(bytes * (size_t)c->size);
    bool same = true;

    c->via->gather_all(c, x, (int64_t)bytes, all);
    for (int i = 1; i < c->size; i++)
        same = same && memcmp(all, all + i * n, bytes) == 0;
    free(all);
    return same;
}

/* What a replica holds twice. */
static bool copies_agree(struct tr_run *r)
{
    const struct tr_params *ps = &r->model.params;
    const struct tr_tensor x = tr_optim_masters(&r->optim, 0);
    const struct tr_param *tied = tr_param_find(ps, TR_PARAM_WORD_EMBED, -1);
    bool same = true;

    for (int i = 0; i < ps->count; i++)
        if (ps->list[i].split < 0 && r->shape.layout.w > 1)
            same = alike(&r->grid.tp, tr_f32(&x) + ps->list[i].offset, ps->list[i].elems) && same;
    if (tied && r->shape.layout.p > 1 && (r->grid.has_embedding || r->grid.has_head))
        same = alike(&r->grid.embed, tr_f32(&x) + tied->offset, tied->elems) && same;
    return same;
}

static bool replicas_differ(struct tr_run *r)
{
    const struct tr_tensor x = tr_optim_masters(&r->optim, 0);

    return !alike(&r->grid.dp, tr_f32(&x), tr_params_tied(&r->model.params));
}

static void copies(void **state)
{
    static const char *const layouts[] = {
        "",
        "--pipeline-model-parallel-size 2",
        "--tensor-model-parallel-size 2",
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16",
        ("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --fp16 "
         "--initial-loss-scale 65536"),
    };
    static const char *const hows[] = {
        "--quant-bits 4 --topk-ratio 0.2 --randomp-ratio 0.1",
        "--quant-bits 1 --topk-ratio 1 --quant-bucket-size 32",
        "--quant-bits 8 --random-method random_w_replacement --train-warmup-steps 3",
        "--quant-bits 3 --random-method random_wo_replacement --randomp-ratio 0.3",
        "--quant-bits 32 --topk-ratio 0.3",
    };

    (void)state;
    for (int i = 0; i < 5; i++) {
        char options[512];
        struct tr_config c;
        struct tr_run r;

        snprintf(options, sizeof options,
                 "--global-batch-size 8 --dp-mode cocktail_sgd --check-replicas-interval 1 %s %s",
                 layouts[i], hows[i]);
        open_run(&r, &c, options, tiny_sample);
        for (int k = 0; k < 8; k++) {
            steps(&r, 1);
            assert_all(copies_agree(&r));
        }
        assert_all(replicas_differ(&r));
        tiny_close(&r, &c);
    }
}

/* With servers that compress all replicas stay equal, too. */
static void averaged(void **state)
{
    static const char *const layouts[] = {
        "",
        "--pipeline-model-parallel-size 2 --fp16 --initial-loss-scale 65536",
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16 --dp-bits 4",
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        char options[512];
        struct tr_config c;
        struct tr_run r;

        snprintf(options, sizeof options,
                 "--global-batch-size 8 --dp-mode sharded_ps_compressed --train-warmup-steps 3 %s",
                 layouts[i]);
        open_run(&r, &c, options, tiny_sample);
        for (int k = 0; k < 8; k++) {
            steps(&r, 1);
            assert_all(copies_agree(&r) && !replicas_differ(&r));
        }
        tiny_close(&r, &c);
    }
}

/* Flip a bit of the reference on one rank: the comparison names it and its host. */
static void names_the_rank(void **state)
{
    struct tr_config c;
    struct tr_run r;
    struct tr_tensor reference;
    enum tr_status s;
    char host[TR_HOST_BYTES] = "";

    (void)state;
    open_run(&r, &c, "--global-batch-size 8 --dp-mode cocktail_sgd --check-replicas-interval 2",
             tiny_sample);
    steps(&r, 2);
    r.iteration = 3;
    reference = tr_dp_state(&r.dp).part[0].at;
    if (world.rank == 2)
        tr_half(&reference)[5] ^= 1;
    assert_all_ok(tr_dp_compare_due(&r.dp));
    r.iteration = 4;
    s = tr_dp_compare_due(&r.dp);
    gethostname(host, sizeof host - 1);
    assert_all(s == TR_EDATA);
    assert_all(strstr(tr_last_error(), "replicas 2 and 0 (rank 2 on ") != NULL);
    assert_all(strstr(tr_last_error(), host) != NULL);
    tiny_close(&r, &c);
}

/* A weight that is not finite in one stage of one replica: the round is dropped on all its ranks, and on the
   others of the same stages; then the step is skipped on all, since the gradients are not finite. */
static void dropped(void **state)
{
    struct tr_step_result result;
    struct tr_config c;
    struct tr_run r;
    struct tr_tensor x;
    float *before;
    size_t bytes;
    const float inf = INFINITY;
    float was = 0.0F;

    (void)state;
    open_run(&r, &c,
             "--global-batch-size 8 --dp-mode cocktail_sgd --randomp-ratio 1 "
             "--pipeline-model-parallel-size 2 --fp16 --initial-loss-scale 1024",
             tiny_sample);
    steps(&r, 3);
    x = tr_optim_masters(&r.optim, 0);
    bytes = (size_t)tr_tensor_bytes(&x);
    before = malloc(bytes);
    /* The weights that the model computes with stay as they are: rank 3 is stage 1 of replica 1. */
    if (world.rank == 3) {
        was = tr_f32(&x)[7];
        tr_f32(&x)[7] = inf;
    }
    memcpy(before, x.data, bytes);
    tr_step_gradients(&r);
    assert_all(isfinite(tiny_loss(tr_step_loss(&r))));
    assert_all(memcmp(before, x.data, bytes) == 0);
    if (world.rank == 3)
        tr_f32(&x)[7] = was;
    tr_step(&r, &result);
    assert_all(!result.skipped);
    assert_all(copies_agree(&r));
    /* A gradient that overflows in one replica: no other makes the step either, and the scale falls on
       all. */
    if (world.rank == 3)
        tr_half(&r.model.params.values)[7] = 0x7c00;
    r.scaler.hysteresis_tracker = 1;
    memcpy(before, r.optim.state[TR_STATE_EXP_AVG].data, bytes);
    tr_step(&r, &result);
    assert_all(result.skipped && !isfinite(result.grad_norm));
    assert_all(memcmp(before, r.optim.state[TR_STATE_EXP_AVG].data, bytes) == 0);
    assert_all(r.scaler.scale < 1024.0);
    free(before);
    tiny_close(&r, &c);
}

/* Bytes for each parameter in addition to those of a run that reduces gradients. */
static void memory(void **state)
{
    const char *how =
        "--global-batch-size 8 --dp-mode cocktail_sgd --topk-ratio 0.1 --randomp-ratio "
        "0.1";
    struct tr_config c;
    struct tr_run r;
    size_t compression;
    int64_t n;

    (void)state;
    open_run(&r, &c, how, tiny_sample);
    compression = r.arena.bytes[TR_LABEL_COMPRESSION];
    n = r.model.params.size;
    /* g, e, what is taken of a chunk three times in 4 bytes at most and once in 2, and messages. */
    assert_all(compression >= (size_t)(2 * n + 2 * n / 4));
    assert_all(compression <= (size_t)(2 * n + 2 * n / 4 + 14 * n / 40 + n / 10) + 16384);
    tiny_close(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means),          cmocka_unit_test(copies),  cmocka_unit_test(averaged),
        cmocka_unit_test(names_the_rank), cmocka_unit_test(dropped), cmocka_unit_test(memory),
    };
    return run_mpi_tap(tests);
}
