/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/load.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/architecture.h"
#include "ckpt/map.h"
#include "util/file.h"
#include "util/log.h"
#include "util/meter.h"
#include "weights/move.h"
#include "weights/source.h"

/* One load on one rank. */
struct load {
    struct tr_weights_source source;
    struct tr_ckpt_map map;
    const struct tr_ckpt_piece *piece; /* under way, */
    int64_t at;                        /*   and its first element that is still to come */
    bool shows;                        /* how far it is: rank 0 */
    struct tr_meter meter;
};

bool tr_weights_lead(struct tr_comm *world, const char *folder)
{
    return tr_comm_max(world, world->rank == 0 && !tr_ckpt_any(folder) && tr_weights_is(folder)) !=
           0;
}

enum tr_status tr_weights_options(struct tr_comm *world, const char *folder, const char *config,
                                  int64_t vocab, int64_t labels, char **json, int64_t *true_vocab)
{
    const struct tr_weights_ask ask = {.from = folder,
                                       .config = config,
                                       .seq_length = TR_WEIGHTS_SEQ_LENGTH,
                                       .vocab_size = vocab,
                                       .labels = labels};
    struct tr_weights_source source;
    enum tr_status s = TR_OK;

    *json = NULL;
    *true_vocab = 0;
    if (world->rank == 0) {
        s = tr_weights_source_open(&ask, &source);
        if (s == TR_OK) {
            *json = tr_config_get_json(&source.config, NULL);
            *true_vocab = source.dims.vocab;
        }
        tr_weights_source_release(&source);
    }
    TR_TRY(tr_comm_agree(world, s));
    tr_ckpt_tell(world, true_vocab, sizeof *true_vocab);
    tr_ckpt_tell_text(world, json);
    return TR_OK;
}

enum tr_status tr_weights_model_options(struct tr_comm *world, const char *config, char **json,
                                        int64_t *true_vocab)
{
    enum tr_status s = TR_OK;

    *json = NULL;
    *true_vocab = 0;
    if (world->rank == 0) {
        struct tr_config c;
        struct tr_dims dims;

        tr_config_init(&c);
        s = tr_weights_describe(config, &c, &dims);
        if (s == TR_OK) {
            *json = tr_config_get_json(&c, NULL);
            *true_vocab = dims.vocab;
        }
        tr_config_release(&c);
    }
    TR_TRY(tr_comm_agree(world, s));
    tr_ckpt_tell(world, true_vocab, sizeof *true_vocab);
    tr_ckpt_tell_text(world, json);
    return TR_OK;
}

/* Elements lo .. hi - 1 of the piece from x, numbers `first` and on of the whole parameter. */
static void take(const struct load *v, int64_t lo, int64_t hi, int64_t first, const float *x)
{
    const struct tr_param *p = v->piece->param;
    float *room = tr_ckpt_room(&v->map, TR_CKPT_MODEL, v->piece, lo);
    struct tr_ckpt_run r;

    for (int64_t at = lo; at < hi; at += r.elems) {
        r = tr_ckpt_run_at(p, at, hi);
        memcpy(room + at - lo, x + r.whole - first, (size_t)r.elems * sizeof *x);
    }
    tr_ckpt_put(&v->map, TR_CKPT_MODEL, v->piece, lo, hi);
}

/* Numbers first .. first + n - 1 of the parameter: those of them that the piece has follow one another in it. */
static enum tr_status put(void *ctx, const struct tr_weights_item *m, int64_t first, float *x,
                          int64_t n)
{
    struct load *v = ctx;
    int64_t end = v->at;

    (void)m;
    while (end < v->piece->hi) {
        const struct tr_ckpt_run r = tr_ckpt_run_at(v->piece->param, end, v->piece->hi);
        const int64_t room = first + n - r.whole;

        /* No row before the first was read in vain. */
        TR_ASSERT(r.whole >= first &&
                  (end > v->piece->lo || r.whole - first < v->piece->param->full[1]));
        if (room <= 0)
            break;
        end += r.elems < room ? r.elems : room;
    }
    if (v->shows)
        tr_meter_add(&v->meter, (end - v->at) * (int64_t)sizeof *x);
    for (int64_t hi; v->at < end; v->at = hi) {
        hi = tr_ckpt_upto(&v->map, v->at, end);
        take(v, v->at, hi, first, x);
    }
    return TR_OK;
}

