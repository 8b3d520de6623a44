/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/shape.h"
#include "config/vocab.h"
#include "data/folder.h"
#include "util/text.h"

/* The 7.5B model that was measured on 16 GPUs of Jean Zay, without what this version lacks. */
static const char jean_zay[] =
    "--num-layers 36 --hidden-size 4096 --num-attention-heads 32 --seq-length 512 "
    "--max-position-embeddings 512 --micro-batch-size 1 --global-batch-size 4 --lr 0.00015 "
    "--lr-decay-style cosine --min-lr 1.0e-5 --train-iters 1000 --lr-decay-iters 800 "
    "--lr-warmup-fraction .01 --weight-decay 1e-2 --clip-grad 1.0 --vocab-size 50257 "
    "--log-interval 10 --save-interval 500 --eval-interval 100 --eval-iters 10 "
    "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --save x --load x "
    "--data-path y --data-impl mmap --split 949,50,1 --distributed-backend mpi";

/* The shape of that run without the options `less` and with `more`. */
static enum tr_status shape_without(const char *const *less, const char *more, int world,
                                    struct tr_shape *s)
{
    struct tr_config c;
    enum tr_status status;

    tr_config_init(&c);
    status = tr_config_parse_text(&c, jean_zay);
    for (; *less && status == TR_OK; less++)
        status = tr_config_set(&c, *less, NULL);
    if (status == TR_OK)
        status = tr_config_parse_text(&c, more);
    if (status == TR_OK)
        status = tr_shape_of(&c, world, s);
    tr_config_release(&c);
    return status;
}

static enum tr_status shape(const char *more, int world, struct tr_shape *s)
{
    return shape_without((const char *const[]){NULL}, more, world, s);
}

/* Without what counts iterations. */
static enum tr_status shape_of_samples(const char *more, int world, struct tr_shape *s)
{
    return shape_without((const char *const[]){"train-iters", "lr-decay-iters", NULL}, more, world,
                         s);
}

/* The least of 100 and a twentieth of the run, unless it is given. */
static void lines_of_the_log(void **state)
{
    static const struct {
        const char *more;
        int64_t interval;
    } rows[] = {
        {"--train-iters 1000000", 100}, {"--train-iters 2000", 100}, {"--train-iters 1999", 99},
        {"--train-iters 40", 2},        {"--train-iters 21", 1},     {"--train-iters 19", 1},
        {"--train-iters 1", 1},         {"--log-interval 7", 7},     {"--train-samples 400", 5},
    };
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const less[] = {"log-interval", "lr-decay-iters", "lr-warmup-fraction",
                                    strstr(rows[i].more, "samples") ? "train-iters" : NULL, NULL};

        assert_ok(shape_without(less, rows[i].more, 16, &s));
        assert_int_equal(s.amounts.log_interval, rows[i].interval);
    }
}

static void known_run(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("", 16, &s));
    assert_int_equal(s.layout.w, 4);
    assert_int_equal(s.layout.p, 4);
    assert_int_equal(s.layout.d, 1);
    assert_int_equal(s.layout.k, 1);
    assert_int_equal(s.dims.head_dim, 128);
    assert_int_equal(s.dims.ffn, 16384);
    assert_int_equal(tr_layout_layers(&s.layout, 2, 0), 9);
    assert_int_equal(s.batches.micros, 4);
    assert_int_equal(s.layout.schedule, TR_PIPE_1F1B);
    /* What the log of that run printed: 4000, 440 and 40 samples. */
    assert_int_equal(s.amounts.train_samples, 4000);
    assert_int_equal(s.amounts.valid_samples, 440);
    assert_int_equal(s.amounts.test_samples, 40);
    /* 800 iterations of 4 samples, and one in a hundred of them. */
    assert_true(s.lr_schedule.decay_samples == 3200.0);
    assert_true(s.lr_schedule.warmup_samples == 32.0);
    assert_int_equal(s.lr_schedule.decay_style, TR_LR_COSINE);
    assert_true(s.lr_schedule.lr == 1.5e-4 && s.lr_schedule.min_lr == 1e-5);
}

/* 50257 rounded up to a multiple of 128 W, as Megatron's logs have it. */
static void padded_vocabulary(void **state)
{
    static const int want[][2] = {{1, 50304}, {2, 50432}, {4, 50688}, {8, 51200}};
    struct tr_shape s;
    char more[64];

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        snprintf(more, sizeof more, "--tensor-model-parallel-size %d", want[i][0]);
        assert_ok(shape(more, 4 * want[i][0], &s));
        assert_int_equal(s.dims.vocab, 50257);
        assert_int_equal(s.dims.vocab_padded, want[i][1]);
    }
    assert_ok(shape("--make-vocab-size-divisible-by 1 --vocab-size 7", 16, &s));
    assert_int_equal(s.dims.vocab_padded, 8);
}

static void batches(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--global-batch-size 24 --micro-batch-size 2", 48, &s));
    assert_int_equal(s.layout.d, 3);
    assert_int_equal(s.batches.micros, 4);
    assert_fails(TR_ECONFIG, "is: 18 or 24",
                 shape("--global-batch-size 23 --micro-batch-size 2", 48, &s));
    assert_fails(TR_ECONFIG, "is: 6", shape("--global-batch-size 3 --micro-batch-size 2", 48, &s));
    assert_fails(TR_ECONFIG, "more than can be counted",
                 shape("--train-iters 2000000000 --eval-interval 1 --eval-iters 2000000000 "
                       "--global-batch-size 2000000000",
                       16, &s));
}

/* Without --global-batch-size one micro-batch of each replica. */
static void default_batch(void **state)
{
    struct tr_config c;
    struct tr_shape s;

    (void)state;
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, jean_zay));
    assert_ok(tr_config_set(&c, "global-batch-size", NULL));
    assert_ok(tr_config_set(&c, "--micro-batch-size", "3"));
    assert_ok(tr_shape_of(&c, 32, &s));
    assert_int_equal(s.batches.global_batch, 6);
    assert_int_equal(s.batches.micros, 1);
    tr_config_release(&c);
}

static void chunks(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--num-layers-per-virtual-pipeline-stage 3", 16, &s));
    assert_int_equal(s.layout.k, 3);
    assert_int_equal(s.layout.schedule, TR_PIPE_INTERLEAVED);
    assert_int_equal(tr_layout_layers(&s.layout, 0, 2), 3);
    /* Chunk c of stage r begins at c L / K + r L / (P K). */
    assert_int_equal(tr_layout_first_layer(&s.layout, 0, 0), 0);
    assert_int_equal(tr_layout_first_layer(&s.layout, 3, 0), 9);
    assert_int_equal(tr_layout_first_layer(&s.layout, 0, 1), 12);
    assert_int_equal(tr_layout_first_layer(&s.layout, 2, 2), 30);
    assert_ok(shape("--num-virtual-stages-per-pipeline-rank 9", 16, &s));
    assert_int_equal(s.layout.k, 9);
    /* One chunk is no interleaving. */
    assert_ok(shape("--num-layers-per-virtual-pipeline-stage 9", 16, &s));
    assert_int_equal(s.layout.schedule, TR_PIPE_1F1B);
    assert_ok(shape("--pipeline-schedule gpipe", 16, &s));
    assert_int_equal(s.layout.schedule, TR_PIPE_GPIPE);
    assert_ok(shape("--pipeline-schedule zb-h1", 16, &s));
    assert_int_equal(s.layout.schedule, TR_PIPE_ZB_H1);
    assert_int_equal(tr_layout_first_layer(&s.layout, 3, 0), 27);
}

