/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/classify.h"
#include "config/model_family.h"
#include "config/near.h"
#include "config/work.h"
#include "util/text.h"

static enum tr_status shape_ranks(const struct tr_config *c, int world, struct tr_layout *l)
{
    int64_t model = c->tensor_model_parallel_size * c->pipeline_model_parallel_size;
    char near[64];

    if (c->world_size != TR_UNSET_INT && c->world_size != world)
        return TR_FAIL(TR_ECONFIG,
                       "--world-size %lld is not the number of ranks that were started, %d: start "
                       "as many, or leave it to --dry-run",
                       (long long)c->world_size, world);
    if (world % model)
        return TR_FAIL(
            TR_ECONFIG,
            "a world size of %d rank%s is not a multiple of --tensor-model-parallel-size "
            "%lld times --pipeline-model-parallel-size %lld: start %s ranks, or "
            "change the layout",
            world, tr_plural(world), (long long)c->tensor_model_parallel_size,
            (long long)c->pipeline_model_parallel_size, tr_multiples_near(model, world, near));
    l->world = world;
    l->w = (int)c->tensor_model_parallel_size;
    l->p = (int)c->pipeline_model_parallel_size;
    l->d = (int)(world / model);
    l->tp_pp_dp = c->use_tp_pp_dp_mapping;
    l->overlap_tensor = c->async_tensor_model_parallel_allreduce;
    return TR_OK;
}

/* Whether a batch can be taken in groups of N micro-batches. */
static enum tr_status check_groups(const struct tr_layout *l, int64_t unit, bool given,
                                   int64_t batch)
{
    int64_t micros = batch / unit, left = micros % l->group;
    char near[64];

    if (given && l->group > micros)
        return TR_FAIL(TR_ECONFIG,
                       "--microbatch-group-size-per-virtual-pipeline-stage %d is more than the "
                       "%lld micro-batches of an iteration of %lld samples: give %lld at most",
                       l->group, (long long)micros, (long long)batch, (long long)micros);
    if (left != 0 && left < l->p)
        return TR_FAIL(
            TR_ECONFIG,
            "the interleaved schedule takes micro-batches in groups of %d (%s); a global batch of "
            "%lld has %lld (by --micro-batch-size * replicas), so that a group of %lld "
            "would be left, fewer than the stages: the nearest global batch size is %s",
            l->group,
            given ? "--microbatch-group-size-per-virtual-pipeline-stage"
                  : "--pipeline-model-parallel-size",
            (long long)batch, (long long)micros, (long long)left,
            tr_multiples_near(unit * l->group, batch, near));
    return TR_OK;
}

static enum tr_status shape_groups(const struct tr_config *c, const struct tr_batches *b,
                                   struct tr_layout *l)
{
    int64_t size = c->microbatch_group_size_per_virtual_pipeline_stage;

    if (size != TR_UNSET_INT && size < l->p)
        return TR_FAIL(TR_ECONFIG,
                       "--microbatch-group-size-per-virtual-pipeline-stage %lld is less than "
                       "--pipeline-model-parallel-size %d: micro-batches would come round to their "
                       "next chunk too late; give %d or more",
                       (long long)size, l->p, l->p);
    l->group = size == TR_UNSET_INT ? l->p : (int)size;
    for (int64_t i = 0; i <= tr_batches_increments(b); i++)
        TR_TRY(check_groups(l, b->unit, size != TR_UNSET_INT, tr_batches_step(b, i)));
    return TR_OK;
}

static enum tr_status shape_vee(const struct tr_config *c, const struct tr_layout *l)
{
    const char *name = tr_config_spelling("pipeline-schedule", l->schedule);

    if (l->p == 1)
        return TR_FAIL(TR_ECONFIG,
                       "--pipeline-schedule %s needs a pipeline: give "
                       "--pipeline-model-parallel-size 2 or more, or use 1f1b",
                       name);
    if (l->k != 2)
        return TR_FAIL(TR_ECONFIG,
                       "--pipeline-schedule %s has two model chunks per stage, one on the way "
                       "there and one on the way back, and the options ask for %d: leave out the "
                       "virtual stage options, or list two virtual stages for each stage",
                       name, l->k);
    if (c->microbatch_group_size_per_virtual_pipeline_stage != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--microbatch-group-size-per-virtual-pipeline-stage is for the interleaved "
                       "schedule, and %s has no groups of micro-batches: remove it",
                       name);
    return TR_OK;
}

