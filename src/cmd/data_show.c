/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/data.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/indexed.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

enum { READ_TOKENS = 1 << 14 };

static int64_t document_length(const struct tr_index *x, int64_t document)
{
    int64_t tokens = 0, end = tr_index_document(x, document + 1);

    for (int64_t s = tr_index_document(x, document); s < end; s++)
        tokens += tr_index_length(x, s);
    return tokens;
}

static int compare_lengths(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Shortest, median (the lower of two) and longest document. */
static void print_lengths(const struct tr_index *x)
{
    int64_t *lengths = calloc((size_t)x->documents, sizeof *lengths);

    if (!lengths)
        tr_die(TR_ERESOURCE, "no memory left for the lengths of %" PRId64 " documents",
               x->documents);
    for (int64_t d = 0; d < x->documents; d++)
        lengths[d] = document_length(x, d);
    qsort(lengths, (size_t)x->documents, sizeof *lengths, compare_lengths);
    printf("tokens in a document:  %" PRId64 " to %" PRId64 ", median %" PRId64 ", mean %.1f\n",
           lengths[0], lengths[x->documents - 1], lengths[(x->documents - 1) / 2],
           (double)x->tokens / (double)x->documents);
    free(lengths);
}

/* The last token of a document, or -1 if it has none. */
static enum tr_status last_token(const struct tr_index *x, int64_t document, int32_t *out)
{
    *out = -1;
    for (int64_t s = tr_index_document(x, document + 1) - 1; s >= tr_index_document(x, document);
         s--)
        if (tr_index_length(x, s) > 0)
            return tr_index_read(x, s, tr_index_length(x, s) - 1, 1, INT64_C(1) << 31, out);
    return TR_OK;
}

/* A mark shows itself as the one token in which all documents end; a single document may end so by
   chance, and its token is printed without a claim. */
static enum tr_status print_ends(const struct tr_index *x)
{
    int32_t first, token;
    int64_t same = 0;

    TR_TRY(last_token(x, 0, &first));
    for (int64_t d = 0; d < x->documents; d++) {
        TR_TRY(last_token(x, d, &token));
        same += token == first;
    }
    if (x->documents == 1)
        printf("end of document:       it ends in token %d\n", first);
    else if (same == x->documents)
        printf("end of document:       all end in token %d\n", first);
    else
        printf("end of document:       no common token: %" PRId64
               " end in %d as the first does, %" PRId64 " do not\n",
               same, first, x->documents - same);
    return TR_OK;
}

static enum tr_status print_facts(const struct tr_index *x)
{
    char *prefix = tr_printable(tr_format("%s", x->prefix));

    printf("prefix:                %s\n"
           "documents:             %" PRId64 "\n"
           "sequences:             %" PRId64 "\n"
           "tokens:                %" PRId64 "\n"
           "type of a token:       %s, code %d\n"
           "bytes:                 %zu in .bin, %zu in .idx\n",
           prefix, x->documents, x->sequences, x->tokens, tr_data_type_name(x->type), x->type,
           x->bin.bytes, x->idx.bytes);
    free(prefix);
    if (x->documents == 0)
        return TR_OK;
    print_lengths(x);
    return print_ends(x);
}

/* A token's text on one line: in quotes, with escapes for what does not print. */
static void print_quoted(const char *text, size_t bytes)
{
    putchar('"');
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c == '\n')
            printf("\\n");
        else if (c < 32 || c == 127)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    putchar('"');
}

/* As it is, but what a terminal would obey does not reach one. */
static void print_text(const char *text, size_t bytes)
{
    const bool terminal = isatty(STDOUT_FILENO) == 1;

    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];

        putchar(terminal && ((c < ' ' && c != '\n' && c != '\t') || c == 127) ? '?' : c);
    }
}

/* How tokens become text. */
struct reading {
    struct tr_tokenizer *t; /* NULL: they do not */
    struct tr_decoder *decoder;
    struct tr_bytes text;
};

static enum tr_status print_token(const struct tr_data_options *o, struct reading *r, int32_t token)
{
    const char *text;
    size_t bytes;

    if (!r->t) {
        printf("%d\n", token);
        return TR_OK;
    }
    text = tr_tokenizer_text(r->t, token, &bytes);
    if (!text)
        return TR_FAIL(TR_EDATA,
                       "token %d is not in the vocabulary of this tokenizer, so the dataset "
                       "was made with another one",
                       token);
    if (o->tokens) {
        printf("%d ", token);
        print_quoted(text, bytes);
        putchar('\n');
    } else {
        r->text.count = 0;
        tr_decoder_add(r->decoder, token, &r->text);
        print_text((const char *)r->text.data, r->text.count);
    }
    return TR_OK;
}

static enum tr_status print_sequence(const struct tr_data_options *o, const struct tr_index *x,
                                     struct reading *r, int64_t sequence)
{
    int32_t tokens[READ_TOKENS];
    int64_t length = tr_index_length(x, sequence);

    for (int64_t first = 0; first < length; first += READ_TOKENS) {
        int64_t n = length - first < READ_TOKENS ? length - first : READ_TOKENS;

        TR_TRY(tr_index_read(x, sequence, first, n, INT64_C(1) << 31, tokens));
        for (int64_t i = 0; i < n; i++)
            TR_TRY(print_token(o, r, tokens[i]));
    }
    return TR_OK;
}

static enum tr_status print_document(const struct tr_data_options *o, const struct tr_index *x)
{
    struct reading r = {0};
    enum tr_status status = TR_OK;

    if (o->document >= x->documents)
        return TR_FAIL(TR_ECONFIG,
                       "--document %" PRId64 ": %s has %" PRId64 " document%s, counted "
                       "from 0",
                       o->document, x->prefix, x->documents, tr_plural(x->documents));
    if (o->tokenizer_type != TR_DATA_NO_TOKENIZER)
        TR_TRY(tr_data_tokenizer(o, &r.t));
    if (r.t)
        r.decoder = tr_decoder_open(r.t, TR_DECODE_RAW);
    for (int64_t s = tr_index_document(x, o->document);
         s < tr_index_document(x, o->document + 1) && status == TR_OK; s++)
        status = print_sequence(o, x, &r, s);
    r.text.count = 0;
    if (r.t && status == TR_OK)
        tr_decoder_end(r.decoder, &r.text);
    print_text((const char *)r.text.data, r.text.count);
    tr_decoder_close(r.decoder);
    tr_tokenizer_close(r.t);
    free(r.text.data);
    return status;
}

enum tr_status tr_data_show(const struct tr_data_options *o, const struct tr_words *words)
{
    struct tr_index x;
    enum tr_status status;

    if (words->count != 1)
        return TR_FAIL(TR_ECONFIG,
                       "trireme data show needs one prefix, the path without .bin and "
                       ".idx, and was given %d",
                       words->count);
    if (o->document == TR_UNSET_INT && (o->tokens || o->tokenizer_type != TR_DATA_NO_TOKENIZER))
        return TR_FAIL(TR_ECONFIG, "--%s needs --document, which says what to print",
                       o->tokens ? "tokens" : "tokenizer-type");
    if (o->tokenizer_type == TR_DATA_NO_TOKENIZER && (o->vocab_file || o->merge_file))
        return TR_FAIL(TR_ECONFIG, "--vocab-file and --merge-file are of no use without "
                                   "--tokenizer-type gpt2-bpe");
    TR_TRY(tr_index_open(words->word[0], &x));
    status = o->document == TR_UNSET_INT ? print_facts(&x) : print_document(o, &x);
    tr_index_close(&x);
    return status;
}
