/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/parsed.h"
#include "data/folder.h"
#include "util/file.h"

/* What people type wrong, and what they mean; NULL where any offer would mislead. */
static void suggestions(void **state)
{
    static const struct {
        const char *typed, *meant;
    } cases[] = {
        {"num-layer", "num-layers"},
        {"mirco-batch-size", "micro-batch-size"},
        {"micro_batch_size", "micro-batch-size"},
        {"global-batchsize", "global-batch-size"},
        {"hidden-sise", "hidden-size"},
        {"attention-heads", "num-attention-heads"},
        {"tensor-parallel", "tensor-model-parallel-size"},
        {"tensor-paralel-size", "tensor-model-parallel-size"},
        {"pipeline-model-parallel", "pipeline-model-parallel-size"},
        {"virtual-stages-per-pipeline-rank", "num-virtual-stages-per-pipeline-rank"},
        {"sequence-paralell", "sequence-parallel"},
        {"lr-decay-iter", "lr-decay-iters"},
        {"weigth-decay", "weight-decay"},
        {"adam-beta-1", "adam-beta1"},
        {"clip-gradient", "clip-grad"},
        {"train-iter", "train-iters"},
        {"fp-16", "fp16"},
        {"checkpoint-activation", "checkpoint-activations"},
        {"distributed-optimizer", "use-distributed-optimizer"},
        {"log-intervall", "log-interval"},
        {"data-paths", "data-path"},
        {"fp8-fromat", NULL},
        {"zero-stages", "zero-stage"},
        {"tpp", NULL},
        {"flash-attention", NULL},
        {"moe-experts", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = tr_format("--%s 1", cases[i].typed),
             *offer = tr_format("; did you mean --%s?", cases[i].meant ? cases[i].meant : "");

        assert_int_equal(parse(text), TR_ECONFIG);
        if (cases[i].meant && !strstr(tr_last_error(), offer))
            fail_msg("%s", tr_last_error());
        if (!cases[i].meant && strstr(tr_last_error(), "did you mean"))
            fail_msg("%s", tr_last_error());
        free(text);
        free(offer);
    }
}

/* The names in which values and verbs are looked for: too far is no offer. */
static void nearest(void **state)
{
    static const char *const names[] = {"NullTokenizer", "gpt2-bpe", "cosine", "log-format"};

    (void)state;
    assert_null(tr_nearest_name("Llama2Tokenizer", names, 4));
    assert_null(tr_nearest_name("fp8-format", names, 4));
    assert_null(tr_nearest_name("", names, 4));
    assert_string_equal(tr_nearest_name("cosin", names, 4), "cosine");
    assert_string_equal(tr_nearest_name("jsn", (const char *const[]){"son", "json"}, 2), "json");
    assert_null(tr_nearest_name("tpp", (const char *const[]){"tp", "top"}, 2));
    assert_string_equal(tr_nearest_name("ocsine", names, 4), "cosine");
    assert_string_equal(tr_nearest_name("gpt2_bpe", names, 4), "gpt2-bpe");
    assert_null(tr_nearest_name(
        "a-name-of-more-than-sixty-three-letters-that-is-compared-with-none-x", names, 4));
}

static void synonyms(void **state)
{
    (void)state;
    assert_ok(parse("--tp 2 --pp 3 --mbs 4 --gbs 5 --seq-len 6 --learning-rate 7"));
    assert_true(c.tensor_model_parallel_size == 2 && c.pipeline_model_parallel_size == 3);
    assert_true(c.micro_batch_size == 4 && c.global_batch_size == 5 && c.seq_length == 6);
    assert_true(c.lr == 7.0);
    assert_ok(parse("--tensor-parallel-size 4 --pipeline-parallel-size 5"));
    assert_true(c.tensor_model_parallel_size == 4 && c.pipeline_model_parallel_size == 5);
    assert_fails(TR_ECONFIG, "--dp: there are as many replicas", parse("--dp 2"));
}

/* What the log receives while `text` is parsed, which fails; owned by the caller. */
static char *complaints(const char *text)
{
    char *dir = folder_make(), *path = tr_format("%s/log", dir), *said;
    int kept = dup(STDERR_FILENO);

    assert_non_null(freopen(path, "w", stderr));
    assert_int_equal(parse(text), TR_ECONFIG);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_ok(tr_file_text(path, 1 << 16, &said));
    free(path);
    folder_remove(dir);
    return said;
}

/* Each of several wrong options has its line, and what is right counts nevertheless. */
static void all_at_once(void **state)
{
    char *said =
        complaints("--num-layer 3 --seed 7 --quick-geglu x y --hidden-size wide --lr --bogus=1 2 "
                   "--softmax-type learnable -v 3 --threads 5");

    (void)state;
    assert_string_equal(tr_last_error(), "7 options will not do, see above; nothing was started");
    assert_non_null(strstr(said, "--num-layer: there is no such option; did you mean"));
    assert_non_null(strstr(said, "\ntrireme: error: --quick-geglu: "));
    assert_non_null(strstr(said, "\ntrireme: error: --hidden-size: 'wide' will not do"));
    assert_non_null(strstr(said, "\ntrireme: error: --lr needs a value"));
    assert_non_null(strstr(said, "\ntrireme: error: --bogus: there is no such option"));
    assert_non_null(strstr(said, "\ntrireme: error: --softmax-type learnable: "));
    assert_non_null(strstr(said, "\ntrireme: error: '-v' belongs to no option"));
    assert_null(strstr(said, "'y'"));
    assert_true(c.seed == 7 && c.threads == 5);
    free(said);
    said = complaints("--num-layer 3");
    assert_string_equal(said, "");
    assert_non_null(strstr(tr_last_error(), "did you mean --num-layers?"));
    free(said);
}

/* Values that say what is done anyway. */
static void given(void **state)
{
    (void)state;
    assert_ok(parse("--softmax-type vanilla --rotary-seq-len-interpolation-factor 1 --seed 2"));
    assert_int_equal(c.seed, 2);
    assert_ok(parse("--context-parallel-size=1 --transformer-impl local"));
    assert_fails(TR_ECONFIG, "--context-parallel-size 2: ", parse("--context-parallel-size 2"));
    assert_fails(TR_ECONFIG, "--softmax-type needs a value: vanilla", parse("--softmax-type"));
    assert_true(tr_value_given("a|b", "b") && tr_value_given("a|b", "a"));
    assert_false(tr_value_given("a|b", "a|b"));
    assert_false(tr_value_given("ab", "a") || tr_value_given("a", "ab"));
    assert_true(tr_value_given("1", "1.0") && tr_value_given("1e4|x", "10000"));
    assert_false(tr_value_given("1", "") || tr_value_given("1", "1x"));
    assert_false(tr_value_given("1x", "1"));
}

/* Options that change nothing here take as many words as they do for others: the next option is read.
   What would change the model or its numbers is refused. */
static void ignored(void **state)
{
    static const char *const accepted[] = {
        "--ckpt-format torch_dist",
        "--ckpt-format zarr --async-save",
        "--dist-ckpt-format torch",
        "--log-straggler",
        "--fp8-margin 0 --fp8-interval 1 --fp8-amax-history-len 1024 --fp8-amax-compute-algo max",
        "--fp8-param-gather --fp8-recipe delayed --first-last-layers-bf16",
        "--num-layers-at-start-in-bf16 1 --num-layers-at-end-in-bf16 1 --no-fp8-wgrad",
        "--fused-single-qkv-rope --rope-type rope",
        "--mrope-section 16 24 24",
        "--tiktoken-pattern v2 --trust-remote-code",
        "--use-precision-aware-optimizer --exp-avg-dtype fp32",
        "--muon-momentum 0.9 --sgd-momentum 0.9",
    };
    static const char *const refused[] = {
        "--fp8-format hybrid",
        "--fp8-hybrid",
        "--position-embedding-type yarn",
        "--tokenizer-metadata a.json",
        "--exp-avg-dtype fp8",
        "--grad-reduce-in-bf16",
        "--optimizer muon",
        "--decoupled-lr 1e-4",
        "--ckpt-convert-format torch",
    };

    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        char *text = tr_format("%s --seed %zu", accepted[i], i + 2);

        assert_ok(parse(text));
        assert_int_equal(c.seed, i + 2);
        free(text);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(parse(refused[i]), TR_ECONFIG);
}

static void groups(void **state)
{
    const struct tr_options *t = tr_config_options();

    (void)state;
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].kind != TR_ROW_GROUP)
            continue;
        assert_string_equal(tr_options_group(t, t->row[i].name), t->row[i].group);
        assert_string_equal(tr_options_group(t, t->row[i].group), t->row[i].group);
    }
    assert_string_equal(tr_options_group(t, "optimizer"), "OPTIMIZER");
    assert_string_equal(tr_options_group(t, "opt"), "OPTIMIZER");
    assert_string_equal(tr_options_group(t, "learning rate"), "RATE");
    assert_string_equal(tr_options_group(t, "recomp"), "PRECISION");
    assert_null(tr_options_group(t, "p"));
    assert_non_null(strstr(tr_last_error(), "the beginning of more than one group"));
    assert_null(tr_options_group(t, "zzz"));
    assert_non_null(strstr(tr_last_error(), "Optimizer"));
    assert_null(tr_options_group(t, ""));
}