#define VEE "--pipeline-schedule zb-v --num-layers 32 "

/* zb-v on four stages: the first one has both ends, the last the two parts in the middle. */
static void vees(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape(VEE, 16, &s));
    assert_int_equal(s.layout.schedule, TR_PIPE_ZB_V);
    assert_int_equal(s.layout.k, 2);
    assert_int_equal(tr_layout_first_layer(&s.layout, 0, 1), 28);
    assert_int_equal(tr_layout_first_layer(&s.layout, 3, 0), 12);
    assert_int_equal(tr_layout_first_layer(&s.layout, 3, 1), 16);
    assert_int_equal(tr_layout_head_stage(&s.layout), 0);
    assert_false(tr_layout_ends_apart(&s.layout));
    assert_int_equal(tr_layout_links(&s.layout), 6);
    assert_ok(shape(VEE "--num-virtual-stages-per-pipeline-rank 2 --global-batch-size 5", 16, &s));
    assert_ok(shape(VEE "--pipeline-model-parallel-layout 3,5,4*5,4", 16, &s));
    assert_int_equal(tr_layout_first_layer(&s.layout, 1, 1), 24);
    assert_ok(shape(VEE "--num-layers 31 --account-for-loss-in-pipeline-split", 16, &s));
    assert_int_equal(tr_layout_layers(&s.layout, 0, 1), 3);
    assert_ok(shape(VEE "--clip-grad-by-stage", 16, &s));
    assert_fails(TR_ECONFIG, "must be 32 or 40", shape("--pipeline-schedule zb-v", 16, &s));
    assert_fails(TR_ECONFIG, "two model chunks per stage",
                 shape(VEE "--num-virtual-stages-per-pipeline-rank 4", 16, &s));
    assert_fails(TR_ECONFIG, "needs a pipeline",
                 shape(VEE "--pipeline-model-parallel-size 1", 16, &s));
    assert_fails(TR_ECONFIG, "the first stage has both",
                 shape(VEE "--decoder-first-pipeline-num-layers 5", 16, &s));
    assert_fails(TR_ECONFIG, "has no groups of micro-batches",
                 shape(VEE "--microbatch-group-size-per-virtual-pipeline-stage 4", 16, &s));
    assert_fails(TR_ECONFIG, "compressed links have buffers for those of one",
                 shape(VEE "--forward-compress-method fixpoint --forward-bits 8", 16, &s));
    assert_fails(TR_ECONFIG, "zb-v computes the gradients of weights later",
                 shape(VEE "--checkpoint-activations", 16, &s));
}

#define GROUPS "--num-virtual-stages-per-pipeline-rank 3 --global-batch-size 14 "
#define SIZE "--microbatch-group-size-per-virtual-pipeline-stage "

/* N micro-batches of 14 for each chunk's turn, on four stages: what is left over is 0 or 4 at least. */
static void groups(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("", 16, &s));
    assert_int_equal(s.layout.group, 4);
    assert_ok(shape("--num-virtual-stages-per-pipeline-rank 3", 16, &s));
    assert_int_equal(s.layout.group, 4);
    assert_ok(shape(GROUPS SIZE "5", 16, &s));
    assert_int_equal(s.layout.group, 5);
    assert_ok(shape(GROUPS SIZE "7", 16, &s));
    assert_ok(shape(GROUPS SIZE "14", 16, &s));
    assert_int_equal(s.layout.group, 14);
    assert_fails(TR_ECONFIG, "a group of 2 would be left, fewer than the stages",
                 shape(GROUPS SIZE "6", 16, &s));
    assert_fails(TR_ECONFIG, "batch size is 12 or 18", shape(GROUPS SIZE "6", 16, &s));
    assert_fails(TR_ECONFIG, "give 4 or more", shape(GROUPS SIZE "3", 16, &s));
    assert_fails(TR_ECONFIG, "give 14 at most", shape(GROUPS SIZE "15", 16, &s));
    assert_fails(TR_ECONFIG, "is for several model chunks", shape(SIZE "4", 16, &s));
}

static void bad_chunks(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_fails(TR_ECONFIG, "is 3 or 9",
                 shape("--num-layers-per-virtual-pipeline-stage 4", 16, &s));
    assert_fails(TR_ECONFIG, "is 1 or 3",
                 shape("--num-virtual-stages-per-pipeline-rank 2", 16, &s));
    assert_fails(TR_ECONFIG, "say the same thing",
                 shape("--num-layers-per-virtual-pipeline-stage 3 "
                       "--num-virtual-stages-per-pipeline-rank 3",
                       16, &s));
    assert_fails(TR_ECONFIG, "batch size is 4 or 8",
                 shape("--num-virtual-stages-per-pipeline-rank 3 --global-batch-size 6", 16, &s));
    assert_fails(
        TR_ECONFIG, "need a pipeline",
        shape("--num-virtual-stages-per-pipeline-rank 3 --pipeline-model-parallel-size 1", 16, &s));
    assert_fails(
        TR_ECONFIG, "gpipe has one model chunk",
        shape("--num-virtual-stages-per-pipeline-rank 3 --pipeline-schedule gpipe", 16, &s));
    assert_fails(
        TR_ECONFIG, "zb-h1 has one model chunk",
        shape("--num-virtual-stages-per-pipeline-rank 3 --pipeline-schedule zb-h1", 16, &s));
    assert_fails(TR_ECONFIG, "recomputation keeps no activations",
                 shape("--pipeline-schedule zb-h1 --checkpoint-activations", 16, &s));
    assert_fails(
        TR_ECONFIG, "--cpu-offloading keeps activations",
        shape("--pipeline-schedule zb-h1 --cpu-offloading --cpu-offloading-num-layers 1", 16, &s));
    for (int stage = 2; stage <= 3; stage++) {
        char options[64];

        snprintf(options, sizeof options, "--pipeline-schedule zb-h1 --zero-stage %d", stage);
        assert_fails(TR_ECONFIG, "weights or gradients of some layers at a time",
                     shape(options, 32, &s));
    }
    assert_fails(TR_ECONFIG, "this model family has others",
                 shape("--pipeline-schedule zb-h1 --model-family gpt-neox", 16, &s));
    assert_fails(TR_ECONFIG, "--num-virtual-stages-per-pipeline-rank 2",
                 shape("--pipeline-schedule interleaved", 16, &s));
}

