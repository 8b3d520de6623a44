/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "data/indexed.h"
#include "infer/row_text.h"
#include "infer/text_lines.h"
#include "infer/score.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* A measurement under way. */
struct work {
    const struct tr_measure *m;
    const struct tr_config *config;
    const struct tr_shape *shape;
    struct tr_comm *world;
    struct tr_run run;
    struct tr_tokenizer *tokenizer;
    struct tr_tokens tokens; /* of a text, */
    struct tr_index index;   /* or of a dataset, */
    bool indexed;
    int64_t total; /* as many */
    struct tr_window *window;
    int64_t windows;
    double *loss, *misses; /* [windows] */
    double seconds;
};

/* ---- the stream of tokens ---- */

static enum tr_status read_text(void *ctx, int64_t first, int64_t count, int32_t *out)
{
    const struct work *w = ctx;

    memcpy(out, w->tokens.id + first, (size_t)count * sizeof *out);
    return TR_OK;
}

static enum tr_status read_index(void *ctx, int64_t first, int64_t count, int32_t *out)
{
    const struct work *w = ctx;

    for (int64_t at = first, s = tr_index_sequence_of(&w->index, first); at < first + count; s++) {
        const int64_t from = at - tr_index_before(&w->index, s);
        const int64_t left = tr_index_length(&w->index, s) - from, want = first + count - at;
        const int64_t n = left < want ? left : want;

        TR_TRY(tr_index_read(&w->index, s, from, n, w->shape->dims.vocab, out + (at - first)));
        at += n;
    }
    return TR_OK;
}

/* Rows as they stand, detokenized if that is asked for, and a blank line between two. */
static enum tr_status join_rows(const struct work *w, struct tr_bytes *out)
{
    struct tr_rows rows = {
        .key = tr_lines_json(w->m->text) ? "text" : NULL,
        .detokenizer = (enum tr_detokenizer)w->m->detokenizer,
    };
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    enum tr_status s;

    if (!f)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the rows of %s", w->m->text);
    s = tr_rows_join(&rows, w->m->text, f);
    if ((ferror(f) | fclose(f)) != 0 && s == TR_OK)
        s = TR_FAIL(TR_ERESOURCE, "no memory left for the rows of %s", w->m->text);
    if (s == TR_OK)
        tr_bytes_add(out, text, bytes);
    free(text);
    return s;
}

static enum tr_status all_text(const struct work *w, struct tr_bytes *out)
{
    size_t bytes;
    char *text;

    if (tr_lines_json(w->m->text) || w->m->detokenizer != TR_DETOKENIZER_NONE)
        return join_rows(w, out);
    TR_TRY(tr_file_bytes(w->m->text, TR_LINES_MOST, &text, &bytes));
    tr_bytes_add(out, text, bytes);
    free(text);
    return TR_OK;
}

static enum tr_status tokenize(struct work *w)
{
    struct tr_bytes text = {0};
    enum tr_status s = all_text(w, &text);

    if (s == TR_OK)
        s = tr_infer_encode(w->tokenizer, (const char *)text.data, text.count, w->m->special_tokens,
                            true, &w->tokens);
    free(text.data);
    return s;
}

static enum tr_status open_text(struct work *w)
{
    TR_TRY(tr_infer_tokenizer(w->config, w->m->merge_file, w->shape, w->world, &w->tokenizer));
    TR_TRY(tr_comm_agree(w->world, w->world->rank == 0 ? tokenize(w) : TR_OK));
    tr_infer_tell(w->world, &w->tokens);
    w->total = (int64_t)w->tokens.count;
    return TR_OK;
}

static enum tr_status open_index(struct work *w)
{
    const enum tr_status s = tr_index_open(w->m->dataset, &w->index);

    w->indexed = s == TR_OK;
    w->total = w->indexed ? w->index.tokens : 0;
    return tr_comm_agree(w->world, s);
}

/* ---- perplexity ---- */

static int64_t length_of(const struct work *w)
{
    return w->shape->dims.seq;
}

static int64_t stride_of(const struct work *w)
{
    return w->m->stride == TR_UNSET_INT ? length_of(w) : w->m->stride;
}

static enum tr_status check_stride(const struct work *w)
{
    if (stride_of(w) <= length_of(w))
        return TR_OK;
    return TR_FAIL(
        TR_ECONFIG,
        "--stride %lld is more than the %lld tokens of a window (--seq-length), so tokens would "
        "be left out: give at most that",
        (long long)stride_of(w), (long long)length_of(w));
}

static enum tr_status cut(struct work *w)
{
    w->windows = tr_score_slide(w->total, length_of(w), stride_of(w), &w->window);
    if (w->windows > 0)
        return TR_OK;
    return TR_FAIL(TR_EDATA, "%s has %lld token%s, and it takes two to predict one",
                   w->m->text ? w->m->text : w->m->dataset, (long long)w->total,
                   tr_plural(w->total));
}

/* ---- LAMBADA ---- */

