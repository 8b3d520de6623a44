/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "report/allocation.h"
#include "report/flight_align.h"
#include "report/logs.h"
#include "report/page.h"
#include "report/plan_file.h"
#include "report/plot.h"
#include "report/present.h"
#include "report/summary.h"
#include "report/trace_view.h"
#include "telemetry/gpus.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

enum show {
    SHOW_AUTO,
    SHOW_RUNS,
    SHOW_GROUPS, /* with --group-by */
    SHOW_PLANNED,
    SHOW_SUMMARY,
    SHOW_STARTS,
    SHOW_GOODPUT,
    SHOW_SLOW,
    SHOW_BREAKDOWN,
    SHOW_SCALING,
    SHOW_COMPARISON,
    SHOW_ITERATIONS,
    SHOWS
};

struct options {
    int show, format, plot, plot_x, flops_formula;
    int64_t warmup, iteration;
    double peak, smoothing;
    char *gpu, *output, *html, *columns, *group_by;
    struct {
        char *font;
        double points, width, height;
    } style; /* of a picture */
    bool join, recompute, timeline, flight, percent;
    int64_t fact[TR_FACTS];
};

#define ROWS_OF struct options
#define ROWS_GROUP "report"
#include "cmd/option_rows.h"

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "Options", .group = "report"},
    CHOICE(ROWS_GROUP, show, "show", "show", "auto",
           "which table; auto shows runs, planned, summary, starts, goodput, slow, breakdown and "
           "scaling, each where the logs have something for it"),
    ROW(TEXT, columns, "columns", NULL, ANY,
        "columns of the table of runs, which is then the only one without --html: NAME or "
        "NAME=HEADER with commas, or the lists jean-zay and megatron"),
    ROW(TEXT, group_by, "group-by", NULL, ANY,
        "one row for all runs that have the same in these columns, NAMEs with commas: how many "
        "runs, medians and their intervals; alone without --html"),
    CHOICE(ROWS_GROUP, format, "format", "format", "text", "output format"),
    CHOICE(ROWS_GROUP, plot, "plot", "plot", "none",
           "a plot in place of tables, as text or with --output SVG, PDF, PNG or gnuplot script; "
           "pareto takes files of `trireme plan --search --json`"),
    CHOICE(ROWS_GROUP, plot_x, "plot_x", "plot-x", "iterations",
           "x axis of --plot loss and throughput; time is that of training, energy that of all "
           "GPUs, in logs of --log-energy"),
    ROW(REAL, smoothing, "plot-smoothing", "0", ANY,
        "smooth the lines of --plot loss and throughput as TensorBoard does, by a weight of 0 (not "
        "at all) to below 1; originals are thin"),
    ROW(FLAG, percent, "plot-percent", "off", ANY,
        "bars of --plot breakdown in percent of their iteration"),
    ROW(TEXT, style.font, "plot-font", NULL, ANY,
        "font family of the picture, as fontconfig knows it; sans-serif unless given"),
    ROW(REAL, style.points, "plot-font-size", NULL, ABOVE_ZERO,
        "size of its letters in points; 9 unless given"),
    ROW(REAL, style.width, "plot-width", NULL, ABOVE_ZERO,
        "width of the picture in mm; 160 unless given; a column of a paper has 80 to 90"),
    ROW(REAL, style.height, "plot-height", NULL, ABOVE_ZERO,
        "height of the picture in mm; as much as the plot needs unless given"),
    ROW(FLAG, timeline, "timeline", "off", ANY,
        "draw traces of `trireme train --trace`, `sim --sim-trace` or `plan --plan-trace`: one "
        "iteration of all ranks as SVG; several traces above one another"),
    ROW(FLAG, flight, "flight", "off", ANY,
        "read the flight records of a run that hung or crashed, in the folder of --save: which "
        "rank is behind, or left none"),
    ROW(INT, iteration, "timeline-iteration", NULL, COUNT,
        "which iteration of those that were measured; the first of the trace unless given"),
    ROW(TEXT, output, "output", NULL, ANY,
        "file to write to, or -o; the standard output unless given"),
    ROW(TEXT, html, "html", NULL, ANY,
        "write a study to this file as one page of HTML: all tables, figures, and the options of "
        "each run"),
    ROW(INT, warmup, "warmup", NULL, COUNT_OR_0,
        "warm-up iterations at the start of a run that do not count; by default those of its first "
        "two lines, at most a quarter"),
    ROW(FLAG, join, "join", "off", ANY, "join the logs, which are parts of one run, in this order"),
    CHOICE(ROWS_GROUP, flops_formula, "flops_formula", "flops-formula", "2024",
           "FLOP formula of the model for MFU; auto is 2024"),
    ROW(TEXT, gpu, "gpu", NULL, ANY,
        "GPU whose peak counts for MFU and HFU: a100, h100, v100, ..."),
    ROW(REAL, peak, "peak-tflops", NULL, ABOVE_ZERO, "its peak in TFLOP/s, in place of --gpu"),
    {.kind = TR_ROW_GROUP, .name = "What the logs do not say, or say wrongly", .group = "facts"},
