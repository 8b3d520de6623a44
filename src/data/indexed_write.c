/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/indexed.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are little endian");

enum { HEADER_BYTES = 34, CHUNK = 16384 };

/* The three streams: tokens, header and sizes, and the starts of the documents, which come last in
   .idx and whose place is known only at the end. */
enum { BIN, IDX, STARTS, STREAMS };

struct tr_index_writer {
    char *prefix;
    enum tr_index_type type;
    int type_bytes;
    int64_t largest; /* token of the type */
    int64_t sequences, documents, tokens;
    int64_t begun; /* tokens of the sequence that has not ended */
    FILE *file[STREAMS];
    char *path[STREAMS];
    union {
        unsigned char bytes[CHUNK * sizeof(int64_t)];
        int32_t sizes[CHUNK];
    } chunk;
    int64_t numbers[CHUNK];
};

enum tr_index_type tr_index_type_for(int64_t vocab)
{
    return vocab < 65500 ? TR_INDEX_U16 : TR_INDEX_I32;
}

static enum tr_status cannot_write(const struct tr_index_writer *w, int stream)
{
    return TR_FAIL(TR_EIO, "cannot write %s: %s; what was written so far is removed",
                   w->path[stream], strerror(errno));
}

static enum tr_status put(struct tr_index_writer *w, int stream, const void *data, size_t bytes)
{
    if (bytes > 0 && fwrite(data, 1, bytes, w->file[stream]) != bytes)
        return cannot_write(w, stream);
    return TR_OK;
}

static enum tr_status put_sequence(struct tr_index_writer *w, int64_t length)
{
    int32_t size = (int32_t)length;

    TR_TRY(put(w, IDX, &size, sizeof size));
    w->sequences++;
    w->tokens += length;
    w->begun = 0;
    return TR_OK;
}

static enum tr_status end_document(struct tr_index_writer *w)
{
    w->documents++;
    return put(w, STARTS, &w->sequences, sizeof w->sequences);
}

static int64_t largest_token(enum tr_index_type type)
{
    switch (type) {
    case TR_INDEX_U8:
        return UINT8_MAX;
    case TR_INDEX_I8:
        return INT8_MAX;
    case TR_INDEX_I16:
        return INT16_MAX;
    case TR_INDEX_U16:
        return UINT16_MAX;
    default:
        return INT32_MAX;
    }
}

/* At most CHUNK tokens that fit, as they are in the file: the low bytes of a little-endian number are
   the narrower number.  Each width has its own loop, which compilers turn into vector code. */
static void narrow(struct tr_index_writer *w, const int32_t *tokens, int64_t count)
{
    unsigned char *at = w->chunk.bytes;

    switch (w->type_bytes) {
    case 1:
        for (int64_t i = 0; i < count; i++)
            at[i] = (unsigned char)tokens[i];
        break;
    case 2:
        for (int64_t i = 0; i < count; i++) {
            uint16_t token = (uint16_t)tokens[i];

            memcpy(at + 2 * i, &token, sizeof token);
        }
        break;
    case 4:
        memcpy(at, tokens, (size_t)count * sizeof *tokens);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            w->numbers[i] = tokens[i];
        memcpy(at, w->numbers, (size_t)count * sizeof *w->numbers);
    }
}

static enum tr_status does_not_fit(const struct tr_index_writer *w, const int32_t *tokens)
{
    int64_t i = 0;

    while (tokens[i] >= 0 && tokens[i] <= w->largest)
        i++;
    return TR_FAIL(
        TR_EDATA,
        "token %lld of document %lld is %d, which %d byte(s) of type %d in %s.bin cannot "
        "hold; build the dataset for a larger vocabulary",
        (long long)(w->begun + i), (long long)w->documents, tokens[i], w->type_bytes, (int)w->type,
        w->prefix);
}

/* Tokens of the sequence that is begun. */
static enum tr_status put_tokens(struct tr_index_writer *w, const int32_t *tokens, int64_t count)
{
    while (count > 0) {
        int64_t n = count < CHUNK ? count : CHUNK;
        unsigned wrong = 0;

        /* As unsigned a negative token is too large; without a branch the loop is vector code. */
        for (int64_t i = 0; i < n; i++)
            wrong |= (uint32_t)tokens[i] > (uint32_t)w->largest;
        if (wrong)
            return does_not_fit(w, tokens);
        narrow(w, tokens, n);
        TR_TRY(put(w, BIN, w->chunk.bytes, (size_t)(n * w->type_bytes)));
        w->begun += n;
        tokens += n;
        count -= n;
    }
    return TR_OK;
}

