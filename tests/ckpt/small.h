/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_CKPT_SMALL_H
#define TR_TESTS_CKPT_SMALL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/async.h"
#include "ckpt/ckpt.h"

/* How a rank holds the model: all of it; the part of a sharded optimizer; that, but the weights
   whole. */
enum small_kind { SMALL_WHOLE, SMALL_SHARDED, SMALL_SHARDED_FLAT };

/*
 * A small model whose every number is a function of the kind, the parameter, the place in the
 * whole tensor and the iteration, so that any rank in any layout can say what must be in its
 * buffers.  The bits are arbitrary: infinities and NaNs must survive as well.
 */
struct small {
    struct tr_shape shape;
    struct tr_params params;
    enum small_kind kind;
    float *buffer[3]; /* value, m, v */
    int spans;
    struct tr_bucket *span;
    int64_t held; /* elements of the spans */
};

/* The vocabulary fits no divisor: its 37 rows are padded to 40, and for 4 tensor ranks to 64,
   of which the third then holds 5 that exist and the fourth none. */
static inline struct tr_shape small_shape(int w, int p, int d, int k)
{
    return (struct tr_shape){
        .layout = tr_layout_equal(w, p, d, k, 4),
        .dims.family = *tr_family_row(0),
        .dims.layers = 4,
        .dims.hidden = 8,
        .dims.heads = 4,
        .dims.head_dim = 2,
        .dims.groups = 4,
        .dims.embed = 8,
        .dims.ffn = 32,
        .dims.seq = 6,
        .dims.positions = 7,
        .dims.vocab = 37,
        .dims.vocab_padded = w == 4 ? 64 : 40,
    };
}

/* One rank, without MPI, that has all of the model. */
static inline bool small_alone(struct tr_comm *self, struct tr_grid *grid, struct tr_shape *shape)
{
    tr_comm_self(self);
    *shape = small_shape(1, 1, 1, 1);
    return tr_grid_open(self, &shape->layout, grid) == TR_OK;
}

static const struct tr_ckpt_how small_newest = {.step = -1};

static inline struct tr_ckpt_state small_state(int64_t iteration)
{
    return (struct tr_ckpt_state){
        .iteration = iteration,
        .consumed_train_samples = 16 * iteration,
        .consumed_valid_samples = 3 * iteration,
        .lr_samples = 15 * iteration,
        .adam_steps = iteration - 1,
        .loss_scale = 65536.0 / (double)iteration,
        .growth_tracker = 17,
        .hysteresis_tracker = 2,
    };
}

/* A sharded rank holds its part of each bucket of the flat buffer, which is padded.  Buckets of an
   odd length split parameters, and their rows, at arbitrary elements, more wildly than training
   does. */
static inline void small_cut(struct small *s, int dp)
{
    const int64_t bucket = 301, unit = 64 * s->shape.layout.d;
    int64_t padded = (s->params.size + unit - 1) / unit * unit;

    for (int64_t first = 0; first < padded; first += bucket) {
        int64_t count = padded - first < bucket ? padded - first : bucket;
        int64_t lo = count * dp / s->shape.layout.d, hi = count * (dp + 1) / s->shape.layout.d;

        s->span[s->spans++] = (struct tr_bucket){first + lo, hi - lo};
        s->held += hi - lo;
    }
}

static inline int64_t small_length(const struct small *s, int kind)
{
    return kind == 0 && s->kind == SMALL_SHARDED_FLAT ? s->params.size : s->held;
}

static inline void small_open_as(struct small *s, const struct tr_shape *shape, int tp, int pp,
                                 int dp, enum small_kind kind)
{
    memset(s, 0, sizeof *s);
    s->shape = *shape;
    s->kind = kind;
    tr_params_list(&shape->dims, &shape->layout, tp, pp, &s->params);
    s->span = calloc((size_t)s->params.size, sizeof *s->span);
    if (kind == SMALL_WHOLE) {
        s->held = s->params.size;
        s->span[s->spans++] = (struct tr_bucket){0, s->params.size};
    } else {
        small_cut(s, dp);
    }
    for (int k = 0; k < 3; k++)
        s->buffer[k] = malloc((size_t)small_length(s, k) * sizeof(float));
}

static inline void small_open(struct small *s, const struct tr_shape *shape, int tp, int pp)
{
    small_open_as(s, shape, tp, pp, 0, SMALL_WHOLE);
}

static inline void small_close(struct small *s)
{
    for (int k = 0; k < 3; k++)
        free(s->buffer[k]);
    free(s->span);
    tr_params_release(&s->params);
}

static inline struct tr_ckpt_tensors small_tensors(struct small *s)
{
    return (struct tr_ckpt_tensors){
        .params = &s->params,
        .value = tr_f32_1(s->buffer[0], small_length(s, 0)),
        .state = {tr_f32_1(s->buffer[1], small_length(s, 1)),
                  tr_f32_1(s->buffer[2], small_length(s, 2))},
        .value_flat = s->kind == SMALL_SHARDED_FLAT,
        .sharded = s->kind != SMALL_WHOLE,
        .spans = s->spans,
        .span = s->span,
    };
}

