/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/lr_schedule.h"

#include "config/amounts.h"

/* A length that may be given in iterations or in samples. */
struct length {
    const char *iters_name, *samples_name;
    int64_t iters, samples, none;
};

/* Which option gives the length of the run. */
static const char *length_option(const struct tr_config *c)
{
    return tr_amounts_by_samples(c)      ? "train-samples"
           : c->n_epochs != TR_UNSET_INT ? "n-epochs"
                                         : "train-iters";
}

/* Schedules are given in the unit of the run's length: with two units one would be wrong as soon as
   the batch size changes. */
static enum tr_status check_unit(const struct tr_config *c, const struct length *l)
{
    bool samples = tr_amounts_by_samples(c);

    if ((samples ? l->iters : l->samples) == l->none)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--%s counts %s, but the length of the run is given in %s by --%s: give --%s "
                   "instead",
                   samples ? l->iters_name : l->samples_name, samples ? "iterations" : "samples",
                   samples ? "samples" : "iterations", length_option(c),
                   samples ? l->samples_name : l->iters_name);
}

/* The length in samples, or -1 if it was not given. */
static double samples_of(const struct tr_config *c, int64_t batch, const struct length *l)
{
    if (tr_amounts_by_samples(c))
        return l->samples == l->none ? -1.0 : (double)l->samples;
    return l->iters == l->none ? -1.0 : (double)(l->iters * batch);
}

static enum tr_status warm_up(const struct tr_config *c, int64_t batch, struct tr_lr_schedule *s)
{
    struct length l = {"lr-warmup-iters", "lr-warmup-samples", c->lr_warmup_iters,
                       c->lr_warmup_samples, 0};
    bool by_fraction = c->lr_warmup_fraction > TR_UNSET_REAL;
    double unit = tr_amounts_by_samples(c) ? 1.0 : (double)batch;

    TR_TRY(check_unit(c, &l));
    s->warmup_samples = samples_of(c, batch, &l);
    if (by_fraction && s->warmup_samples > 0.0)
        return TR_FAIL(TR_ECONFIG,
                       "--lr-warmup-fraction and --%s say the same thing: give one of them",
                       tr_amounts_by_samples(c) ? l.samples_name : l.iters_name);
    if (by_fraction)
        s->warmup_samples = c->lr_warmup_fraction * s->decay_samples;
    else if (s->warmup_samples < 0.0)
        s->warmup_samples = 0.0;
    if (s->warmup_samples >= s->decay_samples)
        return TR_FAIL(TR_ECONFIG,
                       "the learning rate warms up for %.0f %s and has decayed after %.0f "
                       "(--lr-decay-%s, or --%s): warm up for at most %.0f",
                       s->warmup_samples / unit,
                       tr_amounts_by_samples(c) ? "samples" : "iterations", s->decay_samples / unit,
                       tr_amounts_by_samples(c) ? "samples" : "iters", length_option(c),
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
    const char *name = tr_amounts_by_samples(c) ? l.samples_name : l.iters_name;

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
                       "constant: choose linear or cosine, or use --weight-decay",
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
