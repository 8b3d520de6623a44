/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/breakdown.h"
#include "report/compare.h"
#include "report/run_log.h"

/* The runs of a log that is this text. */
static struct tr_records read_bytes(const char *text, size_t bytes)
{
    struct tr_records runs = {0};
    FILE *f = fmemopen((char *)(uintptr_t)text, bytes, "r");

    assert_non_null(f);
    assert_ok(tr_log_read_stream(f, "log", TR_LOG_APART, &runs));
    fclose(f);
    return runs;
}

static struct tr_records read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

static enum tr_status fails_on(const char *text)
{
    struct tr_records runs = {0};
    FILE *f = fmemopen((char *)(uintptr_t)text, strlen(text), "r");
    enum tr_status s = tr_log_read_stream(f, "log", TR_LOG_APART, &runs);

    fclose(f);
    tr_records_release(&runs);
    return s;
}

static int64_t odd(const struct tr_records *r, enum tr_oddity o)
{
    return r->odd[o].count;
}

/* An iteration line of 2021. */
#define LINE(iteration, ms, loss)                                           \
    " iteration " #iteration                                                \
    "/ 1000 | consumed samples: 40 | elapsed time per iteration (ms): " #ms \
    " | learning rate: 1.500E-04 | global batch size: 4 | lm loss: " #loss  \
    " | loss scale: 16384.0 | number of skipped iterations:   1 | number of nan iterations:   0 |"
#define WORLD(n)                                                                       \
    "using world size: " #n ", data-parallel-size: 1, tensor-model-parallel size: 1, " \
    "pipeline-model-parallel size: " #n " \n"

static void fields(void **state)
{
    struct tr_records runs = read_text(LINE(30, 1376.1, 2.247505E+01) "\n");
    const struct tr_row *row = &runs.list[0].row[0];

    (void)state;
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.list[0].rows, 1);
    assert_int_equal(row->iteration, 30);
    assert_int_equal(row->line, 1);
    assert_true(row->field[TR_FIELD_ELAPSED] == 1376.1);
    assert_true(row->field[TR_FIELD_LOSS] == 22.47505);
    assert_true(row->field[TR_FIELD_RATE] == 1.5e-4);
    assert_true(row->field[TR_FIELD_BATCH] == 4.0);
    assert_true(row->field[TR_FIELD_SKIPPED] == 1.0);
    assert_true(isnan(row->field[TR_FIELD_NORM]));
    assert_int_equal(runs.list[0].layout, TR_LAYOUT_2021);
    assert_true(runs.list[0].fact[TR_FACT_ITERATIONS] == 1000.0);
    tr_records_release(&runs);
}

/* BLOOM's training, its prefix of the node's rank included: 2048 samples in 105.22 s. */
static void deepspeed(void **state)
{
    struct tr_records runs = read_text(
        "[default7]: iteration    94000/  115311 | consumed samples:    182000000 | consumed "
        "tokens: "
        "372736000000 | elapsed time per iteration (s): 105.22 | learning rate: 6.000E-05 | global "
        "batch size:  2048 | lm loss: 1.914371E+00 | grad norm: 0.139 | num zeros: 0.0 | number of "
        "skipped iterations:   0 | number of nan iterations:   0 | samples per second: 19.464 | "
        "TFLOPs: 149.02 |\n");
    const struct tr_row *row = &runs.list[0].row[0];

    (void)state;
    assert_int_equal(runs.list[0].layout, TR_LAYOUT_DEEPSPEED);
    assert_true(row->field[TR_FIELD_TFLOPS] == 149.02);
    assert_true(row->field[TR_FIELD_TOKENS] == 372736e6);
    assert_true(fabs(row->field[TR_FIELD_ELAPSED] - 105220.0) < 0.5);
    tr_records_release(&runs);
}

/* Three digits of the rate are better than none of 0.01 s, but not always. */
static void seconds(void **state)
{
    struct tr_records runs = read_text(" iteration 1/ 10 | elapsed time per iteration (s): 0.01 | "
                                       "global batch size: 8 | samples per "
                                       "second: 1415.337 |\n"
                                       " iteration 2/ 10 | elapsed time per iteration (s): 3600.00 "
                                       "| global batch size: 2048 | samples "
                                       "per second: 0.569 |\n");
    const struct tr_row *row = runs.list[0].row;

    (void)state;
    assert_true(fabs(row[0].field[TR_FIELD_ELAPSED] - 8e3 / 1415.337) < 1e-9);
    assert_true(row[1].field[TR_FIELD_ELAPSED] == 3600e3);
    tr_records_release(&runs);
}