static void replicas(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--use-distributed-optimizer", 32, &s));
    assert_true(s.layout.d > 1 && s.dp.optimizer_shards == s.layout.d && !s.dp.overlap_gather);
    assert_ok(shape("--use-distributed-optimizer --overlap-param-gather", 32, &s));
    assert_true(s.dp.optimizer_shards == 2 && s.dp.overlap_gather);
    assert_ok(shape("--use-distributed-optimizer --overlap-param-gather", 16, &s));
    assert_true(s.layout.d == 1 && s.dp.optimizer_shards == 1 && !s.dp.overlap_gather);
    assert_ok(shape("", 32, &s));
    assert_true(s.dp.optimizer_shards == 1 && !s.dp.overlap_gather);
    for (int stage = 0; stage <= 3; stage++) {
        char options[64];

        snprintf(options, sizeof options, "--zero-stage %d", stage);
        assert_ok(shape(options, 32, &s));
        assert_true(s.dp.optimizer_shards == (stage >= 1 ? 2 : 1));
        assert_true(s.dp.gradient_shards == (stage >= 2 ? 2 : 1));
        assert_true(s.dp.weight_shards == (stage >= 3 ? 2 : 1));
        assert_true((s.layout.gradient_windows > 0) == (stage >= 2));
        assert_true((s.layout.weight_windows > 0) == (stage >= 3));
        assert_ok(shape(options, 16, &s));
        assert_true(s.dp.optimizer_shards == 1 && s.layout.gradient_windows == 0);
    }
    assert_fails(TR_ECONFIG, "give 0 to 3", shape("--zero-stage 4", 32, &s));
    assert_fails(TR_ECONFIG, "remove one of them",
                 shape("--zero-stage 0 --use-distributed-optimizer", 32, &s));
    assert_fails(TR_ECONFIG, "ahead of its use anyway",
                 shape("--zero-stage 3 --overlap-param-gather", 32, &s));
    assert_fails(TR_ECONFIG, "they come and go",
                 shape("--zero-stage 3 --cuda-graph-impl local", 32, &s));
    assert_fails(TR_ECONFIG, "--zero-stage shards optimizer states",
                 shape("--zero-stage 2 --dp-mode local", 32, &s));
    assert_fails(TR_ECONFIG, "give --use-distributed-optimizer",
                 shape("--overlap-param-gather", 32, &s));
    assert_fails(TR_ECONFIG, "needs --overlap-grad-reduce",
                 shape("--overlap-param-gather --use-distributed-optimizer "
                       "--no-overlap-grad-reduce",
                       32, &s));
}

/* In which modes replicas diverge, and the bits that they send for a parameter: by hand, from
   p (1 + k (b + 16 / B)). */
static void diverging(void **state)
{
    static const struct {
        const char *options;
        double bits;
    } known[] = {
        {"", 0.5 * (1.0 + 0.5 * 8.125)},
        {"--quant-bits 4 --topk-ratio .2 --randomp-ratio .1", 0.1825},
        {"--quant-bits 4 --topk-ratio .1 --randomp-ratio .1", 0.14125},
        {"--quant-bits 4 --topk-ratio .5 --randomp-ratio .4", 1.53125},
        {"--quant-bits 4 --topk-ratio .5 --randomp-ratio .4 --random-method random_wo_replacement",
         1.225},
        {"--quant-bits 32 --topk-ratio 1 --randomp-ratio 1", 32.0},
        {"--quant-bits 2 --topk-ratio 1 --randomp-ratio 1 --quant-bucket-size 64", 2.25},
    };
    char options[256];
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        snprintf(options, sizeof options, "--dp-mode cocktail_sgd %s", known[i].options);
        assert_ok(shape(options, 32, &s));
        assert_true(s.dp.diverges && s.layout.d == 2);
        assert_true(s.dp.delta_bits > known[i].bits - 1e-12 &&
                    s.dp.delta_bits < known[i].bits + 1e-12);
    }
    assert_ok(shape("--dp-mode local --train-warmup-steps 3", 32, &s));
    assert_true(s.dp.diverges && s.dp.delta_bits <= 0.0);
    assert_ok(shape("--dp-mode cocktail_sgd", 16, &s));
    assert_false(s.dp.diverges);
    assert_ok(shape("", 32, &s));
    assert_false(s.dp.diverges);
    assert_false(tr_dp_mode_diverges(TR_DP_ALLREDUCE));
    assert_true(tr_dp_mode_diverges(TR_DP_COCKTAIL) && tr_dp_mode_diverges(TR_DP_LOCAL));
    assert_fails(TR_ECONFIG, "--quant-bits 16",
                 shape("--dp-mode cocktail_sgd --quant-bits 16", 32, &s));
    assert_fails(TR_ECONFIG, "--quant-bits 0: a number is sent in 1 to 8 bits",
                 shape("--dp-mode cocktail_sgd --quant-bits 0", 32, &s));
    assert_fails(TR_ECONFIG, "--quant-bits -1: a number is sent in 1 to 8 bits",
                 shape("--dp-mode cocktail_sgd --quant-bits -1", 32, &s));
    assert_fails(TR_ECONFIG, "--train-warmup-steps configures",
                 shape("--train-warmup-steps 3", 32, &s));
    assert_fails(TR_ECONFIG, "--topk-ratio configures",
                 shape("--dp-mode local --topk-ratio .1", 32, &s));
    assert_fails(TR_ECONFIG, "--no-overlap-round configures", shape("--no-overlap-round", 32, &s));
    assert_fails(TR_ECONFIG, "remove one",
                 shape("--dp-mode local --use-distributed-optimizer", 32, &s));
}

/* CocktailSGD says 0 for a loss scale that is dynamic. */
static void loss_scales(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--fp16 --loss-scale 128", 16, &s));
    assert_ok(shape("--loss-scale 0", 16, &s));
    assert_fails(TR_ECONFIG, "--loss-scale 128 keeps", shape("--loss-scale 128", 16, &s));
}

static void networks(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--distributed-backend slow --slow-rate 0.5 --slow-latency 2", 16, &s));
    assert_fails(TR_ECONFIG, "give --slow-rate", shape("--distributed-backend slow", 16, &s));
    assert_fails(TR_ECONFIG, "add that, or remove", shape("--slow-rate 1", 16, &s));
    assert_fails(TR_ECONFIG, "add that, or remove", shape("--slow-jitter 1", 16, &s));
}

/* Every layer has one place, in the order that the pipeline passes through. */
static void no_layer_twice(const struct tr_shape *s)
{
    int64_t next = 0;

    for (int chunk = 0; chunk < s->layout.k; chunk++) {
        for (int stage = 0; stage < s->layout.p; stage++) {
            assert_int_equal(tr_layout_first_layer(&s->layout, stage, chunk), next);
            assert_true(tr_layout_layers(&s->layout, stage, chunk) > 0);
            next += tr_layout_layers(&s->layout, stage, chunk);
        }
    }
    assert_int_equal(next, s->dims.layers);
}