#define FACT(symbol, key, option, help_)                                            \
    {.kind = TR_ROW_OPT,                                                            \
     .group = "facts",                                                              \
     .type = TR_OPT_INT,                                                            \
     .offset = offsetof(struct options, fact) + TR_FACT_##symbol * sizeof(int64_t), \
     .name = option,                                                                \
     .check = TR_CHECK_COUNT,                                                       \
     .help = help_},
#include "config/facts.def"
    {.kind = TR_ROW_OPT,
     .group = "facts",
     .type = TR_OPT_FLAG,
     .offset = offsetof(struct options, recompute),
     .name = "recompute",
     .initial = "off",
     .help = "full activation recomputation: backward repeats the whole forward pass"},
};

static const struct tr_spelling spellings[] = {
    {"show", "auto", SHOW_AUTO, TR_SPELLING_MAIN, NULL},
    {"show", "runs", SHOW_RUNS, TR_SPELLING_MAIN, NULL},
    {"show", "summary", SHOW_SUMMARY, TR_SPELLING_MAIN, NULL},
    {"show", "starts", SHOW_STARTS, TR_SPELLING_MAIN, NULL},
    {"show", "planned", SHOW_PLANNED, TR_SPELLING_MAIN, NULL},
    {"show", "goodput", SHOW_GOODPUT, TR_SPELLING_MAIN, NULL},
    {"show", "slow", SHOW_SLOW, TR_SPELLING_MAIN, NULL},
    {"show", "breakdown", SHOW_BREAKDOWN, TR_SPELLING_MAIN, NULL},
    {"show", "scaling", SHOW_SCALING, TR_SPELLING_MAIN, NULL},
    {"show", "comparison", SHOW_COMPARISON, TR_SPELLING_MAIN, NULL},
    {"show", "iterations", SHOW_ITERATIONS, TR_SPELLING_MAIN, NULL},
    {"format", "text", TR_TABLE_TEXT, TR_SPELLING_MAIN, NULL},
    {"format", "markdown", TR_TABLE_MARKDOWN, TR_SPELLING_MAIN, NULL},
    {"format", "csv", TR_TABLE_CSV, TR_SPELLING_MAIN, NULL},
    {"format", "json", TR_TABLE_JSON, TR_SPELLING_MAIN, NULL},
    {"format", "html", TR_TABLE_HTML, TR_SPELLING_MAIN, NULL},
    {"format", "latex", TR_TABLE_LATEX, TR_SPELLING_MAIN, NULL},
    {"format", "md", TR_TABLE_MARKDOWN, TR_SPELLING_SAME, NULL},
    {"format", "tex", TR_TABLE_LATEX, TR_SPELLING_SAME, NULL},
    {"plot", "none", TR_PLOT_NONE, TR_SPELLING_MAIN, NULL},
#define PLOT_FILES(symbol, name, function) {"plot", name, TR_PLOT_##symbol, TR_SPELLING_MAIN, NULL},
#define PLOT(symbol, name, function, axis) PLOT_FILES(symbol, name, function)
#include "report/plots.def"
#define PLOT_X(symbol, name) {"plot_x", name, TR_PLOT_X_##symbol, TR_SPELLING_MAIN, NULL},
#include "report/plots.def"
#define VALUE(set, symbol, value, spelling) {#set, spelling, symbol, TR_SPELLING_MAIN, NULL},
#include "config/enums.def"
};