/* Megatron Core: a time before the line, a first line that ends no interval, a table. */
static void core(void **state)
{
    struct tr_records runs = read_text(
        " [2026-08-20 14:19:04.009475] iteration        1/      12 | elapsed time per "
        "iteration (ms): "
        "900.0 | throughput per GPU (TFLOP/s/GPU): 1.5 | global batch size: 8 |\n"
        " [2026-08-20 14:19:05.009475] iteration        2/      12 | elapsed time per "
        "iteration (ms): "
        "700.0 | throughput per GPU (TFLOP/s/GPU): 2.5 | global batch size: 8 |\n"
        "(min, max) time across ranks (ms):\n"
        "    forward-backward ...............................: (77.94, 80.11)\n"
        "some other rank says something\n"
        "    train/valid/test-data-iterators-setup ..........: (1.00, 2.00)\n"
        " [2026-08-20 14:19:06.009475] iteration        4/      12 | elapsed time per "
        "iteration (ms): "
        "710.0 | global batch size: 8 |\n"
        "max time across ranks (ms):\n"
        "    forward-backward ...............................: 81.50\n"
        "(min, median, max) wait and transfer across ranks (ms):\n"
        "    pipeline-fill-wait .............................: (0.77, 0.81, 0.91) rank 3 on vm\n"
        " [2026-08-20 14:19:07.009475] iteration        6/      12 | elapsed time per "
        "iteration (ms): "
        "720.0 | global batch size: 8 |\n");
    const struct tr_record *run = &runs.list[0];
    const struct tr_timing *t;

    (void)state;
    assert_int_equal(run->layout, TR_LAYOUT_CORE);
    assert_int_equal(run->rows, 4);
    assert_true(run->row[0].extra);
    assert_false(run->row[1].extra);
    assert_true(run->row[1].field[TR_FIELD_TFLOPS] == 2.5);
    assert_int_equal(run->timers, 3);
    assert_string_equal(run->timer[0], "forward-backward");
    t = tr_row_timing(run, &run->row[1], 0);
    assert_non_null(t);
    assert_true(t->min == 77.94 && t->max == 80.11 && isnan(t->last));
    assert_null(tr_row_timing(run, &run->row[0], 0));
    t = tr_row_timing(run, &run->row[2], 0);
    assert_true(t && t->max == 81.5 && isnan(t->min));
    t = tr_row_timing(run, &run->row[2], 2);
    assert_true(t && t->max == 0.91 && t->min == 0.77);
    tr_records_release(&runs);
}

/* --timing-log-option all: the last rank is known by the size of the world. */
static void all_ranks(void **state)
{
    struct tr_records runs = read_text(WORLD(3) LINE(1, 10.0, 5.0) "\n"
                                                                   "times across ranks (ms):\n"
                                                                   "  forward-compute:\n"
                                                                   "     rank  0: 1.00\n"
                                                                   "     rank  1: 2.00\n"
                                                                   "     rank  2: 6.00\n"
                                                                   "  backward-recv:\n"
                                                                   "     rank  0: 4.00\n");
    const struct tr_record *run = &runs.list[0];
    const struct tr_timing *t = tr_row_timing(run, &run->row[0], 0);

    (void)state;
    assert_true(t && t->min == 1.0 && t->max == 6.0 && t->mean == 3.0 && t->last == 6.0);
    t = tr_row_timing(run, &run->row[0], 1);
    assert_true(t && t->max == 4.0 && isnan(t->last));
    tr_records_release(&runs);
}