static void uneven_stages(void **state)
{
    static const struct {
        const char *more;
        int64_t layers[4];
    } cases[] = {
        {"--decoder-first-pipeline-num-layers 6", {6, 10, 10, 10}},
        {"--decoder-last-pipeline-num-layers 3", {11, 11, 11, 3}},
        {"--decoder-first-pipeline-num-layers 8 --decoder-last-pipeline-num-layers 4",
         {8, 12, 12, 4}},
        {"--num-layers 39 --account-for-embedding-in-pipeline-split", {9, 10, 10, 10}},
        {"--num-layers 39 --account-for-loss-in-pipeline-split", {10, 10, 10, 9}},
        {"--num-layers 38 --account-for-embedding-in-pipeline-split "
         "--account-for-loss-in-pipeline-split",
         {9, 10, 10, 9}},
        {"--decoder-first-pipeline-num-layers 6 --num-virtual-stages-per-pipeline-rank 2",
         {6, 10, 10, 10}},
        {"--num-layers 38 --account-for-embedding-in-pipeline-split "
         "--account-for-loss-in-pipeline-split --num-layers-per-virtual-pipeline-stage 5",
         {9, 10, 10, 9}},
    };
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(shape(cases[i].more, 16, &s));
        for (int stage = 0; stage < 4; stage++) {
            int64_t layers = 0;

            for (int chunk = 0; chunk < s.layout.k; chunk++)
                layers += tr_layout_layers(&s.layout, stage, chunk);
            assert_int_equal(layers, cases[i].layers[stage]);
        }
        no_layer_twice(&s);
    }
    /* The last of them: the layer that the embedding takes is one of the first chunk. */
    assert_int_equal(tr_layout_layers(&s.layout, 0, 0), 4);
    assert_int_equal(tr_layout_layers(&s.layout, 0, 1), 5);
    assert_int_equal(tr_layout_layers(&s.layout, 3, 1), 4);
    assert_ok(shape("--num-layers 3 --account-for-embedding-in-pipeline-split "
                    "--pipeline-model-parallel-size 1",
                    4, &s));
    assert_int_equal(tr_layout_layers(&s.layout, 0, 0), 3);
}

static void bad_stages(void **state)
{
    static const struct {
        const char *more, *sentence;
    } cases[] = {
        {"--decoder-first-pipeline-num-layers 7", "leave 27 or 30"},
        {"--decoder-first-pipeline-num-layers 34", "leave one or more for each"},
        {"--decoder-first-pipeline-num-layers 20 --decoder-last-pipeline-num-layers 15 "
         "--pipeline-model-parallel-size 2",
         "leave 1 of --num-layers 36 layers for 0 other stages: choose numbers that leave none"},
        {"--decoder-last-pipeline-num-layers 20 --pipeline-model-parallel-size 1",
         "--decoder-last-pipeline-num-layers needs a pipeline"},
        {"--decoder-last-pipeline-num-layers 6 --account-for-loss-in-pipeline-split",
         "give one of them"},
        {"--account-for-loss-in-pipeline-split", "together they must be 36 or 40"},
        {"--decoder-first-pipeline-num-layers 6 --num-layers-per-virtual-pipeline-stage 2",
         "use --num-virtual-stages-per-pipeline-rank"},
        {"--decoder-first-pipeline-num-layers 6 --num-virtual-stages-per-pipeline-rank 3",
         "does not divide the 10 layers"},
    };
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(TR_ECONFIG, cases[i].sentence,
                     shape(cases[i].more,
                           strstr(cases[i].more, "size 1")   ? 4
                           : strstr(cases[i].more, "size 2") ? 8
                                                             : 16,
                           &s));
}

/* The layers of stages as they follow one another, "2 2 0|2 1": chunk 0 of all, then chunk 1 of all. */
static void stages_of(const struct tr_layout *l, char text[256])
{
    int n = 0;

    text[0] = '\0';
    for (int chunk = 0; chunk < l->k; chunk++)
        for (int stage = 0; stage < l->p; stage++)
            n += snprintf(text + n, (size_t)(256 - n), "%s%d",
                          stage > 0   ? " "
                          : chunk > 0 ? "|"
                                      : "",
                          (int)tr_layout_layers(l, stage, chunk));
}

static enum tr_status parse(const char *text, int p, int64_t layers, struct tr_layout *l)
{
    *l = (struct tr_layout){.w = 1, .p = p, .d = 1};
    return tr_layout_parse(text, layers, l);
}

/* What Megatron-Core's documents say of its strings, the same as lists, and its own example of 61 layers
   without the one of multi-token prediction. */
