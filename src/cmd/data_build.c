/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <jansson.h>
#include <omp.h>

#include "token/encode.h"
#include "util/meter.h"
#include "data/indexed.h"
#include "data/npz.h"
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
    int64_t empty, cut, text_bytes;
    int64_t documents, tokens; /* in the end */
};

struct build {
    const struct tr_data_options *o;
    struct tr_data_files list;
    struct tr_corpus_file *files; /* [file_count] those of the list, or */
    char *joined;                 /*   the one of --join-rows, owned */
    int file_count;
    int64_t part, parts;   /* of --part */
    int64_t total, passed; /* bytes of all files, and of chunks that were read */
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
    if (tr_npz_named(path))
        return TR_FAIL(
            TR_ECONFIG,
            "%s is a .npz file, and text and arrays of numpy cannot make one dataset: build "
            "them apart, and join them by `trireme data merge`",
            path);
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
    TR_TRY(tr_data_files(&b->o->input, words, &b->list));
    b->file_count = b->list.count;
    if (b->file_count == 0)
        return TR_FAIL(TR_ECONFIG,
                       "no file to build from: name them first, `trireme data build FILE... "
                       "--output-prefix PREFIX`%s",
                       b->o->json_keys.count > 1
                           ? "; what follows --json-keys belongs to it, up to the next option"
                           : "");
    return TR_OK;
}

static enum tr_status find_formats(struct build *b)
{
    b->files = need(calloc((size_t)b->file_count, sizeof *b->files));
    for (int i = 0; i < b->file_count; i++) {
        struct tr_corpus_file *f = &b->files[i];

        f->path = b->list.path[i];
        TR_TRY(format_of(b->o, f->path, &f->format));
    }
    return TR_OK;
}

/* K/N: of the documents, in the order of the input, the K-th of N parts, counted from 0. */
static enum tr_status read_part(struct build *b)
{
    char rest;
    long long part, parts;

    b->parts = 1;
    if (!b->o->part)
        return TR_OK;
    if (sscanf(b->o->part, "%lld/%lld%c", &part, &parts, &rest) != 2 || part < 0 || part >= parts ||
        parts > 1000000)
        return TR_FAIL(TR_ECONFIG,
                       "--part %s: give K/N, part K of N, counted from 0: --part "
                       "$SLURM_PROCID/$SLURM_NTASKS",
                       b->o->part);
    for (int i = 0; i < b->file_count; i++)
        if (b->files[i].format == TR_CORPUS_TEXT && b->rules.corpus.split == TR_CORPUS_FILE)
            return TR_FAIL(TR_ECONFIG,
                           "--part divides documents, and %s is one: give --split-documents",
                           b->files[i].path);
    b->part = part;
    b->parts = parts;
    return TR_OK;
}

