/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/amounts.h"
#include "config/lr_schedule.h"

/* A length that may be told in iterations or in samples. */
struct length {
    const char *iters_name, *samples_name;
    int64_t iters, samples, none;
};

static bool by_samples(const struct tr_config *c)
{
    return c->train_samples != TR_UNSET_INT;
}

/* Which option tells the length of the run. */
static const char *told_by(const struct tr_config *c)
{
    return by_samples(c)                 ? "train-samples"
           : c->n_epochs != TR_UNSET_INT ? "n-epochs"
                                         : "train-iters";
}

/* Schedules are told in the unit of the run's length: of two units one would be wrong as soon as
   the batch size changes. */
static enum tr_status check_unit(const struct tr_config *c, const struct length *l)
{
    bool samples = by_samples(c);

    if ((samples ? l->iters : l->samples) == l->none)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--%s counts %s, but the length of the run is given in %s by --%s: give --%s "
                   "instead",
                   samples ? l->iters_name : l->samples_name, samples ? "iterations" : "samples",
                   samples ? "samples" : "iterations", told_by(c),
                   samples ? l->samples_name : l->iters_name);
}

/* The length in samples, or -1 if it was not given. */
static double samples_of(const struct tr_config *c, int64_t batch, const struct length *l)
{
    if (by_samples(c))
        return l->samples == l->none ? -1.0 : (double)l->samples;
    return l->iters == l->none ? -1.0 : (double)(l->iters * batch);
}

/* What cannot go with passes over the data. */
static enum tr_status check_epochs(const struct tr_config *c)
{
    if (c->train_iters != TR_UNSET_INT || by_samples(c))
        return TR_FAIL(TR_ECONFIG,
                       "--n-epochs and --%s both give the length of the run: give one of them",
                       by_samples(c) ? "train-samples" : "train-iters");
    if (c->dataloader_type == TR_LOADER_CYCLIC)
        return TR_FAIL(TR_ECONFIG,
                       "--dataloader-type cyclic is another order of the samples than that "
                       "of --n-epochs: remove one of the two");
    if (c->eval_iters != 0 && tr_config_changed(c, "eval-iters"))
        return TR_FAIL(
            TR_ECONFIG,
            "--eval-iters %lld is how long an evaluation is, and with --n-epochs each takes "
            "every sample once: remove it, or give 0 to leave evaluation out",
            (long long)c->eval_iters);
    if (c->eod_mask_loss && c->eval_iters != 0 && c->micro_batch_size > 1)
        return TR_FAIL(
            TR_ECONFIG,
            "--eod-mask-loss makes the loss a mean over what counts in a micro-batch, so of "
            "several samples the evaluation of --n-epochs could not tell which are its "
            "last: give --micro-batch-size 1, or --eval-iters 0");
    return TR_OK;
}

/* Samples of training: counted, or told. */
static enum tr_status find_blocks(const struct tr_config *c, int d, struct tr_epoch_plan *e)
{
    const struct tr_blocks_known *known = &c->blocks_known;

    e->blocks = known->counted ? known->of[0] : c->data_blocks;
    if (e->blocks == TR_UNSET_INT)
        return TR_FAIL(
            TR_ECONFIG,
            "--n-epochs %lld must know how many samples of --seq-length tokens the training "
            "data have, and they %s: %sgive --data-blocks N",
            (long long)c->n_epochs, c->mock_data ? "are made, not read" : "cannot be read here",
            c->mock_data ? "" : "give a --data-path that can, or ");
    if (e->blocks / d >= INT32_MAX)
        return TR_FAIL(
            TR_ECONFIG,
            "--n-epochs orders at most 2147483647 samples of a replica, and here each has "
            "%lld: use more replicas, or --train-samples",
            (long long)(e->blocks / d));
    return TR_OK;
}

static enum tr_status epochs(const struct tr_config *c, int64_t batch, int d,
                             struct tr_amounts *out, struct tr_epoch_plan *e)
{
    const int64_t own = batch / d; /* of a replica, in an iteration */
    int64_t iterations;

