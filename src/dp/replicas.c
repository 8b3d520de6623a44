/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/replicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dp/cocktail.h"
#include "util/log.h"
#include "telemetry/timer.h"

_Static_assert((int)TR_RANDOM_ROLLING == (int)TR_MASK_ROLLING &&
                   (int)TR_RANDOM_REPLACED == (int)TR_MASK_REPLACED &&
                   (int)TR_RANDOM_PERMUTED == (int)TR_MASK_PERMUTED,
               "the option names the methods");

struct tr_replicas {
    struct tr_replicas_of of;
    struct tr_cocktail *cocktail; /* NULL with --dp-mode local */
    bool parted;                  /* replicas have diverged, or such weights were loaded */
    bool under_way;               /* a round is */
};

/* ---- spans that are compressed together ---- */

/* Pieces of one span. */
struct list {
    int count;
    struct tr_bucket *piece;
};

static void add(struct list *l, int64_t first, int64_t end)
{
    struct tr_bucket *last = l->count > 0 ? &l->piece[l->count - 1] : NULL;

    if (first >= end)
        return;
    if (last && last->first + last->count == first)
        last->count += end - first;
    else
        l->piece[l->count++] = (struct tr_bucket){first, end - first};
}

static int by_place(const void *a, const void *b)
{
    const struct tr_param *const *p = a, *const *q = b;

    return (*p)->offset < (*q)->offset ? -1 : (*p)->offset > (*q)->offset;
}

/* Parameters that are replicated over tensor ranks, and all others up to the second region. */
static void split_region(const struct tr_replicas_of *of, struct list *rest, struct list *alike)
{
    const struct tr_params *ps = of->params;
    const struct tr_param **order = calloc((size_t)ps->count, sizeof *order);
    int64_t at = 0;

    if (!order)
        tr_die(TR_ERESOURCE, "no memory left for the list of what replicas exchange");
    for (int i = 0; i < ps->count; i++)
        order[i] = &ps->list[i];
    qsort(order, (size_t)ps->count, sizeof *order, by_place);
    for (int i = 0; i < ps->count && of->shape->layout.w > 1; i++) {
        if (order[i]->split >= 0 || order[i]->offset >= ps->region)
            continue;
        add(rest, at, order[i]->offset);
        at = order[i]->offset + order[i]->elems;
        add(alike, order[i]->offset, at);
    }
    add(rest, at, ps->region);
    free(order);
}

static enum tr_status open_spans(struct tr_replicas *x, const struct tr_cocktail_how *how)
{
    const struct tr_replicas_of *of = &x->of;
    const struct tr_params *ps = of->params;
    struct list list[TR_COCKTAIL_SPANS] = {{0}};
    struct tr_cocktail_span span[TR_COCKTAIL_SPANS];
    enum tr_status s;
    int n = 0;

    for (int i = 0; i < TR_COCKTAIL_SPANS; i++) {
        list[i].piece = calloc((size_t)ps->count + 1, sizeof *list[i].piece);
        if (!list[i].piece)
            tr_die(TR_ERESOURCE, "no memory left for the list of what replicas exchange");
    }
    split_region(of, &list[0], &list[1]);
    add(&list[2], ps->region, ps->size);
    for (int i = 0; i < TR_COCKTAIL_SPANS; i++)
        if (list[i].count > 0)
            span[n++] = (struct tr_cocktail_span){i, list[i].count, list[i].piece};
    s = tr_cocktail_open(how, span, n, ps->size, of->grid->at.dp, of->shape->layout.d,
                         &x->cocktail);
    for (int i = 0; i < TR_COCKTAIL_SPANS; i++)
        free(list[i].piece);
    return s;
}

/* ---- beginning and end ---- */

static struct tr_cocktail_how how_of(const struct tr_config *c)
{
    return (struct tr_cocktail_how){
        .mask = {.method = (enum tr_mask_method)c->random_method,
                 .ratio = c->randomp_ratio,
                 .seed = (uint64_t)c->seed},
        .pack = {.bits = (int)c->quant_bits, .bucket = c->quant_bucket_size, .keep = c->topk_ratio},
        .overlap = c->overlap_round,
    };
}

enum tr_status tr_replicas_open(const struct tr_replicas_of *of, struct tr_replicas **out)
{
    const struct tr_cocktail_how how = how_of(of->config);
    struct tr_replicas *x;

    *out = NULL;
    if (!of->shape->dp.diverges)
        return TR_OK;
    x = calloc(1, sizeof *x);
    if (!x)
        return TR_FAIL(TR_ERESOURCE, "no memory left for what replicas exchange");
    x->of = *of;
    *out = x;
    return of->config->dp_mode == TR_DP_COCKTAIL ? open_spans(x, &how) : TR_OK;
}

