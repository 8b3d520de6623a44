/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/summary.h"
#include "report/table.h"
#include "util/file.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof(list)[0]))

/* ---- records ---- */

/* A number of a record, or of its member `part`; NAN where it is not there. */
static double number(const json_t *o, const char *part, const char *key)
{
    const json_t *x = json_object_get(part ? json_object_get(o, part) : o, key);

    return json_is_number(x) ? json_number_value(x) : NAN;
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

double tr_sweep_pace(const json_t *o)
{
    const double x = number(o, "measured", "seconds_per_it") / number(o, NULL, "gbs");

    return isnan(x) ? HUGE_VAL : x;
}

static int order(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;
    const bool good = tr_sweep_is_good(*x);
    const double p = tr_sweep_pace(*x), q = tr_sweep_pace(*y);

    if (good != tr_sweep_is_good(*y))
        return good ? -1 : 1;
    if (p < q || p > q)
        return p < q ? -1 : 1;
    return strcmp(text(*x, "shape"), text(*y, "shape"));
}

/* All records in the order of a table; owned by the caller, the records are not. */
static const json_t **sorted(const struct tr_sweep_results *r)
{
    const size_t n = json_array_size(r->newest);
    const json_t **list = calloc(n + 1, sizeof *list);

    TR_ASSERT(list);
    for (size_t i = 0; i < n; i++)
        list[i] = json_array_get(r->newest, i);
    qsort(list, n, sizeof *list, order);
    return list;
}

static void add_size(struct tr_table *t, const json_t *o)
{
    char size[16];

    tr_model_size(number(o, NULL, "parameters"), size);
    tr_table_text(t, "%s", size);
}

static void add_count(struct tr_table *t, const json_t *o, const char *key)
{
    tr_table_real(t, number(o, NULL, key), 0);
}

/* The options of --sweep that records have, and the columns of tables with them; owned. */
struct options {
    json_t *names;
    struct tr_column *column[3];
};

/* Names of the options of --sweep that records have, in their order; a new object of name: number. */
static json_t *options_of(const struct tr_sweep_results *r)
{
    json_t *names = json_object(), *value;
    const json_t *record;
    const char *name;
    size_t i;

    json_array_foreach(r->newest, i, record)
    {
        json_object_foreach(json_object_get(record, "options"), name, value)
            json_object_set_new(names, name, json_integer((json_int_t)json_object_size(names)));
    }
    return names;
}

/* The table's columns, those of options and the last ones of the table; owned by the caller, names are borrowed. */
static struct tr_column *columns_with(const struct tr_column *columns, int count, int behind,
                                      const json_t *names)
{
    struct tr_column *all = calloc((size_t)count + json_object_size(names), sizeof *all);
    const char *name;
    json_t *value;
    int n = count - behind;

    TR_ASSERT(all);
    memcpy(all, columns, (size_t)n * sizeof *all);
    json_object_foreach((json_t *)(uintptr_t)names, name, value) all[n++] =
        (struct tr_column){name, name};
    memcpy(all + n, columns + count - behind, (size_t)behind * sizeof *all);
    return all;
}

static void add_options(struct tr_table *t, const json_t *o, const json_t *names)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)names, name, value)
        tr_table_text(t, "%s", text(json_object_get(o, "options"), name));
}

/* ---- losses ---- */

/* Those of a record; owned by the caller. */
static struct tr_loss *losses_of(const json_t *o, int64_t *count)
{
    const json_t *list = json_object_get(json_array_get(json_object_get(o, "runs"), 0), "losses");
    struct tr_loss *out = calloc(json_array_size(list) + 1, sizeof *out);

    TR_ASSERT(out);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);

        out[i] = (struct tr_loss){json_integer_value(json_array_get(x, 0)),
                                  json_integer_value(json_array_get(x, 1)),
                                  json_number_value(json_array_get(x, 2))};
    }
    *count = (int64_t)json_array_size(list);
    return out;
}

/* Shapes of a sweep have all else in common. */
static bool same_training(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"gbs", "seq", "options"};

    for (int i = 0; i < COUNT(keys); i++) {
        const json_t *x = json_object_get(a, keys[i]), *y = json_object_get(b, keys[i]);

        if (x != y && !json_equal(x, y))
            return false;
    }
    return true;
}

