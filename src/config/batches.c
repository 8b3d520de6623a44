/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/batches.h"

#include <errno.h>
#include <stdlib.h>

#include "config/near.h"

static int64_t fitting(const struct tr_batches *b, int64_t samples)
{
    return samples / b->unit * b->unit;
}

static bool fits(const struct tr_batches *b, int64_t samples)
{
    return b->rounds ? samples >= b->unit : samples % b->unit == 0;
}

static enum tr_status number(const char *text, const char *what, int64_t *out)
{
    char *end;
    long long x;

    errno = 0;
    x = strtoll(text, &end, 10);
    if (end == text || *end || errno || x < 1 || x > INT32_MAX)
        return TR_FAIL(TR_ECONFIG,
                       "--rampup-batch-size: '%s' will not do as %s: give a whole number from 1 to "
                       "2147483647",
                       text, what);
    *out = x;
    return TR_OK;
}

static enum tr_status ramp(const struct tr_config *c, struct tr_batches *b)
{
    const struct tr_words *words = &c->rampup_batch_size;

    if (words->count == 0)
        return TR_OK;
    if (words->count != 3)
        return TR_FAIL(
            TR_ECONFIG,
            "--rampup-batch-size has %d values: give three, the batch size at the start, "
            "its increments, and the samples until it is --global-batch-size",
            words->count);
    if (c->n_epochs != TR_UNSET_INT)
        return TR_FAIL(
            TR_ECONFIG,
            "--rampup-batch-size makes iterations of different sizes, and --n-epochs makes "
            "each epoch of equal ones: leave one of them out");
    if (c->train_samples == TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--rampup-batch-size makes iterations of different sizes, so the length "
                       "of the run must be given in samples: give --train-samples in place of "
                       "--train-iters");
    TR_TRY(number(words->word[0], "the batch size at the start", &b->start));
    TR_TRY(number(words->word[1], "the increments", &b->step));
    TR_TRY(number(words->word[2], "the number of samples", &b->over));
    if (b->start > b->wanted || (b->wanted - b->start) % b->step)
        return TR_FAIL(TR_ECONFIG,
                       "--rampup-batch-size cannot come from %lld to --global-batch-size %lld in "
                       "increments of %lld: choose increments that divide the difference",
                       (long long)b->start, (long long)b->wanted, (long long)b->step);
    if (b->start == b->wanted)
        b->step = 0;
    return TR_OK;
}

static enum tr_status check_passed(const struct tr_config *c)
{
    const struct tr_words *words = &c->iterations_to_skip;

    for (int i = 0; i < words->count; i++) {
        char *end;
        long long done = strtoll(words->word[i], &end, 10);

        if (end == words->word[i] || *end || done < 0)
            return TR_FAIL(TR_ECONFIG,
                           "--iterations-to-skip: '%s' will not do: give whole numbers of at "
                           "least 0, the iterations done before each skipped iteration",
                           words->word[i]);
    }
    return TR_OK;
}

static enum tr_status check_fit(const struct tr_config *c, const struct tr_batches *b)
{
    int64_t replicas = b->unit / c->micro_batch_size;
    char near[64];

    if (!fits(b, b->wanted))
        return TR_FAIL(
            TR_ECONFIG,
            "--global-batch-size %lld is not a multiple of --micro-batch-size %lld times "
            "%lld replicas: the nearest that is: %s",
            (long long)b->wanted, (long long)c->micro_batch_size, (long long)replicas,
            tr_multiples_near(b->unit, b->wanted, near));
    /* Every batch size of the ramp-up: each is some increments away from one that fits. */
    if (b->step && !(fits(b, b->start) && (b->rounds || fits(b, b->step))))
        return TR_FAIL(
            TR_ECONFIG,
            "--rampup-batch-size passes through a batch of %lld, which is not a multiple "
            "of --micro-batch-size %lld times %lld replicas: choose a start and "
            "increments that are multiples of %lld",
            (long long)(fits(b, b->start) ? b->start + b->step : b->start),
            (long long)c->micro_batch_size, (long long)replicas, (long long)b->unit);
    return TR_OK;
}

/* G, which --gradient-accumulation-steps may give as well. */
static enum tr_status wanted(const struct tr_config *c, const struct tr_batches *b, int64_t *out)
{
    const int64_t steps = c->gradient_accumulation_steps, given = c->global_batch_size;
    const int64_t all = steps == TR_UNSET_INT ? b->unit : steps * b->unit;

    *out = given == TR_UNSET_INT ? all : given;
    if (steps == TR_UNSET_INT || *out == all)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--global-batch-size %lld is not --gradient-accumulation-steps %lld times "
                   "--micro-batch-size %lld times %lld replicas, which is %lld: leave one out",
                   (long long)given, (long long)steps, (long long)c->micro_batch_size,
                   (long long)(b->unit / c->micro_batch_size), (long long)all);
}

static enum tr_status count_micros(struct tr_batches *b)
{
    if (b->global_batch / b->unit > INT32_MAX)
        return TR_FAIL(TR_ECONFIG,
                       "--global-batch-size %lld is more micro-batches than can be "
                       "counted: give a smaller one",
                       (long long)b->global_batch);
    b->micros = (int)(b->global_batch / b->unit);
    return TR_OK;
}

enum tr_status tr_batches_of(const struct tr_config *c, int replicas, struct tr_batches *out)
{
    *out = (struct tr_batches){.micro_batch = c->micro_batch_size,
                               .unit = c->micro_batch_size * replicas,
                               .rounds = c->decrease_batch_size_if_needed};
    TR_TRY(wanted(c, out, &out->wanted));
    out->global_batch = fitting(out, out->wanted);
    TR_TRY(check_passed(c));
    TR_TRY(ramp(c, out));
    TR_TRY(check_fit(c, out));
    return count_micros(out);
}

int64_t tr_batches_increments(const struct tr_batches *b)
{
    return b->step ? (b->wanted - b->start) / b->step : 0;
}

int64_t tr_batches_step(const struct tr_batches *b, int64_t i)
{
    return fitting(b, b->step ? b->start + i * b->step : b->wanted);
}

int64_t tr_batches_at(const struct tr_batches *b, int64_t consumed)
{
    int64_t increments = tr_batches_increments(b), done;

    if (b->step == 0 || consumed > b->over)
        return b->global_batch;
    done = (int64_t)((double)consumed / ((double)b->over / (double)increments));
    return tr_batches_step(b, done < increments ? done : increments);
}

int64_t tr_batches_iterations(const struct tr_batches *b, int64_t samples)
{
    int64_t consumed = 0, iterations = 0;

    while (b->step && consumed <= b->over) {
        consumed += tr_batches_at(b, consumed);
        if (consumed > samples)
            return iterations;
        iterations++;
    }
    return iterations + (samples - consumed) / b->global_batch;
}

bool tr_batches_pass(const struct tr_config *c, int64_t done)
{
    for (int i = 0; i < c->iterations_to_skip.count; i++) {
        if (strtoll(c->iterations_to_skip.word[i], NULL, 10) == done)
            return true;
    }
    return false;
}