void tr_replicas_close(struct tr_replicas *x)
{
    if (!x)
        return;
    tr_cocktail_close(x->cocktail);
    free(x);
}

void tr_replicas_plan(struct tr_replicas *x, struct tr_arena *a)
{
    if (x && x->cocktail)
        tr_cocktail_plan(x->cocktail, a);
}

/* The settings that CocktailSGD reads from its environment. */
static void warn_of_environment(void)
{
    static const char *const names[][2] = {
        {"QUANT_BITS", "--quant-bits"},       {"QUANT_BUCKET_SIZE", "--quant-bucket-size"},
        {"TOPK_RATIO", "--topk-ratio"},       {"RANDOMP_RATIO", "--randomp-ratio"},
        {"RANDOM_METHOD", "--random-method"}, {"QUANT_STOCHASTIC", NULL},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i][0]);

        if (value && names[i][1])
            tr_log_rank0(TR_LOG_WARNING, "%s is set and not read: use %s %s", names[i][0],
                         names[i][1], value);
        else if (value && strcmp(value, "0") != 0)
            tr_log_rank0(TR_LOG_WARNING, "%s is set and not read: numbers are rounded to nearest",
                         names[i][0]);
    }
}

/* Where a chunk's ratio leaves less than whole buckets, all of the chunk is sent. */
static void warn_of_more(const struct tr_replicas *x)
{
    const double bits =
        8.0 * (double)tr_cocktail_bytes(x->cocktail) / (double)tr_cocktail_numbers(x->cocktail);

    if (bits > 1.5 * x->of.shape->dp.delta_bits)
        tr_log_rank0(TR_LOG_WARNING,
                     "replicas exchange %.4g bits for a parameter where --randomp-ratio and "
                     "--topk-ratio ask for %.4g, since a part of so few parameters may be "
                     "less than a bucket, and then all take part: give larger ratios, or a "
                     "smaller --quant-bucket-size",
                     bits, x->of.shape->dp.delta_bits);
}

static void tell(struct tr_replicas *x)
{
    const struct tr_config *c = x->of.config;
    struct tr_traffic *t = x->of.traffic;
    char *name = t->codec[TR_TRAFFIC_DP_UP], part[12], chosen[12];
    int64_t bytes;

    if (!x->cocktail) {
        tr_print_rank0("> replicas exchange nothing after iteration %lld\n",
                       (long long)c->train_warmup_steps);
        return;
    }
    tr_real_text(c->topk_ratio, part, sizeof part);
    tr_real_text(c->randomp_ratio, chosen, sizeof chosen);
    snprintf(name, sizeof t->codec[0], "cocktail, %d bits of %s of %s", (int)c->quant_bits, part,
             chosen);
    snprintf(t->codec[TR_TRAFFIC_DP_DOWN], sizeof t->codec[0], "%s", name);
    bytes = tr_cocktail_bytes(x->cocktail);
    tr_print_rank0("> replicas exchange %s after iteration %lld: %.4f bits for a parameter and a "
                   "direction, %lld bytes to each other one\n",
                   name, (long long)c->train_warmup_steps,
                   8.0 * (double)bytes / (double)tr_cocktail_numbers(x->cocktail),
                   (long long)bytes);
    t->on = true;
    warn_of_more(x);
}

enum tr_status tr_replicas_start(struct tr_replicas *x, const struct tr_tensor *weights)
{
    const struct tr_replicas_of *of = &x->of;
    enum tr_status s = TR_OK;

    if (x->cocktail) {
        warn_of_environment();
        s = tr_cocktail_connect(x->cocktail, &of->grid->dp, of->queue, weights);
    }
    TR_TRY(tr_comm_agree(of->world, s));
    tell(x);
    return TR_OK;
}

/* ---- a step ---- */

bool tr_replicas_apart(const struct tr_replicas *x)
{
    return x && *x->of.iteration >= x->of.config->train_warmup_steps;
}

void tr_replicas_begin(struct tr_replicas *x)
{
    if (!tr_replicas_apart(x))
        return;
    x->parted = true;
    if (!x->cocktail)
        return;
    x->under_way = true;
    tr_cocktail_begin(x->cocktail, x->of.queue);
}

bool tr_replicas_poll(struct tr_replicas *x)
{
    return x && x->under_way && tr_cocktail_poll(x->cocktail);
}

