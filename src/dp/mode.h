/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_MODE_H
#define TR_DP_MODE_H

#include "dp/dp.h"

/*
 * A data-parallel mode: what the functions of dp/dp.h do.  A row of config/modes.def names one of these, and
 * a file of this folder defines it; nothing else knows it.  A function that is NULL does nothing, or what is
 * said here.  What reduces gradients in `move` says so before, by tr_grads_look_at() of x->look.
 */
struct tr_dp_mode {
    const char *rounds; /* name of a group of its own besides that of sums; NULL: it needs none */

    /* Buckets, each of which is sharded over replicas where something is; NULL: as --ddp-bucket-size says.
       *out is for the caller, and so is their number. */
    int (*cut)(const struct tr_dp_of *of, struct tr_bucket **out);

    /* Fills x->ctx; NULL memory is TR_ERESOURCE. */
    enum tr_status (*open)(struct tr_dp *x);
    void (*close)(struct tr_dp *x); /* called where x->ctx is set */
    void (*plan)(struct tr_dp *x, struct tr_arena *device, struct tr_arena *host);
    enum tr_status (*start)(struct tr_dp *x, const struct tr_tensor *masters);
    void (*tell)(struct tr_dp *x); /* in the log, when all have started */

    bool (*reduces)(const struct tr_dp *x); /* NULL: in every step */
    void (*begin)(struct tr_dp *x);
    bool (*poll)(struct tr_dp *x);
    bool scatters; /* `sum` is a reduce-scatter and an all-gather */
    /* Sums of gradients over replicas after the backward pass, in their place; NULL: in buckets, during it. */
    void (*sum)(struct tr_dp *x);
    bool (*finish)(struct tr_dp *x); /* of a step that does not reduce; with `move`, of all */
    bool
        combines; /* `finish` of a step that does not reduce makes one gradient of those of replicas, in its place */
    /* Where these are NULL, buckets are reduced in the last micro-batch, and weights gathered after the
       update. */
    void (*residency)(const struct tr_dp *x, struct tr_residency *out);
    void (*move)(struct tr_dp *x, const struct tr_instr *in);
    void (*arrive)(struct tr_dp *x);
    void (*gather)(struct tr_dp *x); /* all weights, or what a rank has of them */
    double (*settle)(struct tr_dp *x, double norm, bool *skipped);
    /* In steps that do not reduce: the optimizer's first moments become their mean over replicas, and its second ones
       stay as they are (struct tr_optim_how).  NULL: an update is with this rank's gradients. */
    void (*average)(struct tr_dp *x, const struct tr_tensor *moments);

    /* A rank's fingerprint of what must be equal on all replicas now; false where there is none. */
    bool (*print)(struct tr_dp *x, uint64_t *print);
    void (*state)(struct tr_dp *x, struct tr_dp_state *out);
    int64_t (*state_bytes)(const struct tr_config *c, int d);
    void (*cost)(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out);
};

#define MODE(symbol, value, spelling, structure, replicas, exchanges) \
    extern const struct tr_dp_mode structure;
#define MODE_BY(symbol, value, structure) extern const struct tr_dp_mode structure;
#include "config/modes.def"

/* For modes that go on without sums of gradients after --train-warmup-steps: `reduces`, `begin` of those whose replicas
   diverge, and `settle`. */
bool tr_dp_reduces_in_warm_up(const struct tr_dp *x);
void tr_dp_begin_apart(struct tr_dp *x);
double tr_dp_settle_apart(struct tr_dp *x, double norm, bool *skipped);

#endif
