/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "telemetry/lines.h"

static char buf[TR_REPORT_BYTES];

/* ---- lines of public logs, read into numbers and written again ---- */

/* The number after `label` in `line`; fails the test if the label is not there. */
static double after(const char *line, const char *label)
{
    const char *at = strstr(line, label);

    if (!at)
        fail_msg("no \"%s\" in: %s", label, line);
    return strtod(at + strlen(label), NULL);
}

/* The lines are of intervals of ten iterations. */
static struct tr_iteration_line read_iteration(const char *line)
{
    struct tr_iteration_line r = {
        .iteration = (int64_t)after(line, " iteration "),
        .train_iters = (int64_t)after(line, "/"),
        .consumed_samples = (int64_t)after(line, "consumed samples: "),
        .global_batch = (int64_t)after(line, "global batch size: "),
        .seconds = after(line, "elapsed time per iteration (ms): ") / 100.0,
        .lr = after(line, "learning rate: "),
        .loss_scale = after(line, "loss scale: "),
        .interval.skipped = (int)after(line, "number of skipped iterations: "),
        .interval.nan = (int)after(line, "number of nan iterations: "),
        .interval.has_norm = strstr(line, "grad norm") != NULL,
        .tflops = -1.0,
        .params_norm = -1.0,
    };

    r.interval.advanced = 10 - r.interval.skipped;
    if (r.interval.advanced > 0)
        r.interval.loss_sum = after(line, "lm loss: ") * r.interval.advanced;
    if (r.interval.has_norm)
        r.interval.norm = after(line, "grad norm: ");
    return r;
}

static void again_iteration(const char *line)
{
    struct tr_iteration_line r = read_iteration(line);

    tr_lines_iteration(buf, sizeof buf, &r);
}

/* The perplexity holds more digits of the loss than the loss itself does: take the number nearest
   to it of those that are printed as this loss. */
static void again_validation(const char *line)
{
    double value = after(line, "lm loss value: "), loss = log(after(line, "lm loss PPL: "));
    char where[64], *end;

    snprintf(where, sizeof where, "%s", strstr(line, " at ") + 4);
    end = strstr(where, " |");
    assert_non_null(end);
    *end = '\0';
    tr_lines_validation(buf, sizeof buf, where, fmin(fmax(loss, value - 4.9e-7), value + 4.9e-7));
}

static void again_memory(const char *line)
{
    struct tr_memory_line m = {
        .allocated = (int64_t)(after(line, "| allocated: ") * 1048576.0),
        .max_allocated = (int64_t)(after(line, "| max allocated: ") * 1048576.0),
        .reserved = (int64_t)(after(line, "| reserved: ") * 1048576.0),
        .max_reserved = (int64_t)(after(line, "| max reserved: ") * 1048576.0),
    };

    tr_lines_memory(buf, sizeof buf, TR_FORMAT_MEGATRON, (int)after(line, "[Rank "),
                    (int64_t)after(line, "(after "), &m);
}

static void again_datetime(const char *line)
{
    struct tm tm = {0};
    struct tr_moment now = {0, -1};

    assert_non_null(strptime(strstr(line, "datetime: ") + 10, "%Y-%m-%d %H:%M:%S ", &tm));
    now.seconds = mktime(&tm);
    if (strstr(line, "[after model,"))
        tr_lines_built(buf, sizeof buf, now);
    else if (strstr(line, "[after dataloaders"))
        tr_lines_ready(buf, sizeof buf, now);
    else if (strstr(line, "[before the start"))
        tr_lines_training(buf, sizeof buf, now);
    else
        tr_lines_initialized(buf, sizeof buf, 0.398, now);
}

static void again_parameters(const char *line)
{
    int tp, pp;

    assert_int_equal(
        sscanf(strchr(line, '(') + 1, "tensor, pipeline) model parallel rank (%d, %d", &tp, &pp),
        2);
    tr_lines_parameters(buf, sizeof buf, tp, pp, (int64_t)after(line, "): "));
}

