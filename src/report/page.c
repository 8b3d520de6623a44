/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/page.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch/libraries.h"
#include "report/page_figure.h"
#include "report/plot.h"
#include "report/table_parts.h"
#include "util/file.h"
#include "util/text.h"

/* The figures that stand behind a table. */
static const struct {
    const char *table;
    enum tr_plot_kind plot;
} figures[] = {
    {"runs", TR_PLOT_LOSS},           {"summary", TR_PLOT_THROUGHPUT}, {"summary", TR_PLOT_MEMORY},
    {"breakdown", TR_PLOT_BREAKDOWN}, {"scaling", TR_PLOT_SCALING},
};

/* A figure over a run needs two points of one. */
static bool is_worth_it(enum tr_plot_kind kind, const struct tr_plot *plot)
{
    const int64_t least = tr_plot_has_x(kind) ? 2 : 1;

    for (int i = 0; i < plot->count; i++)
        if (plot->series[i].count >= least)
            return true;
    return false;
}

enum { FIGURES = sizeof figures / sizeof figures[0] };

/* A study without a loss says why. */
static void put_figures(const char *table, const struct tr_present *p, FILE *f)
{
    for (int i = 0; i < FIGURES; i++) {
        struct tr_plot plot = {0};
        enum tr_status s;

        if (strcmp(figures[i].table, table) != 0)
            continue;
        s = tr_plot_has_x(figures[i].plot)
                ? tr_plot_against(figures[i].plot, p, TR_PLOT_X_ITERATIONS, &plot)
                : tr_plot_of(figures[i].plot, p, &plot);
        if (s == TR_OK && is_worth_it(figures[i].plot, &plot))
            tr_page_figure(&plot, i, f);
        else if (figures[i].plot == TR_PLOT_LOSS)
            tr_html_sentence(s == TR_OK ? "No figure of the loss: no run has two lines with one."
                                        : tr_last_error(),
                             f);
        tr_plot_release(&plot);
    }
}

/* Of files that turn out to be no searches, the reason. */
static void put_searches(const struct tr_words *searches, FILE *f)
{
    struct tr_plot plot = {0};
    enum tr_status s;

    if (searches->count == 0)
        return;
    fputs("<h2 id=\"search\">Searches</h2>\n", f);
    s = tr_plot_files(TR_PLOT_PARETO, searches->word, searches->count, &plot);
    if (s == TR_OK)
        tr_page_figure(&plot, FIGURES, f);
    else
        tr_html_sentence(tr_last_error(), f);
    tr_plot_release(&plot);
}

/* A table that has no rows has its reasons. */
static void put_table(const struct tr_table *t, const struct tr_present *p, FILE *f)
{
    if (t->cells > 0) {
        tr_table_html(t, f);
        put_figures(t->key, p, f);
        return;
    }
    if (t->notes > 0)
        fprintf(f, "<h2 id=\"%s\">%s</h2>\n", t->key, t->title);
    for (int i = 0; i < t->notes; i++)
        tr_html_sentence(t->note[i], f);
}

static void put_arguments(const struct tr_record *r, FILE *f)
{
    fputs("<details><summary>", f);
    tr_html_text(r->name, f);
    fputs("</summary>\n", f);
    if (r->arguments == 0)
        fputs("<p>The log does not have them.</p>\n", f);
    else
        fputs("<table>\n<tr><th>Option</th><th>Value</th></tr>\n", f);
    for (int i = 0; i < r->arguments; i++) {
        fputs("<tr><td>", f);
        tr_html_text(r->argument[i].name, f);
        fputs("</td><td>", f);
        tr_html_text(r->argument[i].value, f);
        fputs("</td></tr>\n", f);
    }
    fputs(r->arguments > 0 ? "</table>\n</details>\n" : "</details>\n", f);
}

/* Every word once. */
static char *once(char *list, const char *word)
{
    return !*word || (list && strstr(list, word)) ? list : tr_text_join(list, ", ", word);
}

/* How many runs, on which machines, from when to when; who made the page, and when. */
static void put_origin(const struct tr_records *runs, FILE *f)
{
    char *machines = NULL, *dates = NULL, *all, now[TR_TIME_BYTES], host[256] = "";

    for (int i = 0; i < runs->count; i++) {
        const struct tr_record *r = &runs->list[i];
        char *day = tr_format("%.10s", r->starts > 0 ? r->start[0].began : "");

        machines = once(machines, *r->machine ? r->machine : r->gpu ? r->gpu : "");
        dates = once(dates, day);
        free(day);
    }
    gethostname(host, sizeof host - 1);
    all = tr_format("%d run%s%s%s%s%s.  This page was made on %s at %s by %s.", runs->count,
                    tr_plural(runs->count), machines ? ", on " : "", machines ? machines : "",
                    dates ? ", of " : "", dates ? dates : "", host, tr_time_local(time(NULL), now),
                    tr_version_text());
    tr_html_sentence(all, f);
    free(all);
    free(machines);
    free(dates);
}

void tr_page_write(const char *title, const struct tr_table *t, int count,
                   const struct tr_present *p, const struct tr_words *searches, FILE *f)
{
    tr_html_begin(title, f);
    fputs("<h1>", f);
    tr_html_text(title, f);
    fputs("</h1>\n", f);
    put_origin(p->runs, f);
    for (int i = 0; i < count; i++)
        put_table(&t[i], p, f);
    put_searches(searches, f);
    fputs("<h2 id=\"options\">Options of the runs</h2>\n", f);
    for (int i = 0; i < p->runs->count; i++)
        put_arguments(&p->runs->list[i], f);
    tr_html_end(f);
}
