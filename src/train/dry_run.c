/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/dry_run.h"

#include <inttypes.h>

#include "train/logging.h"
#include "train/memory.h"
#include "util/text.h"

static const double MIB = 1048576.0;

/* How many ranks to plan for. */
int tr_plan_world(const struct tr_config *c, int ranks, FILE *f)
{
    int64_t model = c->tensor_model_parallel_size * c->pipeline_model_parallel_size;

    if (c->world_size != TR_UNSET_INT)
        return (int)c->world_size;
    if (ranks > 1 || model > INT32_MAX)
        return ranks;
    fprintf(f,
            "planning for %" PRId64 " rank%s, the fewest that hold the model "
            "(--tensor-model-parallel-size %" PRId64
            " times --pipeline-model-parallel-size %" PRId64 "); --world-size N plans for N\n",
            model, tr_plural(model), c->tensor_model_parallel_size,
            c->pipeline_model_parallel_size);
    return (int)model;
}

/* "layers 0-2 12-14": those of each chunk, "-" where it has none. */
static void print_layers(const struct tr_layout *l, int stage, FILE *f)
{
    fputs("  layers", f);
    for (int chunk = 0; chunk < l->k; chunk++) {
        int64_t first = tr_layout_first_layer(l, stage, chunk);
        int64_t count = tr_layout_layers(l, stage, chunk);

        if (count == 0)
            fputs(" -", f);
        else if (count == 1)
            fprintf(f, " %" PRId64, first);
        else
            fprintf(f, " %" PRId64 "-%" PRId64, first, first + count - 1);
    }
    fputc('\n', f);
}

/* "  weights    12.34 MiB" */
static void print_row(const char *name, double bytes, FILE *f)
{
    fprintf(f, "  %-24s %12.2f MiB\n", name, bytes / MIB);
}

/* "  optimizer, host    12.34 MiB" */
static void print_host(const struct tr_memory *x, FILE *f)
{
    char name[64];

    for (int i = 0; i < TR_LABELS; i++) {
        snprintf(name, sizeof name, "%s, host", tr_memory_part_name(i));
        if (x->host_part[i] > 0.0)
            print_row(name, x->host_part[i], f);
    }
    if (x->host_total > 0.0)
        print_row("total, host", x->host_total, f);
    if (x->optimizer_files > 0.0)
        print_row("optimizer, files", x->optimizer_files, f);
}

static void print_memory(const struct tr_memory *x, FILE *f)
{
    for (int i = 0; i < TR_MEMORY_PARTS; i++) {
        if (x->unknown[i])
            fprintf(f, "  %-24s %12s\n", tr_memory_part_name(i), "unknown");
        else if (x->part[i] > 0.0)
            print_row(tr_memory_part_name(i), x->part[i], f);
    }
    print_row("total", x->total, f);
    print_host(x, f);
    if (x->host > 0.0)
        print_row("cache, host memory", x->host, f);
    if (x->files > 0.0)
        print_row("cache, files", x->files, f);
}

static enum tr_status print_stage(const struct tr_config *c, const struct tr_forward_only *only,
                                  const struct tr_shape *s, int stage, struct tr_memory *most,
                                  FILE *f)
{
    struct tr_memory memory;
    struct tr_run r;
    char text[TR_REPORT_BYTES];
    int rank = tr_grid_rank(&s->layout, (struct tr_place){.pp = stage});

    TR_TRY(tr_run_dry(&r, c, only, s, rank));
    tr_lines_parameters(text, sizeof text, 0, stage, tr_params_number(&r.model.params));
    fprintf(f, "%s\nmemory plan of rank %d:\n", text, rank);
    print_layers(&r.shape.layout, stage, f);
    tr_memory_of(&r, NULL, &memory);
    print_memory(&memory, f);
    if (memory.total > most->total)
        *most = memory;
    tr_run_close(&r);
    return TR_OK;
}

enum tr_status tr_plan_print(const struct tr_config *c, const struct tr_forward_only *only,
                             int ranks, FILE *f)
{
    int world = tr_plan_world(c, ranks, f);
    struct tr_shape s;
    struct tr_memory most = {.total = 0.0};

    TR_TRY(tr_shape_of(c, world, &s));
    tr_logging_sizes(c, &s, f);
    for (int stage = 0; stage < s.layout.p; stage++)
        TR_TRY(print_stage(c, only, &s, stage, &most, f));
    fprintf(f, "largest of all ranks: %.2f MiB\n", most.total / MIB);
    if (tr_memory_lacks(&most))
        fprintf(f, "%s\n", tr_memory_lacks(&most));
    return TR_OK;
}