static void again_world(const char *line)
{
    struct tr_shape s = {
        .layout.world = (int)after(line, "world size: "),
        .layout.d = (int)after(line, "data-parallel-size: "),
        .layout.w = (int)after(line, "tensor-model-parallel size: "),
        .layout.p = (int)after(line, "pipeline-model-parallel size: "),
    };

    tr_lines_world(buf, sizeof buf, &s.layout, &s.precision);
}

static void again_setup(const char *line)
{
    struct tr_shape s = {.batches.micros = (int)after(line, "constant ")};

    tr_lines_setup(buf, sizeof buf, &s, "gpt2-bpe", 1234);
}

/* Who writes a line that contains this text, and how many of them the file has. */
static const struct {
    const char *text;
    void (*again)(const char *line);
    int count;
} kinds[] = {
    {" iteration  ", again_iteration, 6}, {" validation loss at ", again_validation, 2},
    {"] datetime: ", again_datetime, 4},  {" memory (MB) ", again_memory, 2},
    {"using world size", again_world, 1}, {"number of parameters", again_parameters, 2},
    {"micro-batches to", again_setup, 1}, {"-----", NULL, 4},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* True if `line` is one of the lines in buf. */
static bool among_the_lines(const char *line)
{
    size_t n = strlen(line);

    for (const char *at = buf; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, n) == 0 && (at[n] == '\n' || at[n] == '\0'))
            return true;
    }
    return false;
}

/* tests/golden/megatron-2021.log: the README there says from where. */
static void public_logs(void **state)
{
    const char *srcdir = getenv("srcdir");
    char path[4096], line[1024];
    int seen[KINDS] = {0};
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/megatron-2021.log", srcdir ? srcdir : ".");
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        size_t k = 0;

        line[strcspn(line, "\n")] = '\0';
        while (k < KINDS && !strstr(line, kinds[k].text))
            k++;
        assert_true(k < KINDS);
        seen[k]++;
        /* A ruler stands before its validation line and after it; the first is compared when the
           block is there. */
        if (kinds[k].again)
            kinds[k].again(line);
        else if (seen[k] % 2 == 1)
            continue;
        if (!among_the_lines(line))
            fail_msg("recorded: %s\nwritten: %s", line, buf);
    }
    fclose(f);
    for (size_t k = 0; k < KINDS; k++)
        assert_int_equal(seen[k], kinds[k].count);
}

/* ---- what the logs do not show ---- */

static void validation_block(void **state)
{
    const char *ruler = "-----------------------------------------------------------------------"
                        "------------------------";
    char wanted[1024];
    int n;

    (void)state;
    snprintf(wanted, sizeof wanted,
             "%s\n validation loss at iteration 100 | lm loss value: 8.017406E+00 |"
             " lm loss PPL: 3.033300E+03 | \n%s",
             ruler, ruler);
    n = tr_lines_validation(buf, sizeof buf, "iteration 100", log(3033.300));
    assert_string_equal(buf, wanted);
    assert_int_equal(n, (int)strlen(wanted));
    assert_int_equal(strlen(ruler), 95);
    /* exp(20) is the most that is shown. */
    tr_lines_validation(buf, sizeof buf, "the end of training for test data", 25.0);
    assert_non_null(strstr(buf, " at the end of training for test data | lm loss value: "
                                "2.500000E+01 | lm loss PPL: 4.851652E+08 | \n"));
    tr_lines_validation(buf, sizeof buf, "iteration 7", (double)NAN);
    assert_non_null(strstr(buf, "| lm loss value: nan | lm loss PPL: nan | \n"));
}

static const char *line_of(const struct tr_interval *in)
{
    struct tr_iteration_line r = {
        .iteration = 20,
        .train_iters = 40,
        .consumed_samples = 80,
        .global_batch = 4,
        .seconds = 2.0,
        .lr = 0.01,
        .loss_scale = 1.0,
        .tflops = -1.0,
        .params_norm = -1.0,
        .interval = *in,
    };

    int n = tr_lines_iteration(buf, sizeof buf, &r);

    assert_int_equal(n, (int)strlen(buf));
    return buf;
}

