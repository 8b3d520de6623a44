/* SPDX-License-Identifier: BSD-3-Clause */
/* What would make a plan fit: each change does, by itself, and takes what it says; where the answer is plain it is found. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/profiles.h"
#include "util/file.h"

#define GPT2_XL                                                                      \
    "--num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024 " \
    "--max-position-embeddings 1024 --vocab-size 50257 --train-iters 10 --lr 1e-4 --fp16 "
#define GPT_30B                                                                      \
    "--num-layers 48 --hidden-size 7168 --num-attention-heads 56 --seq-length 2048 " \
    "--max-position-embeddings 2048 --vocab-size 50257 --train-iters 10 --lr 1e-4 --bf16 "

static void plan_of(const char *words, const char *machine, struct tr_config *c, struct tr_plan *p)
{
    struct tr_machine m;

    (void)profiles();
    assert_ok(tr_machine_find(machine, &m));
    tr_config_init(c);
    assert_ok(tr_config_parse_text(c, words));
    assert_ok(tr_plan_make(c, &m, p));
}

static void release(struct tr_config *c, struct tr_plan *p)
{
    tr_plan_release(p);
    tr_config_release(c);
}

/* The options of the change given besides. */
static void by_itself(const char *words, const struct tr_plan *p, const struct tr_plan_change *x)
{
    char *text = tr_format("%s %s", words, x->options);
    struct tr_config c;
    struct tr_plan alone;

    print_message("# %s\n", x->options);
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, text));
    assert_ok(tr_plan_alone(&c, &p->machine, &alone));
    assert_true(alone.stage[alone.worst].memory.total <= TR_PLAN_TIGHT * p->change_bytes);
    assert_true(alone.stage[alone.worst].memory.total == x->bytes);
    assert_true(fabs(alone.time.total - x->seconds) <= 1e-12 * x->seconds);
    assert_int_equal(alone.shape.layout.world, p->shape.layout.world);
    assert_int_equal(alone.shape.batches.global_batch, p->shape.batches.global_batch);
    tr_plan_release(&alone);
    tr_config_release(&c);
    free(text);
}

static void all_by_themselves(const char *words, const struct tr_plan *p)
{
    assert_true(p->changes > 0);
    for (int i = 0; i < p->changes; i++) {
        by_itself(words, p, &p->change[i]);
        assert_true(i == 0 || p->change[i].seconds >= p->change[i - 1].seconds);
    }
}

static void each_fits(void **state)
{
    static const struct {
        const char *words, *machine;
    } rows[] = {
        {GPT2_XL "--world-size 16 --micro-batch-size 4 --global-batch-size 512",
         "jean-zay-v100-16g"},
        /* The batch is kept, however it was given. */
        {GPT2_XL "--world-size 16 --micro-batch-size 4", "jean-zay-v100-16g"},
        {GPT2_XL "--world-size 16 --micro-batch-size 4 --gradient-accumulation-steps 3",
         "jean-zay-v100-16g"},
        {GPT2_XL "--world-size 8 --tensor-model-parallel-size 2 --micro-batch-size 16 "
                 "--checkpoint-activations --num-attention-heads 20",
         "jean-zay-v100-16g"},
        {GPT_30B "--world-size 64 --micro-batch-size 1 --global-batch-size 512", "jean-zay-a100"},
        {GPT_30B "--world-size 64 --micro-batch-size 4 --global-batch-size 512 "
                 "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
         "jean-zay-a100"},
        {GPT_30B "--world-size 16 --micro-batch-size 16 --global-batch-size 512 "
                 "--tensor-model-parallel-size 4 --use-distributed-optimizer",
         "jean-zay-a100"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tr_config c;
        struct tr_plan p;

        print_message("# of %s\n", rows[i].words);
        plan_of(rows[i].words, rows[i].machine, &c, &p);
        assert_int_equal(p.ours, TR_PLAN_TOO_MUCH);
        all_by_themselves(rows[i].words, &p);
        release(&c, &p);
    }
}

static bool has(const struct tr_plan_change *x, const char *option)
{
    return strstr(x->options, option) != NULL;
}

/* The states of 1.56 billion parameters are 16 bytes each and more: 25 GB.  On cards of 16 GB they have to be
   divided, whatever becomes of activations. */
static void states_are_too_much(void **state)
{
    struct tr_config c;
    struct tr_plan p;
    bool zero = false;

    (void)state;
    plan_of(GPT2_XL "--world-size 16 --micro-batch-size 1 --global-batch-size 512",
            "jean-zay-v100-16g", &c, &p);
    assert_true(p.changes > 0);
    for (int i = 0; i < p.changes; i++) {
        assert_true(has(&p.change[i], "--zero-stage") ||
                    has(&p.change[i], "--optimizer-cpu-offload") ||
                    has(&p.change[i], "--tensor-model-parallel-size") ||
                    has(&p.change[i], "--pipeline-model-parallel-size"));
        zero = zero || has(&p.change[i], "--zero-stage");
    }
    assert_true(zero);
    /* With 16 replicas ZeRO of stage 1 leaves 4 + 12/16 bytes and more: it is enough, and cheapest of the stages. */
    assert_int_equal(p.change[0].parts, 1);
    release(&c, &p);
}

/* On one GPU there is nothing to divide over: 32 GB hold the states of 1.56 billion parameters, and not 16 samples. */
static void activations_are_too_much(void **state)
{
    struct tr_config c;
    struct tr_plan p;
    bool smaller = false, again = false;

    (void)state;
    plan_of(GPT2_XL "--world-size 1 --micro-batch-size 16", "jean-zay-v100-32g", &c, &p);
    assert_int_equal(p.ours, TR_PLAN_TOO_MUCH);
    assert_true(p.changes > 0);
    for (int i = 0; i < p.changes; i++) {
        assert_false(has(&p.change[i], "--zero-stage") || has(&p.change[i], "parallel-size"));
        smaller = smaller || has(&p.change[i], "--micro-batch-size");
        again = again || has(&p.change[i], "--recompute-granularity full");
    }
    assert_true(smaller || again);
    release(&c, &p);
}

/* 30 billion parameters are 480 GB of states: on one card of 80 GB nothing helps. */
static void nothing_helps(void **state)
{
    struct tr_config c;
    struct tr_plan p;

    (void)state;
    plan_of(GPT_30B "--world-size 1 --micro-batch-size 1", "jean-zay-a100", &c, &p);
    assert_int_equal(p.ours, TR_PLAN_TOO_MUCH);
    assert_true(p.change_bytes > 0.0);
    assert_int_equal(p.changes, 0);
    assert_fails(TR_ERESOURCE, "take more of them (--world-size)", tr_plan_fits(&p));
    release(&c, &p);
}

/* Where it fits nobody looks, until somebody asks for less. */
static void on_request(void **state)
{
    static const char words[] = GPT2_XL "--world-size 16 --micro-batch-size 4 --zero-stage 2 "
                                        "--global-batch-size 512 --checkpoint-activations";
    struct tr_config c;
    struct tr_plan p;

    (void)state;
    plan_of(words, "jean-zay-v100-32g", &c, &p);
    assert_int_equal(p.ours, TR_PLAN_FITS);
    assert_true(p.change_bytes == 0.0 && p.changes == 0);
    tr_plan_changes_of(&p, 0.8 * p.stage[p.worst].memory.total);
    all_by_themselves(words, &p);
    release(&c, &p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fits),
        cmocka_unit_test(states_are_too_much),
        cmocka_unit_test(activations_are_too_much),
        cmocka_unit_test(nothing_helps),
        cmocka_unit_test(on_request),
    };

    return run_tap(tests);
}
