/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_VALUE_H
#define TR_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>

/* True if `text` is one of the values "A|B", numbers as numbers. */
bool tr_value_given(const char *list, const char *text);

/* A real as the shortest text that reads back the same, as Python's repr(): 0.00015, 1e-05, 1.0. */
void tr_real_text(double x, char *buf, size_t size);

#endif
