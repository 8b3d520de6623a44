/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/step.h"

#include "model/count.h"
#include "optim/lr.h"
#include "optim/stat.h"
#include "pipeline/links.h"
#include "telemetry/timer.h"
#include "util/log.h"

/* The first sample of a micro-batch of this replica. */
static int64_t first_of(const struct tr_run *r, int micro)
{
    const int64_t batch = r->shape.batches.micro_batch;

    return r->first_sample + micro * batch * r->shape.layout.d + r->grid.at.dp * batch;
}

/* Bring the samples of a micro-batch to the chunk: which ones they are, for dropout, and their
   tokens where the chunk reads them. */
static void fetch(struct tr_run *r, struct tr_slot at)
{
    const int64_t batch = r->shape.batches.micro_batch, seq = r->model.tokens;
    const int64_t first = first_of(r, at.micro);
    struct tr_wanted *wanted = tr_chunk_wanted(r->chunk[at.chunk]);
    int32_t *text, *at_position, *place;
    int64_t *sample;

    tr_timer_start(TR_TIMER_BATCH_GENERATOR);
    tr_chunk_batch(r->chunk[at.chunk], &text, &sample);
    tr_chunk_places(r->chunk[at.chunk], &at_position, &place);
    for (int64_t b = 0; b < batch; b++) {
        sample[b] = first + b;
        if (place)
            r->placed(r, first + b, at_position + b * seq, place + b * seq);
        if (wanted)
            wanted[b] = r->wanted ? r->wanted(r, first + b) : (struct tr_wanted){0, seq};
        if (text && r->sample(r, r->split, first + b, text + b * (seq + 1)) != TR_OK)
            tr_die(TR_EDATA, "%s", tr_last_error());
    }
    tr_timer_stop(TR_TIMER_BATCH_GENERATOR);
}

static void forward(void *ctx, struct tr_slot at)
{
    struct tr_run *r = ctx;

    fetch(r, at);
    tr_chunk_forward(r->chunk[at.chunk], at.micro, tr_exec_whole(&r->stage));
    if (r->scored && tr_chunk_has_loss(r->chunk[at.chunk]))
        r->scored(r, at.micro, first_of(r, at.micro));
}

static void backward(void *ctx, struct tr_slot at)
{
    struct tr_run *r = ctx;
    const double factor = r->scaler.scale / tr_run_gradient_parts(r);

    tr_chunk_backward(r->chunk[at.chunk], at.micro, factor, tr_exec_whole(&r->stage));
}

static void weights(void *ctx, struct tr_slot at)
{
    struct tr_run *r = ctx;

    tr_chunk_weights(r->chunk[at.chunk], at.micro, tr_exec_whole(&r->stage));
}

static void enter(void *ctx, int module)
{
    struct tr_run *r = ctx;

    tr_timers_own_pause();
    tr_exec_enter(&r->stage, module);
    tr_timers_own_resume();
}

static void leave(void *ctx, int module)
{
    struct tr_run *r = ctx;

    (void)module;
    tr_timers_own_pause();
    tr_exec_leave(&r->stage);
    tr_timers_own_resume();
}

static void move(void *ctx, const struct tr_instr *in)
{
    struct tr_run *r = ctx;

    if (in->kind == TR_FETCH && r->model.params.slots > 0)
        tr_params_seat(&r->model.params, in->item, in->window);
    tr_dp_move(&r->dp, in);
}

static struct tr_tensor whole_message(struct tr_run *r, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tr_chunk *c = r->chunk[at.chunk];

    switch (leg) {
    case TR_SEND_FWD:
        return tr_chunk_output(c, at.micro);
    case TR_RECV_FWD:
        return tr_chunk_input(c, at.micro);
    case TR_SEND_BWD:
        return tr_chunk_dinput(c, at.micro);
    default:
        TR_ASSERT(leg == TR_RECV_BWD);
        return tr_chunk_doutput(c, at.micro);
    }
}

/* Whether every tensor rank has the same message, so that each needs to send but a part of it
   (Narayanan et al., SC 2021, section 4.1).  With sequence parallelism each has its own rows.  W
   divides H, since it divides the heads. */
static void count(struct tr_run *r, enum tr_leg_bit leg, int64_t bytes, int64_t numbers)
{
    if (leg & (TR_SEND_FWD | TR_SEND_BWD) && r->model.training)
        tr_traffic_add(&r->traffic,
                       leg == TR_SEND_FWD ? TR_TRAFFIC_PP_FORWARD : TR_TRAFFIC_PP_BACKWARD, bytes,
                       numbers);
}

