/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/replicas_save.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "ckpt/rank.h"
#include "dp/dp.h"
#include "util/log.h"

static const char kind[] = "replica";
/* What a file says of itself where weights and optimizer states are not in it, since all replicas have the same. */
static const char alone[] = ", errors alone";
enum { LAYERS_BYTES = 256, STATES_BYTES = 80 };

/* The layers of stages that are not all equal; of a list that is too long for a page, its checksum. */
static void put_layers(const struct tr_layout *l, char text[LAYERS_BYTES])
{
    char list[TR_LAYOUT_TEXT];

    text[0] = '\0';
    if (tr_layout_is_even(l))
        return;
    if (strlen(tr_layout_list(l, list)) > LAYERS_BYTES - 16)
        snprintf(list, sizeof list, "%016llx", (unsigned long long)XXH3_64bits(list, strlen(list)));
    snprintf(text, LAYERS_BYTES, ", layers %.*s", LAYERS_BYTES - 16, list);
}

/* In which form states are, where it is not fp32. */
static void put_states(const struct tr_config *c, char text[STATES_BYTES])
{
    const int64_t block = tr_state_block(c);

    text[0] = '\0';
    if (block > 0)
        snprintf(text, STATES_BYTES, ", --optimizer %s in blocks of %lld",
                 tr_config_spelling("optimizer", c->optimizer), (long long)block);
}

/* The layout, the mode and the form of states for which a file can be used. */
static void about(struct tr_run *r, char text[TR_CKPT_ABOUT_BYTES])
{
    const struct tr_shape *s = &r->shape;
    char layers[LAYERS_BYTES], states[STATES_BYTES];

    put_layers(&s->layout, layers);
    put_states(r->config, states);
    snprintf(text, TR_CKPT_ABOUT_BYTES,
             "tensor %d, pipeline %d, data %d, chunks %d%s%s, --dp-mode %s%s%s", s->layout.w,
             s->layout.p, s->layout.d, s->layout.k, s->layout.vee ? " in a V" : "", layers,
             tr_config_spelling("dp-mode", r->config->dp_mode), tr_dp_state(&r->dp).note,
             s->dp.diverges ? states : alone);
}

static void add_part(struct tr_ckpt_rank *f, const char *name, struct tr_tensor t)
{
    if (!t.data)
        return;
    f->part[f->parts].name = name;
    f->part[f->parts++].at = t;
}

static struct tr_ckpt_rank file_of(struct tr_run *r, const char *text)
{
    const struct tr_dp_state state = tr_dp_state(&r->dp);
    struct tr_ckpt_rank f = {.kind = kind,
                             .rank = tr_grid_number(&r->shape.layout, r->grid.at),
                             .iteration = r->iteration,
                             .about = text,
                             .q = &r->queue};

    if (r->shape.dp.diverges)
        add_part(&f, "weights", tr_optim_masters(&r->optim, 0));
    for (int i = 0; i < TR_STATES && r->shape.dp.diverges; i++)
        add_part(&f, tr_optim_state_part(i), r->optim.state[i]);
    for (int i = 0; i < state.parts; i++)
        add_part(&f, state.part[i].name, state.part[i].at);
    f.number[0] = state.number ? *state.number : 0;
    return f;
}

static enum tr_status write_file(void *ctx, const char *folder)
{
    char text[TR_CKPT_ABOUT_BYTES];
    struct tr_run *r = ctx;
    struct tr_ckpt_rank f;

    about(r, text);
    f = file_of(r, text);
    return tr_ckpt_rank_write(&f, folder);
}

const struct tr_ckpt_sidecar *tr_replicas_sidecar(struct tr_run *r, struct tr_ckpt_sidecar *out,
                                                  const struct tr_ckpt_sidecar *next)
{
    struct tr_ckpt_rank f;
    int64_t bytes = 0;

    if (!tr_dp_keeps_state(&r->dp) || r->config->no_save_optim)
        return next;
    f = file_of(r, "");
    for (int i = 0; i < f.parts; i++)
        bytes += tr_tensor_bytes(&f.part[i].at);
    *out = (struct tr_ckpt_sidecar){.write = write_file,
                                    .ctx = r,
                                    .bytes = bytes * r->world->size,
                                    .files = (int)r->world->size,
                                    .next = next};
    return out;
}

