/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/links_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/store.h"
#include "util/log.h"
#include "util/text.h"

_Static_assert((int)TR_LINK_CACHED == (int)TR_STORE_SAMPLES,
               "what tr_shape_of() lets pass has room in a store");

int tr_links_number(enum tr_leg_bit leg)
{
    int k = 0;

    while (!(leg >> k & 1))
        k++;
    return k;
}

static void *need(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the ends of compressed links");
    return p;
}

/* ---- set-up ---- */

/* Is there a message of that leg?  The first chunk has no input, the last no output. */
static bool exists(const struct tr_links_of *of, int chunk, int k)
{
    const bool input = 1U << k & (TR_RECV_FWD | TR_SEND_BWD);

    if (input)
        return !tr_layout_is_first(&of->shape->layout, of->grid->at.pp, chunk);
    return !tr_layout_is_last(&of->shape->layout, of->grid->at.pp, chunk);
}

const struct tr_codec *tr_links_codec(const struct tr_config *c, int k)
{
    const char *name =
        1U << k & TR_LINK_FORWARD
            ? tr_config_spelling("forward-compress-method", c->forward_compress_method)
            : tr_config_spelling("backward-compress-method", c->backward_compress_method);
    const struct tr_codec *codec = tr_codec_find(name);

    TR_ASSERT(codec);
    return codec;
}

bool tr_links_on(const struct tr_config *c, int k)
{
    return 1U << k & TR_LINK_FORWARD ? c->forward_compress_method != TR_FORWARD_NONE
                                     : c->backward_compress_method != TR_BACKWARD_NONE;
}

/* Samples of a step on this rank, at most. */
static int64_t samples_of_step(const struct tr_batches *b)
{
    return b->micros * b->micro_batch;
}

/* With sequence parallelism a rank has some of the rows: whole samples if these can be shared, else
   a part that counts as one. */
static void shape_block(const struct tr_shape *s, struct tr_codec_how *how)
{
    const int64_t batch = s->batches.micro_batch, w = s->activations.sequence ? s->layout.w : 1;

    how->samples = batch % w == 0 ? batch / w : 1;
    how->tokens = batch * s->dims.seq / w / how->samples;
    how->width = s->dims.hidden;
}

struct tr_codec_how tr_links_how(const struct tr_links_of *of, int k)
{
    const struct tr_config *c = of->config;
    const struct tr_shape *s = of->shape;
    const bool forward = 1U << k & TR_LINK_FORWARD;
    int64_t first, count;
    struct tr_codec_how how = {
        .dtype = of->dtype,
        .sends = 1U << k & TR_LINK_SENDS,
        .fix = {.bits = (int)(forward ? c->forward_bits : c->backward_bits),
                .over = forward ? s->links.forward_over : s->links.backward_over,
                .scale =
                    (enum tr_scale)(forward ? c->forward_scale_method : c->backward_scale_method)},
        .keep_bits = (int)c->forward_bits_act,
        .folder = c->activation_cache_dir,
        .ahead = samples_of_step(&s->batches),
    };

    shape_block(s, &how);
    tr_epoch_share(&s->epochs, of->grid->at.dp, &first, &count);
    how.capacity = count;
    return how;
}

enum tr_status tr_links_open(const struct tr_links_of *of, struct tr_links **out)
{
    const struct tr_config *c = of->config;
    const struct tr_shape *s = of->shape;
    const int chunks = s->layout.k;
    struct tr_links *l;

    *out = NULL;
    if (!s->links.compressed)
        return TR_OK;
    l = need(1, sizeof *l);
    *out = l;
    l->of = *of;
    l->flights = of->overlap ? TR_FLIGHTS : 1;
    l->end = need((size_t)chunks, sizeof *l->end);
    l->mine = need((size_t)chunks * TR_LEGS, sizeof *l->mine);
    l->all = need((size_t)(chunks * TR_LEGS * s->layout.p), sizeof *l->all);
    l->sample = need((size_t)samples_of_step(&s->batches), sizeof *l->sample);
    for (int chunk = 0; chunk < chunks; chunk++) {
        for (int k = 0; k < TR_LEGS; k++) {
            const struct tr_codec_how how = tr_links_how(of, k);

            if (!tr_links_on(c, k) || !exists(of, chunk, k))
                continue;
            TR_TRY(tr_links_codec(c, k)->open(&how, &l->end[chunk][k].codec));
            l->remembers |= tr_links_codec(c, k)->remembers;
        }
    }
    return TR_OK;
}