/* The loss is the mean over the iterations that advanced, the time that over all. */
static void interval(void **state)
{
    struct tr_interval in = {0};

    (void)state;
    tr_interval_add(&in, 3.0, false, 1.0, -1.0);
    tr_interval_add(&in, 1000.0, true, 9.0, -1.0);
    tr_interval_add(&in, (double)INFINITY, true, 9.0, -1.0);
    tr_interval_add(&in, 4.0, false, 2.5, -1.0);
    assert_string_equal(
        line_of(&in),
        " iteration       20/      40 | consumed samples:           80 |"
        " elapsed time per iteration (ms): 500.0 | learning rate: 1.000E-02 |"
        " global batch size:     4 | lm loss: 3.500000E+00 | loss scale: 1.0 | grad norm: 2.500 |"
        " number of skipped iterations:   2 | number of nan iterations:   1 |");
}

/* Absent: the loss when nothing advanced; the norm after a skipped iteration and when none is
   computed.  Present: a loss of 0, a norm of 0, and what is not a number. */
static void absent_fields(void **state)
{
    struct tr_interval in = {0};

    (void)state;
    tr_interval_add(&in, 3.0, true, 5.0, -1.0);
    assert_null(strstr(line_of(&in), "lm loss"));
    assert_null(strstr(buf, "grad norm"));
    tr_interval_add(&in, 0.0, false, 0.0, -1.0);
    assert_non_null(strstr(line_of(&in), "| lm loss: 0.000000E+00 | loss scale: 1.0 | "
                                         "grad norm: 0.000 | number of skipped iterations:   1 |"));
    tr_interval_add(&in, 0.0, false, -1.0, -1.0);
    assert_null(strstr(line_of(&in), "grad norm"));
    tr_interval_add(&in, -(double)NAN, false, -(double)NAN, -1.0);
    assert_non_null(strstr(line_of(&in), "| lm loss: nan | loss scale: 1.0 | grad norm: nan | "
                                         "number of skipped iterations:   1 | "
                                         "number of nan iterations:   1 |"));
    in = (struct tr_interval){0};
    tr_interval_add(&in, (double)INFINITY, false, (double)INFINITY, -1.0);
    assert_non_null(strstr(line_of(&in), "| lm loss: inf | loss scale: 1.0 | grad norm: inf | "));
}

/* Less than the one decimal that Megatron has. */
static void little(void **state)
{
    struct tr_iteration_line line = {
        .format = TR_FORMAT_MEGATRON, .seconds = 1.0, .params_norm = -1.0, .interval.advanced = 1};

    (void)state;
    line.tflops = 0.00123456;
    tr_lines_iteration(buf, sizeof buf, &line);
    assert_non_null(strstr(buf, " | throughput per GPU (TFLOP/s/GPU): 0.00123 | "));
    line.tflops = 0.0;
    tr_lines_iteration(buf, sizeof buf, &line);
    assert_non_null(strstr(buf, " | throughput per GPU (TFLOP/s/GPU): 0.0 | "));
}

/*
 * Lines of public logs in the other formats, written again from their numbers:
 *   Megatron Core    NVIDIA/Megatron-LM issue 756, of March 2024; the rate is written with six
 *                    decimals and zeros without any since then
 *   Megatron-DeepSpeed   bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles.md; its
 *                    "[default7]:" is the launcher's
 */
