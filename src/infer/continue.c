/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/continue.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "infer/generate.h"
#include "infer/text_lines.h"
#include "util/log.h"
#include "util/text.h"

enum { MOST_SAMPLES = 8 }; /* of a micro-batch, unless the user says more */

/* What is read of a text while it grows. */
struct reading {
    struct tr_decoder *decoder;
    struct tr_bytes text;
    size_t begin; /* of what follows the prompt */
    size_t end;   /* before the stop word, where there is one */
    bool stopped;
};

struct work {
    const struct tr_continue *o;
    struct tr_comm *world;
    struct tr_config config;
    struct tr_shape shape;
    struct tr_run run;
    struct tr_tokenizer *tokenizer;
    struct tr_lines prompts; /* of rank 0 */
    struct tr_generation g;
    struct reading *reading; /* [texts] */
};

static void *need(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for %zu prompts", count);
    return p;
}

/* ---- stop words ---- */

static void open_reading(const struct work *w, struct reading *r, const struct tr_written *t)
{
    r->decoder = tr_decoder_open(w->tokenizer, TR_DECODE_SKIP_SPECIAL);
    for (int64_t i = 0; i < t->prompt; i++)
        (void)tr_decoder_add(r->decoder, t->token[i], &r->text);
    r->begin = r->end = r->text.count;
    r->stopped = false;
}

static void close_reading(struct reading *r)
{
    tr_decoder_close(r->decoder);
    free(r->text.data);
    *r = (struct reading){0};
}

/* The earliest stop word in the text that follows the prompt, of which what stands before `seen` has none. */
static void find_stop(const struct work *w, struct reading *r, size_t seen)
{
    size_t longest = 0;

    for (int i = 0; i < w->o->stop.count; i++)
        longest = strlen(w->o->stop.word[i]) > longest ? strlen(w->o->stop.word[i]) : longest;
    r->end = r->text.count;
    for (size_t at = seen > r->begin + longest ? seen - longest : r->begin; at < r->end; at++)
        for (int i = 0; i < w->o->stop.count && !r->stopped; i++) {
            const size_t bytes = strlen(w->o->stop.word[i]);

            if (r->text.count - at < bytes ||
                memcmp(r->text.data + at, w->o->stop.word[i], bytes) != 0)
                continue;
            r->stopped = true;
            r->end = at;
        }
}

static bool read_token(const struct work *w, struct reading *r, int32_t token)
{
    const size_t seen = r->text.count;

    (void)tr_decoder_add(r->decoder, token, &r->text);
    find_stop(w, r, seen);
    return r->stopped;
}

static bool heard(void *ctx, int64_t text, int32_t token)
{
    struct work *w = ctx;
    struct reading *r = &w->reading[text];

    if (!r->decoder)
        open_reading(w, r, &w->g.text[text]);
    return read_token(w, r, token);
}

/* ---- prompts ---- */

static enum tr_status check(const struct tr_continue *o)
{
    if ((o->prompt != NULL) == (o->prompts != NULL))
        return TR_FAIL(TR_ECONFIG, "%s: give one of --prompt TEXT and --prompts FILE",
                       o->prompt ? "prompts come from one place" : "there is nothing to continue");
    if (o->temperature == 0.0 && (o->top_k > 0 || o->top_p < 1.0))
        return TR_FAIL(TR_ECONFIG,
                       "--top-k and --top-p choose among tokens that are drawn, and without a "
                       "--temperature the most likely one is taken: give one, --temperature 1");
    for (int i = 0; i < o->stop.count; i++)
        if (o->stop.word[i][0] == '\0')
            return TR_FAIL(TR_ECONFIG,
                           "--stop has an empty word, which every text contains: leave it "
                           "out");
    return TR_OK;
}

