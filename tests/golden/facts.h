/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_FACTS_H
#define TR_TESTS_FACTS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/golden.h"
#include "train/tiny.h"
#include "train/weights.h"

/* Gradients of a run against what families.py keeps of one.  All functions are collective over the world. */
enum { SIGNS = 4, PLACES = 64, STRIDE = 1009 };

/* What is kept of a gradient, as in families.py. */
struct facts {
    float count, largest, norm, sum[SIGNS], place[PLACES];
};

static inline bool near(const char *what, double value, double want, double tolerance, double of)
{
    if (fabs(value - want) <= tolerance * of)
        return true;
    fprintf(stderr, "rank %d: %s is %.9g instead of %.9g, off by %.1e, at most %.1e\n", world.rank,
            what, value, want, fabs(value - want) / of, tolerance);
    return false;
}

/* The whole gradient of a parameter on every rank: the mean of the copies of each element; NaN where no rank
   owns it.  The caller frees it. */
static inline double *whole_gradient(const struct tr_run *r, const struct tr_param *whole,
                                     double scale)
{
    const struct tr_params *ps = &r->model.params;
    const int64_t count = whole->full[0] * whole->full[1];
    double *both = calloc(2 * (size_t)count, sizeof *both);

    for (int i = 0; i < ps->count; i++) {
        const struct tr_param *p = &ps->list[i];

        if (strcmp(p->name, whole->name) != 0)
            continue;
        for (int64_t e = 0; e < p->elems; e++) {
            int64_t at = weights_whole_index(p, e);

            if (at < 0 || !weights_owned(r, p->offset + e))
                continue;
            both[at] += weights_element(&ps->grads, p->offset + e) / scale;
            both[count + at] += 1.0;
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, both, (int)(2 * count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int64_t e = 0; e < count; e++)
        both[e] /= both[count + e];
    return both;
}

/* No copy of an element that a rank owns is far from the mean of all. */
static inline bool copies_agree(const struct tr_run *r, const struct tr_param *whole,
                                const double *mean, double scale, double tolerance)
{
    const struct tr_params *ps = &r->model.params;
    double worst = 0.0;

    for (int i = 0; i < ps->count; i++) {
        const struct tr_param *p = &ps->list[i];

        for (int64_t e = 0; e < p->elems && strcmp(p->name, whole->name) == 0; e++) {
            int64_t at = weights_whole_index(p, e);

            if (at >= 0 && weights_owned(r, p->offset + e))
                worst = fmax(worst,
                             fabs(weights_element(&ps->grads, p->offset + e) / scale - mean[at]));
        }
    }
    return near("difference of copies", worst, 0.0, 1.0, tolerance);
}

/* Of `whole`, the gradient that was multiplied by `scale` against what is kept of it.  Collective. */
static inline bool facts_of_gradient(const struct tr_run *r, const struct tr_param *whole,
                                     const struct facts *want, double tolerance, double scale)
{
    const int64_t count = whole->full[0] * whole->full[1];
    double *got = whole_gradient(r, whole, scale);
    double squares = 0.0, largest = 0.0, sum[SIGNS] = {0};
    bool good = near("number of elements", (double)count, (double)want->count, 0.0, 1.0);

    for (int64_t e = 0; e < count; e++) {
        uint64_t mixed = tr_golden_splitmix64((uint64_t)e);

        squares += got[e] * got[e];
        largest = fmax(largest, fabs(got[e]));
        for (int k = 0; k < SIGNS; k++)
            sum[k] += mixed >> (60 + k) & 1 ? got[e] : -got[e];
    }
    good =
        near("largest element", largest, (double)want->largest, tolerance, (double)want->largest) &&
        good;
    good = near("norm", sqrt(squares), (double)want->norm, tolerance, (double)want->norm) && good;
    for (int k = 0; k < SIGNS; k++)
        good =
            near("sum with signs", sum[k], (double)want->sum[k], tolerance, (double)want->norm) &&
            good;
    for (int j = 0; j < PLACES; j++)
        good = near("an element", got[(int64_t)STRIDE * j % count], (double)want->place[j],
                    tolerance, (double)want->largest) &&
               good;
    good = copies_agree(r, whole, got, scale, tolerance * (double)want->largest) && good;
    if (!good)
        fprintf(stderr, "rank %d: gradient of %s\n", world.rank, whole->name);
    free(got);
    return good;
}

#endif
