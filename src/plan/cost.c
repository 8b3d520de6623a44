/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/cost.h"

/*
 * Passes of a layer through memory outside of GEMMs, in bytes over (rows * hidden * bytes of an
 * element): two norms, two additions with bias and dropout; and, sharded over tensor ranks,
 * transposing queries, keys and values, and the activation function, which is as wide as the MLP.
 */
static const double NORM_FORWARD = 11.0, NORM_BACKWARD = 13.0;
static const double HEADS_FORWARD = 8.0, HEADS_BACKWARD = 10.0;
static const double MLP_FORWARD = 2.0, MLP_BACKWARD = 3.0;

/* Bytes per logit of what follows the GEMM: fp32 copies, maximum, sum, gradient. */
static const double LOSS_FORWARD = 24.0, LOSS_BACKWARD = 10.0;

double tr_cost_peak(const struct tr_precision *p, const struct tr_machine *m)
{
    return 1e12 * (!p->half ? m->peak_fp32 : p->bf16 ? m->peak_bf16 : m->peak_fp16);
}

void tr_cost_init(struct tr_cost *x, const struct tr_shape *s, const struct tr_machine *m)
{
    *x = (struct tr_cost){
        .s = s,
        .m = m,
        .flops = tr_cost_peak(&s->precision, m) * m->gemm,
        .stream = 1e9 * m->stream,
        .elem = s->precision.half ? 2.0 : 4.0,
        .grad = s->precision.half && !s->precision.grads_fp32 ? 2.0 : 4.0,
        .rows = (double)(s->dims.seq * s->batches.micro_batch),
    };
}

/* ---- links ---- */

struct link {
    double rate, wait; /* B/s of a rank, seconds */
};

/* Of groups whose ranks stand `stride` apart, and which lie side by side in blocks of `block` ranks.
   The ranks of a group on one node share its network links. */
static struct link link_of(const struct tr_cost *x, int stride, int block)
{
    const int node = x->m->gpus_per_node;
    const double inside = 1e9 * x->m->node_link;
    double outside = 1e9 * x->m->net_link;

    if (block <= node)
        return (struct link){inside, 1e-6 * x->m->node_us};
    if (stride < node)
        outside *= (double)node / stride;
    return (struct link){outside < inside ? outside : inside, 1e-6 * x->m->net_us};
}

static double all_reduce(const struct link to, int count, double bytes)
{
    if (count < 2)
        return 0.0;
    return 2.0 * (count - 1) / count * bytes / to.rate + 2.0 * to.wait;
}

/* ---- computing ---- */

static double product(const struct tr_cost *x, double m, double n, double k)
{
    return 2.0 * m * n * k / x->flops + x->elem * (m * k + k * n + m * n) / x->stream;
}

/* The two GEMMs of attention, and those of the MLP. */
static double attention_products(const struct tr_cost *x)
{
    const double h = (double)x->s->dims.hidden, w = x->s->layout.w;

    return product(x, x->rows, 3.0 * h / w, h) + product(x, x->rows, h, h / w);
}

static double mlp_products(const struct tr_cost *x)
{
    const double h = (double)x->s->dims.hidden, f = (double)x->s->dims.ffn, w = x->s->layout.w;

    return product(x, x->rows, f / w, h) + product(x, x->rows, h, f / w);
}

static double products(const struct tr_cost *x)
{
    return attention_products(x) + mlp_products(x);
}

/* Tensor cores take rows of whole 16 bytes; heads of another width are computed without them. */
static double attention_flops(const struct tr_cost *x)
{
    const double plain = 1e12 * x->m->peak_fp32 * x->m->gemm;

    return x->s->dims.head_dim % (16 / (int)x->elem) != 0 && plain < x->flops ? plain : x->flops;
}

static double attention(const struct tr_cost *x)
{
    const double t = (double)x->s->dims.seq, b = (double)x->s->batches.micro_batch,
                 w = x->s->layout.w;
    const double scores = b * t * t * (double)x->s->dims.heads / w;

    return 4.0 * scores * (double)x->s->dims.head_dim / attention_flops(x) +
           x->m->attention_passes * x->elem * scores / x->stream;
}

static double passes(const struct tr_cost *x, double norm, double heads, double mlp)
{
    const double h = (double)x->s->dims.hidden, f = (double)x->s->dims.ffn, w = x->s->layout.w;
    const double share = x->s->activations.sequence ? w : 1.0;

    return x->elem * x->rows * (norm * h / share + (heads * h + mlp * f) / w) / x->stream;
}

/* The time of a layer on the device. */
static double layer_forward(const struct tr_cost *x)
{
    return products(x) + attention(x) + passes(x, NORM_FORWARD, HEADS_FORWARD, MLP_FORWARD);
}

/* Scores are not kept, so attention is recomputed even in a layer that is not. */
static double layer_backward(const struct tr_cost *x)
{
    return 2.0 * products(x) + 3.0 * attention(x) +
           passes(x, NORM_BACKWARD, HEADS_BACKWARD, MLP_BACKWARD);
}

/* The host starts kernels ahead of the device, so a pass of a layer takes the longer of both times.
   All-reduces over tensor ranks, which are counted elsewhere, are work of the device, too. */
static double pass(const struct tr_cost *x, double work, double sums)
{
    const double device = work + 1e-6 * x->m->layer_us, host = 1e-6 * x->m->launch_us - sums;

    return device > host ? device : host;
}