static const struct tr_options table = {
    "report", rows, sizeof rows / sizeof rows[0], spellings, sizeof spellings / sizeof spellings[0],
    NULL};

static const struct tr_options *options(void)
{
    return &table;
}

const struct tr_doc tr_doc_report = {
    .synopsis = "trireme report LOG|JSON|FOLDER... [OPTION...]\n"
                "trireme report --timeline TRACE [-o FILE]\n"
                "trireme report --flight FOLDER [--format FORMAT] [-o FILE]",
    .about =
        "Analyze training logs, of trireme in each --log-format, of Megatron-LM since 2021 and of "
        "Megatron-DeepSpeed.  A report has iteration times, samples and tokens per second, "
        "TFLOP/s, MFU and HFU, memory, losses, and starts with why they ended.  The breakdown of "
        "an iteration sums to its time, with the pipeline bubble (fill and drain) apart from "
        "transfers.  Scaling efficiency comes by factors, and two runs are compared phase by "
        "phase.  - is the standard input, and a folder stands for the logs in it.  Files NAME.json "
        "there, which `trireme plan --json` and `trireme sim --json` print, are runs that were not "
        "measured.  No job and no GPU is needed.\n"
        "\n"
        "A log may hold several starts of one run: what a later start did again counts once.  "
        "Malformed lines are read as far as possible, and reported on the standard error with "
        "their line number.\n"
        "\n"
        "    trireme report slurm-4711.out\n"
        "    trireme report slurm-*.out --join --gpu v100\n"
        "    trireme report 16.log 64.log --show scaling --format markdown\n"
        "    trireme report 16.log 64.log --columns jean-zay --format markdown\n"
        "    trireme report study --columns jean-zay,from\n"
        "    trireme report sweep --group-by gpus,tp,pp --columns seconds_per_it,tflops\n"
        "    trireme report sweep --html sweep.html\n"
        "    trireme report before.log after.log --show comparison\n"
        "    trireme report run.log --plot loss -o loss.svg\n"
        "    trireme report search.json --plot pareto --plot-width 84 -o pareto.pdf\n"
        "    trireme report --timeline trace.json -o iteration.svg\n"
        "    trireme report --flight runs/a\n"
        "\n"
        "Plots are drawn by gnuplot.  Where there is none, a plot that was to become a file is "
        "printed as text, and the exit code is 69.  A name that ends in .gp needs no gnuplot.\n"
        "\n"
        "The exit code is 65 if a log has nothing of training in it, or a folder no flight "
        "records, or files that are none.  It is 74 if one cannot be read.",
    .options = options,
};

/* ---- what the logs do not say ---- */

/* What was typed counts more than what a log says. */
static void override(const struct options *o, struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++) {
        struct tr_record *r = &runs->list[i];

        for (int f = 0; f < TR_FACTS; f++)
            if (o->fact[f] != TR_UNSET_INT)
                r->fact[f] = (double)o->fact[f];
        r->recompute |= o->recompute;
    }
}

static enum tr_status find_peak(const struct options *o, double *peak)
{
    char *names;
    enum tr_status s;

    *peak = o->peak > 0.0 ? o->peak : NAN;
    if (!o->gpu)
        return TR_OK;
    *peak = tr_gpu_peak(o->gpu);
    if (*peak > 0.0)
        return TR_OK;
    names = tr_gpu_names();
    s = TR_FAIL(TR_ECONFIG, "--gpu %s: its peak is not known; give --peak-tflops, or one of %s",
                o->gpu, names);
    free(names);
    return s;
}

/* ---- tables ---- */

static bool gpus_differ(const struct tr_records *runs)
{
    double first = NAN;

    for (int i = 0; i < runs->count; i++) {
        double gpus = tr_record_fact(&runs->list[i], TR_FACT_WORLD);

        if (isnan(gpus))
            return false;
        if (gpus < first || gpus > first)
            return true;
        first = gpus;
    }
    return false;
}