static void layouts(void **state)
{
    static const struct {
        const char *text;
        int p;
        int64_t layers;
        const char *stages, *list;
    } cases[] = {
        {"EtttL", 1, 3, "3", "3"},
        {"Et|ttL", 2, 3, "1 2", "1,2"},
        {"E|t|ttL", 3, 3, "0 1 2", "0,1,2"},
        {"E|t|t|L", 4, 2, "0 1 1 0", "0,1*2,0"},
        {"Et*3|t*2L", 2, 5, "3 2", "3,2"},
        {"E(t|)*3tL", 4, 4, "1 1 1 1", "1*4"},
        {"E|(t|)*3,t|L", 3, 4, "0 1 1|1 1 0", "0,1*4,0"},
        {"Et|(tt|)*2,t|tL", 5, 7, "1 2 2 1 1", "1,2*2,1*2"},
        {"E t t | t, t L", 2, 4, "2 2", "2*2"},
        {"Et(|t)*3L", 4, 4, "1 1 1 1", "1*4"},
        {"E((t|)*2tt|)*2tL", 7, 9, "1 1 2 1 1 2 1", "1*2,2,1*2,2,1"},
        {"E(t*2|)*2t*10L", 3, 14, "2 2 10", "2*2,10"},
        {"Et*0t|tL", 2, 2, "1 1", "1*2"},
        {"6,6,6,6,7,7,7,3", 8, 48, "6 6 6 6 7 7 7 3", "6*4,7*3,3"},
        {"6*4,7*3,3", 8, 48, "6 6 6 6 7 7 7 3", "6*4,7*3,3"},
        {" 1, 2 ,3", 3, 6, "1 2 3", "1,2,3"},
        {"0,1*2,0", 4, 2, "0 1 1 0", "0,1*2,0"},
        {"0,1*70,0", 72, 70, NULL, "0,1*70,0"},
        {"2,1,1,2", 2, 6, "2 1|1 2", "2,1*2,2"},
        {"4", 1, 4, "4", "4"},
        {"Et*3|(tt|)*29L", 31, 61, NULL, "3,2*29,0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256], list[TR_LAYOUT_TEXT];
        struct tr_layout l, again;
        int64_t next = 0;

        assert_ok(parse(cases[i].text, cases[i].p, cases[i].layers, &l));
        if (cases[i].stages) {
            stages_of(&l, text);
            assert_string_equal(text, cases[i].stages);
        }
        assert_string_equal(tr_layout_list(&l, list), cases[i].list);
        /* The list says the same, and the first layers follow from the layers. */
        assert_ok(parse(list, cases[i].p, cases[i].layers, &again));
        for (int chunk = 0; chunk < l.k; chunk++)
            for (int stage = 0; stage < l.p; stage++) {
                assert_int_equal(tr_layout_first_layer(&l, stage, chunk), next);
                next += tr_layout_layers(&l, stage, chunk);
                assert_int_equal(tr_layout_layers(&again, stage, chunk),
                                 tr_layout_layers(&l, stage, chunk));
            }
        assert_int_equal(next, cases[i].layers);
    }
}

static void bad_layouts(void **state)
{
    static const struct {
        const char *text;
        int p;
        int64_t layers;
        const char *sentence;
    } cases[] = {
        {"Ettt|ttL", 2, 6,
         "has 5 layers, and --num-layers is 6: use --num-layers 5, or for example "
         "--pipeline-model-parallel-layout 4,2"},
        {"Ett|tttttL", 2, 6,
         "has 7 layers, and --num-layers is 6: use --num-layers 7, or for example "
         "--pipeline-model-parallel-layout 2,4"},
        {"6,6,6,6,7,7,7,3", 8, 47, "or for example --pipeline-model-parallel-layout 6*5,7*2,3"},
        {"6,6,6,6,7,7,7,3", 8, 24, "for example --pipeline-model-parallel-layout 3*8"},
        {"1,1", 2, 80, "for example --pipeline-model-parallel-layout 40*2"},
        {"1,1,1", 3, 2, "use --num-layers 3"},
        {"Et||tL", 3, 2, "stage 1 (from 0) holds nothing"},
        {"Et|(|t)*2L", 4, 3, "stage 1 (from 0) holds nothing"},
        {"1,0,1", 3, 2, "stage 1 (from 0) holds nothing"},
        {"0*2,2", 3, 2, "stage 1 (from 0) holds nothing"},
        {"2,0*3", 4, 2, "stage 1 (from 0) holds nothing"},
        {"Et|tL", 3, 2, "has 2 stages, and --pipeline-model-parallel-size is 3: say what 3 stages"},
        {"1*7", 3, 7, "say what 6 or 9 stages hold"},
        {"Et|mL", 2, 1, "has m, a layer of multi-token prediction"},
        {"Et|xL", 2, 1, "has 'x', which is none of its symbols"},
        {"et|tL", 2, 2, "has 'e', which is none of its symbols"},
        {"Et3|tL", 2, 2, "has '3', which is none of its symbols"},
        {"E(t|tL", 2, 2, "has a ( without its )*n"},
        {"E(t|)tL", 2, 2, "has a ( without its )*n"},
        {"Et|)*2tL", 3, 3, "has a ) without its ("},
        {"E(t|))*2tL", 3, 3, "has a ( without its )*n"},
        {"Et*|tL", 2, 2, "has a * without a number"},
        {"Et*123456789|tL", 2, 2, "has a * without a number"},
        {"E((((t*9999)*9999)*9999)*9999)*9999L", 1, 1, "repeats more than"},
        {"E((,)*9999999)*9999999tL", 1, 1, "repeats more than"},
        {"(((((((((((((((((E)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1)*1tL", 1, 1,
         "more than 16 parentheses"},
        {"t|tL", 2, 2, "does not begin with E"},
        {"|EtL", 2, 1, "does not begin with E"},
        {"", 1, 1, "does not begin with E"},
        {"E", 1, 1, "does not end with L"},
        {"Et|t", 2, 2, "does not end with L"},
        {"EEtL", 1, 1, "has E twice"},
        {"EtLL", 1, 1, "has L twice"},
        {"EtL|t", 2, 2, "goes on after L"},
        {"Et|tL|", 3, 2, "goes on after L"},
        {"6,,6", 2, 12, "is no list of layers"},
        {"6,6,", 2, 12, "is no list of layers"},
        {"6;6", 2, 12, "has ';' in a list of numbers"},
        {"6*", 2, 12, "has a * without a number"},
        {"123456789", 1, 1, "is no list of layers"},
        {"9999999*9999999", 1, 1, "more than 4194304 layers or stages"},
        {"6*0", 1, 6, "has 0 stages"},
    };
    char *many = tr_format("E"), *whole;
    struct tr_layout l;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(TR_ECONFIG, cases[i].sentence,
                     parse(cases[i].text, cases[i].p, cases[i].layers, &l));
    /* Neighbours that all differ: as many as are kept, and one more. */
    for (int i = 1; i <= TR_LAYOUT_RUNS; i++) {
        char *more = tr_format("%s%s", many, i % 2 ? "t|" : "tt|");

        free(many);
        many = more;
        if (i != TR_LAYOUT_RUNS - 1)
            continue;
        whole = tr_format("%sttL", many);
        assert_ok(parse(whole, TR_LAYOUT_RUNS, 3 * TR_LAYOUT_RUNS / 2, &l));
        free(whole);
    }
    whole = tr_format("%stL", many);
    assert_fails(TR_ECONFIG, "make more neighbours equal",
                 parse(whole, TR_LAYOUT_RUNS + 1, 3 * TR_LAYOUT_RUNS / 2 + 1, &l));
    free(whole);
    free(many);
}

/* Layers that the stages do not divide: one more for the stages before the last, as the 76B model's 60 on
   32, and no two stages differ by more. */
static void spread_layers(void **state)
{
    char list[TR_LAYOUT_TEXT];
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--pipeline-model-parallel-size 32 --num-layers 60", 128, &s));
    assert_string_equal(tr_layout_list(&s.layout, list), "1*3,2*28,1");
    assert_true(s.layout.spread);
    no_layer_twice(&s);
    assert_ok(shape("--pipeline-model-parallel-size 8 --num-layers 48", 32, &s));
    assert_string_equal(tr_layout_list(&s.layout, list), "6*8");
    assert_false(s.layout.spread);
    for (int p = 2; p <= 40; p++)
        for (int layers = p; layers <= 3 * p; layers++) {
            struct tr_layout l = {.w = 1, .p = p, .k = 1};
            int64_t sum = 0;

            tr_layout_spread(&l, p, layers);
            for (int stage = 0; stage < p; stage++) {
                const int64_t own = tr_layout_layers(&l, stage, 0);

                assert_true(own == layers / p || own == layers / p + 1);
                sum += own;
            }
            assert_int_equal(sum, layers);
            assert_int_equal(tr_layout_layers(&l, p - 1, 0), layers / p);
            assert_true(tr_layout_layers(&l, 0, 0) == layers / p || layers % p == p - 1);
        }
}

/* A layout says all there is to say. */
static void layout_options(void **state)
{
    static const char *const others[] = {
        "--decoder-first-pipeline-num-layers 6",     "--decoder-last-pipeline-num-layers 6",
        "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split",
        "--num-layers-per-virtual-pipeline-stage 3", "--num-virtual-stages-per-pipeline-rank 3",
    };
    struct tr_shape s;
    char text[256];

    (void)state;
    assert_ok(shape("--pipeline-model-parallel-layout 8,10,11,7", 16, &s));
    assert_int_equal(s.layout.k, 1);
    assert_int_equal(s.layout.schedule, TR_PIPE_1F1B);
    assert_ok(shape("--pipeline-model-parallel-layout Et*3|(t*5|)*6t*3L", 16, &s));
    assert_int_equal(s.layout.k, 2);
    assert_int_equal(s.layout.schedule, TR_PIPE_INTERLEAVED);
    stages_of(&s.layout, text);
    assert_string_equal(text, "3 5 5 5|5 5 5 3");
    assert_int_equal(tr_layout_stage_layers(&s.layout, 0), 8);
    assert_int_equal(tr_layout_stage_layers(&s.layout, 1), 10);
    assert_int_equal(tr_layout_longest_stage(&s.layout), 1);
    assert_fails(TR_ECONFIG, "has 8 stages, and --pipeline-model-parallel-size is 3",
                 shape("--pipeline-model-parallel-layout Et*3|(t*5|)*6t*3L "
                       "--pipeline-model-parallel-size 3",
                       12, &s));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *more = tr_format("--pipeline-model-parallel-layout 8,10,11,7 %s", others[i]);
        char *sentence = tr_format("remove %.*s", (int)strcspn(others[i], " "), others[i]);

        assert_fails(TR_ECONFIG, sentence, shape(more, 16, &s));
        free(sentence);
        free(more);
    }
    /* BLOOM's 70 layers on 72 stages. */
    assert_ok(
        shape("--num-layers 70 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 72 "
              "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
              72, &s));
    assert_int_equal(tr_layout_layers(&s.layout, 0, 0), 0);
    assert_int_equal(tr_layout_layers(&s.layout, 1, 0), 1);
    assert_int_equal(tr_layout_layers(&s.layout, 71, 0), 0);
    assert_ok(shape("--use-tp-pp-dp-mapping", 16, &s));
    assert_true(s.layout.tp_pp_dp);
}

