/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/compression.h"

#include <stdio.h>
#include <string.h>

/* The options of one direction. */
struct direction {
    const char *name;
    const char *method;
    int64_t bits;
    const struct tr_words *dims;
};

/* The dimensions that the words name, as bits. */
static enum tr_status read_dims(const struct direction *d, unsigned *over)
{
    *over = 0;
    for (int i = 0; i < d->dims->count; i++) {
        for (const char *at = d->dims->word[i]; *at; at++) {
            /* Also as a list is written elsewhere: (0,1). */
            if (strchr(", ()[]", *at))
                continue;
            if (*at < '0' || *at > '2' || (at[1] >= '0' && at[1] <= '9'))
                return TR_FAIL(
                    TR_ECONFIG,
                    "--%s-scale-dims: '%s' is no list of dimensions, which are samples (0), "
                    "tokens (1) and channels (2): give those that share a scale, as in 0 1",
                    d->name, d->dims->word[i]);
            *over |= 1U << (*at - '0');
        }
    }
    if (d->dims->count == 0)
        *over = 3;
    if (*over == 0)
        return TR_FAIL(TR_ECONFIG,
                       "--%s-scale-dims names no dimension, and a scale for each number is more "
                       "than the number: give those that share one, of samples (0), tokens (1) "
                       "and channels (2), as in 0 1",
                       d->name);
    return TR_OK;
}

static enum tr_status check_direction(const struct direction *d, int stages, unsigned *over)
{
    if (stages == 1)
        return TR_FAIL(
            TR_ECONFIG,
            "--%s-compress-method %s compresses messages between pipeline stages, and there is "
            "one stage: give --pipeline-model-parallel-size 2 or more, or remove it",
            d->name, d->method);
    if (d->bits < 1 || d->bits > 8)
        return TR_FAIL(TR_ECONFIG,
                       "--%s-bits %lld: codes have 1 to 8 bits; give one of these, or "
                       "--%s-compress-method none to send them uncompressed",
                       d->name, (long long)d->bits, d->name);
    return read_dims(d, over);
}

/* An activation cache must know which samples there are, and have room for them. */
static enum tr_status check_delta(const struct tr_config *c, bool sequence,
                                  const struct tr_epoch_plan *e, const char *method)
{
    int64_t first, most;

    if (e->count == 0)
        return TR_FAIL(
            TR_ECONFIG,
            "--forward-compress-method %s sends what changed in the activation of a sample since "
            "it was last seen; without --n-epochs no sample is known to come again: give "
            "--n-epochs, or --forward-compress-method fixpoint",
            method);
    if (c->forward_compress_method == TR_FORWARD_LOWBITS && c->forward_bits_act != 2 &&
        c->forward_bits_act != 4 && c->forward_bits_act != 8)
        return TR_FAIL(
            TR_ECONFIG,
            "--forward-bits-act %lld: the activation cache of delta-lowbits has 2, 4 or 8 bits; "
            "give one of these",
            (long long)c->forward_bits_act);
    if (c->activation_cache_dir && !c->activation_cache_dir[0])
        return TR_FAIL(TR_ECONFIG, "--activation-cache-dir is empty, as of a variable that is "
                                   "not set, and the activation cache must not go to /: name a "
                                   "folder, or remove it");
    if (sequence && c->micro_batch_size > 1)
        return TR_FAIL(
            TR_ECONFIG,
            "--forward-compress-method %s caches the rows of samples that a rank has, and with "
            "--sequence-parallel those of a micro-batch of %lld samples are others each time: "
            "give --micro-batch-size 1, or leave out --sequence-parallel",
            method, (long long)c->micro_batch_size);
    /* Replica 0 has the most samples. */
    tr_epoch_share(e, 0, &first, &most);
    if (most > TR_LINK_CACHED)
        return TR_FAIL(
            TR_ECONFIG,
            "--forward-compress-method %s can cache %d samples at each end of a link, and a "
            "replica would train on %lld: give at least %lld replicas, --data-blocks for fewer "
            "samples, or --forward-compress-method fixpoint, which caches none",
            method, TR_LINK_CACHED, (long long)most,
            (long long)((e->blocks - 1) / TR_LINK_CACHED + 1));
    if (most > c->max_activation_cache_size)
        return TR_FAIL(
            TR_ECONFIG,
            "--max-activation-cache-size %lld is less than the %lld samples that a replica "
            "trains on, so each end would drop others from its cache: give %lld or more, or more "
            "replicas",
            (long long)c->max_activation_cache_size, (long long)most, (long long)most);
    return TR_OK;
}

static enum tr_status check_warmup(const struct tr_config *c, const struct tr_epoch_plan *e,
                                   struct tr_link_compression *out)
{
    if (e->count == 0) {
        if (c->warmup_epochs != 0 && tr_config_changed(c, "warmup-epochs"))
            return TR_FAIL(
                TR_ECONFIG,
                "--warmup-epochs %lld counts epochs, and the length of this run is not given in "
                "epochs: give --n-epochs, or remove it",
                (long long)c->warmup_epochs);
        return TR_OK;
    }
    if (e->count == 1 && c->warmup_epochs == 1)
        return TR_FAIL(
            TR_ECONFIG,
            "nothing is compressed in the first epoch (--warmup-epochs 1), and --n-epochs "
            "1 is no more: give --warmup-epochs 0, or more epochs");
    if (c->warmup_epochs >= e->count)
        return TR_FAIL(TR_ECONFIG,
                       "--warmup-epochs %lld leaves none of the %lld epochs of --n-epochs in which "
                       "something is compressed: give at most %lld, or more epochs",
                       (long long)c->warmup_epochs, (long long)e->count, (long long)(e->count - 1));
    out->whole_samples = c->warmup_epochs * e->samples;
    return TR_OK;
}

enum tr_status tr_link_compression_of(const struct tr_config *c, int stages, bool sequence,
                                      const struct tr_epoch_plan *epochs,
                                      struct tr_link_compression *out)
{
    const bool forward = c->forward_compress_method != TR_FORWARD_NONE;
    const bool backward = c->backward_compress_method != TR_BACKWARD_NONE;
    const struct direction directions[] = {
        {"forward", tr_config_spelling("forward-compress-method", c->forward_compress_method),
         c->forward_bits, &c->forward_scale_dims},
        {"backward", tr_config_spelling("backward-compress-method", c->backward_compress_method),
         c->backward_bits, &c->backward_scale_dims},
    };

    *out = (struct tr_link_compression){0};
    out->compressed = forward || backward;
    if (!out->compressed)
        return TR_OK;
    if (forward)
        TR_TRY(check_direction(&directions[0], stages, &out->forward_over));
    if (backward)
        TR_TRY(check_direction(&directions[1], stages, &out->backward_over));
    out->forward_bits = forward ? (int)c->forward_bits : 0;
    out->backward_bits = backward ? (int)c->backward_bits : 0;
    if (forward && c->forward_compress_method != TR_FORWARD_FIXPOINT)
        TR_TRY(check_delta(c, sequence, epochs, directions[0].method));
    return check_warmup(c, epochs, out);
}