static bool have_timers(const struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++)
        if (runs->list[i].timers > 0 ||
            (runs->list[i].origin != TR_ORIGIN_MEASURED && runs->list[i].rows > 0))
            return true;
    return false;
}

static bool have_slow(const struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++)
        if (runs->list[i].slows > 0)
            return true;
    return false;
}

static bool restarted(const struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++)
        if (runs->list[i].starts > 1)
            return true;
    return false;
}

/* Does a log say when its run began and ended? */
static bool have_dates(const struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++)
        if (runs->list[i].origin == TR_ORIGIN_MEASURED &&
            !isnan(tr_allocation_of(&runs->list[i]).allocated))
            return true;
    return false;
}

static enum tr_status make(const struct tr_present *p, enum show which, struct tr_table *t)
{
    switch (which) {
    case SHOW_RUNS:
        tr_present_runs(p, t);
        break;
    case SHOW_GROUPS:
        tr_present_groups(p, t);
        break;
    case SHOW_PLANNED:
        return tr_present_planned(p, t);
    case SHOW_SUMMARY:
        tr_present_summary(p, t);
        break;
    case SHOW_STARTS:
        tr_present_starts(p, t);
        break;
    case SHOW_GOODPUT:
        tr_present_goodput(p, t);
        break;
    case SHOW_SLOW:
        tr_present_slow(p, t);
        break;
    case SHOW_BREAKDOWN:
        return tr_present_breakdown(p, t);
    case SHOW_SCALING:
        return tr_present_scaling(p, t);
    case SHOW_COMPARISON:
        return tr_present_comparison(p, t);
    default:
        tr_present_iterations(p, t);
    }
    return TR_OK;
}

/* What auto shows, and a page; a breakdown for which a number is missing then becomes a hint. */
static enum tr_status make_auto(const struct tr_present *p, bool page, struct tr_table *t,
                                int *count)
{
    const bool wanted[SHOWS] = {
        [SHOW_RUNS] = true,
        [SHOW_GROUPS] = p->groups != NULL,
        [SHOW_PLANNED] = tr_planned_any(p->runs),
        [SHOW_SUMMARY] = true,
        [SHOW_STARTS] = restarted(p->runs),
        [SHOW_GOODPUT] = restarted(p->runs) || (page && have_dates(p->runs)),
        [SHOW_SLOW] = have_slow(p->runs),
        [SHOW_BREAKDOWN] = have_timers(p->runs),
        [SHOW_SCALING] = gpus_differ(p->runs),
    };

    for (int which = SHOW_RUNS; which < SHOWS; which++) {
        if (!wanted[which])
            continue;
        if (make(p, (enum show)which, &t[*count]) != TR_OK)
            tr_log(TR_LOG_WARNING, "%s", tr_last_error());
        ++*count;
    }
    return TR_OK;
}

/* As the user typed them. */
static char *title_of(const struct tr_words *logs)
{
    char *title = NULL;

    for (int i = 0; i < logs->count; i++)
        title = tr_text_join(title, ", ", logs->word[i]);
    return title;
}

static enum tr_status write_to(const struct options *o, const struct tr_table *t, int count)
{
    FILE *f;

    TR_TRY(tr_output_open(o->output, &f));
    tr_tables_write(t, count, (enum tr_table_format)o->format, f);
    return tr_output_close(o->output, f);
}

/* The searches in folders that are looked at; a folder need not have any. */
static void find_searches(const struct tr_words *logs, struct tr_words *out)
{
    for (int i = 0; i < logs->count; i++) {
        const struct tr_words one = {.word = &logs->word[i], .count = 1};

        if (tr_logs_is_folder(logs->word[i]) && tr_logs_searches(&one, out) != TR_OK)
            continue;
    }
}

static enum tr_status write_page(const struct options *o, const struct tr_words *logs,
                                 const struct tr_present *p, const struct tr_table *t, int count)
{
    struct tr_words searches = {0};
    char *title;
    FILE *f;

    TR_TRY(tr_output_open(o->html, &f));
    title = title_of(logs);
    find_searches(logs, &searches);
    tr_page_write(title, t, count, p, &searches, f);
    tr_words_release(&searches);
    free(title);
    return tr_output_close(o->html, f);
}

