/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_WRITE_H
#define TR_UTIL_WRITE_H

#include <stddef.h>

/* Write all `bytes` to a descriptor, going on after short writes and EINTR, and waiting where a
   pipe has no room.  0, or -1 with errno. */
int tr_write_all(int fd, const void *data, size_t bytes);

#endif
