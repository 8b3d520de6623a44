/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_ROUTE_H
#define TR_CONFIG_ROUTE_H

#include <stdbool.h>

/*
 * The way of a micro-batch through the ranks of a pipeline.  The model is cut into P K virtual stages, numbered in
 * the order in which a micro-batch passes through them, and each is a chunk of a rank:
 *
 *   ring  chunk 0 of all ranks, then chunk 1 of all from the first rank on, and so on (Narayanan et al., SC 2021,
 *         section 2.2): number c P + r is chunk c of rank r
 *   vee   there and back, with two chunks (Qi et al., ICLR 2024, section 6): rank r has r and 2 P - 1 - r, so that
 *         the first rank has both ends of the model, and the last one hands its chunk 0 to its chunk 1
 *
 * All functions are pure.  This is the only place that knows the two.
 */
struct tr_route {
    int ranks, chunks; /* P and K, which is 2 of a vee */
    bool vee;
};

/* A chunk of a rank of the pipeline. */
struct tr_vstage {
    int rank, chunk;
};

int tr_route_number(struct tr_route r, struct tr_vstage at);
struct tr_vstage tr_route_at(struct tr_route r, int number);

/* Whether it is number 0, which has the embedding; number P K - 1, which has the head. */
bool tr_route_is_first(struct tr_route r, struct tr_vstage at);
bool tr_route_is_last(struct tr_route r, struct tr_vstage at);

/* The rank of the virtual stage `step` (1 or -1) behind `at`, which may be the same one; or -1 beyond an end. */
int tr_route_peer(struct tr_route r, struct tr_vstage at, int step);

#endif
