/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/evaluate.h"

#include "train/step.h"
#include "train/logging.h"

struct tr_evaluation tr_evaluation_of(const struct tr_run *r, enum tr_split split)
{
    const int64_t batch = r->shape.batches.global_batch;
    int64_t size = r->data ? tr_data_size(r->data, split) : 0;
    struct tr_evaluation e = {.iterations = r->shape.amounts.eval_iters};

    if (size == 0 || e.iterations == 0)
        return (struct tr_evaluation){0};
    if (r->shape.epochs.count > 0) {
        if (r->config->drop_last_eval)
            size = size / batch * batch;
        e.iterations = (size + batch - 1) / batch;
        e.samples = size;
        return e;
    }
    e.first = split == TR_SPLIT_VALID ? r->consumed_valid : 0;
    e.samples = e.iterations * batch;
    return e;
}

double tr_evaluation_end(struct tr_run *r, enum tr_split split, const struct tr_evaluation *e,
                         double mean)
{
    const int64_t all = e->iterations * r->shape.batches.global_batch, copies = all - e->samples;
    double first;

    if (copies == 0)
        return mean;
    first = tr_eval(r, split, e->first + all, 1);
    return (mean * (double)all - first * (double)copies) / (double)e->samples;
}

bool tr_evaluation_due(const struct tr_amounts *amounts, const struct tr_epoch_plan *epochs,
                       int64_t iteration)
{
    return tr_logging_every(iteration, amounts->eval_interval) ||
           (epochs->iters > 0 && iteration < amounts->train_iters &&
            tr_logging_every(iteration, epochs->iters));
}