static struct tr_tensor message(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tr_run *r = ctx;
    struct tr_tensor whole = whole_message(r, at, leg), t = whole;
    const bool scattered = tr_run_scatters(r, &whole);
    const int64_t numbers = tr_tensor_elems(&whole) / (scattered ? r->shape.layout.w : 1);

    if (!tr_links_message(r->links, at, leg, scattered, &t) && scattered)
        t = tr_tensor_span(&whole, r->grid.at.tp * numbers, numbers);
    count(r, leg, tr_tensor_bytes(&t), numbers);
    return t;
}

static void arrived(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tr_run *r = ctx;
    struct tr_tensor t = whole_message(r, at, leg);

    const bool scattered = tr_run_scatters(r, &t);

    if (!tr_links_arrived(r->links, leg, scattered) && scattered)
        r->grid.tp.via->allgather(&r->grid.tp, &r->queue, &t);
}

static void pass(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tr_run *r = ctx;
    struct tr_tensor t = whole_message(r, at, leg);

    tr_links_pass(r->links, at, leg, &t);
}

static void hand(void *ctx, struct tr_slot from, enum tr_leg_bit out, struct tr_slot to,
                 enum tr_leg_bit in)
{
    struct tr_run *r = ctx;
    struct tr_tensor y = whole_message(r, to, in);
    const struct tr_tensor x = whole_message(r, from, out);

    r->queue.on->copy(&r->queue, &y, &x);
}

static void after_layer(void *ctx)
{
    struct tr_run *r = ctx;

    tr_timers_own_pause();
    tr_exec_poll(&r->stage);
    tr_dp_poll(&r->dp);
    tr_timers_own_resume();
}

static bool meanwhile(void *ctx)
{
    struct tr_run *r = ctx;

    return tr_dp_poll(&r->dp);
}

void tr_step_connect(struct tr_run *r)
{
    r->model.ctx = r;
    r->model.enter = enter;
    r->model.leave = leave;
    r->stage = (struct tr_stage){
        .ctx = r,
        .forward = forward,
        .backward = backward,
        .weights = weights,
        .message = message,
        .arrived = arrived,
        .hand = hand,
        .pack = r->links ? pass : NULL,
        .unpack = r->links ? pass : NULL,
        .meanwhile = meanwhile,
        .move = move,
    };
    r->model.after_layer = after_layer;
}

/* All-reduce the loss over the replicas. */
static void reduce_loss(struct tr_run *r)
{
    struct tr_chunk *last = r->chunk[r->shape.layout.k - 1];
    struct tr_tensor sum = tr_chunk_loss(last);

    tr_timers_own_pause();
    if (tr_chunk_has_loss(last))
        r->grid.dp.via->allreduce(&r->grid.dp, &r->queue, &sum, TR_SUM);
    tr_timers_own_resume();
}

/* The mean over `micros` micro-batches of each replica. */
static double take_loss(struct tr_run *r, int64_t micros)
{
    struct tr_chunk *last = r->chunk[r->shape.layout.k - 1];

    if (!tr_chunk_has_loss(last))
        return 0.0;
    return tr_chunk_take_loss(last) / ((double)micros * r->shape.layout.d);
}

/* What a rank sends of `x` in an all-reduce on the ring of the two stages. */
static void count_tied(struct tr_run *r, const struct tr_tensor *x)
{
    const int size = r->grid.embed.size;
    const int64_t n = tr_tensor_elems(x) / size * (size - 1) * 2;

    tr_traffic_add(&r->traffic, TR_TRAFFIC_PP_EMBEDDING, n * tr_dtype_bytes(x->dtype), n);
}

/* The elements that own[i] and the region have in common. */
static struct tr_bucket common(const struct tr_bucket *own, const struct tr_region *r)
{
    const int64_t first = own->first > r->first ? own->first : r->first;
    const int64_t own_end = own->first + own->count, r_end = r->first + r->count;

    return (struct tr_bucket){first, (own_end < r_end ? own_end : r_end) - first};
}

/* The first and the last stage each have part of the gradient of the one word embedding, and a
   replica owns the same part of it on both (model/param.h). */
