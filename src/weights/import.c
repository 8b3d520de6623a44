/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/stream.h"
#include "util/meter.h"
#include "weights/move.h"
#include "weights/source.h"

/* One import. */
struct import {
    const struct tr_import *o;
    struct tr_comm *world;
    struct tr_weights_source source;
    struct tr_ckpt_stream *out;
    struct tr_weights_end to;
    struct tr_weights_room room;
    struct tr_meter meter;
};

static enum tr_status put(void *ctx, const struct tr_weights_item *m, int64_t first, float *x,
                          int64_t n)
{
    struct import *v = ctx;

    TR_TRY(tr_ckpt_stream_put_aside(v->out, m->number, first, x, n));
    if (v->world->rank == 0)
        tr_meter_add(&v->meter, n * (int64_t)sizeof *x);
    return tr_weights_go_on(v->o->stopped);
}

static enum tr_status read_model(struct import *v)
{
    TR_TRY(tr_weights_source_open(&v->o->ask, &v->source));
    if (v->o->ask.vocab_size > 0 && !v->source.padded)
        return TR_FAIL(TR_ECONFIG, "--vocab-size is for checkpoints of Megatron-LM, where it is "
                                   "padded: config.json says it here");
    for (int i = 0; i < v->source.map.count; i++)
        if (v->source.map.list[i].tensor[0] < 0)
            return TR_FAIL(
                TR_EDATA,
                "%s has no weights for %s, and an import makes up none: start with "
                "trireme train --load %s --finetune and a --task-name, which begins with "
                "weights from --seed there",
                v->o->ask.from, v->source.map.list[i].arranged.param->name, v->o->ask.from);
    return TR_OK;
}

static enum tr_status move_mine(struct import *v)
{
    const struct tr_weights_source *from = &v->source;

    for (int i = 0; i < from->map.count; i++)
        if (tr_weights_owner(&from->map, i, v->world->size) == v->world->rank)
            TR_TRY(tr_weights_read(&from->table, &from->map.list[i], 0, from->whole.list[i].full[0],
                                   &v->to));
    return TR_OK;
}

static enum tr_status move_all(struct import *v)
{
    const struct tr_weights_source *from = &v->source;
    char *json = tr_config_get_json(&from->config, NULL);
    enum tr_status s =
        tr_ckpt_stream_open(v->world, v->o->save, &from->dims, json, from->text, &v->out);

    free(json);
    TR_TRY(s);
    if (v->world->rank == 0)
        tr_weights_meter(&v->meter, "imported", &from->map, v->world->size, v->o->interval);
    tr_weights_room_make(&v->room, &from->map);
    s = tr_ckpt_stream_close(v->out, move_mine(v));
    tr_weights_room_release(&v->room);
    v->to.peak = tr_comm_max(v->world, v->to.peak);
    return s;
}

static void say(struct import *v)
{
    const double seconds = tr_meter_end(&v->meter);
    const struct tr_weights_source *from = &v->source;
    const int64_t number = tr_params_number(&from->whole);
    char count[TR_HUMAN], bytes[TR_HUMAN], rate[TR_HUMAN];

    printf("imported %s\n", from->text);
    printf("  family %s: %" PRId64 " layers, hidden size %" PRId64 ", %" PRId64 " heads in %" PRId64
           " groups, vocabulary %" PRId64 ", %s parameters\n",
           from->config.model_family, from->dims.layers, from->dims.hidden, from->dims.heads,
           from->dims.groups, from->dims.vocab, tr_human((double)number, count));
    printf("  %s in fp32 in %s/iter_0000000", tr_human_bytes(4.0 * (double)number, bytes),
           v->o->save);
    if (seconds > 0.0)
        printf(", %s/s", tr_human_bytes(4.0 * (double)number / seconds, rate));
    printf(", at most %s of it in memory%s\n", tr_human_bytes((double)v->to.peak, rate),
           tr_weights_of_each(v->world->size));
    if (from->table.by_parts && from->dims.family.tied)
        printf("  embeddings are tied, so an output layer of its own was left out: "
               "--untie-embeddings-and-output-weights keeps it\n");
    printf("  train with --load %s --finetune --use-checkpoint-args\n", v->o->save);
}

enum tr_status tr_weights_import(const struct tr_import *o, struct tr_comm *world)
{
    struct import v = {.o = o, .world = world};
    enum tr_status s;

    v.to = (struct tr_weights_end){.block = put, .ctx = &v, .room = &v.room};
    s = tr_comm_agree(world, read_model(&v));
    if (s == TR_OK)
        s = move_all(&v);
    if (s == TR_OK && world->rank == 0)
        say(&v);
    tr_weights_source_release(&v.source);
    return s;
}
