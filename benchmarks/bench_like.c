/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_like.h"

#include <stdio.h>
#include <string.h>

#include "util/text.h"

bool bench_alike(const struct bench_side *ours, const struct bench_side *theirs, char *why,
                 size_t size)
{
    if (ours->ranks != theirs->ranks)
        snprintf(why, size,
                 "no ratio to %s: it ran on %d rank%s and %s on %d; measure both on as many",
                 theirs->name, theirs->ranks, tr_plural(theirs->ranks), ours->name, ours->ranks);
    else if (theirs->threads < 1)
        snprintf(why, size,
                 "no ratio to %s: it does not say how many threads it takes, and %s takes %d; "
                 "configure with a library that does",
                 theirs->name, ours->name, ours->threads);
    else if (ours->threads != theirs->threads)
        snprintf(why, size,
                 "no ratio to %s: it takes %d thread%s and %s %d; give both as many with --threads",
                 theirs->name, theirs->threads, tr_plural(theirs->threads), ours->name,
                 ours->threads);
    else if (strcmp(ours->type, theirs->type) != 0)
        snprintf(why, size,
                 "no ratio to %s: it multiplies in %s and %s in %s; measure both in one type",
                 theirs->name, theirs->type, ours->name, ours->type);
    else
        return true;
    return false;
}
