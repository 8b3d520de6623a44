/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_CLOCK_H
#define TR_UTIL_CLOCK_H

/* Seconds on the monotonic clock of this host, from an arbitrary origin. */
double tr_now(void);

#endif
