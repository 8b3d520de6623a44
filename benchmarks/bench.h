/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_BENCHMARKS_BENCH_H
#define TR_BENCHMARKS_BENCH_H

#include <stdint.h>

#include <jansson.h>

#include "bench/bench.h"
#include "comm/comm.h"
#include "util/status.h"

/*
 * Common to the benchmarks: repetitions and their statistics, and lines of JSON.  They are
 * programs that end, with a sentence, when anything fails.
 */

/*
 * Run body(ctx) `warm_up` times, then `repeats` times with a clock.  Over `world`, if not NULL, all
 * ranks begin together and a repetition takes as long as on the slowest of them; collective then, and
 * the same result on all ranks.
 */
struct tr_bench_times bench_repeat(struct tr_comm *world, int warm_up, int repeats,
                                   void (*body)(void *ctx), void *ctx);

/*
 * A JSON object that says who measured what: "bench", "host", "processor", "cores" (that this process
 * may use), "libraries", "load" (runnable processes in the last minute), "date", "version" and
 * "arguments".  Owned by the caller, who adds numbers with json_object_set_new(); print() writes it to
 * stdout in one line and frees it.
 */
json_t *bench_line(const char *bench, int argc, char **argv);
void bench_add_times(json_t *line, const struct tr_bench_times *t);
void bench_print(json_t *line);

/* MHz of the cores under `threads` threads at once, the slowest of them, which add numbers one after the
   other, an addition a cycle: what the clock is now.  Takes about 15 ms. */
double bench_clock(int threads);

/* What a side of a comparison ran with: "threads", "type", "kernels", "mhz" (now). */
void bench_add_side(json_t *line, int threads, const char *type, const char *kernels);

/* GFLOP/s in the three GEMMs of a linear layer. */
struct bench_rates {
    double forward, dgrad, wgrad;
};

/* End the program unless `s` is TR_OK, with the sentence that belongs to it. */
void bench_must(enum tr_status s);

/* calloc that ends the program. */
void *bench_memory(int64_t count, int64_t bytes);

#endif
