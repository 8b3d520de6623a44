/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/zero.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/param.h"
#include "plan/plan.h"
#include "util/text.h"

static const double BUFFERS = 1.5;

static double most(double a, double b)
{
    return a > b ? a : b;
}

static void second(double params, int per_node, int nodes, struct tr_zero_row *r)
{
    const double gpus = (double)per_node * nodes;

    r->gpu = (int64_t)(2.0 * params);
    if (r->offload_optimizer) {
        r->host = (int64_t)(params * most(4.0 * gpus, 16.0) * BUFFERS);
        return;
    }
    r->gpu += (int64_t)(18.0 * params / gpus);
    r->host = (int64_t)(params * 4.0 * per_node * BUFFERS);
}

/* Bytes of a parameter on a host: its shard, or at the start each process has all of them. */
static double of_host(const struct tr_zero_row *r, int bytes, int per_node, double share)
{
    return r->zero_init ? bytes * share : most(4.0 * per_node, bytes * share);
}

static void third(double params, double largest, int per_node, int nodes, struct tr_zero_row *r)
{
    const double gpus = (double)per_node * nodes, share = 1.0 / nodes;
    const double of_all = r->zero_init ? largest : params;

    r->gpu = (int64_t)(4.0 * largest);
    if (!r->offload_optimizer) {
        r->gpu += (int64_t)(18.0 * params / gpus);
        r->host = (int64_t)(of_all * 4.0 * per_node * BUFFERS);
    } else if (r->offload_param) {
        r->host = (int64_t)(params * of_host(r, 18, per_node, share) * BUFFERS);
    } else {
        r->gpu += (int64_t)(2.0 * params / gpus);
        r->host = (int64_t)(params * of_host(r, 16, per_node, share) * BUFFERS);
    }
}

void tr_zero_estimate(int64_t params, int64_t largest, int gpus_per_node, int nodes,
                      struct tr_zero_row out[TR_ZERO_ROWS])
{
    static const struct tr_zero_row rows[TR_ZERO_ROWS] = {
        {2, true, false, false, 0, 0}, {2, false, false, false, 0, 0},
        {3, true, true, true, 0, 0},   {3, true, true, false, 0, 0},
        {3, true, false, true, 0, 0},  {3, true, false, false, 0, 0},
        {3, false, false, true, 0, 0}, {3, false, false, false, 0, 0}};

    for (int i = 0; i < TR_ZERO_ROWS; i++) {
        out[i] = rows[i];
        if (rows[i].stage == 2)
            second((double)params, gpus_per_node, nodes, &out[i]);
        else
            third((double)params, (double)largest, gpus_per_node, nodes, &out[i]);
    }
}

struct tr_zero_whole tr_zero_whole(const int64_t *tensor, int n, int ranks)
{
    int64_t *has = calloc((size_t)ranks, sizeof *has);
    struct tr_zero_whole w = {0, INT64_MAX};

    if (!has)
        tr_die(TR_ERESOURCE, "no memory left for the shards of %d ranks", ranks);
    for (int i = 0; i < n; i++) {
        int to = 0;

        for (int r = 1; r < ranks; r++)
            to = has[r] < has[to] ? r : to;
        has[to] += tensor[i];
    }
    for (int r = 0; r < ranks; r++) {
        w.most = has[r] > w.most ? has[r] : w.most;
        w.fewest = has[r] < w.fewest ? has[r] : w.fewest;
    }
    free(has);
    return w;
}

/* ---- of a plan ---- */

/* Parameters are listed as backward completes them; models of others name them the other way round. */
struct tr_zero_whole tr_plan_whole_tensors(const struct tr_plan *p)
{
    struct tr_zero_whole w;
    struct tr_params all;
    int64_t *tensor;
    int n = 0;

    tr_params_list_whole(&p->shape.dims, &all);
    tensor = calloc(2 * (size_t)all.count, sizeof *tensor);
    if (!tensor)
        tr_die(TR_ERESOURCE, "no memory left for the list of tensors");
    for (int i = all.count - 1; i >= 0; i--) {
        const struct tr_param *x = &all.list[i];
        const int halves =
            x->row == TR_PARAM_FC1_WEIGHT && tr_act_gated(p->shape.dims.family.act) ? 2 : 1;

        for (int k = 0; k < halves; k++)
            tensor[n++] = x->full[0] * x->full[1] / halves;
    }
    w = tr_zero_whole(tensor, n, p->shape.layout.world);
    free(tensor);
    tr_params_release(&all);
    return w;
}

/* The length of a parameter's name without what it is of its module. */
static size_t module_of(const struct tr_param *p)
{
    return (size_t)(strrchr(p->name, '.') - p->name);
}

