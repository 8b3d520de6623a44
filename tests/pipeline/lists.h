/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_PIPELINE_LISTS_H
#define TR_TESTS_PIPELINE_LISTS_H

#include "check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/sched.h"

/* The lists of all ranks of a pipeline, for tests of the builders and of the checker. */

enum { MAX_P = 8, MAX_M = 32, MAX_K = 4 };

static inline int min(int a, int b)
{
    return a < b ? a : b;
}

/* What a test asks for; group 0 is P. */
struct want {
    enum tr_sched_kind kind;
    int p, k, m, group;
    bool overlap;
};

static inline enum tr_status build(struct tr_sched *s, struct want w, int rank)
{
    *s = (struct tr_sched){
        .kind = w.kind,
        .ranks = w.p,
        .rank = rank,
        .chunks = w.k,
        .micros = w.m,
        .group = w.group,
        .overlap = w.overlap,
    };
    return tr_sched_build(s);
}

/* The lists of all ranks, each in memory of its own that holds twice its length, for damage(). */
static inline void build_all(struct tr_sched *all, struct want w)
{
    for (int r = 0; r < w.p; r++) {
        struct tr_instr *room;

        assert_ok(build(&all[r], w, r));
        room = malloc(2 * (size_t)all[r].n * sizeof *room);
        assert_non_null(room);
        memcpy(room, all[r].list, (size_t)all[r].n * sizeof *room);
        free(all[r].list);
        all[r].list = room;
    }
}

static inline void release_all(struct tr_sched *all)
{
    for (int r = all->ranks - 1; r >= 0; r--)
        tr_sched_release(&all[r]);
}

static inline void assert_good(const struct tr_sched *all, struct tr_sched_cost *cost)
{
    const char *fault = tr_sched_check(all, cost);

    if (fault)
        fail_msg("kind %d, P %d, K %d, M %d, N %d, overlap %d: %s", (int)all->kind, all->ranks,
                 all->chunks, all->micros, all->group, all->overlap, fault);
}

#endif
