/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/async.h"
#include "ckpt/ckpt.h"
#include "ckpt/path.h"
#include "config/classify.h"
#include "model/packing.h"
#include "pipeline/links.h"
#include "train/chunks.h"
#include "train/compute.h"
#include "train/transport.h"
#include "train/profile.h"
#include "train/replicas_save.h"
#include "telemetry/lines.h"
#include "train/step.h"
#include "train/logging.h"
#include "util/log.h"
#include "util/meter.h"
#include "telemetry/timer.h"
#include "weights/load.h"

static void print_timer(struct tr_run *r, enum tr_timer t)
{
    tr_logging_timers(r, &t, 1);
}

static enum tr_status open_schedules(struct tr_run *r)
{
    const struct tr_shape *s = &r->shape;

    r->micros = s->batches.micros;
    r->global_batch = s->batches.global_batch;
    r->train_list = (struct tr_sched){
        .kind = (enum tr_sched_kind)s->layout.schedule,
        .ranks = s->layout.p,
        .rank = r->grid.at.pp,
        .chunks = s->layout.k,
        .micros = s->batches.micros,
        .group = s->layout.group,
        .vee = s->layout.vee,
        .overlap = r->config->overlap_p2p_communication,
    };
    if (r->only)
        r->train_list.kind = TR_SCHED_EVAL;
    /* A dry run needs the buffers of the list, and not its length. */
    if (!r->world)
        r->train_list.micros = tr_sched_short(&r->train_list);
    r->eval_list = r->train_list;
    r->eval_list.kind = TR_SCHED_EVAL;
    TR_TRY(tr_sched_build(&r->train_list));
    return tr_sched_build(&r->eval_list);
}

/* What the chunks of this stage need: of each, slots, and of those with as many layers as an earlier one
   (kind), places of one pool. */
struct rooms {
    int *kind, *slots, *pool; /* [k] each */
};

static void room_of_list(const struct rooms *x, const struct tr_sched *like, int micros)
{
    struct tr_sched s = *like;

    s.micros = micros;
    s.micros = tr_sched_short(&s);
    if (tr_sched_build(&s) != TR_OK)
        tr_die(TR_ERESOURCE, "%s", tr_last_error());
    tr_sched_room(&s, x->kind, x->slots, x->pool);
    tr_sched_release(&s);
}

/* For every batch size of the ramp-up: where a group is left over, fewer micro-batches may need
   more. */
static struct rooms rooms_of(const struct tr_run *r)
{
    const struct tr_batches *b = &r->shape.batches;
    const int k = r->shape.layout.k, stage = r->grid.at.pp;
    struct rooms x = {.kind = calloc(3 * (size_t)k, sizeof *x.kind)};

    if (!x.kind)
        tr_die(TR_ERESOURCE, "no memory left for the slots of %d model chunks", k);
    x.slots = x.kind + k;
    x.pool = x.slots + k;
    for (int i = 0; i < k; i++)
        while (tr_layout_layers(&r->shape.layout, stage, x.kind[i]) !=
               tr_layout_layers(&r->shape.layout, stage, i))
            x.kind[i]++;
    for (int64_t i = 0; i <= tr_batches_increments(b); i++)
        room_of_list(&x, &r->train_list, (int)(tr_batches_step(b, i) / b->unit));
    room_of_list(&x, &r->eval_list, r->eval_list.micros);
    return x;
}

static void open_chunks(struct tr_run *r)
{
    const struct rooms x = rooms_of(r);

    r->chunk = calloc((size_t)r->shape.layout.k, sizeof(struct tr_chunk *));
    if (!r->chunk)
        tr_die(TR_ERESOURCE, "no memory left for the list of model chunks");
    for (int i = 0; i < r->shape.layout.k; i++) {
        const struct tr_chunk_room room = {
            .slots = x.slots[i],
            .inputs = r->train_list.inputs,
            .outputs = r->train_list.outputs,
            .dinputs = r->train_list.dinputs,
            .doutputs = r->train_list.doutputs,
            .pool = x.pool[i],
        };

        r->chunk[i] = tr_chunk_open(&r->model, r->grid.at.pp, i, room,
                                    x.kind[i] < i ? r->chunk[x.kind[i]] : NULL);
    }
    free(x.kind);
}

enum tr_dtype tr_run_dtype(const struct tr_precision *p)
{
    return !p->half ? TR_F32 : p->bf16 ? TR_BF16 : TR_F16;
}