static void other_formats(void **state)
{
    struct tr_iteration_line line = {
        .format = TR_FORMAT_CORE,
        .now = {1711828960, 250},
        .iteration = 10,
        .train_iters = 500000,
        .consumed_samples = 1280,
        .global_batch = 128,
        .seconds = 94.964,
        .lr = 2e-6,
        .loss_scale = 1.0,
        .tflops = 137.5,
        .params_norm = -1.0,
        .interval = {.loss_sum = 2.092005,
                     .advanced = 10,
                     .has_norm = true,
                     .norm = 51.010,
                     .has_zeros = true},
    };

    (void)state;
    tr_lines_iteration(buf, sizeof buf, &line);
    assert_string_equal(
        buf, " [2024-03-30 20:02:40.000250] iteration       10/  500000 | consumed samples:"
             "         1280 | elapsed time per iteration (ms): 9496.4 | throughput per GPU "
             "(TFLOP/s/GPU): 137.5 | learning rate: 2.000000E-06 | global batch size:   128 | "
             "lm loss: 2.092005E-01 | loss scale: 1.0 | grad norm: 51.010 | num zeros: 0 | "
             "number of skipped iterations:   0 | number of nan iterations:   0 |");
    line = (struct tr_iteration_line){
        .format = TR_FORMAT_DEEPSPEED,
        .iteration = 12695,
        .train_iters = 115311,
        .consumed_samples = 9841584,
        .global_batch = 2048,
        .samples = 2048,
        .seq = 2048,
        .seconds = 105.225,
        .lr = 5.969e-5,
        .loss_scale = 1.0,
        .tflops = 149.02,
        .params_norm = -1.0,
        .interval = {.loss_sum = 2.463556,
                     .advanced = 1,
                     .has_norm = true,
                     .norm = 0.174,
                     .has_zeros = true},
    };
    tr_lines_iteration(buf, sizeof buf, &line);
    assert_string_equal(
        buf, " iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:"
             "  20155564032 | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | "
             "global batch size:  2048 | lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 "
             "| number of skipped iterations:   0 | number of nan iterations:   0 | samples per "
             "second: 19.463 | TFLOPs: 149.02 |");
}

/* The throughput stands after the elapsed time in the line of 2021 too; the norm of the parameters
   after the zeros; the loss scale of Megatron-DeepSpeed only where there is one. */
static void optional_fields(void **state)
{
    struct tr_iteration_line line = {
        .iteration = 1,
        .train_iters = 2,
        .seconds = 0.5,
        .loss_scale = 65536.0,
        .scaled = true,
        .tflops = 12.34,
        .params_norm = 7092.5064,
        .interval = {.advanced = 1, .has_zeros = true, .zeros = 960902016.0},
    };

    (void)state;
    tr_lines_iteration(buf, sizeof buf, &line);
    assert_non_null(strstr(buf, "| elapsed time per iteration (ms): 500.0 | throughput per GPU "
                                "(TFLOP/s/GPU): 12.3 | learning rate: 0.000E+00 |"));
    assert_non_null(strstr(buf, "| loss scale: 65536.0 | num zeros: 960902016.0 | params norm: "
                                "7092.506 | number of skipped"));
    line.format = TR_FORMAT_CORE;
    tr_lines_iteration(buf, sizeof buf, &line);
    assert_non_null(strstr(buf, "| num zeros: 960902016 | params norm: 7092.506 | number of"));
    line.format = TR_FORMAT_DEEPSPEED;
    tr_lines_iteration(buf, sizeof buf, &line);
    assert_non_null(strstr(buf, "| loss scale: 65536.0 | num zeros: 960902016.0 | params norm"));
    assert_null(strstr(buf, "throughput"));
}

