/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/states.h"

#include <stdlib.h>

static const struct row {
    enum tr_book book;
    const char *group, *part;
} rows[] = {
#define STATE(symbol, book, group, part) {book, group, part},
#include "optim/states.def"
};

enum tr_book tr_optim_state_book(int state)
{
    return rows[state].book;
}

const char *tr_optim_state_group(int state)
{
    return rows[state].group;
}

const char *tr_optim_state_part(int state)
{
    return rows[state].part;
}

double tr_optim_state_bytes(int64_t block)
{
    return TR_STATES * tr_state_bytes(block);
}

/* ---- where they lie ---- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Whether a parameter's states are in blocks. */
static bool in_blocks(const struct tr_param *p)
{
    return !p->table && p->full[0] * p->full[1] >= TR_STATES_LEAST;
}

static int64_t bytes_of(struct tr_code_blocks blocks, int64_t count)
{
    return blocks.size > 0 ? tr_code_bytes(blocks, count) : count * tr_dtype_bytes(TR_F32);
}

/* Elements from `at` on are stored so, up to the next piece. */
static void begin_piece(struct tr_states *s, int64_t at, struct tr_code_blocks blocks)
{
    struct tr_states_piece *p = &s->piece[s->pieces];
    const struct tr_states_piece *last = s->pieces > 0 ? p - 1 : NULL;

    if (last && last->blocks.size == 0 && blocks.size == 0)
        return;
    p->at = at;
    p->byte = last ? last->byte + bytes_of(last->blocks, at - last->at) : 0;
    p->blocks = blocks;
    s->pieces++;
}

/* The part of a parameter that `own` has, of which element 0 is number `state`; nothing lies in front of it but fp32. */
static void add_param(struct tr_states *s, const struct tr_param *p, const struct tr_bucket *own,
                      int64_t state, int64_t block)
{
    const struct tr_code_blocks none = {0, 0};
    const int64_t lo = larger(p->offset, own->first);
    const int64_t end = smaller(p->offset + p->elems, own->first + own->count);
    const int64_t before = lo - p->offset;

    if (lo >= end || !in_blocks(p))
        return;
    begin_piece(s, state + lo - own->first, (struct tr_code_blocks){block, block - before % block});
    begin_piece(s, state + end - own->first, none);
}

void tr_states_open(struct tr_states *s, const struct tr_params *params,
                    const struct tr_bucket *own, int owns, int64_t block)
{
    const struct tr_code_blocks none = {0, 0};
    int64_t state = 0;

    s->pieces = 0;
    s->piece = calloc(2 * ((size_t)params->count + (size_t)owns) + 2, sizeof *s->piece);
    if (!s->piece)
        tr_die(TR_ERESOURCE, "no memory left for the list of optimizer states");
    begin_piece(s, 0, none);
    for (int i = 0; i < owns; state += own[i++].count)
        for (int k = tr_params_from(params, own[i].first);
             block > 0 && k < params->count && params->list[k].offset < own[i].first + own[i].count;
             k++)
            add_param(s, &params->list[k], &own[i], state, block);
    begin_piece(s, state, (struct tr_code_blocks){1, 1});
    s->pieces--;
}

void tr_states_close(struct tr_states *s)
{
    free(s->piece);
    s->piece = NULL;
}

bool tr_states_plain(const struct tr_states *s)
{
    return s->pieces == 1;
}

const struct tr_states_piece *tr_states_piece_at(const struct tr_states *s, int64_t at)
{
    int low = 0, high = s->pieces - 1;

    while (low < high) {
        const int middle = low + (high - low + 1) / 2;

        if (s->piece[middle].at <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return &s->piece[low];
}

int64_t tr_states_border(const struct tr_states *s, int64_t at)
{
    const struct tr_states_piece *p = tr_states_piece_at(s, at);
    const int64_t into = at - p->at, size = p->blocks.size, lead = p->blocks.lead;

    if (size == 0 || at >= p[1].at)
        return at;
    return into < lead ? p->at : at - (into - lead) % size;
}

int64_t tr_states_byte(const struct tr_states *s, int64_t at)
{
    const struct tr_states_piece *p = tr_states_piece_at(s, at);

    return p->byte + bytes_of(p->blocks, at - p->at);
}

struct tr_code_blocks tr_states_blocks(const struct tr_states *s, int64_t at)
{
    const struct tr_states_piece *p = tr_states_piece_at(s, at);

    return (struct tr_code_blocks){p->blocks.size, at == p->at ? p->blocks.lead : p->blocks.size};
}
