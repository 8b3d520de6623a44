/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/rng.h"
#include "util/status.h"

void tr_sampler_open(struct tr_sampler *s, int64_t vocab)
{
    *s = (struct tr_sampler){.vocab = vocab,
                             .order = calloc((size_t)vocab, sizeof *s->order),
                             .weight = calloc((size_t)vocab, sizeof *s->weight)};
    if (!s->order || !s->weight)
        tr_die(TR_ERESOURCE, "no memory left to choose among %lld tokens", (long long)vocab);
}

void tr_sampler_close(struct tr_sampler *s)
{
    free(s->order);
    free(s->weight);
    *s = (struct tr_sampler){0};
}

static int64_t best(const float *scores, int64_t n)
{
    int64_t at = 0;

    for (int64_t i = 1; i < n; i++)
        if (scores[i] > scores[at])
            at = i;
    return at;
}

static float logprob_of(const float *scores, int64_t n, int64_t token, int64_t top)
{
    double sum = exp((double)scores[0] - (double)scores[top]);

    for (int64_t i = 1; i < n; i++)
        sum += exp((double)scores[i] - (double)scores[top]);
    return (float)((double)scores[token] - (double)scores[top] - log(sum));
}

/* Whether token i is less likely than token j. */
static bool below(const float *scores, int64_t i, int64_t j)
{
    return scores[i] < scores[j] || (!(scores[j] < scores[i]) && i > j);
}

/* A heap of tokens, the most likely at its top. */
static void sink(int64_t *heap, int64_t n, int64_t at, const float *scores)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        const int64_t token = heap[at];

        if (child + 1 < n && below(scores, heap[child], heap[child + 1]))
            child++;
        if (!below(scores, token, heap[child]))
            return;
        heap[at] = heap[child];
        heap[child] = token;
    }
}

/* Uniform in (0, 1), of 64 bits. */
static double draw(uint64_t seed, int64_t prompt, int64_t position)
{
    uint32_t bits[4];

    tr_rng_block(tr_rng_key(seed, TR_STREAM_TOKEN, 0, prompt), (uint64_t)position, bits);
    return ((double)bits[0] + ((double)bits[1] + 0.5) / 4294967296.0) / 4294967296.0;
}

static void open_order(struct tr_sampler *s, const float *scores)
{
    for (int64_t i = 0; i < s->vocab; i++)
        s->order[i] = i;
    for (int64_t i = s->vocab / 2; i-- > 0;)
        sink(s->order, s->vocab, i, scores);
    s->taken = 0;
}

static double weight_of(float score, const struct tr_sampling *how, double top)
{
    return exp(((double)score - top) / how->temperature);
}

/* The weight of token number i in the order of their likelihood.  No more tokens than were asked for are put in
   order.  They stand at the end of s->order, backwards. */
static double weight_at(struct tr_sampler *s, int64_t i, const float *scores,
                        const struct tr_sampling *how, double top)
{
    while (s->taken <= i) {
        const int64_t token = s->order[0], last = s->vocab - ++s->taken;

        s->order[0] = s->order[last];
        s->order[last] = token;
        sink(s->order, last, 0, scores);
        s->weight[last] = weight_of(scores[token], how, top);
    }
    return s->weight[s->vocab - 1 - i];
}

static int64_t token_at(const struct tr_sampler *s, int64_t i)
{
    return s->order[s->vocab - 1 - i];
}

/* Of the first `count` tokens the one where their weights sum up to more than `left`, or the last. */
static int64_t choose(const struct tr_sampler *s, int64_t count, double left)
{
    for (int64_t i = 0; i < count - 1; i++) {
        left -= s->weight[s->vocab - 1 - i];
        if (left < 0.0)
            return token_at(s, i);
    }
    return token_at(s, count - 1);
}

/* All weights that count are added in their order. */
static int64_t drawn_in_order(struct tr_sampler *s, const float *scores,
                              const struct tr_sampling *how, double top, double u)
{
    const int64_t n = s->vocab, most = how->top_k > 0 && how->top_k < n ? how->top_k : n;
    double all = 0.0, kept = 0.0;
    int64_t count = 0;

    for (int64_t i = 0; i < most; i++)
        all += weight_at(s, i, scores, how, top);
    while (count < most && (count == 0 || kept < how->top_p * all))
        kept += s->weight[n - ++count];
    return choose(s, count, u * kept);
}

/*
 * The same token where only some are put in order: the sum of all weights is that in the order of the vocabulary, which is
 * off by less than `slack`.  -1 where a comparison is too close to be certain.
 */
static int64_t drawn_soon(struct tr_sampler *s, const float *scores, const struct tr_sampling *how,
                          double top, double u)
{
    double all = 0.0, kept = 0.0, slack, left;
    int64_t count = 0;

    for (int64_t i = 0; i < s->vocab; i++)
        all += weight_of(scores[i], how, top);
    /* Twice what two sums of n numbers above zero, and n more roundings, differ by. */
    slack = all * (double)s->vocab * 0x1p-50;
    if (how->top_p < 1.0) {
        while (count == 0 || kept < how->top_p * all) {
            if (count == s->vocab)
                return -1;
            kept += weight_at(s, count++, scores, how, top);
            if (fabs(kept - how->top_p * all) <= slack)
                return -1;
        }
        return choose(s, count, u * kept);
    }
    left = u * all;
    for (int64_t i = 0; i < s->vocab - 1; i++) {
        left -= weight_at(s, i, scores, how, top);
        if (fabs(left) <= slack)
            return -1;
        if (left < 0.0)
            return token_at(s, i);
    }
    return -1;
}

static int64_t drawn(struct tr_sampler *s, const float *scores, const struct tr_sampling *how,
                     double top, double u)
{
    int64_t token = -1;

    open_order(s, scores);
    if (how->top_k == 0 || how->top_k >= s->vocab)
        token = drawn_soon(s, scores, how, top, u);
    return token >= 0 ? token : drawn_in_order(s, scores, how, top, u);
}

int32_t tr_sample(struct tr_sampler *s, const float *scores, const struct tr_sampling *how,
                  int64_t prompt, int64_t position, float *logprob)
{
    const int64_t top = best(scores, s->vocab);
    int64_t token = top;

    if (how->temperature > 0.0)
        token = drawn(s, scores, how, (double)scores[top], draw(how->seed, prompt, position));
    *logprob = logprob_of(scores, s->vocab, token, top);
    return (int32_t)token;
}