static enum tr_status shape_schedule(const struct tr_config *c, const struct tr_batches *b,
                                     struct tr_layout *l)
{
    l->schedule = c->pipeline_schedule;
    l->group = l->p;
    if (l->schedule == TR_PIPE_ZB_V)
        return shape_vee(c, l);
    if (l->k == 1 && c->microbatch_group_size_per_virtual_pipeline_stage != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--microbatch-group-size-per-virtual-pipeline-stage is for several model "
                       "chunks per stage, and there is one: remove it, or give "
                       "--num-virtual-stages-per-pipeline-rank 2 or more");
    if (l->k == 1 && l->schedule == TR_PIPE_INTERLEAVED)
        return TR_FAIL(TR_ECONFIG, "--pipeline-schedule interleaved needs several model chunks per "
                                   "stage: give --num-virtual-stages-per-pipeline-rank 2 or more");
    if (l->k == 1)
        return TR_OK;
    if (l->schedule == TR_PIPE_GPIPE || l->schedule == TR_PIPE_ZB_H1)
        return TR_FAIL(TR_ECONFIG,
                       "--pipeline-schedule %s has one model chunk per stage, but a "
                       "virtual stage option asks for %d: remove one of the two",
                       tr_config_spelling("pipeline-schedule", l->schedule), l->k);
    if (l->p == 1)
        return TR_FAIL(TR_ECONFIG,
                       "%d model chunks per stage need a pipeline: give "
                       "--pipeline-model-parallel-size 2 or more",
                       l->k);
    l->schedule = TR_PIPE_INTERLEAVED;
    return shape_groups(c, b, l);
}

int64_t tr_state_block(const struct tr_config *c)
{
    return c->optimizer == TR_OPTIMIZER_ADAM8 ? c->adam8bit_block : 0;
}

double tr_state_bytes(int64_t state_block)
{
    return state_block > 0 ? 1.0 + 4.0 / (double)state_block : 4.0;
}

/* A tile has whole blocks, but for those that the ends of a parameter cut. */
static enum tr_status check_blocks(const struct tr_config *c, int64_t block)
{
    if (block == 0 && tr_config_changed(c, "adam8bit-block"))
        return TR_FAIL(TR_ECONFIG, "--adam8bit-block sets the blocks of --optimizer 8bit-adam, and "
                                   "the states of this optimizer are fp32: add that, or remove it");
    if (block > c->offload_tile)
        return TR_FAIL(TR_ECONFIG,
                       "--offload-tile %lld is less than --adam8bit-block %lld, and a block is "
                       "updated at one time: give %lld or more",
                       (long long)c->offload_tile, (long long)block, (long long)block);
    return TR_OK;
}

static enum tr_status shape_precision(const struct tr_config *c, const struct tr_family *f,
                                      struct tr_precision *p)
{
    if (c->fp16 && c->bf16)
        return TR_FAIL(TR_ECONFIG, "--fp16 and --bf16 are two types for the same numbers: give one "
                                   "of them");
    if (!c->fp16 && c->loss_scale > 0.0)
        return TR_FAIL(
            TR_ECONFIG,
            "--loss-scale %g keeps small gradients of fp16 from vanishing, and %s has no "
            "need of it: remove it, or add --fp16",
            c->loss_scale, c->bf16 ? "bf16" : "fp32");
    if (!c->fp16 &&
        (tr_config_changed(c, "initial-loss-scale") || tr_config_changed(c, "min-loss-scale") ||
         tr_config_changed(c, "loss-scale-window") || tr_config_changed(c, "hysteresis")))
        return TR_FAIL(
            TR_ECONFIG,
            "--initial-loss-scale, --min-loss-scale, --loss-scale-window and --hysteresis "
            "configure the loss scaling of fp16, and this run has none: remove them, or add "
            "--fp16");
    if (c->fp32_residual_connection && f->place == TR_NORM_AFTER)
        return TR_FAIL(TR_ECONFIG,
                       "--fp32-residual-connection keeps the bits of sums, and with norms after "
                       "each sublayer what goes on is a norm's output, rounded: remove it");
    p->half = c->fp16 || c->bf16;
    p->bf16 = c->bf16;
    /* As Megatron: eight bits are too few to add up many micro-batches. */
    p->grads_fp32 = c->bf16 || c->accumulate_allreduce_grads_in_fp32;
    p->stream_fp32 = c->fp32_residual_connection;
    p->state_block = tr_state_block(c);
    return check_blocks(c, p->state_block);
}

static enum tr_status shape_recompute(const struct tr_config *c, const struct tr_layout *l,
                                      struct tr_activations *a)
{
    bool full = c->recompute_granularity == TR_GRANULARITY_FULL || c->checkpoint_activations;
    bool selective =
        c->recompute_granularity == TR_GRANULARITY_SELECTIVE || c->recompute_activations;
    bool method = c->recompute_method != TR_RECOMPUTE_NONE;

    if (selective && (full || method))
        return TR_FAIL(
            TR_ECONFIG,
            "selective recomputation keeps all layers, and another option asks for whole "
            "layers to be recomputed: leave out --recompute-activations, or the other");
    if (c->distribute_checkpointed_activations && !full && !method)
        return TR_FAIL(TR_ECONFIG,
                       "--distribute-checkpointed-activations shards the inputs of recomputed "
                       "layers, and none is recomputed: add --recompute-granularity full");
    if (c->distribute_checkpointed_activations && c->sequence_parallel)
        return TR_FAIL(
            TR_ECONFIG,
            "--sequence-parallel shards the inputs of layers over tensor-parallel ranks already: "
            "remove --distribute-checkpointed-activations");
    if (full || method)
        a->recompute = method ? c->recompute_method : TR_RECOMPUTE_UNIFORM;
    a->recompute_layers = c->recompute_num_layers;
    if (a->recompute != TR_RECOMPUTE_NONE && a->recompute_layers > tr_layout_most_layers(l))
        return TR_FAIL(TR_ECONFIG,
                       "--recompute-num-layers %lld is more than the %lld layers of a model chunk: "
                       "give at most that",
                       (long long)a->recompute_layers, (long long)tr_layout_most_layers(l));
    a->distribute_inputs = c->distribute_checkpointed_activations && l->w > 1;
    return TR_OK;
}