static void open_model(struct tr_run *r)
{
    const struct tr_config *c = r->config;

    r->model = (struct tr_model){
        .dims = &r->shape.dims,
        .layout = &r->shape.layout,
        .activations = &r->shape.activations,
        .micro_batch = r->shape.batches.micro_batch,
        .tokens = r->only && r->only->block > 0 ? r->only->block : r->shape.dims.seq,
        .keys = r->only ? r->only->keys : 0,
        .tp = {.comm = &r->grid.tp,
               .sequence = r->shape.activations.sequence,
               .overlap = r->shape.layout.overlap_tensor},
        .q = &r->queue,
        .seed = (uint64_t)c->seed,
        .attention_dropout = r->shape.dropout.attention,
        .hidden_dropout = r->shape.dropout.hidden,
        .norm = {.eps = (float)r->shape.dims.family.eps,
                 .rms = r->shape.dims.family.rms,
                 .one = r->shape.dims.family.one},
        .graphs = !r->only && c->cuda_graph_impl == TR_GRAPHS_LOCAL && r->queue.on &&
                  r->queue.on->capture,
        .type = tr_run_dtype(&r->shape.precision),
        .mask_rule = {.eod = (int32_t)r->shape.dims.eod,
                      .loss = c->eod_mask_loss,
                      .within = c->loss_within_samples,
                      .positions = c->reset_position_ids,
                      .attention = c->reset_attention_mask},
        .forward_only = r->only != NULL,
        .split = r->train_list.split,
        .picks = r->only && r->only->picks,
        .stream = r->shape.precision.stream_fp32 ? TR_F32 : tr_run_dtype(&r->shape.precision),
    };
    tr_params_list(&r->shape.dims, &r->shape.layout, r->grid.at.tp, r->grid.at.pp,
                   &r->model.params);
    tr_model_open(&r->model);
    open_chunks(r);
}

/* Only fp16 has a loss scale; where there is none the log shows 1.0. */
static void open_scaler(struct tr_run *r)
{
    const struct tr_config *c = r->config;

    if (!c->fp16)
        tr_scaler_init_static(&r->scaler, 1.0);
    else if (c->loss_scale > 0.0)
        tr_scaler_init_static(&r->scaler, c->loss_scale);
    else
        tr_scaler_init_dynamic(&r->scaler, c->initial_loss_scale, c->min_loss_scale,
                               (int)c->loss_scale_window, (int)c->hysteresis);
}

/* What is chosen from, on ranks with the head, and what was chosen. */
static void plan_choice(struct tr_run *r)
{
    const int64_t samples = r->shape.batches.micro_batch * r->eval_list.micros;
    const int64_t vocab = r->shape.dims.vocab_padded;

    if (!r->only || !r->only->picks)
        return;
    r->chosen = tr_i32_1(
        tr_arena_take(&r->arena, TR_LABEL_LOGITS, (size_t)samples * sizeof(int32_t)), samples);
    if (tr_chunk_has_loss(r->chunk[r->shape.layout.k - 1]))
        r->picked =
            tr_f32_1(tr_arena_floats(&r->arena, TR_LABEL_LOGITS, samples * vocab), samples * vocab);
}

/* What depends on how many tokens of a sample a pass has. */
static void plan_pass(struct tr_run *r)
{
    tr_model_plan(&r->model, &r->arena);
    for (int i = 0; i < r->shape.layout.k; i++)
        tr_chunk_plan(r->chunk[i], &r->arena);
}

void tr_run_tokens(struct tr_run *r, int64_t tokens)
{
    TR_ASSERT(r->only && tokens <= r->only->block);
    if (tokens == r->model.tokens)
        return;
    r->arena = r->fixed;
    r->model.tokens = tokens;
    plan_pass(r);
}

static struct tr_ckpt_tensors tensors_of(struct tr_run *r, bool states);

/* What --save takes of this rank.  A rank of a mode in which not all save has none. */
static struct tr_ckpt_tensors saved_of(struct tr_run *r)
{
    struct tr_ckpt_tensors t = tensors_of(r, !r->config->no_save_optim);

    if (!tr_dp_saves(&r->dp))
        t.spans = 0;
    return t;
}

static int64_t snapshot_elems(const struct tr_run *r, const struct tr_ckpt_tensors *tensors)
{
    return tr_ckpt_async_elems(&r->grid, &r->shape.dims, tensors, !r->config->no_save_optim);
}

static void plan_snapshot(struct tr_run *r)
{
    struct tr_ckpt_tensors tensors;
    int64_t alone;

    if (!r->config->async_save || r->config->save_interval == TR_UNSET_INT || r->only)
        return;
    tensors = saved_of(r);
    r->snapshot_elems = snapshot_elems(r, &tensors);
    /* Replicas share what they save until they diverge; then the first one saves it all. */
    if (r->shape.dp.diverges && r->grid.at.dp == 0) {
        tensors.sharded = true;
        alone = snapshot_elems(r, &tensors);
        r->snapshot_elems = alone > r->snapshot_elems ? alone : r->snapshot_elems;
    }
    r->snapshot = tr_arena_floats(&r->host, TR_LABEL_SNAPSHOT, r->snapshot_elems);
}

