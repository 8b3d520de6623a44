/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "config/flops.h"
#include "plan/plan_parts.h"

/* Numbers are in bytes and seconds, names with underscores. */
static json_t *packed(json_t *x)
{
    TR_ASSERT(x);
    return x;
}

json_t *tr_plan_shape_json(const struct tr_plan *p)
{
    const struct tr_shape *s = &p->shape;
    char list[TR_LAYOUT_TEXT];

    return packed(json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:I, s:I, s:i, s:I, s:I, s:f, s:f}", "ranks",
        s->layout.world, "tensor_parallel", s->layout.w, "pipeline_parallel", s->layout.p,
        "data_parallel", s->layout.d, "model_chunks", s->layout.k, "rank_order",
        s->layout.tp_pp_dp ? "tp-pp-dp" : "tp-dp-pp", "stage_layers",
        tr_layout_list(&s->layout, list), "micro_batch", (json_int_t)s->batches.micro_batch,
        "global_batch", (json_int_t)s->batches.global_batch, "micro_batches", s->batches.micros,
        "layers", (json_int_t)s->dims.layers, "padded_vocabulary", (json_int_t)s->dims.vocab_padded,
        "parameters", p->params, "parameters_padded", p->padded));
}

json_t *tr_plan_options_json(const struct tr_plan *p)
{
    char *text = tr_config_get_json(&p->config, NULL);
    json_t *options = packed(json_loads(text, 0, NULL));

    free(text);
    return options;
}

/* `name` as it stands in tables, with - for _. */
static void set(json_t *o, const char *name, json_t *value)
{
    char key[64];
    size_t i;

    for (i = 0; i < sizeof key - 1 && name[i]; i++)
        key[i] = name[i] == '-' || name[i] == ' ' ? '_' : name[i];
    key[i] = '\0';
    json_object_set_new(o, key, value);
}

static json_t *known(double x)
{
    return x > 0.0 ? json_real(x) : json_null();
}

static json_t *machine_json(const struct tr_plan *p)
{
    json_t *m;

    if (!p->has_machine)
        return json_null();
    m = packed(json_pack("{s:s, s:i}", "name", p->machine.name, "nodes", p->nodes));
#define TEXT(field, key, help) set(m, key, json_string(p->machine.field));
#define KIND(field, key, initial, help) \
    set(m, key, json_string(tr_processor_name(p->machine.field)));
#define COUNT(field, key, least, most, help) set(m, key, json_integer(p->machine.field));
#define NUMBER(field, key, initial, least, most, help) set(m, key, json_real(p->machine.field));
#include "config/machine.def"
    return m;
}

static json_t *stage_json(const struct tr_plan *p, const struct tr_plan_stage *g)
{
    const struct tr_plan_megatron *x = &g->megatron;
    json_t *bytes = json_object(), *megatron;

    for (int i = 0; i < TR_MEMORY_PARTS; i++)
        set(bytes, tr_memory_part_name(i),
            g->memory.unknown[i] ? json_null() : json_real(g->memory.part[i]));
    json_object_set_new(bytes, "total", json_real(g->memory.total));
    if (g->memory.host_total > 0.0)
        json_object_set_new(bytes, "host", json_real(g->memory.host_total));
    if (g->memory.optimizer_files > 0.0)
        json_object_set_new(bytes, "files", json_real(g->memory.optimizer_files));
    if (g->memory.host + g->memory.files > 0.0) {
        json_object_set_new(bytes, "samples_host", json_real(g->memory.host));
        json_object_set_new(bytes, "samples_files", json_real(g->memory.files));
    }
    megatron =
        packed(json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "allocated", x->allocated, "activations",
                         x->activations, "peak_low", x->peak_low, "peak_high", x->peak_high,
                         "reserved_low", x->reserved_low, "reserved_high", x->reserved_high));
    return packed(json_pack(
        "{s:i, s:i, s:I, s:I, s:o, s:f, s:o, s:s}", "stage", g->stage, "rank", g->rank, "layers",
        (json_int_t)g->layers, "parameters", (json_int_t)g->params, "bytes", bytes,
        "text_cache_bytes", g->text_cache, "megatron_bytes", megatron, "verdict",
        tr_plan_verdict_text(p->has_machine ? tr_plan_verdict_of(g->memory.total, &p->machine)
                                            : TR_PLAN_UNKNOWN)));
}

