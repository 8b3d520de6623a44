/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_SAMPLE_H
#define TR_INFER_SAMPLE_H

#include <stdint.h>

/* How a token is chosen. */
struct tr_sampling {
    double temperature; /* scores are divided by it; 0: the most likely token (greedy decoding) */
    int64_t top_k;      /* of so many most likely tokens; 0: of all */
    double
        top_p; /* of those, of the fewest most likely whose probabilities sum up to this; 1: of all */
    uint64_t seed;
};

/* What a vocabulary needs to be chosen from; owned by the caller. */
struct tr_sampler {
    int64_t vocab;
    int64_t *order; /* [vocab] */
    double *weight; /* [vocab] */
    int64_t taken;  /* the most likely ones, which are in order */
};
void tr_sampler_open(struct tr_sampler *s, int64_t vocab);
void tr_sampler_close(struct tr_sampler *s);

/*
 * The token that follows, from scores[vocab]: a pure function of these, `how`, and for a temperature above 0 of
 * the number of the prompt and the position of the token in its text.  Of equal scores the lower token counts
 * as more likely.  Temperature, top-k and top-p are applied in this order.  *logprob is log p of the token under
 * the scores as they are, natural logarithm.
 */
int32_t tr_sample(struct tr_sampler *s, const float *scores, const struct tr_sampling *how,
                  int64_t prompt, int64_t position, float *logprob);

#endif
