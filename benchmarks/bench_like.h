/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_BENCHMARKS_BENCH_LIKE_H
#define TR_BENCHMARKS_BENCH_LIKE_H

#include <stdbool.h>
#include <stddef.h>

/* One of two sides of a ratio, and what it computed with. */
struct bench_side {
    const char *name; /* "the step" */
    int threads;      /* of a rank; 0 where it cannot be asked */
    int ranks;
    const char *type; /* "fp32" */
};

/* Whether a ratio of the two says something about programs alone.  If not, `why` has a sentence: what
   differs, and what would do. */
bool bench_alike(const struct bench_side *ours, const struct bench_side *theirs, char *why,
                 size_t size);

#endif
