/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>
#include <omp.h>

#include "token/encode.h"
#include "util/meter.h"
#include "data/indexed.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* Chunks per thread that are encoded while the batch before is written and the next one read: enough
   that threads end a batch at about the same time. */
enum { CHUNKS_PER_WORKER = 8, MAX_WORKERS = 1024 };

struct slot {
    struct tr_corpus_chunk chunk;
    struct tr_encoded encoded;
};

struct batch {
    struct slot *slots;
    int used;
};

struct output {
    char *prefix;
    struct tr_index_writer *writer;
    int64_t empty, text_bytes;
    int64_t documents, tokens; /* in the end */
};

struct build {
    const struct tr_data_options *o;
    struct tr_corpus_file *files;
    int file_count;
    struct tr_tokenizer *tokenizer;
    struct tr_encode_rules rules;
    struct output *outputs; /* one per key */
    struct tr_corpus *corpus;
    int workers, slots;
    struct tr_tokenizer_thread **threads;
    struct batch batches[2];
    struct tr_meter progress;
    int64_t bytes_read, bad_bytes, bad_first;
    const char *bad_path;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left to build a dataset; try fewer --workers");
    return memory;
}

static bool ends_in(const char *path, const char *suffix)
{
    size_t length = strlen(path), tail = strlen(suffix);

    return length > tail && strcasecmp(path + length - tail, suffix) == 0;
}

static enum tr_status format_of(const struct tr_data_options *o, const char *path,
                                enum tr_corpus_format *out)
{
    static const char *const packed[][2] = {{".gz", "zcat"},
                                            {".bz2", "bzcat"},
                                            {".xz", "xzcat"},
                                            {".zst", "zstdcat"},
                                            {".lz4", "lz4cat"}};

    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (ends_in(path, packed[i][0]))
            return TR_FAIL(TR_ECONFIG,
                           "%s is compressed: %s %s | trireme data build --input-format "
                           "jsonl ... -",
                           path, packed[i][1], path);
    if (strcmp(path, "-") == 0 && o->input_format == TR_INPUT_AUTO)
        return TR_FAIL(TR_ECONFIG, "the standard input has no name that says what it is: give "
                                   "--input-format text or jsonl");
    *out = o->input_format == TR_INPUT_JSONL ||
                   (o->input_format == TR_INPUT_AUTO &&
                    (ends_in(path, ".jsonl") || ends_in(path, ".json") || ends_in(path, ".ndjson")))
               ? TR_CORPUS_JSONL
               : TR_CORPUS_TEXT;
    return TR_OK;
}

/* --input and the operands are the same thing: the former is Megatron's way to write it. */
static enum tr_status list_files(struct build *b, const struct tr_words *words)
{
    const struct tr_words *input = &b->o->input;

    b->file_count = input->count + words->count;
    if (b->file_count == 0)
        return TR_FAIL(TR_ECONFIG,
                       "no file to build from: name them first, `trireme data build FILE... "
                       "--output-prefix PREFIX`%s",
                       b->o->json_keys.count > 1
                           ? "; what follows --json-keys belongs to it, up to the next option"
                           : "");
    b->files = need(calloc((size_t)b->file_count, sizeof *b->files));
    for (int i = 0; i < b->file_count; i++) {
        struct tr_corpus_file *f = &b->files[i];

        f->path = i < input->count ? input->word[i] : words->word[i - input->count];
        TR_TRY(format_of(b->o, f->path, &f->format));
    }
    return TR_OK;
}

static enum tr_status check_keys(const struct build *b)
{
    const struct tr_words *keys = &b->o->json_keys;