/* A job that was requeued: iterations 30 and 40 were done twice, and the second time counts. */
static void requeued(void **state)
{
    struct tr_records runs = read_text(
        WORLD(2) LINE(10, 100.0, 9.0) "\n" LINE(20, 101.0, 8.0) "\n" LINE(30, 102.0, 7.5) "\n" LINE(
            40, 103.0,
            7.0) "\n"
                 "slurmstepd: error: *** JOB 1809579 ON r8i3n1 CANCELLED AT 2021-05-23T08:45:57 "
                 "DUE TO "
                 "PREEMPTION ***\n" WORLD(
                     2) " loading checkpoint from /scratch/run at iteration "
                        "20\n" LINE(30, 202.0, 7.4) "\n" LINE(40, 203.0, 6.9) "\n" LINE(
                            50, 204.0, 6.8) "\n"
                                            "[after training is done] "
                                            "datetime: 2021-05-23 "
                                            "10:41:05 \n");
    const struct tr_record *run = &runs.list[0];

    (void)state;
    assert_int_equal(runs.count, 1);
    assert_int_equal(run->starts, 2);
    assert_int_equal(run->lost, 20);
    assert_int_equal(run->rows, 5);
    assert_int_equal(run->lines, 7);
    assert_true(run->row[2].field[TR_FIELD_ELAPSED] == 202.0);
    assert_int_equal(run->start[1].resumed, 20);
    assert_string_equal(tr_end_text(run->start[0].end), "preempted");
    assert_string_equal(tr_end_text(run->start[1].end), "done");
    assert_string_equal(run->start[1].ended, "2021-05-23 10:41:05");
    tr_records_release(&runs);
}

#define BEFORE           \
    LINE(10, 100.0, 9.0) \
    "\n" LINE(20, 101.0, 8.0) "\n" LINE(30, 102.0, 7.0) "\n" LINE(30, 102.0, 7.0) "\n"
#define AFTER LINE(20, 99.0, 8.0) "\n" LINE(30, 98.0, 7.0) "\n"

/* Without headers: iterations that begin again are another run, unless the log says from where. */
static void without_headers(void **state)
{
    struct tr_records runs = read_text(BEFORE AFTER);

    (void)state;
    assert_int_equal(runs.count, 2);
    assert_int_equal(runs.list[0].rows, 3);
    assert_int_equal(runs.list[0].lost + runs.list[1].lost, 0);
    assert_int_equal(runs.list[1].rows, 2);
    assert_true(runs.list[1].row[0].field[TR_FIELD_ELAPSED] == 99.0);
    assert_int_equal(odd(&runs, TR_ODDITY_TWICE), 1);
    assert_int_equal(runs.odd[TR_ODDITY_TWICE].line, 4);
    tr_records_release(&runs);

    runs = read_text(BEFORE " loading checkpoint from /s/run at iteration 10\n" AFTER);
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.list[0].starts, 2);
    assert_int_equal(runs.list[0].lost, 20);
    assert_int_equal(runs.list[0].rows, 3);
    assert_true(runs.list[0].row[2].field[TR_FIELD_ELAPSED] == 98.0);
    tr_records_release(&runs);
}

/* The same shape once more, from the beginning, after a run that was interrupted: its own header
   says which run it is. */
static void from_the_beginning(void **state)
{
    static const char again[] = WORLD(2) LINE(10, 99.0, 9.0) "\n";
    static const struct {
        const char *header;
        int runs;
    } cases[] = {
        {"", 2},
        {"[start 1 of this run] datetime: 2021-05-23 08:41:04 | from: the beginning\n", 2},
        {"[start of a run] datetime: 2021-05-23 08:41:04 | from: the beginning\n", 2},
        {"[start 2 of this run] datetime: 2021-05-23 08:41:04 | from: the beginning\n", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[16384];
        struct tr_records runs;

        snprintf(text, sizeof text, "%s%s%s%s", WORLD(2), BEFORE, cases[i].header, again);
        runs = read_text(text);
        assert_int_equal(runs.count, cases[i].runs);
        assert_int_equal(runs.list[0].lost, cases[i].runs == 1 ? 30 : 0);
        tr_records_release(&runs);
    }
}

/* Another shape, or the same after an end in good order, is another run; one that failed at once
 * stays. */
static void several_runs(void **state)
{
    struct tr_records runs = read_text(
        WORLD(2) LINE(10, 100.0,
                      9.0) "\n[after training is done] datetime: 2021-05-23 08:41:05 \n" WORLD(2)
            LINE(10, 101.0, 9.0) "\n[after training is done] datetime: 2021-05-23 08:42:05 "
                                 "\n" WORLD(4) "RuntimeError: CUDA out of memory. Tried to "
                                               "allocate 2.00 GiB\n" WORLD(8)
                                                   LINE(10, 50.0, 9.0) "\n");

    (void)state;
    assert_int_equal(runs.count, 4);
    assert_string_equal(runs.list[0].name, "log");
    assert_string_equal(runs.list[3].name, "log#4");
    assert_int_equal(runs.list[2].rows, 0);
    assert_string_equal(tr_end_text(runs.list[2].start[0].end), "out of memory");
    assert_true(tr_record_fact(&runs.list[3], TR_FACT_PP) == 8.0);
    tr_records_release(&runs);
}

/* Two files of one run. */
static void joined(void **state)
{
    const char *pieces[] = {
        WORLD(2) LINE(10, 100.0, 9.0) "\n" LINE(20, 100.0, 9.0) "\n",
        WORLD(2) " loading checkpoint from /s/run at iteration 10\n" LINE(20, 101.0, 9.0) "\n"};
    struct tr_records runs = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        FILE *f = fmemopen((char *)(uintptr_t)pieces[i], strlen(pieces[i]), "r");

        assert_ok(tr_log_read_stream(f, "piece", i ? TR_LOG_GOES_ON : TR_LOG_APART, &runs));
        fclose(f);
    }
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.list[0].lost, 10);
    assert_int_equal(runs.list[0].rows, 2);
    assert_true(runs.list[0].row[1].field[TR_FIELD_ELAPSED] == 101.0);
    tr_records_release(&runs);
}

