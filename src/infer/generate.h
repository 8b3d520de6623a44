/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_GENERATE_H
#define TR_INFER_GENERATE_H

#include "infer/sample.h"
#include "train/run.h"
#include "util/meter.h"

/* --prompt-block, unless it is given. */
#define TR_GENERATE_BLOCK 64

/* Why a text ends. */
enum tr_text_end {
    TR_TEXT_GOES_ON,
    TR_TEXT_END,    /* the token that ends a text, which is part of it */
    TR_TEXT_STOP,   /* whoever hears its tokens said so */
    TR_TEXT_LENGTH, /* as many tokens as were asked for */
    TR_TEXT_CONTEXT /* as many tokens as the model reads */
};

/* A prompt and what follows it. */
struct tr_written {
    int32_t *token; /* [count] prompt and new tokens, owned */
    float *logprob; /* [count] of the new tokens, owned */
    int64_t prompt, count;
    enum tr_text_end end;
};

struct tr_generation {
    struct tr_written
        *text; /* [texts]: prompts, at least one token each and fewer than T; then texts */
    int64_t texts;
    int64_t most; /* new tokens of a text */
    int32_t eod;  /* the token that ends a text, or -1 */
    struct tr_sampling how;
    /* Called for each new token on all ranks of the replica that has the text, in their order: whether the text
       ends with it; NULL: never. */
    bool (*heard)(void *ctx, int64_t text, int32_t token);
    void *ctx;
    struct tr_meter *meter; /* counts the new tokens of this replica; NULL: nobody watches */
    double seconds;         /* what it took */
    int64_t fed; /* tokens that the model read on this replica, those of prompts included */
};

/*
 * Generate.  A replica has room for --micro-batch-size texts in each of its micro-batches; a text that ends makes room for the
 * next, and text i is that of replica i % D.  With a key-value cache (r->only->block) each token is read once, in
 * pieces of at most `block`; without one all of a text is read again for each of its new tokens.  Afterwards all ranks have
 * all texts.  Collective over the world of the run, which was opened with `picks`.
 */
void tr_generate(struct tr_run *r, struct tr_generation *g);

/* How many keys a cache needs so that passes of `block` tokens see what the family does of `tokens`; and the bytes that
   it takes of a tensor rank of a pipeline stage, for that many texts of T tokens (config/work.h). */
int64_t tr_generate_keys(const struct tr_dims *dims, int64_t tokens, int64_t block);
double tr_generate_cache(const struct tr_shape *s, int stage, int64_t texts, int64_t block);

void tr_written_release(struct tr_written *t);

#endif