/* One pass over everything that takes memory; runs dry, then for real. */
static void plan_memory(struct tr_run *r)
{
    enum tr_dtype type = r->model.type;

    r->arena.list = r->arena.base && r->config->memory_tracker ? &r->buffers : NULL;
    tr_params_plan(&r->model.params, &r->arena, type, r->shape.precision.grads_fp32 ? TR_F32 : type,
                   !r->only);
    tr_optim_plan(&r->optim, &r->arena, &r->host, type, !r->only);
    tr_model_plan_tables(&r->model, &r->arena);
    for (int i = 0; r->only && i < r->shape.layout.k; i++)
        tr_chunk_plan_cache(r->chunk[i], &r->arena, r->eval_list.micros);
    plan_choice(r);
    r->fixed = r->arena;
    plan_pass(r);
    for (int i = 0; i < r->shape.layout.k; i++)
        tr_chunk_plan_host(r->chunk[i], &r->host);
    tr_links_plan(r->links, &r->arena);
    tr_dp_plan(&r->dp, &r->arena, &r->host);
    r->optim.grads = r->dp.grads;
    r->optim.grads_here = r->dp.grads_here;
    plan_snapshot(r);
}

/* Rank 0 prints the plan of rank `whose`, since lines of several ranks would arrive in any order. */
static void report_plan(struct tr_run *r, int whose)
{
    enum { WORDS = 1024 };
    int32_t text[WORDS] = {0};
    struct tr_tensor words = tr_i32_1(text, WORDS);
    FILE *f = fmemopen(text, sizeof text - 1, "w");

    if (!f)
        tr_die(TR_ERESOURCE, "no memory left for the report of the memory plan");
    fprintf(f, "memory plan of rank %d:\n", r->world->rank);
    tr_arena_report(&r->arena, f);
    if (r->host.used_bytes > 0) {
        fprintf(f, "memory plan of rank %d, host:\n", r->world->rank);
        tr_arena_report(&r->host, f);
    }
    if (tr_optim_file_bytes(&r->optim) > 0)
        fprintf(f, "  %-24s %12.2f MiB\n", "optimizer, files",
                (double)tr_optim_file_bytes(&r->optim) / 1048576.0);
    tr_transport_report(r, f);
    fclose(f);
    r->world->via->broadcast(r->world, NULL, &words, whose);
    tr_notice_rank0("%s", (const char *)text);
}

enum { DRAWN_AT_ONCE = 1 << 20 };

static int64_t drawn_at_once(int64_t left)
{
    return left < DRAWN_AT_ONCE ? left : DRAWN_AT_ONCE;
}

static void draw(struct tr_run *r, int64_t first, int64_t count, float *out, struct tr_meter *m)
{
    for (int64_t at = 0, n; at < count; at += n) {
        n = drawn_at_once(count - at);
        tr_params_draw(&r->model.params, &r->shape.dims, (uint64_t)r->config->seed,
                       r->config->init_method_std, r->config->init_weights,
                       r->queue.on->threads(r->device), first + at, n, out + at);
        tr_meter_add(m, n);
    }
}

/* For masters that are no memory of the host: a piece at a time.  Element `first` is number `state` of those that
   this rank owns. */
static void draw_apart(struct tr_run *r, int64_t first, int64_t state, int64_t all,
                       struct tr_meter *m)
{
    float *piece = malloc((size_t)drawn_at_once(all) * sizeof *piece);

    if (!piece)
        tr_die(TR_ERESOURCE, "no memory left to draw weights in");
    for (int64_t at = 0, count; at < all; at += count) {
        count = drawn_at_once(all - at);
        draw(r, first + at, count, piece, m);
        tr_optim_put(&r->optim, TR_ROW_MASTER, state + at, count, piece);
    }
    free(piece);
}

/* The weights that the seed stands for, where this rank owns them. */
static void draw_weights(struct tr_run *r)
{
    struct tr_meter meter = {0}, *m = r->world->rank == 0 ? &meter : NULL;
    int64_t state = 0;

    for (int i = 0; i < r->optim.owns; i++)
        state += r->optim.own[i].count;
    tr_meter_start_count(&meter, "drawing weights:", "numbers", state);
    state = 0;
    for (int i = 0; i < r->optim.owns; i++) {
        const struct tr_bucket *own = &r->optim.own[i];
        struct tr_tensor masters;

        if (r->queue.on->apart || r->optim.beside) {
            draw_apart(r, own->first, state, own->count, m);
        } else {
            masters = tr_optim_masters(&r->optim, i);
            draw(r, own->first, own->count, tr_f32(&masters), m);
        }
        state += own->count;
    }
    (void)tr_meter_end(&meter);
}