static enum tr_status join_rows(struct build *b)
{
    if (!b->o->join_rows)
        return b->o->detokenizer == 0
                   ? TR_OK
                   : TR_FAIL(TR_ECONFIG, "--detokenizer is for rows that are joined: give "
                                         "--join-rows, or leave it out");
    TR_TRY(tr_data_join_rows(b->o, b->files, b->file_count, &b->joined));
    b->files[0] = (struct tr_corpus_file){b->joined, TR_CORPUS_TEXT};
    b->file_count = 1;
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
        if (b->files[i].format == TR_CORPUS_TEXT && !b->joined &&
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

/* The token that fills rows: --pad-id, or the last one of the vocabulary of one of these names. */
static enum tr_status find_pad(struct build *b)
{
    static const char *const names[] = {"[PAD]", "<pad>", "<|endoftext|>"};
    const int32_t size = tr_tokenizer_vocab_size(b->tokenizer);

    if (b->o->pad_id >= size)
        return TR_FAIL(TR_ECONFIG, "--pad-id %lld is no token of a vocabulary of %d",
                       (long long)b->o->pad_id, size);
    b->rules.row_id = (int32_t)b->o->pad_id;
    if (b->o->pad_id != TR_UNSET_INT)
        return TR_OK;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (int32_t id = size - 1; id >= 0; id--) {
            size_t bytes;
            const char *text = tr_tokenizer_text(b->tokenizer, id, &bytes);

            b->rules.row_id = id;
            if (text && bytes == strlen(names[n]) && memcmp(text, names[n], bytes) == 0)
                return TR_OK;
        }
    return TR_FAIL(TR_ECONFIG, "--row-tokens: the vocabulary has no token [PAD], <pad> or "
                               "<|endoftext|> to fill rows with: give --pad-id");
}

static enum tr_status set_rows(struct build *b)
{
    if (b->o->row_tokens == TR_UNSET_INT)
        return b->o->pad_id == TR_UNSET_INT
                   ? TR_OK
                   : TR_FAIL(TR_ECONFIG, "--pad-id fills rows: give --row-tokens, or leave it out");
    for (int i = 0; i < b->file_count; i++)
        if (b->files[i].format == TR_CORPUS_TEXT && b->rules.corpus.split == TR_CORPUS_FILE)
            return TR_FAIL(TR_ECONFIG,
                           "--row-tokens makes a row of each document, and %s is one: give "
                           "--split-documents lines",
                           b->files[i].path);
    b->rules.row = b->o->row_tokens;
    return find_pad(b);
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
    return set_rows(b);
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

/* Whether the chunk that begins behind b->passed bytes is of the part. */
static bool is_ours(struct build *b, const struct tr_corpus_chunk *chunk)
{
    const int64_t at = b->passed;

    b->passed += (int64_t)chunk->bytes;
    return b->parts == 1 || (at >= b->total / b->parts * b->part &&
                             (b->part == b->parts - 1 || at < b->total / b->parts * (b->part + 1)));
}

static enum tr_status fill(struct build *b, struct batch *batch)
{
    batch->used = 0;
    while (batch->used < b->slots) {
        struct tr_corpus_chunk *chunk = &batch->slots[batch->used].chunk;

        TR_TRY(tr_corpus_next(b->corpus, chunk));
        if (!chunk->file)
            break;
        batch->used += is_ours(b, chunk);
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
    out->cut += c->cut;
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
    if (documents == 0 && b->parts > 1)
        return TR_FAIL(TR_EDATA,
                       "part %" PRId64 " of %" PRId64
                       " has no documents, because text is divided in "
                       "pieces of 256 KiB and there are %" PRId64 " bytes: give fewer parts",
                       b->part, b->parts, b->total);
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
        if (out->cut > 0)
            printf("%s: %" PRId64 " document%s cut to %" PRId64 " tokens\n", out->prefix, out->cut,
                   tr_plural(out->cut), b->rules.row);
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
    if (b->joined)
        unlink(b->joined);
    free(b->joined);
    free(b->files);
    tr_data_files_release(&b->list);
}

static enum tr_status build(struct build *b, const struct tr_words *words)
{
    double seconds;
    enum tr_status status;

    if (b->o->workers != TR_UNSET_INT && b->o->workers > MAX_WORKERS)
        return TR_FAIL(TR_ECONFIG, "--workers %lld: give at most %d", (long long)b->o->workers,
                       MAX_WORKERS);
    if (b->o->task_name && words->count + b->o->input.count == 0)
        return tr_data_build_tasks(b->o);
    if (b->o->task_name || b->o->task_samples != TR_UNSET_INT || b->o->seq_length != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--task-name, --task-samples and --seq-length build sequences of tasks "
                       "in place of files: give --task-name and no file, or leave them out");
    TR_TRY(list_files(b, words));
    if (tr_npz_named(b->list.path[0]))
        return tr_data_build_npz(b->o, &b->list);
    TR_TRY(find_formats(b));
    TR_TRY(join_rows(b));
    TR_TRY(check_keys(b));
    TR_TRY(open_tokenizer(b));
    TR_TRY(read_part(b));
    b->corpus = tr_corpus_open(b->files, b->file_count, &b->rules.corpus);
    TR_TRY(tr_corpus_bytes(b->corpus, &b->total));
    if (b->total < 0 && b->parts > 1)
        return TR_FAIL(TR_ECONFIG,
                       "--part needs to know how long the text is, and a pipe does not say: "
                       "name files");
    TR_TRY(open_outputs(b));
    open_workers(b);
    tr_meter_start(&b->progress, "read", b->total, b->o->log_interval);
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