static enum tr_status shape_offloaded(const struct tr_config *c, const struct tr_layout *l,
                                      struct tr_activations *a)
{
    const int64_t given = c->cpu_offloading_num_layers, most = tr_layout_most_layers(l);

    if (given != TR_UNSET_INT && !c->cpu_offloading)
        return TR_FAIL(TR_ECONFIG,
                       "--cpu-offloading-num-layers %lld says of how many layers activations are "
                       "offloaded, and none are: add --cpu-offloading, or remove it",
                       (long long)given);
    if (!c->cpu_offloading)
        return TR_OK;
    if (a->recompute != TR_RECOMPUTE_NONE)
        return TR_FAIL(TR_ECONFIG, "--cpu-offloading keeps activations with the host, and another "
                                   "option recomputes them: remove one of them");
    if (c->cuda_graph_impl == TR_GRAPHS_LOCAL)
        return TR_FAIL(TR_ECONFIG, "--cuda-graph-impl local replays passes in which nothing is "
                                   "copied to the host, and --cpu-offloading copies after each "
                                   "layer: remove one of them");
    if (given != TR_UNSET_INT && given > most)
        return TR_FAIL(TR_ECONFIG,
                       "--cpu-offloading-num-layers %lld is more than the %lld layers of a model "
                       "chunk: give at most that",
                       (long long)given, (long long)most);
    a->offload_layers = given != TR_UNSET_INT ? given : most > 1 ? most - 1 : 1;
    return TR_OK;
}

static enum tr_status shape_sequence(const struct tr_config *c, int w, const struct tr_dims *m,
                                     struct tr_activations *a)
{
    int64_t rows = c->micro_batch_size * m->seq;

    a->sequence = c->sequence_parallel && w > 1;
    if (a->sequence && rows % w)
        return TR_FAIL(TR_ECONFIG,
                       "--sequence-parallel shards --micro-batch-size * --seq-length = %lld rows "
                       "over --tensor-model-parallel-size %d ranks, and they do not divide: use "
                       "a sequence length that is a multiple of %d, or leave it out",
                       (long long)rows, w, w);
    if (a->distribute_inputs && rows * m->hidden % w)
        return TR_FAIL(
            TR_ECONFIG,
            "--distribute-checkpointed-activations shards %lld numbers over "
            "--tensor-model-parallel-size %d ranks, and they do not divide: leave it out",
            (long long)(rows * m->hidden), w);
    return TR_OK;
}

static enum tr_status check_network(const struct tr_config *c)
{
    bool slow = c->distributed_backend == TR_DIST_SLOW, rate = c->slow_rate > TR_UNSET_REAL;

    if (slow && !rate && !c->slow_links)
        return TR_FAIL(TR_ECONFIG, "--distributed-backend slow needs to know how slow: give "
                                   "--slow-rate GBIT_PER_SECOND, or --slow-links FILE");
    if (!slow && (rate || c->slow_links || c->slow_latency > 0.0 || c->slow_jitter > 0.0))
        return TR_FAIL(TR_ECONFIG,
                       "--slow-rate, --slow-links, --slow-latency and --slow-jitter describe the "
                       "network of --distributed-backend slow: add that, or remove "
                       "them");
    if (c->slow_links && (rate || c->slow_latency > 0.0))
        return TR_FAIL(
            TR_ECONFIG,
            "--slow-links has the rate and the latency of each link: remove --slow-rate and "
            "--slow-latency");
    return TR_OK;
}

/* A head of classes needs samples that have one. */
static enum tr_status check_classes(const struct tr_config *c)
{
    const struct tr_classify *task = tr_classify_of(c);
    const char *field = c->text_field    ? "text-field"
                        : c->pair_field  ? "pair-field"
                        : c->label_field ? "label-field"
                                         : NULL;

    if (!task && field)
        return TR_FAIL(TR_ECONFIG,
                       "--%s names a column of a task of classification: give --task-name "
                       "classification, or remove it",
                       field);
    if (tr_classify_labels(c) == 0)
        return TR_OK;
    if (!task && (c->task_name || c->data_path.count > 0 || c->train_data_path.count > 0))
        return TR_FAIL(TR_ECONFIG,
                       "--num-labels asks for a head of classes, and samples of these data have "
                       "none: give --task-name cola, qnli or classification, or remove it");
    if (task && c->n_epochs == TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--task-name %s has rows, which are trained in epochs: give --n-epochs "
                       "in place of --train-iters or --train-samples",
                       task->name);
    if (c->eod_mask_loss || c->reset_position_ids || c->reset_attention_mask)
        return TR_FAIL(TR_ECONFIG,
                       "--eod-mask-loss, --reset-position-ids and --reset-attention-mask are for "
                       "samples of several documents, and samples of classes are one text each: "
                       "remove them");
    return TR_OK;
}

