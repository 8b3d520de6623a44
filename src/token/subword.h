/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_SUBWORD_H
#define TR_TOKEN_SUBWORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "token/dict.h"
#include "token/grow.h"
#include "token/merge.h"
#include "token/trie.h"

/*
 * From a piece of text to tokens: what tokenizer.json and SentencePiece call a model.
 *
 *     BPE         neighbours are joined in the order of a list of merges (tokenizer.json)
 *     WORDPIECE   the longest entry with which the rest begins
 *     UNIGRAM     the entries whose scores have the largest sum, in double (tokenizer.json)
 *     SP_BPE      neighbours are joined whose text is the entry of the largest score (SentencePiece)
 *     SP_UNIGRAM  like UNIGRAM, in float, with pieces that are always taken whole (SentencePiece)
 *     CHINESE     the longest entry, with a prefix where it is not Chinese (token/chinese.h)
 */
enum tr_subword_kind {
    TR_SUBWORD_BPE,
    TR_SUBWORD_WORDPIECE,
    TR_SUBWORD_UNIGRAM,
    TR_SUBWORD_SP_BPE,
    TR_SUBWORD_SP_UNIGRAM,
    TR_SUBWORD_CHINESE
};

/* What an entry of the vocabulary is: SentencePiece's types, by their numbers. */
enum tr_entry_type {
    TR_ENTRY_NORMAL = 1,
    TR_ENTRY_UNKNOWN,
    TR_ENTRY_CONTROL,
    TR_ENTRY_USER_DEFINED,
    TR_ENTRY_UNUSED,
    TR_ENTRY_BYTE
};

struct tr_entry {
    char *text; /* owned, as the vocabulary spells it, terminated; NULL: no such id */
    size_t bytes;
    double score;
    enum tr_entry_type type;
};

struct tr_subword {
    enum tr_subword_kind kind;
    struct tr_entry *entries; /* owned */
    size_t count;
    int32_t unknown; /* its id, or -1 */
    bool byte_level; /* entries spell bytes by GPT-2's alphabet */
    bool byte_fallback, fuse_unknown, ignore_merges;
    char *prefix;        /* owned: of WORDPIECE, what continues a word */
    size_t longest_word; /* of WORDPIECE, in characters */

    /* Made by tr_subword_prepare(). */
    struct tr_dict *dict;   /* from what a text has to what entry it is; before that as spelled */
    struct tr_pairs *pairs; /* filled by the reader, for BPE */
    int32_t byte_ids[256];  /* of each byte: of its letter, or its entry <0xXX>; or -1 */
    bool all_bytes;         /* each byte has an entry <0xXX> */
    struct tr_trie *trie, *continued, *whole; /* `whole`: user-defined pieces, or NULL */
    int32_t symbols; /* of SP_BPE: ids, and characters that are in pieces but no pieces */
    double *scores;  /* owned: of unigram models, by id */
    size_t longest;  /* bytes of the longest of them, at least 4 */
    double unknown_score;
    bool blank_ends; /* no token has a U+2581 behind another character */
};

/* The byte that each character of GPT-2's alphabet stands for, or -1; its characters are below 512. */
void tr_byte_of_spelling(int16_t byte_of[512]);

/* The bytes that a spelling stands for, at most as many, into `out`; false if it has a character outside
   that alphabet. */
bool tr_spelled_bytes(const int16_t byte_of[512], const char *text, size_t bytes,
                      unsigned char *out, size_t *out_bytes);

/* The byte that an entry "<0x41>" stands for, or -1. */
int tr_byte_entry(const char *text, size_t bytes);

/* What encoding needs besides entries and pairs.  TR_EDATA, in a sentence that begins with `where`. */
enum tr_status tr_subword_prepare(struct tr_subword *m, const char *where) TR_MUST_CHECK;
void tr_subword_release(struct tr_subword *m);

/* What a thread needs: scratch memory and a cache of recent pieces. */
struct tr_subword_thread;
struct tr_subword_thread *tr_subword_thread_open(void);
void tr_subword_thread_close(struct tr_subword_thread *t);

/* Add the tokens of a piece, less than 2^31 bytes that are UTF-8; bytes that are not are taken as they are
   by a byte-level model. */
void tr_subword_encode(const struct tr_subword *m, struct tr_subword_thread *t,
                       const unsigned char *piece, size_t bytes, struct tr_tokens *out);

#endif