/* Lines whose end was lost, as ranks that print at the same time leave them. */
static void glued(void **state)
{
    struct tr_records runs = read_text(WORLD(2) "warning" LINE(
        10, 100.0, 9.0) "time (ms) | forward-compute: 10.50 | "
                        "optimizer: 2.25[Rank 1] (after 10 iterations) memory (MB) | allocated: "
                        "7.0 | max allocated: 8.5 "
                        "| reserved: 9.0 | max reserved: 10.0[Rank 0] (after 10 iterations) memory "
                        "(MB) | allocated: "
                        "17.0 | max allocated: 18.5 | reserved: 19.0 | max reserved: 20.0" LINE(
                            20, 90.0, 8.0) "\n");
    const struct tr_record *run = &runs.list[0];

    (void)state;
    assert_int_equal(run->rows, 2);
    assert_int_equal(run->row[0].timings, 2);
    assert_true(run->timing[1].last == 2.25);
    assert_int_equal(run->memories, 2);
    assert_true(run->memory[0].max_allocated == 18.5 && run->memory[1].max_reserved == 10.0);
    tr_records_release(&runs);
}

/* A log that ends in the middle: 13 of 1380.6 ms must not become 13 ms. */
static void truncated(void **state)
{
    struct tr_records runs =
        read_text(LINE(10, 100.0, 9.0) "\ntime (ms) | forward-compute: 10.50 | optimizer: 22.1");

    (void)state;
    assert_int_equal(runs.list[0].row[0].timings, 1);
    assert_int_equal(odd(&runs, TR_ODDITY_CUT), 1);
    assert_int_equal(runs.odd[TR_ODDITY_CUT].line, 2);
    tr_records_release(&runs);

    runs = read_text(LINE(10, 100.0, 9.0) "\n iteration 20/ 1000 | consumed samples: 80 | elapsed "
                                          "time per iteration (ms): 13");
    assert_int_equal(runs.list[0].rows, 1);
    assert_int_equal(odd(&runs, TR_ODDITY_TORN), 1);
    assert_int_equal(odd(&runs, TR_ODDITY_CUT), 1);
    tr_records_release(&runs);

    /* The time is whole, the loss is not. */
    runs =
        read_text(" iteration 20/ 1000 | elapsed time per iteration (ms): 1380.6 | lm loss: 7.9");
    assert_true(runs.list[0].row[0].field[TR_FIELD_ELAPSED] == 1380.6);
    assert_true(isnan(runs.list[0].row[0].field[TR_FIELD_LOSS]));
    tr_records_release(&runs);
}