static double head_product(const struct tr_cost *x)
{
    return product(x, x->rows, (double)x->s->dims.vocab_padded / x->s->layout.w,
                   (double)x->s->dims.hidden);
}

static double head_passes(const struct tr_cost *x, double bytes)
{
    return bytes * x->rows * (double)x->s->dims.vocab_padded / x->s->layout.w / x->stream;
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

static double beyond(double seconds, double hidden)
{
    return seconds > hidden ? seconds - hidden : 0.0;
}

/*
 * What backward waits for tensor ranks where `gradients` seconds of products give the gradients of weights, and
 * those of inputs take as long; `sum` is that of an all-reduce.  The sum of the input's gradient goes on beside
 * the former.  With sequence parallelism it is a reduce-scatter, half of an all-reduce, and there are two
 * all-gathers: of the output's gradient, which all wait for, and of the input, beside the gradient of the input.
 */
static double exposed(const struct tr_cost *x, double sum, double gradients)
{
    const double hidden = x->s->layout.overlap_tensor ? gradients : 0.0;

    if (!x->s->activations.sequence)
        return beyond(sum, hidden);
    return 0.5 * sum + 2.0 * beyond(0.5 * sum, hidden);
}

struct tr_cost_chunk tr_cost_chunk(const struct tr_cost *x, int stage, int chunk)
{
    const struct tr_shape *s = x->s;
    const int64_t layers = tr_layout_layers(&s->layout, stage, chunk);
    const double n = (double)layers, again = recomputed(&s->activations, layers);
    const double sum = all_reduce(link_of(x, 1, s->layout.w), s->layout.w,
                                  x->elem * x->rows * (double)s->dims.hidden);
    const double wait = exposed(x, sum, attention_products(x)) + exposed(x, sum, mlp_products(x));
    const double forward = pass(x, layer_forward(x), 2.0 * sum);
    const double kept = pass(x, layer_backward(x), wait);
    const double repeated = pass(x, layer_backward(x) - attention(x), wait) + forward;
    struct tr_cost_chunk c = {
        .forward = n * forward,
        .backward = again * repeated + (n - again) * kept,
        .tensor_forward = 2.0 * n * sum,
        .tensor_backward = n * wait + 2.0 * again * sum,
    };

    if (stage == 0 && chunk == 0)
        c.tensor_forward += sum;
    if (stage == s->layout.p - 1 && chunk == s->layout.k - 1) {
        c.forward += head_product(x) + head_passes(x, LOSS_FORWARD);
        c.backward += 2.0 * head_product(x) + head_passes(x, LOSS_BACKWARD);
        c.tensor_backward += exposed(x, sum, head_product(x));
    }
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
static struct link link_of_stages(const struct tr_cost *x)
{
    const struct tr_layout *l = &x->s->layout;
    const int stride = tr_layout_pipeline_stride(l);

    return link_of(x, stride, stride * l->p);
}

static struct link link_of_replicas(const struct tr_cost *x)
{
    const struct tr_layout *l = &x->s->layout;
    const int stride = tr_layout_data_stride(l);

    return link_of(x, stride, stride * l->d);
}

/* Each tensor rank sends its part, and the node all-gathers them. */
double tr_cost_transfer(const struct tr_cost *x)
{
    const struct tr_shape *s = x->s;
    const struct link to = link_of_stages(x), inside = link_of(x, 1, s->layout.w);
    const double bytes = 0.5 * (message_bytes(x, s->links.forward_bits, s->links.forward_over) +
                                message_bytes(x, s->links.backward_bits, s->links.backward_over));
    double seconds;

    if (s->layout.p < 2)
        return 0.0;
    seconds = bytes / s->layout.w / to.rate + to.wait;
    if (s->layout.w > 1 && !s->activations.sequence)
        seconds += (s->layout.w - 1.0) / s->layout.w * bytes / inside.rate + inside.wait;
    return seconds;
}

/* An all-reduce is a reduce-scatter and an all-gather; with the distributed optimizer only the
   first is needed. */
double tr_cost_reduce(const struct tr_cost *x, double params)
{
    const struct tr_shape *s = x->s;
    const double part = s->dp.sharded ? 0.5 : 1.0;

    if (s->dp.diverges)
        return s->dp.delta_bits > 0.0
                   ? all_reduce(link_of_replicas(x), s->layout.d, params * s->dp.delta_bits / 8.0)
                   : 0.0;
    return part * all_reduce(link_of_replicas(x), s->layout.d, params * x->grad);
}

double tr_cost_gather(const struct tr_cost *x, double params)
{
    const struct tr_shape *s = x->s;

    if (!s->dp.sharded)
        return 0.0;
    return 0.5 * all_reduce(link_of_replicas(x), s->layout.d, params * x->elem);
}

double tr_cost_tied(const struct tr_cost *x)
{
    const struct tr_shape *s = x->s;

    if (s->layout.p < 2)
        return 0.0;
    return all_reduce(link_of_stages(x), 2,
                      x->grad * (double)s->dims.vocab_padded / s->layout.w *
                          (double)s->dims.hidden);
}

double tr_cost_optimizer(const struct tr_cost *x, double params)
{
    const double shards = x->s->dp.sharded ? x->s->layout.d : 1;

    return params / shards * x->m->optimizer_bytes / x->stream;
}
