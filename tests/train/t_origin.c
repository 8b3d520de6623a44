/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <string.h>

#include "train/origin.h"

/*
 * Where a number that is not finite began, with tensor, pipeline and data parallelism of 2 each: planted in one weight of
 * one rank, in activations that overflow, and in one gradient.
 */
static struct tr_config c;
static struct tr_run r;
static char text[TR_ORIGIN_BYTES];

static void open_run(const char *options)
{
    char all[1024];

    snprintf(all, sizeof all,
             "--num-layers 4 --hidden-size 16 --num-attention-heads 4 --seq-length 8 "
             "--max-position-embeddings 8 --vocab-size 61 --micro-batch-size 1 "
             "--global-batch-size 4 --train-iters 100 --lr 0.01 --tensor-model-parallel-size 2 "
             "--pipeline-model-parallel-size 2 %s",
             options);
    tiny_open(&r, &c, all, tiny_sample);
}

/* The parameter of that name, if this rank has it. */
static const struct tr_param *find(const char *name)
{
    const struct tr_params *ps = &r.model.params;

    for (int i = 0; i < ps->count; i++)
        if (strcmp(ps->list[i].name, name) == 0)
            return &ps->list[i];
    return NULL;
}

/* Numbers first .. first + n - 1 of a parameter on the ranks of a set become `x`. */
static void plant(unsigned ranks, const char *name, int64_t n, float x)
{
    const struct tr_param *p = find(name);

    if (!(ranks >> world.rank & 1))
        return;
    assert_non_null(p);
    assert_int_equal(r.model.params.values.dtype, TR_F32);
    for (int64_t i = 0; i < n; i++)
        tr_f32(&r.model.params.values)[p->offset + 3 + i] = x;
}

/* One more step, whose norm is not finite; `text` is what is said of it. */
static void step(void)
{
    struct tr_step_result result;

    tr_step(&r, &result);
    assert_all(result.skipped && !isfinite(result.grad_norm));
    tr_origin_find(&r, &result.origin, text);
}

static void says(const char *expected, int rank)
{
    char whole[TR_ORIGIN_BYTES];

    snprintf(whole, sizeof whole, "%s on rank %d on %s", expected, rank, r.launch.host[rank]);
    if (strcmp(text, whole) != 0)
        print_message("# it says: %s\n# and not:  %s\n", text, whole);
    assert_all(strcmp(text, whole) == 0);
}

/* Ranks are tensor, then data, then pipeline: 6 is tensor rank 0 of replica 1 in the second stage, which has layers 2
   and 3.  The NaN comes to all gradients of both replicas. */
static void weights(const char *options)
{
    struct tr_step_result result;

    open_run(options);
    tr_step(&r, &result);
    assert_all(!result.skipped && result.origin.kind == TR_ORIGIN_NONE);
    plant(1U << 6, "encoder.layers.2.mlp.dense_h_to_4h.weight", 2, NAN);
    step();
    says("the weight encoder.layers.2.mlp.dense_h_to_4h.weight (2 of 512 numbers)", 6);
    plant(1U << 1, "encoder.layers.1.self_attention.query_key_value.bias", 1, INFINITY);
    step();
    says("the weight encoder.layers.1.self_attention.query_key_value.bias (1 of 24 numbers)", 1);
    plant(1U << 3, "embedding.word_embeddings.weight", 1, NAN);
    step();
    says("the weight embedding.word_embeddings.weight (1 of 2048 numbers)", 3);
    tiny_close(&r, &c);
}

static void in_weights(void **state)
{
    (void)state;
    weights("");
    weights("--use-distributed-optimizer --sequence-parallel");
}

/* The largest finite numbers in a bias that each tensor rank adds: the sum with the residual overflows in layer 1, in all
   rows of the numbers planted, though all weights are finite. */
static void in_activations(void **state)
{
    char *behind;

    (void)state;
    open_run("");
    plant(0x0f, "encoder.layers.1.mlp.dense_4h_to_h.bias", 1, 3e38F);
    plant(0x0f, "encoder.layers.1.self_attention.dense.bias", 1, 3e38F);
    step();
    behind = strstr(text, " (");
    assert_non_null(behind);
    assert_int_equal(strncmp(text, "the output of layer 1 of 0 to 3 (", 33), 0);
    assert_non_null(strstr(text, " of 128 numbers) on rank 0 on "));
    tiny_close(&r, &c);
}

/* After a forward pass that is finite: of two layers the later one, which the backward pass came to first. */
static void in_gradients(void **state)
{
    struct tr_origin origin;
    const struct tr_param *p;

    (void)state;
    open_run("");
    tr_step_gradients(&r);
    p = find("encoder.layers.3.self_attention.dense.weight");
    if (world.rank == 5)
        tr_f32(&r.model.params.grads)[p->offset] = NAN;
    p = find("encoder.layers.2.self_attention.dense.weight");
    if (world.rank == 4 || world.rank == 7)
        tr_f32(&r.model.params.grads)[p->offset] = INFINITY;
    tr_origin_gradients(&r, &origin);
    assert_int_equal(origin.kind == TR_ORIGIN_GRADIENT,
                     world.rank == 4 || world.rank == 5 || world.rank == 7);
    tr_origin_find(&r, &origin, text);
    says("the gradient of encoder.layers.3.self_attention.dense.weight (1 of 128 numbers, summed "
         "over replicas)",
         5);
    origin.kind = TR_ORIGIN_NONE;
    tr_origin_find(&r, &origin, text);
    assert_all(text[0] == '\0');
    tiny_close(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_weights),
        cmocka_unit_test(in_activations),
        cmocka_unit_test(in_gradients),
    };

    return run_mpi_tap(tests);
}