/* Where it does not fit, the memory plan comes before the sentence: that of the rank whose sentence
   it is, the lowest that has not enough memory. */
static enum tr_status reserve(struct tr_run *r, void **memory, void **host)
{
    enum tr_status s = r->queue.on->reserve(r->device, r->arena.used_bytes, memory);
    int64_t lacking;

    if (s == TR_OK && r->host.used_bytes > 0)
        s = r->queue.on->reserve_host(r->device, r->host.used_bytes, host);
    lacking = tr_comm_max(r->world, s == TR_OK ? 0 : r->world->size - r->world->rank);
    if (lacking > 0)
        report_plan(r, (int)(r->world->size - lacking));
    return tr_comm_agree(r->world, s);
}

static enum tr_status open_memory(struct tr_run *r)
{
    void *memory = NULL, *host = NULL;

    tr_arena_init(&r->arena);
    tr_arena_init(&r->host);
    plan_memory(r);
    TR_TRY(reserve(r, &memory, &host));
    tr_transport_register(r);
    tr_arena_open(&r->arena, memory);
    tr_arena_open(&r->host, host);
    plan_memory(r);
    tr_model_prepare(&r->model);
    /* Its pages are there before the first copy, which training waits for. */
    if (r->snapshot)
        memset(r->snapshot, 0, (size_t)r->snapshot_elems * sizeof *r->snapshot);
    if (r->config->memory_plan)
        report_plan(r, 0);
    return TR_OK;
}

static enum tr_status open_replicas(struct tr_run *r)
{
    const struct tr_dp_of of = {
        .config = r->config,
        .shape = &r->shape,
        .launch = &r->launch,
        .params = &r->model.params,
        .iteration = &r->iteration,
        .grid = &r->grid,
        .world = r->world,
        .transport = &r->transport,
        .queue = &r->queue,
        .host = &r->host_queue,
        .traffic = &r->traffic,
    };
    const struct tr_offload *rest = &r->shape.offload;
    struct tr_optim_places places = {
        .device = &r->queue,
        .host = &r->host_queue,
        .hosted = r->only ? 0.0 : rest->hosted,
        .weights = rest->weights,
        .gradients = rest->gradients,
        .tile = rest->tile,
        .folders = rest->folders,
        .slots = rest->slots,
        .stage = r->config->clip_grad_by_stage ? r->grid.at.pp : 0,
        .stages = r->config->clip_grad_by_stage ? r->grid.p : 1,
    };
    enum tr_status s = tr_dp_open(&of, &r->dp);

    for (int i = 0; i < r->dp.stays; i++)
        places.kept += r->dp.own[i].count;
    tr_optim_open(&r->optim, &r->model.params, r->config, r->grid.at.tp, r->dp.own, r->dp.owns,
                  &places);
    return s;
}

static enum tr_status start_optimizer(struct tr_run *r)
{
    char *name = tr_format("optimizer-%s-rank-%d", r->launch.host[r->world->rank], r->world->rank);
    enum tr_status s = tr_optim_start(&r->optim, name);

    free(name);
    return tr_comm_agree(r->world, s);
}

static enum tr_status start_replicas(struct tr_run *r)
{
    const struct tr_tensor masters = r->optim.shard.data  ? r->optim.shard
                                     : r->optim.main.data ? r->optim.main
                                                          : tr_optim_masters(&r->optim, 0);

    TR_TRY(tr_dp_start(&r->dp, &masters, &r->optim.shard_here));
    tr_chunks_tell(r);
    return TR_OK;
}

/* From the master weights that this rank owns to the model's weights on all replicas. */
static void publish(struct tr_run *r)
{
    tr_optim_publish(&r->optim, &r->queue);
    tr_dp_gather(&r->dp);
}

/* Drawing takes longer than reading, so nothing is drawn where a checkpoint comes. */
static void begin_anew(struct tr_run *r)
{
    draw_weights(r);
    publish(r);
}

static void access_optimizer(void *ctx, int kind, int64_t at, int64_t count, float *x, bool put)
{
    struct tr_run *r = ctx;

    if (put)
        tr_optim_put(&r->optim, kind, at, count, x);
    else
        tr_optim_get(&r->optim, kind, at, count, x);
}

static void peek_optimizer(void *ctx, int kind, int64_t at, int64_t count, float *to)
{
    struct tr_run *r = ctx;

    tr_optim_peek(&r->optim, kind, at, count, to);
}

static int64_t tile_of_optimizer(void *ctx, int64_t at)
{
    const struct tr_run *r = ctx;

    return tr_optim_tile_end(&r->optim, at);
}

/* Without the optimizer's states where they are neither loaded nor saved.  Of replicas that diverged only the
   first is saved in the file. */