static void count(struct tr_replicas *x)
{
    struct tr_traffic *t = x->of.traffic;
    const struct tr_cocktail_spent spent = tr_cocktail_spent(x->cocktail);
    struct tr_traffic_time *time = &t->count.time[TR_TRAFFIC_REPLICAS_GROUP];
    const int64_t others = x->of.shape->layout.d - 1;
    const int64_t bytes = others * tr_cocktail_bytes(x->cocktail);
    const int64_t numbers = others * tr_cocktail_numbers(x->cocktail);

    tr_traffic_add(t, TR_TRAFFIC_DP_UP, bytes, numbers);
    tr_traffic_add(t, TR_TRAFFIC_DP_DOWN, bytes, numbers);
    time->compress += spent.compress;
    time->wire += spent.wire;
    time->decompress += spent.decompress;
    time->exposed += spent.exposed;
    time->hidden += spent.hidden;
}

/* What one rank of a replica drops, all drop: others may hold copies of its weights. */
void tr_replicas_join(struct tr_replicas *x)
{
    const struct tr_replicas_of *of;
    bool good;

    if (!x || !x->under_way)
        return;
    of = &x->of;
    good = tr_cocktail_join(x->cocktail, of->queue);
    if (of->grid->mp.size > 1)
        good = tr_comm_max(&of->grid->mp, !good) == 0;
    tr_cocktail_commit(x->cocktail, of->queue, good);
    x->under_way = false;
    count(x);
    if (!good)
        tr_log_rank0(
            TR_LOG_WARNING,
            "replicas exchanged nothing in iteration %lld, since a weight of one of them is "
            "not finite or too far from the others'",
            (long long)*of->iteration + 1);
}

double tr_replicas_settle(struct tr_replicas *x, double norm, bool *skipped)
{
    struct tr_comm *world;
    double worst = *skipped ? (double)INFINITY : norm;
    struct tr_tensor t = tr_f64_1(&worst, 1);

    if (!tr_replicas_apart(x))
        return norm;
    world = x->of.world;
    tr_timer_start(TR_TIMER_OPTIMIZER);
    world->via->allreduce(world, NULL, &t, TR_MAX);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    *skipped = !isfinite(worst);
    return worst;
}

/* ---- comparing fingerprints of replicas ---- */

/* The data of a rank in a comparison. */
struct print {
    uint64_t print;
    int64_t rank;
};

static enum tr_status compare(struct tr_replicas *x)
{
    const struct tr_replicas_of *of = &x->of;
    struct tr_comm *dp = &of->grid->dp;
    struct print mine = {tr_cocktail_print(x->cocktail, of->queue), of->world->rank}, *all;
    char(*host)[TR_HOST_BYTES] = of->launch->host;
    enum tr_status s = TR_OK;

    all = calloc((size_t)dp->size, sizeof *all);
    if (!all)
        tr_die(TR_ERESOURCE, "no memory left to compare replicas");
    dp->via->gather_all(dp, &mine, sizeof mine, all);
    for (int i = 1; i < dp->size && s == TR_OK; i++)
        if (all[i].print != all[0].print)
            s = TR_FAIL(
                TR_EDATA,
                "after iteration %lld replicas %d and 0 (rank %lld on %s and rank %lld on %s) "
                "differ in the reference weights that all must share, so the weight deltas that "
                "they exchange no longer mean the same: go on from the last checkpoint, and look "
                "at the memory and the network of these hosts if it happens again",
                (long long)*of->iteration, i, (long long)all[i].rank, host[all[i].rank],
                (long long)all[0].rank, host[all[0].rank]);
    free(all);
    return s;
}

enum tr_status tr_replicas_compare(struct tr_replicas *x)
{
    struct tr_cocktail_state s;

    if (!x || !x->cocktail)
        return TR_OK;
    s = tr_cocktail_state(x->cocktail);
    if (*s.round < 0 || !s.g.data)
        return TR_OK;
    return tr_comm_agree(x->of.world, compare(x));
}

enum tr_status tr_replicas_compare_due(struct tr_replicas *x)
{
    const int64_t every = x ? x->of.config->check_replicas_interval : 0;

    return every > 0 && *x->of.iteration % every == 0 ? tr_replicas_compare(x) : TR_OK;
}

struct tr_cocktail *tr_replicas_cocktail(struct tr_replicas *x)
{
    return x ? x->cocktail : NULL;
}

bool tr_replicas_parted(const struct tr_replicas *x)
{
    return x && x->parted;
}

void tr_replicas_resume(struct tr_replicas *x, int64_t round)
{
    x->parted = true;
    if (x->cocktail)
        *tr_cocktail_state(x->cocktail).round = round;
}
