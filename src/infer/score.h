/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_SCORE_H
#define TR_INFER_SCORE_H

#include "train/run.h"
#include "util/meter.h"

/*
 * How well a model predicts tokens.  A window is tokens begin .. end - 1 of a stream of tokens, at most T + 1 of
 * them; the model reads it from its beginning, and predictions of tokens first .. end - 1 count,
 * begin < first <= end.
 */
struct tr_window {
    int64_t begin, first, end;
};

struct tr_score {
    const struct tr_window *window; /* [count] */
    int64_t count;
    /* Tokens first .. first + count - 1 of the stream into `out`. */
    enum tr_status (*read)(void *ctx, int64_t first, int64_t count, int32_t *out);
    void *ctx;
    double *loss;   /* [count] the sum of -log p(token) over those that count, natural logarithm */
    double *misses; /* [count] of them the tokens that are not the most likely one */
    struct tr_meter *meter; /* counts tokens that count; NULL: nobody watches */
};

/*
 * Fill loss and misses, on all ranks.  Replicas take micro-batches of windows in turn, so the numbers do not depend
 * on the layout but for the rounding of the model itself.  Collective over the world of the run, which computes
 * forward only; tr_die() if the stream cannot be read.
 */
void tr_score_windows(struct tr_run *r, struct tr_score *s);

/*
 * The windows by which a stream of `tokens` is measured: of `length` tokens each, each `stride` after the one
 * before, the last one shorter; in each the tokens count that were in none before, but for its first one, which
 * has nothing before it.  With a stride below the length so every token of the stream but its first counts once; with a
 * stride of the length also the first token of every window does not.  *out is owned by the caller; returns how many.
 */
int64_t tr_score_slide(int64_t tokens, int64_t length, int64_t stride, struct tr_window **out);

#endif
