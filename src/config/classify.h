/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_CLASSIFY_H
#define TR_CONFIG_CLASSIFY_H

#include <stdint.h>

#include "config/config.h"

/* What is told of an evaluation of classes (train/metrics.h). */
enum tr_metric {
    TR_METRIC_MATTHEWS,
    TR_METRIC_ACCURACY,
    TR_METRIC_F1,
    TR_METRIC_PRECISION,
    TR_METRIC_RECALL,
    TR_METRICS
};

/* A task of sequence classification: a row of config/classify.def. */
struct tr_classify {
    const char *name, *folder, *columns, *first, *second, *label, *labels;
    int64_t count;
    unsigned metrics; /* bits 1 << enum tr_metric */
};

/* The row that --task-name names, or NULL: the samples are text. */
const struct tr_classify *tr_classify_of(const struct tr_config *c);

/* Classes of the head: --num-labels, or what the task has; 0: the head is that of a language model. */
int64_t tr_classify_labels(const struct tr_config *c);

#endif
