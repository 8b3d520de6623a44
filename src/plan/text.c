/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>

#include "config/flops.h"
#include "config/strategy.h"
#include "plan/plan_parts.h"
#include "telemetry/lines.h"
#include "util/text.h"

static const double MIB = 1048576.0;

/* The columns: first stage, largest of those between, last. */
struct columns {
    int count;
    const struct tr_plan_stage *stage[3];
};

static struct columns columns_of(const struct tr_plan *p)
{
    const int last = p->shape.layout.p - 1;
    struct columns c = {.count = 1, .stage = {&p->stage[0]}};
    int middle = 1;

    for (int i = 2; i < last; i++)
        if (p->stage[i].memory.total > p->stage[middle].memory.total)
            middle = i;
    if (last > 1)
        c.stage[c.count++] = &p->stage[middle];
    if (last > 0)
        c.stage[c.count++] = &p->stage[last];
    return c;
}

static void print_head(const struct tr_plan *p, FILE *f)
{
    const struct tr_shape *s = &p->shape;
    const bool large = p->params >= 1e9;
    char text[TR_REPORT_BYTES];

    fprintf(f,
            "%.2f %c parameters on %d rank%s: TP %d, PP %d, DP %d; global batch %" PRId64
            " = %d micro-batch%s of %" PRId64 " for each replica\n",
            p->params / (large ? 1e9 : 1e6), large ? 'B' : 'M', s->layout.world,
            tr_plural(s->layout.world), s->layout.w, s->layout.p, s->layout.d,
            s->batches.global_batch, s->batches.micros, s->batches.micros == 1 ? "" : "es",
            s->batches.micro_batch);
    fprintf(f, "parameters: %.0f", p->params);
    if (p->padded > p->params)
        fprintf(f, "; %.0f with the vocabulary padded from %" PRId64 " to %" PRId64, p->padded,
                s->dims.vocab, s->dims.vocab_padded);
    fputc('\n', f);
    if (tr_lines_stages(text, sizeof text, &s->layout, s->dims.layers) > 0)
        fprintf(f, "%s\n", text);
    if (p->config.strategy) {
        char *strategy = tr_strategy_text(p->config.strategy);

        fprintf(f, "%s\n", strategy);
        free(strategy);
    }
    if (p->fewest)
        fprintf(f, "these are the ranks of one replica: --world-size N plans for N\n");
    if (p->has_machine)
        fprintf(f, "machine %s: %s (%s); %d node%s\n", p->machine.name, p->machine.title,
                p->machine.date, p->nodes, tr_plural(p->nodes));
}

enum { NAME = 32 };

/* "percent of the GPU", as people call what a rank computes on. */
static const char *name_of(enum tr_processor on, const char *what, char name[NAME])
{
    snprintf(name, NAME, "%s %s", what, tr_processor_noun(on, 1));
    return name;
}

/* A row of numbers that each stage has. */
#define ROW(name, format, value)                          \
    do {                                                  \
        fprintf(f, "  %-24s", name);                      \
        for (int i_ = 0; i_ < c->count; i_++) {           \
            const struct tr_plan_stage *g = c->stage[i_]; \
            fprintf(f, format, value);                    \
        }                                                 \
        fputc('\n', f);                                   \
    } while (0)

/* Those that a stage has, and those that nobody knows. */
static void print_parts(const struct columns *c, FILE *f)
{
    for (int part = 0; part < TR_MEMORY_PARTS; part++) {
        double all = 0.0;

        for (int i = 0; i < c->count; i++)
            all += c->stage[i]->memory.part[part];
        if (c->stage[0]->memory.unknown[part])
            ROW(tr_memory_part_name(part), "%14s", g->memory.unknown[part] ? "unknown" : "");
        else if (all > 0.0)
            ROW(tr_memory_part_name(part), "%14.1f", g->memory.part[part] / MIB);
    }
}

static void print_stages(const struct tr_plan *p, const struct columns *c, FILE *f)
{
    char name[NAME];

    fprintf(f, "\n%-26s", "memory of a rank, MiB");
    for (int i = 0; i < c->count; i++)
        fprintf(f, "%9s %4d", "stage", c->stage[i]->stage);
    fputc('\n', f);
    ROW("layers", "%14" PRId64, g->layers);
    ROW("parameters", "%14" PRId64, g->params);
    print_parts(c, f);
    ROW("total", "%14.1f", g->memory.total / MIB);
    if (p->has_machine)
        ROW(name_of(tr_plan_processor(p), "percent of the", name), "%14.1f",
            100.0 * g->memory.total / MIB / p->machine.memory);
}