/* Times of day with and without microseconds; memory with two decimals; the formula. */
static void newer_lines(void **state)
{
    struct tr_memory_line m = {1536 * 1024, 1 << 20, 3 << 20, 3 << 20};
    struct tr_moment now = tr_moment_now(TR_FORMAT_CORE);

    (void)state;
    assert_true(now.micros >= 0 && now.micros < 1000000);
    assert_true(tr_moment_now(TR_FORMAT_MEGATRON).micros < 0);
    tr_lines_done(buf, sizeof buf, (struct tr_moment){1621758065, 7});
    assert_string_equal(buf, "[after training is done] datetime: 2021-05-23 08:21:05.000007 ");
    tr_lines_memory(buf, sizeof buf, TR_FORMAT_CORE, 3, 20, &m);
    assert_string_equal(buf, "[Rank 3] (after 20 iterations) memory (MB) | allocated: 1.50 | max "
                             "allocated: 1.00 | reserved: 3.00 | max reserved: 3.00");
    tr_lines_where(buf, sizeof buf, TR_FORMAT_CORE, 50, true);
    assert_string_equal(buf, "iteration 50 on test set");
    tr_lines_where(buf, sizeof buf, TR_FORMAT_CORE, 50, false);
    assert_string_equal(buf, "iteration 50 on validation set");
    tr_lines_where(buf, sizeof buf, TR_FORMAT_DEEPSPEED, 50, false);
    assert_string_equal(buf, "the end of training for val data");
    tr_lines_where(buf, sizeof buf, TR_FORMAT_MEGATRON, 50, true);
    assert_string_equal(buf, "the end of training for test data");
    tr_lines_theory(buf, sizeof buf, 18.0 * 1048576.0, 2.5 * 1048576.0);
    assert_string_equal(buf, "Theoretical memory footprints: weight and optimizer=18.00 MB, "
                             "activation=2.50 MB, total=20.50 MB\n");
    tr_lines_theory(buf, sizeof buf, 18.0 * 1048576.0, -1.0);
    assert_string_equal(buf, "Theoretical memory footprints: weight and optimizer=18.00 MB\n");
    tr_lines_formula(buf, sizeof buf, "core, 2 + 2");
    assert_string_equal(buf, "> TFLOP/s by the formula core, 2 + 2");
}

/* A run in half precision: the scale falls until steps are executed; from the tenth line on nothing
   is skipped.  Fields of an interval that mixes both. */
static void skipped_iterations(void **state)
{
    struct tr_interval in = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        tr_interval_add(&in, 10.8, true, (double)INFINITY, -1.0);
    assert_null(strstr(line_of(&in), "lm loss"));
    assert_null(strstr(buf, "grad norm"));
    assert_non_null(strstr(buf, "| number of skipped iterations:  10 | number of nan iterations:"
                                "   0 |"));
    in = (struct tr_interval){0};
    tr_interval_add(&in, 8.0, false, 2.0, 5.0);
    tr_interval_add(&in, 9.0, true, (double)INFINITY, 7.0);
    assert_non_null(strstr(line_of(&in), "| lm loss: 8.000000E+00 |"));
    assert_null(strstr(buf, "grad norm"));
    assert_null(strstr(buf, "num zeros"));
    tr_interval_add(&in, 10.0, false, 3.0, 6.0);
    assert_non_null(strstr(line_of(&in), "| lm loss: 9.000000E+00 | loss scale: 1.0 | grad norm: "
                                         "3.000 | num zeros: 6.0 | number of skipped iterations:"
                                         "   1 |"));
    /* A loss that is itself not finite: skipped, and nan. */
    tr_interval_add(&in, (double)NAN, true, (double)NAN, -1.0);
    assert_non_null(strstr(line_of(&in), "| lm loss: 9.000000E+00 |"));
    assert_non_null(strstr(buf, "| number of skipped iterations:   2 | number of nan iterations:"
                                "   1 |"));
}

/* Numbers wider than their fields push the line apart and lose no digit. */
static void wide_numbers(void **state)
{
    struct tr_iteration_line r = {
        .iteration = 1234567890,
        .train_iters = 9999999999,
        .consumed_samples = 1234567890123456,
        .global_batch = 1000000,
        .seconds = 1.0,
        .lr = 1e-120,
        .loss_scale = 4294967296.0,
        .tflops = -1.0,
        .params_norm = -1.0,
        .interval = {.advanced = 1234, .loss_sum = 1234e-7},
    };

    (void)state;
    tr_lines_iteration(buf, sizeof buf, &r);
    assert_string_equal(
        buf, " iteration 1234567890/9999999999 | consumed samples: 1234567890123456 |"
             " elapsed time per iteration (ms): 0.8 | learning rate: 1.000E-120 |"
             " global batch size: 1000000 | lm loss: 1.000000E-07 | loss scale: 4294967296.0 |"
             " number of skipped iterations:   0 | number of nan iterations:   0 |");
}

