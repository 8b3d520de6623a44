/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * fp16 and its loss scale in whole runs: a step whose gradients overflow changes nothing but the scale
 * and the samples consumed, on all ranks alike, though only one of them has the overflow; the scale
 * falls as Megatron's rules say; then training goes on.
 */
static enum tr_status some_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                  int32_t *text)
{
    (void)split;
    for (int64_t t = 0; t <= r->shape.dims.seq; t++)
        text[t] = (int32_t)((position * 31 + t * 7) % r->shape.dims.vocab);
    return TR_OK;
}

static void open_run(struct tr_run *r, struct tr_config *c, const char *options)
{
    char text[1024];

    snprintf(text, sizeof text,
             "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 16 --vocab-size 61 --micro-batch-size 1 "
             "--global-batch-size 4 --train-iters 100 --lr 0.01 --lr-warmup-iters 5 --fp16 %s",
             options);
    tiny_open(r, c, text, some_sample);
}

/* What a skipped step must leave alone, end to end. */
static unsigned char *state_of(const struct tr_run *r, size_t *bytes)
{
    const struct tr_tensor *parts[] = {&r->model.params.values, &r->optim.main,
                                       &r->optim.state[TR_STATE_EXP_AVG],
                                       &r->optim.state[TR_STATE_EXP_AVG_SQ]};
    unsigned char *copy;
    size_t at = 0;

    *bytes = 0;
    for (int i = 0; i < 4; i++)
        *bytes += (size_t)tr_tensor_bytes(parts[i]);
    copy = malloc(*bytes);
    assert_non_null(copy);
    for (int i = 0; i < 4; i++) {
        memcpy(copy + at, parts[i]->data, (size_t)tr_tensor_bytes(parts[i]));
        at += (size_t)tr_tensor_bytes(parts[i]);
    }
    return copy;
}

static void skips(struct tr_run *r, double scale_before, double scale_after)
{
    size_t bytes;
    unsigned char *before = state_of(r, &bytes), *after;
    int64_t consumed = r->consumed_train;
    struct tr_step_result result;

    assert_all(r->scaler.scale <= scale_before && r->scaler.scale >= scale_before);
    tr_step(r, &result);
    after = state_of(r, &bytes);
    assert_all(result.skipped && !isfinite(result.grad_norm));
    assert_all(memcmp(before, after, bytes) == 0);
    assert_all(r->lr_samples == 0 && r->optim.steps == 0);
    assert_all(r->consumed_train == consumed + r->shape.batches.global_batch);
    assert_all(r->scaler.scale <= scale_after && r->scaler.scale >= scale_after);
    free(before);
    free(after);
}

/* From 2^32 the first overflow costs hysteresis, each further one half of the scale. */
static void dynamic(const char *options)
{
    struct tr_config c;
    struct tr_run r;
    struct tr_step_result result;
    double scale = 4294967296.0, first, last;
    int skipped = 2, taken = 0;

    open_run(&r, &c, options);
    skips(&r, scale, scale);
    skips(&r, scale, scale / 2);
    for (scale /= 2; skipped < 40; skipped++) {
        tr_step(&r, &result);
        assert_all(tr_comm_max(&world, result.skipped) == result.skipped);
        if (!result.skipped)
            break;
        scale /= 2;
        assert_all(r.scaler.scale <= scale && r.scaler.scale >= scale);
    }
    /* Gradients of this model are some 0.1, and fp16 ends at 65504. */
    assert_all(skipped > 8 && skipped < 24);
    first = tiny_loss(result.loss);
    for (; taken < 40; taken++)
        tr_step(&r, &result);
    last = tiny_loss(result.loss);
    print_message("# %s: %d steps skipped, loss %.3f, then %.3f\n", options, skipped, first, last);
    assert_all(last < 0.8 * first);
    assert_all(r.lr_samples == r.optim.steps * r.shape.batches.global_batch);
    tiny_close(&r, &c);
}

/* An element that this rank owns, of a parameter that is sharded, so that no other rank has it
   too. */
static int64_t own_element(const struct tr_run *r)
{
    const struct tr_params *ps = &r->model.params;

    for (int i = 0; i < ps->count; i++)
        for (int k = 0; k < r->optim.owns && ps->list[i].split >= 0 && !ps->list[i].copy; k++) {
            const struct tr_bucket *own = &r->optim.own[k];
            int64_t at = own->first > ps->list[i].offset ? own->first : ps->list[i].offset;

            if (at < own->first + own->count && at < ps->list[i].offset + ps->list[i].elems)
                return at;
        }
    return -1;
}

/* One rank alone meets the overflow: its gradients are made infinite behind its back. */
static void one_rank(const char *options)
{
    for (int victim = 0; victim < world.size; victim++) {
        struct tr_config c;
        struct tr_run r;
        struct tr_optim_how how = {.lr = 0.01, .loss_scale = 1.0, .check = true};
        struct tr_optim_result result;

        open_run(&r, &c, options);
        assert_all(r.shape.layout.d == 1 || r.shape.dp.optimizer_shards > 1);
        assert_all(own_element(&r) >= 0);
        if (world.rank == victim)
            ((uint16_t *)r.model.params.grads.data)[own_element(&r)] = 0x7c00;
        result = tr_optim_norm(&r.optim, tr_dp_owners(&r.dp), &r.queue, &how);
        tr_optim_update(&r.optim, &r.queue, &how, &result);
        assert_all(result.skipped && r.optim.steps == 0);
        tiny_close(&r, &c);
    }
}

