/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_CHARSMAP_H
#define TR_TOKEN_CHARSMAP_H

#include <stddef.h>

#include "util/status.h"

/*
 * SentencePiece's precompiled map of characters: the bytes of a double array (darts-clone), their number
 * in four bytes before them, and behind them the strings that it leads to, each ended by a zero.
 */
struct tr_charsmap;

/* TR_EDATA, in a sentence that begins with `where`, if `blob` is none.  What it needs is copied. */
enum tr_status tr_charsmap_open(const char *where, const unsigned char *blob, size_t bytes,
                                struct tr_charsmap **out) TR_MUST_CHECK;
void tr_charsmap_close(struct tr_charsmap *m);

/*
 * What stands for a beginning of text[0 .. bytes): the longest that the map has, or with `shortest` the
 * shortest.  Returns its length, 0 if the map has none, and the string, borrowed and terminated.
 */
size_t tr_charsmap_find(const struct tr_charsmap *m, const unsigned char *text, size_t bytes,
                        int shortest, const char **out);

#endif
