/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/shape.h"
#include "config/vocab.h"
#include "data/folder.h"

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
    assert_int_equal(tr_layout_first_layer(&s.layout, 3, 0), 27);
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
    assert_fails(TR_ECONFIG, "--num-virtual-stages-per-pipeline-rank 2",
                 shape("--pipeline-schedule interleaved", 16, &s));
}

static void replicas(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape("--use-distributed-optimizer", 32, &s));
    assert_true(s.layout.d > 1 && s.dp.sharded && !s.dp.overlap_gather);
    assert_ok(shape("--use-distributed-optimizer --overlap-param-gather", 32, &s));
    assert_true(s.dp.sharded && s.dp.overlap_gather);
    assert_ok(shape("--use-distributed-optimizer --overlap-param-gather", 16, &s));
    assert_true(s.layout.d == 1 && !s.dp.sharded && !s.dp.overlap_gather);
    assert_ok(shape("", 32, &s));
    assert_false(s.dp.sharded || s.dp.overlap_gather);
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

static void bad_layout(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_fails(TR_ECONFIG, "start 16 or 32 ranks", shape("", 24, &s));
    assert_fails(TR_ECONFIG, "start 16 ranks", shape("", 1, &s));
    assert_fails(TR_ECONFIG, "2 or 4 ranks, or 30 or 33 heads",
                 shape("--tensor-model-parallel-size 3", 12, &s));
    assert_fails(TR_ECONFIG, "35 or 40 layers, or 4 or 6 stages",
                 shape("--pipeline-model-parallel-size 5", 20, &s));
    assert_fails(TR_ECONFIG, "36 stages", shape("--pipeline-model-parallel-size 72", 288, &s));
    assert_fails(TR_ECONFIG, "is 4064 or 4096", shape("--hidden-size 4095", 16, &s));
    assert_fails(TR_ECONFIG, "is 16 or 20", shape("--ffn-hidden-size 18", 16, &s));
    assert_ok(shape("--ffn-hidden-size 20 --kv-channels 128", 16, &s));
    assert_int_equal(s.dims.ffn, 20);
    assert_fails(TR_ECONFIG, "= 128", shape("--kv-channels 64", 16, &s));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_run),     cmocka_unit_test(padded_vocabulary),
        cmocka_unit_test(batches),       cmocka_unit_test(default_batch),
        cmocka_unit_test(chunks),        cmocka_unit_test(groups),
        cmocka_unit_test(bad_chunks),    cmocka_unit_test(replicas),
        cmocka_unit_test(diverging),     cmocka_unit_test(networks),
        cmocka_unit_test(loss_scales),   cmocka_unit_test(bad_layout),
        cmocka_unit_test(bad_rates),     cmocka_unit_test(missing),
        cmocka_unit_test(vocabulary),    cmocka_unit_test(sample_based),
        cmocka_unit_test(other_rates),   cmocka_unit_test(weight_decays),
        cmocka_unit_test(uneven_stages), cmocka_unit_test(bad_stages),
        cmocka_unit_test(bad_attention), cmocka_unit_test(bad_data),
        cmocka_unit_test(bad_graphs),    cmocka_unit_test(bad_data),
        cmocka_unit_test(loading),
    };
    return run_tap(tests);
}
