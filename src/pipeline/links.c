/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/links_parts.h"

#include <math.h>

#include "telemetry/timer.h"

/* What becomes of the messages of the step under way. */
enum way { AS_IT_IS, LEARNT, CODED };

static enum way way_of(const struct tr_links *l)
{
    if (!l->step.training)
        return AS_IT_IS;
    return l->step.first_sample < l->of.shape->links.whole_samples ? LEARNT : CODED;
}

/* The samples of the blocks first .. first + count - 1 of a step that begins with sample `begin`. */
static void find_samples(struct tr_links *l, const struct tr_codec_how *how, int64_t begin,
                         int first, int count)
{
    const struct tr_links_of *of = &l->of;
    const int64_t batch = of->shape->batches.micro_batch;
    const int64_t skip = how->samples < batch ? of->grid->at.tp * how->samples % batch : 0;
    int64_t *to = l->sample;

    for (int micro = first; micro < first + count; micro++) {
        const int64_t at =
            begin + micro * batch * of->shape->layout.d + of->grid->at.dp * batch + skip;

        for (int64_t b = 0; b < how->samples; b++)
            *to++ = of->sample_id(of->ctx, at + b);
    }
}

static struct tr_codec_key key_of(struct tr_links *l, const struct tr_link_end *e,
                                  struct tr_slot at)
{
    const struct tr_codec_how *how = &e->codec->how;

    find_samples(l, how, l->step.first_sample, at.micro, 1);
    return (struct tr_codec_key){
        .step = l->step.iteration, .sample = l->sample, .samples = (int)how->samples};
}

/* What an end does for want of which a message would be lost. */
static void must(enum tr_status s)
{
    if (s != TR_OK)
        tr_die(s, "%s", tr_last_error());
}

/* The end has seen another block of the step: after the last one it is told what comes next, so
   that its memory reads while the backward pass goes on. */
static void seen(struct tr_links *l, struct tr_link_end *e)
{
    const struct tr_links_step *step = &l->step;
    const struct tr_codec *on = e->codec->on;
    const int64_t next = step->first_sample + step->global_batch;
    struct tr_codec_key key = {.step = step->iteration + 1, .sample = l->sample};

    if (++e->blocks < step->micros)
        return;
    e->blocks = 0;
    if (!on->remembers || next >= l->of.shape->amounts.train_samples)
        return;
    find_samples(l, &e->codec->how, next, 0, step->micros);
    key.samples = (int)(e->codec->how.samples * step->micros);
    must(on->prefetch(e->codec, &key));
}

static struct tr_tensor wire_of(const struct tr_links *l, const struct tr_link_leg *leg, unsigned i)
{
    const unsigned b = i % (unsigned)l->flights;

    return tr_tensor_span(&leg->wire[b], 0, leg->bytes[b]);
}

/*
 * What a message is multiplied by before it is coded.  Gradients are of a mean over all tokens of a
 * batch, so they are small where these are many, and codes are relative to a scale that is a half
 * and counts as 1e-6 more: below that they would lose their size, and then vanish.  In fp16 the loss
 * scale takes care of it; elsewhere a power of two does, which changes no bit but the exponent's.
 */
static float lift(const struct tr_links *l, enum tr_leg_bit bit)
{
    const struct tr_shape *s = l->of.shape;
    int power;

    if (bit & TR_LINK_FORWARD || l->of.config->fp16)
        return 1.0F;
    frexp(l->step.gradient_parts * (double)(s->batches.micro_batch * s->dims.seq), &power);
    return ldexpf(1.0F, power);
}

static void multiply(struct tr_queue *q, const struct tr_tensor *x, float factor)
{
    if (factor > 1.0F || factor < 1.0F)
        q->on->scale(q, x, factor);
}

static void code(struct tr_links *l, struct tr_link_end *e, enum tr_leg_bit bit,
                 const struct tr_codec_key *key, const struct tr_tensor *x)
{
    struct tr_link_leg *leg = &l->leg[tr_links_number(bit)];
    const struct tr_codec *on = e->codec->on;
    const float factor = lift(l, bit);
    struct tr_queue *q = l->of.queue;
    struct tr_tensor wire;

    if (bit & TR_LINK_SENDS) {
        leg->bytes[leg->packed % (unsigned)l->flights] = on->wire_bytes(e->codec, key);
        wire = wire_of(l, leg, leg->packed++);
        multiply(q, x, factor);
        must(on->encode(e->codec, q, key, &wire, x));
    } else {
        wire = wire_of(l, leg, leg->unpacked++);
        must(on->decode(e->codec, q, key, x, &wire));
    }
    multiply(q, x, 1.0F / factor);
}

void tr_links_begin(struct tr_links *l, const struct tr_links_step *step)
{
    if (l)
        l->step = *step;
}

void tr_links_pass(struct tr_links *l, struct tr_slot at, enum tr_leg_bit bit,
                   const struct tr_tensor *x)
{
    const int k = tr_links_number(bit);
    const bool sends = bit & TR_LINK_SENDS;
    const enum tr_timer timer = sends ? TR_TIMER_PACK : TR_TIMER_UNPACK;
    struct tr_link_end *e = &l->end[at.chunk][k];
    struct tr_codec_key key;

    if (!e->codec || way_of(l) == AS_IT_IS)
        return;
    tr_timer_start(timer);
    key = key_of(l, e, at);
    if (way_of(l) == LEARNT)
        must(e->codec->on->learn(e->codec, l->of.queue, &key, x));
    else
        code(l, e, bit, &key, x);
    seen(l, e);
    tr_timer_stop(timer);
}

bool tr_links_message(struct tr_links *l, struct tr_slot at, enum tr_leg_bit bit, bool scattered,
                      struct tr_tensor *out)
{
    const int k = tr_links_number(bit);
    struct tr_link_leg *leg = l ? &l->leg[k] : NULL;
    struct tr_link_end *e = l ? &l->end[at.chunk][k] : NULL;
    unsigned b;
    int64_t part;

    if (!l || !e->codec || way_of(l) != CODED)
        return false;
    b = leg->started++ % (unsigned)l->flights;
    if (!(bit & TR_LINK_SENDS)) {
        const struct tr_codec_key key = key_of(l, e, at);

        leg->bytes[b] = e->codec->on->wire_bytes(e->codec, &key);
    }
    part = tr_links_part(l, leg->bytes[b]);
    *out = scattered ? tr_tensor_span(&leg->wire[b], l->of.grid->at.tp * part, part)
                     : tr_tensor_span(&leg->wire[b], 0, leg->bytes[b]);
    return true;
}

bool tr_links_arrived(struct tr_links *l, enum tr_leg_bit bit, bool scattered)
{
    struct tr_comm *tp = l ? &l->of.grid->tp : NULL;
    const int k = tr_links_number(bit);
    struct tr_tensor all;
    unsigned b;

    if (!l || !tr_links_on(l->of.config, k) || way_of(l) != CODED)
        return false;
    b = l->leg[k].arrived++ % (unsigned)l->flights;
    if (!scattered)
        return true;
    all = tr_tensor_span(&l->leg[k].wire[b], 0,
                         tr_links_part(l, l->leg[k].bytes[b]) * l->of.shape->layout.w);
    tp->via->allgather(tp, l->of.queue, &all);
    return true;
}
