/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "util/meter.h"
#include "data/indexed.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* Work is done in parts of about this size, between which progress is shown. */
enum {
    PART_TOKENS = 1 << 22,
    PART_DOCUMENTS = 1 << 20,
    READ_TOKENS = 1 << 16,
    HASH_BYTES = 1 << 24
};

static enum tr_status hash_file(const struct tr_map *map, struct tr_meter *p, struct tr_done *done,
                                XXH64_hash_t *out)
{
    XXH3_state_t *state = XXH3_createState();

    if (!state || XXH3_64bits_reset(state) == XXH_ERROR)
        tr_die(TR_ERESOURCE, "no memory left for a checksum");
    for (size_t at = 0; at < map->bytes && !tr_data_stop(); at += HASH_BYTES) {
        size_t n = map->bytes - at < HASH_BYTES ? map->bytes - at : HASH_BYTES;

        /* It fails only without state or data. */
        TR_ASSERT(XXH3_64bits_update(state, map->data + at, n) == XXH_OK);
        done->bytes += (int64_t)n;
        tr_meter_show(p, done);
    }
    *out = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return tr_data_stop() ? tr_data_stopped() : TR_OK;
}

/* Every token in 0 .. limit - 1. */
static enum tr_status check_tokens(const struct tr_index *x, int64_t limit, struct tr_meter *p,
                                   struct tr_done *done)
{
    int32_t tokens[READ_TOKENS];

    for (int64_t s = 0; s < x->sequences; s++) {
        int64_t length = tr_index_length(x, s);

        for (int64_t first = 0; first < length; first += READ_TOKENS) {
            int64_t n = length - first < READ_TOKENS ? length - first : READ_TOKENS;

            TR_TRY(tr_index_read(x, s, first, n, limit, tokens));
            done->bytes += n * x->type_bytes;
            done->tokens += n;
        }
        if (tr_data_stop())
            return tr_data_stopped();
        tr_meter_show(p, done);
    }
    return TR_OK;
}

static enum tr_status verify(const struct tr_data_options *o, const char *prefix,
                             const struct tr_index *x)
{
    int64_t limit = o->vocab_size == TR_UNSET_INT ? INT64_C(1) << 31 : o->vocab_size;
    struct tr_meter p;
    struct tr_done done = {0, -1, 0};
    XXH64_hash_t bin, idx;
    enum tr_status status;
    char *name;

    /* .bin is read twice: for its sum, then for its tokens. */
    tr_meter_start(&p, "verified", (int64_t)(2 * x->bin.bytes + x->idx.bytes), o->log_interval);
    status = hash_file(&x->bin, &p, &done, &bin);
    if (status == TR_OK)
        status = hash_file(&x->idx, &p, &done, &idx);
    if (status == TR_OK)
        status = check_tokens(x, limit, &p, &done);
    (void)tr_meter_end(&p);
    TR_TRY(status);
    name = tr_printable(tr_format("%s", prefix));
    printf("XXH3 (%s.bin) = %016" PRIx64 "\nXXH3 (%s.idx) = %016" PRIx64 "\n"
           "%s: ok, %" PRId64 " document%s, %" PRId64 " token%s, %s\n",
           name, bin, name, idx, name, x->documents, tr_plural(x->documents), x->tokens,
           tr_plural(x->tokens), tr_data_type_name(x->type));
    free(name);
    /* Before what may be said on stderr about the next one. */
    fflush(stdout);
    return TR_OK;
}

enum tr_status tr_data_verify(const struct tr_data_options *o, const struct tr_words *words)
{
    enum tr_status worst = TR_OK;

    if (words->count == 0)
        return TR_FAIL(TR_ECONFIG,
                       "trireme data verify needs prefixes, the paths without .bin and .idx");
    /* All are looked at, so that one run shows all that is wrong. */
    for (int i = 0; i < words->count && !tr_data_stop(); i++) {
        struct tr_index x;
        enum tr_status status = tr_index_open(words->word[i], &x);

        if (status == TR_OK) {
            status = verify(o, words->word[i], &x);
            tr_index_close(&x);
        }
        if (status == TR_OK)
            continue;
        if (words->count > 1)
            tr_log(TR_LOG_ERROR, "%s", tr_last_error());
        worst = status > worst ? status : worst;
    }
    if (worst != TR_OK && words->count > 1 && !tr_data_stop())
        return TR_FAIL(worst, "not all of the %d datasets are in order", words->count);
    return worst;
}