/* One option's page; owned by the caller. */
static char *about(const char *name)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    assert_ok(tr_options_about(tr_config_options(), f, name));
    fclose(f);
    return text;
}

static void holds(const char *name, const char *part)
{
    char *text = about(name);

    if (!strstr(text, part))
        fail_msg("--%s: no '%s' in\n%s", name, part, text);
    free(text);
}

static void pages(void **state)
{
    const struct tr_options *t = tr_config_options();

    (void)state;
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].kind != TR_ROW_GROUP)
            holds(t->row[i].name, t->row[i].name);
    }
    holds("--micro-batch-size", "a whole number from 1 to 2147483647\n");
    holds("micro-batch-size", "it must be given\n");
    holds("tp", "--tp is --tensor-model-parallel-size\n");
    holds("tensor-model-parallel-size", "other names: --tensor-parallel-size, --tp-size, --tp\n");
    holds("tensor-model-parallel-size", "group: Parallelism\n");
    holds("tensor-model-parallel-size", "default: 1\n");
    holds("hidden-dropout", "a number from 0 to below 1\n");
    holds("overlap-grad-reduce", "off: --no-overlap-grad-reduce\n");
    holds("lr-decay-style", "one of: constant linear cosine inverse-square-root WSD\n");
    holds("optimizer", "not sgd: ");
    holds("quick-geglu", "refused: ");
    holds("num-workers", "accepted without effect: ");
    holds("softmax-type", "accepted with vanilla");
    holds("model-family", "\n      llama3         Llama 3: 8 key-value groups");
    holds("layernorm-epsilon", "--layernorm-epsilon is --norm-epsilon\n");
    holds("activation", "one of: family none gelu-tanh gelu relu squared-relu silu swiglu");
    assert_fails(TR_ECONFIG, "did you mean --seed?", tr_options_about(t, stdout, "sede"));
}