static json_t *time_json(const struct tr_plan *p)
{
    const struct tr_plan_time *t = &p->time;
    json_t *x;

    if (!p->has_machine)
        return json_null();
    x = packed(json_pack("{s:f, s:o, s:o, s:f, s:f, s:s}", "total", t->total, "p10", known(t->low),
                         "p90", known(t->high), "tflops_per_gpu", t->tflops, "of_peak", t->of_peak,
                         "flops_formula",
                         tr_flops_text(t->formula, &p->shape.dims,
                                       p->shape.activations.recompute != TR_RECOMPUTE_NONE)));
#define PART(field, name, what) set(x, name, json_real(t->field));
    TR_PLAN_TIMES_OF(PART)
#undef PART
    return x;
}

static json_t *traffic_json(const struct tr_plan *p)
{
    static const char *const names[] = {
#define TRAFFIC(symbol, name, what) name,
        TR_PLAN_TRAFFIC_OF(TRAFFIC)
#undef TRAFFIC
    };
    double bytes[2] = {0.0, 0.0};
    json_t *all = json_object();

    if (!p->has_machine) {
        json_decref(all);
        return json_null();
    }
    for (int i = 0; i < TR_PLAN_TRAFFICS; i++) {
        const struct tr_plan_traffic *t = &p->traffic[i];

        bytes[t->between] += t->bytes;
        set(all, names[i],
            packed(json_pack("{s:f, s:b, s:f, s:f}", "bytes", t->bytes, "between_nodes", t->between,
                             "link_seconds", p->time.wire[i].link, "exposed_seconds",
                             p->time.wire[i].exposed)));
    }
    set(all, "bytes-in-nodes", json_real(bytes[0]));
    set(all, "bytes-between-nodes", json_real(bytes[1]));
    return all;
}

static json_t *other_json(const struct tr_plan_other *o)
{
    return packed(json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:I, s:b, s:b, s:b, s:s, s:s, s:f, s:f, s:s?, s:f}", "ranks",
        o->world, "tensor_parallel", o->w, "pipeline_parallel", o->p, "data_parallel", o->d,
        "model_chunks", o->k, "micro_batch", (json_int_t)o->micro_batch, "recompute", o->recompute,
        "distributed_optimizer", o->sharded, "sequence_parallel", o->sequence, "rank_order",
        o->tp_pp_dp ? "tp-pp-dp" : "tp-dp-pp", "stage_layers", o->layers, "bytes", o->bytes,
        "seconds", o->seconds, "reason", o->because, "saves_seconds", o->saves));
}

static json_t *others_json(const struct tr_plan *p)
{
    json_t *all = json_array();

    for (int i = 0; i < p->others; i++)
        json_array_append_new(all, other_json(&p->other[i]));
    return all;
}

static json_t *change_json(const struct tr_plan *p, const struct tr_plan_change *c)
{
    json_t *parts = json_array();

    for (int i = 0; i < c->parts; i++)
        json_array_append_new(parts, json_string(c->part[i]));
    return packed(json_pack("{s:s, s:o, s:f, s:f, s:f}", "options", c->options, "changes", parts,
                            "bytes", c->bytes, "seconds", c->seconds, "price_seconds",
                            c->seconds - p->time.total));
}