static struct tr_ckpt_tensors tensors_of(struct tr_run *r, bool states)
{
    const bool parted = r->dp.diverged, apart = tr_optim_apart(&r->optim);

    struct tr_ckpt_tensors t = {
        .params = &r->model.params,
        .q = &r->queue,
        .access = apart ? access_optimizer : NULL,
        .peek = apart && tr_optim_at_hand(&r->optim) ? peek_optimizer : NULL,
        .tile_end = tr_optim_in_files(&r->optim) ? tile_of_optimizer : NULL,
        .ctx = r,
        .states = states,
        .value = r->optim.main.data ? r->optim.main : r->model.params.values,
        .value_flat = !r->optim.main.data && !apart,
        .sharded = r->optim.owned < r->model.params.size || parted,
        .spans = parted && r->grid.at.dp > 0 ? 0 : r->optim.owns,
        .span = r->optim.own,
        /* Where replicas diverge an exchange changes weights, too. */
        .claimed = !r->shape.dp.diverges,
    };

    if (r->dp.owners.size > 0) {
        t.once = &r->dp.owners;
        t.shards = &r->dp.sums;
    }

    for (int i = 0; i < TR_STATES && states && !apart; i++)
        t.state[i] = r->optim.state[i];
    return t;
}

static struct tr_ckpt_how how_to_load(const struct tr_config *c)
{
    return (struct tr_ckpt_how){
        .step = c->ckpt_step == TR_UNSET_INT ? -1 : c->ckpt_step,
        .must = c->exit_on_missing_checkpoint,
        .begins = c->load && c->save && tr_same_place(c->load, c->save),
        .finetune = c->finetune,
        .any_order = c->skip_train,
        .schedule = c->override_opt_param_scheduler         ? TR_SCHEDULE_GIVEN
                    : c->use_checkpoint_opt_param_scheduler ? TR_SCHEDULE_STORED
                                                            : TR_SCHEDULE_SAME,
    };
}

/* The state that belongs to the moments: without them it stays that of a new run. */
static void resume_optimizer(struct tr_run *r, const struct tr_ckpt_state *state)
{
    r->lr_samples = state->lr_samples;
    r->optim.steps = state->adam_steps;
    if (!r->scaler.dynamic || state->loss_scale <= 0.0)
        return;
    r->scaler.scale = state->loss_scale;
    r->scaler.growth_tracker = state->growth_tracker;
    r->scaler.hysteresis_tracker = state->hysteresis_tracker;
}

/* The kernels on which the bits of this run depend. */
static const char *kernels_of(const struct tr_run *r)
{
    return r->queue.on->kernels(r->device, r->model.type);
}

/* A run that resumes with other kernels has other bits.  `config` is of
   the run that saved, as JSON, and NULL but on rank 0. */
static void tell_of_kernels(const struct tr_run *r, const char *config)
{
    char *theirs = config ? tr_config_kernels(config) : NULL;

    if (theirs && strcmp(theirs, kernels_of(r)) != 0)
        tr_log(TR_LOG_WARNING,
               "the checkpoint was computed with %s, and this run computes with %s: it goes on, "
               "but last bits of losses are not those of one run; see --cpu-gemm and --backend",
               theirs, kernels_of(r));
    free(theirs);
}

/* What this run keeps in another form than the run that saved. */
static void tell_of_states(const struct tr_run *r, const char *config)
{
    char *theirs = config ? tr_config_stored(config, "optimizer") : NULL;
    const char *ours = tr_config_spelling("optimizer", r->config->optimizer);

    if (theirs && strcmp(theirs, ours) != 0)
        tr_notice(
            "> the checkpoint is of a run with --optimizer %s: its moments, which are fp32 in the "
            "file, go on as those of --optimizer %s\n",
            theirs, ours);
    free(theirs);
}

static bool loads_optimizer(const struct tr_config *c)
{
    return !c->finetune && !c->no_load_optim;
}

/* The tensors of a checkpoint are there: take its place in the run, and what its replicas had. */
static enum tr_status take_place(void *ctx, const char *folder, const struct tr_ckpt_state *state)
{
    struct tr_run *r = ctx;

    r->iteration = state->iteration;
    r->consumed_train = state->consumed_train_samples;
    r->consumed_valid = state->consumed_valid_samples;
    publish(r);
    return tr_replicas_load(r, loads_optimizer(r->config) ? folder : NULL);
}

/* Missing activation caches are no reason to take an older checkpoint: without them links send
   more. */
static enum tr_status load_links(struct tr_run *r)
{
    char *folder = tr_ckpt_folder(r->config->load, r->iteration);
    char *prefix = tr_format("%s/" TR_CKPT_SIDECAR, folder);
    enum tr_status s = r->config->finetune ? TR_OK : tr_links_load(r->links, prefix);

