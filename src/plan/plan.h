/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PLAN_PLAN_H
#define TR_PLAN_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/config.h"
#include "config/machine.h"
#include "config/shape.h"
#include "train/memory.h"
#include "util/status.h"

/*
 * The cost of a run, before there is a job: memory of every stage against that of the GPU, time of
 * an iteration with its parts, checkpoints, GPU-hours, and other layouts that fit.  Memory and
 * checkpoint are counted by the functions that train (train/run.h, ckpt/index.h).  Time is a model
 * with the constants of a machine profile (plan/cost.h) over the schedule that would run
 * (pipeline/sched.h). No MPI, no GPU, and nothing is collective.
 */

/* Above TR_PLAN_TIGHT of the card is tight. */
enum tr_plan_verdict { TR_PLAN_UNKNOWN, TR_PLAN_FITS, TR_PLAN_IS_TIGHT, TR_PLAN_TOO_MUCH };
#define TR_PLAN_TIGHT 0.95

const char *tr_plan_verdict_text(enum tr_plan_verdict v);

/*
 * The same rank under Megatron-LM, bytes; docs/plan.md has the formulas and their sources.  Its versions
 * differ for the same options.  The high numbers are those of May 2021, and where its states are sharded,
 * which it was not yet, of DeepSpeed's ZeRO of stage 1; the low ones are those of the version since that
 * takes least, with flash attention and a distributed optimizer of its own.
 *
 *   allocated    between steps: weights, gradients, optimizer
 *   activations  what the first backward pass finds alive, with scores
 *   peak         the most in a step
 *   reserved     what PyTorch's caching allocator holds in the end, with the high peak
 *   libraries    context and NCCL, which come on top; 0 without a machine
 */
struct tr_plan_megatron {
    double allocated, activations, peak_low, peak_high, reserved_low, reserved_high, libraries;
};

/* One stage: its first tensor rank of the first replica. */
struct tr_plan_stage {
    int stage, rank;
    int64_t layers, params;
    struct tr_memory memory;
    double
        text_cache; /* what each text would add to it in `trireme generate`, without gradients: key-value cache */
    struct tr_plan_megatron megatron;
};

/* Parts of an iteration, in seconds, of the rank that computes longest:
   PART(field, "name", "what it is"). */
#define TR_PLAN_TIMES_OF(PART)                                                                 \
    PART(compute, "compute", "forward and backward of all micro-batches")                      \
    PART(tensor, "tensor-parallel", "all-reduces inside layers")                               \
    PART(bubble, "bubble", "filling and draining the pipeline, and waiting for longer stages") \
    PART(transfer, "transfer", "between stages, where nothing hides it")                       \
    PART(reduce, "reduction",                                                                  \
         "gradient reduction and that of the tied embedding, where nothing hides it")          \
    PART(optimizer, "optimizer", "norm, update, weights")                                      \
    PART(rest, "rest", "whatever else a step does")

/* What ranks send one another in an iteration: TRAFFIC(symbol, "name", "what it is"). */
#define TR_PLAN_TRAFFIC_OF(TRAFFIC)                                                          \
    TRAFFIC(TENSOR, "tensor-parallel", "sums inside layers")                                 \
    TRAFFIC(STAGES, "pipeline", "activations, and their gradients")                          \
    TRAFFIC(TIED, "embedding", "gradients of the tied embedding")                            \
    TRAFFIC(REDUCE, "replicas-reduce", "gradients; of replicas that diverge, weight deltas") \
    TRAFFIC(GATHER, "replicas-gather", "weights")

enum tr_plan_traffic_kind {
#define TRAFFIC(symbol, name, what) TR_PLAN_TRAFFIC_##symbol,
    TR_PLAN_TRAFFIC_OF(TRAFFIC)
#undef TRAFFIC
        TR_PLAN_TRAFFICS
};

