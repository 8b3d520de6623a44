/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/links_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "util/log.h"
#include "util/file.h"

/* ---- both ends ---- */

static void find_fingerprints(struct tr_links *l)
{
    struct tr_comm *pp = &l->of.grid->pp;
    const int chunks = l->of.shape->layout.k;

    for (int chunk = 0; chunk < chunks; chunk++)
        for (int k = 0; k < TR_LEGS; k++) {
            struct tr_codec_end *e = l->end[chunk][k].codec;

            l->mine[chunk * TR_LEGS + k] = e ? e->on->fingerprint(e, l->of.queue) : 0;
        }
    pp->via->gather_all(pp, l->mine, chunks * TR_LEGS * (int64_t)sizeof *l->mine, l->all);
}

static uint64_t fingerprint_of(const struct tr_links *l, struct tr_vstage at, enum tr_leg_bit leg)
{
    return l->all[(at.rank * l->of.shape->layout.k + at.chunk) * TR_LEGS + tr_links_number(leg)];
}

static int rank_of(const struct tr_links_of *of, int stage)
{
    const struct tr_place at = {.tp = of->grid->at.tp, .dp = of->grid->at.dp, .pp = stage};

    return tr_grid_rank(&of->shape->layout, at);
}

static enum tr_status differ(const struct tr_links *l, int64_t iteration, int from, int to,
                             const char *what)
{
    const struct tr_links_of *of = &l->of;
    const int sender = rank_of(of, from), receiver = rank_of(of, to);

    return TR_FAIL(
        TR_EDATA,
        "after iteration %lld the link from stage %d to stage %d (rank %d on %s, rank %d on %s) is "
        "wrong; its ends differ in what they sent or cached of %s, so activations arrive with "
        "other values: go on from the last checkpoint, and look at the memory and the network of "
        "these hosts if it happens again",
        (long long)iteration, from, to, sender, of->launch->host[sender], receiver,
        of->launch->host[receiver], what);
}

static enum tr_status compare_links(const struct tr_links *l, int64_t iteration)
{
    const struct tr_route route = tr_layout_route(&l->of.shape->layout);

    for (int i = 0; i < route.chunks * route.ranks - 1; i++) {
        const struct tr_vstage from = tr_route_at(route, i), to = tr_route_at(route, i + 1);

        if (fingerprint_of(l, from, TR_SEND_FWD) != fingerprint_of(l, to, TR_RECV_FWD))
            return differ(l, iteration, from.rank, to.rank, "activations");
        if (fingerprint_of(l, to, TR_SEND_BWD) != fingerprint_of(l, from, TR_RECV_BWD))
            return differ(l, iteration, to.rank, from.rank, "gradients");
    }
    return TR_OK;
}

enum tr_status tr_links_compare(struct tr_links *l, int64_t iteration)
{
    if (!l)
        return TR_OK;
    find_fingerprints(l);
    return tr_comm_agree(l->of.world, compare_links(l, iteration));
}

enum tr_status tr_links_compare_due(struct tr_links *l, int64_t iteration)
{
    const int64_t every = l ? l->of.config->check_links_interval : 0;

    return every > 0 && iteration % every == 0 ? tr_links_compare(l, iteration) : TR_OK;
}

/* ---- checkpoints ---- */

/* Whose memory it is, wherever it is read again: what the numbers of samples, what they are and the
   block of a message depend on.  The codec adds its own parameters. */
static void title_of(const struct tr_links *l, int chunk, int k, char *text, size_t size)
{
    const struct tr_place *at = &l->of.grid->at;
    const struct tr_shape *s = l->of.shape;
    const bool input = 1U << k & (TR_RECV_FWD | TR_SEND_BWD);
    const int64_t layer = tr_layout_first_layer(&s->layout, at->pp, chunk) +
                          (input ? 0 : tr_layout_layers(&s->layout, at->pp, chunk));

    snprintf(text, size,
             "%s before layer %lld of %lld, replica %d of %d, samples %lld of %lld%s, text %016llx",
             1U << k & TR_LINK_FORWARD ? "activations" : "gradients", (long long)layer,
             (long long)s->dims.layers, at->dp, s->layout.d, (long long)s->epochs.blocks,
             (long long)s->dims.seq, s->activations.sequence ? ", rows of a tensor rank" : "",
             (unsigned long long)l->text);
}

/* Both ends of a link remember the same, and so do tensor ranks that have the same message: one of
   them saves, and all load that.  The file has the number of the sender in its name (tr_grid_number()). */
static bool saves(const struct tr_links *l, int k)
{
    return 1U << k & TR_LINK_SENDS && (l->of.shape->activations.sequence || l->of.grid->at.tp == 0);
}

