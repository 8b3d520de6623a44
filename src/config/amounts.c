/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/amounts.h"

bool tr_amounts_by_samples(const struct tr_config *c)
{
    return c->train_samples != TR_UNSET_INT;
}

/* Options that exclude passes over the data. */
static enum tr_status check_epochs(const struct tr_config *c)
{
    if (c->train_iters != TR_UNSET_INT || tr_amounts_by_samples(c))
        return TR_FAIL(TR_ECONFIG,
                       "--n-epochs and --%s both give the length of the run: give one of them",
                       tr_amounts_by_samples(c) ? "train-samples" : "train-iters");
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
            "--eod-mask-loss makes the loss a mean over what counts in a micro-batch; of "
            "several samples the evaluation of --n-epochs could not tell which are its "
            "last: give --micro-batch-size 1, or --eval-iters 0");
    return TR_OK;
}

/* Options about these. */
static enum tr_status check_no_epochs(const struct tr_config *c)
{
    const char *name = c->epoch_iters != TR_UNSET_INT        ? "epoch-iters"
                       : tr_config_changed(c, "epoch-order") ? "epoch-order"
                                                             : NULL;

    if (!name)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--%s is about the epochs of --n-epochs, which is not given: remove it, or give "
                   "--n-epochs",
                   name);
}

/* Samples of training: counted, or given. */
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
    if (c->epoch_iters != TR_UNSET_INT && c->epoch_iters < iterations)
        iterations = c->epoch_iters;
    e->count = c->n_epochs;
    e->samples = iterations * batch;
    e->iters = iterations;
    e->replicas = d;
    e->seed = c->seed;
    e->order = c->epoch_order;
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

static enum tr_status length_of(const struct tr_config *c, const struct tr_batches *batches,
                                struct tr_amounts *out)
{
    const int64_t batch = batches->global_batch;
    int64_t per_eval;

    if (c->drop_last_eval)
        return TR_FAIL(TR_ECONFIG, "--drop-last-eval leaves out samples of an evaluation that "
                                   "takes all of them, as that of --n-epochs does: remove it, or "
                                   "give --n-epochs");
    TR_TRY(check_no_epochs(c));
    if (c->data_blocks != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--data-blocks counts the samples of --n-epochs, which is not given: "
                       "remove it, or give --n-epochs");
    if (c->train_iters == TR_UNSET_INT && !tr_amounts_by_samples(c))
        return TR_FAIL(TR_ECONFIG, "the length of the run is not known: give --train-iters, "
                                   "--train-samples or --n-epochs");
    if (c->train_iters != TR_UNSET_INT && tr_amounts_by_samples(c))
        return TR_FAIL(TR_ECONFIG, "--train-iters and --train-samples both give the length of "
                                   "the run: give one of them");
    if (tr_amounts_by_samples(c) && c->train_samples < batch)
        return TR_FAIL(TR_ECONFIG,
                       "--train-samples %lld is less than one iteration, --global-batch-size %lld "
                       "samples: raise it",
                       (long long)c->train_samples, (long long)batch);
    out->train_iters = tr_amounts_by_samples(c) ? tr_batches_iterations(batches, c->train_samples)
                                                : c->train_iters;
    out->train_samples = tr_amounts_by_samples(c) ? c->train_samples : out->train_iters * batch;
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

/* So that a short run has lines, too: --log-interval, or what is left of Megatron's 100. */
static int64_t log_interval(const struct tr_config *c, int64_t train_iters, int64_t epoch)
{
    int64_t n = 100;

    if (c->log_interval != TR_UNSET_INT)
        return c->log_interval;
    if (n > train_iters / 20)
        n = train_iters / 20;
    if (epoch > 0 && n > epoch / 4)
        n = epoch / 4;
    return n > 0 ? n : 1;
}

enum tr_status tr_amounts_of(const struct tr_config *c, const struct tr_batches *batches, int d,
                             struct tr_amounts *out, struct tr_epoch_plan *plan)
{
    *out = (struct tr_amounts){0};
    *plan = (struct tr_epoch_plan){0};
    if (c->n_epochs != TR_UNSET_INT)
        TR_TRY(epochs(c, batches->global_batch, d, out, plan));
    else
        TR_TRY(length_of(c, batches, out));
    out->log_interval = log_interval(c, out->train_iters, plan->iters);
    return TR_OK;
}