static enum tr_status read_prompts(struct work *w)
{
    if (w->world->rank != 0)
        return TR_OK;
    TR_TRY(check(w->o));
    if (w->o->prompt)
        tr_lines_add(&w->prompts, w->o->prompt, strlen(w->o->prompt));
    else
        TR_TRY(tr_lines_read(w->o->prompts, "prompt", &w->prompts));
    return w->prompts.count > 0 ? TR_OK
                                : TR_FAIL(TR_EDATA,
                                          "%s has no prompt: it takes lines, or JSON lines "
                                          "{\"prompt\": \"...\"} in a file *.jsonl",
                                          w->o->prompts);
}

/* Of one prompt behind those before it; an empty one is the token that begins a text. */
static enum tr_status encode(const struct work *w, size_t i, struct tr_tokens *tokens)
{
    const struct tr_line *line = &w->prompts.line[i];
    const int32_t bos = tr_tokenizer_bos(w->tokenizer), eod = tr_tokenizer_eod(w->tokenizer);
    const size_t before = tokens->count;
    const int64_t most = w->shape.dims.seq - 1;

    TR_TRY(tr_infer_encode(w->tokenizer, line->text, line->bytes, w->o->special_tokens, false,
                           tokens));
    if (tokens->count == before && bos < 0 && eod < 0)
        return TR_FAIL(TR_EDATA,
                       "prompt %zu is empty, and the tokenizer has no token that begins or "
                       "ends a text to go on from: give a prompt of at least one token",
                       i + 1);
    if (tokens->count == before)
        tr_tokens_add(tokens, bos >= 0 ? bos : eod);
    if ((int64_t)(tokens->count - before) > most)
        return TR_FAIL(TR_EDATA,
                       "prompt %zu has %zu tokens, and the model reads %lld with what follows "
                       "(--seq-length): make it shorter",
                       i + 1, tokens->count - before, (long long)(most + 1));
    return TR_OK;
}

static enum tr_status encode_all(const struct work *w, struct tr_tokens *tokens,
                                 struct tr_tokens *counts)
{
    for (size_t i = 0; i < w->prompts.count; i++) {
        const size_t before = tokens->count;

        TR_TRY(encode(w, i, tokens));
        tr_tokens_add(counts, (int32_t)(tokens->count - before));
    }
    return TR_OK;
}

/* On all ranks the tokens of all prompts. */
static enum tr_status open_texts(struct work *w)
{
    struct tr_tokens tokens = {0}, counts = {0};
    enum tr_status s =
        tr_comm_agree(w->world, w->world->rank == 0 ? encode_all(w, &tokens, &counts) : TR_OK);
    const int32_t *at;

    if (s == TR_OK) {
        tr_infer_tell(w->world, &tokens);
        tr_infer_tell(w->world, &counts);
        at = tokens.id;
        w->g.texts = (int64_t)counts.count;
        w->g.text = need(counts.count, sizeof *w->g.text);
        w->reading = need(counts.count, sizeof *w->reading);
        for (size_t i = 0; i < counts.count; at += counts.id[i++]) {
            w->g.text[i].prompt = counts.id[i];
            w->g.text[i].token = need((size_t)counts.id[i], sizeof *at);
            memcpy(w->g.text[i].token, at, (size_t)counts.id[i] * sizeof *at);
        }
    }
    free(tokens.id);
    free(counts.id);
    return s;
}

/* ---- texts ---- */

static const char *name_of(enum tr_text_end end)
{
    static const char *const names[] = {[TR_TEXT_END] = "end-of-text",
                                        [TR_TEXT_STOP] = "stop",
                                        [TR_TEXT_LENGTH] = "length",
                                        [TR_TEXT_CONTEXT] = "context"};

    return names[end];
}

static json_t *numbers(const struct tr_written *t, bool logprobs)
{
    json_t *all = json_array();

    for (int64_t i = t->prompt; i < t->count; i++)
        json_array_append_new(all, logprobs ? json_real((double)t->logprob[i])
                                            : json_integer(t->token[i]));
    return all;
}

