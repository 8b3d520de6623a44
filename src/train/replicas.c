/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/replicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/rank.h"
#include "dp/cocktail.h"
#include "util/log.h"
#include "telemetry/timer.h"

_Static_assert((int)TR_RANDOM_ROLLING == (int)TR_MASK_ROLLING &&
                   (int)TR_RANDOM_REPLACED == (int)TR_MASK_REPLACED &&
                   (int)TR_RANDOM_PERMUTED == (int)TR_MASK_PERMUTED,
               "the option names the methods");

struct tr_replicas {
    struct tr_run *run;
    struct tr_cocktail *cocktail; /* NULL with --dp-mode local */
    bool parted;                  /* a step was made apart, or loaded */
    bool under_way;               /* a round is */
    struct tr_ckpt_sidecar beside;
};

/* ---- what is compressed together ---- */

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

/* What tensor ranks hold alike, and all the rest up to the second region. */
static void split_region(const struct tr_run *r, struct list *rest, struct list *alike)
{
    const struct tr_params *ps = &r->model.params;
    const struct tr_param **order = calloc((size_t)ps->count, sizeof *order);
    int64_t at = 0;

    if (!order)
        tr_die(TR_ERESOURCE, "no memory left for the list of what replicas exchange");
    for (int i = 0; i < ps->count; i++)
        order[i] = &ps->list[i];
    qsort(order, (size_t)ps->count, sizeof *order, by_place);
    for (int i = 0; i < ps->count && r->shape.layout.w > 1; i++) {
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
    const struct tr_run *r = x->run;
    const struct tr_params *ps = &r->model.params;
    struct list list[TR_COCKTAIL_SPANS] = {{0}};
    struct tr_cocktail_span span[TR_COCKTAIL_SPANS];
    enum tr_status s;
    int n = 0;

    for (int i = 0; i < TR_COCKTAIL_SPANS; i++) {
        list[i].piece = calloc((size_t)ps->count + 1, sizeof *list[i].piece);
        if (!list[i].piece)
            tr_die(TR_ERESOURCE, "no memory left for the list of what replicas exchange");
    }
    split_region(r, &list[0], &list[1]);
    add(&list[2], ps->region, ps->size);
    for (int i = 0; i < TR_COCKTAIL_SPANS; i++)
        if (list[i].count > 0)
            span[n++] = (struct tr_cocktail_span){i, list[i].count, list[i].piece};
    s = tr_cocktail_open(how, span, n, ps->size, r->grid.at.dp, r->shape.layout.d, &x->cocktail);
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

enum tr_status tr_replicas_open(struct tr_run *r)
{
    const struct tr_cocktail_how how = how_of(r->config);
    struct tr_replicas *x;

    if (!r->shape.dp.diverges)
        return TR_OK;
    x = calloc(1, sizeof *x);
    if (!x)
        return TR_FAIL(TR_ERESOURCE, "no memory left for what replicas exchange");
    x->run = r;
    r->replicas = x;
    return r->config->dp_mode == TR_DP_COCKTAIL ? open_spans(x, &how) : TR_OK;
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
            tr_log_rank0(TR_LOG_WARNING, "%s is set and not read: say %s %s", names[i][0],
                         names[i][1], value);
        else if (value && strcmp(value, "0") != 0)
            tr_log_rank0(TR_LOG_WARNING, "%s is set and not read: numbers are rounded to nearest",
                         names[i][0]);
    }
}

/* Where whole buckets are more than a ratio leaves of a chunk, all of it takes part. */
static void warn_of_more(const struct tr_replicas *x)
{
    const double bits =
        8.0 * (double)tr_cocktail_bytes(x->cocktail) / (double)tr_cocktail_numbers(x->cocktail);

    if (bits > 1.5 * x->run->shape.dp.delta_bits)
        tr_log_rank0(TR_LOG_WARNING,
                     "replicas exchange %.4g bits for a parameter where --randomp-ratio and "
                     "--topk-ratio ask for %.4g, since a part of so few parameters may be "
                     "less than a bucket, and then all take part: give larger ratios, or a "
                     "smaller --quant-bucket-size",
                     bits, x->run->shape.dp.delta_bits);
}

static void tell(struct tr_replicas *x)
{
    const struct tr_config *c = x->run->config;
    struct tr_traffic *t = &x->run->traffic;
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

static struct tr_tensor weights(struct tr_run *r)
{
    return tr_optim_masters(&r->optim, 0);
}

enum tr_status tr_replicas_start(struct tr_run *r)
{
    struct tr_replicas *x = r->replicas;
    enum tr_status s = TR_OK;
    struct tr_tensor values;

    if (!x && tr_dp_mode_diverges(r->config->dp_mode))
        tr_notice_rank0("> there is one replica, so --dp-mode %s has no effect\n",
                        tr_config_spelling("dp-mode", r->config->dp_mode));
    if (!x)
        return TR_OK;
    values = weights(r);
    if (x->cocktail) {
        warn_of_environment();
        s = tr_cocktail_connect(x->cocktail, &r->rounds, &r->queue, &values);
    }
    TR_TRY(tr_comm_agree(r->world, s));
    tell(x);
    return TR_OK;
}

/* ---- a step ---- */

bool tr_replicas_apart(const struct tr_replicas *x)
{
    return x && x->run->iteration >= x->run->config->train_warmup_steps;
}

void tr_replicas_begin(struct tr_replicas *x)
{
    if (!tr_replicas_apart(x))
        return;
    x->parted = true;
    if (!x->cocktail)
        return;
    x->under_way = true;
    tr_cocktail_begin(x->cocktail, &x->run->queue);
}

bool tr_replicas_poll(struct tr_replicas *x)
{
    return x && x->under_way && tr_cocktail_poll(x->cocktail);
}

static void count(struct tr_replicas *x)
{
    struct tr_traffic *t = &x->run->traffic;
    const struct tr_cocktail_spent spent = tr_cocktail_spent(x->cocktail);
    struct tr_traffic_time *time = &t->count.time[TR_TRAFFIC_REPLICAS_GROUP];
    const int64_t others = x->run->shape.layout.d - 1;
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
    struct tr_run *r;
    bool good;

    if (!x || !x->under_way)
        return;
    r = x->run;
    good = tr_cocktail_join(x->cocktail, &r->queue);
    if (r->grid.mp.size > 1)
        good = tr_comm_max(&r->grid.mp, !good) == 0;
    tr_cocktail_commit(x->cocktail, &r->queue, good);
    x->under_way = false;
    count(x);
    if (!good)
        tr_log_rank0(
            TR_LOG_WARNING,
            "replicas exchanged nothing in iteration %lld, since a weight of one of them is "
            "not finite or too far from the others'",
            (long long)r->iteration + 1);
}

double tr_replicas_settle(struct tr_replicas *x, struct tr_optim_result *found)
{
    struct tr_comm *world;
    double worst = found->skipped ? (double)INFINITY : found->norm;
    struct tr_tensor t = tr_f64_1(&worst, 1);

    if (!tr_replicas_apart(x))
        return found->norm;
    world = x->run->world;
    tr_timer_start(TR_TIMER_OPTIMIZER);
    world->via->allreduce(world, NULL, &t, TR_MAX);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    found->skipped = !isfinite(worst);
    return worst;
}

/* ---- do they still have the same? ---- */

/* What a rank brings to a comparison. */
struct print {
    uint64_t print;
    int64_t rank;
};

static enum tr_status compare(struct tr_replicas *x)
{
    struct tr_run *r = x->run;
    struct tr_comm *dp = &r->grid.dp;
    struct print mine = {tr_cocktail_print(x->cocktail, &r->queue), r->world->rank}, *all;
    char(*host)[TR_HOST_BYTES] = r->launch.host;
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
                (long long)r->iteration, i, (long long)all[i].rank, host[all[i].rank],
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
    return tr_comm_agree(x->run->world, compare(x));
}

enum tr_status tr_replicas_compare_due(struct tr_replicas *x)
{
    const int64_t every = x ? x->run->config->check_replicas_interval : 0;

    return every > 0 && x->run->iteration % every == 0 ? tr_replicas_compare(x) : TR_OK;
}

struct tr_cocktail *tr_replicas_cocktail(struct tr_replicas *x)
{
    return x ? x->cocktail : NULL;
}

/* ---- checkpoints ---- */

bool tr_replicas_parted(const struct tr_replicas *x)
{
    return x && x->parted;
}

static const char kind[] = "replica";

/* The layout and the mode: what a file is of use to. */
static void about(const struct tr_replicas *x, char text[TR_CKPT_ABOUT_BYTES])
{
    const struct tr_shape *s = &x->run->shape;
    const bool reference = x->cocktail && tr_cocktail_state(x->cocktail).g.data;

    snprintf(text, TR_CKPT_ABOUT_BYTES,
             "tensor %d, pipeline %d, data %d, chunks %d, --dp-mode %s%s", s->layout.w, s->layout.p,
             s->layout.d, s->layout.k, tr_config_spelling("dp-mode", x->run->config->dp_mode),
             x->cocktail && !reference ? " without loss" : "");
}

static void add_part(struct tr_ckpt_rank *f, const char *name, struct tr_tensor t)
{
    if (!t.data)
        return;
    f->part[f->parts].name = name;
    f->part[f->parts++].at = t;
}

static struct tr_ckpt_rank file_of(struct tr_replicas *x, const char *text)
{
    struct tr_run *r = x->run;
    struct tr_ckpt_rank f = {.kind = kind,
                             .rank = r->world->rank,
                             .iteration = r->iteration,
                             .about = text,
                             .q = &r->queue};

    add_part(&f, "weights", weights(r));
    add_part(&f, "m", r->optim.m);
    add_part(&f, "v", r->optim.v);
    if (x->cocktail) {
        struct tr_cocktail_state s = tr_cocktail_state(x->cocktail);

        f.number[0] = *s.round;
        add_part(&f, "reference", s.g);
        add_part(&f, "error", s.e);
    }
    return f;
}

static enum tr_status write_file(void *ctx, const char *folder)
{
    char text[TR_CKPT_ABOUT_BYTES];
    struct tr_replicas *x = ctx;
    struct tr_ckpt_rank f;

    about(x, text);
    f = file_of(x, text);
    return tr_ckpt_rank_write(&f, folder);
}

const struct tr_ckpt_sidecar *tr_replicas_sidecar(struct tr_replicas *x,
                                                  const struct tr_ckpt_sidecar *next)
{
    struct tr_ckpt_rank f;
    int64_t bytes = 0;

    if (!tr_replicas_parted(x) || x->run->config->no_save_optim)
        return next;
    f = file_of(x, "");
    for (int i = 0; i < f.parts; i++)
        bytes += tr_tensor_bytes(&f.part[i].at);
    x->beside = (struct tr_ckpt_sidecar){.write = write_file,
                                         .ctx = x,
                                         .bytes = bytes * x->run->world->size,
                                         .files = (int)x->run->world->size,
                                         .next = next};
    return &x->beside;
}

int64_t tr_replicas_sidecar_bytes(const struct tr_config *c, const struct tr_data_parallel *dp,
                                  int d, int64_t elems)
{
    const bool exact =
        c->quant_bits == TR_SPARSE_FLOATS && c->topk_ratio >= 1.0 && c->randomp_ratio >= 1.0;
    const int64_t references = c->dp_mode == TR_DP_COCKTAIL && !exact ? 2 * d + 2 : 0;

    return dp->diverges && !c->no_save_optim ? elems * (12 * d + references) : 0;
}

/* What lies beside a checkpoint. */
enum beside { BESIDE_SAME, BESIDE_OTHER, BESIDE_NONE };

static enum tr_status look(struct tr_replicas *x, const char *folder, enum beside *found)
{
    char there[TR_CKPT_ABOUT_BYTES], mine[TR_CKPT_ABOUT_BYTES];

    about(x, mine);
    TR_TRY(tr_ckpt_rank_look(folder, 0, kind, there));
    *found = !there[0] ? BESIDE_NONE : strcmp(there, mine) == 0 ? BESIDE_SAME : BESIDE_OTHER;
    return TR_OK;
}

/* A file that cannot be used may have been read in part: what an older checkpoint does not fill has to
   be as it was. */
static void forget(struct tr_replicas *x, const struct tr_ckpt_rank *f)
{
    struct tr_queue *q = &x->run->queue;

    for (int i = 0; i < f->parts; i++)
        q->on->fill(q, &f->part[i].at, 0.0F);
}

static enum tr_status read_file(struct tr_replicas *x, const char *folder)
{
    char text[TR_CKPT_ABOUT_BYTES];
    struct tr_ckpt_rank f;
    enum tr_status s;

    about(x, text);
    f = file_of(x, text);
    s = tr_comm_agree(x->run->world, tr_ckpt_rank_read(&f, folder));
    if (s != TR_OK) {
        forget(x, &f);
        return s;
    }
    if (x->cocktail)
        *tr_cocktail_state(x->cocktail).round = f.number[0];
    x->parted = true;
    tr_optim_publish(&x->run->optim, &x->run->queue);
    return TR_OK;
}

/* Where all replicas have the same, what single ones had is left behind. */
static void tell_left_behind(const char *folder)
{
    char there[TR_CKPT_ABOUT_BYTES];

    if (tr_ckpt_rank_look(folder, 0, kind, there) == TR_OK && there[0])
        tr_notice_rank0("> the replicas of the checkpoint have diverged, and this run goes on "
                        "with the weights of the first\n");
}

/* A run that goes on with the same options never asks for this. */
static enum tr_status check_warm_up(const struct tr_run *r)
{
    const int64_t steps = r->config->train_warmup_steps;

    return r->iteration >= steps
               ? TR_OK
               : TR_FAIL(TR_ECONFIG,
                         "--train-warmup-steps %lld: the replicas of the checkpoint of iteration "
                         "%lld have diverged already, and gradients of different weights cannot "
                         "be averaged: give %lld or less",
                         (long long)steps, (long long)r->iteration, (long long)r->iteration);
}

enum tr_status tr_replicas_load(struct tr_run *r, const char *folder)
{
    struct tr_replicas *x = r->replicas;
    struct tr_comm *world = r->world;
    enum beside found = BESIDE_NONE;

    if (!x && folder && world->rank == 0)
        tell_left_behind(folder);
    if (!x)
        return TR_OK;
    if (folder)
        TR_TRY(tr_comm_agree(world, world->rank == 0 ? look(x, folder, &found) : TR_OK));
    found = (enum beside)tr_comm_max(world, world->rank == 0 ? (int64_t)found : 0);
    if (found == BESIDE_SAME) {
        TR_TRY(check_warm_up(r));
        return read_file(x, folder);
    }
    tr_notice_rank0("> all replicas begin with the weights of the checkpoint: %s\n",
                    !folder ? "their own states are not wanted"
                    : found == BESIDE_NONE
                        ? "it has no sidecar files of replicas"
                        : "its sidecar files of replicas are of another layout or mode");
    return TR_OK;
}