/* Seconds on the links of the rank that computes longest, and those of them that nothing hides. */
struct tr_plan_wire {
    double link, exposed;
};

struct tr_plan_time {
    struct tr_plan_wire wire[TR_PLAN_TRAFFICS];
#define PART(field, name, what) double field;
    TR_PLAN_TIMES_OF(PART)
#undef PART
    double total;
    double low, high; /* P10 and P90, by the runs that were compared; 0: none was */
    double tflops;    /* of a GPU, by `formula` */
    double of_peak;   /* of the GPU's peak */
    int formula;      /* TR_FLOPS_ */
};

/* Checkpoints and the whole run.  What the profile or the options do not tell is 0. */
struct tr_plan_budget {
    double save_bytes; /* of a checkpoint */
    int save_files;
    double save_seconds;
    int64_t iterations;
    double tokens, hours, gpu_hours;
    double ramp_hours;  /* of them, those that the batch needs to grow */
    double job_minutes; /* --exit-duration-in-mins, or the profile's limit */
    int64_t jobs;
    double mtbf_hours;       /* of all nodes together */
    double interval_seconds; /* between saves, by Young and Daly */
    int64_t interval;        /* the same in iterations */
};

/* Another shape, of these GPUs or of another number of them. */
struct tr_plan_other {
    int world, w, p, d, k;
    int64_t micro_batch;
    bool recompute, sharded, sequence;
    bool tp_pp_dp;   /* the order of ranks is that of --use-tp-pp-dp-mapping */
    bool layout;     /* --pipeline-model-parallel-layout has to say: */
    char layers[96]; /* of all stages, as that option takes them */
    double bytes;    /* of its largest rank */
    double seconds;  /* of an iteration */
    const char
        *because; /* the part of an iteration in which it differs most from what is planned */
    double saves; /* seconds of that part; below 0: it takes so much more */
};

/* So many of these GPUs, and one each of half and of twice as many. */
enum { TR_PLAN_SAME = 5, TR_PLAN_OTHERS = TR_PLAN_SAME + 2 };

/* Options that, given besides, make it fit: one change (changes.def), or several where that is faster or none is enough. */
enum { TR_PLAN_CHANGES = 8, TR_PLAN_CHANGE_PARTS = 3 };
struct tr_plan_change {
    int parts;
    const char *part[TR_PLAN_CHANGE_PARTS]; /* what it is */
    char options[320];                      /* as one types them */
    double bytes, seconds;                  /* of its largest rank; of an iteration */
};

struct tr_plan {
    struct tr_config config; /* borrows the caller's texts */
    struct tr_shape shape;
    bool fewest; /* --world-size was not given */
    bool has_machine;
    struct tr_machine machine;
    int nodes;                   /* 0 without a machine */
    double params;               /* of the whole model, */
    double padded;               /*   and with its vocabulary padded */
    bool endless;                /* the options do not say how long the run is */
    int64_t most_params;         /* of the stage that has most */
    struct tr_plan_stage *stage; /* [shape.layout.p], owned */
    int worst;                   /* stage with the largest total */
    enum tr_plan_verdict ours, megatron;
    struct tr_plan_time time; /* zeros without a machine */
    /* Bytes that all ranks together send in an iteration, and whether the groups that exchange them span nodes; zeros
       without a machine. */
    struct tr_plan_traffic {
        double bytes;
        bool between;
    } traffic[TR_PLAN_TRAFFICS];
    struct tr_plan_budget budget;
    int others;
    struct tr_plan_other other[TR_PLAN_OTHERS];
    struct tr_plan_other least; /* of the fewest GPUs that hold it; world is 0 where none was found,
                                   or --world-size was given */
    double change_bytes;        /* what changes were looked for to fit; 0: none were */
    int changes;                /* the cheapest first */
    struct tr_plan_change change[TR_PLAN_CHANGES];
};

