/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_ENCODE_H
#define TR_TOKEN_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "token/corpus.h"
#include "token/tokenizer.h"

/*
 * From one chunk of text to the tokens of its documents: what the threads of `trireme data build` do.
 */
struct tr_encode_rules {
    struct tr_corpus_rules corpus; /* with the tokenizer */
    char *const *keys;             /* of a jsonl object: each makes a dataset of its own */
    int key_count;
    bool append_eod;
    int64_t row; /* each document is cut or padded to so many tokens, empty ones too; 0: as it is */
    int32_t row_id;   /* with this token */
    bool add_special; /* tokens that others put before and behind each document */
    bool refuse_bad_utf8;
};

/* The documents of one key in a chunk, in order. */
struct tr_coded {
    int32_t *ids;  /* owned */
    int64_t *ends; /* owned: where in ids each document ends; what follows the last of
                                   them belongs to a document that goes on in the next chunk */
    int64_t count, documents;
    int64_t empty;      /* documents without text, left out */
    int64_t cut;        /* documents that were longer than a row */
    int64_t text_bytes; /* that the tokens stand for */
    size_t ids_capacity, ends_capacity;
};

struct tr_encoded {
    struct tr_coded *coded; /* one per key, owned */
    struct tr_bad_utf8 bad; /* `first` is an offset in the file */
    enum tr_status status;
    char *sentence; /* of the failure, owned, or NULL */
};

/*
 * All documents of `chunk` into *out, which keeps its memory from call to call (zero at first, with
 * `coded` of key_count entries that are zero).  Threads may encode at the same time, each with its own
 * `thread` and `out`; that is why a failure is in *out and not in tr_last_error(): TR_EDATA for a line
 * that is no JSON object, lacks a key, or has something other than text there; TR_EDATA for bytes that
 * are not UTF-8, if the rules refuse them.
 */
void tr_encode_chunk(const struct tr_encode_rules *rules, struct tr_tokenizer_thread *thread,
                     const struct tr_corpus_chunk *chunk, struct tr_encoded *out);

/* `out` and the memory it keeps, for `keys` keys; zero again after release. */
void tr_encoded_init(struct tr_encoded *out, int keys);
void tr_encoded_release(struct tr_encoded *out, int keys);

#endif
