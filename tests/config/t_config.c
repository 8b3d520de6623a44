/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/parsed.h"
#include "data/folder.h"
#include "device/device.h"
#include "pipeline/sched.h"
#include "util/file.h"
#include "util/log.h"
#include "telemetry/timer.h"

/* The defaults of Megatron-LM in May 2021, from its arguments.py. */
static void defaults(void **state)
{
    (void)state;
    assert_ok(parse(""));
    assert_int_equal(c.seed, 1234);
    assert_int_equal(c.make_vocab_size_divisible_by, 128);
    assert_true(c.log_interval == TR_UNSET_INT);
    assert_int_equal(c.eval_interval, 1000);
    assert_int_equal(c.eval_iters, 100);
    assert_int_equal(c.lr_decay_style, TR_LR_LINEAR);
    assert_true(c.min_lr == 0.0 && c.weight_decay == 0.01 && c.clip_grad == 1.0);
    assert_true(c.adam_beta1 == 0.9 && c.adam_beta2 == 0.999 && c.adam_eps == 1e-8);
    assert_true(c.init_method_std == 0.02);
    assert_string_equal(c.split, "969, 30, 1");
    assert_int_equal(c.tensor_model_parallel_size, 1);
    assert_int_equal(c.num_layers, TR_UNSET_INT);
    assert_true(c.lr == TR_UNSET_REAL);
    assert_null(c.save);
    assert_int_equal(c.data_path.count, 0);
    assert_true(c.overlap_grad_reduce);
    assert_string_equal(tr_config_missing(&c), "num-layers");
}

static void values(void **state)
{
    (void)state;
    assert_ok(parse("--num-layers 7 --lr=1e-2 --data-path 0.3 'a b' 0.7 c --no-overlap-grad-reduce "
                    "--memory-plan --lr -0 --split 1,1,1"));
    assert_int_equal(c.num_layers, 7);
    assert_true(c.lr == 0.0);
    assert_int_equal(c.data_path.count, 4);
    assert_string_equal(c.data_path.word[1], "a b");
    assert_string_equal(c.data_path.word[3], "c");
    assert_false(c.overlap_grad_reduce);
    assert_true(c.memory_plan);
    assert_string_equal(c.split, "1,1,1");

    assert_ok(tr_config_parse_text(&c, "--data-path d --overlap-grad-reduce --norm-epsilon .5"));
    assert_int_equal(c.data_path.count, 1);
    assert_true(c.overlap_grad_reduce);
    assert_true(c.norm_epsilon == 0.5);
    assert_ok(tr_config_set(&c, "data-path", "1 'x y'"));
    assert_int_equal(c.data_path.count, 2);
    assert_string_equal(c.data_path.word[1], "x y");
    assert_ok(tr_config_set(&c, "memory-plan", "off"));
    assert_false(c.memory_plan);
}