    free(prefix);
    free(folder);
    return s;
}

static enum tr_status save_links(void *ctx, const char *folder)
{
    char *prefix = tr_format("%s/" TR_CKPT_SIDECAR, folder);
    enum tr_status s = tr_links_save(ctx, prefix);

    free(prefix);
    return s;
}

/* What a checkpoint keeps of the links, in *out; NULL if nothing.  How much of their memories is in use by
   now is for codecs to know. */
static const struct tr_ckpt_sidecar *links_sidecar(struct tr_run *r, struct tr_ckpt_sidecar *out)
{
    if (!tr_links_remember(r->links))
        return NULL;
    *out = (struct tr_ckpt_sidecar){.write = save_links, .ctx = r->links};
    (void)tr_links_saved_bytes(r->config, &r->shape, &out->files);
    return out;
}

/* In one line, where those of ckpt/load.c are left out. */
static void tell_load(const struct tr_run *r, bool found)
{
    if (found)
        tr_notice_rank0("loaded checkpoint from %s at iteration %lld\n", r->config->load,
                        (long long)r->iteration);
    else
        tr_notice_rank0("there is no checkpoint in %s, so training begins with new weights\n",
                        r->config->load);
}

static void end_load(struct tr_run *r)
{
    tr_timer_stop(TR_TIMER_LOAD_CHECKPOINT);
    print_timer(r, TR_TIMER_LOAD_CHECKPOINT);
}

/* Weights of others begin a run, as those of a checkpoint do with --finetune. */
static enum tr_status load_weights(struct tr_run *r)
{
    const struct tr_ckpt_tensors tensors = tensors_of(r, false);
    const struct tr_ckpt_state state = {0};

    if (r->shape.dims.head == TR_HEAD_CLASSES)
        draw_weights(r);
    TR_TRY(tr_weights_load(&r->grid, r->config->load, r->config->load_config, &r->shape.dims,
                           &tensors, &r->source));
    end_load(r);
    if (tr_logging_is_brief(r) && !r->only)
        tr_notice_rank0("loaded weights from %s\n", r->source);
    return take_place(r, NULL, &state);
}

static enum tr_status load_checkpoint(struct tr_run *r)
{
    const struct tr_opener by = tr_share_opener(&r->share);
    struct tr_ckpt_how how = how_to_load(r->config);
    bool optimizer = loads_optimizer(r->config), found = false;
    struct tr_ckpt_tensors tensors = tensors_of(r, optimizer);
    struct tr_ckpt_state state = {0};
    char *config = NULL;

    how.by = &by;
    how.config = &config;
    how.source = &r->source;
    how.loaded = &r->loaded;
    how.also = take_place;
    how.ctx = r;
    TR_TRY(tr_ckpt_load(&r->grid, r->config->load, &how, &r->shape, &tensors, &state, &found));
    end_load(r);
    if (tr_logging_is_brief(r) && !r->only)
        tell_load(r, found);
    if (!found) {
        begin_anew(r);
        return TR_OK;
    }
    if (!r->config->finetune)
        tell_of_kernels(r, config);
    if (optimizer)
        tell_of_states(r, config);
    free(config);
    if (optimizer)
        resume_optimizer(r, &state);
    return load_links(r);
}

enum tr_status tr_run_load(struct tr_run *r)
{
    if (!r->config->load)
        return TR_OK;
    tr_timer_start(TR_TIMER_LOAD_CHECKPOINT);
    return tr_weights_lead(r->world, r->config->load) ? load_weights(r) : load_checkpoint(r);
}

static struct tr_ckpt_state state_of(const struct tr_run *r)
{
    return (struct tr_ckpt_state){
        .iteration = r->iteration,
        .consumed_train_samples = r->consumed_train,
        .consumed_valid_samples = r->consumed_valid,
        .lr_samples = r->lr_samples,
        .adam_steps = r->optim.steps,
        .loss_scale = r->scaler.dynamic ? r->scaler.scale : 0.0,
        .growth_tracker = r->scaler.growth_tracker,
        .hysteresis_tracker = r->scaler.hysteresis_tracker,
    };
}

/* Save now where `out` is NULL, and else begin to. */
static enum tr_status save(struct tr_run *r, struct tr_ckpt_async **out)
{
    const struct tr_config *c = r->config;
    const struct tr_ckpt_tensors tensors = saved_of(r);
    const struct tr_ckpt_state state = state_of(r);
    char *json = tr_config_get_json(c, kernels_of(r));
    struct tr_ckpt_sidecar links, replicas;
    const struct tr_ckpt_sidecar *sidecars =
        tr_replicas_sidecar(r, &replicas, links_sidecar(r, &links));
    enum tr_status s;