/* The tokens of a passage behind those of the others, and the window that they are: tokens of the last word count. */
static enum tr_status add_passage(struct work *w, const struct tr_line *line, size_t i)
{
    const int64_t begin = (int64_t)w->tokens.count, most = length_of(w) + 1;
    size_t bytes = line->bytes, context;
    int64_t before, end;

    while (bytes > 0 && line->text[bytes - 1] && strchr(" \t\r\n", line->text[bytes - 1]))
        bytes--;
    for (context = bytes; context > 0 && line->text[context - 1] != ' ';)
        context--;
    if (context == 0)
        return TR_FAIL(TR_EDATA, "%s: passage %zu has no word before its last one", w->m->lambada,
                       i + 1);
    TR_TRY(tr_infer_encode(w->tokenizer, line->text, context - 1, w->m->special_tokens, false,
                           &w->tokens));
    before = (int64_t)w->tokens.count - begin;
    w->tokens.count = (size_t)begin;
    TR_TRY(
        tr_infer_encode(w->tokenizer, line->text, bytes, w->m->special_tokens, false, &w->tokens));
    end = (int64_t)w->tokens.count;
    if (before == 0 || begin + before >= end)
        return TR_FAIL(TR_EDATA, "%s: passage %zu has no token before its last word, or none of it",
                       w->m->lambada, i + 1);
    if (end - (begin + before) >= most)
        return TR_FAIL(
            TR_EDATA,
            "%s: the last word of passage %zu has %lld tokens, and the model reads %lld: "
            "give a longer --seq-length",
            w->m->lambada, i + 1, (long long)(end - begin - before), (long long)length_of(w));
    w->window[i] = (struct tr_window){end - begin > most ? end - most : begin, begin + before, end};
    return TR_OK;
}

static enum tr_status read_passages(struct work *w)
{
    struct tr_lines lines;
    enum tr_status s = tr_lines_read(w->m->lambada, "text", &lines);

    if (s == TR_OK && lines.count == 0)
        s = TR_FAIL(TR_EDATA, "%s has no passage: it takes JSON lines, {\"text\": \"...\"}",
                    w->m->lambada);
    w->window = calloc(lines.count > 0 ? lines.count : 1, sizeof *w->window);
    if (!w->window)
        tr_die(TR_ERESOURCE, "no memory left for %zu passages", lines.count);
    for (size_t i = 0; i < lines.count && s == TR_OK; i++)
        s = add_passage(w, &lines.line[i], i);
    w->windows = (int64_t)lines.count;
    tr_lines_release(&lines);
    return s;
}

static enum tr_status open_passages(struct work *w)
{
    struct tr_tensor numbers;

    TR_TRY(tr_infer_tokenizer(w->config, w->m->merge_file, w->shape, w->world, &w->tokenizer));
    TR_TRY(tr_comm_agree(w->world, w->world->rank == 0 ? read_passages(w) : TR_OK));
    tr_infer_tell(w->world, &w->tokens);
    numbers = tr_i64_1(&w->windows, 1);
    w->world->via->broadcast(w->world, NULL, &numbers, 0);
    if (w->world->rank != 0)
        w->window = calloc((size_t)w->windows, sizeof *w->window);
    if (!w->window)
        tr_die(TR_ERESOURCE, "no memory left for %lld passages", (long long)w->windows);
    numbers =
        tr_i64_1(&w->window[0].begin, w->windows * (int64_t)(sizeof *w->window / sizeof(int64_t)));
    w->world->via->broadcast(w->world, NULL, &numbers, 0);
    w->total = (int64_t)w->tokens.count;
    return TR_OK;
}

/* ---- all of them ---- */

static int64_t counted(const struct work *w)
{
    int64_t n = 0;

    for (int64_t i = 0; i < w->windows; i++)
        n += w->window[i].end - w->window[i].first;
    return n;
}

static void score(struct work *w)
{
    struct tr_meter meter = {0};
    struct tr_score s = {.window = w->window,
                         .count = w->windows,
                         .read = w->indexed ? read_index : read_text,
                         .ctx = w,
                         .loss = w->loss,
                         .misses = w->misses,
                         .meter = w->world->rank == 0 ? &meter : NULL};

    tr_meter_start_count(&meter, "evaluating", "tokens", counted(w));
    tr_score_windows(&w->run, &s);
    w->seconds = tr_meter_end(&meter);
}

static double sum(const double *x, int64_t n)
{
    double all = 0.0;

    for (int64_t i = 0; i < n; i++)
        all += x[i];
    return all;
}

static void row(const char *name, const char *format, double value)
{
    char number[64];

    snprintf(number, sizeof number, format, value);
    printf("  %-24s %16s\n", name, number);
}

/* One fact: a row of the table, and a field of the JSON. */
static void fact(json_t *all, const char *name, const char *field, const char *format, double value,
                 bool whole)
{
    row(name, format, value);
    json_object_set_new(all, field, whole ? json_integer((json_int_t)value) : json_real(value));
}