/* Tasks have an order of their own, without an end. */
static enum tr_status check_tasks(const struct tr_config *c)
{
    const bool endless = !tr_classify_of(c);
    const char *other = c->mock_data                             ? "mock-data"
                        : c->data_path.count                     ? "data-path"
                        : c->train_data_path.count               ? "train-data-path"
                        : c->valid_data_path.count               ? "valid-data-path"
                        : c->test_data_path.count                ? "test-data-path"
                        : endless && c->n_epochs != TR_UNSET_INT ? "n-epochs"
                        : c->document_samples                    ? "document-samples"
                        : c->dataloader_type == TR_LOADER_CYCLIC ? "dataloader-type cyclic"
                                                                 : NULL;

    if (!c->task_name && c->evaluation_data)
        return TR_FAIL(TR_ECONFIG,
                       "--evaluation-data is the validation data of --task-name: give that, "
                       "or --valid-data-path with --train-data-path");
    if (!c->task_name && strcmp(c->task_dir, ".") != 0)
        return TR_FAIL(TR_ECONFIG,
                       "--task-dir is where the data of --task-name are: give that, or remove it");
    if (!c->task_name && c->show_data)
        return TR_FAIL(TR_ECONFIG,
                       "--show-data prints samples of --task-name: give that, or remove "
                       "it; `trireme data show` prints documents of a dataset");
    if (c->task_name && other)
        return TR_FAIL(TR_ECONFIG,
                       "--task-name makes samples of weighted tasks, in an order without an end, "
                       "or of the rows "
                       "of one: remove it, or --%s",
                       other);
    return check_classes(c);
}

/* Where samples come from is said in one of four ways. */
static enum tr_status check_data(const struct tr_config *c)
{
    const char *split = tr_options_find(tr_config_options(), "split")->initial;
    bool each = c->train_data_path.count || c->valid_data_path.count || c->test_data_path.count;

    if (c->mock_data && (c->data_path.count || each))
        return TR_FAIL(TR_ECONFIG, "--mock-data makes tokens and reads no data: remove it, or --%s",
                       each ? "train-data-path and its like" : "data-path");
    if (!c->mock_data && c->mock_distribution != TR_MOCK_SKEWED)
        return TR_FAIL(TR_ECONFIG,
                       "--mock-distribution says what the tokens of --mock-data are: add "
                       "that, or remove it");
    if (!c->mock_data && c->mock_validation != TR_MOCK_VALID_OWN)
        return TR_FAIL(TR_ECONFIG,
                       "--mock-validation says what --mock-data validates on: add that, "
                       "or remove it");
    if (c->split_at_random && (!c->document_samples || c->data_path.count == 0))
        return TR_FAIL(TR_ECONFIG,
                       "--split-at-random is about the documents that --split divides: give "
                       "--document-samples and --data-path, or remove it");
    TR_TRY(check_tasks(c));
    if (c->document_samples && (c->dataloader_type == TR_LOADER_CYCLIC || c->mock_data))
        return TR_FAIL(
            TR_ECONFIG,
            "--document-samples takes the documents of a dataset as they are: remove it, or --%s",
            c->mock_data ? "mock-data" : "dataloader-type cyclic");
    if (each && c->data_path.count)
        return TR_FAIL(TR_ECONFIG,
                       "--data-path is split into training, validation and test by --split, and "
                       "--train-data-path and its like name a dataset for each: give one or the "
                       "others");
    if (each && !c->train_data_path.count)
        return TR_FAIL(TR_ECONFIG, "--valid-data-path and --test-data-path say nothing about "
                                   "training: give --train-data-path too");
    if (each && strcmp(c->split, split) != 0)
        return TR_FAIL(TR_ECONFIG,
                       "--split %s splits what --data-path names, and --train-data-path and its "
                       "like are used whole: remove --split",
                       c->split);
    return TR_OK;
}

static enum tr_status check_masks(const struct tr_config *c, const struct tr_dims *m)
{
    const char *name = c->eod_mask_loss          ? "eod-mask-loss"
                       : c->reset_position_ids   ? "reset-position-ids"
                       : c->reset_attention_mask ? "reset-attention-mask"
                                                 : NULL;

    if (name && m->eod < 0)
        return TR_FAIL(TR_ECONFIG,
                       "--%s needs a token that ends a document, and this vocabulary of %lld has "
                       "none: it is 50256 for gpt2-bpe, 256 for bytes, and --vocab-size for "
                       "NullTokenizer; remove it, or change --vocab-size or --tokenizer-type",
                       name, (long long)m->vocab);
    return TR_OK;
}

/* What cuDNN's attention needs and these options do not give, or NULL. */
static const char *fused_needs(const struct tr_config *c, const struct tr_dims *m, int w,
                               const struct tr_precision *p)
{
    const char *needs = tr_dims_fused_needs(m, w);

    if (needs)
        return needs;
    if (tr_family_attention_dropout(c, &m->family) > 0.0)
        return "--attention-dropout 0";
    if (c->reset_attention_mask)
        return "a run without --reset-attention-mask";
    return p->half ? NULL : "--bf16 or --fp16";
}

