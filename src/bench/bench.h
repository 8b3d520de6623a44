/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_BENCH_BENCH_H
#define TR_BENCH_BENCH_H

#include <jansson.h>

#include "config/machine.h"
#include "train/run.h"
#include "util/meter.h"

/*
 * `trireme bench`: the speed of a machine, measured with a run's own device, transport, groups and
 * shapes.  Every result is verified, since a fast wrong answer is no measurement.
 *
 * Clocks.  All ranks begin a repetition together and it lasts until the slowest is done; before the
 * repetitions come rounds that are not counted.  The tables show the median, minimum and maximum of
 * the repetitions.
 */
struct tr_bench {
    struct tr_run *run; /* of tr_run_reach(); borrowed */
    int warm_up, repeats;
    bool quiet;             /* no tables: the caller prints the rows as JSON */
    struct tr_meter *meter; /* counts the rounds of tr_bench_time(); NULL unless a part sets it */

    char (*host)[TR_HOST_BYTES]; /* [world] of each rank; of the run */
    json_t *rows;     /* one object for each line of the tables; owned; the same on all ranks */
    double write_gbs; /* of the latest tr_bench_io(); 0 before */
    int64_t results, wrong; /* numbers that were compared, and that were not as they must be */
};

void tr_bench_open(struct tr_bench *b, struct tr_run *run);
void tr_bench_close(struct tr_bench *b);

/* ---- the parts; each is collective and prints its table from rank 0 as it grows ---- */

/*
 * The GEMMs of this model's layers and of its head, forward and both gradients, in the types of the
 * run, on all ranks at once as in training.  TR_ERESOURCE when the operands do not fit.
 */
enum tr_status tr_bench_gemm(struct tr_bench *b) TR_MUST_CHECK;

/* Collective calls, as nccl-tests shows them. */
enum tr_bench_call {
    TR_BENCH_ALLREDUCE,
    TR_BENCH_REDUCE_SCATTER,
    TR_BENCH_ALLGATHER,
    TR_BENCH_BROADCAST,
    TR_BENCH_SENDRECV,
    TR_BENCH_CALLS /* all of them */
};
enum tr_bench_group { TR_BENCH_WORLD, TR_BENCH_TP, TR_BENCH_DP, TR_BENCH_PP };

struct tr_bench_coll {
    enum tr_bench_call call;
    enum tr_bench_group group; /* all groups of that kind at once */
    enum tr_dtype dtype;       /* TR_F32, TR_F16 or TR_BF16 */
    int64_t least, most;       /* bytes */
    int factor;                /* from one size to the next, 2 or more */
};

/*
 * With S bytes in a call that takes t seconds in a group of n ranks: algorithm bandwidth S / t, and bus
 * bandwidth, which does not depend on n where every link carries the same, S / t times 2 (n - 1) / n for
 * all-reduce, (n - 1) / n for reduce-scatter and all-gather, 1 for broadcast and send with receive (to
 * the next rank, from the one before).  S is the whole buffer: n times what a rank gives or gets.  Source:
 * PERFORMANCE.md of nccl-tests.  TR_ECONFIG for a group of one; TR_ERESOURCE without memory.
 */
enum tr_status tr_bench_coll(struct tr_bench *b, const struct tr_bench_coll *how) TR_MUST_CHECK;

/*
 * The codecs, on `bytes` of numbers of that type: quantization (in rows as wide as the model),
 * delta compression, top-k, strided selection, and all of that together.  On a host on one core of
 * each rank.  Speeds are bytes of numbers in a second, encode and decode, also as a part of the
 * speed of a memory copy.  The bytes that go over a link and the decoded numbers are compared with
 * those of the ref backend. TR_ERESOURCE without memory.
 */
enum tr_status tr_bench_codec(struct tr_bench *b, enum tr_dtype type, int64_t bytes) TR_MUST_CHECK;

/*
 * A checkpoint's pattern: one file in `folder`, each rank writes `bytes` of it in its own place, in
 * blocks, and flushes them to the disk; then each reads what the rank after it wrote, after it was
 * dropped from the page cache.  The file is removed.  b->write_gbs is how fast they wrote.
 * TR_ERESOURCE if there is no room, TR_EIO if the disk fails.
 */
enum tr_status tr_bench_io(struct tr_bench *b, const char *folder, int64_t bytes) TR_MUST_CHECK;

/*
 * Stragglers: whether all nodes are as fast: on each rank a square GEMM, a copy of memory, and a
 * message to and from another rank (its neighbour in the list of ranks).  A node is slow where the
 * median of its ranks is less than `floor` of the median of all nodes; their names are written for
 * --exclude, and *slow counts them.
 */
enum tr_status tr_bench_node(struct tr_bench *b, double floor, int *slow) TR_MUST_CHECK;

