/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_STATES_H
#define TR_OPTIM_STATES_H

#include <stdint.h>

#include "tensor/tensor.h"

/* The rows of optim/states.def. */
enum tr_optim_state {
#define STATE(symbol, type, group, part) TR_STATE_##symbol,
#include "optim/states.def"
    TR_STATES
};

enum tr_dtype tr_optim_state_type(int state);
const char *tr_optim_state_group(int state);
const char *tr_optim_state_part(int state);

/* Bytes that all of them take for an element. */
int64_t tr_optim_state_bytes(void);

#endif
