/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_SUMMARY_H
#define TR_REPORT_SUMMARY_H

#include "config/dims.h"
#include "report/order.h"
#include "report/record.h"

/*
 * What a run did, in a few numbers.  Medians are over the iteration lines that count, each of which
 * is itself the mean of the iterations since the line before it.
 */
enum { TR_WARMUP_AUTO = -1 };

/* Which lines count. */
struct tr_selection {
    int64_t *row; /* [count] indices of rows, ascending; owned */
    int64_t count;
    int64_t warm;        /* left out, because a start had just begun */
    int64_t interrupted; /* left out, because an evaluation or a save was in their time */
};

/*
 * Without those of the first `warmup` iterations of each start; TR_WARMUP_AUTO: the first two lines
 * of each start, but no more than a quarter of its lines.  Lines with an evaluation or a save in
 * them are left out too, for in most programs these count as elapsed time, unless no line would be
 * left.
 */
struct tr_selection tr_select_rows(const struct tr_record *r, int64_t warmup);
void tr_selection_release(struct tr_selection *s);

/* A field of the lines that count. */
struct tr_order tr_selection_order(const struct tr_record *r, const struct tr_selection *s,
                                   enum tr_field f);

struct tr_summary {
    struct tr_order ms;
    int64_t lines, counted, warm, interrupted;
    int64_t first, last;  /* iterations with lines */
    struct tr_order rate; /* samples per second, of each line by its own time and batch */
    double samples_per_second, tokens_per_second; /* their medians */
    double parameters;                            /* of the model, by its shape */
    double hardware_tflops;     /* of a GPU, by formula sc21, recomputation included */
    double model_tflops;        /* by the formula asked for, without recomputation */
    double hfu, mfu;            /* of the peak; both between 0 and 1 */
    double logged_tflops;       /* median of what the log says itself */
    double allocated, reserved; /* MiB, the most of any rank that logged it */
    int allocated_rank;         /* whose that is, -1 if nobody logged it */
    double loss_first, loss_last, loss_least;
    int64_t skipped, nan; /* iterations */
    double bubble; /* (p-1) / (k m + p - 1), the pipeline's idle part if all else were free */
};

/* `formula` is TR_FLOPS_ of config/enums.def and not AUTO; `peak` in TFLOP/s, NAN if unknown. */
void tr_summarize(const struct tr_record *r, int64_t warmup, int formula, double peak,
                  struct tr_summary *out);

/* What config/flops.h needs of a shape; false if the log lacks some of it. */
bool tr_record_dims(const struct tr_record *r, struct tr_dims *out);

/* The model as people call it: "7.5B", "345M"; "" if its shape is not known.  Into buf[16]. */
void tr_model_size(double parameters, char *buf);

#endif
