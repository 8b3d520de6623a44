/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/cost.h"

#include <math.h>

#include "dp/dp.h"
#include "optim/states.h"
#include "pipeline/sched.h"

double tr_cost_peak(const struct tr_precision *p, const struct tr_machine *m)
{
    return 1e12 * (!p->half ? m->peak_fp32 : p->bf16 ? m->peak_bf16 : m->peak_fp16);
}

void tr_cost_init(struct tr_cost *x, const struct tr_shape *s, const struct tr_machine *m)
{
    const struct tr_work_how how = tr_work_how_of(s);

    *x = (struct tr_cost){
        .s = s,
        .m = m,
        .flops = tr_cost_peak(&s->precision, m) * m->gemm,
        .stream = 1e9 * m->stream,
        .elem = how.elem,
        .grad = s->precision.half && !s->precision.grads_fp32 ? 2.0 : 4.0,
        .rows = how.tokens,
    };
    for (int part = TR_WORK_EMBED; part <= TR_WORK_HEAD; part++)
        tr_work_of(&how, (enum tr_work_part)part, &x->work[part]);
}

/* ---- links ---- */

/* Of groups whose ranks stand `stride` apart, and which lie side by side in blocks of `block` ranks.
   The ranks of a group on one node share its network links. */
static struct tr_cost_link link_of(const struct tr_cost *x, int stride, int block)
{
    const int node = x->m->gpus_per_node;
    const double inside = 1e9 * x->m->node_link;
    double outside = 1e9 * x->m->net_link;

    if (block <= node)
        return (struct tr_cost_link){inside, 1e-6 * x->m->node_us};
    if (stride < node)
        outside *= (double)node / stride;
    return (struct tr_cost_link){outside < inside ? outside : inside, 1e-6 * x->m->net_us};
}

static double all_reduce(const struct tr_cost_link to, int count, double bytes)
{
    if (count < 2)
        return 0.0;
    return 2.0 * (count - 1) / count * bytes / to.rate + 2.0 * to.wait;
}

/* A message between tensor ranks. */
static double message(const struct tr_cost *x, const struct tr_work_collective *m)
{
    const int w = x->s->layout.w;

    if (x->message && w > 1)
        return x->message(x->at, m);
    return (m->kind == TR_WORK_ALL_REDUCE ? 1.0 : 0.5) *
           all_reduce(tr_cost_link_of(x, TR_COST_TENSOR), w, m->bytes);
}

/* ---- computing ---- */

static double product(const struct tr_cost *x, const struct tr_work_gemm *g)
{
    const double m = g->rows, n = g->columns, k = g->inner;

    return 2.0 * m * n * k / x->flops + x->elem * (m * k + k * n + m * n) / x->stream;
}

static double branch_products(const struct tr_cost *x, enum tr_work_part part,
                              enum tr_work_branch branch)
{
    const struct tr_work *w = &x->work[part];
    double sum = 0.0;

    for (int i = 0; i < w->gemms; i++)
        if (w->gemm[i].branch == branch)
            sum += product(x, &w->gemm[i]);
    return sum;
}

static double products(const struct tr_cost *x, enum tr_work_part part)
{
    double sum = 0.0;

    for (int branch = 0; branch < TR_WORK_BRANCHES; branch++)
        sum += branch_products(x, part, (enum tr_work_branch)branch);
    return sum;
}

/* Tensor cores take rows of whole 16 bytes; heads of another width are computed without them. */
static double attention_flops(const struct tr_cost *x)
{
    const double plain = 1e12 * x->m->peak_fp32 * x->m->gemm;

    return x->s->dims.head_dim % (16 / (int)x->elem) != 0 && plain < x->flops ? plain : x->flops;
}

/* As in the runs that the constants were fitted to, scores that a token does not see are computed, too; but not
   those before a window. */
static double attention(const struct tr_cost *x, enum tr_work_part part)
{
    const struct tr_work_attention *a = &x->work[part].attention;
    const double scores = a->square * a->share * a->heads;

    return 4.0 * scores * a->head_dim / attention_flops(x) +
           x->m->attention_passes * x->elem * scores / x->stream;
}