/* Chained steps of a 64-bit congruential generator, high bits: not the mix of the checksum. */
static inline uint32_t small_bits(int kind, const struct tr_param *p, int64_t place,
                                  int64_t iteration)
{
    const uint64_t words[] = {(uint64_t)kind, (uint64_t)p->row, (uint64_t)(p->layer + 1),
                              (uint64_t)place, (uint64_t)iteration};
    uint64_t x = 1;

    for (int i = 0; i < 5; i++)
        x = (x + words[i]) * 6364136223846793005u + 1442695040888963407u, x ^= x >> 29;
    return (uint32_t)(x >> 32);
}

/* What element i of the parameter on this rank must be; padding is zero. */
static inline uint32_t small_want(int kind, const struct tr_param *p, int64_t i, int64_t iteration)
{
    int64_t row = i / p->local[1] + (p->split == 0 ? p->first : 0);
    int64_t col = i % p->local[1] + (p->split == 1 ? p->first : 0);

    if (row >= p->full[0])
        return 0;
    return small_bits(kind, p, row * p->full[1] + col, iteration);
}

/* The parameter to which an element of the flat buffer belongs, `guess` (may be NULL) before
   others, or NULL: padding. */
static inline const struct tr_param *small_param_at(const struct tr_params *ps, int64_t at,
                                                    const struct tr_param *guess)
{
    if (guess && at >= guess->offset && at < guess->offset + guess->elems)
        return guess;
    for (int i = 0; i < ps->count; i++)
        if (at >= ps->list[i].offset && at < ps->list[i].offset + ps->list[i].elems)
            return &ps->list[i];
    return NULL;
}

/* The bits of every element that the rank holds: call `each` with them, and with where they are. */
static inline int64_t small_each(const struct small *s, int64_t iteration,
                                 int64_t (*each)(float *x, uint32_t want))
{
    int64_t sum = 0;

    for (int k = 0; k < 3; k++) {
        const struct tr_param *p = NULL;
        int64_t at = 0;

        for (int n = 0; n < s->spans; n++) {
            for (int64_t f = s->span[n].first; f < s->span[n].first + s->span[n].count; f++, at++) {
                p = small_param_at(&s->params, f, p);
                if (p)
                    sum += each(s->buffer[k] + (small_length(s, k) == s->held ? at : f),
                                small_want(k, p, f - p->offset, iteration));
            }
        }
    }
    return sum;
}

static inline int64_t small_put(float *x, uint32_t want)
{
    memcpy(x, &want, sizeof want);
    return 0;
}

static inline int64_t small_differs(float *x, uint32_t want)
{
    return memcmp(x, &want, sizeof want) != 0;
}

/* Elements that the rank holds and that are not what they must be. */
static inline int64_t small_wrong(const struct small *s, int64_t iteration)
{
    return small_each(s, iteration, small_differs);
}

/* Before loading, so that what is not loaded shows. */
static inline void small_spoil(struct small *s)
{
    for (int k = 0; k < 3; k++)
        memset(s->buffer[k], 0x5a, (size_t)small_length(s, k) * sizeof(float));
}

/* Bytes that a load has changed and should not have: padding, and what other ranks hold. */
static inline int64_t small_unspoil(float *x, uint32_t want)
{
    (void)want;
    memset(x, 0x5a, sizeof *x);
    return 0;
}

static inline int64_t small_touched(const struct small *s)
{
    int64_t touched = 0;

    small_each(s, 0, small_unspoil);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < (size_t)small_length(s, k) * sizeof(float); i++)
            touched += ((const unsigned char *)s->buffer[k])[i] != 0x5a;
    return touched;
}

static inline void small_fill(struct small *s, int64_t iteration)
{
    small_spoil(s);
    small_each(s, iteration, small_put);
}

static inline bool small_state_is(const struct tr_ckpt_state *s, int64_t iteration)
{
    struct tr_ckpt_state want = small_state(iteration);

    return s->iteration == want.iteration &&
           s->consumed_train_samples == want.consumed_train_samples &&
           s->consumed_valid_samples == want.consumed_valid_samples &&
           s->lr_samples == want.lr_samples && s->adam_steps == want.adam_steps &&
           !(s->loss_scale < want.loss_scale) && !(s->loss_scale > want.loss_scale) &&
           s->growth_tracker == want.growth_tracker &&
           s->hysteresis_tracker == want.hysteresis_tracker;
}

