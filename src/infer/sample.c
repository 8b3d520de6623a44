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

/* The most likely tokens in their order, each with its weight, until `most` are there or their weights are `share`
   of those of the first top_k.  They stand at the end of s->order, backwards.  Returns how many. */
static int64_t leading(struct tr_sampler *s, const float *scores, const struct tr_sampling *how,
                       double top, double *sum)
{
    const int64_t n = s->vocab, most = how->top_k > 0 && how->top_k < n ? how->top_k : n;
    double all = 0.0, kept = 0.0;
    int64_t count = 0, taken = 0;

    for (int64_t i = 0; i < n; i++)
        s->order[i] = i;
    for (int64_t i = n / 2; i-- > 0;)
        sink(s->order, n, i, scores);
    while (taken < most) {
        const int64_t token = s->order[0], last = n - ++taken;

        s->order[0] = s->order[last];
        s->order[last] = token;
        sink(s->order, last, 0, scores);
        s->weight[last] = exp(((double)scores[token] - top) / how->temperature);
        all += s->weight[last];
    }
    while (count < most && (count == 0 || kept < how->top_p * all))
        kept += s->weight[n - ++count];
    *sum = kept;
    return count;
}

static int64_t drawn(struct tr_sampler *s, const float *scores, const struct tr_sampling *how,
                     double top, double u)
{
    double sum;
    const int64_t count = leading(s, scores, how, top, &sum);
    double left = u * sum;

    for (int64_t i = 1; i < count; i++) {
        left -= s->weight[s->vocab - i];
        if (left < 0.0)
            return s->order[s->vocab - i];
    }
    return s->order[s->vocab - count];
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
