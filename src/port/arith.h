/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_ARITH_H
#define TR_PORT_ARITH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The value of what stands in $(( )): whole numbers, names, + - * / % ** and parentheses.  `find`
 * gives the text of a variable, which may be an expression again, or NULL.  False if a part is not
 * known, is no such expression or leaves 64 bits.
 */
bool tr_arith(const char *text, const char *(*find)(void *ctx, const char *name), void *ctx,
              int64_t *value);

#endif
