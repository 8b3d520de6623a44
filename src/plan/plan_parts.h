/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PLAN_PLAN_PARTS_H
#define TR_PLAN_PLAN_PARTS_H

#include "model/packing.h"
#include "plan/plan.h"

/* The parts of a plan, internal to plan/. */

/* What stage `stage` of that run would hold; `m` may be NULL. */
enum tr_status tr_plan_stage_of(const struct tr_config *c, const struct tr_shape *s,
                                const struct tr_machine *m, int stage,
                                struct tr_plan_stage *out) TR_MUST_CHECK;

/* The same stage under Megatron-LM; g->layers and g->params are ready. */
struct tr_plan_megatron tr_plan_megatron_of(const struct tr_config *c, const struct tr_shape *s,
                                            const struct tr_plan_stage *g);

/* Layers that a search lays out to count memory. */
#define TR_PLAN_MOST_LAYERS 3e5

/*
 * Bytes of the largest rank of a run: of the first stage, the longest, one between, or the last; or the first that is
 * above `room`; no number where a stage cannot be laid out, or more than TR_PLAN_MOST_LAYERS have been, which `layers` counts.
 * And the parameters of the largest of these stages, which is that of all where the bytes are in the room; NULL where nobody asks.
 */
double tr_plan_largest(const struct tr_config *c, const struct tr_shape *s,
                       const struct tr_machine *m, double room, double *layers, int64_t *params);

/* What a step of a rank moves with --chunk-memory, as the program of the step has it: chunks that come and chunks whose
   gradients go; elements of weights that come from the host and of gradients that go there, of its slice; and of weights
   that its replicas gather, of all. */
struct tr_plan_moves {
    int64_t fetches, writes;
    double fetched, written, gathered;
};

/* With chunks of `size` elements on a rank of stage `stage`.  TR_ERESOURCE, and what tr_sched_build() refuses. */
enum tr_status tr_plan_moves_of(const struct tr_config *c, const struct tr_shape *s, int64_t size,
                                int stage, struct tr_plan_moves *out) TR_MUST_CHECK;

/* A size of chunks that was searched, on a rank of the largest stage. */
struct tr_plan_chunk_size {
    int64_t elements;
    bool chosen;
    double used, bytes; /* the share that are parameters; of the weights of all chunks */
    int chunks, slots;
    int64_t least; /* bytes for slots that it needs, where there are fewer; and no moves */
    struct tr_plan_moves moves;
};

/* Those of --chunk-memory, ascending, into out[]; and as text.  None without. */
int tr_plan_chunk_sizes(const struct tr_plan *p, struct tr_plan_chunk_size out[TR_PACKING_SIZES]);
void tr_plan_chunks(const struct tr_plan *p, FILE *f);

/* Of a rank with those bytes, on that card. */
enum tr_plan_verdict tr_plan_verdict_of(double bytes, const struct tr_machine *m);
enum tr_plan_verdict tr_plan_verdict_megatron(const struct tr_plan_stage *g,
                                              const struct tr_machine *m);

/*
 * Time of an iteration.  `params` is that of the largest stage.  With `exact` the schedule is
 * executed, and chunks come and go as its program says; otherwise its closed form, (m + (p - 1) / k) times the
 * longest stage, which is what it would be if all stages took as long, and windows of whole layers.
 */
struct tr_plan_time tr_plan_time_of(const struct tr_config *c, const struct tr_shape *s,
                                    const struct tr_machine *m, int64_t params, bool exact);

/* Computations of the step that `exact` executes: of all stages and chunks, as long as it must be to be like
   a longer one. */
double tr_plan_work_of(const struct tr_shape *s);

/* What the schedule runs with: seconds of each chunk of each stage, [p * k], owned. */
struct tr_plan_pipe {
    const struct tr_shape *s;
    double *forward, *backward, *weights;
    double longest, tensor; /* of all chunks of the slowest stage, one micro-batch; and of that,
                               communication between tensor ranks */
    double tensor_link;     /* and all of that communication, whatever hides it */
    double last_backward, last_weights; /* of its chunks, one micro-batch */
};

/* Passes without messages, as `exact` has them; returns the seconds that a message adds to the
   pass that sends it. */
double tr_plan_pipe_open(const struct tr_config *c, const struct tr_shape *s,
                         const struct tr_machine *m, struct tr_plan_pipe *out);
void tr_plan_pipe_close(struct tr_plan_pipe *v);

/* Whether a pass of the chunk sends to another stage, forward with step 1, backward with -1; each
   message makes the chunk that sends it longer. */
bool tr_plan_sends(const struct tr_layout *l, int stage, int chunk, int step);
void tr_plan_add_transfers(struct tr_plan_pipe *v, double seconds);

/* p->traffic; its stages, shape and machine are ready. */
void tr_plan_traffic_of(struct tr_plan *p);

/* Checkpoints, hours, jobs; p->time and p->shape are ready. */
void tr_plan_budget_of(struct tr_plan *p);

/* Other shapes that fit, the fastest of each number of GPUs first, into p->other; and p->least. */
void tr_plan_others_of(struct tr_plan *p);

#endif