static void bad_layout(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_fails(TR_ECONFIG, "start 16 or 32 ranks", shape("", 24, &s));
    assert_fails(TR_ECONFIG, "start 16 ranks", shape("", 1, &s));
    assert_fails(TR_ECONFIG, "2 or 4 ranks, or 30 or 33 heads",
                 shape("--tensor-model-parallel-size 3", 12, &s));
    assert_fails(
        TR_ECONFIG, "35 or 40 layers, or 4 or 6 stages",
        shape("--pipeline-model-parallel-size 5 --num-virtual-stages-per-pipeline-rank 2", 20, &s));
    assert_fails(TR_ECONFIG, "36 stages", shape("--pipeline-model-parallel-size 72", 288, &s));
    assert_fails(TR_ECONFIG, "add --account-for-embedding-in-pipeline-split and --account-for-loss",
                 shape("--pipeline-model-parallel-size 38", 152, &s));
    assert_fails(TR_ECONFIG, "add --account-for-loss-in-pipeline-split, which gives the head",
                 shape("--pipeline-model-parallel-size 37", 148, &s));
    assert_fails(TR_ECONFIG, "is 4064 or 4096", shape("--hidden-size 4095", 16, &s));
    assert_fails(TR_ECONFIG, "is 16 or 20", shape("--ffn-hidden-size 18", 16, &s));
    assert_ok(shape("--ffn-hidden-size 20 --kv-channels 128", 16, &s));
    assert_int_equal(s.dims.ffn, 20);
    assert_ok(shape("--kv-channels 64", 16, &s));
    assert_int_equal(s.dims.head_dim, 64);
    assert_fails(TR_ECONFIG, "raise the latter to 513", shape("--seq-length 513", 16, &s));
}

static void bad_rates(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_fails(TR_ECONFIG, "--min-lr 1 is above --lr 0.00015", shape("--min-lr 1", 16, &s));
    assert_fails(TR_ECONFIG, "say the same thing", shape("--lr-warmup-iters 3", 16, &s));
    assert_fails(TR_ECONFIG, "at most 799", shape("--lr-warmup-fraction 1", 16, &s));
    assert_ok(shape("--lr-decay-iters 9 --lr-warmup-fraction 0", 16, &s));
    assert_true(s.lr_schedule.warmup_samples == 0.0 && s.lr_schedule.decay_samples == 36.0);
}

/* A run whose length is given in samples, and the two units that never mix. */
static void sample_based(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_fails(TR_ECONFIG, "both give the length", shape("--train-samples 4000", 16, &s));
    assert_fails(
        TR_ECONFIG,
        "--lr-decay-samples counts samples, but the length of the run is given in iterations by "
        "--train-iters: give --lr-decay-iters instead",
        shape("--lr-decay-samples 5", 16, &s));
    assert_fails(TR_ECONFIG, "give --lr-warmup-iters instead",
                 shape("--lr-warmup-samples 5", 16, &s));
    assert_ok(shape_of_samples("--train-samples 4003 --lr-decay-samples 3201", 16, &s));
    assert_int_equal(s.amounts.train_iters, 1000);
    assert_int_equal(s.amounts.train_samples, 4003);
    assert_int_equal(s.amounts.valid_samples, 440);
    assert_true(s.lr_schedule.decay_samples == 3201.0 && s.lr_schedule.warmup_samples == 32.01);
    assert_ok(shape_of_samples("--train-samples 4003", 16, &s));
    assert_true(s.lr_schedule.decay_samples == 4003.0);
    assert_fails(TR_ECONFIG, "give --lr-decay-samples instead",
                 shape_of_samples("--train-samples 4003 --lr-decay-iters 5", 16, &s));
    assert_fails(TR_ECONFIG, "give --lr-warmup-samples instead",
                 shape_of_samples("--train-samples 4003 --lr-warmup-iters 5", 16, &s));
    assert_fails(TR_ECONFIG, "--lr-warmup-fraction and --lr-warmup-samples say the same thing",
                 shape_of_samples("--train-samples 4003 --lr-warmup-samples 5", 16, &s));
    assert_fails(TR_ECONFIG, "less than one iteration",
                 shape_of_samples("--train-samples 3", 16, &s));
}