/* Every name of a file of names is a row; returns how many those are. */
static int all_known(const char *file)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/config/%s", srcdir ? srcdir : ".", file), *text, *at = NULL;
    int n = 0, unknown = 0;

    assert_ok(tr_file_text(path, 1 << 20, &text));
    for (char *name = strtok_r(text, "\n", &at); name; name = strtok_r(NULL, "\n", &at)) {
        if (*name == '#')
            continue;
        n++;
        if (!tr_options_row(tr_config_options(), name)) {
            print_error("%s: --%s is unknown\n", file, name);
            unknown++;
        }
    }
    assert_int_equal(unknown, 0);
    free(text);
    free(path);
    return n;
}

/* A script of Megatron-LM, of any year, or of Megatron-DeepSpeed meets no option that is
   unknown. */
static void others_names(void **state)
{
    (void)state;
    assert_true(all_known("megatron-lm.names") > 700);
    assert_true(all_known("megatron-deepspeed.names") > 100);
}

/* The reasons are sentences of their own: something is said, and it is not the name. */
static void reasons(void **state)
{
    const struct tr_options *t = tr_config_options();

    (void)state;
    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (o->kind != TR_ROW_IGNORED && o->kind != TR_ROW_GIVEN && o->kind != TR_ROW_REFUSED)
            continue;
        if (strlen(o->help) < 10 || o->help[strlen(o->help) - 1] == '.' || strstr(o->help, "  "))
            fail_msg("--%s: %s", o->name, o->help);
    }
}

/* Names of others are not offered to who types: completion, help and manual stay as long as they
   are. */
static void not_offered(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    (void)state;
    assert_non_null(f);
    assert_ok(tr_config_help(f, NULL));
    tr_options_man(tr_config_options(), f);
    tr_options_complete(tr_config_options(), NULL, f);
    fclose(f);
    assert_null(strstr(text, "moe-router"));
    assert_null(strstr(text, "moe\\-router"));
    assert_null(strstr(text, "wandb"));
    assert_non_null(strstr(text, "options of other programs are accepted"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(suggestions, start, end),
        cmocka_unit_test(nearest),
        cmocka_unit_test_setup_teardown(synonyms, start, end),
        cmocka_unit_test_setup_teardown(all_at_once, start, end),
        cmocka_unit_test_setup_teardown(given, start, end),
        cmocka_unit_test_setup_teardown(ignored, start, end),
        cmocka_unit_test(groups),
        cmocka_unit_test(pages),
        cmocka_unit_test(others_names),
        cmocka_unit_test(reasons),
        cmocka_unit_test(not_offered),
    };
    return run_tap(tests);
}