static json_t *text_json(const char *text, size_t bytes)
{
    json_t *value = json_stringn(text, bytes);

    return value ? value : json_null(); /* not UTF-8 */
}

static bool write_object(const struct work *w, FILE *f, size_t i, const char *text, size_t bytes)
{
    const struct tr_written *t = &w->g.text[i];
    json_t *all = json_object();
    char *line;
    bool good;

    json_object_set_new(all, "prompt",
                        text_json(w->prompts.line[i].text, w->prompts.line[i].bytes));
    json_object_set_new(all, "text", text_json(text, bytes));
    json_object_set_new(all, "tokens", numbers(t, false));
    if (w->o->logprobs)
        json_object_set_new(all, "logprobs", numbers(t, true));
    json_object_set_new(all, "end", json_string(name_of(t->end)));
    line = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!line)
        tr_die(TR_ERESOURCE, "no memory left for a text");
    good = fprintf(f, "%s\n", line) > 0;
    free(line);
    json_decref(all);
    return good;
}

static bool write_plain(const struct work *w, FILE *f, size_t i, const char *text, size_t bytes)
{
    const struct tr_line *prompt = &w->prompts.line[i];

    if (w->prompts.count > 1 && fprintf(f, "== prompt %zu ==\n", i + 1) < 0)
        return false;
    return fwrite(prompt->text, 1, prompt->bytes, f) == prompt->bytes &&
           fwrite(text, 1, bytes, f) == bytes && fputc('\n', f) != EOF;
}

/* The text behind a prompt up to a stop word: read once more, since ranks of one replica alone heard its tokens. */
static bool write_text(const struct work *w, FILE *f, size_t i)
{
    const struct tr_written *t = &w->g.text[i];
    struct reading r = {0};
    const char *text;
    bool good;

    open_reading(w, &r, t);
    for (int64_t k = t->prompt; k < t->count; k++)
        (void)read_token(w, &r, t->token[k]);
    if (!r.stopped) {
        tr_decoder_end(r.decoder, &r.text);
        r.end = r.text.count;
    }
    text = r.text.data ? (const char *)r.text.data + r.begin : "";
    good = w->o->output ? write_object(w, f, i, text, r.end - r.begin)
                        : write_plain(w, f, i, text, r.end - r.begin);
    close_reading(&r);
    return good;
}

static enum tr_status write_texts(const struct work *w)
{
    FILE *f = w->o->output ? fopen(w->o->output, "we") : stdout;
    bool good = f != NULL;

    for (size_t i = 0; i < w->prompts.count && good; i++)
        good = write_text(w, f, i);
    if (f == stdout)
        good = fflush(f) == 0 && good;
    else if (f)
        good = fclose(f) == 0 && good;
    return good ? TR_OK
                : TR_FAIL(TR_EIO, "%s cannot be written: %s",
                          w->o->output ? w->o->output : "stdout", strerror(errno));
}

/* ---- all of it ---- */

static void tell_speed(const struct work *w)
{
    int64_t made = 0, ends = 0;
    const double seconds = w->g.seconds > 0.0 ? w->g.seconds : 1e-9;

    for (int64_t i = 0; i < w->g.texts; i++) {
        made += w->g.text[i].count - w->g.text[i].prompt;
        ends += w->g.text[i].end == TR_TEXT_CONTEXT;
    }
    if (ends > 0)
        tr_log(TR_LOG_WARNING,
               "%lld text%s ended at %lld tokens, as many as the model reads (--seq-length)",
               (long long)ends, tr_plural(ends), (long long)w->shape.dims.seq);
    fprintf(stderr, "trireme: %lld tokens in %.2f s, %.1f tokens/s\n", (long long)made,
            w->g.seconds, (double)made / seconds);
}

static int64_t block_of(const struct work *w)
{
    return w->o->block < w->shape.dims.seq ? w->o->block : w->shape.dims.seq;
}

