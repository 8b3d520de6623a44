/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_RECORD_H
#define TR_REPORT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/option.h"
#include "config/processor.h"
#include "family/family.h"
#include "util/status.h"

/*
 * What a log says of a run: iterations, timers, memory, starts, and the facts that give them a
 * meaning. report/run_log.h reads one; whoever studies it looks at the fields.  A number that the
 * log lacks is NAN.
 */
enum tr_field {
#define FIELD(symbol, key) TR_FIELD_##symbol,
#include "report/fields.def"
    TR_FIELDS
};

enum tr_fact {
#define FACT(symbol, key, option, help) TR_FACT_##symbol,
#include "config/facts.def"
    TR_FACTS
};

enum tr_oddity {
#define ODDITY(symbol, text) TR_ODDITY_##symbol,
#include "report/oddities.def"
#undef ODDITY
    TR_ODDITIES
};

enum tr_part {
#define PART(symbol, key, colour, logs, plan, what) TR_PART_##symbol,
#include "report/parts.def"
#undef PART
    TR_PARTS
};

/* Where a run's times are from: a log, `trireme plan --json` or `trireme sim --json`. */
enum tr_run_origin { TR_ORIGIN_MEASURED, TR_ORIGIN_PLANNED, TR_ORIGIN_SIMULATED, TR_ORIGINS };

/* The rows of ends.def are numbered in their order; this stands for none of them. */
enum { TR_END_UNKNOWN = -1 };

/* The log format. */
enum tr_log_layout { TR_LAYOUT_2021, TR_LAYOUT_CORE, TR_LAYOUT_DEEPSPEED };

/* A timer of one line, milliseconds of an iteration: the smallest and the largest of the ranks,
   those that lack it left out, their mean, and that of the last rank.  A log that has one rank's
   alone says it four times; what cannot be known is NAN. */
struct tr_timing {
    int name; /* index of tr_record.timer */
    double min, max, mean, last;
};

/* An iteration line: numbers of the iterations since the one before. */
struct tr_row {
    int64_t iteration;
    int64_t line;     /* of the file, from 1 */
    int64_t start;    /* index of tr_record.start */
    bool interrupted; /* an evaluation or a save lies between it and the line before */
    bool extra;       /* Megatron Core's after the first iteration, which ends no interval */
    double field[TR_FIELDS];
    int64_t first_timing; /* of tr_record.timing */
    int timings;
};

/* Memory of a rank, MiB, as it was logged last. */
struct tr_rank_memory {
    double allocated, max_allocated, reserved, max_reserved;
};

/* One process after another worked on the run. */
struct tr_start {
    int64_t line;        /* where it begins */
    int64_t resumed;     /* iterations that were done before it; 0 from the beginning */
    int64_t first, last; /* iterations that it has lines of; 0 if none */
    int64_t lost;        /* of those before it, done again */
    int end;             /* row of ends.def, or TR_END_UNKNOWN */
    int64_t end_line;
    char began[32], ended[32]; /* the first and the last date that it names, or "" */
    /* Seconds: from its first moment to the first iteration, and of these before the first date;
       that training waited for checkpoints; of its iterations that a later start did again. */
    double ready, before, saving, again;
};

/* A line that names a slow rank, or says that it is none any more; --slow-rank-percent. */
struct tr_slow_line {
    int64_t rank, iteration;
    char where[128]; /* host, and device if it says so */
    double percent;  /* longer than its peers; NAN: no longer slow */
};

/* An argument that a log prints, as it stands there. */
struct tr_argument {
    char *name, *value; /* owned */
};
enum {
    TR_LOG_ARGUMENTS = 4096,
    TR_ARGUMENT_BYTES = 4096
}; /* of a run, and of a value: more is left out */

