/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_RNG_H
#define TR_UTIL_RNG_H

#include <stdint.h>

/*
 * Randomness without state.  A draw is a function of (seed, stream, item, index): which run, what is
 * drawn, for which thing, and where in it.  Nothing depends on the order of draws, on the rank that
 * draws, or on how the model is split, so every layout starts from the same weights and drops the
 * same activations, and a checkpoint holds no generator.
 *
 * Generator: Philox 4x32 with 10 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
 * 3", SC 2011); t_rng holds the known-answer vectors of its authors.
 */

/* What is drawn.  The numbers are part of every run's results: add at the end, never renumber. */
enum tr_stream {
    TR_STREAM_INIT = 1,         /* item: id of the parameter; index: element of the whole tensor */
    TR_STREAM_EMBED_DROPOUT,    /* item: sample; index: token * H + feature */
    TR_STREAM_ATTN_DROPOUT,     /* item: sample; index: (head * T + query) * T + key; see site */
    TR_STREAM_ATTN_OUT_DROPOUT, /* item: sample; index: token * H + feature */
    TR_STREAM_MLP_OUT_DROPOUT,  /* item: sample; index: token * H + feature */
    TR_STREAM_MOCK,             /* site: split; item: sample; index: token */
    TR_STREAM_EPOCH,            /* site: replica; item: epoch; index: place in the order */
    TR_STREAM_MASK,             /* site: vector; item: round or permutation; see codec/mask.h */
    TR_STREAM_TOKEN,            /* item: prompt; block: position of the token that is chosen */
    TR_STREAM_TASK_CHOICE,      /* index: position in the order of tasks */
    TR_STREAM_TASK,             /* site: task; item: sequence of it; see data/task.h */
    TR_STREAM_TASK_ORDER,       /* site: task; item: pass; index: place in the order */
    TR_STREAM_SPLIT,            /* index: document, of --split-at-random */
    TR_STREAM_POOL_DROPOUT,     /* item: sample; index: feature; of a head of classes */
    TR_STREAM_RELATIVE_DROPOUT, /* item: first sample of the micro-batch; index: row * H + feature */
    TR_STREAM_CONV_DROPOUT,     /* item: sample; index: token * H + feature */
    TR_STREAM_QUANT,       /* site: replica; item: round; index: message, place; dp/cocktail.h */
    TR_STREAM_SIM_PASS,    /* site: draw; item: rank; index: pass; of `trireme sim` */
    TR_STREAM_SIM_FAILURE, /* item: month; index: failure; of `trireme sim` */
    TR_STREAM_SWEEP,    /* item: repetition; index: hash of the shape's name; of `trireme sweep` */
    TR_STREAM_SIM_QUEUE /* item: month; index: wait in the queue; of `trireme sim` */
};

/* Names one sequence of draws.  Make with tr_rng_key(); pass by value. */
struct tr_rng {
    uint32_t key[2];
    uint32_t high[2]; /* the upper half of the counter */
};

/*
 * The sequence for `seed`, `stream`, `site` (layer number, 0 where there is none) and `item`.
 * key = (low and high word of seed); high = (item's low word, item's high 8 bits << 24 | site << 8 |
 * stream).  item < 2^40, site < 2^16.
 */
struct tr_rng tr_rng_key(uint64_t seed, enum tr_stream stream, int site, int64_t item);

/* Four words at counter (block low, block high, r.high[0], r.high[1]): draws 4 * block + 0..3. */
void tr_rng_block(struct tr_rng r, uint64_t block, uint32_t out[4]);

/* Draw number `index`, 32 uniform bits: word index % 4 of block index / 4. */
uint32_t tr_rng_u32(struct tr_rng r, uint64_t index);

/*
 * Standard normal draws first .. first + count - 1 into out.  Draws 2k and 2k + 1 of a block are the
 * cosine and the sine of Box and Muller's pair from words 2k and 2k + 1, u = (word + 0.5) / 2^32,
 * computed in double and rounded once.
 */
void tr_rng_normal(struct tr_rng r, uint64_t first, int64_t count, float *out);

/* Uniform draws (word + 0.5) / 2^32 * 2 - 1 of (-1, 1), of the same words, computed in double and rounded once. */
void tr_rng_uniform(struct tr_rng r, uint64_t first, int64_t count, float *out);

/*
 * The dropout threshold for probability p in [0, 1): an element is dropped when its draw is below
 * it, and otherwise scaled by 1 / (1 - p).
 */
uint32_t tr_rng_threshold(double p);

#endif