/* Options of each type away from their defaults, and back, with the default typed another way. */
static void changed(void **state)
{
    static const struct {
        const char *name, *other, *initial;
    } option[] = {
        {"eval-iters", "99", "+100"},
        {"topk-ratio", "0.25", "5e-1"},
        {"distributed-timeout-minutes", "10s", "600s"},
        {"overlap-round", "off", "on"},
        {"random-method", "random_w_replacement", "random_rolling"},
        {"split", "1,1,1", "969, 30, 1"},
        {"num-layers", "1", NULL},
        {"loss-scale", "1", NULL},
        {"save", "None", NULL},
        {"data-path", "a b", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof option / sizeof *option; i++) {
        assert_false(tr_config_changed(&c, option[i].name));
        assert_ok(tr_config_set(&c, option[i].name, option[i].other));
        for (size_t k = 0; k < sizeof option / sizeof *option; k++)
            assert_int_equal(tr_config_changed(&c, option[k].name), i == k);
        assert_ok(tr_config_set(&c, option[i].name, option[i].initial));
        assert_false(tr_config_changed(&c, option[i].name));
    }
}

static void choices(void **state)
{
    (void)state;
    assert_ok(parse("--tokenizer-type GPT2BPETokenizer --distributed-backend nccl"));
    assert_int_equal(c.tokenizer_type, TR_TOKENIZER_GPT2_BPE);
    assert_int_equal(c.distributed_backend, TR_DIST_NCCL);
    assert_string_equal(tr_config_spelling("backend", TR_BACKEND_REF), "ref");
    assert_null(tr_config_spelling("seed", 0));
    assert_fails(TR_ECONFIG,
                 "'cosin' is none of constant, linear, cosine, inverse-square-root, WSD; did you "
                 "mean cosine?",
                 parse("--lr-decay-style cosin"));
    assert_fails(TR_ECONFIG, "--data-impl lazy: that format is from before 2020",
                 parse("--data-impl lazy"));
    assert_fails(TR_ECONFIG,
                 "--attention-backend unfused: scores of a whole batch are never stored",
                 parse("--attention-backend unfused"));
    /* Numbers that are also those of enums in folders that config does not know. */
    assert_int_equal((int)TR_PIPE_GPIPE, (int)TR_SCHED_GPIPE);
    assert_int_equal((int)TR_PIPE_1F1B, (int)TR_SCHED_1F1B);
    assert_int_equal((int)TR_PIPE_INTERLEAVED, (int)TR_SCHED_INTERLEAVED);
    assert_int_equal((int)TR_PIPE_ZB_H1, (int)TR_SCHED_ZB_H1);
    assert_int_equal((int)TR_PIPE_ZB_V, (int)TR_SCHED_ZB_V);
    assert_int_equal((int)TR_ATTN_AUTO, (int)TR_ATTENTION_AUTO);
    assert_int_equal((int)TR_ATTN_FLASH, (int)TR_ATTENTION_FLASH);
    assert_int_equal((int)TR_ATTN_FUSED, (int)TR_ATTENTION_FUSED);
    assert_int_equal((int)TR_TIMING_MAX, (int)TR_TIMER_MAX);
    assert_int_equal((int)TR_TIMING_MINMAX, (int)TR_TIMER_MINMAX);
    assert_int_equal((int)TR_TIMING_ALL, (int)TR_TIMER_ALL);
    assert_int_equal((int)TR_LEVEL_ERROR, (int)TR_LOG_ERROR);
    assert_int_equal((int)TR_LEVEL_WARNING, (int)TR_LOG_WARNING);
    assert_int_equal((int)TR_LEVEL_INFO, (int)TR_LOG_INFO);
    assert_int_equal((int)TR_LEVEL_DEBUG, (int)TR_LOG_DEBUG);
}

/* Each sentence names the option, the value and what would do. */
static void bad_values(void **state)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"--num-layers 0",
         "--num-layers: '0' will not do: give a whole number from 1 to 2147483647"},
        {"--num-layers 1.5", "'1.5' will not do"},
        {"--num-layers 1e3", "'1e3' will not do"},
        {"--num-layers 99999999999999999999", "will not do"},
        {"--num-layers ''", "'' will not do"},
        {"--seed 4294967296", "from 0 to 4294967295"},
        {"--lr -1", "--lr: '-1' will not do: give a number of at least 0"},
        {"--lr nan", "'nan' will not do"},
        {"--lr 0x1p3", "'0x1p3' will not do"},
        {"--lr 1e999", "'1e999' will not do"},
        {"--lr 1,5", "'1,5' will not do"},
        {"--hidden-dropout 1", "from 0 to below 1"},
        {"--lr-warmup-fraction 1.01", "from 0 to 1"},
        {"--adam-eps 0", "above 0"},
        {"--lr", "--lr needs a value: maximum learning rate"},
        {"--lr --seed 3", "--lr needs a value"},
        {"--slow-rate", "--slow-rate needs a value: bandwidth of each rank's link"},
        {"--loss-scale -1", "--loss-scale: '-1' will not do: give a number of at least 0"},
        {"--data-path --seed 3", "--data-path needs a value"},
        {"--memory-plan=on", "--memory-plan takes no value"},
        {"--no-overlap-grad-reduce=1", "takes no value"},
        {"--memory-plan on", "'on' belongs to no option"},
        {"-v", "'-v' belongs to no option"},
        {"--num-workers", "--num-workers takes 1 value"},
        {"--mmap-warmup=3", "--mmap-warmup takes 0 values"},
        {"--split 'a", "line 1: this quote is never closed"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(TR_ECONFIG, cases[i].sentence, parse(cases[i].text));
}

