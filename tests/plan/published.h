/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_PLAN_PUBLISHED_H
#define TR_TESTS_PLAN_PUBLISHED_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/flops.h"
#include "model/param.h"
#include "plan/calibrate.h"
#include "plan/cost.h"
#include "plan/plan_parts.h"

/*
 * The published times (rows.def), and which of them the constants of a profile may be fitted on.  The
 * rule: the rows of a profile are sorted by the CRC-32 of "source/table/row"; the first quarter of them,
 * rounded up and at least three, is for fitting, and the rest only for comparing.  Nobody chooses.
 */
struct published {
    const char *machine, *set, *name; /* set: the source, or source/table; name: source/table/row */
    double ms, tflops;                /* one is 0 */
    const char *options;
    uint32_t crc;
    bool fitted;
    double error;    /* of the plan: planned time over published time, less 1 */
    double log_sc21; /* of published time over that of SC21's formula at the peak of the GPU */
    double seconds;  /* that were published, or that the published rate is */
    double calculon; /* Calculon's time over them, less 1; NAN: it has none (others.def) */
};

/* CRC-32 of IEEE 802.3, as zlib and `gzip` have it. */
static inline uint32_t published_crc(const char *text)
{
    uint32_t crc = 0xffffffffu;

    for (; *text; text++) {
        crc ^= (unsigned char)*text;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

#define ROW(machine, set, name, ms, tflops, options) \
    {machine, set, name, ms, tflops, options, 0, false, 0.0, 0.0, 0.0, 0.0},
static struct published published[] = {
#define TIME(machine, source, table, row, ms, options) \
    ROW(machine, source, source "/" table "/" row, ms, 0.0, options)
#define TIME_OF_SET(machine, source, table, row, ms, options) \
    ROW(machine, source "/" table, source "/" table "/" row, ms, 0.0, options)
#define RATE(machine, source, table, row, tflops, options) \
    ROW(machine, source, source "/" table "/" row, 0.0, tflops, options)
#include "plan/rows.def"
};

enum { PUBLISHED = sizeof published / sizeof *published };

/* What other planners say of the same rows. */
static const struct published_other {
    const char *name;
    double seconds;
} published_calculon[] = {
#define CALCULON(name, seconds) {name, seconds},
#include "plan/others.def"
};

static const struct published_mean {
    const char *planner, *set;
    int rows;
    double percent;
} published_means[] = {
#define MEAN(planner, set, rows, percent) {planner, set, rows, percent},
#include "plan/others.def"
};

enum {
    PUBLISHED_CALCULON = sizeof published_calculon / sizeof *published_calculon,
    PUBLISHED_MEANS = sizeof published_means / sizeof *published_means,
};

/* Of the row of that name, or NAN. */
static inline double published_seconds_of_calculon(const char *name)
{
    for (int i = 0; i < PUBLISHED_CALCULON; i++)
        if (strcmp(published_calculon[i].name, name) == 0)
            return published_calculon[i].seconds;
    return NAN;
}

/* By profile, and inside of one by the CRC. */
static inline int published_before(const void *a, const void *b)
{
    const struct published *x = a, *y = b;
    const int by_name = strcmp(x->machine, y->machine);

    if (by_name != 0)
        return by_name;
    return x->crc < y->crc ? -1 : x->crc > y->crc;
}

/* Where the rows of the profile that begins at `first` end. */
static inline int published_end(int first)
{
    int i = first;

    while (i < PUBLISHED && strcmp(published[i].machine, published[first].machine) == 0)
        i++;
    return i;
}

/* Sorts the rows and marks those that are for fitting. */
static inline void published_split(void)
{
    for (int i = 0; i < PUBLISHED; i++)
        published[i].crc = published_crc(published[i].name);
    qsort(published, PUBLISHED, sizeof *published, published_before);
    for (int first = 0, end; first < PUBLISHED; first = end) {
        int quarter;

        end = published_end(first);
        quarter = (end - first + 3) / 4;
        quarter = quarter < 3 ? 3 : quarter;
        for (int i = first; i < end; i++)
            published[i].fitted = i - first < quarter;
    }
}

static inline void published_must(enum tr_status s, const char *name)
{
    if (s == TR_OK)
        return;
    fprintf(stderr, "%s: %s\n", name, tr_last_error());
    exit(1);
}

/* A run whose time is asked for, with one machine after the other. */
struct published_run {
    struct tr_config config;
    struct tr_shape shape;
    int64_t params; /* of its largest stage */
};

static inline void published_open(const struct published *r, struct published_run *run)
{
    tr_config_init(&run->config);
    published_must(tr_config_parse_text(&run->config, r->options), r->name);
    if (run->config.world_size == TR_UNSET_INT)
        run->config.world_size =
            run->config.tensor_model_parallel_size * run->config.pipeline_model_parallel_size;
    published_must(tr_shape_of(&run->config, (int)run->config.world_size, &run->shape), r->name);
    run->params = 0;
    for (int i = 0; i < 2; i++) {
        struct tr_params list;

        tr_params_list(&run->shape.dims, &run->shape.layout, 0, i * (run->shape.layout.p - 1),
                       &list);
        if (tr_params_number(&list) > run->params)
            run->params = tr_params_number(&list);
        tr_params_release(&list);
    }
}

static inline double published_error(const struct published *r, const struct published_run *run,
                                     const struct tr_machine *m)
{
    const struct tr_plan_time t = tr_plan_time_of(&run->config, &run->shape, m, run->params, true);

    return r->ms > 0.0 ? 1e3 * t.total / r->ms - 1.0 : r->tflops / t.tflops - 1.0;
}

/*
 * Narayanan et al., SC21: the operations of an iteration over GPUs and the rate of one, and the bubble, (p - 1) / (v m)
 * of it (sections 2.2 and 3.4, equation 3).  Here at the rate of the data sheet; seconds.
 */
static inline double published_sc21(const struct published_run *run, const struct tr_machine *m)
{
    const struct tr_shape *s = &run->shape;
    const double flops = tr_flops_count(TR_FLOPS_SC21, &s->dims, s->batches.global_batch,
                                        s->activations.recompute != TR_RECOMPUTE_NONE);
    const double bubble = (s->layout.p - 1.0) / s->layout.k / s->batches.micros;

    return flops * (1.0 + bubble) / s->layout.world / tr_cost_peak(&s->precision, m);
}

/* A rate is by the operations of the options' own formula. */
static inline double published_seconds(const struct published *r, const struct published_run *run,
                                       const struct tr_machine *m)
{
    const struct tr_plan_time t = tr_plan_time_of(&run->config, &run->shape, m, run->params, true);

    return r->ms > 0.0 ? 1e-3 * r->ms : t.total * t.tflops / r->tflops;
}

static inline void published_close(struct published_run *run)
{
    tr_config_release(&run->config);
}

/* The errors of all rows, with the profiles as they are. */
static inline void published_all(void)
{
    for (int i = 0; i < PUBLISHED; i++) {
        struct published_run run;
        struct tr_machine m;

        published_must(tr_machine_find(published[i].machine, &m), published[i].machine);
        published_open(&published[i], &run);
        published[i].error = published_error(&published[i], &run, &m);
        published[i].seconds = published_seconds(&published[i], &run, &m);
        published[i].log_sc21 = log(published[i].seconds / published_sc21(&run, &m));
        published[i].calculon =
            published_seconds_of_calculon(published[i].name) / published[i].seconds - 1.0;
        published_close(&run);
    }
}

static inline int published_by_ratio(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Between which published over planned time of a further run lies in eight of ten cases, by the rows [first, end) that
   were not fitted. */
static inline void published_range(int first, int end, double *low, double *high)
{
    double ratio[PUBLISHED];
    int n = 0;

    for (int i = first; i < end; i++)
        if (!published[i].fitted)
            ratio[n++] = -log1p(published[i].error);
    tr_calibrate_interval(ratio, n, low, high);
    *low = exp(*low);
    *high = exp(*high);
}

#endif