static enum tr_status write_tables(const struct options *o, const struct tr_words *logs,
                                   const struct tr_present *p)
{
    struct tr_table t[SHOWS];
    enum tr_status s;
    int count = 0;

    memset(t, 0, sizeof t);
    if (o->html || (o->show == SHOW_AUTO && !o->columns && !o->group_by))
        s = make_auto(p, o->html != NULL, t, &count);
    else if (o->show == SHOW_AUTO)
        s = make(p, o->group_by ? SHOW_GROUPS : SHOW_RUNS, &t[count++]);
    else
        s = make(p, o->group_by ? SHOW_GROUPS : (enum show)o->show, &t[count++]);
    if (s == TR_OK)
        s = o->html ? write_page(o, logs, p, t, count) : write_to(o, t, count);
    for (int i = 0; i < count; i++)
        tr_table_release(&t[i]);
    return s;
}

static struct tr_plot_style style_of(const struct options *o)
{
    return (struct tr_plot_style){.font = o->style.font,
                                  .points = o->style.points,
                                  .width = o->style.width,
                                  .height = o->style.height};
}

/* Without gnuplot there is a plot all the same, though not the file that was asked for.  `s`: what making it gave. */
static enum tr_status write_plot(const struct options *o, struct tr_plot *plot, enum tr_status s)
{
    plot->style = style_of(o);
    if (s == TR_OK && o->output)
        s = tr_draw_file(plot, o->output);
    if ((s == TR_OK && !o->output) || s == TR_ERESOURCE)
        tr_draw_text(plot, stdout);
    tr_plot_release(plot);
    return s;
}

static enum tr_status plot_runs(const struct options *o, const struct tr_present *p)
{
    const enum tr_plot_kind kind = (enum tr_plot_kind)o->plot;
    struct tr_plot plot;
    enum tr_status s = tr_plot_has_x(kind)
                           ? tr_plot_against(kind, p, (enum tr_plot_x)o->plot_x, &plot)
                           : tr_plot_of(kind, p, &plot);

    if (s == TR_OK)
        tr_plot_smooth(&plot, o->smoothing);
    if (s == TR_OK && o->percent)
        tr_plot_percent(&plot);
    return write_plot(o, &plot, s);
}

static enum tr_status plot_files(const struct options *o, const struct tr_words *files)
{
    struct tr_words searches = {0};
    struct tr_plot plot = {0};
    enum tr_status s = tr_logs_searches(files, &searches);

    if (s == TR_OK)
        s = tr_plot_files((enum tr_plot_kind)o->plot, searches.word, searches.count, &plot);
    s = write_plot(o, &plot, s);
    tr_words_release(&searches);
    return s;
}

static enum tr_status write_timeline(const struct options *o, const struct tr_words *traces)
{
    struct tr_trace *t = calloc((size_t)traces->count, sizeof *t);
    enum tr_status s = TR_OK, closed = TR_OK;
    const struct tr_plot_style style = style_of(o);
    FILE *f = NULL;

    if (!t)
        tr_die(TR_ERESOURCE, "no memory left for traces");
    for (int i = 0; i < traces->count && s == TR_OK; i++)
        s = tr_trace_read(traces->word[i], &t[i]);
    if (s == TR_OK)
        s = tr_output_open(o->output, &f);
    if (s == TR_OK)
        s = tr_trace_view_svg(t, traces->count, o->iteration == TR_UNSET_INT ? -1 : o->iteration,
                              &style, f);
    for (int i = 0; i < traces->count; i++)
        tr_trace_release(&t[i]);
    free(t);
    if (f)
        closed = tr_output_close(o->output, f);
    return s == TR_OK ? closed : s;
}

/* Records that are none were said; what the others tell is worth knowing. */
static enum tr_status write_flights(const struct options *o, const char *folder)
{
    struct tr_table t[TR_FLIGHT_TABLES];
    struct tr_flight_set flights;
    enum tr_status s = tr_flight_set_read(folder, &flights);

