/* SPDX-License-Identifier: BSD-3-Clause */
/* What `trireme plan --json` and `trireme sim --json` print, as runs of a report, and the front of a search. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "fuzzing/fuzz.h"
#include "report/plan_file.h"
#include "report/plot.h"

static void check_run(const struct tr_record *r)
{
    double sum = 0.0;

    MUST(r->name && r->starts == 1 && r->rows <= 1 && r->origin != TR_ORIGIN_MEASURED);
    for (int p = 0; p < TR_PARTS; p++) {
        MUST(r->part[p] >= 0.0 && r->part[p] < 1e13);
        sum += r->part[p];
    }
    if (r->rows == 1)
        MUST(sum >= 0.999 * r->row[0].field[TR_FIELD_ELAPSED]);
    for (int i = 0; i < r->memories; i++)
        MUST(isnan(r->memory[i].allocated) || r->memory[i].allocated > 0.0);
}

static void make_all(const struct tr_records *runs, FILE *out)
{
    struct tr_columns columns;
    const struct tr_present p = {runs, TR_WARMUP_AUTO, TR_FLOPS_CORE, 125.0, &columns, NULL};
    struct tr_table t[3];

    MUST(tr_columns_parse("--columns", "default", &columns) == TR_OK);
    memset(t, 0, sizeof t);
    tr_present_runs(&p, &t[0]);
    fuzz_any(tr_present_breakdown(&p, &t[1]));
    fuzz_any(tr_present_scaling(&p, &t[2]));
    tr_tables_write(t, 3, TR_TABLE_CSV, out);
    for (int i = 0; i < 3; i++)
        tr_table_release(&t[i]);
    for (int kind = TR_PLOT_LOSS; kind < TR_PLOT_PARETO; kind++) {
        struct tr_plot plot;

        if (tr_plot_of((enum tr_plot_kind)kind, &p, &plot) == TR_OK)
            fuzz_any(tr_draw_script(&plot, out));
        tr_plot_release(&plot);
    }
    tr_columns_release(&columns);
}

static void read_front(void)
{
    struct tr_front front;

    if (tr_front_read(fuzz_path("x.json"), &front) == TR_OK)
        MUST(front.count > 0 && front.run[0].gpu_hours > 0.0);
    free(front.run);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_records runs = {0};

    fuzz_put("x.json", data, size);
    (void)tr_plan_file_kind(fuzz_path("x.json"));
    if (tr_plan_file_read(fuzz_path("x.json"), &runs) == TR_OK) {
        MUST(runs.count == 1);
        check_run(&runs.list[0]);
        make_all(&runs, fuzz_nowhere());
    }
    tr_records_release(&runs);
    read_front();
}

static const char *const words[] = {"\"seconds_of_a_rank\": ",
                                    "\"iteration_seconds\": ",
                                    "\"shape\": ",
                                    "\"stages\": ",
                                    "\"options\": ",
                                    "\"mean\": ",
                                    "\"rank\": ",
                                    "\"total\": ",
                                    "\"pareto\": [",
                                    "null",
                                    "-1",
                                    "1e300",
                                    "{",
                                    "}",
                                    ",",
                                    NULL};
const struct fuzz_target fuzz_plan_json = {.name = "plan_json", .run = run, .words = words};