    TR_TRY(check_epochs(c));
    TR_TRY(find_blocks(c, d, e));
    iterations = e->blocks / d / own;
    if (iterations == 0)
        return TR_FAIL(
            TR_ECONFIG,
            "the training data have %lld samples of --seq-length %lld tokens, and one "
            "iteration takes %lld from each of %d replicas, so an epoch has none: give more "
            "data, or a smaller --global-batch-size or --seq-length",
            (long long)e->blocks, (long long)c->seq_length, (long long)own, d);
    if (c->n_epochs > INT64_MAX / e->blocks)
        return TR_FAIL(TR_ECONFIG,
                       "--n-epochs %lld are more samples than can be counted: give fewer",
                       (long long)c->n_epochs);
    e->count = c->n_epochs;
    e->samples = iterations * batch;
    e->iters = iterations;
    e->replicas = d;
    e->seed = c->seed;
    out->train_iters = e->count * iterations;
    out->train_samples = e->count * e->samples;
    out->eval_interval = c->eval_interval;
    out->eval_iters = c->eval_iters;
    /* About: data/batch.h has the sizes, and what a run makes of them is in train/evaluate.h. */
    if (out->eval_iters != 0 && c->blocks_known.counted)
        out->eval_iters = c->blocks_known.of[1] / batch + 2;
    return TR_OK;
}

void tr_epoch_share(const struct tr_epoch_plan *e, int replica, int64_t *first, int64_t *count)
{
    const int64_t d = e->replicas > 0 ? e->replicas : 1;
    const int64_t each = e->blocks / d, more = e->blocks % d;

    *first = each * replica + (replica < more ? replica : more);
    *count = each + (replica < more);
}

enum tr_status tr_amounts_of(const struct tr_config *c, const struct tr_batches *batches, int d,
                             struct tr_amounts *out, struct tr_epoch_plan *plan)
{
    const int64_t batch = batches->global_batch;
    int64_t per_eval;

    *out = (struct tr_amounts){0};
    *plan = (struct tr_epoch_plan){0};
    if (c->n_epochs != TR_UNSET_INT)
        return epochs(c, batch, d, out, plan);
    if (c->data_blocks != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--data-blocks counts the samples of --n-epochs, which is not given: "
                       "remove it, or give --n-epochs");
    if (c->train_iters == TR_UNSET_INT && !by_samples(c))
        return TR_FAIL(TR_ECONFIG, "the length of the run is not known: give --train-iters, "
                                   "--train-samples or --n-epochs");
    if (c->train_iters != TR_UNSET_INT && by_samples(c))
        return TR_FAIL(TR_ECONFIG, "--train-iters and --train-samples both give the length of "
                                   "the run: give one of them");
    if (by_samples(c) && c->train_samples < batch)
        return TR_FAIL(TR_ECONFIG,
                       "--train-samples %lld is less than one iteration, --global-batch-size %lld "
                       "samples: raise it",
                       (long long)c->train_samples, (long long)batch);
    out->train_iters =
        by_samples(c) ? tr_batches_iterations(batches, c->train_samples) : c->train_iters;
    out->train_samples = by_samples(c) ? c->train_samples : out->train_iters * batch;
    out->eval_iters = c->eval_iters;
    out->eval_interval = c->eval_interval;
    per_eval = out->eval_iters * batch;
    out->test_samples = per_eval;
    if (__builtin_mul_overflow(out->train_iters / out->eval_interval + 1, per_eval,
                               &out->valid_samples))
        return TR_FAIL(TR_ECONFIG,
                       "--eval-iters %lld every --eval-interval %lld iterations is more "
                       "than can be counted: evaluate less",
                       (long long)out->eval_iters, (long long)out->eval_interval);
    return TR_OK;
}

static enum tr_status warm_up(const struct tr_config *c, int64_t batch, struct tr_lr_schedule *s)
{
    struct length l = {"lr-warmup-iters", "lr-warmup-samples", c->lr_warmup_iters,
                       c->lr_warmup_samples, 0};
    bool by_fraction = c->lr_warmup_fraction > TR_UNSET_REAL;
    double unit = by_samples(c) ? 1.0 : (double)batch;