static void junk(void **state)
{
    static const char binary[] =
        "\x7f"
        "ELF\0\1\2" LINE(10, 100.0, 9.0) "\r\n\0\0" LINE(20, 99.0, 8.0) "\r\n";
    size_t bytes = (3u << 20);
    char *text = malloc(bytes);
    struct tr_records runs = read_bytes(binary, sizeof binary - 1);

    (void)state;
    assert_int_equal(runs.list[0].rows, 2);
    assert_int_equal(runs.list[0].row[1].line, 2);
    assert_int_equal(odd(&runs, TR_ODDITY_BINARY), 2);
    tr_records_release(&runs);

    /* A line of 3 MiB of the beginnings of lines, then a good one. */
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = "iteration 1/2 | a: [Rank 3] (after checkpoint from time (ms) | : "[i % 65];
    memcpy(text + bytes - sizeof "\n" LINE(30, 98.0, 7.0) "\n", "\n" LINE(30, 98.0, 7.0) "\n",
           sizeof "\n" LINE(30, 98.0, 7.0) "\n");
    runs = read_bytes(text, bytes - 1);
    assert_int_equal(runs.list[0].rows, 1);
    assert_int_equal(odd(&runs, TR_ODDITY_LONG), 1);
    tr_records_release(&runs);
    free(text);

    /* A value that is no number, and numbers that no run can have. */
    runs =
        read_text(" iteration 10/ 1000 | elapsed time per iteration (ms): 5.0 | lm loss: what |\n"
                  " iteration 20/ 1000 | elapsed time per iteration (ms): -5.0 |\n"
                  " iteration 30/ 1000 | elapsed time per iteration (ms): 1e99 |\n"
                  " iteration 99999999999999999999/ 1000 | elapsed time per iteration (ms): 5.0 |\n"
                  " iteration 40/ 1000 | elapsed time per iteration (ms): 6.0 | lm loss: nan |\n");
    assert_int_equal(runs.list[0].rows, 2);
    assert_int_equal(odd(&runs, TR_ODDITY_NUMBER), 1);
    assert_int_equal(odd(&runs, TR_ODDITY_TORN), 2);
    assert_int_equal(runs.odd[TR_ODDITY_TORN].line, 2);
    tr_records_release(&runs);
}

/* --log-format terminal: two starts, truncated lines, other text before the line and after it. */
static void terminal(void **state)
{
    struct tr_records runs = read_text(
        "training on 2 CPU ranks (TP 1, PP 2, DP 1): iterations 1 to 1000 of 8 samples, 32 tokens "
        "each\r\n"
        "  40/1000  loss 5.3241  142298 tokens/s  1.8 ms  0 s left  lr 2.000e-03  grad norm "
        "1.7555\r\n"
        "0:   80/1000  loss -  14 tokens/s  12.50 s  3 h 12 min left  loss scale 32768  40 "
        "skipped  2 nan  lr 1.000e-03\n"
        "validation loss at iteration 80: 4.6135, perplexity 100.84\n"
        "checkpoint saved at iteration 80 in there, 0.03 s\n"
        "loaded checkpoint from there at iteration 80\n"
        "training on 2 CPU ranks (TP 1, PP 2, DP 1): iterations 81 to 1000 of 8 samples, 32 tokens "
        "each\n"
        " 120/1000  loss 4.25  142298 tokens/s  2.0 ms  1 min 20 s left  lr 5.000e-04\n"
        "training is done: 40 iterations in 0 s\n"
        "what is  loss 3  to anybody, and 1/2  loss 3 kg\n"
        " 160/1000  loss 4.1000  99 tokens/s  3.0 ms  lr 1.0");
    const struct tr_record *run = &runs.list[0];
    const struct tr_row *row = run->row;

    (void)state;
    assert_int_equal(runs.count, 1);
    assert_int_equal(run->starts, 2);
    assert_int_equal(run->rows, 4);
    assert_true(run->ours && run->processor == TR_PROCESSOR_CPU);
    assert_true(run->fact[TR_FACT_PP] == 2.0 && run->fact[TR_FACT_BATCH] == 8.0);
    assert_true(run->fact[TR_FACT_SEQ] == 32.0 && run->fact[TR_FACT_ITERATIONS] == 1000.0);
    assert_true(row[0].field[TR_FIELD_LOSS] == 5.3241 && row[0].field[TR_FIELD_ELAPSED] == 1.8);
    assert_true(row[0].field[TR_FIELD_NORM] == 1.7555 && row[0].field[TR_FIELD_SKIPPED] == 0.0);
    assert_true(isnan(row[1].field[TR_FIELD_LOSS]) && row[1].field[TR_FIELD_NANS] == 2.0);
    assert_true(row[1].field[TR_FIELD_ELAPSED] == 12500.0);
    assert_true(row[1].field[TR_FIELD_SKIPPED] == 40.0 && row[1].field[TR_FIELD_SCALE] == 32768.0);
    assert_int_equal(row[2].iteration, 120);
    assert_true(row[2].field[TR_FIELD_ELAPSED] == 2.0 && row[2].field[TR_FIELD_RATE] == 5e-4);
    assert_true(isnan(row[3].field[TR_FIELD_RATE]) && row[3].field[TR_FIELD_ELAPSED] == 3.0);
    assert_int_equal(odd(&runs, TR_ODDITY_CUT), 1);
    assert_int_equal(odd(&runs, TR_ODDITY_TORN), 1);
    assert_int_equal(run->saves, 1);
    assert_true(run->validation == 4.6135);
    assert_int_equal(run->start[1].resumed, 80);
    tr_records_release(&runs);
}

