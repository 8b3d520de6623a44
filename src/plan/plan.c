/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/plan.h"

#include <stdlib.h>

#include "model/count.h"
#include "pipeline/sched.h"
#include "plan/cost.h"
#include "plan/plan_parts.h"

/* Iterations of a run whose length is not given: longer than any warm-up. */
enum { ENDLESS = 1000000000 };

static int world_of(const struct tr_config *c)
{
    const int64_t model = c->tensor_model_parallel_size * c->pipeline_model_parallel_size;

    if (c->world_size != TR_UNSET_INT)
        return (int)c->world_size;
    return model > INT32_MAX ? INT32_MAX : (int)model;
}

/* The vocabulary has been counted, and is not read again for every shape that is looked at. */
static void count_vocabulary(struct tr_plan *p)
{
    p->config.vocab_file = p->config.tokenizer_model = NULL;
    p->config.vocab_size = p->shape.dims.vocab;
}

enum tr_processor tr_plan_processor(const struct tr_plan *p)
{
    return tr_processor_of_run(&p->config, p->has_machine ? &p->machine : NULL);
}

static enum tr_status check_machine(const struct tr_plan *p)
{
    const char *lacks = p->has_machine ? tr_cost_lacks(&p->shape, &p->machine) : NULL;

    if (lacks)
        return TR_FAIL(
            TR_ECONFIG,
            "the profile of %s has no %s, by which an offloaded optimizer is timed: add it "
            "to a copy of the profile (docs/machines.md), or plan without --machine",
            p->machine.name, lacks);
    if (!p->has_machine || tr_cost_peak(&p->shape.precision, &p->machine) > 0.0)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "the %s of %s have no bf16 GEMMs (peak-bf16-tflops is 0), so --bf16 would "
                   "not run there: take --fp16",
                   tr_processor_noun(tr_plan_processor(p), 2), p->machine.name);
}

/* Computations of a step, long enough to be like a longer one, that are laid out at most: that takes
   some seconds. */
static const double MOST_WORK = 1e7;

static enum tr_status check_size(const struct tr_shape *s)
{
    const double work = tr_plan_work_of(s);

    if (work > MOST_WORK)
        return TR_FAIL(TR_ECONFIG,
                       "%d stages of %d chunks with %d micro-batches have %.1f million steps, more "
                       "than the %.0f million that a plan lays out: ask for a smaller "
                       "--pipeline-model-parallel-size, --global-batch-size, or fewer chunks",
                       s->layout.p, s->layout.k, s->batches.micros, work / 1e6, MOST_WORK / 1e6);
    return TR_OK;
}

static enum tr_status stages(struct tr_plan *p)
{
    const struct tr_machine *m = p->has_machine ? &p->machine : NULL;

    p->stage = calloc((size_t)p->shape.layout.p, sizeof *p->stage);
    if (!p->stage)
        tr_die(TR_ERESOURCE, "no memory left for the stages of a plan");
    for (int i = 0; i < p->shape.layout.p; i++) {
        TR_TRY(tr_plan_stage_of(&p->config, &p->shape, m, i, &p->stage[i]));
        if (p->stage[i].memory.total > p->stage[p->worst].memory.total)
            p->worst = i;
        if (p->stage[i].params > p->most_params)
            p->most_params = p->stage[i].params;
    }
    return TR_OK;
}

static void judge(struct tr_plan *p)
{
    for (int i = 0; i < p->shape.layout.p; i++) {
        const enum tr_plan_verdict own = tr_plan_verdict_of(p->stage[i].memory.total, &p->machine);
        const enum tr_plan_verdict megatron = tr_plan_verdict_megatron(&p->stage[i], &p->machine);

        p->ours = own > p->ours ? own : p->ours;
        p->megatron = megatron > p->megatron ? megatron : p->megatron;
    }
}

/* Options that a plan does not depend on need not be given. */
static void complete(struct tr_plan *p)
{
    struct tr_config *c = &p->config;

    if (c->lr <= TR_UNSET_REAL)
        c->lr = c->min_lr > 0.0 ? c->min_lr : 0.0;
    p->endless = c->train_iters == TR_UNSET_INT && c->train_samples == TR_UNSET_INT &&
                 c->n_epochs == TR_UNSET_INT;
    if (p->endless)
        c->train_iters = ENDLESS;
}