    tr_dp_arrive(&r->dp);
    r->queue.on->wait(&r->queue);
    tr_timer_start(TR_TIMER_SAVE_CHECKPOINT);
    if (out)
        s = tr_ckpt_async_begin(&r->grid, c->save, &state, &tensors, &r->shape, json, r->source,
                                (int)c->keep_last, sidecars, r->snapshot, r->snapshot_elems, out);
    else
        s = tr_ckpt_save(&r->grid, c->save, &state, &tensors, &r->shape, json, r->source,
                         (int)c->keep_last, sidecars);
    tr_timer_stop(TR_TIMER_SAVE_CHECKPOINT);
    free(json);
    if (s == TR_OK)
        print_timer(r, TR_TIMER_SAVE_CHECKPOINT);
    return s;
}

enum tr_status tr_run_save(struct tr_run *r)
{
    return save(r, NULL);
}

enum tr_status tr_run_save_async(struct tr_run *r, struct tr_ckpt_async **out)
{
    TR_TRY(save(r, out));
    tr_optim_warn(&r->optim, tr_ckpt_async_claim, *out);
    return TR_OK;
}

enum tr_status tr_run_end_async(struct tr_run *r, struct tr_ckpt_async *a)
{
    const enum tr_status s = tr_ckpt_async_end(a);

    tr_optim_warn(&r->optim, NULL, NULL);
    return s;
}

static enum tr_status sample_of_data(struct tr_run *r, enum tr_split split, int64_t position,
                                     int32_t *text)
{
    TR_TRY(tr_data_sample(r->data, split, position, text));
    /* Each sample once: where the first stage reads it. */
    if (r->config->show_data && split == TR_SPLIT_TRAIN && r->grid.at.pp == 0 && r->grid.at.tp == 0)
        tr_data_tell(r->data, position, text, r->shape.dims.seq);
    return TR_OK;
}

static int64_t id_of_data(struct tr_run *r, enum tr_split split, int64_t position)
{
    return tr_data_sample_id(r->data, split, position);
}

enum tr_status tr_run_data(struct tr_run *r)
{
    const struct tr_opener by = tr_share_opener(&r->share);

    r->sample = sample_of_data;
    r->sample_id = id_of_data;
    return tr_data_open(r->config, &r->shape, r->world, &by, &r->data);
}

static int64_t train_sample_id(void *ctx, int64_t position)
{
    struct tr_run *r = ctx;
    const int64_t id = r->sample_id ? r->sample_id(r, TR_SPLIT_TRAIN, position) : -1;

    return id < 0 ? position : id;
}

static enum tr_status open_links(struct tr_run *r)
{
    const struct tr_links_of of = {
        .config = r->config,
        .shape = &r->shape,
        .launch = &r->launch,
        .grid = &r->grid,
        .world = r->world,
        .queue = &r->queue,
        .traffic = &r->traffic,
        .dtype = r->model.stream,
        .overlap = r->train_list.overlap,
        .sample_id = train_sample_id,
        .ctx = r,
    };

    return tr_links_open(&of, &r->links);
}

/* Checkpoints name the text that links remember, and it takes reading all of it. */
static enum tr_status start_links(struct tr_run *r)
{
    const bool named = tr_links_remember(r->links) && (r->config->save || r->config->load);
    uint64_t text = 0;

    tr_links_warn(r->config);
    if (named)
        TR_TRY(tr_data_print(r->config, &r->shape.dims, &r->shape.epochs, r->world, &text));
    return r->links ? tr_links_start(r->links, text) : TR_OK;
}

/* All that a rank works out alone. */
static enum tr_status open_parts(struct tr_run *r)
{
    TR_TRY(open_schedules(r));
    TR_TRY(tr_params_check_freeze(&r->shape.dims));
    TR_TRY(tr_packing_check(&r->shape.dims, &r->shape.layout));
    open_model(r);
    TR_TRY(open_links(r));
    TR_TRY(open_replicas(r));
    tr_step_connect(r);
    TR_TRY(tr_step_residency(r, &r->train_list));
    TR_TRY(tr_step_residency(r, &r->eval_list));
    return TR_OK;
}

/* What the model needs: ranks, device, groups. */
static enum tr_status reach(struct tr_run *r)
{
    const struct tr_shape *s = &r->shape;

    TR_TRY(tr_shape_of(r->config, r->world->size, &r->shape));
    tr_launch_read(r->world, &r->launch);
    if (r->launch.sharers > r->launch.cores)
        tr_comm_mpi_crowded(r->world);
    TR_TRY(tr_share_open(r->world, r->launch.node, &r->share));
    TR_TRY(tr_compute_open(r));
    TR_TRY(tr_profile_check(r));
    tr_profile_open(r);
    TR_TRY(tr_transport_open(r));
    return tr_grid_open(r->transport, &s->layout, &r->grid);
}