static void nothing(void **state)
{
    struct tr_records runs = {0};

    (void)state;
    assert_fails(TR_EDATA, "no line of log (2 read)", fails_on("hello\nthis is iteration 5\n"));
    assert_fails(TR_EDATA, "no line of log (1 read)", fails_on("iteration 5/ | "));
    assert_fails(TR_EIO, "cannot open the log /nonexistent/log",
                 tr_log_read("/nonexistent/log", TR_LOG_APART, &runs));
    assert_fails(TR_EIO, "cannot be read beyond line 0", tr_log_read("/", TR_LOG_APART, &runs));
}

/* Published tables of the sign test: the intervals of the median for 5, 6, 10 and 20 values. */
static void intervals(void **state)
{
    static const struct {
        int n, low, high;
        double sure;
    } known[] = {{2, 1, 2, 0.5},      {5, 1, 5, 0.9375},    {6, 1, 6, 0.96875},
                 {10, 2, 9, 0.97852}, {20, 6, 15, 0.95861}, {100, 40, 61, 0.96480}};
    double x[100];

    (void)state;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        struct tr_order o;

        for (int i = 0; i < known[k].n; i++)
            x[i] = known[k].n - i;
        o = tr_order_of(x, known[k].n);
        assert_true(o.low == known[k].low && o.high == known[k].high);
        assert_true(fabs(o.sure - known[k].sure) < 5e-6);
        assert_true(o.median == 0.5 * (known[k].n + 1) && o.mean == o.median);
    }
    x[0] = 3.0;
    assert_true(tr_order_of(x, 1).low == 3.0 && tr_order_of(x, 1).sure == 0.0);
    x[0] = NAN;
    assert_true(isnan(tr_order_of(x, 1).median));
}

/* Which lines count: of 8 the first two do not, nor the one with an evaluation in it. */
static void selection(void **state)
{
    struct tr_records runs = read_text(
        LINE(10, 900.0, 9.0) "\n" LINE(20, 800.0, 9.0) "\n" LINE(30, 100.0, 9.0) "\n" LINE(
            40, 101.0, 9.0) "\n"
                            " validation loss at iteration 40 | lm loss value: 8.017406E+00 | lm "
                            "loss PPL: 3.03E+03 | \n" LINE(50, 500.0, 9.0) "\n" LINE(
                                60, 102.0, 9.0) "\n" LINE(70, 103.0, 9.0) "\n" LINE(80, 104.0,
                                                                                    9.0) "\n");
    struct tr_selection s = tr_select_rows(&runs.list[0], TR_WARMUP_AUTO);
    struct tr_order o = tr_selection_order(&runs.list[0], &s, TR_FIELD_ELAPSED);

    (void)state;
    assert_int_equal(s.count, 5);
    assert_int_equal(s.warm, 2);
    assert_int_equal(s.interrupted, 1);
    assert_true(o.median == 102.0 && o.min == 100.0 && o.max == 104.0);
    assert_int_equal(runs.list[0].evaluations, 1);
    tr_selection_release(&s);
    s = tr_select_rows(&runs.list[0], 70);
    assert_int_equal(s.count, 1);
    tr_selection_release(&s);
    tr_records_release(&runs);
}

#define TIMES(forward, fill, backward, drain)                                                      \
    "\ntime (ms) | forward-compute: " #forward " | forward-recv: " #fill                           \
    " | backward-compute: " #backward " | backward-send: 1.00 | backward-params-all-reduce: 3.00 " \
    "| backward-embedding-all-reduce: " #drain                                                     \
    " | optimizer-clip-main-grad: 1.00 | optimizer: 5.00 | batch-generator: 2.00\n"

