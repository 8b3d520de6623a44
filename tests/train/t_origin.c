/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <string.h>

#include "train/origin.h"

/*
 * Where a number that is not finite began, with tensor, pipeline and data parallelism of 2 each: planted in one weight of
 * one rank, in activations that overflow, and in gradients, of one replica or of their sum.
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
             "--global-batch-size 4 --lr 0.01 --tensor-model-parallel-size 2 "
             "--pipeline-model-parallel-size 2 %s %s",
             strstr(options, "--n-epochs") ? "" : "--train-iters 100", options);
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

/* One more step, whose norm is not finite; `text` is what is said of it, when the step has been counted. */
static void step(void)
{
    struct tr_step_result result;

    tr_step(&r, &result);
    r.iteration++;
    assert_all(result.skipped && result.unusual && !isfinite(result.grad_norm));
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
         "over replicas, and finite when the step was done again)",
         5);
    origin.kind = TR_ORIGIN_NONE;
    tr_origin_find(&r, &origin, text);
    assert_all(text[0] == '\0');
    tiny_close(&r, &c);
}

/* In the backward passes of some ranks: the gradient that comes to the last layer of the stage has a NaN at column 5 of its
   first row, or the gradient of a bias becomes 3e38, of which two make infinity. */
static struct {
    void (*backward)(void *ctx, struct tr_slot at);
    unsigned ranks;
    const char *bias; /* or NULL */
    int left;         /* passes */
} fault;

static void faulty(void *ctx, struct tr_slot at)
{
    const bool here = (fault.ranks >> world.rank & 1) && fault.left-- > 0;

    if (here && !fault.bias) {
        const struct tr_tensor dy = tr_chunk_doutput(r.chunk[at.chunk], at.micro);
        const int64_t bytes = tr_dtype_bytes(dy.dtype);

        memset((char *)dy.data + 5 * bytes, 0xff, (size_t)bytes);
    }
    fault.backward(ctx, at);
    if (here && fault.bias)
        tr_f32(&r.model.params.grads)[find(fault.bias)->offset + 3] = 3e38F;
}

static void open_faulty(const char *options, unsigned ranks, const char *bias, int left)
{
    open_run(options);
    fault.backward = r.stage.backward;
    r.stage.backward = faulty;
    fault.ranks = ranks;
    fault.bias = bias;
    fault.left = left;
}

/* Rank 2 is tensor rank 0 of replica 1 in the first stage, whose last layer is 1.  The bias behind its MLP sums the rows of
   that gradient, so that column 5 is a NaN; ranks 0 and 1 have it as well once replicas have summed theirs. */
static void of_replica(const char *options)
{
    open_faulty(options, 1U << 2, NULL, 1000);
    step();
    says("the gradient of encoder.layers.1.mlp.dense_4h_to_h.bias (1 of 16 numbers)", 2);
    tiny_close(&r, &c);
}

static void in_replicas(void **state)
{
    (void)state;
    of_replica("");
    of_replica("--no-overlap-grad-reduce --dp-wire bf16");
    of_replica("--use-distributed-optimizer");
    of_replica("--zero-stage 2");
    of_replica("--zero-stage 3");
    of_replica("--zero-stage 3 --zero-reduce-once");
    of_replica("--zero-stage 3 --offload-optimizer cpu --offload-param cpu");
    of_replica("--chunk-memory 64MiB");
    of_replica("--dp-mode central_ps");
    of_replica("--dp-mode sharded_ps");
    of_replica("--dp-mode adasum --untie-embeddings-and-output-weights");
    of_replica("--dp-mode local");
    of_replica("--dp-mode local --train-warmup-steps 1");
    of_replica("--dp-mode cocktail_sgd");
    of_replica("--dp-mode sharded_ps_compressed --train-warmup-steps 1");
}

static int64_t number_of(struct tr_run *run, enum tr_split split, int64_t position)
{
    (void)run, (void)split;
    return position % 24;
}

/* What comes once; what only the sum has, as the other replica's number is finite as well; and links that remember. */
static void in_sums(void **state)
{
    (void)state;
    open_faulty("--no-overlap-grad-reduce", 1U << 2, NULL, 1);
    step();
    says("the gradient of encoder.layers.1.mlp.dense_4h_to_h.bias (1 of 16 numbers, summed over "
         "replicas, and finite when the step was done again)",
         0);
    tiny_close(&r, &c);
    open_faulty("--no-overlap-grad-reduce", 1U << 0 | 1U << 2,
                "encoder.layers.1.self_attention.dense.bias", 1000);
    step();
    says("the gradient of encoder.layers.1.self_attention.dense.bias (1 of 16 numbers, in the sum "
         "over replicas alone)",
         0);
    tiny_close(&r, &c);
    open_faulty("--forward-compress-method delta --n-epochs 2 --data-blocks 24", 1U << 2, NULL,
                1000);
    r.sample_id = number_of;
    step();
    says("the gradient of encoder.layers.1.mlp.dense_4h_to_h.bias (1 of 16 numbers, summed over "
         "replicas)",
         0);
    tiny_close(&r, &c);
}

/* The loss and the norm of two steps after one that was skipped, in which two micro-batches had a NaN. */
static void go_on(const char *options, bool looks, double out[4])
{
    struct tr_step_result result;

    open_faulty(options, 1U << 2, NULL, looks ? 4 : 2);
    tr_step(&r, &result);
    r.iteration++;
    assert_all(result.skipped && result.unusual);
    if (looks)
        tr_origin_find(&r, &result.origin, text);
    for (int i = 0; i < 2; i++) {
        tr_step(&r, &result);
        r.iteration++;
        assert_all(!result.skipped && isfinite(result.grad_norm));
        out[2 * i] = tiny_loss(result.loss);
        out[2 * i + 1] = result.grad_norm;
    }
    assert_all(r.consumed_train == 12);
    tiny_close(&r, &c);
}

/* In fp16 a run goes on after the search, with the same bits as without. */
static void nothing_changes(void **state)
{
    const char *modes[] = {
        "", "--zero-stage 2 --offload-optimizer cpu", "--zero-stage 3",
        "--use-distributed-optimizer --forward-compress-method fixpoint --overlap-param-gather"};
    double with[4], without[4];

    (void)state;
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        char options[256];

        snprintf(options, sizeof options, "--fp16 --loss-scale 64 %s", modes[m]);
        go_on(options, true, with);
        assert_all(strstr(text, " on rank 2 on ") != NULL);
        go_on(options, false, without);
        assert_all(memcmp(with, without, sizeof with) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_weights),   cmocka_unit_test(in_activations),
        cmocka_unit_test(in_gradients), cmocka_unit_test(in_replicas),
        cmocka_unit_test(in_sums),      cmocka_unit_test(nothing_changes),
    };

    return run_mpi_tap(tests);
}