static double passes(const struct tr_cost *x, enum tr_work_part part, bool backward)
{
    const struct tr_work *w = &x->work[part];
    double bytes = 0.0;

    for (int i = 0; i < w->passes; i++)
        bytes += (w->pass[i].wide ? 4.0 : x->elem) * w->pass[i].rows *
                 (backward ? w->pass[i].backward : w->pass[i].forward);
    return bytes / x->stream;
}

/* The time of a part on the device. */
static double forward_of(const struct tr_cost *x, enum tr_work_part part)
{
    return products(x, part) + attention(x, part) + passes(x, part, false);
}

/* Scores are not kept, so attention is recomputed even in a layer that is not. */
static double backward_of(const struct tr_cost *x, enum tr_work_part part)
{
    return 2.0 * products(x, part) + 3.0 * attention(x, part) + passes(x, part, true);
}

/* The host starts kernels ahead of the device, so a pass of a layer takes the longer of both times.
   All-reduces over tensor ranks, which are counted elsewhere, are work of the device, too. */
static double pass(const struct tr_cost *x, double work, double sums)
{
    const double device = work + 1e-6 * x->m->layer_us, host = 1e-6 * x->m->launch_us - sums;

    return device > host ? device : host;
}

/* Layers of a chunk that are recomputed. */
static double recomputed(const struct tr_activations *a, int64_t layers)
{
    if (a->recompute == TR_RECOMPUTE_NONE)
        return 0.0;
    if (a->recompute == TR_RECOMPUTE_BLOCK && a->recompute_layers < layers)
        return (double)a->recompute_layers;
    return (double)layers;
}

double tr_cost_beside(const struct tr_machine *m, double seconds, double meanwhile)
{
    return seconds - m->overlap * fmin(seconds, meanwhile);
}

/* Seconds of all messages of a part in one direction, and bytes that a rank sends. */
static double messages(const struct tr_cost *x, enum tr_work_part part, bool backward,
                       double *bytes)
{
    const struct tr_work *w = &x->work[part];
    const double count = x->s->layout.w;
    double sum = 0.0;

    for (int i = 0; i < w->collectives; i++) {
        const struct tr_work_collective *m = &w->collective[i];

        if (m->backward != backward)
            continue;
        sum += message(x, m);
        *bytes += (m->kind == TR_WORK_ALL_REDUCE ? 2.0 : 1.0) * (count - 1.0) / count * m->bytes;
    }
    return sum;
}

static double messages_forward(const struct tr_cost *x, enum tr_work_part part)
{
    const struct tr_work *w = &x->work[part];
    double sum = 0.0;

    for (int i = 0; i < w->collectives; i++)
        if (!w->collective[i].backward)
            sum += message(x, &w->collective[i]);
    return sum;
}

static bool splits(const struct tr_cost *x)
{
    return tr_sched_splits((enum tr_sched_kind)x->s->layout.schedule);
}

/* What backward waits for tensor ranks: a message that goes on beside the products which give the gradients of
   weights, or those of inputs, which take as long, is waited for as far as it takes longer or slows them down. */
static double messages_backward(const struct tr_cost *x, enum tr_work_part part)
{
    const struct tr_work *w = &x->work[part];
    double sum = 0.0;

    for (int i = 0; i < w->collectives; i++) {
        const struct tr_work_collective *m = &w->collective[i];
        const bool beside = m->beside && x->s->layout.overlap_tensor && !splits(x);

        if (m->backward)
            sum += tr_cost_beside(x->m, message(x, m),
                                  beside ? branch_products(x, part, m->branch) : 0.0);
    }
    return sum;
}

/* The embedding or the head, which no layer of the chunk is.  Constants were fitted with all its messages at the
   far end of the pipe, those of the embedding in the forward pass and those of the head in the backward pass. */
static void add_end(const struct tr_cost *x, enum tr_work_part part, struct tr_cost_chunk *c)
{
    c->forward += forward_of(x, part);
    c->backward += backward_of(x, part);
    *(part == TR_WORK_EMBED ? &c->tensor_forward : &c->tensor_backward) +=
        messages_forward(x, part) + messages_backward(x, part);
}