static void sum_tied_embedding(struct tr_run *r)
{
    const struct tr_params *ps = &r->model.params;

    for (int k = tr_regions_from(ps, tr_params_tied(ps)); k < ps->regions; k++)
        for (int i = 0; i < r->dp.owns && !ps->region[k].padding; i++) {
            const struct tr_bucket part = common(&r->dp.own[i], &ps->region[k]);
            struct tr_tensor g;

            if (part.count <= 0)
                continue;
            g = tr_dp_grads(&r->dp, i);
            g = tr_tensor_span(&g, part.first - r->dp.own[i].first, part.count);
            r->grid.embed.via->allreduce(&r->grid.embed, &r->queue, &g, TR_SUM);
            count_tied(r, &g);
        }
}

double tr_step_lr(const struct tr_run *r)
{
    return tr_lr_at(&r->shape.lr_schedule, (double)r->lr_samples);
}

enum tr_status tr_step_residency(struct tr_run *r, struct tr_sched *s)
{
    struct tr_residency how;

    if (r->only)
        return TR_OK;
    tr_dp_residency(&r->dp, &how);
    r->model.fresh = how.reduce == TR_REDUCE_EACH;
    return tr_residency_add(&how, s);
}

/* Memory is planned for the largest number of micro-batches; only the schedule changes. */
static void begin_batch(struct tr_run *r)
{
    const struct tr_shape *s = &r->shape;
    int micros;

    r->global_batch = tr_batches_at(&s->batches, r->consumed_train);
    micros = (int)(r->global_batch / s->batches.unit);
    if (micros == r->micros)
        return;
    r->micros = micros;
    tr_sched_release(&r->train_list);
    r->train_list = r->eval_list;
    r->train_list.kind = (enum tr_sched_kind)s->layout.schedule;
    r->train_list.micros = micros;
    if (tr_sched_build(&r->train_list) != TR_OK || tr_step_residency(r, &r->train_list) != TR_OK)
        tr_die(TR_ERESOURCE, "%s", tr_last_error());
}

static void begin_links(struct tr_run *r)
{
    const struct tr_links_step step = {
        .training = r->model.training,
        .iteration = r->iteration,
        .first_sample = r->first_sample,
        .global_batch = r->global_batch,
        .micros = r->micros,
        .gradient_parts = tr_run_gradient_parts(r),
    };

    tr_links_begin(r->links, &step);
}

/* Of what this rank owns, where it keeps the gradients of nothing else. */
static void sum_parts(struct tr_run *r)
{
    const struct tr_bucket all = {0, r->model.params.size};

    if (r->dp.stays > 0)
        tr_model_sum_parts(&r->model, r->dp.own, r->dp.stays, &r->dp.grads_here);
    if (r->dp.grads.data)
        tr_model_sum_parts(&r->model, r->dp.own + r->dp.stays, r->dp.owns - r->dp.stays,
                           &r->dp.grads);
    else
        tr_model_sum_parts(&r->model, &all, 1, &r->model.params.grads);
}

void tr_step_gradients(struct tr_run *r)
{
    begin_batch(r);
    r->split = TR_SPLIT_TRAIN;
    r->first_sample = r->consumed_train;
    r->model.training = true;
    begin_links(r);
    tr_timer_start(TR_TIMER_FORWARD_BACKWARD);
    tr_dp_begin(&r->dp, r->micros);
    r->stage.idle = !tr_dp_reduces(&r->dp);
    tr_exec_step(&r->train_list, &r->grid.pp, &r->queue, &r->stage);

    tr_timer_start(TR_TIMER_PARAMS_ALL_REDUCE);
    tr_exec_settle(&r->stage);
    r->masters_changed = tr_dp_finish(&r->dp);
    sum_parts(r);
    tr_timer_stop(TR_TIMER_PARAMS_ALL_REDUCE);

    /* Part of the forward pass in Megatron's accounts.  After the sums, whose bytes it would wait
       for. */
    tr_timer_start(TR_TIMER_FORWARD_COMPUTE);
    reduce_loss(r);
    tr_timer_stop(TR_TIMER_FORWARD_COMPUTE);

    tr_timer_start(TR_TIMER_EMBEDDING_ALL_REDUCE);
    sum_tied_embedding(r);
    tr_timer_stop(TR_TIMER_EMBEDDING_ALL_REDUCE);
    tr_timer_stop(TR_TIMER_FORWARD_BACKWARD);
}

