/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_METRICS_H
#define TR_TRAIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "config/classify.h"

/* What samples were predicted to be and what they are: all that the metrics follow from. */
struct tr_scores {
    int64_t classes;
    int64_t *
        count; /* [3, classes], owned: samples of a class, predictions of it, and those that are right */
};
void tr_scores_open(struct tr_scores *s, int64_t classes);
void tr_scores_close(struct tr_scores *s);
void tr_scores_add(struct tr_scores *s, int64_t truth, int64_t predicted);

/*
 * A metric.  With n samples, t and p the samples and predictions of a class and h those that are right, Matthews'
 * correlation is, for any number of classes (Gorodkin 2004),
 *
 *     (n sum(h) - sum(t p)) / sqrt((n^2 - sum(t^2)) (n^2 - sum(p^2)))
 */
double tr_metric_of(const struct tr_scores *s, enum tr_metric metric);
const char *tr_metric_name(enum tr_metric metric);

/* AC-SGD's line: {"accuracy": {"accuracy": 0.75}, ...}, of the metrics among `which`; like snprintf(). */
int tr_metrics_line(char *buf, size_t size, const struct tr_scores *s, unsigned which);

#endif