    for (int k = 0; k < keys->count; k++) {
        if (keys->word[k][0] == '\0' || strchr(keys->word[k], '/'))
            return TR_FAIL(TR_ECONFIG, "--json-keys: \"%s\" cannot be part of the name of a file",
                           keys->word[k]);
        for (int i = 0; i < k; i++)
            if (strcmp(keys->word[i], keys->word[k]) == 0)
                return TR_FAIL(TR_ECONFIG, "--json-keys names \"%s\" twice", keys->word[k]);
    }
    for (int i = 0; i < b->file_count; i++)
        if (b->files[i].format == TR_CORPUS_TEXT &&
            (keys->count != 1 || strcmp(keys->word[0], "text") != 0))
            return TR_FAIL(TR_ECONFIG,
                           "%s is plain text, which has no keys, so --json-keys has "
                           "nothing to choose; if it is jsonl, give --input-format jsonl",
                           b->files[i].path);
    return TR_OK;
}

/* What was recognised: a folder may have another tokenizer than one thinks. */
static void tell_tokenizer(const struct tr_tokenizer *t)
{
    char *line = tr_tokenizer_describe(t);

    printf("tokenizer: %s\n", line);
    fflush(stdout);
    free(line);
}

static enum tr_status open_tokenizer(struct build *b)
{
    const struct tr_data_options *o = b->o;

    TR_TRY(tr_data_tokenizer(o, &b->tokenizer));
    if (o->append_eod && tr_tokenizer_eod(b->tokenizer) < 0)
        return TR_FAIL(TR_ECONFIG, "--append-eod: %s has no %s to append",
                       o->tokenizer_model ? o->tokenizer_model : o->vocab_file,
                       o->tokenizer_model ? "token that ends a text" : "\"<|endoftext|>\"");
    if (o->tokenizer_model)
        tell_tokenizer(b->tokenizer);
    b->rules = (struct tr_encode_rules){
        .corpus = {(enum tr_corpus_split)o->split_documents, o->document_marker, b->tokenizer},
        .keys = o->json_keys.word,
        .key_count = o->json_keys.count,
        .append_eod = o->append_eod,
        .add_special = o->add_special_tokens,
        .refuse_bad_utf8 = o->invalid_utf8 == TR_INVALID_UTF8_REFUSE,
    };
    return TR_OK;
}

static enum tr_status open_outputs(struct build *b)
{
    enum tr_index_type type = tr_index_type_for(tr_tokenizer_vocab_size(b->tokenizer));

    b->outputs = need(calloc((size_t)b->rules.key_count, sizeof *b->outputs));
    for (int k = 0; k < b->rules.key_count; k++) {
        b->outputs[k].prefix = tr_format("%s_%s_document", b->o->output_prefix, b->rules.keys[k]);
        TR_TRY(tr_data_may_write(b->o, b->outputs[k].prefix));
    }
    for (int k = 0; k < b->rules.key_count; k++)
        TR_TRY(tr_index_writer_open(b->outputs[k].prefix, type, &b->outputs[k].writer));
    return TR_OK;
}

static void open_workers(struct build *b)
{
    /* OpenMP counts the cores that this process may use, not those of the machine. */
    b->workers = b->o->workers == TR_UNSET_INT ? omp_get_num_procs() : (int)b->o->workers;
    b->slots = CHUNKS_PER_WORKER * b->workers;
    b->threads = need(calloc((size_t)b->workers, sizeof *b->threads));
    for (int i = 0; i < b->workers; i++)
        b->threads[i] = tr_tokenizer_thread_open(b->tokenizer);
    for (int i = 0; i < 2; i++) {
        b->batches[i].slots = need(calloc((size_t)b->slots, sizeof *b->batches[i].slots));
        for (int k = 0; k < b->slots; k++)
            tr_encoded_init(&b->batches[i].slots[k].encoded, b->rules.key_count);
    }
    /* jansson chooses the seed of its tables at first use, which must not be in several threads. */
    json_object_seed(0);
}

static enum tr_status fill(struct build *b, struct batch *batch)
{
    batch->used = 0;
    while (batch->used < b->slots) {
        struct tr_corpus_chunk *chunk = &batch->slots[batch->used].chunk;

        TR_TRY(tr_corpus_next(b->corpus, chunk));
        if (!chunk->file)
            break;
        batch->used++;
    }
    return TR_OK;
}