enum tr_status tr_index_writer_extend(struct tr_index_writer *w, const int32_t *tokens,
                                      int64_t count)
{
    if (count > INT32_MAX - w->begun)
        return TR_FAIL(TR_EDATA,
                       "document %lld has %lld tokens or more, and the format counts at most %d in "
                       "one; split it (trireme data build has --split-documents)",
                       (long long)w->documents, (long long)(w->begun + count), INT32_MAX);
    return put_tokens(w, tokens, count);
}

enum tr_status tr_index_writer_end(struct tr_index_writer *w)
{
    TR_TRY(put_sequence(w, w->begun));
    return end_document(w);
}

enum tr_status tr_index_writer_add(struct tr_index_writer *w, const int32_t *tokens, int64_t count)
{
    TR_TRY(tr_index_writer_extend(w, tokens, count));
    return tr_index_writer_end(w);
}

/* Tokens of another type go through 32 bits; the limit makes those that have no place there fail.
   */
static enum tr_status convert_sequence(struct tr_index_writer *w, const struct tr_index *part,
                                       int64_t sequence)
{
    int64_t length = tr_index_length(part, sequence);

    for (int64_t first = 0; first < length; first += CHUNK) {
        int32_t tokens[CHUNK];
        int64_t count = length - first < CHUNK ? length - first : CHUNK;

        TR_TRY(tr_index_read(part, sequence, first, count, INT64_C(1) << 31, tokens));
        TR_TRY(put_tokens(w, tokens, count));
    }
    return TR_OK;
}

/* The bytes of sequences first .. end - 1, which lie one after the other. */
static enum tr_status copy_sequences(struct tr_index_writer *w, const struct tr_index *part,
                                     int64_t first, int64_t end)
{
    int64_t from = 0, to = (int64_t)part->bin.bytes;

    if (first == end)
        return TR_OK;
    memcpy(&from, part->pointers + first * (int64_t)sizeof from, sizeof from);
    if (end < part->sequences)
        memcpy(&to, part->pointers + end * (int64_t)sizeof to, sizeof to);
    return put(w, BIN, part->bin.data + from, (size_t)(to - from));
}

enum tr_status tr_index_writer_append_documents(struct tr_index_writer *w,
                                                const struct tr_index *part, int64_t first,
                                                int64_t count)
{
    int64_t sequence;

    TR_ASSERT(w->begun == 0 && first >= 0 && count >= 0 && count <= part->documents - first);
    sequence = tr_index_document(part, first);
    if (part->type == (int)w->type)
        TR_TRY(copy_sequences(w, part, sequence, tr_index_document(part, first + count)));
    for (int64_t d = first; d < first + count; d++) {
        for (; sequence < tr_index_document(part, d + 1); sequence++) {
            if (part->type != (int)w->type)
                TR_TRY(convert_sequence(w, part, sequence));
            TR_TRY(put_sequence(w, tr_index_length(part, sequence)));
        }
        TR_TRY(end_document(w));
    }
    return TR_OK;
}

enum tr_status tr_index_writer_append(struct tr_index_writer *w, const struct tr_index *part)
{
    return tr_index_writer_append_documents(w, part, 0, part->documents);
}

int64_t tr_index_writer_documents(const struct tr_index_writer *w)
{
    return w->documents;
}

int64_t tr_index_writer_tokens(const struct tr_index_writer *w)
{
    return w->tokens + w->begun;
}

static enum tr_status put_header(struct tr_index_writer *w)
{
    unsigned char header[HEADER_BYTES] = "MMIDIDX";
    uint64_t version = 1, sequences = (uint64_t)w->sequences;
    uint64_t starts = (uint64_t)w->documents + 1;

    memcpy(header + 9, &version, 8);
    header[17] = (unsigned char)w->type;
    memcpy(header + 18, &sequences, 8);
    memcpy(header + 26, &starts, 8);
    return put(w, IDX, header, sizeof header);
}

/* The pointers follow from the sizes, which are read back rather than kept. */
static enum tr_status put_pointers(struct tr_index_writer *w)
{
    int64_t pointer = 0;

    if (fflush(w->file[IDX]) != 0)
        return cannot_write(w, IDX);
    for (int64_t first = 0; first < w->sequences; first += CHUNK) {
        size_t n = (size_t)(w->sequences - first < CHUNK ? w->sequences - first : CHUNK);
        off_t at = HEADER_BYTES + first * (int64_t)sizeof(int32_t);

        errno = EIO;
        if (pread(fileno(w->file[IDX]), w->chunk.sizes, n * sizeof(int32_t), at) !=
            (ssize_t)(n * sizeof(int32_t)))
            return cannot_write(w, IDX);
        for (size_t i = 0; i < n; i++) {
            w->numbers[i] = pointer;
            pointer += (int64_t)w->chunk.sizes[i] * w->type_bytes;
        }
        TR_TRY(put(w, IDX, w->numbers, n * sizeof(int64_t)));
    }
    return TR_OK;
}

