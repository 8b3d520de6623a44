/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/status.h"

void tr_scores_open(struct tr_scores *s, int64_t classes)
{
    s->classes = classes;
    s->count = calloc((size_t)classes * 3, sizeof *s->count);
    if (!s->count)
        tr_die(TR_ERESOURCE, "no memory left for the scores of %lld classes", (long long)classes);
}

void tr_scores_close(struct tr_scores *s)
{
    free(s->count);
    *s = (struct tr_scores){0};
}

void tr_scores_add(struct tr_scores *s, int64_t truth, int64_t predicted)
{
    s->count[truth]++;
    s->count[s->classes + predicted]++;
    s->count[2 * s->classes + truth] += truth == predicted;
}

static double over(double part, double whole)
{
    return whole > 0.0 ? part / whole : 0.0;
}

/* Sums are whole numbers below 2^53 up to 94 million samples. */
static double matthews(const struct tr_scores *s, double n, double right)
{
    const int64_t *truth = s->count, *predicted = s->count + s->classes;
    double both = 0.0, truths = 0.0, predictions = 0.0;

    for (int64_t c = 0; c < s->classes; c++) {
        const double t = (double)truth[c], p = (double)predicted[c];

        both += t * p;
        truths += t * t;
        predictions += p * p;
    }
    return over(n * right - both, sqrt(n * n - truths) * sqrt(n * n - predictions));
}

double tr_metric_of(const struct tr_scores *s, enum tr_metric metric)
{
    const int64_t *truth = s->count, *predicted = truth + s->classes, *hit = predicted + s->classes;
    const int64_t positive = s->classes > 1 ? 1 : 0;
    double n = 0.0, right = 0.0;

    for (int64_t c = 0; c < s->classes; c++) {
        n += (double)truth[c];
        right += (double)hit[c];
    }
    switch (metric) {
    case TR_METRIC_MATTHEWS:
        return matthews(s, n, right);
    case TR_METRIC_ACCURACY:
        return over(right, n);
    case TR_METRIC_F1:
        return over(2.0 * (double)hit[positive],
                    (double)truth[positive] + (double)predicted[positive]);
    case TR_METRIC_PRECISION:
        return over((double)hit[positive], (double)predicted[positive]);
    default:
        TR_ASSERT(metric == TR_METRIC_RECALL);
        return over((double)hit[positive], (double)truth[positive]);
    }
}

const char *tr_metric_name(enum tr_metric metric)
{
    static const char *const names[TR_METRICS] = {
#define METRIC(symbol, name) [TR_METRIC_##symbol] = name,
#include "train/metrics.def"
#undef METRIC
    };

    return names[metric];
}

int tr_metrics_line(char *buf, size_t size, const struct tr_scores *s, unsigned which)
{
    size_t at = 0;
    int told = 0;

    for (int i = 0; i < TR_METRICS && at < size; i++) {
        const char *name = tr_metric_name((enum tr_metric)i);

        if (which & 1U << i)
            at += (size_t)snprintf(buf + at, size - at, "%s\"%s\": {\"%s\": %.9g}",
                                   told++ ? ", " : "{", name, name,
                                   tr_metric_of(s, (enum tr_metric)i));
    }
    if (at < size)
        at += (size_t)snprintf(buf + at, size - at, "}");
    return (int)at;
}