static enum tr_status write_json(const char *path, const json_t *all)
{
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    FILE *f = fopen(path, "we");
    bool good;

    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for the results");
    good = f && fprintf(f, "%s\n", text) > 0;
    good = f && fclose(f) == 0 && good;
    free(text);
    return good ? TR_OK : TR_FAIL(TR_EIO, "--json %s cannot be written: %s", path, strerror(errno));
}

static enum tr_status tell(const struct work *w)
{
    const double tokens = (double)counted(w), loss = sum(w->loss, w->windows);
    json_t *all = json_object();
    int64_t right = 0;
    enum tr_status s;

    for (int64_t i = 0; i < w->windows; i++)
        right += w->misses[i] == 0.0;
    json_object_set_new(all, "task", json_string(w->m->lambada ? "lambada" : "perplexity"));
    json_object_set_new(all, "load", json_string(w->config->load));
    json_object_set_new(all, "iteration", json_integer((json_int_t)w->run.loaded));
    if (w->m->lambada) {
        printf("final words of %s\n", w->m->lambada);
        fact(all, "passages", "passages", "%.0f", (double)w->windows, true);
        fact(all, "correct", "correct", "%.0f", (double)right, true);
        fact(all, "accuracy", "accuracy", "%.6f", (double)right / (double)w->windows, false);
        fact(all, "perplexity of the word", "perplexity", "%.6f", exp(loss / (double)w->windows),
             false);
        fact(all, "tokens of the words", "counted", "%.0f", tokens, true);
    } else {
        printf("perplexity of %s\n", w->m->text ? w->m->text : w->m->dataset);
        fact(all, "tokens", "tokens", "%.0f", (double)w->total, true);
        fact(all, "tokens that count", "counted", "%.0f", tokens, true);
        fact(all, "windows", "windows", "%.0f", (double)w->windows, true);
        fact(all, "tokens of a window", "length", "%.0f", (double)length_of(w), true);
        fact(all, "stride", "stride", "%.0f", (double)stride_of(w), true);
        fact(all, "mean loss", "loss", "%.6f", loss / tokens, false);
        fact(all, "perplexity", "perplexity", "%.6f", exp(loss / tokens), false);
    }
    fact(all, "seconds", "seconds", "%.2f", w->seconds, false);
    fact(all, "tokens per second", "tokens_per_second", "%.1f",
         w->seconds > 0.0 ? tokens / w->seconds : 0.0, false);
    fflush(stdout);
    s = w->m->json ? write_json(w->m->json, all) : TR_OK;
    json_decref(all);
    return s;
}

static enum tr_status check(const struct tr_measure *m)
{
    const int given = (m->text != NULL) + (m->dataset != NULL) + (m->lambada != NULL);

    if (given != 1)
        return TR_FAIL(
            TR_ECONFIG, "%s: give one of --text FILE, --dataset PREFIX and --lambada FILE",
            given == 0 ? "there is nothing to measure" : "one thing is measured at a time");
    if (m->lambada && m->stride != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--stride moves windows over a text, and a passage of --lambada is "
                       "one window: leave it out");
    if (m->detokenizer != TR_DETOKENIZER_NONE && !m->text)
        return TR_FAIL(TR_ECONFIG, "--detokenizer is for the rows of --text: leave it out");
    return TR_OK;
}

static enum tr_status prepare(struct work *w)
{
    TR_TRY(check(w->m));
    if (w->m->lambada)
        return open_passages(w);
    TR_TRY(check_stride(w));
    TR_TRY(w->m->text ? open_text(w) : open_index(w));
    return cut(w);
}

static enum tr_status run(struct work *w, const struct tr_forward_only *only)
{
    TR_TRY(prepare(w));
    w->loss = calloc((size_t)w->windows, sizeof *w->loss);
    w->misses = calloc((size_t)w->windows, sizeof *w->misses);
    if (!w->loss || !w->misses)
        tr_die(TR_ERESOURCE, "no memory left for the scores of %lld windows",
               (long long)w->windows);
    if (w->config->dry_run)
        return tr_infer_plan(w->config, only, w->world);
    TR_TRY(tr_infer_open(&w->run, w->config, only, w->world));
    score(w);
    return tr_comm_agree(w->world, w->world->rank == 0 ? tell(w) : TR_OK);
}

enum tr_status tr_measure(const struct tr_measure *m, const struct tr_config *c,
                          const struct tr_shape *shape, struct tr_comm *world)
{
    const struct tr_forward_only only = {0};
    struct work w = {.m = m, .config = c, .shape = shape, .world = world};
    enum tr_status s = run(&w, &only);

    if (w.run.world)
        tr_run_close(&w.run);
    tr_tokenizer_close(w.tokenizer);
    if (w.indexed)
        tr_index_close(&w.index);
    free(w.tokens.id);
    free(w.window);
    free(w.loss);
    free(w.misses);
    return s;
}