static void other_rates(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--lr-warmup-init 1e-6 --lr-decay-style inverse-square-root", 16, &s));
    assert_true(s.lr_schedule.warmup_init == 1e-6 && s.lr_schedule.wsd_samples == 0.0 &&
                s.lr_schedule.wsd_style == 0);
    assert_fails(TR_ECONFIG, "--lr-warmup-init 1 is above --lr",
                 shape("--lr-warmup-init 1", 16, &s));
    assert_ok(shape("--lr-decay-style WSD --lr-wsd-decay-iters 100 --lr-wsd-decay-style minus_sqrt",
                    16, &s));
    assert_true(s.lr_schedule.wsd_samples == 400.0);
    assert_int_equal(s.lr_schedule.wsd_style, TR_WSD_MINUS_ROOT);
    assert_fails(TR_ECONFIG, "give --lr-wsd-decay-iters", shape("--lr-decay-style WSD", 16, &s));
    assert_fails(TR_ECONFIG, "belongs to --lr-decay-style WSD",
                 shape("--lr-wsd-decay-iters 10", 16, &s));
    /* Longer than what the warm-up leaves, and than the whole decay. */
    assert_ok(shape("--lr-decay-style WSD --lr-wsd-decay-iters 1000", 16, &s));
    assert_true(s.lr_schedule.wsd_samples == 4000.0);
    assert_fails(TR_ECONFIG, "give --lr-wsd-decay-iters instead",
                 shape("--lr-decay-style WSD --lr-wsd-decay-samples 400", 16, &s));
}

static void weight_decays(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("", 16, &s));
    assert_true(s.lr_schedule.wd_start == 0.01 && s.lr_schedule.wd_end == 0.01 &&
                s.lr_schedule.wd_samples == 0.0);
    assert_ok(shape("--weight-decay-incr-style cosine --start-weight-decay 0 "
                    "--end-weight-decay 0.1",
                    16, &s));
    assert_true(s.lr_schedule.wd_start == 0.0 && s.lr_schedule.wd_end == 0.1 &&
                s.lr_schedule.wd_samples == 4000.0);
    assert_int_equal(s.lr_schedule.wd_style, TR_WD_COSINE);
    assert_fails(TR_ECONFIG, "--end-weight-decay does nothing while",
                 shape("--end-weight-decay 0.1", 16, &s));
    assert_fails(TR_ECONFIG, "linear goes from one weight decay to another",
                 shape("--end-weight-decay 0.1 --weight-decay-incr-style linear", 16, &s));
    assert_fails(TR_ECONFIG, "weight decay only rises",
                 shape("--end-weight-decay 0.1 --start-weight-decay 0.2 "
                       "--weight-decay-incr-style linear",
                       16, &s));
}

static void bad_attention(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--attention-backend fused --fp16 --attention-dropout 0", 16, &s));
    assert_ok(shape("--attention-backend flash", 16, &s));
    assert_fails(TR_ECONFIG, "which needs --attention-dropout 0: give that, or use auto or flash",
                 shape("--attention-backend fused --fp16", 16, &s));
    assert_fails(TR_ECONFIG, "which needs a run without --reset-attention-mask",
                 shape("--attention-backend fused --fp16 --attention-dropout 0 "
                       "--reset-attention-mask",
                       16, &s));
    assert_fails(TR_ECONFIG, "which needs --bf16 or --fp16",
                 shape("--attention-backend fused --attention-dropout 0", 16, &s));

    assert_ok(shape("--no-deterministic-mode --fp16 --attention-dropout 0", 16, &s));
    assert_ok(shape("--deterministic-mode --attention-backend flash", 16, &s));
    assert_ok(shape("--no-deterministic-mode --deterministic-mode", 16, &s));
    assert_fails(TR_ECONFIG,
                 "--no-deterministic-mode is about cuDNN's attention, which needs "
                 "--attention-dropout 0: give that, or leave it out",
                 shape("--no-deterministic-mode --fp16", 16, &s));
    assert_fails(TR_ECONFIG, "which needs --attention-backend auto or fused",
                 shape("--no-deterministic-mode --fp16 --attention-dropout 0 --attention-backend "
                       "flash",
                       16, &s));
    assert_fails(TR_ECONFIG, "which needs --bf16 or --fp16",
                 shape("--no-deterministic-mode --attention-dropout 0", 16, &s));
}

static void bad_graphs(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--cuda-graph-impl local --tensor-model-parallel-size 1", 16, &s));
    assert_ok(shape("--cuda-graph-impl none --tensor-model-parallel-size 2", 16, &s));
    assert_fails(TR_ECONFIG, "use --tensor-model-parallel-size 1, or leave out --cuda-graph-impl",
                 shape("--cuda-graph-impl local --tensor-model-parallel-size 2", 16, &s));
}

/* Of the three ways to say where samples come from, only one at a time; and masks need a token. */
static void bad_data(void **state)
{
    static const struct {
        const char *options, *sentence;
    } cases[] = {
        {"--mock-data --data-path y", "--mock-data makes tokens and reads no data"},
        {"--mock-data --test-data-path y", "remove it, or --train-data-path"},
        {"--data-path y --train-data-path z", "give one or the others"},
        {"--valid-data-path y", "give --train-data-path too"},
        {"--train-data-path y --split 90,10,0", "--split 90,10,0 splits what --data-path names"},
        {"--reset-attention-mask --vocab-size 50256",
         "--reset-attention-mask needs a token that ends a document, and this vocabulary of 50256"},
    };
    struct tr_config c;
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tr_config_init(&c);
        assert_ok(tr_config_parse_text(&c, jean_zay));
        assert_ok(tr_config_set(&c, "data-path", NULL));
        assert_ok(tr_config_set(&c, "split", "969, 30, 1"));
        assert_ok(tr_shape_of(&c, 16, &s));
        assert_ok(tr_config_parse_text(&c, cases[i].options));
        assert_fails(TR_ECONFIG, cases[i].sentence, tr_shape_of(&c, 16, &s));
        tr_config_release(&c);
    }
}

/* What is missing is named, and what cannot be without another option. */
static void missing(void **state)
{
    static const struct {
        const char *unset, *sentence;
    } cases[] = {
        {"num-layers", "--num-layers is required"}, {"lr", "--lr is required"},
        {"seq-length", "--seq-length is required"}, {"train-iters", "give --train-iters"},
        {"vocab-size", "give --vocab-file"},        {"save", "give --save"},
    };
    struct tr_config c;
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tr_config_init(&c);
        assert_ok(tr_config_parse_text(&c, jean_zay));
        assert_ok(tr_config_set(&c, cases[i].unset, NULL));
        assert_fails(TR_ECONFIG, cases[i].sentence, tr_shape_of(&c, 16, &s));
        tr_config_release(&c);
    }
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, jean_zay));
    assert_ok(tr_config_set(&c, "save", NULL));
    assert_ok(tr_config_set(&c, "save-interval", NULL));
    assert_ok(tr_config_set(&c, "keep-last", "2"));
    assert_fails(TR_ECONFIG, "--keep-last 2 without", tr_shape_of(&c, 16, &s));
    tr_config_release(&c);
}