/* Within which power of ten the losses agree with those of the first shape that trained the same. */
static void add_agreement(struct tr_table *t, const struct tr_sweep_results *r, const json_t *o)
{
    char shown[TR_AGREE_BYTES];
    const json_t *first = o;
    struct tr_loss *a, *b;
    int64_t na, nb;
    size_t i;

    for (i = 0; i < json_array_size(r->newest); i++) {
        first = json_array_get(r->newest, i);
        if (first == o || (tr_sweep_is_good(first) && same_training(first, o)))
            break;
    }
    a = losses_of(o, &na);
    b = losses_of(first, &nb);
    tr_table_text(t, "%s", tr_agree_text(first == o ? NAN : tr_losses_differ(a, na, b, nb), shown));
    free(a);
    free(b);
}

/* ---- Markdown ---- */

/* Enough digits for times of a few milliseconds and of minutes. */
static int digits(double x)
{
    return x < 0.1 ? 4 : x < 10.0 ? 3 : x < 100.0 ? 2 : 1;
}

static void add_memory(struct tr_table *t, const json_t *o)
{
    const double mib = number(o, "measured", "mem_mib");

    if (isnan(mib))
        tr_table_text(t, "~%.0f", number(o, "predicted", "mem_mib"));
    else
        tr_table_real(t, mib, mib < 100.0);
}

/* Where the median is, and how sure that is if it is less than the usual 95 %. */
static void add_interval(struct tr_table *t, const json_t *o)
{
    const double low = number(o, "measured", "seconds_low"),
                 high = number(o, "measured", "seconds_high"), sure = number(o, "measured", "sure");

    if (isnan(low))
        tr_table_text(t, "%s", "");
    else if (sure < 0.95)
        tr_table_text(t, "%.*f-%.*f (%.0f %%)", digits(high), low, digits(high), high,
                      100.0 * sure);
    else
        tr_table_text(t, "%.*f-%.*f", digits(high), low, digits(high), high);
}

static void add_notes(struct tr_table *t, const json_t *o)
{
    const double least = number(o, "measured", "seconds_min"),
                 most = number(o, "measured", "seconds_max"), chunks = number(o, NULL, "chunks"),
                 seconds = number(o, "predicted", "seconds_per_it");
    const size_t runs = json_array_size(json_object_get(o, "runs"));
    const char *failed = json_is_true(json_object_get(o, "early")) ? "" : "failed: ";
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);

    TR_ASSERT(f);
    fprintf(f, "%.10s", text(o, "date"));
    if (!tr_sweep_is_good(o))
        fprintf(f, "; %s%s", failed, text(o, "error"));
    else if (*text(o, "error"))
        fprintf(f, "; one of %zu runs %s%s", runs, failed, text(o, "error"));
    if (json_integer_value(json_object_get(o, "zero_stage")) > 0)
        fprintf(f, "; ZeRO %d", (int)json_integer_value(json_object_get(o, "zero_stage")));
    if (!isnan(number(o, NULL, "bucket")))
        fprintf(f, "; buckets of %.0f", number(o, NULL, "bucket"));
    if (json_is_true(json_object_get(o, "recompute")))
        fprintf(f, "; recomputes");
    if (json_is_true(json_object_get(o, "offload")))
        fprintf(f, "; optimizer with the host");
    if (strcmp(text(o, "rank_order"), "tp-pp-dp") == 0)
        fprintf(f, "; ranks tp-pp-dp");
    if (*text(o, "stage_layers"))
        fprintf(f, "; layers %s", text(o, "stage_layers"));
    if (chunks > 1.0)
        fprintf(f, "; %.0f chunks", chunks);
    if (!isnan(least))
        fprintf(f, "; %.*f to %.*f", digits(least), least, digits(most), most);
    if (runs > 1)
        fprintf(f, " in %zu runs", runs);
    if (!isnan(seconds))
        fprintf(f, "; predicted %.*f", digits(seconds), seconds);
    fclose(f);
    tr_table_text(t, "%s", out);
    free(out);
}