    TR_TRY(check_unit(c, &l));
    s->warmup_samples = samples_of(c, batch, &l);
    if (by_fraction && s->warmup_samples > 0.0)
        return TR_FAIL(TR_ECONFIG,
                       "--lr-warmup-fraction and --%s say the same thing: give one of them",
                       by_samples(c) ? l.samples_name : l.iters_name);
    if (by_fraction)
        s->warmup_samples = c->lr_warmup_fraction * s->decay_samples;
    else if (s->warmup_samples < 0.0)
        s->warmup_samples = 0.0;
    if (s->warmup_samples >= s->decay_samples)
        return TR_FAIL(TR_ECONFIG,
                       "the learning rate warms up for %.0f %s and has decayed after %.0f "
                       "(--lr-decay-%s, or --%s): warm up for at most %.0f",
                       s->warmup_samples / unit, by_samples(c) ? "samples" : "iterations",
                       s->decay_samples / unit, by_samples(c) ? "samples" : "iters", told_by(c),
                       s->decay_samples / unit - 1.0);
    s->warmup_init = c->lr_warmup_init;
    if (s->warmup_init > s->lr)
        return TR_FAIL(TR_ECONFIG,
                       "--lr-warmup-init %g is above --lr %g: the warm-up rises from one to the "
                       "other",
                       s->warmup_init, s->lr);
    return TR_OK;
}

/* Warm-up, stable, decay (Hu et al., MiniCPM, 2024). */
static enum tr_status wsd(const struct tr_config *c, int64_t batch, struct tr_lr_schedule *s)
{
    struct length l = {"lr-wsd-decay-iters", "lr-wsd-decay-samples", c->lr_wsd_decay_iters,
                       c->lr_wsd_decay_samples, TR_UNSET_INT};
    const char *name = by_samples(c) ? l.samples_name : l.iters_name;

    TR_TRY(check_unit(c, &l));
    s->wsd_samples = samples_of(c, batch, &l);
    if (s->decay_style != TR_LR_WSD) {
        if (s->wsd_samples >= 0.0)
            return TR_FAIL(TR_ECONFIG,
                           "--%s belongs to --lr-decay-style WSD, and the style is another: "
                           "remove one of the two",
                           name);
        s->wsd_samples = 0.0;
        return TR_OK;
    }
    if (s->wsd_samples < 0.0)
        return TR_FAIL(TR_ECONFIG,
                       "--lr-decay-style WSD must know how long its last part is: give --%s", name);
    s->wsd_style = c->lr_wsd_decay_style;
    return TR_OK;
}

static enum tr_status weight_decay(const struct tr_config *c, int64_t train_samples,
                                   struct tr_lr_schedule *s)
{
    bool start = c->start_weight_decay > TR_UNSET_REAL, end = c->end_weight_decay > TR_UNSET_REAL;

    s->wd_style = c->weight_decay_incr_style;
    s->wd_start = s->wd_end = c->weight_decay;
    if (s->wd_style == TR_WD_CONSTANT && (start || end))
        return TR_FAIL(TR_ECONFIG,
                       "--%s-weight-decay does nothing while --weight-decay-incr-style is "
                       "constant: choose linear or cosine, or say --weight-decay",
                       start ? "start" : "end");
    if (s->wd_style == TR_WD_CONSTANT)
        return TR_OK;
    if (!start || !end)
        return TR_FAIL(TR_ECONFIG,
                       "--weight-decay-incr-style %s goes from one weight decay to another: give "
                       "--start-weight-decay and --end-weight-decay",
                       tr_config_spelling("weight-decay-incr-style", s->wd_style));
    if (c->start_weight_decay > c->end_weight_decay)
        return TR_FAIL(TR_ECONFIG,
                       "--start-weight-decay %g is above --end-weight-decay %g: weight decay only "
                       "rises",
                       c->start_weight_decay, c->end_weight_decay);
    s->wd_start = c->start_weight_decay;
    s->wd_end = c->end_weight_decay;
    s->wd_samples = (double)train_samples;
    return TR_OK;
}

enum tr_status tr_lr_schedule_of(const struct tr_config *c, int64_t batch, int64_t train_samples,
                                 struct tr_lr_schedule *s)
{
    struct length l = {"lr-decay-iters", "lr-decay-samples", c->lr_decay_iters, c->lr_decay_samples,
                       TR_UNSET_INT};

    *s = (struct tr_lr_schedule){0};
    s->lr = c->lr;
    s->min_lr = c->min_lr;
    s->decay_style = c->lr_decay_style;
    if (s->min_lr > s->lr)
        return TR_FAIL(TR_ECONFIG,
                       "--min-lr %g is above --lr %g: the rate falls from --lr to "
                       "--min-lr",
                       s->min_lr, s->lr);
    TR_TRY(check_unit(c, &l));
    s->decay_samples = samples_of(c, batch, &l);
    if (s->decay_samples < 0.0)
        s->decay_samples = (double)train_samples;
    TR_TRY(warm_up(c, batch, s));
    TR_TRY(wsd(c, batch, s));
    return weight_decay(c, train_samples, s);
}