    if (s == TR_OK) {
        tr_flight_set_show(&flights, t);
        s = write_to(o, t, TR_FLIGHT_TABLES);
        for (int i = 0; i < TR_FLIGHT_TABLES; i++)
            tr_table_release(&t[i]);
    }
    if (s == TR_OK && flights.refused > 0)
        s = TR_FAIL(TR_EDATA, "%s is no flight record, so what its rank was in is not known",
                    flights.first);
    tr_flight_set_release(&flights);
    return s;
}

/* The letters that names of fonts have; gnuplot and fontconfig give others a meaning. */
static bool is_font(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.";

    return *name && name[strspn(name, letters)] == '\0';
}

static bool says_of_logs(const struct options *o)
{
    bool says = o->join || o->recompute || o->warmup != TR_UNSET_INT || o->gpu || o->peak > 0.0;

    for (int f = 0; f < TR_FACTS; f++)
        says |= o->fact[f] != TR_UNSET_INT;
    return says;
}

static enum tr_status check_picture(const struct options *o)
{
    const double most_mm = 2000.0, most_points = 72.0;
    const bool picture = (o->plot != TR_PLOT_NONE && o->output) || o->timeline;

    if (!picture &&
        (o->style.font || o->style.points > 0.0 || o->style.width > 0.0 || o->style.height > 0.0))
        return TR_FAIL(
            TR_ECONFIG,
            "--plot-font, --plot-font-size, --plot-width and --plot-height shape a picture, and "
            "none was asked for: add --plot and -o NAME.svg, .pdf or .png");
    if (o->timeline && o->style.height > 0.0)
        return TR_FAIL(TR_ECONFIG, "the height of --timeline follows from its ranks and "
                                   "--plot-font-size: leave --plot-height out");
    if (o->plot_x != TR_PLOT_X_ITERATIONS && !tr_plot_has_x((enum tr_plot_kind)o->plot))
        return TR_FAIL(
            TR_ECONFIG,
            "--plot-x is of plots over a run, --plot loss and --plot throughput: add one of "
            "them, or leave it out");
    if (!(o->smoothing >= 0.0 && o->smoothing < 1.0))
        return TR_FAIL(
            TR_ECONFIG,
            "--plot-smoothing %g: it is a weight from 0, which smooths nothing, to below "
            "1; TensorBoard begins with 0.6",
            o->smoothing);
    if (o->smoothing > 0.0 && !tr_plot_has_x((enum tr_plot_kind)o->plot))
        return TR_FAIL(TR_ECONFIG, "--plot-smoothing is of plots over a run: add --plot loss or "
                                   "--plot throughput, or leave it out");
    if (o->percent && o->plot != TR_PLOT_BREAKDOWN)
        return TR_FAIL(TR_ECONFIG,
                       "--plot-percent is of the parts of an iteration: add --plot breakdown");
    if (tr_plot_of_files((enum tr_plot_kind)o->plot) && says_of_logs(o))
        return TR_FAIL(
            TR_ECONFIG,
            "this --plot reads what `trireme plan` printed and no logs: leave out --join, "
            "--warmup, --gpu, --peak-tflops, --recompute and what else is about logs");
    if (o->style.font && !is_font(o->style.font))
        return TR_FAIL(
            TR_ECONFIG,
            "--plot-font %s: names of fonts have letters, digits, blanks, '-', '_' and '.'; give a "
            "family as `fc-list : family` prints it",
            o->style.font);
    if (o->style.width > most_mm || o->style.height > most_mm || o->style.points > most_points)
        return TR_FAIL(TR_ECONFIG,
                       "a picture has at most %.0f mm a side and letters of at most %.0f points: "
                       "give less for "
                       "--plot-width, --plot-height or --plot-font-size",
                       most_mm, most_points);
    return TR_OK;
}