/* The blocks in the order of Megatron's log. */
static void set_up(void **state)
{
    struct tr_shape s = {.layout.world = 16,
                         .layout.d = 2,
                         .layout.w = 2,
                         .layout.p = 4,
                         .batches.micros = 4,
                         .dims.vocab = 50257,
                         .dims.vocab_padded = 50432};
    struct tr_moment now = {1621758065, -1};

    (void)state;
    tr_lines_world(buf, sizeof buf, &s.layout, &s.precision);
    assert_string_equal(buf, "using world size: 16, data-parallel-size: 2, "
                             "tensor-model-parallel size: 2, pipeline-model-parallel size: 4 \n"
                             "using torch.float32 for parameters ...");
    s.precision.half = true;
    tr_lines_world(buf, sizeof buf, &s.layout, &s.precision);
    assert_non_null(strstr(buf, "\nusing torch.float16 for parameters ..."));
    s.precision.bf16 = true;
    tr_lines_world(buf, sizeof buf, &s.layout, &s.precision);
    assert_non_null(strstr(buf, "\nusing torch.bfloat16 for parameters ..."));
    tr_lines_setup(buf, sizeof buf, &s, "GPT2BPETokenizer", 1234);
    assert_string_equal(buf,
                        "setting number of micro-batches to constant 4\n"
                        "> building GPT2BPETokenizer tokenizer ...\n"
                        " > padded vocab (size: 50257) with 175 dummy tokens (new size: 50432)\n"
                        "> initializing tensor model parallel with size 2\n"
                        "> initializing pipeline model parallel with size 4\n"
                        "> setting random seeds to 1234 ...");
    tr_lines_initialized(buf, sizeof buf, 0.3984, now);
    assert_string_equal(buf, "time to initialize megatron (seconds): 0.398\n"
                             "[after megatron is initialized] datetime: 2021-05-23 08:21:05 \n"
                             "building GPT model ...");
    tr_lines_start(buf, sizeof buf, (const double[]){.028, .4, .1, .072, 0., .004}, .604);
    assert_string_equal(buf, "> start-up (seconds): 0.604 | program: 0.028 | MPI: 0.400 | launch: "
                             "0.100 | model: 0.072 | checkpoint: 0.000 | data: 0.004");
    tr_lines_decay_style(buf, sizeof buf, "cosine");
    assert_string_equal(buf, "> learning rate decay style: cosine");
    tr_lines_ready(buf, sizeof buf, now);
    assert_string_equal(buf, "[after dataloaders are built] datetime: 2021-05-23 08:21:05 \n"
                             "done with setup ...");
    tr_lines_training(buf, sizeof buf, now);
    assert_string_equal(buf, "training ...\n[before the start of training step] datetime: "
                             "2021-05-23 08:21:05 ");
    tr_lines_done(buf, sizeof buf, now);
    assert_string_equal(buf, "[after training is done] datetime: 2021-05-23 08:21:05 ");
    tr_lines_evaluating(buf, sizeof buf, 3, 10);
    assert_string_equal(buf, "Evaluating iter 3/10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_logs),
        cmocka_unit_test(validation_block),
        cmocka_unit_test(interval),
        cmocka_unit_test(absent_fields),
        cmocka_unit_test(other_formats),
        cmocka_unit_test(little),
        cmocka_unit_test(optional_fields),
        cmocka_unit_test(newer_lines),
        cmocka_unit_test(skipped_iterations),
        cmocka_unit_test(wide_numbers),
        cmocka_unit_test(set_up),
    };

    setenv("TZ", "UTC0", 1);
    tzset();
    return run_tap(tests);
}
