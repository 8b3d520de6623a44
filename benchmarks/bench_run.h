/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_BENCHMARKS_BENCH_RUN_H
#define TR_BENCHMARKS_BENCH_RUN_H

#include "bench.h"

#include "train/run.h"

/*
 * Training runs inside a benchmark: mock data, and the lines of the log that
 * opening a run prints are left out.
 */

/* Take options from a text, and then from the words argv[0..argc-1]; the later counts.  Collective. */
void bench_run_options(struct tr_config *c, struct tr_comm *world, const char *text, int argc,
                       char **argv);

/* `c` and `world` are borrowed until close.  Collective; ends the program when it fails. */
void bench_run_open(struct tr_run *r, const struct tr_config *c, struct tr_comm *world);
void bench_run_close(struct tr_run *r);

/* Floating-point operations of a step that the model asks for, whatever is computed: formula "core" of
   config/flops.h with the vocabulary as it is, not padded.  For GPT-2
   6 B s (l (4 h^2 + 2 h f) + h V) + 6 B s^2 l h with B the global batch, s tokens in a sample, l
   layers, h hidden, f inside the MLP, V the vocabulary; attention counts half, being causal. */
double bench_run_flop(const struct tr_dims *m, int64_t samples);

#endif
