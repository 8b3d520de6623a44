/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/write.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

/* A pipe that another process made non-blocking is full: wait as a blocking one would. */
static bool waits_for_room(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return errno == EAGAIN && (poll(&p, 1, -1) > 0 || errno == EINTR);
}

int tr_write_all(int fd, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);

        if (n < 0 && (errno == EINTR || waits_for_room(fd)))
            continue;
        if (n < 0)
            return -1;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}
