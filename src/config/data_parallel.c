/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/data_parallel.h"

#include <math.h>
#include <string.h>

#include "config/precision.h"

/* Scales are shared by as many numbers in the message of a compressed server (dp/averager.h). */
enum { DP_BUCKET = 512 };

/* What replicas are after the warm-up. */
enum replicas { EQUAL, DIVERGE, KEEPS_ERRORS };

static enum replicas replicas_of(int mode)
{
    static const enum replicas column[] = {
#define MODE(symbol, value, spelling, structure, replicas, exchanges) [symbol] = (replicas),
#include "config/modes.def"
    };

    return column[mode];
}

bool tr_dp_mode_warms_up(int mode)
{
    return replicas_of(mode) != EQUAL;
}

bool tr_dp_mode_diverges(int mode)
{
    return replicas_of(mode) == DIVERGE;
}

/* The stage of ZeRO that two options name. */
static enum tr_status find_stage(const struct tr_config *c, int64_t *stage)
{
    *stage = c->zero_stage != TR_UNSET_INT ? c->zero_stage
             : c->chunk_memory             ? 3
                                           : c->use_distributed_optimizer;
    if (*stage > 3)
        return TR_FAIL(
            TR_ECONFIG,
            "--zero-stage %lld: the stages of ZeRO shard optimizer states (1), gradients (2) "
            "and weights (3): give 0 to 3",
            (long long)*stage);
    if (c->chunk_memory && *stage != 3)
        return TR_FAIL(
            TR_ECONFIG,
            "--chunk-memory shards what replicas hold of each chunk, as --zero-stage 3 does, and "
            "--zero-stage %lld does not: remove one of them",
            (long long)*stage);
    if (*stage == 0 && c->use_distributed_optimizer)
        return TR_FAIL(TR_ECONFIG,
                       "--zero-stage 0 shards nothing, and --use-distributed-optimizer shards "
                       "optimizer states: remove one of them");
    if (*stage == 3 && c->cuda_graph_impl == TR_GRAPHS_LOCAL)
        return TR_FAIL(
            TR_ECONFIG,
            "--cuda-graph-impl local replays passes in which all weights stay where they "
            "are, and with --zero-stage 3 they come and go: remove one of them");
    return TR_OK;
}

/* An option that says how something is sharded that is not. */
static enum tr_status check_of_stage(const struct tr_config *c, int64_t stage)
{
    const char *of_weights = c->zero_prefetch_depth != TR_UNSET_INT ? "zero-prefetch-depth"
                             : c->zero_keep_weights                 ? "zero-keep-weights"
                                                                    : NULL;

    if (of_weights && stage < 3)
        return TR_FAIL(
            TR_ECONFIG,
            "--%s is about weights that are gathered layer by layer, which they are with "
            "--zero-stage 3: give that, or leave it out",
            of_weights);
    if (c->zero_reduce_once && stage < 3)
        return TR_FAIL(TR_ECONFIG,
                       "--zero-reduce-once keeps whole gradients beside sharded weights; without "
                       "sharded weights that is --zero-stage 1: give --zero-stage 3, or that");
    if (c->zero_keep_weights && c->zero_prefetch_depth != TR_UNSET_INT)
        return TR_FAIL(
            TR_ECONFIG,
            "--zero-keep-weights has room for all layers, and gathers them as early as it "
            "can: leave out --zero-prefetch-depth");
    if (c->zero_shard_size != TR_UNSET_INT && stage == 0)
        return TR_FAIL(TR_ECONFIG, "--zero-shard-size says over how many replicas is sharded, and "
                                   "nothing is: give --zero-stage 1, 2 or 3, or leave it out");
    return TR_OK;
}

static bool offloads_weights(const struct tr_config *c)
{
    return c->chunk_memory || (c->offload_param && strcmp(c->offload_param, "none") != 0);
}

/* Over how many of `d` replicas. */
static enum tr_status find_shards(const struct tr_config *c, int d, int *shards)
{
    const int64_t size = c->zero_shard_size == TR_UNSET_INT ? d : c->zero_shard_size;