static char *path_of(const struct tr_links *l, const char *prefix, int chunk, int k)
{
    const struct tr_shape *s = l->of.shape;
    const struct tr_route route = tr_layout_route(&s->layout);
    struct tr_place at = l->of.grid->at;
    const int number = tr_route_number(route, (struct tr_vstage){at.pp, chunk});
    const struct tr_vstage from = tr_route_at(route, number - !(1U << k & TR_LINK_SENDS));

    at.pp = from.rank;
    at.tp = s->activations.sequence ? at.tp : 0;
    return tr_format("%s%05d-link-%d", prefix, tr_grid_number(&s->layout, at), from.chunk);
}

static enum tr_status each_memory(struct tr_links *l, const char *prefix, bool save)
{
    for (int chunk = 0; chunk < l->of.shape->layout.k; chunk++)
        for (int k = 0; k < TR_LEGS; k++) {
            struct tr_codec_end *e = l->end[chunk][k].codec;
            char title[201], *path;
            enum tr_status s;

            if (!e || !e->on->remembers || (save && !saves(l, k)))
                continue;
            title_of(l, chunk, k, title, sizeof title);
            path = path_of(l, prefix, chunk, k);
            s = save ? e->on->save(e, l->of.queue, path, title)
                     : e->on->load(e, l->of.queue, path, title);
            free(path);
            TR_TRY(s);
        }
    return TR_OK;
}

enum tr_status tr_links_save(struct tr_links *l, const char *prefix)
{
    return each_memory(l, prefix, true);
}

/* A memory that could not be loaded holds anything: make the end anew, in the same place.  Its
   fingerprint may be the one that was loaded, where the file of another link here failed. */
static enum tr_status begin_anew(struct tr_links *l, int chunk, int k)
{
    struct tr_link_end *e = &l->end[chunk][k];
    const struct tr_codec_how how = tr_links_how(&l->of, k);
    static const int64_t zero;
    struct tr_queue *q = l->of.queue;
    const struct tr_codec *on;
    struct tr_arena a;

    if (!e->codec || !e->codec->on->remembers)
        return TR_OK;
    on = e->codec->on;
    tr_links_close_end(e);
    TR_TRY(on->open(&how, &e->codec));
    tr_arena_init(&a);
    on->plan(e->codec, &a);
    tr_arena_open(&a, e->memory);
    on->plan(e->codec, &a);
    q->on->upload(q, &e->codec->print, &zero);
    return on->start(e->codec);
}

int64_t tr_links_saved_bytes(const struct tr_config *c, const struct tr_shape *s, int *files)
{
    const struct tr_codec *codec =
        tr_codec_find(tr_config_spelling("forward-compress-method", c->forward_compress_method));
    const int parts = s->activations.sequence ? s->layout.w : 1,
              links = s->layout.p * s->layout.k - 1;
    const struct tr_codec_how how = {.tokens = s->dims.seq / parts,
                                     .width = s->dims.hidden,
                                     .keep_bits = (int)c->forward_bits_act};

    *files = s->links.compressed && codec->remembers ? links * s->layout.d * parts : 0;
    return *files > 0 ? links * s->epochs.blocks * parts * codec->sample_bytes(&how) : 0;
}

enum tr_status tr_links_load(struct tr_links *l, const char *prefix)
{
    enum tr_status s = TR_OK;

    if (!l || !l->remembers)
        return TR_OK;
    s = tr_comm_agree(l->of.world, each_memory(l, prefix, false));
    if (s == TR_OK)
        return TR_OK;
    tr_notice_rank0(
        "> activation caches start empty, each sample is sent uncompressed when it comes again: "
        "%s\n",
        tr_last_error());
    s = TR_OK;
    for (int chunk = 0; chunk < l->of.shape->layout.k && s == TR_OK; chunk++)
        for (int k = 0; k < TR_LEGS && s == TR_OK; k++)
            s = begin_anew(l, chunk, k);
    return tr_comm_agree(l->of.world, s);
}

void tr_links_bytes(const struct tr_links *l, int64_t *host, int64_t *files)
{
    *host = *files = 0;
    for (int chunk = 0; l && chunk < l->of.shape->layout.k; chunk++)
        for (int k = 0; k < TR_LEGS; k++) {
            const struct tr_codec_end *e = l->end[chunk][k].codec;

            if (!e || !e->on->remembers)
                continue;
            *host += e->on->host_bytes(&e->how);
            if (e->how.folder)
                *files += e->on->sample_bytes(&e->how) * e->how.capacity;
        }
}