static enum tr_status put_starts(struct tr_index_writer *w)
{
    int64_t zero = 0;
    size_t n;

    if (fseek(w->file[STARTS], 0, SEEK_SET) != 0)
        return cannot_write(w, STARTS);
    TR_TRY(put(w, IDX, &zero, sizeof zero));
    while ((n = fread(w->numbers, sizeof(int64_t), CHUNK, w->file[STARTS])) > 0)
        TR_TRY(put(w, IDX, w->numbers, n * sizeof(int64_t)));
    return ferror(w->file[STARTS]) ? cannot_write(w, STARTS) : TR_OK;
}

static enum tr_status flush(struct tr_index_writer *w, int stream)
{
    FILE *f = w->file[stream];
    bool failed = fflush(f) != 0 || fsync(fileno(f)) != 0;

    if (failed)
        (void)cannot_write(w, stream);
    w->file[stream] = NULL;
    if (fclose(f) != 0 && !failed) {
        failed = true;
        (void)cannot_write(w, stream);
    }
    return failed ? TR_EIO : TR_OK;
}

static enum tr_status put_in_place(struct tr_index_writer *w)
{
    static const char *const suffix[] = {".bin", ".idx"};
    char *folder;
    enum tr_status s;

    for (int stream = BIN; stream <= IDX; stream++) {
        char *final = tr_format("%s%s", w->prefix, suffix[stream]);
        int failed = rename(w->path[stream], final);

        if (failed)
            (void)TR_FAIL(TR_EIO, "cannot rename %s to %s: %s", w->path[stream], final,
                          strerror(errno));
        free(final);
        if (failed)
            return TR_EIO;
    }
    folder = tr_format("%s", w->prefix);
    s = tr_fsync_path(dirname(folder));
    free(folder);
    return s;
}

static enum tr_status finish(struct tr_index_writer *w)
{
    TR_ASSERT(w->begun == 0);
    TR_TRY(put_pointers(w));
    TR_TRY(put_starts(w));
    if (fseek(w->file[IDX], 0, SEEK_SET) != 0)
        return cannot_write(w, IDX);
    TR_TRY(put_header(w));
    TR_TRY(flush(w, BIN));
    TR_TRY(flush(w, IDX));
    return put_in_place(w);
}

enum tr_status tr_index_writer_close(struct tr_index_writer *w)
{
    enum tr_status s = finish(w);

    tr_index_writer_discard(w);
    return s;
}

/* After close() the renamed names are gone, and removing them does nothing. */
void tr_index_writer_discard(struct tr_index_writer *w)
{
    if (!w)
        return;
    for (int i = 0; i < STREAMS; i++) {
        if (w->file[i])
            fclose(w->file[i]);
        if (w->path[i])
            unlink(w->path[i]);
        free(w->path[i]);
    }
    free(w->prefix);
    free(w);
}

enum tr_status tr_index_writer_open(const char *prefix, enum tr_index_type type,
                                    struct tr_index_writer **out)
{
    static const char *const suffix[] = {".bin", ".idx", ".idx.starts"};
    struct tr_index_writer *w;
    enum tr_status s = TR_OK;

    *out = NULL;
    if (tr_index_type_bytes((int)type) == 0)
        return TR_FAIL(TR_EDATA, "%d is no type of tokens, so %s.bin cannot be written", (int)type,
                       prefix);
    w = calloc(1, sizeof *w);
    if (!w)
        tr_die(TR_ERESOURCE, "no memory left to write %s.bin", prefix);
    w->prefix = tr_format("%s", prefix);
    w->type = type;
    w->type_bytes = tr_index_type_bytes((int)type);
    w->largest = largest_token(type);
    for (int i = 0; i < STREAMS && s == TR_OK; i++) {
        w->path[i] = tr_format("%s%s.tmp.%ld", prefix, suffix[i], (long)getpid());
        w->file[i] = fopen(w->path[i], "w+e");
        if (!w->file[i])
            s = cannot_write(w, i);
    }
    if (s == TR_OK)
        s = put_header(w);
    if (s != TR_OK) {
        tr_index_writer_discard(w);
        return s;
    }
    *out = w;
    return TR_OK;
}
