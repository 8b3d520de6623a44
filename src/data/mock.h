/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_MOCK_H
#define TR_DATA_MOCK_H

#include <stdint.h>

/*
 * Samples for runs that try or time something and need no dataset: --mock-data.  A token is a
 * function of seed, split, sample and place in it (util/rng.h), so every layout sees the same.
 *
 * With u uniform in [0, 1) a token is the whole part of V u^2: small ones are frequent, so there is
 * something to learn, and what there is to learn is soon learnt: the loss of a model that knows only
 * how frequent they are is ln V - 1 + ln 2 for a large V.  One place in 256 is an end of text, where
 * the vocabulary has one.
 *
 * With TR_MOCK_UNIFORM (enums.def) a token is the whole part of V u, as the mock data of Yuan and of others are,
 * and there is nothing to learn: the loss stays at ln V.
 */
struct tr_mock;

/* Samples of seq + 1 tokens below `vocab`; `eod` is the end of text, or -1; `distribution` is one of enums.def.
   Owned by the caller. */
struct tr_mock *tr_mock_open(uint64_t seed, int64_t vocab, int64_t eod, int64_t seq,
                             int distribution);
void tr_mock_close(struct tr_mock *m);

/* Sample `sample` of split number `split` into text[seq + 1]. */
void tr_mock_sample(const struct tr_mock *m, int split, int64_t sample, int32_t *text);

#endif
