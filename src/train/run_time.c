/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/run_time.h"

#include <string.h>

#include "util/log.h"
#include "util/text.h"

static bool is_last(const struct tr_run *r)
{
    const int64_t epoch = r->shape.epochs.iters;

    return r->iteration == r->shape.amounts.train_iters || (epoch > 0 && r->iteration % epoch == 0);
}

void tr_run_time_add(struct tr_run_time *t, const struct tr_run *r, double seconds)
{
    char mean[32];

    if (!r->config->log_run_time)
        return;
    if (t->iterations++ > 0)
        t->seconds += seconds;
    if (!is_last(r))
        return;
    tr_real_text(t->iterations > 1 ? t->seconds / (double)(t->iterations - 1) : 0.0, mean,
                 sizeof mean);
    tr_print_rank0("Finished running  %lld  iterations, averaged (exclude the first iter) run "
                   "time: %s\n",
                   (long long)t->iterations, mean);
    memset(t, 0, sizeof *t);
}