/*
 * Plan the run of `c` (copied; its texts are borrowed until release) on `m` (copied), or without
 * verdict and time if it is NULL.  --world-size is how many ranks; those of one replica if it is
 * not given; neither --lr nor the length of the run needs to be.  What tr_shape_of() returns;
 * TR_ECONFIG if the machine has no GEMMs of the precision, or the schedule is too long to be laid
 * out in some seconds.  Release also after a failure.
 */
enum tr_status tr_plan_make(const struct tr_config *c, const struct tr_machine *m,
                            struct tr_plan *out) TR_MUST_CHECK;

/* The same without other shapes and changes. */
enum tr_status tr_plan_itself(const struct tr_config *c, const struct tr_machine *m,
                              struct tr_plan *out) TR_MUST_CHECK;

/* Changes that would make it fit GPUs of so many bytes, into p->change; tr_plan_make() looks for them itself where the
   plan does not fit its machine.  It needs one. */
void tr_plan_changes_of(struct tr_plan *p, double bytes);

/* The plan of a whole run, whose length and --lr are given, without other shapes: for who has a list of shapes already. */
enum tr_status tr_plan_alone(const struct tr_config *c, const struct tr_machine *m,
                             struct tr_plan *out) TR_MUST_CHECK;
void tr_plan_release(struct tr_plan *p);

/*
 * Layers of the last stage with which the longest stage is shortest: the head takes as long as some layers
 * do.  TR_PLAN_EVEN where that is what the shape has, or it has several chunks.  And a list for
 * --pipeline-model-parallel-layout, of `layers` on `p` stages, with so many on the last; the others are as
 * even as can be, the longer ones behind the shorter, which hold more micro-batches.
 */
enum { TR_PLAN_EVEN = -1 };
int64_t tr_plan_balanced(const struct tr_shape *s, const struct tr_machine *m);
const char *tr_plan_layout(int64_t layers, int p, int64_t last, char list[TR_LAYOUT_TEXT]);

/* TR_ERESOURCE with a sentence that says what is too large and what would fit, unless it fits. */
enum tr_status tr_plan_fits(const struct tr_plan *p) TR_MUST_CHECK;

/* What its ranks compute on. */
enum tr_processor tr_plan_processor(const struct tr_plan *p);

void tr_plan_text(const struct tr_plan *p, FILE *f);

/* Parameters of the largest module, as DeepSpeed's estimates ask for it: a matrix with its bias, and of a gated MLP's
   two first matrices one.  The vocabulary is not padded. */
int64_t tr_plan_largest_module(const struct tr_plan *p);

/* The model's tensors on its ranks as sharded DDP has them (plan/zero.h), with a replica on each rank.  The vocabulary is not
   padded. */
struct tr_zero_whole;
struct tr_zero_whole tr_plan_whole_tensors(const struct tr_plan *p);

/* DeepSpeed's estimates for this model and these GPUs (plan/zero.h), and shards of whole tensors: a table, and a list and
   an object, new references.  Without a machine all GPUs are of one node. */
void tr_plan_zero_text(const struct tr_plan *p, FILE *f);
json_t *tr_plan_zero_json(const struct tr_plan *p);
json_t *tr_plan_whole_json(const struct tr_plan *p);

/* Layout, batches and size of the model, and all options with their values, as `trireme report` reads them of plans and
   simulations; new references. */
json_t *tr_plan_shape_json(const struct tr_plan *p);
json_t *tr_plan_options_json(const struct tr_plan *p);

/* One rank of each stage in an iteration, in the form of `trireme train --trace`
   (train/trace_file.h): passes, messages behind those that send them, then sums of gradients and
   the update.  For a plan with a machine; TR_ECONFIG if it has too many passes. */
enum tr_status tr_plan_trace(const struct tr_plan *p, FILE *f) TR_MUST_CHECK;

/* All of it; a new reference. */
json_t *tr_plan_json(const struct tr_plan *p);

#endif