/* Cases that cuDNN's attention does not compute are refused if an option is about it alone. */
static enum tr_status check_attention(const struct tr_config *c, const struct tr_shape *s)
{
    const char *needs = fused_needs(c, &s->dims, s->layout.w, &s->precision);

    if (!c->deterministic_mode && c->attention_backend == TR_ATTN_FLASH)
        needs = "--attention-backend auto or fused";
    if (!c->deterministic_mode && needs)
        return TR_FAIL(TR_ECONFIG,
                       "--no-deterministic-mode is about cuDNN's attention, which needs %s: give "
                       "that, or leave it out",
                       needs);
    if (c->attention_backend == TR_ATTN_FUSED && needs)
        return TR_FAIL(
            TR_ECONFIG,
            "--attention-backend fused is cuDNN's attention, which needs %s: give that, or "
            "use auto or flash",
            needs);
    return TR_OK;
}

/* Only bf16 GEMMs use oneDNN. */
static enum tr_status check_gemm(const struct tr_config *c, const struct tr_precision *p)
{
    if (c->cpu_gemm == TR_CPU_GEMM_ONEDNN && !(p->half && p->bf16))
        return TR_FAIL(TR_ECONFIG,
                       "--cpu-gemm onednn is about GEMMs in bf16, and this run has none: give "
                       "--bf16, or use auto");
    return TR_OK;
}

/* Collectives between tensor-parallel ranks stand inside a pass, on other streams and with host calls. */
static enum tr_status check_graphs(const struct tr_config *c, const struct tr_layout *l)
{
    if (c->cuda_graph_impl == TR_GRAPHS_LOCAL && l->w > 1)
        return TR_FAIL(TR_ECONFIG,
                       "--cuda-graph-impl local captures passes without collectives, and with "
                       "--tensor-model-parallel-size %d each layer has some: use "
                       "--tensor-model-parallel-size 1, or leave out --cuda-graph-impl",
                       l->w);
    return TR_OK;
}

static enum tr_status check_save(const struct tr_config *c)
{
    if (!c->save && c->save_interval != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--save-interval %lld without a place to save to: give --save "
                       "FOLDER",
                       (long long)c->save_interval);
    if (!c->save && c->keep_last > 0)
        return TR_FAIL(TR_ECONFIG,
                       "--keep-last %lld without a place to save to: give --save FOLDER",
                       (long long)c->keep_last);
    if (!c->save && c->log_progress)
        return TR_FAIL(TR_ECONFIG,
                       "--log-progress without a place for progress.txt: give --save FOLDER");
    if (!c->save && c->no_save_optim)
        return TR_FAIL(TR_ECONFIG,
                       "--no-save-optim without a place to save to: give --save FOLDER");
    return TR_OK;
}

/* An option that says how to load, and no --load, is most likely a --load that was forgotten: to start
   from random weights then would waste the run. */
static enum tr_status check_load(const struct tr_config *c)
{
    const char *how = c->finetune                             ? "finetune"
                      : c->no_load_optim                      ? "no-load-optim"
                      : c->ckpt_step != TR_UNSET_INT          ? "ckpt-step"
                      : c->exit_on_missing_checkpoint         ? "exit-on-missing-checkpoint"
                      : c->use_checkpoint_args                ? "use-checkpoint-args"
                      : c->use_checkpoint_opt_param_scheduler ? "use-checkpoint-opt-param-scheduler"
                                                              : NULL;

    if (!c->load && how)
        return TR_FAIL(TR_ECONFIG, "--%s without a place to load from: give --load FOLDER", how);
    if (!c->use_checkpoint_opt_param_scheduler)
        return TR_OK;
    if (c->override_opt_param_scheduler)
        return TR_FAIL(TR_ECONFIG,
                       "--override-opt-param-scheduler follows the command line and "
                       "--use-checkpoint-opt-param-scheduler the checkpoint: give one of them");
    if (c->finetune || c->no_load_optim)
        return TR_FAIL(TR_ECONFIG,
                       "--%s begins the learning rate anew, so "
                       "--use-checkpoint-opt-param-scheduler has nothing to follow: remove one",
                       c->finetune ? "finetune" : "no-load-optim");
    return TR_OK;
}

static enum tr_status check_profile(const struct tr_config *c, int world)
{
    if (!c->profile)
        return TR_OK;
    if (c->profile_step_start >= c->profile_step_end)
        return TR_FAIL(
            TR_ECONFIG,
            "--profile-step-start %lld is not before --profile-step-end %lld, so nothing "
            "would be recorded: raise the second",
            (long long)c->profile_step_start, (long long)c->profile_step_end);
    for (int i = 0; i < c->profile_ranks.count; i++) {
        const char *word = c->profile_ranks.word[i];
        char *end;
        long rank = strtol(word, &end, 10);

        if (end == word || *end || rank < 0 || rank >= world)
            return TR_FAIL(
                TR_ECONFIG,
                "--profile-ranks %s is none of the ranks 0 to %d: give numbers of ranks, "
                "with blanks between them",
                word, world - 1);
    }
    return TR_OK;
}