static void unknown_names(void **state)
{
    (void)state;
    assert_fails(TR_ECONFIG, "--num-layer: there is no such option; did you mean --num-layers?",
                 parse("--num-layer 3"));
    assert_fails(TR_ECONFIG, "did you mean --micro-batch-size?", parse("--mirco_batch_size 3"));
    /* An abbreviation is no option, but the name that it begins is the one meant. */
    assert_fails(TR_ECONFIG, "did you mean --tensor-model-parallel-size?", parse("--tensor 3"));
    assert_fails(TR_ECONFIG, "`trireme help train` lists them", parse("--quetzalcoatl"));
    assert_fails(TR_ECONFIG, "no such option", parse("--Model"));
    assert_fails(
        TR_ECONFIG, "no such option",
        parse("--a-name-that-is-much-longer-than-any-name-of-any-option-in-the-whole-table"));
}

static void known_but_not_here(void **state)
{
    (void)state;
    assert_fails(TR_ECONFIG, "--num-experts: mixture of experts is not supported",
                 parse("--num-experts 8"));
    assert_ok(parse("--num-workers 2 --DDP-impl local --local_rank=0 --mmap-warmup --seed 5"));
    assert_int_equal(c.seed, 5);
    for (int i = 0; i < tr_config_options()->rows; i++) {
        const struct tr_opt *o = &tr_config_options()->row[i];
        char *text = tr_format("--seed 6 --%s %s --threads 7", o->name, o->values > 0 ? "x" : "");

        if (o->kind == TR_ROW_REFUSED)
            assert_fails(TR_ECONFIG, o->help, parse(text));
        if (o->kind == TR_ROW_GIVEN) {
            char *other = tr_format("--%s no-such-value", o->name),
                 *same = tr_format("--seed 6 --%s %.*s --threads 7", o->name,
                                   (int)strcspn(o->initial, "|"), o->initial);

            assert_fails(TR_ECONFIG, o->help, parse(other));
            assert_ok(parse(same));
            assert_true(c.seed == 6 && c.threads == 7);
            free(other);
            free(same);
        }
        if (o->kind == TR_ROW_IGNORED) {
            assert_ok(parse(text));
            assert_true(c.seed == 6 && c.threads == 7);
        }
        free(text);
    }
}

static char *write_file(const char *dir, const char *name, const char *text)
{
    char *path = tr_format("%s/%s", dir, name);

    file_put(path, text, strlen(text));
    return path;
}

static void argument_files(void **state)
{
    char *dir = folder_make(), *path[4], *word, option[] = "--seed", six[] = "6";

    (void)state;
    path[0] = write_file(dir, "gpt.args",
                         "# a model\n--num-layers 2 --hidden-size 64  # two on a line\n"
                         "@data.args\n--lr 0.00015 \\\n  --seed 7\n");
    path[1] = write_file(dir, "data.args", "--data-path 'p q' r#s \"t # u\"\n\n");
    path[2] = write_file(dir, "loop.args", "@loop.args\n");
    path[3] = write_file(dir, "bad.args", "\n# x\n--seed\n  minus\n");

    assert_ok(parse(""));
    word = tr_format("@%s", path[0]);
    assert_ok(tr_config_parse(&c, 3, (char *[]){option, six, word}));
    free(word);
    assert_int_equal(c.num_layers, 2);
    assert_int_equal(c.hidden_size, 64);
    assert_int_equal(c.seed, 7);
    assert_true(c.lr == 0.00015);
    assert_int_equal(c.data_path.count, 3);
    assert_string_equal(c.data_path.word[0], "p q");
    assert_string_equal(c.data_path.word[1], "r#s");
    assert_string_equal(c.data_path.word[2], "t # u");

    word = tr_format("@%s", path[2]);
    assert_fails(TR_ECONFIG, "nested more than 8 deep", tr_config_parse(&c, 1, &word));
    free(word);
    word = tr_format("@%s", path[3]);
    assert_fails(TR_ECONFIG, "bad.args, line 3)", tr_config_parse(&c, 1, &word));
    free(word);
    word = tr_format("@%s/none.args", dir);
    assert_fails(TR_EIO, "none.args", tr_config_parse(&c, 1, &word));
    free(word);
    for (int i = 0; i < 4; i++)
        free(path[i]);
    folder_remove(dir);
}