/* The two lines of timers that the study of May 2021 printed: each name, in its order, and each number. */
static void study(void **state)
{
    static const char *const names[] = {"forward-compute",
                                        "forward-recv",
                                        "backward-compute",
                                        "backward-send",
                                        "backward-send-forward-recv",
                                        "backward-params-all-reduce",
                                        "backward-embedding-all-reduce",
                                        "optimizer-copy-to-main-grad",
                                        "optimizer-unscale-and-check-inf",
                                        "optimizer-clip-main-grad",
                                        "optimizer-copy-main-to-model-params",
                                        "optimizer",
                                        "batch-generator"};
    enum { NAMES = (int)(sizeof names / sizeof names[0]) };
    static const double ms[2][NAMES] = {
        {53.79, 38.38, 138.84, 0.28, 2.60, 10.17, 135.50, 4.48, 12.63, 8.62, 4.42, 49.42, 2.35},
        {77.94, 285.81, 203.21, 0.91, 5.44, 10.38, 811.34, 4.61, 7.90, 7.91, 3.95, 43.19, 2.64}};
    struct tr_records runs = read_text(
        "iteration      200/    1000 | consumed samples:          800 | elapsed time per iteration "
        "(ms): 430.0 | global batch size:     4 |\ntime (ms) | forward-compute: 53.79 | "
        "forward-recv: 38.38 | backward-compute: 138.84 | backward-send: 0.28 | "
        "backward-send-forward-recv: 2.60 | backward-params-all-reduce: 10.17 | "
        "backward-embedding-all-reduce: 135.50 | optimizer-copy-to-main-grad: 4.48 | "
        "optimizer-unscale-and-check-inf: 12.63 | optimizer-clip-main-grad: 8.62 | "
        "optimizer-copy-main-to-model-params: 4.42 | optimizer: 49.42 | batch-generator: 2.35\n\n"
        " iteration      210/    1000 | consumed samples:          840 | elapsed time per "
        "iteration "
        "(ms): 1439.3 | global batch size:     4 |\ntime (ms) | forward-compute: 77.94 | "
        "forward-recv: 285.81 | backward-compute: 203.21 | backward-send: 0.91 | "
        "backward-send-forward-recv: 5.44 | backward-params-all-reduce: 10.38 | "
        "backward-embedding-all-reduce: 811.34 | optimizer-copy-to-main-grad: 4.61 | "
        "optimizer-unscale-and-check-inf: 7.90 | optimizer-clip-main-grad: 7.91 | "
        "optimizer-copy-main-to-model-params: 3.95 | optimizer: 43.19 | batch-generator: 2.64\n");
    const struct tr_record *run = &runs.list[0];

    (void)state;
    assert_int_equal(run->rows, 2);
    assert_int_equal(run->timers, NAMES);
    for (int i = 0; i < NAMES; i++) {
        assert_string_equal(run->timer[i], names[i]);
        for (int k = 0; k < 2; k++)
            assert_true(tr_row_timing(run, &run->row[k], i)->last == ms[k][i]);
    }
    tr_records_release(&runs);
}

/* 3 stages, 4 micro-batches of 10 ms forward and 20 back: 20 ms until it has filled, 40 to drain;
   timers of 25 and 38 ms. */
static void parts(void **state)
{
    struct tr_records runs =
        read_text(WORLD(3) "setting number of micro-batches to constant 4\n" LINE(10, 200.0, 9.0)
                      TIMES(40.00, 25.00, 80.00, 38.00));
    struct tr_breakdown b;
    double sum = 0.0;

    (void)state;
    assert_ok(tr_break_down(&runs.list[0], TR_WARMUP_AUTO, &b));
    assert_true(b.part[TR_PART_COMPUTE] == 118.0);
    assert_true(b.part[TR_PART_FILL] == 20.0);
    assert_true(b.part[TR_PART_DRAIN] == 38.0);
    assert_true(b.part[TR_PART_TRANSFER] == 6.0);
    assert_true(b.part[TR_PART_GRADIENTS] == 3.0);
    assert_true(b.part[TR_PART_OPTIMIZER] == 5.0);
    assert_true(b.part[TR_PART_DATA] == 2.0);
    assert_true(b.part[TR_PART_OTHER] == 8.0);
    for (int p = 0; p < TR_PARTS; p++)
        sum += b.part[p];
    assert_true(sum == b.ms && b.ms == 200.0);

    /* Two chunks a stage halve the bubble. */
    runs.list[0].fact[TR_FACT_CHUNKS] = 2.0;
    assert_ok(tr_break_down(&runs.list[0], TR_WARMUP_AUTO, &b));
    assert_true(b.fill_by_formula == 10.0 && b.drain_by_formula == 20.0);
    runs.list[0].fact[TR_FACT_MICROS] = NAN;
    assert_fails(TR_ECONFIG, "--micro-batches", tr_break_down(&runs.list[0], TR_WARMUP_AUTO, &b));
    runs.list[0].timers = 0;
    assert_fails(TR_EDATA, "--timing-log-level", tr_break_down(&runs.list[0], TR_WARMUP_AUTO, &b));
    runs.list[0].timers = 9;
    tr_records_release(&runs);
}