/* Groups besides those of the grid.  All there are stand before memory is reserved, and have made the first
   of all calls that they will make: a transport may take memory of the device for them. */
static enum tr_status open_groups(struct tr_run *r)
{
    TR_TRY(tr_dp_reach(&r->dp));
    TR_TRY(tr_transport_warm(r));
    tr_transport_tell(r);
    return TR_OK;
}

/* A key-value cache needs attention that knows of it, and messages that are what they seem. */
static enum tr_status check_cache(const struct tr_run *r)
{
    if (!r->only || r->only->block == 0)
        return TR_OK;
    if (!r->queue.on->attention_cached)
        return TR_FAIL(
            TR_ECONFIG,
            "--backend %s has no attention with a key-value cache: add --no-kv-cache, which "
            "computes all tokens again for each new one, or compute with --backend cpu",
            r->queue.on->name);
    return TR_OK;
}

static enum tr_status build(struct tr_run *r)
{
    double began = tr_now();

    TR_TRY(reach(r));
    TR_TRY(check_cache(r));
    r->traffic.on = r->config->log_traffic;
    tr_logging_setup(r, began);
    TR_TRY(open_parts(r));
    open_scaler(r);
    TR_TRY(open_groups(r));
    TR_TRY(open_memory(r));
    TR_TRY(start_links(r));
    TR_TRY(start_optimizer(r));
    if (!r->only)
        TR_TRY(start_replicas(r));
    if (!r->config->load)
        begin_anew(r);
    tr_logging_parameters(r);
    return TR_OK;
}

static enum tr_status open_by(enum tr_status (*make)(struct tr_run *r), struct tr_run *r,
                              const struct tr_config *config, const struct tr_forward_only *only,
                              struct tr_comm *world)
{
    enum tr_status s;

    memset(r, 0, sizeof *r);
    r->config = config;
    r->only = only;
    r->world = world;
    s = make(r);
    if (s != TR_OK)
        tr_run_close(r);
    return s;
}

enum tr_status tr_run_open(struct tr_run *r, const struct tr_config *config, struct tr_comm *world)
{
    return open_by(build, r, config, NULL, world);
}

enum tr_status tr_run_open_forward(struct tr_run *r, const struct tr_config *config,
                                   const struct tr_forward_only *only, struct tr_comm *world)
{
    if (tr_classify_labels(config) > 0)
        return TR_FAIL(
            TR_ECONFIG,
            "a model with a head of classes has no logits of tokens to score or to choose "
            "from: evaluate it with trireme train --skip-train --task-name");
    return open_by(build, r, config, only, world);
}

enum tr_status tr_run_reach(struct tr_run *r, const struct tr_config *config, struct tr_comm *world)
{
    return open_by(reach, r, config, NULL, world);
}

enum tr_status tr_run_dry(struct tr_run *r, const struct tr_config *config,
                          const struct tr_forward_only *only, const struct tr_shape *shape,
                          int rank)
{
    enum tr_status s;

    memset(r, 0, sizeof *r);
    r->config = config;
    r->only = only;
    r->shape = *shape;
    tr_grid_dry(&r->shape.layout, rank, &r->grid);
    s = open_parts(r);
    if (s == TR_OK)
        plan_memory(r);
    else
        tr_run_close(r);
    return s;
}

void tr_run_close(struct tr_run *r)
{
    tr_data_close(r->data);
    tr_dp_close(&r->dp);
    tr_optim_close(&r->optim);
    tr_links_close(r->links);
    for (int i = 0; r->chunk && i < r->shape.layout.k; i++)
        tr_chunk_close(r->chunk[i]);
    free(r->chunk);
    tr_model_close(&r->model);
    tr_sched_release(&r->train_list);
    tr_sched_release(&r->eval_list);
    tr_grid_close(&r->grid);
    tr_transport_close(r);
    free(r->transport_record);
    free(r->source);
    tr_profile_close(r);
    tr_share_close(&r->share);
    if (r->host_device)
        r->host_queue.on->close(r->host_device);
    if (r->device)
        r->queue.on->close(r->device);
    tr_launch_release(&r->launch);
    tr_arena_list_release(&r->buffers);
    memset(r, 0, sizeof *r);
}

bool tr_run_scatters(const struct tr_run *r, const struct tr_tensor *t)
{
    return r->config->scatter_gather_tensors_in_pipeline && r->shape.layout.w > 1 &&
           t->dim[0] == tr_model_rows(&r->model);
}

/* Those of the other replicas too, where sums over replicas follow. */
double tr_run_gradient_parts(const struct tr_run *r)
{
    int replicas = tr_dp_reduces(&r->dp) ? r->shape.layout.d : 1;

    return r->config->sum_gradients ? 1.0 : (double)r->micros * replicas;
}