static void json(void **state)
{
    struct tr_config d;
    char *text, *again;

    (void)state;
    assert_ok(parse("--lr 0.1 --num-layers 3 --data-path 'a \"b' c --save 'x\\\\y' "
                    "--lr-decay-style cosine --no-overlap-grad-reduce --seed 5"));
    text = tr_config_get_json(&c, NULL);
    assert_non_null(strstr(text, "\"lr\": 0.1,"));
    assert_non_null(strstr(text, "\"load\": null,"));
    assert_non_null(strstr(text, "\"lr_decay_style\": \"cosine\","));
    tr_config_init(&d);
    assert_ok(tr_config_load_json(&d, text));
    again = tr_config_get_json(&d, NULL);
    assert_string_equal(text, again);
    assert_string_equal(d.data_path.word[0], "a \"b");
    assert_null(tr_config_kernels(text));
    free(text);
    free(again);
    text = tr_config_get_json(&c, "loops \"by\" hand");
    again = tr_config_kernels(text);
    assert_string_equal(again, "loops \"by\" hand");
    assert_ok(tr_config_load_model(&d, text));
    free(text);
    free(again);

    assert_ok(tr_config_load_json(&d, "{\"seed\": 9, \"save\": null, \"data_path\": []}"));
    assert_int_equal(d.seed, 9);
    assert_null(d.save);
    assert_int_equal(d.data_path.count, 0);
    assert_int_equal(d.num_layers, 3);
    assert_fails(TR_EDATA, "not a JSON object", tr_config_load_json(&d, "[1]"));
    assert_fails(TR_EDATA, "not a JSON object", tr_config_load_json(&d, "{"));
    assert_fails(TR_EDATA, "option sead is unknown", tr_config_load_json(&d, "{\"sead\": 1}"));
    assert_fails(TR_EDATA, "seed has a value of the wrong kind",
                 tr_config_load_json(&d, "{\"seed\": \"1\"}"));
    assert_fails(TR_EDATA, "data-path has a value of the wrong kind",
                 tr_config_load_json(&d, "{\"data_path\": [1]}"));
    assert_int_equal(tr_config_load_json(&d, "{\"seed\": -1}"), TR_EDATA);
    tr_config_release(&d);
}

/* Of the options of another run those that describe its model, and none that say how to train it. */
static void model_of_another(void **state)
{
    char *text;

    (void)state;
    assert_ok(parse("--num-layers 3 --hidden-size 48 --num-attention-heads 6 --seq-length 8 "
                    "--max-position-embeddings 9 --tokenizer-type bytes --hidden-dropout 0 "
                    "--lr 0.1 --seed 5 --micro-batch-size 7 --tensor-model-parallel-size 3"));
    text = tr_config_get_json(&c, NULL);
    assert_ok(parse("--seed 6 --micro-batch-size 2"));
    assert_ok(tr_config_load_model(&c, text));
    assert_true(c.num_layers == 3 && c.hidden_size == 48 && c.num_attention_heads == 6);
    assert_true(c.seq_length == 8 && c.max_position_embeddings == 9 && c.hidden_dropout == 0.0);
    assert_int_equal(c.tokenizer_type, TR_TOKENIZER_BYTES);
    assert_true(c.seed == 6 && c.micro_batch_size == 2 && c.lr == TR_UNSET_REAL);
    assert_int_equal(c.tensor_model_parallel_size, 1);
    /* Also of a version that has more of them. */
    assert_ok(tr_config_load_model(&c, "{\"a_new_one\": 1, \"num_layers\": 4}"));
    assert_int_equal(c.num_layers, 4);
    assert_fails(TR_EDATA, "not a JSON object", tr_config_load_model(&c, "3"));
    free(text);
}

