/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_LAUNCH_CHECKS_H
#define TR_LAUNCH_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/launch.h"

/*
 * Checks of a launch, from the facts of launch/launch.h.  A check is a row of launch/checks.def and
 * a pure function of the facts and of what the ranks are going to do; it says one sentence or nothing.
 */
enum tr_check {
#define CHECK(symbol, name, scope, worst, what) TR_CHECK_OF_##symbol,
#include "launch/checks.def"
#undef CHECK
    TR_CHECKS
};

enum tr_check_level { TR_LEVEL_OK, TR_LEVEL_WARN, TR_LEVEL_REFUSE };

/* What the ranks are going to do; the same on all of them. */
struct tr_intent {
    bool training;       /* what training refuses elsewhere, in its own words, is left to it */
    bool gpus;           /* they compute on GPUs where there are any */
    bool share;          /* several ranks may take one GPU */
    bool mixed;          /* GPUs may be of several kinds */
    bool has_cuda;       /* this program was built with CUDA */
    int threads;         /* --threads; 0: not given */
    int tensor_parallel; /* 0: not known */
    bool tensor_across;  /* its groups may span nodes */
    const char *save;    /* NULL: nothing is saved */
    int64_t save_bytes;  /* of a checkpoint; 0: not known */
    uint64_t build;      /* of this program, its libraries included: a checksum */
};

struct tr_verdict {
    enum tr_check_level level;
    enum tr_status status; /* of a refusal: TR_ECONFIG or TR_ERESOURCE */
    char text[768];        /* a sentence; "" when all is well */
};

/* Its name, what it looks at, the worst that it may say, and whether it is one of nodes. */
const char *tr_check_name(enum tr_check c);
const char *tr_check_what(enum tr_check c);
enum tr_check_level tr_check_worst(enum tr_check c);
bool tr_check_of_node(enum tr_check c);

/* "ok", "warn", "fail". */
const char *tr_level_name(enum tr_check_level l);

/* The judgement on rank 0's facts.  `node` is read by checks of nodes only.  Pure. */
void tr_check_judge(enum tr_check c, const struct tr_facts *f, const struct tr_intent *i, int node,
                    struct tr_verdict *out);

/* What a check says, and of which nodes: those with the same verdict are one finding. */
struct tr_finding {
    enum tr_check check;
    struct tr_verdict verdict;
    int nodes;       /* how many */
    char hosts[256]; /* "n1,n2,n4", or "n1,n2,... (64 nodes)"; "" when it is of the job */
};

/* All checks, the quiet ones with TR_LEVEL_OK, in the order of the table; owned by the caller. */
int tr_check_all(const struct tr_facts *f, const struct tr_intent *i, struct tr_finding **out);

/*
 * Before training: read the facts, warn from rank 0, refuse.  Collective; all ranks return the same
 * status, with the first refusal as the sentence.  On success rank 0 has printed which ranks are on
 * which node where there are several.
 */
enum tr_status tr_check_launch(struct tr_comm *world, const struct tr_intent *i) TR_MUST_CHECK;

/* Before MPI starts: TR_ECONFIG where srun started several tasks and offers them no way to find one
   another.  Some MPIs end the process in that case with a page of text, others let each task train
   alone.  Not collective. */
enum tr_status tr_check_before_mpi(void) TR_MUST_CHECK;

/* "n1 0-3, n2 4-7": the ranks of each node, at most so many bytes. */
void tr_check_map(const struct tr_facts *f, char *out, int size);

/* One function for each row. */
#define CHECK(symbol, name, scope, worst, what)                                           \
    void tr_judge_##symbol(const struct tr_facts *f, const struct tr_intent *i, int node, \
                           struct tr_verdict *out);
#include "launch/checks.def"
#undef CHECK

/* For those functions: say the sentence. */
void tr_verdict_warn(struct tr_verdict *v, const char *fmt, ...) TR_PRINTF(2, 3);
void tr_verdict_refuse(struct tr_verdict *v, enum tr_status s, const char *fmt, ...)
    TR_PRINTF(3, 4);

#endif