/* Waiting separated from transfer: 17 ms to fill instead of the 20 of the formula, 31 to drain of
   which 1 in the optimizer. */
static void measured(void **state)
{
    struct tr_records runs = read_text(
        WORLD(3) "setting number of micro-batches to constant 4\n" LINE(10, 200.0, 9.0)
            TIMES(40.00, 25.00, 80.00, 38.00) "wait and transfer (ms) | pipeline-fill-wait: 17.00 "
                                              "| pipeline-steady-wait: 0.25 | "
                                              "pipeline-drain-wait: 31.00 | forward-recv-wait: "
                                              "17.00 | optimizer-wait: 1.00\n");
    struct tr_breakdown b;
    double sum = 0.0;

    (void)state;
    assert_ok(tr_break_down(&runs.list[0], TR_WARMUP_AUTO, &b));
    assert_true(b.measured);
    assert_true(b.part[TR_PART_FILL] == 17.0 && b.part[TR_PART_DRAIN] == 31.0);
    assert_true(b.part[TR_PART_TRANSFER] == 1.0 + 8.0 + 8.0);
    assert_true(b.part[TR_PART_OPTIMIZER] == 4.0 && b.part[TR_PART_OTHER] == 8.0 + 16.0 - 16.0);
    for (int p = 0; p < TR_PARTS; p++)
        sum += b.part[p];
    assert_true(sum == 200.0);
    tr_records_release(&runs);
}

/* 6 lines each, first disjoint and then overlapping. */
static void comparison(void **state)
{
    struct tr_records runs = read_text(
        WORLD(2) LINE(10, 10.0, 9.0) "\n" LINE(20, 11.0, 9.0) "\n" LINE(30, 12.0, 9.0) "\n" LINE(
            40, 13.0, 9.0) "\n" LINE(50, 14.0, 9.0) "\n" LINE(60, 15.0, 9.0) "\n" WORLD(4)
            LINE(10, 16.0, 9.0) "\n" LINE(20, 17.0, 9.0) "\n" LINE(30, 18.0, 9.0) "\n" LINE(
                40, 19.0, 9.0) "\n" LINE(50, 20.0, 9.0) "\n" LINE(60, 15.5, 9.0) "\n");
    struct tr_comparison c;

    (void)state;
    assert_int_equal(runs.count, 2);
    assert_ok(tr_compare(&runs.list[0], &runs.list[1], 0, &c));
    assert_int_equal(c.count, 1);
    assert_int_equal(c.phase[0].verdict, TR_SLOWER);
    assert_true(fabs(c.sure - 0.96875) < 1e-9);
    tr_comparison_release(&c);
    assert_ok(tr_compare(&runs.list[1], &runs.list[0], 0, &c));
    assert_int_equal(c.phase[0].verdict, TR_FASTER);
    tr_comparison_release(&c);
    runs.list[1].row[5].field[TR_FIELD_ELAPSED] = 15.0;
    assert_ok(tr_compare(&runs.list[0], &runs.list[1], 0, &c));
    assert_int_equal(c.phase[0].verdict, TR_WITHIN_NOISE);
    tr_comparison_release(&c);
    assert_fails(TR_EDATA, "log has no iteration line that counts",
                 tr_compare(&runs.list[0], &runs.list[1], 1000, &c));
    tr_comparison_release(&c);
    tr_records_release(&runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),
        cmocka_unit_test(deepspeed),
        cmocka_unit_test(seconds),
        cmocka_unit_test(core),
        cmocka_unit_test(all_ranks),
        cmocka_unit_test(requeued),
        cmocka_unit_test(without_headers),
        cmocka_unit_test(from_the_beginning),
        cmocka_unit_test(several_runs),
        cmocka_unit_test(joined),
        cmocka_unit_test(glued),
        cmocka_unit_test(truncated),
        cmocka_unit_test(junk),
        cmocka_unit_test(terminal),
        cmocka_unit_test(nothing),
        cmocka_unit_test(intervals),
        cmocka_unit_test(selection),
        cmocka_unit_test(study),
        cmocka_unit_test(parts),
        cmocka_unit_test(measured),
        cmocka_unit_test(comparison),
    };

    return run_tap(tests);
}