    if (size < 2 || size > d || d % size != 0)
        return TR_FAIL(
            TR_ECONFIG,
            "--zero-shard-size %lld: groups of so many replicas share one copy, and there "
            "are %d replicas: give a divisor of that, 2 or more",
            (long long)size, d);
    *shards = (int)size;
    return TR_OK;
}

static enum tr_status find_sharded(const struct tr_config *c, int d, struct tr_data_parallel *out)
{
    int64_t stage;
    int shards = d;

    TR_TRY(find_stage(c, &stage));
    if (c->overlap_param_gather && stage == 0)
        return TR_FAIL(TR_ECONFIG, "--overlap-param-gather overlaps the all-gather of the "
                                   "distributed optimizer: give --use-distributed-optimizer, or "
                                   "remove it");
    if (c->overlap_param_gather && stage == 3)
        return TR_FAIL(TR_ECONFIG, "--overlap-param-gather overlaps an all-gather of all weights, "
                                   "and with --zero-stage 3 each layer's are gathered ahead of its "
                                   "use anyway: remove it");
    if (c->overlap_param_gather && !c->overlap_grad_reduce)
        return TR_FAIL(TR_ECONFIG, "--overlap-param-gather needs --overlap-grad-reduce: remove "
                                   "--no-overlap-grad-reduce, or remove it");
    TR_TRY(check_of_stage(c, stage));
    if (stage == 0 || (d == 1 && !offloads_weights(c)))
        return TR_OK;
    if (d > 1)
        TR_TRY(find_shards(c, d, &shards));
    out->mode = stage == 1 && shards == d ? TR_DP_SHARD : TR_DP_ZERO;
    out->optimizer_shards = shards;
    out->gradient_shards = stage >= 2 && !c->zero_reduce_once ? shards : 1;
    out->weight_shards = stage >= 3 ? shards : 1;
    out->each = stage >= 2 && !c->zero_reduce_once;
    out->by_layer = stage >= 3;
    out->ahead = c->zero_prefetch_depth == TR_UNSET_INT ? -1 : c->zero_prefetch_depth;
    out->keeps_weights = c->zero_keep_weights;
    out->overlap_gather = c->overlap_param_gather;
    return TR_OK;
}

/* An option of CocktailSGD that was set to another value than its default and has no effect in that
   mode; or NULL. */
static const char *idle(const struct tr_config *c)
{
    static const char *const of_cocktail[] = {
        "quant-bits",    "quant-bucket-size",       "topk-ratio",      "randomp-ratio",
        "random-method", "check-replicas-interval", "quant-stochastic"};

    if (c->dp_mode == TR_DP_COCKTAIL)
        return NULL;
    if (!tr_dp_mode_warms_up(c->dp_mode) && tr_config_changed(c, "train-warmup-steps"))
        return "train-warmup-steps";
    for (size_t i = 0; i < sizeof of_cocktail / sizeof *of_cocktail; i++)
        if (tr_config_changed(c, of_cocktail[i]))
            return of_cocktail[i];
    return c->overlap_round ? NULL : "no-overlap-round";
}

static enum tr_status check_cocktail(const struct tr_config *c)
{
    if ((c->quant_bits < 1 || c->quant_bits > 8) && c->quant_bits != 32)
        return TR_FAIL(
            TR_ECONFIG,
            "--quant-bits %lld: a number is sent in 1 to 8 bits, or in 32 as it is; give one "
            "of these",
            (long long)c->quant_bits);
    if (c->quant_stochastic && c->quant_min_stochastic_distance > 0.5)
        return TR_FAIL(TR_ECONFIG,
                       "--quant-min-stochastic-distance %g: from 0.5 on numbers are rounded to "
                       "nearest, which is what "
                       "--quant-stochastic left out does: give less",
                       c->quant_min_stochastic_distance);
    if (!(c->topk_ratio > 0.0))
        return TR_FAIL(TR_ECONFIG,
                       "--topk-ratio 0 would send nothing: give a fraction above 0, up to 1");
    if (!(c->randomp_ratio > 0.0))
        return TR_FAIL(TR_ECONFIG,
                       "--randomp-ratio 0 would choose nothing: give a fraction above 0, up to 1");
    return TR_OK;
}