static enum tr_status plan_of(const struct tr_config *c, const struct tr_machine *m, bool draft,
                              struct tr_plan *out)
{
    *out = (struct tr_plan){
        .config = *c, .has_machine = m != NULL, .fewest = c->world_size == TR_UNSET_INT};
    if (m)
        out->machine = *m;
    if (draft)
        complete(out);
    out->config.world_size = world_of(c);
    TR_TRY(tr_shape_of(&out->config, (int)out->config.world_size, &out->shape));
    TR_TRY(check_size(&out->shape));
    count_vocabulary(out);
    TR_TRY(check_machine(out));
    out->params = tr_count_parameters(&out->shape.dims, false);
    out->padded = tr_count_parameters(&out->shape.dims, true);
    TR_TRY(stages(out));
    if (m) {
        const int node = m->gpus_per_node;

        out->nodes = (out->shape.layout.world + node - 1) / node;
        judge(out);
        out->time = tr_plan_time_of(&out->config, &out->shape, m, out->most_params, true);
        tr_plan_traffic_of(out);
    }
    tr_plan_budget_of(out);
    return TR_OK;
}

enum tr_status tr_plan_alone(const struct tr_config *c, const struct tr_machine *m,
                             struct tr_plan *out)
{
    return plan_of(c, m, false, out);
}

enum tr_status tr_plan_itself(const struct tr_config *c, const struct tr_machine *m,
                              struct tr_plan *out)
{
    return plan_of(c, m, true, out);
}

enum tr_status tr_plan_make(const struct tr_config *c, const struct tr_machine *m,
                            struct tr_plan *out)
{
    TR_TRY(tr_plan_itself(c, m, out));
    if (m)
        tr_plan_others_of(out);
    if (out->ours == TR_PLAN_TOO_MUCH)
        tr_plan_changes_of(out, m->memory * 1048576.0);
    return TR_OK;
}

void tr_plan_release(struct tr_plan *p)
{
    free(p->stage);
    p->stage = NULL;
}

/* What to add to, or leave out of, the options that were given for a flag to be as it should. */
static const char *flag(bool given, bool wanted, const char *add, const char *leave)
{
    return given == wanted ? "" : wanted ? add : leave;
}

enum tr_status tr_plan_fits(const struct tr_plan *p)
{
    const struct tr_plan_stage *g = &p->stage[p->worst];
    const struct tr_plan_other *o = &p->other[0];
    const double mib = 1048576.0;
    const char *one = tr_processor_noun(tr_plan_processor(p), 1);
    char chunks[160] = "";

    if (o->layout)
        snprintf(chunks, sizeof chunks, " --pipeline-model-parallel-layout %s", o->layers);
    else if (o->k > 1)
        snprintf(chunks, sizeof chunks, " --num-layers-per-virtual-pipeline-stage %lld",
                 (long long)(p->shape.dims.layers / o->p / o->k));
    if (p->ours != TR_PLAN_TOO_MUCH)
        return TR_OK;
    if (p->changes > 0 && (p->others == 0 || o->world != p->shape.layout.world))
        return TR_FAIL(TR_ERESOURCE,
                       "stage %d needs %.0f MiB of the %.0f of a %s: %s would fit, with %.0f MiB",
                       g->stage, g->memory.total / mib, p->machine.memory, one,
                       p->change[0].options, p->change[0].bytes / mib);
    if (p->others == 0 || o->world != p->shape.layout.world)
        return TR_FAIL(TR_ERESOURCE,
                       "stage %d needs %.0f MiB of the %.0f of a %s, and no other layout of %d "
                       "%s holds this model and batch: take more of them (--world-size), or a "
                       "smaller model",
                       g->stage, g->memory.total / mib, p->machine.memory, one,
                       p->shape.layout.world,
                       tr_processor_noun(tr_plan_processor(p), p->shape.layout.world));
    return TR_FAIL(TR_ERESOURCE,
                   "stage %d needs %.0f MiB of the %.0f of a %s: "
                   "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d "
                   "--micro-batch-size %lld%s%s%s%s%s would fit, with %.0f MiB",
                   g->stage, g->memory.total / mib, p->machine.memory, one, o->w, o->p,
                   (long long)o->micro_batch, chunks,
                   flag(p->shape.layout.tp_pp_dp, o->tp_pp_dp, " --use-tp-pp-dp-mapping",
                        ", without --use-tp-pp-dp-mapping,"),
                   flag(p->shape.activations.sequence, o->sequence, " --sequence-parallel",
                        ", without --sequence-parallel,"),
                   flag(p->shape.activations.recompute != TR_RECOMPUTE_NONE, o->recompute,
                        " --checkpoint-activations", ", without recomputation,"),
                   flag(p->shape.dp.optimizer_shards > 1, o->sharded,
                        " --use-distributed-optimizer",
                        p->config.zero_stage > 0 ? ", without --zero-stage,"
                                                 : ", without --use-distributed-optimizer,"),
                   o->bytes / mib);
}