/* Of the stage that takes most, before memory is reserved. */
static void tell_cache(const struct work *w)
{
    const struct tr_batches *b = &w->shape.batches;
    const int64_t texts = b->micro_batch * b->micros;
    char cache[TR_TEXT_BYTES];
    double most = 0.0;

    if (!w->o->cache)
        return;
    for (int stage = 0; stage < w->shape.layout.p; stage++)
        most = fmax(most, tr_generate_cache(&w->shape, stage, texts, block_of(w)));
    fprintf(stderr, "trireme: a key-value cache for %lld text%s of %lld tokens: %s of a rank\n",
            (long long)texts, tr_plural(texts), (long long)w->shape.dims.seq,
            tr_text_bytes(most, cache));
}

/* Tokens of a pass while prompts are read, and keys; nothing without a cache. */
static struct tr_forward_only how_of(const struct work *w)
{
    struct tr_forward_only only = {.picks = true};

    if (!w->o->cache)
        return only;
    only.block = block_of(w);
    only.keys = tr_generate_keys(&w->shape.dims, w->shape.dims.seq, only.block);
    return only;
}

static void generate(struct work *w)
{
    struct tr_meter meter = {0};
    const int32_t eod = tr_tokenizer_eod(w->tokenizer);

    w->g.most = w->o->most;
    w->g.eod = w->o->ignore_end ? -1 : eod;
    w->g.how = (struct tr_sampling){.temperature = w->o->temperature,
                                    .top_k = w->o->top_k,
                                    .top_p = w->o->top_p,
                                    .seed = (uint64_t)w->config.seed};
    w->g.heard = w->o->stop.count > 0 ? heard : NULL;
    w->g.ctx = w;
    w->g.meter = w->world->rank == 0 ? &meter : NULL;
    tr_meter_start_count(&meter, "generating", "tokens",
                         (w->g.texts + w->shape.layout.d - 1) / w->shape.layout.d * w->g.most);
    tr_generate(&w->run, &w->g);
    (void)tr_meter_end(&meter);
}

static enum tr_status run(struct work *w, const struct tr_args *words, struct tr_forward_only *only)
{
    int64_t count = 0;
    struct tr_tensor number = tr_i64_1(&count, 1);

    TR_TRY(tr_comm_agree(w->world, read_prompts(w)));
    count = (int64_t)w->prompts.count;
    w->world->via->broadcast(w->world, NULL, &number, 0);
    TR_TRY(tr_infer_options(&w->config, words, w->world, count, MOST_SAMPLES, &w->shape));
    TR_TRY(tr_infer_tokenizer(&w->config, w->o->merge_file, &w->shape, w->world, &w->tokenizer));
    TR_TRY(open_texts(w));
    *only = how_of(w);
    if (w->config.dry_run)
        return tr_infer_plan(&w->config, only, w->world);
    if (w->world->rank == 0)
        tell_cache(w);
    TR_TRY(tr_infer_open(&w->run, &w->config, only, w->world));
    generate(w);
    TR_TRY(tr_comm_agree(w->world, w->world->rank == 0 ? write_texts(w) : TR_OK));
    if (w->world->rank == 0)
        tell_speed(w);
    return TR_OK;
}

enum tr_status tr_continue(const struct tr_continue *o, const struct tr_args *words,
                           struct tr_comm *world)
{
    struct work w = {.o = o, .world = world};
    struct tr_forward_only only;
    enum tr_status s;

    tr_config_init(&w.config);
    s = run(&w, words, &only);
    if (w.run.world)
        tr_run_close(&w.run);
    for (int64_t i = 0; i < w.g.texts; i++) {
        tr_written_release(&w.g.text[i]);
        close_reading(&w.reading[i]);
    }
    free(w.g.text);
    free(w.reading);
    tr_tokenizer_close(w.tokenizer);
    tr_lines_release(&w.prompts);
    tr_config_release(&w.config);
    return s;
}