struct tr_record {
    char *name; /* of the log, and which run of it if there are several; owned */
    enum tr_run_origin origin;
    char machine[64];      /* profile of one that was not measured, "" where it has none */
    double part[TR_PARTS]; /* of an iteration of one that was not measured, ms */
    double p10, p90; /* of an iteration's time in a plan, ms; 0 where no runs were compared with the
                        profile */
    enum tr_log_layout layout;
    bool ours; /* trireme printed it, whose time leaves evaluation and saving out */
    double fact[TR_FACTS];
    const struct tr_family *family; /* that it names, or NULL */
    unsigned says;                  /* bit i: row i of model_args.def */
    bool tp_pp_dp;                  /* ranks in the order tensor, pipeline, data */
    bool recompute;                 /* the backward pass repeats the whole forward pass */
    const char *gpu;                /* name in telemetry/gpus.def, or NULL */
    enum tr_processor processor;    /* that it states; see tr_records_processor() */
    struct tr_argument *argument;   /* of its first start */
    int arguments;
    struct tr_row *row;
    int64_t rows;
    struct tr_timing *timing;
    int64_t timings;
    char **timer; /* names, owned */
    int timers;
    struct tr_rank_memory
        *memory; /* [memories], of rank i at i; allocated is NAN if it was not logged */
    int memories;
    struct tr_start *start;
    int64_t starts;
    struct tr_slow_line *slow;
    int64_t slows;

    int64_t lost; /* iterations that a later start did again */
    int64_t saves, evaluations;
    double validation; /* loss of the last one */
    int64_t lines;     /* iteration lines, those included that a later start made again */
};

struct tr_records {
    struct tr_record *list;
    int count;
    struct tr_found {
        int64_t count, line; /* how often, and where first */
    } odd[TR_ODDITIES];
};

void tr_records_release(struct tr_records *r);

/* Room for one more behind list[used] of `size` bytes each: the list, moved or not. */
void *tr_grow(void *list, int64_t used, size_t size);

/* Is this the name of an option, which arguments have with '_' for '-'? */
bool tr_argument_is(const char *name, size_t length, const char *option);

/* The value of an argument by its name, with '_' or '-', as the log has it; NULL where the log has
   it not.  What a log of trireme leaves out of its arguments has its default. */
const char *tr_record_argument(const struct tr_record *r, const char *name);

/* Add one; the texts are copied. */
void tr_record_add_argument(struct tr_record *r, const char *name, size_t length,
                            const char *value);
void tr_record_drop_arguments(struct tr_record *r);

/* Add one, and take what it says of the run: facts, architecture, recomputation, the order of
   ranks. */
void tr_record_take_argument(struct tr_record *r, const char *name, size_t length,
                             const char *value);

/* A fact that is a number above zero; another one is left out. */
void tr_record_set_fact(struct tr_record *r, enum tr_fact f, double x);

/* The fact, worked out from others where the log does not say it: world = tp * pp * dp,
   micro-batches = gbs / (mbs * dp), and so on; NAN if that cannot be. */
double tr_record_fact(const struct tr_record *r, enum tr_fact f);

/* Do two runs have the same in `count` facts?  With `unknown`, what one of them alone lacks is no
   difference. */
bool tr_record_alike(const struct tr_record *a, const struct tr_record *b, const enum tr_fact *f,
                     size_t count, bool unknown);

/* The sentence that a fact is missing, with the option that says it. */
enum tr_status tr_record_lacks(const struct tr_record *r, enum tr_fact f, const char *what_for);

/* What all of them ran on, those left out that do not say it: TR_PROCESSOR_UNKNOWN where they
   differ, or none says it.  Logs of Megatron-LM are of GPUs. */
enum tr_processor tr_records_processor(const struct tr_records *runs);

/* The timing of that timer in a row, or NULL; `name` is an index of r->timer. */
const struct tr_timing *tr_row_timing(const struct tr_record *r, const struct tr_row *row,
                                      int name);

/* Names of the tables. */
const char *tr_fact_key(enum tr_fact f);
const char *tr_field_key(enum tr_field f);
const char *tr_end_text(int end);

/* How its last start ended: a row of ends.def, or TR_END_UNKNOWN. */
int tr_record_end(const struct tr_record *r);

/* Did the program leave by itself, with nothing left undone that it was asked to do? */
bool tr_end_orderly(int end);

const char *tr_run_origin_text(enum tr_run_origin o);
const char *tr_oddity_text(enum tr_oddity o);
const char *tr_layout_text(enum tr_log_layout l);

#endif