static void fill_main(const struct tr_sweep *w, const struct tr_sweep_results *r,
                      struct options *more, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"nodes", "Nodes"},
        {"size", "Size"},
        {"dp", "DP"},
        {"tp", "TP"},
        {"pp", "PP"},
        {"mbs", "MBS"},
        {"gbs", "GBS"},
        {"mem_mib", "Mem"},
        {"seconds_per_it", "Sec/it"},
        {"interval", "Interval"},
        {"runs", "Runs"},
        {"tflops", "TFLOPs"},
        {"agree", "Agree"},
        {"notes", "Notes"},
    };
    static const char *const counts[] = {"dp", "tp", "pp", "mbs", "gbs"};
    const json_t **list = sorted(r);

    more->column[0] = columns_with(columns, COUNT(columns), 1, more->names);
    tr_table_init(t, "sweep", "Sweep", more->column[0],
                  COUNT(columns) + (int)json_object_size(more->names));
    for (size_t i = 0; i < json_array_size(r->newest); i++) {
        const double seconds = number(list[i], "measured", "seconds_per_it");

        add_count(t, list[i], "nodes");
        add_size(t, list[i]);
        for (int k = 0; k < COUNT(counts); k++)
            add_count(t, list[i], counts[k]);
        add_memory(t, list[i]);
        tr_table_real(t, seconds, digits(seconds));
        add_interval(t, list[i]);
        tr_table_real(t, number(list[i], "measured", "runs"), 0);
        tr_table_real(t, number(list[i], "measured", "tflops"),
                      digits(number(list[i], "measured", "tflops")));
        add_agreement(t, r, list[i]);
        add_options(t, list[i], more->names);
        add_notes(t, list[i]);
    }
    free(list);
    tr_table_note(
        t,
        "Mem: MiB that the fullest rank held, or with ~ was planned to.  Sec/it: median of "
        "the iterations of a run, without the first %lld of %lld, and of several runs the median "
        "of "
        "theirs; the notes have the least and the greatest iteration.  Interval: has the median "
        "with 95 %% "
        "probability, or with what it says; of the runs, and of the iterations of a single run.  "
        "TFLOPs: of a rank, by formula sc21, "
        "recomputation included.  Agree: the power of ten within which the losses of the same "
        "iterations agree with those of the first shape with the same options and batch.  The "
        "fastest per sample is first.",
        (long long)w->warmup, (long long)w->iters);
}

static void fill_dropped(const struct tr_sweep_space *space, struct tr_table *t)
{
    static const struct tr_column columns[] = {{"shape", "Shape"}, {"reason", "Reason"}};

    tr_table_init(t, "dropped", "Not run", columns, COUNT(columns));
    for (int i = space->runs; i < space->count; i++) {
        tr_table_text(t, "%s", space->shape[i].name);
        tr_table_text(t, "%s", space->shape[i].dropped);
    }
}

/* ---- CSV ---- */

/* A column of both files: where its number stands in a record, or which text. */
static const struct {
    struct tr_column column;
    const char *part, *key; /* part "" for a text */
} csv[] = {
    {{"shape", ""}, "", "shape"},
    {{"model_size", ""}, "", "size"},
    {{"parameters", ""}, NULL, "parameters"},
    {{"seq_length", ""}, NULL, "seq"},
    {{"nodes", ""}, NULL, "nodes"},
    {{"ranks", ""}, NULL, "ranks"},
    {{"tp", ""}, NULL, "tp"},
    {{"pp", ""}, NULL, "pp"},
    {{"dp", ""}, NULL, "dp"},
    {{"chunks", ""}, NULL, "chunks"},
    {{"mbs", ""}, NULL, "mbs"},
    {{"gbs", ""}, NULL, "gbs"},
    {{"zero_stage", ""}, NULL, "zero_stage"},
    {{"bucket", ""}, NULL, "bucket"},
    {{"recompute", ""}, "", "recompute"},
    {{"offload", ""}, "", "offload"},
    {{"seconds_per_it", ""}, "measured", "seconds_per_it"},
    {{"seconds_min", ""}, "measured", "seconds_min"},
    {{"seconds_max", ""}, "measured", "seconds_max"},
    {{"seconds_low", ""}, "measured", "seconds_low"},
    {{"seconds_high", ""}, "measured", "seconds_high"},
    {{"sure", ""}, "measured", "sure"},
    {{"runs", ""}, "measured", "runs"},
    {{"iterations", ""}, "measured", "iterations"},
    {{"samples_per_second", ""}, "measured", "samples_per_second"},
    {{"tflops_per_gpu", ""}, "measured", "tflops"},
    {{"tflops_model_per_gpu", ""}, "measured", "tflops_model"},
    {{"tflops_all", ""}, "all", "tflops"},
    {{"mem_mib", ""}, "measured", "mem_mib"},
    {{"agree", ""}, "", "agree"},
    {{"predicted_seconds_per_it", ""}, "predicted", "seconds_per_it"},
    {{"predicted_mem_mib", ""}, "predicted", "mem_mib"},
    {{"date", ""}, "", "date"},
    {{"node_list", ""}, "", "node_list"},
    {{"error", ""}, "", "error"},
};

static void add_csv(struct tr_table *t, const struct tr_sweep_results *r, const json_t *o, int i)
{
    if (csv[i].part && !*csv[i].part) {
        if (strcmp(csv[i].key, "size") == 0)
            add_size(t, o);
        else if (strcmp(csv[i].key, "agree") == 0)
            add_agreement(t, r, o);
        else if (strcmp(csv[i].key, "recompute") == 0)
            tr_table_real(t, json_is_true(json_object_get(o, "recompute")), 0);
        else
            tr_table_text(t, "%s", text(o, csv[i].key));
    } else if (csv[i].part && strcmp(csv[i].part, "all") == 0) {
        tr_table_real(t, number(o, "measured", "tflops") * number(o, NULL, "ranks"), 6);
    } else {
        tr_table_real(t, number(o, csv[i].part, csv[i].key), 6);
    }
}