static enum tr_status write_coded(struct output *out, const struct tr_coded *c)
{
    int64_t from = 0;

    for (int64_t d = 0; d < c->documents; d++) {
        TR_TRY(tr_index_writer_extend(out->writer, c->ids + from, c->ends[d] - from));
        TR_TRY(tr_index_writer_end(out->writer));
        from = c->ends[d];
    }
    out->empty += c->empty;
    out->text_bytes += c->text_bytes;
    return tr_index_writer_extend(out->writer, c->ids + from, c->count - from);
}

static void show_progress(struct build *b)
{
    struct tr_done done = {b->bytes_read, 0, 0};

    for (int k = 0; k < b->rules.key_count; k++) {
        done.documents += tr_index_writer_documents(b->outputs[k].writer);
        done.tokens += tr_index_writer_tokens(b->outputs[k].writer);
    }
    /* Nothing of interest while the first one goes on. */
    done.documents = done.documents > 0 ? done.documents : -1;
    tr_meter_show(&b->progress, &done);
}

/* Write what has been encoded, in the order of the input. */
static enum tr_status drain(struct build *b, struct batch *batch)
{
    for (int i = 0; i < batch->used; i++) {
        const struct slot *s = &batch->slots[i];

        if (s->encoded.status != TR_OK)
            return TR_FAIL(s->encoded.status, "%s", s->encoded.sentence);
        for (int k = 0; k < b->rules.key_count; k++)
            TR_TRY(write_coded(&b->outputs[k], &s->encoded.coded[k]));
        b->bytes_read += (int64_t)s->chunk.bytes;
        if (s->encoded.bad.bytes > 0 && b->bad_bytes == 0) {
            b->bad_path = s->chunk.file->path;
            b->bad_first = (int64_t)s->encoded.bad.first;
        }
        b->bad_bytes += s->encoded.bad.bytes;
        show_progress(b);
        if (tr_data_stop())
            return tr_data_stopped();
    }
    batch->used = 0;
    return TR_OK;
}

/*
 * One thread reads and writes, all of them encode: while the tasks of one batch run, the batch before
 * it is written and the next one read.  What is written depends on the order of the input alone, so
 * it is the same for any number of threads.
 */
static enum tr_status run(struct build *b)
{
    enum tr_status status = fill(b, &b->batches[0]);
    int now = 0;

#pragma omp parallel num_threads(b->workers)
#pragma omp single
    while (status == TR_OK && b->batches[now].used > 0) {
        struct batch *batch = &b->batches[now], *other = &b->batches[1 - now];

        for (int i = 0; i < batch->used; i++) {
            struct slot *s = &batch->slots[i];

#pragma omp task firstprivate(s)
            tr_encode_chunk(&b->rules, b->threads[omp_get_thread_num()], &s->chunk, &s->encoded);
        }
        status = drain(b, other);
        if (status == TR_OK)
            status = fill(b, other);
#pragma omp taskwait
        now = 1 - now;
    }
    if (status == TR_OK)
        status = drain(b, &b->batches[1 - now]);
    /* Reading may have failed because of the signal. */
    return tr_data_stop() ? tr_data_stopped() : status;
}

static enum tr_status finish(struct build *b)
{
    int64_t documents = 0;

    for (int k = 0; k < b->rules.key_count; k++) {
        struct output *out = &b->outputs[k];

        out->documents = tr_index_writer_documents(out->writer);
        out->tokens = tr_index_writer_tokens(out->writer);
        documents += out->documents;
    }
    if (documents == 0)
        return TR_FAIL(TR_EDATA, "there is no text in %s%s, so nothing was written",
                       b->files[0].path, b->file_count > 1 ? " and the other files" : "");
    for (int k = 0; k < b->rules.key_count; k++) {
        struct tr_index_writer *w = b->outputs[k].writer;

        b->outputs[k].writer = NULL;
        TR_TRY(tr_index_writer_close(w));
    }
    return TR_OK;
}