/* Null where it fits and nobody asked. */
static json_t *changes_json(const struct tr_plan *p)
{
    json_t *all = json_array();

    for (int i = 0; i < p->changes; i++)
        json_array_append_new(all, change_json(p, &p->change[i]));
    if (p->change_bytes > 0.0)
        return packed(json_pack("{s:f, s:o}", "gpu_bytes", p->change_bytes, "changes", all));
    json_decref(all);
    return json_null();
}

static json_t *budget_json(const struct tr_plan_budget *b)
{
    return packed(json_pack(
        "{s:f, s:i, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:I}", "checkpoint_bytes",
        b->save_bytes, "checkpoint_files", b->save_files, "checkpoint_seconds", b->save_seconds,
        "iterations", (json_int_t)b->iterations, "tokens", b->tokens, "hours", b->hours,
        "gpu_hours", b->gpu_hours, "ramp_hours", b->ramp_hours, "job_minutes", b->job_minutes,
        "jobs", (json_int_t)b->jobs, "mtbf_hours", b->mtbf_hours, "save_interval_seconds",
        b->interval_seconds, "save_interval", (json_int_t)b->interval));
}

/* Of a size that has too little memory, what it needs, and otherwise what it moves. */
static json_t *chunk_size_json(const struct tr_plan *p, const struct tr_plan_chunk_size *x)
{
    const struct tr_chunking *c = &p->shape.layout.chunks;
    json_t *o = packed(json_pack(
        "{s:I, s:b, s:f, s:i, s:f, s:i}", "elements", (json_int_t)x->elements, "chosen", x->chosen,
        "used", x->used, "chunks", x->chunks, "weights_bytes", x->bytes, "slots", x->slots));

    if (x->least > 0) {
        json_object_set_new(o, "needs_bytes", json_integer(x->least));
        return o;
    }
    json_object_set_new(o, "fetches", json_integer(x->moves.fetches));
    json_object_set_new(o, "writes", json_integer(x->moves.writes));
    json_object_set_new(o, "fetched_bytes", json_real(x->moves.fetched * c->value_bytes));
    json_object_set_new(o, "written_bytes", json_real(x->moves.written * c->grad_bytes));
    return o;
}

/* Null without chunks. */
static json_t *chunks_json(const struct tr_plan *p)
{
    struct tr_plan_chunk_size x[TR_PACKING_SIZES];
    const int n = tr_plan_chunk_sizes(p, x);
    json_t *all = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(all, chunk_size_json(p, &x[i]));
    if (n > 0)
        return packed(json_pack("{s:i, s:I, s:o}", "stage", p->worst, "slot_bytes",
                                (json_int_t)p->shape.layout.chunks.memory, "sizes", all));
    json_decref(all);
    return json_null();
}

json_t *tr_plan_json(const struct tr_plan *p)
{
    json_t *all = json_object(), *stages = json_array();

    for (int i = 0; i < p->shape.layout.p; i++)
        json_array_append_new(stages, stage_json(p, &p->stage[i]));
    json_object_set_new(all, "shape", tr_plan_shape_json(p));
    json_object_set_new(all, "machine", machine_json(p));
    json_object_set_new(all, "stages", stages);
    json_object_set_new(all, "largest_stage", json_integer(p->worst));
    json_object_set_new(all, "verdict", json_string(tr_plan_verdict_text(p->ours)));
    json_object_set_new(all, "verdict_caching_allocator",
                        json_string(tr_plan_verdict_text(p->megatron)));
    json_object_set_new(all, "chunks", chunks_json(p));
    json_object_set_new(all, "seconds", time_json(p));
    json_object_set_new(all, "traffic", traffic_json(p));
    json_object_set_new(all, "would_fit", changes_json(p));
    json_object_set_new(all, "others", others_json(p));
    json_object_set_new(all, "fewest", p->least.world ? other_json(&p->least) : json_null());
    json_object_set_new(all, "run", budget_json(&p->budget));
    json_object_set_new(all, "options", tr_plan_options_json(p));
    return all;
}