int64_t tr_plan_largest_module(const struct tr_plan *p)
{
    struct tr_dims dims = p->shape.dims;
    struct tr_params all;
    int64_t largest = 0, here = 0;

    dims.layers = 1; /* they are all alike */
    tr_params_list_whole(&dims, &all);
    for (int i = 0; i < all.count; i++) {
        const struct tr_param *x = &all.list[i], *before = i > 0 ? x - 1 : x;
        const size_t n = module_of(x);
        const bool halves = x->row == TR_PARAM_FC1_WEIGHT && tr_act_gated(dims.family.act);

        if (n != module_of(before) || strncmp(x->name, before->name, n) != 0)
            here = 0;
        here += x->full[0] * x->full[1] / (halves ? 2 : 1);
        largest = here > largest ? here : largest;
    }
    tr_params_release(&all);
    return largest;
}

/* GPUs of a node, which has them all without a machine. */
static int per_node(const struct tr_plan *p)
{
    const int world = p->shape.layout.world;

    return p->has_machine && p->machine.gpus_per_node < world ? p->machine.gpus_per_node : world;
}

static void estimate(const struct tr_plan *p, struct tr_zero_row row[TR_ZERO_ROWS])
{
    tr_zero_estimate((int64_t)p->params, tr_plan_largest_module(p), per_node(p),
                     p->has_machine ? p->nodes : 1, row);
}

void tr_plan_zero_text(const struct tr_plan *p, FILE *f)
{
    struct tr_zero_row row[TR_ZERO_ROWS];
    const struct tr_zero_whole whole = tr_plan_whole_tensors(p);
    const enum tr_processor on = tr_plan_processor(p);
    char host[TR_TEXT_BYTES], gpu[TR_TEXT_BYTES], name[TR_TEXT_BYTES];

    snprintf(name, sizeof name, "of a %s", tr_processor_noun(on, 1));
    estimate(p, row);
    fprintf(f,
            "\nZeRO as DeepSpeed 0.19.8 estimates it: weights, gradients and optimizer states, "
            "without activations; %d node%s of %d %s\n",
            p->has_machine ? p->nodes : 1, tr_plural(p->has_machine ? p->nodes : 1), per_node(p),
            tr_processor_noun(on, per_node(p)));
    fprintf(f, "  %5s  %-17s  %-13s  %-9s  %12s  %12s\n", "stage", "offload_optimizer",
            "offload_param", "zero_init", name, "of a host");
    for (int i = 0; i < TR_ZERO_ROWS; i++)
        fprintf(f, "  %5d  %-17s  %-13s  %-9s  %12s  %12s\n", row[i].stage,
                row[i].offload_optimizer ? "cpu" : "none",
                row[i].stage < 3       ? ""
                : row[i].offload_param ? "cpu"
                                       : "none",
                row[i].stage < 3   ? ""
                : row[i].zero_init ? "1"
                                   : "0",
                tr_text_bytes((double)row[i].gpu, gpu), tr_text_bytes((double)row[i].host, host));
    fprintf(
        f,
        "sharded DDP of whole tensors, as fairscale cuts them: %" PRId64 " to %" PRId64
        " parameters on a rank, up to %.2f times an even share; --zero-stage 1 and 2 cut evenly\n",
        whole.fewest, whole.most, (double)whole.most * p->shape.layout.world / p->params);
}

json_t *tr_plan_zero_json(const struct tr_plan *p)
{
    struct tr_zero_row row[TR_ZERO_ROWS];
    json_t *all = json_array();

    estimate(p, row);
    for (int i = 0; i < TR_ZERO_ROWS; i++) {
        json_t *one = json_object();

        json_object_set_new(one, "stage", json_integer(row[i].stage));
        json_object_set_new(one, "offload_optimizer", json_boolean(row[i].offload_optimizer));
        json_object_set_new(one, "offload_param", json_boolean(row[i].offload_param));
        json_object_set_new(one, "zero_init", json_boolean(row[i].zero_init));
        json_object_set_new(one, "gpu_bytes", json_integer(row[i].gpu));
        json_object_set_new(one, "host_bytes", json_integer(row[i].host));
        json_array_append_new(all, one);
    }
    return all;
}

json_t *tr_plan_whole_json(const struct tr_plan *p)
{
    const struct tr_zero_whole whole = tr_plan_whole_tensors(p);
    json_t *one = json_object();

    json_object_set_new(one, "most_parameters", json_integer(whole.most));
    json_object_set_new(one, "fewest_parameters", json_integer(whole.fewest));
    return one;
}
