/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/grid.h"

struct tr_place tr_grid_place(const struct tr_layout *l, int rank)
{
    return (struct tr_place){
        .tp = rank % l->w,
        .dp = rank / tr_layout_data_stride(l) % l->d,
        .pp = rank / tr_layout_pipeline_stride(l) % l->p,
    };
}

int tr_grid_rank(const struct tr_layout *l, struct tr_place at)
{
    return at.tp + tr_layout_data_stride(l) * at.dp + tr_layout_pipeline_stride(l) * at.pp;
}

int tr_grid_number(const struct tr_layout *l, struct tr_place at)
{
    return at.tp + l->w * (at.dp + l->d * at.pp);
}

int tr_grid_log_rank(const struct tr_layout *l)
{
    return tr_grid_rank(
        l, (struct tr_place){.tp = l->w - 1, .dp = l->d - 1, .pp = tr_layout_head_stage(l)});
}

static enum tr_status open_groups(struct tr_grid *g)
{
    enum tr_status (*split)(struct tr_comm *, int, int, const char *, struct tr_comm *) =
        g->world->via->split;
    const int tp = g->at.tp, dp = g->at.dp, pp = g->at.pp;
    const bool end = g->has_embedding || g->has_head;

    /* The color of a group is made of the coordinates that its ranks share. */
    TR_TRY(split(g->world, dp + g->d * pp, tp, "tp", &g->tp));
    TR_TRY(split(g->world, tp + g->w * pp, dp, "dp", &g->dp));
    TR_TRY(split(g->world, tp + g->w * dp, pp, "pp", &g->pp));
    TR_TRY(split(g->world, dp, tp + g->w * pp, "mp", &g->mp));
    return split(g->world, end ? tp + g->w * dp : -1, pp, "embed", &g->embed);
}

enum tr_status tr_grid_open(struct tr_comm *world, const struct tr_layout *l, struct tr_grid *out)
{
    const int w = l->w, p = l->p, d = l->d;
    enum tr_status status;

    *out = (struct tr_grid){.w = w, .p = p, .d = d, .world = world};
    if (w < 1 || p < 1 || d < 1 || (int64_t)w * p * d != world->size)
        return TR_FAIL(TR_ECONFIG,
                       "%d tensor-parallel x %d pipeline x %d data-parallel ranks are not the %d "
                       "ranks of this job; start it with W * P * D ranks",
                       w, p, d, world->size);
    out->at = tr_grid_place(l, world->rank);
    out->has_embedding = tr_layout_has_embedding(l, out->at.pp);
    out->has_head = tr_layout_has_head(l, out->at.pp);
    status = open_groups(out);
    if (status != TR_OK)
        tr_grid_close(out);
    return status;
}

void tr_grid_close(struct tr_grid *g)
{
    struct tr_comm *groups[] = {&g->embed, &g->mp, &g->pp, &g->dp, &g->tp};

    for (int i = 0; i < 5; i++)
        if (groups[i]->via)
            groups[i]->via->release(groups[i]);
}

static struct tr_comm dry(const char *name, int rank, int size)
{
    return (struct tr_comm){.name = name, .rank = rank, .size = size};
}

void tr_grid_dry(const struct tr_layout *l, int rank, struct tr_grid *out)
{
    const int w = l->w, p = l->p, d = l->d;
    struct tr_place at = tr_grid_place(l, rank);
    const bool first = tr_layout_has_embedding(l, at.pp), last = tr_layout_has_head(l, at.pp);
    const bool apart = tr_layout_ends_apart(l);

    *out = (struct tr_grid){.w = w, .p = p, .d = d, .at = at};
    out->has_embedding = first;
    out->has_head = last;
    out->tp = dry("tp", at.tp, w);
    out->dp = dry("dp", at.dp, d);
    out->pp = dry("pp", at.pp, p);
    out->mp = dry("mp", at.tp + w * at.pp, w * p);
    out->embed = dry("embed", first ? 0 : 1, !first && !last ? 0 : apart ? 2 : 1);
}