static void report(const struct build *b, double seconds)
{
    int32_t vocab = tr_tokenizer_vocab_size(b->tokenizer);
    int type = (int)tr_index_type_for(vocab);
    char rate[TR_HUMAN], tokens_rate[TR_HUMAN];
    int64_t tokens = 0;

    for (int k = 0; k < b->rules.key_count; k++) {
        const struct output *out = &b->outputs[k];

        printf("%s: %" PRId64 " document%s, %" PRId64
               " token%s of %s, %.3f bytes of text per token\n",
               out->prefix, out->documents, tr_plural(out->documents), out->tokens,
               tr_plural(out->tokens), tr_data_type_name(type),
               out->tokens ? (double)out->text_bytes / (double)out->tokens : 0.0);
        if (out->empty > 0)
            printf("%s: %" PRId64 " document%s without text left out\n", out->prefix, out->empty,
                   tr_plural(out->empty));
        printf("wrote %s.bin (%" PRId64 " bytes) and %s.idx\n", out->prefix,
               out->tokens * tr_index_type_bytes(type), out->prefix);
        tokens += out->tokens;
    }
    /* What takes no time has no rate. */
    seconds = seconds > 1e-6 ? seconds : 1e-6;
    printf("%" PRId64 " bytes read in %.2f s: %s/s, %s tokens/s, %d worker%s\n", b->bytes_read,
           seconds, tr_human_bytes((double)b->bytes_read / seconds, rate),
           tr_human((double)tokens / seconds, tokens_rate), b->workers, tr_plural(b->workers));
    printf("to train on it: --data-path %s --vocab-size %d\n", b->outputs[0].prefix, vocab);
    if (b->bad_bytes > 0)
        tr_log(TR_LOG_WARNING,
               "%" PRId64 " bytes are not UTF-8, the first at byte %" PRId64 " of %s; "
               "they were kept, as tokens of bytes or of U+FFFD; --invalid-utf8 refuse would stop "
               "there",
               b->bad_bytes, b->bad_first, b->bad_path);
}

static void release(struct build *b)
{
    for (int k = 0; b->outputs && k < b->rules.key_count; k++) {
        tr_index_writer_discard(b->outputs[k].writer);
        free(b->outputs[k].prefix);
    }
    for (int i = 0; b->threads && i < b->workers; i++)
        tr_tokenizer_thread_close(b->threads[i]);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; b->batches[i].slots && k < b->slots; k++) {
            tr_corpus_chunk_release(&b->batches[i].slots[k].chunk);
            tr_encoded_release(&b->batches[i].slots[k].encoded, b->rules.key_count);
        }
        free(b->batches[i].slots);
    }
    free(b->outputs);
    free(b->threads);
    tr_corpus_close(b->corpus);
    tr_tokenizer_close(b->tokenizer);
    free(b->files);
}

static enum tr_status build(struct build *b, const struct tr_words *words)
{
    int64_t total;
    double seconds;
    enum tr_status status;

    if (b->o->workers != TR_UNSET_INT && b->o->workers > MAX_WORKERS)
        return TR_FAIL(TR_ECONFIG, "--workers %lld: give at most %d", (long long)b->o->workers,
                       MAX_WORKERS);
    TR_TRY(list_files(b, words));
    TR_TRY(check_keys(b));
    TR_TRY(open_tokenizer(b));
    b->corpus = tr_corpus_open(b->files, b->file_count, &b->rules.corpus);
    TR_TRY(tr_corpus_bytes(b->corpus, &total));
    TR_TRY(open_outputs(b));
    open_workers(b);
    tr_meter_start(&b->progress, "read", total, b->o->log_interval);
    status = run(b);
    if (status == TR_OK)
        status = finish(b);
    seconds = tr_meter_end(&b->progress);
    if (status == TR_OK)
        report(b, seconds);
    return status;
}

enum tr_status tr_data_build(const struct tr_data_options *o, const struct tr_words *words)
{
    struct build b = {.o = o};
    enum tr_status status = build(&b, words);

    release(&b);
    return status;
}