double tr_step_loss(struct tr_run *r)
{
    return take_loss(r, r->micros);
}

static double zeros(struct tr_run *r)
{
    const struct tr_dims *m = &r->shape.dims;
    const double padding = tr_count_parameters(m, true) - tr_count_parameters(m, false);
    double sum;

    tr_timer_start(TR_TIMER_OPTIMIZER);
    tr_timer_start(TR_TIMER_COUNT_ZEROS);
    sum = tr_stat_zeros(&r->optim, tr_dp_owners(&r->dp), &r->queue, (int64_t)padding);
    tr_timer_stop(TR_TIMER_COUNT_ZEROS);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    return sum;
}

static void tell_overflow(const struct tr_run *r)
{
    tr_log_rank0(
        TR_LOG_WARNING,
        "gradients of iteration %lld are not finite in fp16, in which replicas sum them, so "
        "it updates nothing: if that goes on, give --dp-wire bf16, or same",
        (long long)r->iteration + 1);
}

/* Gradients that are not finite are usual where a lower loss scale may help, and wanted where they are not checked. */
static bool is_unusual(const struct tr_run *r)
{
    const struct tr_scaler *s = &r->scaler;

    return r->config->check_for_nan_in_loss_and_grad &&
           (!r->config->fp16 || !s->dynamic || s->scale <= s->min_scale);
}

static void average(void *ctx, const struct tr_tensor *moments)
{
    struct tr_run *r = ctx;

    tr_dp_share_moments(&r->dp, moments);
}

void tr_step(struct tr_run *r, struct tr_step_result *out)
{
    struct tr_optim_how how = {
        .lr = tr_step_lr(r),
        .decay = tr_wd_at(&r->shape.lr_schedule, (double)r->lr_samples),
        .loss_scale = r->scaler.scale,
        .check = r->config->fp16 || tr_dp_overflows(&r->dp),
        .average = tr_dp_shares_moments(&r->dp) ? average : NULL,
        .ctx = r,
    };
    struct tr_optim_result done;

    tr_step_gradients(r);
    out->zeros = r->count_zeros ? zeros(r) : -1.0;
    done = tr_optim_norm(&r->optim, tr_dp_owners(&r->dp), &r->queue, &how);
    out->grad_norm = tr_dp_settle(&r->dp, done.norm, &done.skipped);
    out->loss = tr_step_loss(r);
    if (r->optim.clip > 0.0 || how.check)
        tr_timers_settle(); /* the norm has been waited for */
    if (done.skipped && tr_dp_overflows(&r->dp) && tr_dp_reduces(&r->dp))
        tell_overflow(r);
    out->origin = (struct tr_origin){.kind = TR_ORIGIN_NONE};
    out->unusual = done.skipped && is_unusual(r);
    if (out->unusual)
        tr_origin_gradients(r, &out->origin);
    if (done.skipped && !tr_dp_reduces(&r->dp))
        done.idle = done.all = true; /* replicas skip a step together */
    tr_optim_update(&r->optim, &r->queue, &how, &done);
    if (!done.idle)
        tr_dp_publish(&r->dp);
    else if (r->masters_changed)
        tr_optim_publish(&r->optim, &r->queue);
    out->skipped = done.skipped;
    tr_scaler_update(&r->scaler, done.skipped);
    if (!done.skipped)
        r->lr_samples += r->global_batch;
    r->consumed_train += r->global_batch;
}

void tr_step_pass(struct tr_run *r, struct tr_step_result *out)
{
    begin_batch(r);
    r->consumed_train += r->global_batch;
    r->passed_train += r->global_batch;
    *out = (struct tr_step_result){.skipped = true};
}

void tr_step_forward(struct tr_run *r, int64_t first)
{
    r->model.training = false;
    r->first_sample = first;
    begin_links(r);
    r->stage.idle = true;
    tr_exec_step(&r->eval_list, &r->grid.pp, &r->queue, &r->stage);
}

double tr_eval(struct tr_run *r, enum tr_split split, int64_t first, int64_t iterations)
{
    double loss;

    tr_timers_pause(true);
    r->split = split;
    for (int64_t i = 0; i < iterations; i++)
        tr_step_forward(r, first + i * r->shape.batches.global_batch);
    reduce_loss(r);
    loss = take_loss(r, r->shape.batches.micros * iterations);
    tr_timers_pause(false);
    return loss;
}