/* Options that contradict each other. */
static enum tr_status check(const struct options *o, const struct tr_words *logs)
{
    if (logs->count == 0)
        return TR_FAIL(
            TR_ECONFIG,
            "trireme report needs the log of a training, or several, or what `trireme plan "
            "--json` or `trireme sim --json` printed; - is the standard input");
    if (o->timeline &&
        (o->plot != TR_PLOT_NONE || o->show != SHOW_AUTO || o->format != TR_TABLE_TEXT))
        return TR_FAIL(TR_ECONFIG,
                       "--timeline draws traces and makes no tables: leave out --plot, --show and "
                       "--format");
    if (o->html && (o->timeline || o->plot != TR_PLOT_NONE || o->show != SHOW_AUTO ||
                    o->format != TR_TABLE_TEXT || o->output))
        return TR_FAIL(
            TR_ECONFIG,
            "--html writes a page with all tables and figures, and nothing else: leave out --show, "
            "--format, --plot, --timeline and --output");
    if (!o->timeline && o->iteration != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG, "--timeline-iteration says nothing without --timeline: add it");
    if (o->plot != TR_PLOT_NONE && (o->show != SHOW_AUTO || o->format != TR_TABLE_TEXT))
        return TR_FAIL(TR_ECONFIG,
                       "--plot makes no tables, so --show and --format say nothing with "
                       "it: leave them out");
    if (o->flight && (logs->count != 1 || o->timeline || o->plot != TR_PLOT_NONE ||
                      o->show != SHOW_AUTO || o->columns || o->join))
        return TR_FAIL(
            TR_ECONFIG,
            "--flight compares the flight records in one folder and reads no log: give the "
            "folder of --save alone, and only --format and -o besides");
    if ((o->columns || o->group_by) &&
        (o->timeline || o->plot != TR_PLOT_NONE || (o->show != SHOW_AUTO && o->show != SHOW_RUNS)))
        return TR_FAIL(TR_ECONFIG,
                       "%s is of the table of runs, and another output was asked for: leave "
                       "it out, or leave out --show, --plot and --timeline",
                       o->columns ? "--columns" : "--group-by");
    TR_TRY(check_picture(o));
    if (o->gpu && o->peak > 0.0)
        return TR_FAIL(TR_ECONFIG, "--gpu and --peak-tflops both say the peak: give one of them");
    return TR_OK;
}

static enum tr_status report(const struct options *o, const struct tr_words *logs)
{
    struct tr_records runs = {0};
    struct tr_columns columns = {0};
    struct tr_groups groups = {0};
    struct tr_present p = {
        .runs = &runs,
        .columns = &columns,
        .groups = o->group_by ? &groups : NULL,
        .warmup = o->warmup == TR_UNSET_INT ? TR_WARMUP_AUTO : o->warmup,
        .formula = o->flops_formula == TR_FLOPS_AUTO ? TR_FLOPS_2024 : o->flops_formula,
    };
    const char *shown = o->columns ? o->columns : "default";
    enum tr_status s;

    TR_TRY(check(o, logs));
    if (o->flight)
        return write_flights(o, logs->word[0]);
    if (o->timeline)
        return write_timeline(o, logs);
    if (tr_plot_of_files((enum tr_plot_kind)o->plot))
        return plot_files(o, logs);
    TR_TRY(find_peak(o, &p.peak));
    s = tr_columns_parse("--columns", shown, &columns);
    if (s == TR_OK && o->group_by)
        s = tr_groups_parse(o->group_by, shown, &groups);
    if (s == TR_OK)
        s = tr_logs_read(logs, o->join, true, &runs);
    override(o, &runs);
    if (s == TR_OK)
        s = o->plot == TR_PLOT_NONE ? write_tables(o, logs, &p) : plot_runs(o, &p);
    tr_records_release(&runs);
    tr_columns_release(&columns);
    tr_groups_release(&groups);
    return s;
}

int tr_cmd_report(int argc, char **argv)
{
    static char output[] = "--output";
    struct tr_words logs = {0};
    struct options o;
    enum tr_status s;

    /* As other programs that write a file call it. */
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = output;
    memset(&o, 0, sizeof o);
    tr_options_init(&table, &o);
    s = tr_options_parse(&table, &o, argc - 1, argv + 1, &logs);
    if (s == TR_OK)
        s = report(&o, &logs);
    tr_words_release(&logs);
    tr_options_release(&table, &o);
    return tr_status_exit_code(s);
}