/* The same of a chunk with the ends that it has. */
static double messages_of_chunk(const struct tr_cost *x, int stage, int chunk, double *bytes)
{
    const struct tr_layout *l = &x->s->layout;
    const int64_t layers = tr_layout_layers(l, stage, chunk);
    const double n = (double)layers, again = recomputed(&x->s->activations, layers);
    double there = 0.0, back = 0.0, ends = 0.0, seconds;

    seconds = (n + again) * messages(x, TR_WORK_LAYER, false, &there) +
              n * messages(x, TR_WORK_LAYER, true, &back);
    if (tr_layout_is_first(l, stage, chunk))
        seconds +=
            messages(x, TR_WORK_EMBED, false, &ends) + messages(x, TR_WORK_EMBED, true, &ends);
    if (tr_layout_is_last(l, stage, chunk))
        seconds += messages(x, TR_WORK_HEAD, false, &ends) + messages(x, TR_WORK_HEAD, true, &ends);
    *bytes = (n + again) * there + n * back + ends;
    return seconds;
}

double tr_cost_tensor_bytes(const struct tr_cost *x, int stage, int chunk)
{
    double bytes;

    (void)messages_of_chunk(x, stage, chunk, &bytes);
    return bytes;
}

/* What the copies of a layer's activations to the host take longer than the pass of a layer that goes on beside
   them; both ways are a lane of their own. */
static double offloaded(const struct tr_cost *x, double seconds)
{
    const struct tr_work_how how = tr_work_how_of(x->s);
    const double bytes = tr_work_kept_bytes(&x->work[TR_WORK_LAYER], &how);

    return x->m->host_link > 0.0 ? tr_cost_beside(x->m, bytes / (1e9 * x->m->host_link), seconds)
                                 : 0.0;
}

struct tr_cost_chunk tr_cost_chunk(const struct tr_cost *x, int stage, int chunk)
{
    const struct tr_shape *s = x->s;
    const int64_t layers = tr_layout_layers(&s->layout, stage, chunk);
    const double n = (double)layers, again = recomputed(&s->activations, layers);
    const double sums = messages_forward(x, TR_WORK_LAYER),
                 wait = messages_backward(x, TR_WORK_LAYER);
    const double backward = backward_of(x, TR_WORK_LAYER);
    const double forward = pass(x, forward_of(x, TR_WORK_LAYER), sums);
    const double kept = pass(x, backward, wait);
    const double repeated = pass(x, backward - attention(x, TR_WORK_LAYER), wait) + forward;
    struct tr_cost_chunk c = {
        .forward = n * forward,
        .backward = again * repeated + (n - again) * kept,
        .tensor_forward = n * sums,
        .tensor_backward = n * wait + again * sums,
        .weights = splits(x) ? n * products(x, TR_WORK_LAYER) : 0.0,
    };

    const double away = fmin((double)s->activations.offload_layers, n);
    double bytes;

    c.forward += away > 0.0 ? away * offloaded(x, forward + sums) : 0.0;
    c.backward += away > 0.0 ? away * offloaded(x, kept + wait) : 0.0;
    c.backward -= c.weights;
    c.tensor_link = messages_of_chunk(x, stage, chunk, &bytes);
    if (tr_layout_is_first(&s->layout, stage, chunk))
        add_end(x, TR_WORK_EMBED, &c);
    if (tr_layout_is_last(&s->layout, stage, chunk))
        add_end(x, TR_WORK_HEAD, &c);
    return c;
}

/* ---- between stages, replicas, steps ---- */

/* Codes of a message, and fp16 for each of its scales. */
static double message_bytes(const struct tr_cost *x, int bits, unsigned over)
{
    const struct tr_shape *s = x->s;
    const double size[3] = {(double)s->batches.micro_batch, (double)s->dims.seq,
                            (double)s->dims.hidden};
    const double numbers = x->rows * (double)s->dims.hidden;
    double share = 1.0;

    if (bits == 0)
        return x->elem * numbers;
    for (int i = 0; i < 3; i++)
        share *= over >> i & 1 ? size[i] : 1.0;
    return numbers * bits / 8.0 + 2.0 * numbers / share;
}

