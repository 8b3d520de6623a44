/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/near.h"

#include <stdio.h>

const char *tr_divisors_near(int64_t n, int64_t x, char buf[64])
{
    int64_t below = x < n ? x : n, above = x;

    while (n % below)
        below--;
    while (above < n && n % above)
        above++;
    if (above > n || above == below)
        snprintf(buf, 64, "%lld", (long long)below);
    else
        snprintf(buf, 64, "%lld or %lld", (long long)below, (long long)above);
    return buf;
}

const char *tr_multiples_near(int64_t m, int64_t x, char buf[64])
{
    int64_t below = x / m * m;

    if (below == 0)
        snprintf(buf, 64, "%lld", (long long)m);
    else
        snprintf(buf, 64, "%lld or %lld", (long long)below, (long long)(below + m));
    return buf;
}
