/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/states.h"

static const struct row {
    enum tr_dtype type;
    const char *group, *part;
} rows[] = {
#define STATE(symbol, type, group, part) {type, group, part},
#include "optim/states.def"
};

enum tr_dtype tr_optim_state_type(int state)
{
    return rows[state].type;
}

const char *tr_optim_state_group(int state)
{
    return rows[state].group;
}

const char *tr_optim_state_part(int state)
{
    return rows[state].part;
}

int64_t tr_optim_state_bytes(void)
{
    int64_t bytes = 0;

    for (int i = 0; i < TR_STATES; i++)
        bytes += tr_dtype_bytes(rows[i].type);
    return bytes;
}