/* What says how to load needs something to load, and must not say two things. */
static void loading(void **state)
{
    static const char *const how[] = {
        "--finetune",    "--no-load-optim",       "--exit-on-missing-checkpoint",
        "--ckpt-step 3", "--use-checkpoint-args", "--use-checkpoint-opt-param-scheduler"};
    struct tr_config c;
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        tr_config_init(&c);
        assert_ok(tr_config_parse_text(&c, jean_zay));
        assert_ok(tr_config_parse_text(&c, how[i]));
        assert_ok(tr_shape_of(&c, 16, &s));
        assert_ok(tr_config_set(&c, "load", NULL));
        assert_fails(TR_ECONFIG, "without a place to load from", tr_shape_of(&c, 16, &s));
        tr_config_release(&c);
    }
    assert_ok(shape("--finetune --no-load-optim --override-lr-scheduler", 16, &s));
    assert_fails(TR_ECONFIG, "give one of them",
                 shape("--override-lr-scheduler --use-checkpoint-lr-scheduler", 16, &s));
    assert_fails(TR_ECONFIG, "--finetune begins the learning rate anew",
                 shape("--finetune --use-checkpoint-lr-scheduler", 16, &s));
    assert_fails(TR_ECONFIG, "--no-load-optim begins the learning rate anew",
                 shape("--no-load-optim --use-checkpoint-lr-scheduler", 16, &s));
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, jean_zay));
    assert_ok(tr_config_parse_text(&c, "--no-save-optim"));
    assert_ok(tr_shape_of(&c, 16, &s));
    assert_ok(tr_config_set(&c, "save", NULL));
    assert_ok(tr_config_set(&c, "save-interval", NULL));
    assert_fails(TR_ECONFIG, "--no-save-optim without", tr_shape_of(&c, 16, &s));
    tr_config_release(&c);
}

static enum tr_status vocab_of(const char *text, int64_t *n, int64_t *eod)
{
    struct tr_config c;
    enum tr_status status;

    tr_config_init(&c);
    status = tr_config_parse_text(&c, text);
    if (status == TR_OK)
        status = tr_vocab_of(&c, n, eod);
    tr_config_release(&c);
    return status;
}

static void vocabulary(void **state)
{
    static const char three[] = "{\"!\": 0, \"\\u0120the\": 1, \"<|endoftext|>\": 2}";
    char *dir = folder_make(), *path = tr_format("%s/vocab.json", dir);
    char *text = tr_format("--vocab-file %s", path);
    char *overridden = tr_format("%s --vocab-size 9", text);
    int64_t n, eod;

    (void)state;
    file_put(path, three, strlen(three));
    assert_ok(vocab_of(text, &n, &eod));
    assert_int_equal(n, 3);
    assert_int_equal(eod, 2);
    assert_ok(vocab_of(overridden, &n, &eod));
    assert_int_equal(n, 9);
    assert_int_equal(eod, 2);
    assert_ok(vocab_of("--tokenizer-type bytes", &n, &eod));
    assert_int_equal(n, 257);
    assert_int_equal(eod, 256);
    assert_ok(vocab_of("--tokenizer-type bytes --vocab-size 256", &n, &eod));
    assert_int_equal(eod, -1);
    assert_ok(vocab_of("--vocab-size 50257", &n, &eod));
    assert_int_equal(eod, 50256);
    assert_ok(vocab_of("--vocab-size 100", &n, &eod));
    assert_int_equal(n, 100);
    assert_int_equal(eod, -1);
    assert_ok(vocab_of("--tokenizer-type NullTokenizer --vocab-size 100", &n, &eod));
    assert_int_equal(n, 101);
    assert_int_equal(eod, 100);
    assert_fails(TR_ECONFIG, "give --vocab-size",
                 vocab_of("--tokenizer-type NullTokenizer", &n, &eod));

    file_put(path, "[1, 2]", 6);
    assert_fails(TR_EDATA, "not a vocabulary", vocab_of(text, &n, &eod));
    unlink(path);
    assert_fails(TR_EIO, path, vocab_of(text, &n, &eod));
    folder_remove(dir);
    free(path);
    free(text);
    free(overridden);
}

/* A vee of three ranks by hand; and each virtual stage has one place, whose neighbours are those before and behind it. */
static void routes(void **state)
{
    static const struct tr_vstage vee[] = {{0, 0}, {1, 0}, {2, 0}, {2, 1}, {1, 1}, {0, 1}};
    const struct tr_route three = {.ranks = 3, .chunks = 2, .vee = true};

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(tr_route_at(three, i).rank, vee[i].rank);
        assert_int_equal(tr_route_at(three, i).chunk, vee[i].chunk);
    }
    for (int p = 1; p <= 4; p++)
        for (int k = 1; k <= 3; k++)
            for (int v = 0; v < (k == 2 ? 2 : 1); v++) {
                const struct tr_route r = {.ranks = p, .chunks = k, .vee = v};

                for (int i = 0; i < p * k; i++) {
                    const struct tr_vstage at = tr_route_at(r, i);

                    assert_int_equal(tr_route_number(r, at), i);
                    assert_int_equal(tr_route_is_first(r, at), i == 0);
                    assert_int_equal(tr_route_is_last(r, at), i == p * k - 1);
                    assert_int_equal(tr_route_peer(r, at, -1),
                                     i == 0 ? -1 : tr_route_at(r, i - 1).rank);
                    assert_int_equal(tr_route_peer(r, at, 1),
                                     i == p * k - 1 ? -1 : tr_route_at(r, i + 1).rank);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_the_log),
        cmocka_unit_test(known_run),
        cmocka_unit_test(padded_vocabulary),
        cmocka_unit_test(batches),
        cmocka_unit_test(default_batch),
        cmocka_unit_test(chunks),
        cmocka_unit_test(groups),
        cmocka_unit_test(bad_chunks),
        cmocka_unit_test(replicas),
        cmocka_unit_test(diverging),
        cmocka_unit_test(networks),
        cmocka_unit_test(loss_scales),
        cmocka_unit_test(bad_layout),
        cmocka_unit_test(bad_rates),
        cmocka_unit_test(missing),
        cmocka_unit_test(vocabulary),
        cmocka_unit_test(sample_based),
        cmocka_unit_test(other_rates),
        cmocka_unit_test(weight_decays),
        cmocka_unit_test(uneven_stages),
        cmocka_unit_test(bad_stages),
        cmocka_unit_test(bad_attention),
        cmocka_unit_test(bad_data),
        cmocka_unit_test(loading),
        cmocka_unit_test(layouts),
        cmocka_unit_test(bad_layouts),
        cmocka_unit_test(spread_layers),
        cmocka_unit_test(layout_options),
        cmocka_unit_test(bad_graphs),
        cmocka_unit_test(routes),
        cmocka_unit_test(vees),
    };
    return run_tap(tests);
}
