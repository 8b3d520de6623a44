/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/classify.h"

#include <string.h>

#define METRIC(symbol) (1U << TR_METRIC_##symbol)
#define CLASSIFY(name, folder, columns, first, second, label, labels, count, metrics) \
    {name, folder, columns, first, second, label, labels, count, metrics},
static const struct tr_classify rows[] = {
#include "config/classify.def"
};
#undef CLASSIFY
#undef METRIC

const struct tr_classify *tr_classify_of(const struct tr_config *c)
{
    for (size_t i = 0; c->task_name && i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, c->task_name) == 0)
            return &rows[i];
    return NULL;
}

int64_t tr_classify_labels(const struct tr_config *c)
{
    const struct tr_classify *task = tr_classify_of(c);

    if (c->num_labels != TR_UNSET_INT)
        return c->num_labels;
    return task ? task->count : 0;
}
