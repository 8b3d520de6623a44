/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_BPE_H
#define TR_TOKEN_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/*
 * Byte-level byte pair encoding as GPT-2 defines it (Radford et al. 2019, section 2.2).
 *
 * A text is split into pieces by GPT-2's regular expression; each piece starts as one symbol per
 * byte, and neighbouring symbols are joined in the order of the merge file, lowest line first and
 * of equals the leftmost, until no line applies.  White space is what Unicode's property
 * White_Space says, letters and numbers are the general categories L and N (token/pieces.h has all
 * of it).
 *
 * A piece is made of bytes, so no text is without tokens and decoding gives back every byte.  Bytes
 * that are not UTF-8 are outside the regular expression: each longest run of them is one piece.  The
 * spelling of a special token inside a text (such as "<|endoftext|>") is ordinary text, so a
 * document cannot end itself.
 */
struct tr_bpe;

/* What one thread needs to encode: scratch memory and a cache of recent pieces. */
struct tr_bpe_thread;

/* What was not UTF-8 in a text. */
struct tr_bad_utf8 {
    int64_t bytes;
    size_t first; /* offset of the first of them; unset when there are none */
};

/*
 * Read a vocabulary (a JSON object from spelling to id, the ids 0 to n - 1) and the merges that belong
 * to it (one pair per line, an optional first line "#version").  TR_EIO if a file cannot be read,
 * TR_EDATA naming file and line if it is malformed or the two do not belong together.
 */
enum tr_status tr_bpe_open(const char *vocab_file, const char *merge_file,
                           struct tr_bpe **out) TR_MUST_CHECK;
void tr_bpe_close(struct tr_bpe *b);

/* The number of entries. */
int32_t tr_bpe_vocab_size(const struct tr_bpe *b);

/* The id of "<|endoftext|>", or -1 if the vocabulary has none. */
int32_t tr_bpe_eod(const struct tr_bpe *b);

/* Never NULL; the job ends when memory does. */
struct tr_bpe_thread *tr_bpe_thread_open(void);
void tr_bpe_thread_close(struct tr_bpe_thread *t);

/*
 * The tokens of bytes [text, text + bytes) into ids, which has room for `bytes` of them; returns how
 * many.  `bytes` is less than 2^31.  Threads may encode at the same time, each with its own `t`.
 */
size_t tr_bpe_encode(const struct tr_bpe *b, struct tr_bpe_thread *t, const unsigned char *text,
                     size_t bytes, int32_t *ids, struct tr_bad_utf8 *bad);

/* The bytes of a token, *bytes of them and not terminated, borrowed from `b`; NULL if the vocabulary
   has no such id. */
const char *tr_bpe_token(const struct tr_bpe *b, int32_t id, size_t *bytes);

/*
 * Where a text may be split such that its two parts encoded separately give the tokens of the
 * whole: the largest such offset in [1, bytes), or 0 if there is none.  It lies before a white
 * space that follows something else.
 */
size_t tr_bpe_cut(const unsigned char *text, size_t bytes);

#endif