/* Unset, they are 10 and 12 for --trace, and the first and the last for --profiling. */
static enum tr_status check_trace_steps(const struct tr_config *c)
{
    const int64_t first = c->trace_step_start != TR_UNSET_INT ? c->trace_step_start
                          : c->trace                          ? 10
                                                              : 0;
    const int64_t last = c->trace_step_end != TR_UNSET_INT ? c->trace_step_end
                         : c->trace                        ? 12
                                                           : INT64_MAX;

    if (first < last)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--trace-step-start %lld is not before --trace-step-end %lld, so nothing "
                   "would be traced: raise the second",
                   (long long)first, (long long)last);
}

static enum tr_status check_accumulation(const struct tr_config *c, const struct tr_batches *b)
{
    const int64_t micros = b->global_batch / b->unit;

    if (c->profiling != TR_PROFILING_TIDY && c->profiling_accumulation != 1)
        return TR_FAIL(TR_ECONFIG, "--profiling-accumulation chooses what --profiling "
                                   "tidy_profiling writes: add that, or remove it");
    if (micros % c->profiling_accumulation == 0)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--profiling-accumulation %lld does not divide the %lld micro-batches of an "
                   "iteration, so its steps would differ: give a divisor",
                   (long long)c->profiling_accumulation, (long long)micros);
}

static enum tr_status check_trace(const struct tr_config *c, const struct tr_batches *b)
{
    TR_TRY(check_accumulation(c, b));
    if (!c->trace && c->profiling == TR_PROFILING_NONE)
        return TR_OK;
    TR_TRY(check_trace_steps(c));
    if (c->trace && c->trace[0] == '\0')
        return TR_FAIL(TR_ECONFIG, "--trace names no file: say where the trace goes");
    if (!c->trace_postfix || strchr(c->trace_postfix, '/'))
        return TR_FAIL(TR_ECONFIG, "--trace-postfix is the end of the name of a file: give a word "
                                   "without a slash");
    return TR_OK;
}

/* The values of --exit-signal, with or without "SIG", as bits. */
static enum tr_status shape_signals(const struct tr_config *c, unsigned *out)
{
    const struct tr_options *t = tr_config_options();

    for (int i = 0; i < c->exit_signal.count; i++) {
        const char *word = c->exit_signal.word[i];
        unsigned bit = 0;

        for (int n = 0; n < t->spellings; n++) {
            const struct tr_spelling *s = &t->spelling[n];

            if (strcmp(s->set, "exit_signal") == 0 &&
                (strcmp(s->spelling, word) == 0 || strcmp(s->spelling + 3, word) == 0))
                bit = 1U << s->value;
        }
        if (!bit)
            return TR_FAIL(TR_ECONFIG,
                           "--exit-signal: '%s' is none of SIGTERM, SIGINT, SIGHUP, SIGUSR1 and "
                           "SIGUSR2; give one or several of them, with blanks between",
                           word);
        *out |= bit;
    }
    return TR_OK;
}

/* Larger models are typing errors, and would overflow 64 bits. */
static const double MOST_PARAMS = 1e14, MOST_ACTIVATIONS = 1e17, MOST_BUCKETS = 1e7;
enum { MOST_LAYERS = 1 << 20 };

/* The matrices, the tables of the embedding, and for vectors a little more than any family has. */
static double parameters_about(const struct tr_dims *m)
{
    const struct tr_work_how how = tr_work_how_whole(m);
    const double h = (double)m->hidden;
    struct tr_work layer, embed, head;

    tr_work_of(&how, TR_WORK_LAYER, &layer);
    tr_work_of(&how, TR_WORK_EMBED, &embed);
    tr_work_of(&how, TR_WORK_HEAD, &head);
    return (double)m->layers * (tr_work_weights(&layer) + 16.0 * h) + tr_work_weights(&embed) +
           tr_work_weights(&head) + (double)m->positions * h +
           (m->family.tied ? 0.0 : (double)m->vocab_padded * (double)m->embed);
}

static enum tr_status check_model(const struct tr_config *c, const struct tr_layout *l,
                                  const struct tr_dims *m)
{
    const double params = parameters_about(m);
    const int64_t bucket = tr_data_parallel_bucket(c);

    if (m->layers > MOST_LAYERS)
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers %lld is more than the %d layers that are counted here, one by "
                       "one: take fewer",
                       (long long)m->layers, MOST_LAYERS);
    if (params > MOST_PARAMS)
        return TR_FAIL(TR_ECONFIG,
                       "a model of %.2g parameters is larger than the %.0g that are counted here: "
                       "make --hidden-size, --kv-channels, --ffn-hidden-size, --num-layers, "
                       "--max-position-embeddings or --vocab-size smaller",
                       params, MOST_PARAMS);
    if (bucket != TR_UNSET_INT && params / l->w / l->p > MOST_BUCKETS * (double)bucket)
        return TR_FAIL(TR_ECONFIG,
                       "--%s makes more than %.0g buckets of the parameters of a rank, of %lld "
                       "each: let a bucket have %.0f or more",
                       c->ddp_bucket_size != TR_UNSET_INT ? "ddp-bucket-size"
                                                          : "fusion-threshold-mb",
                       MOST_BUCKETS, (long long)bucket, ceil(params / l->w / l->p / MOST_BUCKETS));
    return TR_OK;
}