double tr_data_parallel_wire(const struct tr_data_parallel *dp, double grad)
{
    return dp->wire == TR_WIRE_SAME ? grad : 2.0;
}

int64_t tr_data_parallel_bucket(const struct tr_config *c)
{
    const bool half = c->fp16 && !c->accumulate_allreduce_grads_in_fp32;
    const bool sent_half = half || c->fp16_allreduce || c->dp_wire != TR_WIRE_SAME;
    const double elements = ceil(c->fusion_threshold_mb * 1048576.0 / (sent_half ? 2.0 : 4.0));

    if (c->fusion_threshold_mb <= TR_UNSET_REAL)
        return c->ddp_bucket_size;
    return elements < 1e15 ? (int64_t)elements : (int64_t)1e15;
}

static enum tr_status check_bucket(const struct tr_config *c)
{
    return c->fusion_threshold_mb <= TR_UNSET_REAL || c->ddp_bucket_size == TR_UNSET_INT
               ? TR_OK
               : TR_FAIL(TR_ECONFIG, "--fusion-threshold-mb is the size of a bucket in MiB, and "
                                     "--ddp-bucket-size in gradients: remove one of them");
}

/* Whether gradients are reduced in the buckets of dp/buckets.h. */
static bool has_buckets(const struct tr_data_parallel *dp)
{
    return dp->mode == TR_DP_ALLREDUCE || dp->mode == TR_DP_SHARD;
}

static enum tr_status check_timeline(const struct tr_config *c, const struct tr_data_parallel *dp)
{
    if (c->timeline_mark_cycles && !c->timeline_filename)
        return TR_FAIL(TR_ECONFIG, "--timeline-mark-cycles is about marks in a timeline: give "
                                   "--timeline-filename FILE, or remove it");
    if (c->timeline_filename && !has_buckets(dp))
        return TR_FAIL(
            TR_ECONFIG,
            "--timeline-filename is about gradients that are reduced in buckets, and with "
            "--%s they are exchanged in another way: give --trace FILE, which has all "
            "that ranks do",
            dp->mode == TR_DP_ZERO ? "zero-stage" : "dp-mode");
    return TR_OK;
}

static enum tr_status find_wire(const struct tr_config *c, int d, struct tr_data_parallel *out)
{
    const bool fp16 = c->fp16_allreduce;
    const int wire = fp16 ? TR_WIRE_FP16 : (int)c->dp_wire;

    if (fp16 && c->dp_wire == TR_WIRE_BF16)
        return TR_FAIL(TR_ECONFIG, "--fp16-allreduce is --dp-wire fp16, and --dp-wire bf16 says "
                                   "another type: remove one of them");
    if (d == 1 || wire == TR_WIRE_SAME)
        return TR_OK;
    if (!has_buckets(out))
        return TR_FAIL(
            TR_ECONFIG,
            "--%s is about gradients that are reduced in buckets, and with --%s they are "
            "exchanged in another way: give --dp-mode allreduce or --zero-stage 1, or "
            "remove it",
            fp16 ? "fp16-allreduce" : "dp-wire",
            out->mode == TR_DP_ZERO ? "zero-stage" : "dp-mode");
    out->wire = wire;
    return TR_OK;
}

/* Modes that compress, and what they are without that. */
static const struct {
    int mode, plain;
} compressed[] = {
#define COMPRESSES(symbol, plain) {symbol, plain},
#include "config/modes.def"
};

/* Its row of compressed[], or -1. */
static int compresses(int mode)
{
    const int rows = sizeof compressed / sizeof compressed[0];

    for (int i = 0; i < rows; i++)
        if (compressed[i].mode == mode)
            return i;
    return -1;
}

static enum tr_status check_bits(const struct tr_config *c)
{
    const char *name = tr_config_spelling("dp-mode", c->dp_mode);
    const int row = compresses(c->dp_mode);

