/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_STATES_H
#define TR_OPTIM_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/precision.h"
#include "device/block_code.h"
#include "model/param.h"
#include "tensor/tensor.h"

/* The rows of optim/states.def. */
enum tr_optim_state {
#define STATE(symbol, book, group, part) TR_STATE_##symbol,
#include "optim/states.def"
    TR_STATES
};

enum tr_book tr_optim_state_book(int state);
const char *tr_optim_state_group(int state);
const char *tr_optim_state_part(int state);

/* Bytes that all of them take for an element of a large matrix, with tr_precision.state_block. */
double tr_optim_state_bytes(int64_t block);

/*
 * How each state of the elements that a rank updates, counted one after the other, lies in memory: of some elements as
 * fp32 numbers, of others as blocks of 8 bits (device/block_code.h).  Blocks are those of a parameter's part on a tensor
 * rank, counted from its first element, as far as this rank updates them: its first and its last element of the
 * parameter may cut a block, and what is on both sides of the cut are two.  In blocks are parameters of 4096
 * elements and more in the whole model, but for tables of words and positions, whose rows have gradients of very
 * different sizes.  Source: bitsandbytes' Adam8bit with StableEmbedding; Dettmers et al. 2022, section 2.3.
 */
enum { TR_STATES_LEAST = 4096 };

struct tr_states_piece {
    int64_t at;                   /* its first element */
    int64_t byte;                 /* where that lies */
    struct tr_code_blocks blocks; /* of size 0: fp32 */
};

struct tr_states {
    int pieces;
    struct tr_states_piece *piece; /* [pieces + 1], owned, ascending; the last one is the end */
};

/* `own` are the elements that the rank updates.  `block` of 0: all are fp32, and one piece. */
void tr_states_open(struct tr_states *s, const struct tr_params *params,
                    const struct tr_bucket *own, int owns, int64_t block);
void tr_states_close(struct tr_states *s);

/* Whether all of them are fp32. */
bool tr_states_plain(const struct tr_states *s);

/* The piece that has element `at`. */
const struct tr_states_piece *tr_states_piece_at(const struct tr_states *s, int64_t at);

/* The last element up to `at`, with which a block begins, or which is fp32. */
int64_t tr_states_border(const struct tr_states *s, int64_t at);

/* Where element `at` lies, a border or the end. */
int64_t tr_states_byte(const struct tr_states *s, int64_t at);

/* The blocks of the elements from border `at` on. */
struct tr_code_blocks tr_states_blocks(const struct tr_states *s, int64_t at);

#endif