static enum tr_status check_clipping(const struct tr_config *c, const struct tr_layout *l,
                                     const struct tr_dims *m)
{
    if (!c->clip_grad_by_stage)
        return TR_OK;
    if (c->clip_grad <= 0.0)
        return TR_FAIL(TR_ECONFIG, "--clip-grad-by-stage says by which norm gradients are clipped, "
                                   "and --clip-grad 0 that they are not: give one of them");
    if (tr_layout_ends_apart(l) && m->family.tied)
        return TR_FAIL(
            TR_ECONFIG,
            "--clip-grad-by-stage: the first and the last stage share the word embedding, and "
            "their copies of it would diverge: give --untie-embeddings-and-output-weights");
    return TR_OK;
}

/* gpipe holds all micro-batches at once, and no other schedule more than there are slots in the
   pipeline. */
static enum tr_status check_batch(const struct tr_layout *l, const struct tr_dims *m,
                                  const struct tr_batches *b)
{
    const double rows = (double)b->micro_batch * (double)m->seq;
    const struct tr_work_how how = tr_work_how_whole(m);
    struct tr_work layer;
    double row;
    const double most = 2.0 * ((double)l->k + 1.0) * l->group;
    const double held = l->schedule == TR_PIPE_GPIPE || b->micros < most ? b->micros : most;

    tr_work_of(&how, TR_WORK_LAYER, &layer);
    row = (double)m->layers * tr_work_kept_bytes(&layer, &how) / how.elem + (double)m->vocab_padded;
    if (rows <= INT32_MAX && rows * row * held <= MOST_ACTIVATIONS)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "%.0f micro-batches of %lld samples of %lld tokens would be about %.2g numbers "
                   "in the layers of this model; no more than %.0g are counted, or %d tokens "
                   "of a micro-batch: make --seq-length, --micro-batch-size or "
                   "--global-batch-size smaller",
                   held, (long long)b->micro_batch, (long long)m->seq, rows * row * held,
                   MOST_ACTIVATIONS, INT32_MAX);
}

/* With ZeRO-2 and 3: gradients of one layer that is computed, and of one that is under way.  Weights of as many
   layers ahead as fill a network, in elements. */
enum { GRADIENT_WINDOWS = 2, ELEMENTS_AHEAD = 8 << 20 };

/* Layers of which a rank has room for weights. */
static int weight_windows(const struct tr_data_parallel *dp, const struct tr_dims *m, int w)
{
    const struct tr_work_how how = tr_work_how_whole(m);
    struct tr_work layer;
    double ahead = (double)dp->ahead;

    if (dp->keeps_weights)
        return MOST_LAYERS;
    tr_work_of(&how, TR_WORK_LAYER, &layer);
    if (dp->ahead < 0)
        ahead = ceil(ELEMENTS_AHEAD * (double)w / tr_work_weights(&layer));
    return ahead < MOST_LAYERS ? (int)ahead + 1 : MOST_LAYERS;
}

/* The same where chunks have memory for them: what it holds in whole layers. */
static int windows_of_chunks(const struct tr_chunking *c, const struct tr_dims *m, int w)
{
    const struct tr_work_how how = tr_work_how_whole(m);
    struct tr_work layer;
    double elems, windows;

    tr_work_of(&how, TR_WORK_LAYER, &layer);
    elems = tr_work_weights(&layer) / w;
    windows = ((double)c->memory / elems - GRADIENT_WINDOWS * c->grad_bytes) / c->value_bytes;
    return windows < 1.0 ? 1 : windows < MOST_LAYERS ? (int)windows : MOST_LAYERS;
}

static void shape_windows(struct tr_shape *s)
{
    struct tr_layout *l = &s->layout;

    l->part_shards = s->dp.mode == TR_DP_ZERO;
    if (s->dp.each)
        l->gradient_windows = GRADIENT_WINDOWS;
    l->chunks = (struct tr_chunking){
        .memory = s->offload.chunk_memory,
        .size = s->offload.chunk_size,
        .value_bytes = s->precision.half ? 2 : 4,
        .grad_bytes = s->precision.half && !s->precision.grads_fp32 ? 2 : 4,
    };
    if (s->dp.by_layer)
        l->weight_windows = l->chunks.memory > 0 ? windows_of_chunks(&l->chunks, &s->dims, l->w)
                                                 : weight_windows(&s->dp, &s->dims, l->w);
}

/* zb-h1 and zb-v keep what gradients of weights are made of in the memory of activations of the same layer, and writes a
   layer's gradients in two passes. */
static enum tr_status check_split(const struct tr_shape *s)
{
    const char *name = tr_config_spelling("pipeline-schedule", s->layout.schedule);
    const char *what = s->activations.recompute != TR_RECOMPUTE_NONE
                           ? "activation recomputation keeps no activations of layers"
                       : s->activations.offload_layers > 0
                           ? "--cpu-offloading keeps activations of layers with the host"
                       : s->layout.gradient_windows > 0 || s->layout.weight_windows > 0
                           ? "--zero-stage 2 and 3 and --chunk-memory keep weights or gradients of "
                             "some layers at a time"
                           : NULL;