/* The links of a pipeline, and of a data-parallel group: the slower a coordinate runs in the order of ranks,
   the wider is the block that it spans. */
struct tr_cost_link tr_cost_link_of(const struct tr_cost *x, enum tr_cost_group group)
{
    const struct tr_layout *l = &x->s->layout;
    const int stage = tr_layout_pipeline_stride(l), replica = tr_layout_data_stride(l);

    return group == TR_COST_TENSOR   ? link_of(x, 1, l->w)
           : group == TR_COST_STAGES ? link_of(x, stage, stage * l->p)
                                     : link_of(x, replica, replica * l->d);
}

/* Each tensor rank sends its part, and the node all-gathers them. */
struct tr_cost_message tr_cost_message(const struct tr_cost *x)
{
    const struct tr_shape *s = x->s;
    const struct tr_cost_link inside = tr_cost_link_of(x, TR_COST_TENSOR);
    const double bytes = 0.5 * (message_bytes(x, s->links.forward_bits, s->links.forward_over) +
                                message_bytes(x, s->links.backward_bits, s->links.backward_over));
    struct tr_cost_message m = {.bytes = bytes / s->layout.w};

    if (s->layout.w > 1 && !s->activations.sequence)
        m.gather = (s->layout.w - 1.0) / s->layout.w * bytes / inside.rate + inside.wait;
    return m;
}

double tr_cost_transfer(const struct tr_cost *x)
{
    const struct tr_cost_link to = tr_cost_link_of(x, TR_COST_STAGES);
    const struct tr_cost_message m = tr_cost_message(x);

    return x->s->layout.p < 2 ? 0.0 : m.bytes / to.rate + to.wait + m.gather;
}

/* A part of it where tensor ranks divide it between them. */
double tr_cost_transfer_bytes(const struct tr_cost *x, bool scatters)
{
    const struct tr_shape *s = x->s;
    const bool divided = s->activations.sequence || scatters;

    return (message_bytes(x, s->links.forward_bits, s->links.forward_over) +
            message_bytes(x, s->links.backward_bits, s->links.backward_over)) /
           (divided ? s->layout.w : 1);
}

/* An all-reduce is a reduce-scatter and an all-gather. */
static double leg(const struct tr_cost *x, const struct tr_dp_leg *l)
{
    const int stride = tr_layout_data_stride(&x->s->layout) * l->step;
    const double passes = l->busiest > 0.0 ? l->busiest : l->passes;

    if (l->group == 0)
        return 0.5 * passes *
               all_reduce(tr_cost_link_of(x, TR_COST_REPLICAS), x->s->layout.d, l->bytes);
    return 0.5 * passes * all_reduce(link_of(x, stride, stride * l->group), l->group, l->bytes);
}

/* What comes from the host, or goes there: the bytes of a plan of moves, or what a rank owns, in as many passes. */
static double lane(const struct tr_cost *x, const struct tr_dp_leg *l, bool hosted, double moved)
{
    const double bytes = moved > 0.0 ? moved : l->passes * l->bytes / x->s->dp.optimizer_shards;

    return hosted ? bytes / (1e9 * x->m->host_link) : 0.0;
}

double tr_cost_reduce(const struct tr_cost *x, double params, double *during)
{
    const struct tr_dp_cost c = tr_dp_cost(x->s, params, x->grad, x->elem);

    *during = c.reduce.during;
    return leg(x, &c.reduce) + leg(x, &c.outer) +
           lane(x, &c.reduce, x->s->offload.gradients, x->moves.written * x->grad);
}

double tr_cost_gather(const struct tr_cost *x, double params, double *during)
{
    struct tr_dp_cost c = tr_dp_cost(x->s, params, x->grad, x->elem);

    *during = c.gather.during;
    if (x->moves.gathered > 0.0)
        c.gather.passes = x->moves.gathered / params;
    return leg(x, &c.gather) +
           lane(x, &c.gather, x->s->offload.weights, x->moves.fetched * x->elem);
}