/* What lies in the memory of the host instead. */
static void print_host(const struct columns *c, FILE *f)
{
    char name[64];
    double all = 0.0;

    for (int i = 0; i < c->count; i++)
        all += c->stage[i]->memory.host_total;
    for (int part = 0; part < TR_LABELS && all > 0.0; part++) {
        double some = 0.0;

        for (int i = 0; i < c->count; i++)
            some += c->stage[i]->memory.host_part[part];
        snprintf(name, sizeof name, "%s, host", tr_memory_part_name(part));
        if (some > 0.0)
            ROW(name, "%14.1f", g->memory.host_part[part] / MIB);
    }
    if (all > 0.0)
        ROW("total, host", "%14.1f", g->memory.host_total / MIB);
    if (c->stage[0]->memory.optimizer_files > 0.0)
        ROW("optimizer, files", "%14.1f", g->memory.optimizer_files / MIB);
}

/* Memory of the host next to that of the GPU, and bytes on disks. */
static void print_memories(const struct columns *c, FILE *f)
{
    double host = 0.0, files = 0.0;

    for (int i = 0; i < c->count; i++) {
        host += c->stage[i]->memory.host;
        files += c->stage[i]->memory.files;
    }
    print_host(c, f);
    if (host > 0.0)
        ROW("cache, host memory", "%14.1f", g->memory.host / MIB);
    if (files > 0.0)
        ROW("cache, files", "%14.1f", g->memory.files / MIB);
    if (c->count > 0 && c->stage[0]->text_cache > 0.0)
        ROW("key-value cache, a text", "%14.1f", g->text_cache / MIB);
    if (tr_memory_lacks(&c->stage[0]->memory))
        fprintf(f, "%s\n", tr_memory_lacks(&c->stage[0]->memory));
}

static void print_megatron(const struct tr_plan *p, const struct columns *c, FILE *f)
{
    const double card = p->machine.memory * MIB / 100.0;
    char name[NAME];

    fprintf(f, "the same under Megatron-LM, whose memory comes from PyTorch's caching allocator\n");
    ROW("allocated", "%14.1f", g->megatron.allocated / MIB);
    ROW("activations", "%14.1f", g->megatron.activations / MIB);
    ROW("peak, at least", "%14.1f", g->megatron.peak_low / MIB);
    ROW("peak, at most", "%14.1f", g->megatron.peak_high / MIB);
    ROW("reserved, at least", "%14.1f", g->megatron.reserved_low / MIB);
    ROW("reserved, at most", "%14.1f", g->megatron.reserved_high / MIB);
    if (p->has_machine)
        ROW(name_of(p->machine.processor, "percent of the", name), "%14.1f",
            (g->megatron.reserved_high + g->megatron.libraries) / card);
}

static void print_verdicts(const struct tr_plan *p, FILE *f)
{
    if (!p->has_machine)
        return;
    fprintf(f, "verdict on %.0f MiB: %s; with a caching allocator: %s\n", p->machine.memory,
            tr_plan_verdict_text(p->ours), tr_plan_verdict_text(p->megatron));
}

static void print_time(const struct tr_plan *p, FILE *f)
{
    const struct tr_plan_time *t = &p->time;
    char name[NAME];

    fprintf(f, "\ntime of an iteration, ms\n");
#define PART(field, name, what) fprintf(f, "  %-24s%14.1f  %s\n", name, 1e3 * t->field, what);
    TR_PLAN_TIMES_OF(PART)
#undef PART
    fprintf(f, "  %-24s%14.1f  ", "total", 1e3 * t->total);
    if (t->high > 0.0)
        fprintf(f, "P10 %.1f, P90 %.1f, by runs that were compared\n", 1e3 * t->low, 1e3 * t->high);
    else
        fprintf(f, "no run of this machine was compared\n");
    fprintf(f, "  %-24s%14.1f  %.1f %% of peak; %s\n",
            name_of(tr_plan_processor(p), "TFLOP/s per", name), t->tflops, 100.0 * t->of_peak,
            tr_flops_text(t->formula, &p->shape.dims,
                          p->shape.activations.recompute != TR_RECOMPUTE_NONE));
}

/* Kinds of which nothing is sent are left out. */
static void print_traffic(const struct tr_plan *p, FILE *f)
{
    static const char *const text[][2] = {
#define TRAFFIC(symbol, name, what) {name, what},
        TR_PLAN_TRAFFIC_OF(TRAFFIC)
#undef TRAFFIC
    };
    double bytes[2] = {0.0, 0.0};

    for (int i = 0; i < TR_PLAN_TRAFFICS; i++)
        bytes[p->traffic[i].between] += p->traffic[i].bytes;
    if (bytes[0] + bytes[1] <= 0.0)
        return;
    fprintf(f, "\n%-26s%14s%14s  %s\n", "traffic of an iteration", "ms on a link", "not hidden",
            "MiB that all ranks send");
    for (int i = 0; i < TR_PLAN_TRAFFICS; i++)
        if (p->traffic[i].bytes > 0.0)
            fprintf(f, "  %-24s%14.1f%14.1f  %.1f %s, %s\n", text[i][0], 1e3 * p->time.wire[i].link,
                    1e3 * p->time.wire[i].exposed, p->traffic[i].bytes / MIB,
                    p->traffic[i].between ? "between nodes" : "in nodes", text[i][1]);
    fprintf(f, "  %-24s%14s%14s  %.1f in nodes, %.1f between nodes\n", "total", "", "",
            bytes[0] / MIB, bytes[1] / MIB);
}