/* The rows of the whole parameter from the first to the last that the piece has a part of. */
static enum tr_status read_piece(struct load *v, const struct tr_ckpt_piece *piece)
{
    const struct tr_weights_item *item = &v->source.map.list[piece->tensor];
    const int64_t cols = piece->param->full[1];
    struct tr_weights_end to = {.block = put, .ctx = v};
    int64_t lo, hi;

    TR_ASSERT(item->number == piece->tensor);
    if (item->tensor[0] < 0)
        return TR_OK;
    if (piece->lo < piece->hi) {
        lo = tr_ckpt_run_at(piece->param, piece->lo, piece->hi).whole / cols;
        hi = tr_ckpt_run_at(piece->param, piece->hi - 1, piece->hi).whole / cols + 1;
        v->piece = piece;
        v->at = piece->lo;
        TR_TRY(tr_weights_read(&v->source.table, item, lo, hi, &to));
        TR_ASSERT(v->at == piece->hi);
    }
    tr_ckpt_pad(&v->map, TR_CKPT_MODEL, piece);
    return TR_OK;
}

static enum tr_status read_all(struct load *v)
{
    for (int i = 0; i < v->map.count; i++)
        TR_TRY(read_piece(v, &v->map.list[i]));
    return TR_OK;
}

/* The files say the same model as the options of the run. */
static enum tr_status open_source(const char *folder, const char *config,
                                  const struct tr_dims *dims, struct tr_weights_source *out)
{
    const struct tr_weights_ask ask = {.labels = dims->classes,
                                       .from = folder,
                                       .config = config,
                                       .seq_length = dims->seq,
                                       .vocab_size = dims->vocab};
    struct tr_ckpt_about about = {.files = 0};

    TR_TRY(tr_weights_source_open(&ask, out));
    tr_ckpt_model_about(&out->dims, &about);
    return tr_ckpt_model_compare(folder, &about, dims, true);
}

static enum tr_status load(struct load *v, struct tr_grid *grid, const struct tr_dims *dims,
                           const struct tr_ckpt_tensors *tensors)
{
    int64_t elems = 0;
    enum tr_status s;

    tr_ckpt_map_build(dims, tensors, grid->at.tp, &v->map);
    for (int i = 0; i < v->map.count; i++)
        elems += v->map.list[i].hi - v->map.list[i].lo;
    v->shows = grid->world->rank == 0;
    if (v->shows)
        tr_meter_start(&v->meter, grid->world->size > 1 ? "rank 0 loaded" : "loaded",
                       elems * (int64_t)sizeof(float), TR_METER_INTERVAL);
    s = read_all(v);
    if (v->shows)
        (void)tr_meter_end(&v->meter);
    tr_ckpt_map_release(&v->map);
    return s;
}

enum tr_status tr_weights_load(struct tr_grid *grid, const char *folder, const char *config,
                               const struct tr_dims *dims, const struct tr_ckpt_tensors *tensors,
                               char **source)
{
    struct load v = {.shows = false};
    enum tr_status s;

    TR_ASSERT((tensors->value.data || tensors->access) && !tr_ckpt_has_states(tensors));
    *source = NULL;
    tr_print_rank0(" loading weights from %s\n", folder);
    s = tr_comm_agree(grid->world, open_source(folder, config, dims, &v.source));
    if (s == TR_OK)
        s = tr_comm_agree(grid->world, load(&v, grid, dims, tensors));
    if (s == TR_OK) {
        *source = v.source.text;
        v.source.text = NULL;
        tr_print_rank0("  successfully loaded weights from %s\n", *source);
        for (int i = 0; i < v.source.map.count; i++)
            if (v.source.map.list[i].tensor[0] < 0)
                tr_notice_rank0("> %s is not there and begins with weights from --seed\n",
                                v.source.map.list[i].arranged.param->name);
    }
    tr_weights_source_release(&v.source);
    return s;
}
