/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_DICT_H
#define TR_TOKEN_DICT_H

#include <stddef.h>
#include <stdint.h>

/* From strings of bytes to numbers that are not negative: what a vocabulary is.  Read-only, it may be
   shared by threads. */
struct tr_dict;

struct tr_dict *tr_dict_new(void);
void tr_dict_free(struct tr_dict *d);

/* The string's number from now on; the last one counts.  Returns the number that it had, or -1. */
int32_t tr_dict_put(struct tr_dict *d, const void *text, size_t bytes, int32_t number);

/* -1 if it has none. */
int32_t tr_dict_get(const struct tr_dict *d, const void *text, size_t bytes);

/*
 * From pairs of numbers that are not negative to pairs of numbers: merges, from two symbols to the order
 * in which they apply and the symbol that they become.
 */
struct tr_pairs;

struct tr_pairs *tr_pairs_new(void);
void tr_pairs_free(struct tr_pairs *p);

/* What the pair leads to from now on; the last one counts. */
void tr_pairs_put(struct tr_pairs *p, int32_t left, int32_t right, int32_t rank, int32_t id);

/* The rank, and *id; -1 if the pair is none. */
int32_t tr_pairs_get(const struct tr_pairs *p, int32_t left, int32_t right, int32_t *id);

#endif