/* The records that a save and a load print would be taken for TAP. */
static inline int small_silence(void)
{
    int kept, nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    fflush(stdout);
    kept = dup(STDOUT_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    return kept;
}

static inline void small_speak(int kept)
{
    close(STDOUT_FILENO);
    dup2(kept, STDOUT_FILENO);
    close(kept);
}

/* Whether small_save() and _save_as() save as --async-save does, and then whether numbers are claimed before they
   change. */
static enum { SMALL_WAITS, SMALL_AT_ONCE, SMALL_CLAIMED } small_async;

/* Elements at .. at + count - 1 of those that the rank holds. */
static inline void small_spoil_part(struct small *s, int64_t at, int64_t count)
{
    int64_t held = 0;

    for (int n = 0; n < s->spans; held += s->span[n++].count) {
        const int64_t lo = at > held ? at : held, end = held + s->span[n].count;
        const int64_t hi = at + count < end ? at + count : end;

        for (int k = 0; k < 3 && lo < hi; k++) {
            const bool flat = small_length(s, k) != s->held;

            memset(s->buffer[k] + (flat ? s->span[n].first + lo - held : lo), 0x5a,
                   (size_t)(hi - lo) * sizeof(float));
        }
    }
}

/* What is not claimed changes as soon as the save has begun. */
static inline void small_go_on(struct small *s, struct tr_ckpt_async *a)
{
    enum { AT_ONCE = 173 };

    if (small_async == SMALL_AT_ONCE)
        small_spoil(s);
    for (int64_t at = 0; small_async == SMALL_CLAIMED && at < s->held; at += AT_ONCE) {
        tr_ckpt_async_claim(a, at, AT_ONCE);
        small_spoil_part(s, at, AT_ONCE);
    }
}

/* It is waited for at its end or bit by bit. */
static inline enum tr_status small_save_aside(struct tr_grid *g, struct small *s, const char *dir,
                                              int64_t iteration, int keep_last)
{
    const struct tr_ckpt_state state = small_state(iteration);
    struct tr_ckpt_tensors tensors = small_tensors(s);
    const int64_t elems = tr_ckpt_async_elems(g, &s->shape.dims, &tensors, true);
    float *room = malloc((size_t)(elems + 1) * sizeof *room);
    struct tr_ckpt_async *a;
    enum tr_status status;

    if (!room)
        abort();
    room[elems] = 4321.0f;
    tensors.claimed = small_async == SMALL_CLAIMED;
    status = tr_ckpt_async_begin(g, dir, &state, &tensors, &s->shape, "{\"small\": true}", NULL,
                                 keep_last, NULL, room, elems, &a);
    if (status == TR_OK) {
        small_go_on(s, a);
        while (iteration % 2 && !tr_ckpt_async_over(a))
            usleep(100);
        status = tr_ckpt_async_end(a);
    }
    if (room[elems] < 4321.0f || room[elems] > 4321.0f)
        abort();
    free(room);
    return status;
}

/* Fill and save, load and compare; collective over the grid's world.  load returns the
   iteration, -1 if there was none, and -2 if the numbers are not those of it. */
static inline enum tr_status small_save_as(struct tr_grid *g, const struct tr_shape *shape,
                                           enum small_kind kind, const char *dir, int64_t iteration,
                                           int keep_last)
{
    struct small s;
    struct tr_ckpt_state state = small_state(iteration);
    struct tr_ckpt_tensors tensors;
    enum tr_status status;
    int kept;

    small_open_as(&s, shape, g->at.tp, g->at.pp, g->at.dp, kind);
    small_fill(&s, iteration);
    tensors = small_tensors(&s);
    kept = small_silence();
    if (small_async != SMALL_WAITS)
        status = small_save_aside(g, &s, dir, iteration, keep_last);
    else
        status = tr_ckpt_save(g, dir, &state, &tensors, shape, "{\"small\": true}", NULL, keep_last,
                              NULL);
    small_speak(kept);
    small_close(&s);
    return status;
}

static inline enum tr_status small_save(struct tr_grid *g, const struct tr_shape *shape,
                                        const char *dir, int64_t iteration, int keep_last)
{
    return small_save_as(g, shape, SMALL_WHOLE, dir, iteration, keep_last);
}

static inline enum tr_status small_load_as(struct tr_grid *g, const struct tr_shape *shape,
                                           enum small_kind kind, const char *dir,
                                           int64_t *iteration)
{
    struct small s;
    struct tr_ckpt_state state = {0};
    struct tr_ckpt_tensors tensors;
    struct tr_shape again = *shape;
    enum tr_status status;
    bool found;
    int kept;

    *iteration = -1;
    small_open_as(&s, shape, g->at.tp, g->at.pp, g->at.dp, kind);
    small_spoil(&s);
    tensors = small_tensors(&s);
    kept = small_silence();
    status = tr_ckpt_load(g, dir, &small_newest, &again, &tensors, &state, &found);
    small_speak(kept);
    if (status == TR_OK && found)
        *iteration = small_state_is(&state, state.iteration) &&
                             small_wrong(&s, state.iteration) == 0 && small_touched(&s) == 0
                         ? state.iteration
                         : -2;
    small_close(&s);
    return status;
}

static inline enum tr_status small_load(struct tr_grid *g, const struct tr_shape *shape,
                                        const char *dir, int64_t *iteration)
{
    return small_load_as(g, shape, SMALL_WHOLE, dir, iteration);
}

#endif
