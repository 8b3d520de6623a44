/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_SPACE_H
#define TR_SWEEP_SPACE_H

#include "config/machine.h"
#include "sweep/variants.h"
#include "sweep/place.h"
#include "sweep/sweep.h"

/* One shape of a sweep. */
struct tr_sweep_shape {
    char name[128 + TR_SWEEP_NAME_MOST]; /* "tp2-pp4-dp1-mbs1-gbs8", for files */
    int variant;                         /* of --sweep */
    const struct tr_config *base;        /* options of training of that variant; borrowed */
    int64_t value[TR_SWEEP_DIMS]; /* of each dimension; TR_UNSET_INT where it stays as given */
    double growth; /* of the global batch size, by --sweep-weak-scaling; 0: it stays */
    int ranks, w, p, d, k, micros;
    int64_t micro_batch, global_batch, seq;
    bool recompute;         /* some layers */
    bool offloads;          /* the optimizer's states, or some of them */
    int zero;               /* stage of ZeRO, 0 where nothing is sharded */
    bool tp_pp_dp;          /* the order of ranks is that of --use-tp-pp-dp-mapping */
    int64_t bucket;         /* --ddp-bucket-size where a list has it, else 0 */
    double gradient;        /* bytes of one gradient on its way between replicas */
    char layers[96];        /* for --pipeline-model-parallel-layout, or "" */
    double parameters;      /* of the model */
    double hardware, model; /* operations of an iteration: sc21, and 2024 without recomputation */
    double seconds, low, high; /* of an iteration, predicted; 0 without a machine profile */
    double mib;                /* planned, of the fullest rank */
    double bubble;             /* (p-1) / (k m + p - 1) */
    char *dropped;             /* why it is not run, or NULL; owned */
};

/* Those that are run first, the best first: by predicted time per sample, or without a profile by the
   idle part of the pipeline. */
struct tr_sweep_space {
    struct tr_sweep_variants variants;
    struct tr_sweep_shape *shape; /* owned */
    int count, runs;              /* the first `runs` are run, the others dropped */
};

/*
 * All combinations of the lists, each once.  `m` may be NULL.  TR_ECONFIG for a list that is none, for
 * more than TR_SWEEP_MOST combinations, for an option of training that says for good what a list
 * should, and when no shape is left.  Release also after a failure.
 */
enum { TR_SWEEP_MOST = 4096 };
enum tr_status tr_sweep_space_make(const struct tr_sweep *w, const struct tr_sweep_place *place,
                                   const struct tr_machine *m,
                                   struct tr_sweep_space *out) TR_MUST_CHECK;
/* Leaves the shape of that name alone.  TR_ECONFIG, with the reason, where it cannot be run, or where there is none. */
enum tr_status tr_sweep_space_only(struct tr_sweep_space *s, const char *name) TR_MUST_CHECK;

void tr_sweep_space_release(struct tr_sweep_space *s);

/* The options of training that make the shape, added to `a`. */
enum tr_status tr_sweep_shape_words(const struct tr_sweep *w, const struct tr_sweep_space *space,
                                    const struct tr_sweep_shape *s,
                                    struct tr_args *a) TR_MUST_CHECK;

/* Does a run need --train-iters, because the options of training say nothing of its length or less
   than the sweep wants?  Otherwise it leaves early, and the learning rate is that of the whole run. */
bool tr_sweep_says_length(const struct tr_sweep *w);

/*
 * The numbers of a list, "1,2,4" or "1-8" (doubling: 1, 2, 4, 8) or both, into value[most]; how many, or
 * 0 where it is no such list.
 */
int tr_sweep_numbers(const char *list, int64_t *value, int most);

#endif