bool tr_links_remember(const struct tr_links *l)
{
    return l && l->remembers;
}

void tr_links_close_end(struct tr_link_end *e)
{
    if (e->codec)
        e->codec->on->close(e->codec);
    e->codec = NULL;
}

void tr_links_close(struct tr_links *l)
{
    if (!l)
        return;
    for (int chunk = 0; l->end && chunk < l->of.shape->layout.k; chunk++)
        for (int k = 0; k < TR_LEGS; k++)
            tr_links_close_end(&l->end[chunk][k]);
    free(l->end);
    free(l->sample);
    free(l->mine);
    free(l->all);
    free(l);
}

/* Tensor ranks send equal parts. */
int64_t tr_links_part(const struct tr_links *l, int64_t bytes)
{
    return (bytes + l->of.shape->layout.w - 1) / l->of.shape->layout.w;
}

static void plan_leg(struct tr_links *l, struct tr_arena *a, int k)
{
    int64_t most = 0;

    for (int chunk = 0; chunk < l->of.shape->layout.k; chunk++) {
        struct tr_link_end *e = &l->end[chunk][k];
        int64_t bytes;

        if (!e->codec)
            continue;
        e->memory = a->base ? a->base + a->used_bytes : NULL;
        e->codec->on->plan(e->codec, a);
        bytes = e->codec->on->wire_limit(e->codec);
        most = bytes > most ? bytes : most;
    }
    most = tr_links_part(l, most) * l->of.shape->layout.w;
    for (int i = 0; i < l->flights && most > 0; i++)
        l->leg[k].wire[i] =
            tr_tensor_1(tr_arena_take(a, TR_LABEL_COMPRESSION, (size_t)most), TR_U8, most);
}

void tr_links_plan(struct tr_links *l, struct tr_arena *a)
{
    for (int k = 0; l && k < TR_LEGS; k++)
        plan_leg(l, a, k);
}

/* Arithmetic is to the bit the same on all backends by their tests, but an m that both ends keep
   for a whole run is no place to find out that it is not. */
static enum tr_status check_backends(struct tr_links *l)
{
    struct tr_comm *pp = &l->of.grid->pp;
    char mine[32] = "", *all = need((size_t)pp->size, sizeof mine);
    enum tr_status s = TR_OK;

    snprintf(mine, sizeof mine, "%s", l->of.queue->on->name);
    pp->via->gather_all(pp, mine, sizeof mine, all);
    for (int stage = 1; stage < pp->size && s == TR_OK; stage++)
        if (strcmp(all, all + stage * (int)sizeof mine) != 0)
            s = TR_FAIL(
                TR_ECONFIG,
                "--forward-compress-method %s needs the same arithmetic at both ends of a link, "
                "and stage 0 computes with --backend %s and stage %d with %s: give all ranks "
                "one backend, or use --forward-compress-method fixpoint",
                tr_config_spelling("forward-compress-method",
                                   l->of.config->forward_compress_method),
                all, stage, all + stage * (int)sizeof mine);
    free(all);
    return tr_comm_agree(l->of.world, s);
}

static enum tr_status start_ends(struct tr_links *l)
{
    for (int chunk = 0; chunk < l->of.shape->layout.k; chunk++)
        for (int k = 0; k < TR_LEGS; k++)
            if (l->end[chunk][k].codec)
                TR_TRY(l->end[chunk][k].codec->on->start(l->end[chunk][k].codec));
    return TR_OK;
}

/* ---- what is said at the start ---- */

static void name_codec(const struct tr_links_of *of, int k, char *text, size_t size)
{
    const struct tr_codec *codec = tr_links_codec(of->config, k);
    const struct tr_codec_how how = tr_links_how(of, k);

    if (strcmp(codec->name, "delta-lowbits") == 0)
        snprintf(text, size, "%s, %d bits, memory of %d bits", codec->name, how.fix.bits,
                 how.keep_bits);
    else
        snprintf(text, size, "%s, %d bits", codec->name, how.fix.bits);
}

