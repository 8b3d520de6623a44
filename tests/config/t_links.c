/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "config/shape.h"

/*
 * The options of compressed links: what they mean, and one sentence for each mistake before there is a
 * run.
 */
static enum tr_status shape_at(int world, const char *more, struct tr_shape *s)
{
    struct tr_config c;
    char text[2048];
    enum tr_status status;

    snprintf(text, sizeof text,
             "--num-layers 8 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 16 --vocab-size 61 --micro-batch-size 2 --lr 0.01 "
             "--global-batch-size 8 %s",
             more);
    tr_config_init(&c);
    status = tr_config_parse_text(&c, text);
    if (status == TR_OK)
        status = tr_shape_of(&c, world, s);
    tr_config_release(&c);
    return status;
}

#define STAGES "--pipeline-model-parallel-size 4 "
#define EPOCHS STAGES "--n-epochs 5 --data-blocks 100 "

static enum tr_status shape(const char *more, struct tr_shape *s)
{
    return shape_at(4, more, s);
}

/* The sentence, or "" if there is none. */
static const char *why(const char *more)
{
    struct tr_shape s;

    return shape(more, &s) == TR_ECONFIG ? tr_last_error() : "";
}

static void assert_refused(const char *more, const char *text)
{
    const char *sentence = why(more);

    if (!strstr(sentence, text))
        fail_msg("\"%s\" is not in the sentence for %s: %s", text, more, sentence);
}

static void meaning(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape(STAGES "--train-iters 10", &s));
    assert_false(s.links.compressed);
    assert_int_equal(s.links.forward_bits, 0);
    assert_ok(
        shape(STAGES "--train-iters 10 --forward-compress-method fixpoint --forward-bits 3", &s));
    assert_true(s.links.compressed);
    assert_int_equal(s.links.forward_bits, 3);
    assert_int_equal(s.links.backward_bits, 0);
    assert_int_equal(s.links.forward_over, 3);
    assert_int_equal(s.links.whole_samples, 0);
    assert_ok(shape(EPOCHS "--forward-compress-method delta-lowbits --forward-bits-act 2 "
                           "--backward-compress-method fixpoint --warmup-epochs 2",
                    &s));
    assert_int_equal(s.links.backward_bits, 8);
    assert_int_equal(s.links.whole_samples, 2 * 96);
    assert_ok(shape(EPOCHS "--forward-compress-method delta", &s));
    assert_int_equal(s.links.whole_samples, 96);
    assert_ok(shape(EPOCHS "--forward-compress-method fixpoint --warmup-epochs 0", &s));
    assert_int_equal(s.links.whole_samples, 0);
}

static unsigned dims(const char *text)
{
    struct tr_shape s;
    char more[256];

    snprintf(more, sizeof more,
             STAGES "--train-iters 10 --backward-compress-method fixpoint --backward-scale-dims %s",
             text);
    assert_ok(shape(more, &s));
    return s.links.backward_over;
}

static void dimensions(void **state)
{
    (void)state;
    assert_int_equal(dims("0 1"), 3);
    assert_int_equal(dims("0,1"), 3);
    assert_int_equal(dims("'(0, 1)'"), 3);
    assert_int_equal(dims("2"), 4);
    assert_int_equal(dims("1 2 0"), 7);
}

static void mistakes(void **state)
{
    (void)state;
#define FIX STAGES "--train-iters 10 --forward-compress-method fixpoint "
    assert_refused(FIX "--forward-bits 9", "--forward-bits 9: codes have 1 to 8 bits");
    assert_refused(FIX "--forward-bits 0", "--forward-bits 0: codes have 1 to 8 bits");
    assert_refused(FIX "--forward-bits -1", "--forward-bits -1: codes have 1 to 8 bits");
    assert_refused(STAGES "--train-iters 10 --backward-compress-method fixpoint --backward-bits 16",
                   "--backward-bits 16: codes have 1 to 8 bits");
    assert_refused(FIX "--forward-scale-dims 3", "'3' is no list of dimensions");
    assert_refused(FIX "--forward-scale-dims 0 -1", "'-1' is no list of dimensions");
    assert_refused(FIX "--forward-scale-dims 01", "'01' is no list of dimensions");
    assert_refused(FIX "--forward-scale-dims ()", "--forward-scale-dims names no dimension");
    assert_refused(FIX "--forward-scale-dims all", "'all' is no list of dimensions");
    assert_refused(FIX "--warmup-epochs 2", "--warmup-epochs 2 counts epochs");
    assert_refused("--train-iters 10 --forward-compress-method fixpoint", "there is one stage");
    assert_refused("--train-iters 10 --backward-compress-method fixpoint", "there is one stage");
    assert_refused(STAGES "--train-iters 10 --forward-compress-method delta",
                   "give --n-epochs, or --forward-compress-method fixpoint");
    assert_refused(
        EPOCHS "--forward-compress-method delta-lowbits --forward-bits-act 3",
        "--forward-bits-act 3: the activation cache of delta-lowbits has 2, 4 or 8 bits");
    assert_refused(
        EPOCHS "--forward-compress-method delta-lowbits --forward-bits-act 0",
        "--forward-bits-act 0: the activation cache of delta-lowbits has 2, 4 or 8 bits");
    assert_refused(STAGES "--n-epochs 5 --forward-compress-method delta --data-blocks 1073741825 "
                          "--max-activation-cache-size 2000000000",
                   "delta can cache 1073741824 samples at each end of a link, and a replica would "
                   "train on 1073741825: give at least 2 replicas");
    assert_refused(EPOCHS "--forward-compress-method delta --max-activation-cache-size 99",
                   "less than the 100 samples that a replica trains on");
    assert_refused(EPOCHS "--forward-compress-method delta --warmup-epochs 5",
                   "leaves none of the 5 epochs");
    assert_refused(EPOCHS "--forward-compress-method delta --activation-cache-dir ''",
                   "--activation-cache-dir is empty");
    assert_refused(EPOCHS "--backward-compress-method delta",
                   "gradients of a sample differ too much");
    assert_refused(EPOCHS "--forward-compress-method topk", "forward-compress-method");
    assert_refused("--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
                   "--sequence-parallel --n-epochs 5 --data-blocks 100 "
                   "--forward-compress-method delta",
                   "give --micro-batch-size 1");
}

/* Samples are divided among replicas, and the largest part has to fit. */
static void shares(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(
        shape_at(8, EPOCHS "--forward-compress-method delta --max-activation-cache-size 50", &s));
    assert_int_equal(shape_at(8,
                              STAGES
                              "--n-epochs 5 --data-blocks 101 --forward-compress-method delta "
                              "--max-activation-cache-size 50",
                              &s),
                     TR_ECONFIG);
    assert_non_null(strstr(tr_last_error(), "less than the 51 samples"));
    /* And its numbers to fit. */
#define MANY                                        \
    STAGES                                          \
    "--n-epochs 5 --forward-compress-method delta " \
    "--max-activation-cache-size 2000000000 --data-blocks "
    assert_ok(shape_at(4, MANY "1073741824", &s));
    assert_ok(shape_at(8, MANY "1073741825", &s));
    /* One sample in a micro-batch lies in the same rows each time. */
    assert_ok(shape_at(4,
                       "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
                       "--sequence-parallel --n-epochs 5 --data-blocks 100 --micro-batch-size 1 "
                       "--forward-compress-method delta",
                       &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(meaning), cmocka_unit_test(dimensions),
                                       cmocka_unit_test(mistakes), cmocka_unit_test(shares)};

    return run_tap(tests);
}
