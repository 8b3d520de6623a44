/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_NEAR_H
#define TR_CONFIG_NEAR_H

#include <stdint.h>

/* For a sentence: "4" or "4 or 8", the divisors of n, or the multiples of m, next to x (which is
   none). */
const char *tr_divisors_near(int64_t n, int64_t x, char buf[64]);
const char *tr_multiples_near(int64_t m, int64_t x, char buf[64]);

#endif