/* TR_ERESOURCE, with what to type, where ranks and their threads are more than the processors that they may use: what each
   then takes depends on which others wait, and a profile of it would promise times that no run has.  Collective.  A
   GPU has no threads. */
enum tr_status tr_bench_machine_check(const struct tr_bench *b) TR_MUST_CHECK;

/*
 * The numbers of a machine profile (config/machine.h) for GPUs, memory and links, measured: square
 * GEMMs in each type, a copy, an optimizer step in fp32, attention, the bus bandwidth of an all-reduce and the time of a message of 8
 * bytes inside nodes and between them, and GEMMs beside an all-reduce; and b->write_gbs.  With a profile each number is shown next
 * to the profile's, and *low counts those that are less than `floor` of it (more than it over
 * `floor`, where they are times).  *out is a profile of this machine; `date` is today's,
 * YYYY-MM-DD.
 */
enum tr_status tr_bench_machine(struct tr_bench *b, const char *date,
                                const struct tr_machine *profile, double floor, int *low,
                                struct tr_machine *out) TR_MUST_CHECK;

/* Of computing and messages that take so many seconds alone, and `both` together, the part of the shorter that is saved: 0 to
   1, the overlap-efficiency of a profile. */
double tr_bench_overlap(double computing, double messages, double both);

/* ---- common parts ---- */

/* With which optimizer steps are timed: usual settings, in a step in which both moments count. */
extern const struct tr_adamw tr_bench_adamw;

/* Seconds of some repetitions: p95 is what 95 of 100 do not exceed. */
struct tr_bench_times {
    double median, min, max, p95;
    int count;
};

/* The statistics of seconds[n], which it sorts. */
struct tr_bench_times tr_bench_times_of(double *seconds, int n);

/*
 * Run body(ctx) with the rounds and repetitions of `b`, as often in each as fills about 20 ms.  The
 * seconds of one call, the same on all ranks; `own`, if not NULL, gets the median of this rank alone.
 */
struct tr_bench_times tr_bench_time(struct tr_bench *b, void (*body)(void *ctx), void *ctx,
                                    double *own);

/* Rounds of one call of it. */
int tr_bench_rounds(const struct tr_bench *b);

/* Count the numbers that were compared on all ranks; how many of them were wrong. */
int64_t tr_bench_count(struct tr_bench *b, int64_t compared, int64_t wrong);

/* From rank 0, unless quiet. */
void tr_bench_print(const struct tr_bench *b, const char *fmt, ...) TR_PRINTF(2, 3);

/* A line of the tables for JSON; `row` is taken over. */
void tr_bench_row(struct tr_bench *b, json_t *row);

/* Device memory for the tensors in t[n], which is zeroed; TR_ERESOURCE on all ranks where one has none. */
enum tr_status tr_bench_reserve(struct tr_bench *b, struct tr_tensor *const *t,
                                int n) TR_MUST_CHECK;

/* A message of `bytes` to rank `to` of `c`, and one from rank `from` of it; returns when both are done. */
void tr_bench_swap(struct tr_bench *b, struct tr_comm *c, int to, int from, void *out, void *in,
                   int64_t bytes);

/*
 * The probe of nodes and machines: a square GEMM y = a c^T and a copy of memory, both larger on
 * a GPU than on a host.  The tensors' sizes are set by init(), their memory comes from tr_bench_reserve();
 * the operands are filled in `type` by set_type(), which may be called again with another one.  product()
 * and copy() are bodies for tr_bench_time(), with the probe as their context.
 */
struct tr_bench_probe {
    struct tr_bench *b; /* borrowed */
    struct tr_tensor a, c, y, from, to;
};
void tr_bench_probe_init(struct tr_bench_probe *p, struct tr_bench *b);
enum tr_status tr_bench_probe_set_type(struct tr_bench_probe *p, enum tr_dtype type) TR_MUST_CHECK;
void tr_bench_probe_product(void *probe);
void tr_bench_probe_copy(void *probe);
/* TFLOP of a GEMM; GB that a copy reads and writes. */
double tr_bench_probe_tflop(const struct tr_bench_probe *p);
double tr_bench_probe_gb(const struct tr_bench_probe *p);

/* Element `i` of operand `which` of rank `rank`: small integers from -2 to 2, which every type
   holds exactly and which differ between ranks. */
float tr_bench_value(int64_t i, int which, int rank);
/* Fill a tensor of the device with them; and the elements of one in host memory, in any float type. */
enum tr_status tr_bench_fill(struct tr_bench *b, const struct tr_tensor *t, int which,
                             int rank) TR_MUST_CHECK;
float tr_bench_element(const void *data, enum tr_dtype type, int64_t i);
void tr_bench_set(void *data, enum tr_dtype type, int64_t i, float x);

#endif
