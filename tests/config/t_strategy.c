/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of Lightning's strategies: what they shard, what they refuse, and how they agree with other options. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/shape.h"
#include "config/strategy.h"
#include "config/words.h"
#include "util/file.h"

static const char small[] = "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 "
                            "--max-position-embeddings 8 --vocab-size 32 --micro-batch-size 1 "
                            "--train-iters 1 --lr 1 --mock-data ";

static enum tr_status parse(struct tr_config *c, const char *words)
{
    char *text = tr_format("%s%s", small, words);
    enum tr_status s;

    tr_config_release(c);
    tr_config_init(c);
    s = tr_config_parse_text(c, text);
    free(text);
    return s;
}

/* Over how many of four replicas each name shards optimizer states, gradients and weights: Lightning's manual. */
static void shards(void **state)
{
    static const struct {
        const char *name;
        int optimizer, gradients, weights;
    } rows[] = {
        {"ddp", 1, 1, 1},
        {"ddp_spawn", 1, 1, 1},
        {"ddp_sharded", 4, 4, 1},
        {"ddp_fully_sharded", 4, 4, 4},
        {"fsdp", 4, 4, 4},
        {"deepspeed", 4, 4, 1},
        {"deepspeed_stage_1", 4, 1, 1},
        {"deepspeed_stage_2", 4, 4, 1},
        {"deepspeed_stage_3", 4, 4, 4},
        {"DEEPSPEED_STAGE_3", 4, 4, 4},
    };
    struct tr_config c;
    struct tr_shape s;

    (void)state;
    tr_config_init(&c);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *words = tr_format("--strategy%s%s", i % 2 ? "=" : " ", rows[i].name);

        assert_ok(parse(&c, words));
        assert_string_equal(c.strategy, rows[i].name);
        assert_ok(tr_shape_of(&c, 4, &s));
        assert_int_equal(s.dp.optimizer_shards, rows[i].optimizer);
        assert_int_equal(s.dp.gradient_shards, rows[i].gradients);
        assert_int_equal(s.dp.weight_shards, rows[i].weights);
        free(words);
    }
    tr_config_release(&c);
}

/* Each name of the list is one that can be given, unless its options do not exist. */
static void all_names(void **state)
{
    struct tr_config c;
    const char *name, *about;
    int count = 0;

    (void)state;
    tr_config_init(&c);
    for (; tr_strategy_listed(count, &name, &about); count++) {
        char *words = tr_format("--strategy %s", name), *text = tr_strategy_text(name);
        const enum tr_status s = parse(&c, words);

        if (strstr(text, "--offload-param") &&
            !tr_options_find(tr_config_options(), "offload-param"))
            assert_fails(TR_ECONFIG, "there is no --offload-", s);
        else if (strstr(text, "--offload-optimizer") &&
                 !tr_options_find(tr_config_options(), "offload-optimizer"))
            assert_fails(TR_ECONFIG, "there is no --offload-optimizer: give --strategy deepspeed_",
                         s);
        else
            assert_ok(s);
        free(text);
        free(words);
    }
    assert_true(count >= 17);
    tr_config_release(&c);
}

static void refused(void **state)
{
    struct tr_config c;

    (void)state;
    tr_config_init(&c);
    assert_fails(TR_ECONFIG, "a rank for each GPU", parse(&c, "--strategy dp"));
    assert_fails(TR_ECONFIG, "--deepspeed_config FILE", parse(&c, "--strategy CUSTOM"));
    assert_fails(TR_ECONFIG, "did you mean deepspeed_stage_2?",
                 parse(&c, "--strategy deepspeed_stage2"));
    assert_fails(TR_ECONFIG, "is no strategy of Lightning: `trireme",
                 parse(&c, "--strategy hivemind"));
    tr_config_release(&c);
}

static void beside_options(void **state)
{
    struct tr_config c;

    (void)state;
    tr_config_init(&c);
    assert_ok(parse(&c, "--zero-stage 2 --strategy deepspeed_stage_2 --strategy ddp_sharded"));
    assert_int_equal(c.zero_stage, 2);
    assert_fails(TR_ECONFIG, "--zero-stage is 1, and 2 (--strategy deepspeed_stage_2)",
                 parse(&c, "--strategy deepspeed_stage_2 --zero-stage 1"));
    assert_fails(TR_ECONFIG, "--zero-stage is 3, and 0 (--strategy ddp)",
                 parse(&c, "--zero-stage=3 --strategy ddp"));
    assert_fails(TR_ECONFIG, "--zero-stage is 3 (--strategy fsdp), and 2 (--strategy ddp_sharded)",
                 parse(&c, "--strategy ddp_sharded --strategy fsdp"));
    tr_config_release(&c);
}

/* For a sweep, whose runs may say something else behind it. */
static void settled(void **state)
{
    struct tr_args a = {0};

    (void)state;
    assert_ok(tr_args_text(&a, "--seed 1 --strategy fsdp --strategy=fsdp --lr 2"));
    assert_int_equal(a.count, 9);
    tr_args_settle(&a);
    assert_int_equal(a.count, 6);
    assert_string_equal(a.list[2].text, "--zero-stage=3");
    assert_string_equal(a.list[3].text, "--zero-stage=3");
    assert_string_equal(a.list[4].text, "--lr");
    assert_false(a.list[2].firm);
    tr_args_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards),         cmocka_unit_test(all_names), cmocka_unit_test(refused),
        cmocka_unit_test(beside_options), cmocka_unit_test(settled),
    };

    return run_tap(tests);
}