/* Python's repr() of floats, checked with CPython 3.11. */
static void reals(void **state)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {1.0, "1.0"},
        {100.0, "100.0"},
        {0.00015, "0.00015"},
        {1e-5, "1e-05"},
        {0.0001, "0.0001"},
        {9.9e-5, "9.9e-05"},
        {1e16, "1e+16"},
        {1e15, "1000000000000000.0"},
        {123456789.125, "123456789.125"},
        {0.1 + 0.2, "0.30000000000000004"},
        {-2.5, "-2.5"},
        {1.0 / 3.0, "0.3333333333333333"},
        {5e-324, "5e-324"},
        {1e100, "1e+100"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {-INFINITY, "-inf"},
    };
    char text[40];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tr_real_text(cases[i].x, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

/* The dotted block: 48 columns of name and dots, sorted without regard to case. */
static void arguments_block(void **state)
{
    char *text = NULL, *line, *before = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    (void)state;
    assert_non_null(f);
    assert_ok(parse("--lr 0.00015 --data-path x \"it's\" --memory-plan --save /a/b"));
    tr_config_print(&c, NULL, f);
    fclose(f);
    assert_non_null(
        strstr(text, "------------------------ arguments ------------------------\n  a"));
    assert_non_null(strstr(text, "\n  adam_beta1 ...................................... 0.9\n"));
    assert_non_null(
        strstr(text, "\n  lr .............................................. 0.00015\n"));
    assert_non_null(strstr(text, "\n  adam_eps ........................................ 1e-08\n"));
    assert_non_null(strstr(text, "\n  data_path ....................................... "
                                 "['x', \"it's\"]\n"));
    assert_non_null(strstr(text, "\n  memory_plan ..................................... True\n"));
    assert_non_null(strstr(text, "\n  load ............................................ None\n"));
    assert_non_null(
        strstr(text, "\n-------------------- end of arguments ---------------------\n"));
    for (line = strtok_r(text, "\n", &before); line; line = strtok_r(NULL, "\n", &before)) {
        static char last[128];

        if (line[0] != ' ')
            continue;
        assert_true(strcasecmp(last, line) < 0);
        snprintf(last, sizeof last, "%s", line);
    }
    free(text);
}

static char *short_block(const char *options)
{
    struct tr_config given;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    assert_ok(parse(options));
    given = c;
    c.activation = TR_ACTIVATION_GELU_TANH;
    c.norm_epsilon = 1e-6;
    c.ffn_hidden_size = 4 * 64;
    tr_config_print(&c, &given, f);
    fclose(f);
    return text;
}

/* What was given, and what a report reads; of a family also what follows from it. */
static void short_arguments(void **state)
{
    char *text;

    (void)state;
    text = short_block("--hidden-size 64 --lr 0.00015");
    assert_non_null(strstr(text, "\n  hidden_size ..................................... 64\n"));
    assert_non_null(
        strstr(text, "\n  lr .............................................. 0.00015\n"));
    assert_non_null(
        strstr(text, "\n  activation ...................................... gelu-tanh\n"));
    assert_non_null(strstr(text, "\n  tensor_model_parallel_size ...................... 1\n"));
    assert_null(strstr(text, "  adam_beta1 ."));
    assert_null(strstr(text, "  norm_epsilon ."));
    assert_null(strstr(text, "  ffn_hidden_size ."));
    assert_null(strstr(text, "> options besides"));
    free(text);
    text = short_block("--hidden-size 64 --model-family llama");
    assert_non_null(strstr(text, "\n  norm_epsilon .................................... 1e-06\n"));
    assert_non_null(strstr(text, "\n  ffn_hidden_size ................................. 256\n"));
    free(text);
    /* What nothing reads goes together where there is much. */
    text = short_block("--hidden-size 64 --num-layers 2 --num-attention-heads 4 --seq-length 8 "
                       "--lr 1 --min-lr .5 --adam-beta1 .8 "
                       "--adam-beta2 .7 --adam-eps 1e-6 --weight-decay .3 --clip-grad 2 "
                       "--eval-iters 3 --eval-interval 4 "
                       "--save a --load b --save-interval 7 --train-iters 8 --global-batch-size 8 "
                       "--micro-batch-size 2 "
                       "--split 9,1 --data-path x --seed 3 --lr-warmup-iters 1 --lr-decay-iters 9 "
                       "--log-interval 2");
    assert_non_null(strstr(text, "---\n> options besides: adam_beta1 0.8, adam_beta2 0.7, "));
    assert_non_null(strstr(text, "\n  seed ............................................ 3\n"));
    assert_null(strstr(text, "\n  lr ."));
    free(text);
    assert_string_equal(tr_config_initial("log-format"), "auto");
    assert_string_equal(tr_config_initial("adam_beta1"), "0.9");
    assert_null(tr_config_initial("no-such-option"));
}

/* Every row of the table appears in its forms, and none is listed twice. */
static void documents(void **state)
{
    const struct tr_options *t = tr_config_options();
    char *help = NULL, *man = NULL, *complete = NULL;
    size_t size;
    FILE *f = open_memstream(&help, &size);

    (void)state;
    assert_ok(tr_config_help(f, NULL));
    fclose(f);
    f = open_memstream(&man, &size);
    tr_options_man(t, f);
    fclose(f);
    f = open_memstream(&complete, &size);
    tr_options_complete(t, NULL, f);
    fclose(f);
    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];
        char *name = tr_format("  --%s ", o->name), *word = tr_format("--%s", o->name);

        if (o->kind == TR_ROW_OPT || o->kind == TR_ROW_OFF) {
            assert_non_null(strstr(help, name + 1));
            assert_non_null(strstr(complete, word));
        }
        for (int j = 0; j < i; j++)
            assert_string_not_equal(o->name, t->row[j].name);
        free(name);
        free(word);
    }
    assert_non_null(strstr(
        man,
        ".It Fl \\-lr\\-decay\\-style Ar constant|linear|cosine|inverse\\-square\\-root|WSD\n"));
    free(help);
    free(man);
    free(complete);
    f = open_memstream(&help, &size);
    assert_ok(tr_config_help(f, "rate"));
    assert_fails(TR_ECONFIG, "there are: Model, Data, Training", tr_config_help(f, "ratio"));
    fclose(f);
    assert_non_null(strstr(help, "--min-lr"));
    assert_null(strstr(help, "--num-layers"));
    free(help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults, start, end),
        cmocka_unit_test_setup_teardown(values, start, end),
        cmocka_unit_test_setup_teardown(changed, start, end),
        cmocka_unit_test_setup_teardown(choices, start, end),
        cmocka_unit_test_setup_teardown(bad_values, start, end),
        cmocka_unit_test_setup_teardown(unknown_names, start, end),
        cmocka_unit_test_setup_teardown(known_but_not_here, start, end),
        cmocka_unit_test_setup_teardown(argument_files, start, end),
        cmocka_unit_test_setup_teardown(json, start, end),
        cmocka_unit_test_setup_teardown(model_of_another, start, end),
        cmocka_unit_test(reals),
        cmocka_unit_test_setup_teardown(arguments_block, start, end),
        cmocka_unit_test_setup_teardown(short_arguments, start, end),
        cmocka_unit_test_setup_teardown(documents, start, end),
    };
    return run_tap(tests);
}