static void tell_direction(const struct tr_links_of *of, int k, enum tr_traffic_kind kind)
{
    const struct tr_codec_how how = tr_links_how(of, k);
    char dims[16] = "";
    size_t n = 0;

    if (!tr_links_on(of->config, k)) {
        snprintf(of->traffic->codec[kind], sizeof of->traffic->codec[kind], "none");
        return;
    }
    name_codec(of, k, of->traffic->codec[kind], sizeof of->traffic->codec[kind]);
    for (int i = 0; i < 3; i++)
        if (how.fix.over >> i & 1)
            n += (size_t)snprintf(dims + n, sizeof dims - n, " %d", i);
    tr_print_rank0("> %s messages are compressed: %s, scales: %s over dimensions%s\n",
                   tr_traffic_name(kind), of->traffic->codec[kind],
                   tr_config_spelling("forward-scale-method", (int)how.fix.scale),
                   n > 0 ? dims : " none");
}

/* Options that were given a value of their own, and from which nothing follows.  What a method does
   not ask for is no mistake, since methods are tried one after the other with the same options. */
void tr_links_warn(const struct tr_config *c)
{
    const bool delta = tr_links_codec(c, tr_links_number(TR_SEND_FWD))->remembers;
    const bool forward = c->forward_compress_method != TR_FORWARD_NONE;
    const bool backward = c->backward_compress_method != TR_BACKWARD_NONE;
    const struct {
        bool used;
        const char *option, *of;
    } options[] = {
        {forward, "forward-bits", "forward-compress-method"},
        {forward, "forward-scale-method", "forward-compress-method"},
        {forward, "forward-scale-dims", "forward-compress-method"},
        {c->forward_compress_method == TR_FORWARD_LOWBITS, "forward-bits-act",
         "forward-compress-method delta-lowbits"},
        {delta, "max-activation-cache-size", "forward-compress-method delta"},
        {delta, "activation-cache-dir", "forward-compress-method delta"},
        {backward, "backward-bits", "backward-compress-method"},
        {backward, "backward-scale-method", "backward-compress-method"},
        {backward, "backward-scale-dims", "backward-compress-method"},
        {forward || backward, "warmup-epochs",
         "forward-compress-method and --backward-compress-method"},
        {forward || backward, "check-links-interval",
         "forward-compress-method and --backward-compress-method"},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!options[i].used && tr_config_changed(c, options[i].option))
            tr_log_rank0(TR_LOG_WARNING,
                         "--%s has no effect here: it is for --%s, which was not given",
                         options[i].option, options[i].of);
}

static void tell(struct tr_links *l)
{
    const struct tr_links_of *of = &l->of;
    const int64_t whole = of->shape->links.whole_samples / of->shape->batches.global_batch;
    const double mib = 1048576.0;
    int64_t host, files;

    tell_direction(of, tr_links_number(TR_SEND_FWD), TR_TRAFFIC_PP_FORWARD);
    tell_direction(of, tr_links_number(TR_SEND_BWD), TR_TRAFFIC_PP_BACKWARD);
    if (of->shape->links.whole_samples > 0)
        tr_print_rank0(
            "> messages of the first %lld iteration%s are not compressed (--warmup-epochs)\n",
            (long long)whole, tr_plural(whole));
    tr_links_bytes(l, &host, &files);
    host = tr_comm_max(of->world, host);
    files = tr_comm_max(of->world, files);
    if (files > 0)
        tr_print_rank0(
            "> activation cache of a rank: at most %.1f MiB of files in %s, and %.1f MiB of host "
            "memory\n",
            (double)files / mib, of->config->activation_cache_dir, (double)host / mib);
    else if (host > 0)
        tr_print_rank0("> activation cache of a rank: at most %.1f MiB of host memory\n",
                       (double)host / mib);
}

enum tr_status tr_links_start(struct tr_links *l, uint64_t text)
{
    l->of.traffic->on = true;
    l->text = text;
    if (l->remembers)
        TR_TRY(check_backends(l));
    TR_TRY(tr_comm_agree(l->of.world, start_ends(l)));
    tell(l);
    return TR_OK;
}
