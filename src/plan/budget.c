/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "ckpt/index.h"
#include "pipeline/links.h"
#include "plan/plan_parts.h"
#include "plan/formulas.h"
#include "train/replicas_save.h"

/* As the file is laid out: the whole model once for each kind of tensor; and the sidecar files of
   ranks. */
static double save_bytes(const struct tr_plan *p, int *sidecars)
{
    const int kinds = p->config.no_save_optim ? 1 : TR_CKPT_KINDS;
    char *json = tr_config_get_json(&p->config, NULL);
    struct tr_params params;
    int64_t replicas, links;
    double bytes;

    tr_params_list_whole(&p->shape.dims, &params);
    links = tr_links_saved_bytes(&p->config, &p->shape, sidecars);
    replicas = tr_replicas_sidecar_bytes(&p->config, &p->shape.dp, p->shape.layout.d, params.elems);
    *sidecars += replicas > 0 ? p->shape.layout.world : 0;
    bytes = (double)tr_ckpt_index_bytes(&params, kinds, json) + (double)replicas + (double)links;
    tr_params_release(&params);
    free(json);
    return bytes;
}

double tr_plan_daly(double save, double mtbf)
{
    const double x = save / (2.0 * mtbf);

    if (x >= 1.0)
        return mtbf;
    return sqrt(2.0 * save * mtbf) * (1.0 + sqrt(x) / 3.0 + x / 9.0) - save;
}

static void saves(struct tr_plan *p, struct tr_plan_budget *b)
{
    const struct tr_machine *m = &p->machine;

    if (m->disk > 0.0)
        b->save_seconds = b->save_bytes / (1e9 * m->disk);
    if (m->node_mtbf > 0.0)
        b->mtbf_hours = m->node_mtbf / p->nodes;
    if (b->save_seconds <= 0.0 || b->mtbf_hours <= 0.0)
        return;
    b->interval_seconds = tr_plan_daly(b->save_seconds, 3600.0 * b->mtbf_hours);
    b->interval = (int64_t)(b->interval_seconds / p->time.total);
    if (b->interval < 1)
        b->interval = 1;
}

/* Seconds of an iteration of `batch` samples, as the closed form scales that of the full batch. */
static double seconds_at(const struct tr_plan *p, int64_t batch)
{
    const struct tr_batches *b = &p->shape.batches;
    struct tr_shape part = p->shape;
    double full, small;

    part.batches.micros = (int)(batch / b->unit);
    part.batches.global_batch = batch;
    part.layout.group =
        part.layout.group < part.batches.micros ? part.layout.group : part.batches.micros;
    small = tr_plan_time_of(&p->config, &part, &p->machine, p->most_params, false).total;
    full = tr_plan_time_of(&p->config, &p->shape, &p->machine, p->most_params, false).total;
    return small / full * p->time.total;
}

/* Each batch size of the ramp-up takes the same number of samples.  Returns the iterations in
   *count. */
static double ramp_seconds(const struct tr_plan *p, int64_t *count)
{
    const struct tr_batches *b = &p->shape.batches;
    const int64_t increments = tr_batches_increments(b);
    double seconds = 0.0, iterations = 0.0;

    for (int64_t i = 0; i < increments; i++) {
        const int64_t batch = tr_batches_step(b, i);
        const double n = (double)b->over / (double)increments / (double)batch;

        seconds += n * seconds_at(p, batch);
        iterations += n;
    }
    *count = (int64_t)iterations;
    return seconds;
}

static void run(struct tr_plan *p, struct tr_plan_budget *b)
{
    const int64_t told = p->config.exit_duration_in_mins;
    int64_t ramp;

    b->ramp_hours = ramp_seconds(p, &ramp) / 3600.0;
    ramp = ramp < b->iterations ? ramp : b->iterations;
    b->hours = b->ramp_hours + (double)(b->iterations - ramp) * p->time.total / 3600.0;
    b->gpu_hours = b->hours * p->shape.layout.world;
    b->job_minutes = told != TR_UNSET_INT ? (double)told : p->machine.job_limit;
    if (b->job_minutes > 0.0)
        b->jobs = (int64_t)ceil(60.0 * b->hours / b->job_minutes);
}

void tr_plan_budget_of(struct tr_plan *p)
{
    struct tr_plan_budget *b = &p->budget;

    b->save_bytes = save_bytes(p, &b->save_files);
    b->save_files++;
    if (p->has_machine)
        saves(p, b);
    if (p->endless)
        return;
    b->iterations = p->shape.amounts.train_iters;
    b->tokens = (double)p->shape.amounts.train_samples * (double)p->shape.dims.seq;
    if (p->has_machine)
        run(p, b);
}