static void print_other(const struct tr_plan_other *o, FILE *f)
{
    fprintf(f,
            "  %6d %4d %4d %4d %6d %5" PRId64 " %9s %9s %8s %8s %12s %9.0f %10.1f  %s %.1f ms %s\n",
            o->world, o->w, o->p, o->d, o->k, o->micro_batch, o->recompute ? "full" : "none",
            o->sharded ? "sharded" : "whole", o->sequence ? "yes" : "no",
            o->tp_pp_dp ? "tp-pp-dp" : "tp-dp-pp", o->layers, o->bytes / MIB, 1e3 * o->seconds,
            o->saves < 0.0 ? "takes" : "saves", 1e3 * (o->saves < 0.0 ? -o->saves : o->saves),
            o->because ? o->because : "");
}

static void print_others(const struct tr_plan *p, FILE *f)
{
    const char *many = tr_processor_noun(tr_plan_processor(p), 2);

    if (p->others == 0) {
        fprintf(f, "\nno other shape of these %s fits, nor of half or twice as many\n", many);
    } else {
        fprintf(f, "\nother shapes that fit, the fastest first, and what they save or take most\n");
        fprintf(f, "  %6s %4s %4s %4s %6s %5s %9s %9s %8s %8s %12s %9s %10s\n", "ranks", "TP", "PP",
                "DP", "chunks", "batch", "recompute", "optimizer", "sequence", "order", "layers",
                "MiB", "ms");
    }
    for (int i = 0; i < p->others; i++)
        print_other(&p->other[i], f);
    if (p->least.world == 0)
        return;
    fprintf(f, "the fewest %s on which a shape was found that fits: %d\n", many, p->least.world);
    print_other(&p->least, f);
}

static void print_changes(const struct tr_plan *p, FILE *f)
{
    if (p->change_bytes <= 0.0)
        return;
    if (p->changes == 0) {
        fprintf(f, "\nno change of these options makes it fit %.0f MiB\n", p->change_bytes / MIB);
        return;
    }
    fprintf(f, "\nwhat would make it fit %.0f MiB, given besides, the fastest first\n",
            p->change_bytes / MIB);
    if (p->config.strategy || p->config.deepspeed_config)
        fprintf(f, "  (in place of what --%s says)\n",
                p->config.strategy ? "strategy" : "deepspeed-config");
    fprintf(f, "  %9s %10s %10s\n", "MiB", "ms", "price");
    for (int i = 0; i < p->changes; i++) {
        const struct tr_plan_change *c = &p->change[i];

        fprintf(f, "  %9.0f %10.1f %+10.1f  %s\n", c->bytes / MIB, 1e3 * c->seconds,
                1e3 * (c->seconds - p->time.total), c->options);
    }
}

static void print_saves(const struct tr_plan_budget *b, FILE *f)
{
    fprintf(f, "\ncheckpoint: %.3f GB in %d file%s", b->save_bytes / 1e9, b->save_files,
            tr_plural(b->save_files));
    if (b->save_seconds > 0.0)
        fprintf(f, ", %.1f s to write", b->save_seconds);
    if (b->interval > 0)
        fprintf(f,
                "; best saved every %" PRId64
                " iterations (%.0f min; Young and Daly, a failure every %.1f h)",
                b->interval, b->interval_seconds / 60.0, b->mtbf_hours);
    fputc('\n', f);
}

static void print_run(const struct tr_plan *p, FILE *f)
{
    const struct tr_plan_budget *b = &p->budget;

    if (p->endless) {
        fprintf(f, "run: --train-iters, --train-samples or --n-epochs would give its hours\n");
        return;
    }
    fprintf(f, "run: %" PRId64 " iterations, %.3f B tokens", b->iterations, b->tokens / 1e9);
    if (p->has_machine)
        fprintf(f, ", %.2f h, %.0f %s", b->hours, b->gpu_hours,
                tr_processor_hours(tr_plan_processor(p)));
    if (b->jobs > 0)
        fprintf(f, ", %" PRId64 " job%s of %.0f min", b->jobs, tr_plural(b->jobs), b->job_minutes);
    fputc('\n', f);
    if (b->ramp_hours > 0.0)
        fprintf(f, "  of these %.2f h while the batch grows\n", b->ramp_hours);
}

void tr_plan_text(const struct tr_plan *p, FILE *f)
{
    const struct columns c = columns_of(p);

    print_head(p, f);
    print_stages(p, &c, f);
    print_memories(&c, f);
    print_megatron(p, &c, f);
    print_verdicts(p, f);
    tr_plan_chunks(p, f);
    if (p->has_machine) {
        print_time(p, f);
        print_traffic(p, f);
        print_changes(p, f);
        print_others(p, f);
    }
    print_saves(&p->budget, f);
    print_run(p, f);
}