static void overflow(void **state)
{
    static const char *const layouts[] = {
        "--tensor-model-parallel-size 2",
        "--pipeline-model-parallel-size 2",
        "--use-distributed-optimizer",
        "--tensor-model-parallel-size 2 --sequence-parallel",
    };

    (void)state;
    dynamic("");
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        dynamic(layouts[i]);
        one_rank(layouts[i]);
    }
}

/* The flat buffers have the elements of one stage, here all of them parameters that are no copies. */
static double own_norm(const struct tr_run *r)
{
    const struct tr_tensor *g = &r->model.params.grads;
    double sum = 0.0;

    assert_all(g->dtype == TR_F32);
    for (int64_t i = 0; i < tr_tensor_elems(g); i++)
        sum += (double)tr_f32(g)[i] * (double)tr_f32(g)[i];
    return sqrt(sum);
}

static double sum_over_ranks(double x)
{
    struct tr_tensor t = tr_f64_1(&x, 1);

    world.via->allreduce(&world, NULL, &t, TR_SUM);
    return x;
}

/* After the first step, m = (1 - beta1) factor gradient: the factor is that of the stage's own norm. */
static void clips_by_stage(void **state)
{
    const double beta1 = 0.9, clip = 0.01;
    struct tr_config c;
    struct tr_run r;
    struct tr_optim_how how = {.lr = 0.01, .loss_scale = 1.0};
    struct tr_optim_result result;
    double norm, other, factor, worst = 0.0;
    int64_t n;
    float *g;

    (void)state;
    tiny_open(&r, &c,
              "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
              "--max-position-embeddings 16 --vocab-size 64 --make-vocab-size-divisible-by 1 "
              "--micro-batch-size 1 --global-batch-size 4 --train-iters 100 --lr 0.01 "
              "--pipeline-model-parallel-size 2 --untie-embeddings-and-output-weights "
              "--clip-grad 0.01 --clip-grad-by-stage",
              some_sample);
    tr_step_gradients(&r);
    norm = own_norm(&r);
    other = sum_over_ranks(norm) - norm;
    /* By one norm for both the factors would differ from these by far more than what is allowed below. */
    assert_all(norm > 2.0 * clip && other > 0.1 * norm);
    n = tr_tensor_elems(&r.model.params.grads);
    g = malloc((size_t)n * sizeof *g);
    assert_non_null(g);
    memcpy(g, r.model.params.grads.data, (size_t)n * sizeof *g);
    result = tr_optim_norm(&r.optim, tr_dp_owners(&r.dp), &r.queue, &how);
    assert_all(fabs(result.part - norm) <= 1e-9 * norm);
    assert_all(fabs(result.norm - hypot(norm, other)) <= 1e-9 * norm);
    tr_optim_update(&r.optim, &r.queue, &how, &result);
    factor = (1.0 - beta1) * clip / (norm + 1e-6);
    for (int64_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(tr_f32(&r.optim.state[TR_STATE_EXP_AVG])[i] - factor * g[i]));
    assert_all(worst <= 1e-6 * factor * norm);
    free(g);
    tiny_close(&r, &c);
}

/* A stage that overflowed skips its update, the other one makes it, and both count the step. */
static void skips_by_stage(void **state)
{
    (void)state;
    for (int victim = 0; victim < world.size; victim++) {
        struct tr_config c;
        struct tr_run r;
        struct tr_optim_how how = {.lr = 0.01, .loss_scale = 1.0, .check = true};
        struct tr_optim_result result;
        size_t bytes;
        unsigned char *before, *after;

        open_run(&r, &c,
                 "--pipeline-model-parallel-size 2 --untie-embeddings-and-output-weights "
                 "--clip-grad-by-stage");
        tr_step_gradients(&r);
        how.loss_scale = r.scaler.scale;
        for (int64_t i = 0; i < r.model.params.size; i++)
            ((uint16_t *)r.model.params.grads.data)[i] = 0x3c00;
        before = state_of(&r, &bytes);
        if (world.rank == victim)
            ((uint16_t *)r.model.params.grads.data)[own_element(&r)] = 0x7c00;
        result = tr_optim_norm(&r.optim, tr_dp_owners(&r.dp), &r.queue, &how);
        assert_all(result.skipped && !result.all && result.idle == (world.rank == victim));
        tr_optim_update(&r.optim, &r.queue, &how, &result);
        after = state_of(&r, &bytes);
        assert_all((memcmp(before, after, bytes) == 0) == (world.rank == victim));
        assert_all(r.optim.steps == 1);
        free(before);
        free(after);
        tiny_close(&r, &c);
    }
}

/* A constant scale never moves. */
static void constant(void **state)
{
    struct tr_config c;
    struct tr_run r;

    (void)state;
    open_run(&r, &c, "--loss-scale 1073741824");
    for (int i = 0; i < 4; i++)
        skips(&r, 1073741824.0, 1073741824.0);
    tiny_close(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(overflow), cmocka_unit_test(constant),
                                       cmocka_unit_test(clips_by_stage),
                                       cmocka_unit_test(skips_by_stage)};

    return run_mpi_tap(tests);
}