static void fill_csv(const struct tr_sweep_results *r, bool good, struct options *more,
                     struct tr_table *t)
{
    struct tr_column columns[COUNT(csv)];
    const json_t **list = sorted(r);

    for (int i = 0; i < COUNT(csv); i++)
        columns[i] = csv[i].column;
    more->column[1 + good] = columns_with(columns, COUNT(csv), 0, more->names);
    tr_table_init(t, good ? "results" : "failed", "", more->column[1 + good],
                  COUNT(csv) + (int)json_object_size(more->names));
    for (size_t k = 0; k < json_array_size(r->newest); k++) {
        if (tr_sweep_is_good(list[k]) != good)
            continue;
        for (int i = 0; i < COUNT(csv); i++)
            add_csv(t, r, list[k], i);
        add_options(t, list[k], more->names);
    }
    free(list);
}

/* ---- Horovod's log of autotuning ---- */

/* The buckets of a shape have fixed times and places, so there is no cycle to wait for; the score is bytes of a rank's
   gradients over the time of an iteration. */
static char *autotune(const struct tr_sweep_results *r, size_t *size)
{
    char *all = NULL;
    FILE *f = open_memstream(&all, size);
    size_t i;
    json_t *o;

    TR_ASSERT(f);
    fputs(
        "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
        "tensor_fusion_threshold,score\n",
        f);
    json_array_foreach(r->newest, i, o)
    {
        const double each = number(o, NULL, "gradient_bytes"), bucket = number(o, NULL, "bucket");
        const double rank =
            number(o, NULL, "parameters") / number(o, NULL, "tp") / number(o, NULL, "pp");

        if (tr_sweep_is_good(o) && !isnan(bucket))
            fprintf(f, "0,0,0,0,0,%.6g,%.6g\n", bucket * each / 1048576.0,
                    rank * each / number(o, "measured", "seconds_per_it"));
    }
    fclose(f);
    return all;
}

static enum tr_status write_autotune(const struct tr_sweep *w, const struct tr_sweep_results *r)
{
    size_t size;
    enum tr_status s;
    char *all;

    if (!w->autotune_log)
        return TR_OK;
    all = autotune(r, &size);
    s = tr_file_replace(w->autotune_log, all, size);
    free(all);
    return s;
}

const json_t *tr_sweep_best(const struct tr_sweep_results *r)
{
    const json_t **list = sorted(r), *best = NULL;

    if (json_array_size(r->newest) > 0 && tr_sweep_is_good(list[0]))
        best = list[0];
    free(list);
    return best;
}

/* ---- files ---- */

static enum tr_status write_file(struct tr_table *t, int count, enum tr_table_format format,
                                 const char *folder, const char *name)
{
    char *all = NULL, *path = tr_format("%s/%s", folder, name);
    size_t size;
    FILE *f = open_memstream(&all, &size);
    enum tr_status s;

    TR_ASSERT(f);
    tr_tables_write(t, count, format, f);
    fclose(f);
    s = tr_file_replace(path, all, size);
    free(all);
    free(path);
    for (int i = 0; i < count; i++)
        tr_table_release(&t[i]);
    return s;
}

static enum tr_status write_tables(const struct tr_sweep *w, const struct tr_sweep_results *r,
                                   const struct tr_sweep_space *space, const char *folder,
                                   struct options *more)
{
    struct tr_table t[2];

    fill_main(w, r, more, &t[0]);
    fill_dropped(space, &t[1]);
    TR_TRY(write_file(t, 2, TR_TABLE_MARKDOWN, folder, "results.md"));
    fill_csv(r, true, more, t);
    TR_TRY(write_file(t, 1, TR_TABLE_CSV, folder, "results.csv"));
    fill_csv(r, false, more, t);
    return write_file(t, 1, TR_TABLE_CSV, folder, "failed.csv");
}

enum tr_status tr_sweep_tables(const struct tr_sweep *w, const struct tr_sweep_results *r,
                               const struct tr_sweep_space *space, const char *folder)
{
    struct options more = {.names = options_of(r)};
    enum tr_status s = write_autotune(w, r);

    if (s == TR_OK)
        s = write_tables(w, r, space, folder, &more);
    json_decref(more.names);
    for (int i = 0; i < COUNT(more.column); i++)
        free(more.column[i]);
    return s;
}