/* What a rank sends of a leg on the ring. */
static double leg_bytes(const struct tr_cost *x, const struct tr_dp_leg *l)
{
    const double ranks = l->group > 0 ? l->group : x->s->layout.d;

    return (ranks - 1.0) / ranks * l->passes * l->bytes;
}

double tr_cost_reduce_bytes(const struct tr_cost *x, double params)
{
    const struct tr_dp_cost c = tr_dp_cost(x->s, params, x->grad, x->elem);

    return leg_bytes(x, &c.reduce) + (c.outer.group > 0 ? leg_bytes(x, &c.outer) : 0.0);
}

double tr_cost_gather_bytes(const struct tr_cost *x, double params)
{
    const struct tr_dp_cost c = tr_dp_cost(x->s, params, x->grad, x->elem);

    return leg_bytes(x, &c.gather);
}

/* An all-reduce of two ranks: each sends as much as there is. */
double tr_cost_tied_bytes(const struct tr_cost *x)
{
    const struct tr_shape *s = x->s;

    if (!tr_layout_ends_apart(&s->layout) || !s->dims.family.tied)
        return 0.0;
    return x->grad * (double)s->dims.vocab_padded / s->layout.w * (double)s->dims.embed;
}

double tr_cost_tied(const struct tr_cost *x)
{
    const double bytes = tr_cost_tied_bytes(x);

    return bytes > 0.0 ? all_reduce(tr_cost_link_of(x, TR_COST_STAGES), 2, bytes) : 0.0;
}

bool tr_cost_spans(const struct tr_cost *x, enum tr_cost_group group)
{
    const struct tr_layout *l = &x->s->layout;
    const int ranks[] = {
        [TR_COST_TENSOR] = l->w,
        [TR_COST_STAGES] = tr_layout_pipeline_stride(l) * l->p,
        [TR_COST_REPLICAS] = tr_layout_data_stride(l) * l->d,
    };

    return ranks[group] > x->m->gpus_per_node;
}

/* A tile comes, is updated and goes while others do, so the slowest of the ways decides.  Gradients come and weights go
   at once; of the host's memory and disks a rank has its share. */
static double host_update(const struct tr_cost *x, double params)
{
    const struct tr_machine *m = x->m;
    const double kept = 4.0 + tr_optim_state_bytes(x->s->precision.state_block);
    const double ranks = m->gpus_per_node;
    const double link = params * (x->grad > x->elem ? x->grad : x->elem) / (1e9 * m->host_link);
    /* A weight in fp32 is the master. */
    const double weight = x->s->precision.half ? 2.0 * x->elem : x->elem;
    const double bytes = 2.0 * kept + 2.0 * x->grad + weight;
    const double memory = params * bytes * ranks / (1e9 * m->host_stream);
    const double files = x->s->offload.folders ? params * kept * ranks / (1e9 * m->files) : 0.0;

    return fmax(fmax(link, memory), files);
}

/* What the machine's figure counts is AdamW in fp32, which reads its states and writes them. */
static double optimizer_bytes(const struct tr_cost *x)
{
    const double saved =
        tr_optim_state_bytes(0) - tr_optim_state_bytes(x->s->precision.state_block);

    return fmax(x->m->optimizer_bytes - 2.0 * saved, 0.0);
}

double tr_cost_optimizer(const struct tr_cost *x, double params)
{
    const double mine = params / x->s->dp.optimizer_shards, hosted = x->s->offload.hosted;
    const double here = (1.0 - hosted) * mine * optimizer_bytes(x) / x->stream;

    return hosted > 0.0 ? here + host_update(x, hosted * mine) : here;
}

const char *tr_cost_lacks(const struct tr_shape *s, const struct tr_machine *m)
{
    if (s->offload.hosted <= 0.0)
        return s->activations.offload_layers > 0 && m->host_link <= 0.0 ? "host-link-gbs" : NULL;
    return m->host_link <= 0.0                     ? "host-link-gbs"
           : m->host_stream <= 0.0                 ? "host-memory-gbs"
           : s->offload.folders && m->files <= 0.0 ? "node-files-gbs"
                                                   : NULL;
}