    if (row < 0)
        return !tr_config_changed(c, "dp-bits")
                   ? TR_OK
                   : TR_FAIL(TR_ECONFIG,
                             "--dp-bits is about what servers send compressed, and with --dp-mode "
                             "%s it has no effect: give --dp-mode %s, or remove it",
                             name, tr_config_spelling("dp-mode", compressed[0].mode));
    if ((c->dp_bits < 1 || c->dp_bits > 8) && c->dp_bits != 32)
        return TR_FAIL(
            TR_ECONFIG,
            "--dp-bits %lld: a number is sent in 1 to 8 bits, or in 32 as it is; give one "
            "of these",
            (long long)c->dp_bits);
    if (c->dp_bits != 32 && c->train_warmup_steps == 0)
        return TR_FAIL(TR_ECONFIG,
                       "--dp-mode %s keeps Adam's second moments of the end of its warm-up, which "
                       "without one are 0, so that the first step ruins the weights: give "
                       "--train-warmup-steps N, best a few times 1 / (1 - --adam-beta2), or "
                       "--dp-bits 32",
                       name);
    if (c->dp_bits != 32 && tr_state_block(c) > 0)
        return TR_FAIL(TR_ECONFIG,
                       "--dp-mode %s averages first moments, which --optimizer %s keeps in 8 bits: "
                       "say --optimizer adam, or --dp-mode %s",
                       name, tr_config_spelling("optimizer", c->optimizer),
                       tr_config_spelling("dp-mode", compressed[row].plain));
    return TR_OK;
}

static void find_compressed(const struct tr_config *c, struct tr_data_parallel *out)
{
    const int row = compresses(out->mode);

    if (row < 0)
        return;
    if (c->dp_bits == 32) {
        out->mode = compressed[row].plain;
        return;
    }
    out->warms_up = out->keeps_errors = true;
    out->delta_bits = (double)c->dp_bits + 16.0 / DP_BUCKET;
}

/* As dp/cocktail.h counts them, where nothing is rounded down. */
static double bits_of(const struct tr_config *c)
{
    const bool floats = c->quant_bits == 32;
    const double scale = floats ? 0.0 : 16.0 / (double)c->quant_bucket_size;
    const double mask = c->topk_ratio < 1.0 ? 1.0 : 0.0;
    double chosen = c->randomp_ratio;

    if (c->random_method == TR_RANDOM_ROLLING)
        chosen = 1.0 / floor(1.0 / chosen);
    return chosen * (mask + c->topk_ratio * ((double)c->quant_bits + scale));
}

enum tr_status tr_data_parallel_of(const struct tr_config *c, int d, struct tr_data_parallel *out)
{
    const bool diverges = tr_dp_mode_diverges(c->dp_mode);
    const bool cocktail = c->dp_mode == TR_DP_COCKTAIL;
    const char *name = idle(c);

    *out = (struct tr_data_parallel){.mode = d > 1 ? (int)c->dp_mode : TR_DP_ALLREDUCE,
                                     .optimizer_shards = 1,
                                     .gradient_shards = 1,
                                     .weight_shards = 1};
    TR_TRY(find_sharded(c, d, out));
    if (name)
        return TR_FAIL(TR_ECONFIG,
                       "--%s configures the compressed exchange of CocktailSGD, and with "
                       "--dp-mode %s it has no effect: give --dp-mode cocktail_sgd, or remove it",
                       name, tr_config_spelling("dp-mode", c->dp_mode));
    if (c->dp_mode != TR_DP_ALLREDUCE &&
        (c->use_distributed_optimizer || c->zero_stage > 0 || c->chunk_memory))
        return TR_FAIL(TR_ECONFIG,
                       "--%s shards optimizer states over data-parallel "
                       "ranks, and with --dp-mode %s %s: remove one of them",
                       c->zero_stage > 0 ? "zero-stage"
                       : c->chunk_memory ? "chunk-memory"
                                         : "use-distributed-optimizer",
                       tr_config_spelling("dp-mode", c->dp_mode),
                       diverges ? "replicas diverge (local SGD), so each needs its own"
                                : "each replica needs all gradients");
    TR_TRY(check_bits(c));
    out->warms_up = out->diverges = diverges && d > 1;
    find_compressed(c, out);
    TR_TRY(find_wire(c, d, out));
    TR_TRY(check_bucket(c));
    TR_TRY(check_timeline(c, out));
    if (!cocktail)
        return TR_OK;
    TR_TRY(check_cocktail(c));
    out->delta_bits = bits_of(c);
    return TR_OK;
}
