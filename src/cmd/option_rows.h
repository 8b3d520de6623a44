/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_OPTION_ROWS_H
#define TR_CMD_OPTION_ROWS_H

#include <stddef.h>

#include "config/option.h"

/*
 * Rows of a verb's table of options (config/option.h).  Right before the table a file says as ROWS_OF which struct they
 * set, and, where all are of one group, as ROWS_GROUP which, and includes this: other headers have rows of these names.
 */
#define FIELD(field_) .offset = offsetof(ROWS_OF, field_)
#define GROUP(symbol, title)                                 \
    {                                                        \
        .kind = TR_ROW_GROUP, .name = title, .group = symbol \
    }
#define OPT(group_, type_, field_, name_, initial_, check_, help_)                                 \
    {                                                                                              \
        .kind = TR_ROW_OPT, .group = group_, .type = TR_OPT_##type_, FIELD(field_), .name = name_, \
        .initial = initial_, .check = TR_CHECK_##check_, .help = help_                             \
    }
#define CHOICE(group_, field_, set_, name_, initial_, help_)                                      \
    {                                                                                             \
        .kind = TR_ROW_OPT, .group = group_, .type = TR_OPT_CHOICE, FIELD(field_), .name = name_, \
        .initial = initial_, .set = set_, .help = help_                                           \
    }
#define ROW(type_, field_, name_, initial_, check_, help_) \
    OPT(ROWS_GROUP, type_, field_, name_, initial_, check_, help_)
#define INTERVAL_ROW(group_)                                          \
    OPT(group_, REAL, log_interval, "log-interval", "10", ABOVE_ZERO, \
        "seconds between lines of progress where stderr is no terminal")

#endif