int64_t tr_replicas_sidecar_bytes(const struct tr_config *c, const struct tr_data_parallel *dp,
                                  int d, int64_t elems)
{
    const double whole = (double)tr_dtype_bytes(TR_F32) + tr_optim_state_bytes(tr_state_block(c));
    const double each = dp->diverges ? whole : 0.0;
    const double all = (double)elems * (each * d + (double)tr_dp_state_bytes(c, dp, d));

    return c->no_save_optim ? 0 : (int64_t)all;
}

/* The sidecar files of a checkpoint. */
enum sidecars { SIDECARS_SAME, SIDECARS_OTHER, SIDECARS_NONE };

static enum tr_status look(struct tr_run *r, const char *folder, enum sidecars *found)
{
    char there[TR_CKPT_ABOUT_BYTES], mine[TR_CKPT_ABOUT_BYTES];

    about(r, mine);
    TR_TRY(tr_ckpt_rank_look(folder, 0, kind, there));
    *found = !there[0] ? SIDECARS_NONE : strcmp(there, mine) == 0 ? SIDECARS_SAME : SIDECARS_OTHER;
    return TR_OK;
}

/* A file that cannot be used may have been read in part: what an older checkpoint does not fill has to
   be as it was. */
static void clear(struct tr_run *r, const struct tr_ckpt_rank *f)
{
    struct tr_queue *q = &r->queue;

    for (int i = 0; i < f->parts; i++) {
        const struct tr_tensor *t = &f->part[i].at;
        const struct tr_tensor floats =
            t->dtype == TR_U8 ? tr_f32_1(t->data, tr_tensor_bytes(t) / 4) : *t;

        q->on->fill(q, &floats, 0.0F);
    }
}

static enum tr_status read_file(struct tr_run *r, const char *folder)
{
    char text[TR_CKPT_ABOUT_BYTES];
    struct tr_ckpt_rank f;
    enum tr_status s;

    about(r, text);
    f = file_of(r, text);
    s = tr_comm_agree(r->world, tr_ckpt_rank_read(&f, folder));
    if (s != TR_OK) {
        clear(r, &f);
        return s;
    }
    tr_dp_resume(&r->dp, f.number[0]);
    tr_optim_publish(&r->optim, &r->queue);
    return TR_OK;
}

/* Where ranks keep nothing of their own, what those of the checkpoint had is dropped. */
static void tell_left_behind(const char *folder)
{
    char there[TR_CKPT_ABOUT_BYTES];

    if (tr_ckpt_rank_look(folder, 0, kind, there) != TR_OK || !there[0])
        return;
    if (strstr(there, alone))
        tr_notice_rank0("> this run does not compress what replicas send, and drops the errors of "
                        "that in the checkpoint\n");
    else
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
    struct tr_comm *world = r->world;
    enum sidecars found = SIDECARS_NONE;

    if (!r->shape.dp.warms_up && folder && world->rank == 0)
        tell_left_behind(folder);
    if (!r->shape.dp.warms_up)
        return TR_OK;
    if (folder)
        TR_TRY(tr_comm_agree(world, world->rank == 0 ? look(r, folder, &found) : TR_OK));
    found = (enum sidecars)tr_comm_max(world, world->rank == 0 ? (int64_t)found : 0);
    if (found == SIDECARS_SAME) {
        if (r->shape.dp.diverges)
            TR_TRY(check_warm_up(r));
        return read_file(r, folder);
    }
    tr_notice_rank0("> %s: %s\n",
                    r->shape.dp.diverges ? "all replicas begin with the weights of the checkpoint"
                                         : "errors of compression begin at zero",
                    !folder ? "their own states are not wanted"
                    : found == SIDECARS_NONE
                        ? "it has no sidecar files of replicas"
                        : "its sidecar files of replicas are of another layout or mode");
    return TR_OK;
}