    if (s->layout.schedule != TR_PIPE_ZB_H1 && s->layout.schedule != TR_PIPE_ZB_V)
        return TR_OK;
    if (what)
        return TR_FAIL(TR_ECONFIG,
                       "--pipeline-schedule %s computes the gradients of weights later, from all "
                       "activations of the layer, and %s: remove one, or use 1f1b",
                       name, what);
    if (s->dims.family.place != TR_NORM_BEFORE)
        return TR_FAIL(TR_ECONFIG,
                       "--pipeline-schedule %s is for layers with a norm before attention and one "
                       "before the MLP; gradients wait in their memory, and this model family has "
                       "others: use 1f1b",
                       name);
    return TR_OK;
}

/* Links remember samples in the order of one chunk. */
static enum tr_status check_links(const struct tr_shape *s)
{
    if (!s->layout.vee || !s->links.compressed)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--pipeline-schedule %s exchanges messages of two chunks with each neighbour, "
                   "and compressed links have buffers for those of one: leave out "
                   "--forward-compress-method and --backward-compress-method, or use zb-h1",
                   tr_config_spelling("pipeline-schedule", s->layout.schedule));
}

/* An encoder's table of relative positions is on each stage and is no part of a layer; its convolution reads the
   embedding beside the first layer. */
static enum tr_status check_encoder(const struct tr_config *c, const struct tr_shape *s)
{
    const struct tr_layout *l = &s->layout;
    const char *what = s->activations.sequence       ? "--sequence-parallel"
                       : s->layout.chunks.memory > 0 ? "--chunk-memory"
                       : s->dp.mode == TR_DP_ZERO && (s->dp.each || s->dp.by_layer)
                           ? "--zero-stage 2 or 3"
                       : c->cpu_offloading ? "--cpu-offloading"
                                           : NULL;

    if (!s->dims.family.encoder)
        return TR_OK;
    if (what)
        return TR_FAIL(TR_ECONFIG,
                       "%s takes a model for layers alone, and an encoder of --model-family %s has "
                       "parts beside them: remove it",
                       what, c->model_family);
    if (s->dims.family.convolution > 0 && tr_layout_layers(l, 0, 0) == 0)
        return TR_FAIL(
            TR_ECONFIG,
            "the convolution of an encoder reads the embedding and stands beside the first "
            "layer, and the first stage has no layer: give it one in "
            "--pipeline-model-parallel-layout, or --conv-kernel-size 0");
    return TR_OK;
}

enum tr_status tr_shape_of(const struct tr_config *c, int world, struct tr_shape *out)
{
    const char *missing = tr_config_missing(c);
    struct tr_layout *l = &out->layout;

    TR_ASSERT(world > 0);
    if (missing)
        return TR_FAIL(TR_ECONFIG, "--%s is required: %s", missing,
                       tr_options_find(tr_config_options(), missing)->help);
    *out = (struct tr_shape){0};
    TR_TRY(shape_ranks(c, world, l));
    TR_TRY(tr_dims_of(c, l->w, &out->dims));
    TR_TRY(check_model(c, l, &out->dims));
    TR_TRY(tr_layout_stages(c, l));
    TR_TRY(check_clipping(c, l, &out->dims));
    TR_TRY(tr_batches_of(c, l->d, &out->batches));
    TR_TRY(shape_schedule(c, &out->batches, l));
    TR_TRY(check_batch(l, &out->dims, &out->batches));
    TR_TRY(shape_precision(c, &out->dims.family, &out->precision));
    TR_TRY(shape_recompute(c, l, &out->activations));
    TR_TRY(shape_offloaded(c, l, &out->activations));
    TR_TRY(shape_sequence(c, l->w, &out->dims, &out->activations));
    out->dropout.attention = tr_family_attention_dropout(c, &out->dims.family);
    out->dropout.hidden = tr_family_hidden_dropout(c, &out->dims.family);
    TR_TRY(tr_data_parallel_of(c, l->d, &out->dp));
    TR_TRY(tr_offload_of(c, &out->dp, &out->offload));
    shape_windows(out);
    TR_TRY(check_split(out));
    TR_TRY(check_network(c));
    TR_TRY(tr_amounts_of(c, &out->batches, l->d, &out->amounts, &out->epochs));
    TR_TRY(tr_lr_schedule_of(c, out->batches.global_batch, out->amounts.train_samples,
                             &out->lr_schedule));
    if (c->lr_times_replicas)
        out->lr_schedule.lr *= l->d;
    TR_TRY(tr_link_compression_of(c, l->p, out->activations.sequence, &out->epochs, &out->links));
    TR_TRY(check_links(out));
    TR_TRY(check_data(c));
    TR_TRY(check_encoder(c, out));
    TR_TRY(check_masks(c, &out->dims));
    TR_TRY(check_attention(c, out));
    TR_TRY(check_gemm(c, &out->precision));
    TR_TRY(check_graphs(c, l));
    TR_TRY(check_save(c));
    TR_TRY(shape_signals(c, &out->exit_signals));
    TR_TRY(check_profile(c, world));
    TR_TRY(check_trace(c, &out->batches));
    return check_load(c);
}
