/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever the reader of logs is given, it ends, keeps its promises, and every table can be made of
   what it found. */
#include <math.h>
#include <string.h>

#include "config/config.h"
#include "fuzzing/fuzz.h"
#include "report/run_log.h"
#include "report/present.h"
#include "report/summary.h"

static void check_run(const struct tr_record *r)
{
    int64_t timings = 0;

    MUST(r->name && r->starts > 0 && r->timers <= 64);
    for (int64_t i = 0; i < r->rows; i++) {
        const struct tr_row *row = &r->row[i];

        MUST(row->field[TR_FIELD_ELAPSED] >= 0.0 && row->field[TR_FIELD_ELAPSED] < 1e12);
        MUST(row->start >= 0 && row->start < r->starts && row->iteration > 0);
        MUST(i == 0 || row->iteration > row[-1].iteration);
        MUST(row->first_timing == timings);
        timings += row->timings;
        for (int n = 0; n < row->timings; n++)
            MUST(r->timing[row->first_timing + n].name < r->timers);
    }
    MUST(timings == r->timings);
}

static void make_tables(const struct tr_records *runs, FILE *out)
{
    struct tr_columns columns;
    struct tr_groups groups;
    const struct tr_present p = {runs, TR_WARMUP_AUTO, TR_FLOPS_CORE, 125.0, &columns, &groups};
    struct tr_table t[10];
    enum tr_status s[3];

    MUST(tr_columns_parse("--columns", "default", &columns) == TR_OK);
    MUST(tr_groups_parse("size,gpus", "default", &groups) == TR_OK);
    memset(t, 0, sizeof t);
    tr_present_runs(&p, &t[0]);
    tr_present_summary(&p, &t[1]);
    tr_present_starts(&p, &t[2]);
    tr_present_iterations(&p, &t[3]);
    s[0] = tr_present_breakdown(&p, &t[4]);
    s[1] = tr_present_scaling(&p, &t[5]);
    s[2] = tr_present_comparison(&p, &t[6]);
    tr_present_goodput(&p, &t[7]);
    tr_present_slow(&p, &t[8]);
    tr_present_groups(&p, &t[9]);
    for (int i = 0; i < 3; i++)
        MUST(s[i] == TR_OK || s[i] == TR_EDATA || s[i] == TR_ECONFIG);
    for (int f = TR_TABLE_TEXT; f <= TR_TABLE_LATEX; f++)
        tr_tables_write(t, 10, (enum tr_table_format)f, out);
    for (int i = 0; i < 10; i++)
        tr_table_release(&t[i]);
    tr_columns_release(&columns);
    tr_groups_release(&groups);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_records runs = {0};
    FILE *f = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    enum tr_status s;

    if (!f)
        return;
    s = tr_log_read_stream(f, "fuzz", TR_LOG_APART, &runs);
    MUST(s == TR_OK || s == TR_EDATA);
    MUST((s == TR_OK) == (runs.count > 0));
    for (int i = 0; i < runs.count; i++)
        check_run(&runs.list[i]);
    make_tables(&runs, fuzz_nowhere());
    tr_records_release(&runs);
    fclose(f);
}

/* Pieces that a log is made of, where a byte alone would seldom hit one. */
static const char *const words[] = {
    "\n",
    "|",
    ":",
    " iteration        7/    1000 |",
    "time (ms) | forward-compute: 1.00 |",
    "(min, max) time across ranks (ms):\n",
    "times across ranks (ms):\n  optimizer:\n     rank  0: 1.00\n",
    "max time across ranks (ms):\n    optimizer ....: 3.00\n",
    "nan",
    "-1",
    "1e308",
    "inf",
    "0",
    "using world size: 8, data-parallel-size: 0, tensor-model-parallel size: 3\n",
    "[start 2 of this run] datetime: 2026-11-22 05:12:33 | nodes: 1 (vm) | from: the beginning\n",
    "------------------------ arguments ------------------------\n",
    "-------------------- end of arguments ---------------------\n",
    "  hidden_size ....... 0\n",
    " loading checkpoint from /x at iteration 50\n",
    "[Rank 65535] (after 1 iterations) memory (MB) | ",
    "allocated: 1.0 |",
    "[after training is done] datetime: 2021-05-23 08:41:04 \n",
    "\r\n",
    "CUDA out of memory",
    " elapsed time per iteration (ms): 5.0 |",
    "99999999999999999999",
    NULL,
};

const struct fuzz_target fuzz_log = {
    .name = "log", .run = run, .words = words, .files = "tests/report/jean-zay-*.log"};