/* A type of tokens that holds what each of the parts can hold. */
static int common_type(const struct tr_index *parts, int count)
{
    /* In the order of the largest token that they hold. */
    static const int by_size[] = {TR_INDEX_I8,  TR_INDEX_U8,  TR_INDEX_I16,
                                  TR_INDEX_U16, TR_INDEX_I32, TR_INDEX_I64};
    size_t widest = 0;

    for (int i = 0; i < count; i++)
        for (size_t k = widest; k < sizeof by_size / sizeof *by_size; k++)
            if (parts[i].type == by_size[k])
                widest = k;
    return by_size[widest];
}

static enum tr_status append(struct tr_index_writer *w, const struct tr_index *part,
                             struct tr_meter *p, struct tr_done *done)
{
    int64_t first = 0, last;

    for (; first < part->documents; first = last) {
        int64_t tokens = 0;

        for (last = first;
             last < part->documents && last - first < PART_DOCUMENTS && tokens < PART_TOKENS;
             last++)
            for (int64_t s = tr_index_document(part, last); s < tr_index_document(part, last + 1);
                 s++)
                tokens += tr_index_length(part, s);
        TR_TRY(tr_index_writer_append_documents(w, part, first, last - first));
        done->bytes += tokens * part->type_bytes;
        done->documents += last - first;
        done->tokens += tokens;
        tr_meter_show(p, done);
        if (tr_data_stop())
            return tr_data_stopped();
    }
    return TR_OK;
}

static enum tr_status merge(const struct tr_data_options *o, const struct tr_index *parts,
                            int count)
{
    int type = common_type(parts, count);
    struct tr_index_writer *w;
    struct tr_meter p;
    struct tr_done done = {0};
    int64_t total = 0;
    enum tr_status status = TR_OK;

    for (int i = 0; i < count; i++) {
        total += (int64_t)parts[i].bin.bytes;
        if (parts[i].type != type)
            tr_log(TR_LOG_WARNING,
                   "%s has tokens of %s and becomes %s, as wide as the widest; were "
                   "all of them made with the same vocabulary?",
                   parts[i].prefix, tr_data_type_name(parts[i].type), tr_data_type_name(type));
    }
    TR_TRY(tr_index_writer_open(o->output_prefix, (enum tr_index_type)type, &w));
    tr_meter_start(&p, "merged", total, o->log_interval);
    for (int i = 0; i < count && status == TR_OK; i++)
        status = append(w, &parts[i], &p, &done);
    if (status == TR_OK) {
        status = tr_index_writer_close(w);
    } else {
        tr_index_writer_discard(w);
    }
    (void)tr_meter_end(&p);
    if (status == TR_OK)
        printf("%s: %" PRId64 " document%s, %" PRId64 " token%s of %s from %d dataset%s\n",
               o->output_prefix, done.documents, tr_plural(done.documents), done.tokens,
               tr_plural(done.tokens), tr_data_type_name(type), count, tr_plural(count));
    return status;
}

enum tr_status tr_data_merge(const struct tr_data_options *o, const struct tr_words *words)
{
    enum tr_status status = TR_OK;
    struct tr_index *parts;
    int count = 0;

    if (words->count == 0)
        return TR_FAIL(TR_ECONFIG, "trireme data merge needs the prefixes of the datasets to join");
    TR_TRY(tr_data_may_write(o, o->output_prefix));
    parts = calloc((size_t)words->count, sizeof *parts);
    if (!parts)
        tr_die(TR_ERESOURCE, "no memory left for %d datasets", words->count);
    while (status == TR_OK && count < words->count) {
        status = tr_index_open(words->word[count], &parts[count]);
        count += status == TR_OK;
    }
    if (status == TR_OK)
        status = merge(o, parts, count);
    for (int i = 0; i < count; i++)
        tr_index_close(&parts[i]);
    free(parts);
    return status;
}
