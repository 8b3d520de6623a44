/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/option.h"

/* A text being written. */
struct text {
    char *buf;
    size_t size, used;
};

static int format(char *buf, size_t size, const char *fmt, ...) TR_PRINTF(3, 4);
static void put(struct text *t, const char *fmt, ...) TR_PRINTF(2, 3);

static int format_list(char *buf, size_t size, const char *fmt, va_list args)
{
    int n = vsnprintf(buf, size, fmt, args);

    TR_ASSERT(n >= 0 && (size_t)n < size);
    return n;
}

static int format(char *buf, size_t size, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = format_list(buf, size, fmt, args);
    va_end(args);
    return n;
}

static void put(struct text *t, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    t->used += (size_t)format_list(t->buf + t->used, t->size - t->used, fmt, args);
    va_end(args);
}

enum notation { FIXED, SCIENTIFIC };

/* As printf does it, but "nan" without a sign and in small letters in every notation. */
static void put_real(struct text *t, enum notation how, int decimals, double x)
{
    if (isnan(x))
        put(t, "nan");
    else if (isinf(x))
        put(t, x < 0.0 ? "-inf" : "inf");
    else if (how == FIXED)
        put(t, "%.*f", decimals, x);
    else
        put(t, "%.*E", decimals, x);
}

/* " NAME: value |" */
static void put_field(struct text *t, const char *name, enum notation how, int decimals, double x)
{
    put(t, " %s: ", name);
    put_real(t, how, decimals, x);
    put(t, " |");
}

static void put_datetime(struct text *t, const char *event, time_t now)
{
    char when[64];
    struct tm local;

    TR_ASSERT(localtime_r(&now, &local));
    TR_ASSERT(strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local) > 0);
    put(t, "[%s] datetime: %s ", event, when);
}

static void put_ruler(struct text *t, size_t length)
{
    while (length--)
        put(t, "-");
}

/* MiB as Python prints a float. */
static void put_megabytes(struct text *t, const char *name, int64_t bytes)
{
    char number[64];

    tr_real_text((double)bytes / 1048576.0, number, sizeof number);
    put(t, " | %s: %s", name, number);
}

void tr_interval_add(struct tr_interval *in, double loss, bool skipped, double norm)
{
    if (skipped) {
        in->skipped++;
    } else {
        in->advanced++;
        in->loss_sum += loss;
    }
    if (!isfinite(loss))
        in->nan++;
    /* Not "norm >= 0": a norm that is nan was computed. */
    in->has_norm = !skipped && !(norm < 0.0);
    in->norm = norm;
}

int tr_report_iteration(char *buf, size_t size, const struct tr_iteration_line *line)
{
    const struct tr_interval *in = &line->interval;
    struct text t = {buf, size, 0};
    int iterations = in->advanced + in->skipped;

    TR_ASSERT(iterations > 0);
    put(&t, " iteration %8" PRId64 "/%8" PRId64 " |", line->iteration, line->train_iters);
    put(&t, " consumed samples: %12" PRId64 " |", line->consumed_samples);
    put_field(&t, "elapsed time per iteration (ms)", FIXED, 1, line->seconds * 1000.0 / iterations);
    put_field(&t, "learning rate", SCIENTIFIC, 3, line->lr);
    put(&t, " global batch size: %5" PRId64 " |", line->global_batch);
    if (in->advanced > 0)
        put_field(&t, "lm loss", SCIENTIFIC, 6, in->loss_sum / in->advanced);
    put_field(&t, "loss scale", FIXED, 1, line->loss_scale);
    if (in->has_norm)
        put_field(&t, "grad norm", FIXED, 3, in->norm);
    put(&t, " number of skipped iterations: %3d |", in->skipped);
    put(&t, " number of nan iterations: %3d |", in->nan);
    return (int)t.used;
}

int tr_report_validation(char *buf, size_t size, const char *where, double loss)
{
    char middle[512];
    struct text t = {buf, size, 0}, m = {middle, sizeof middle, 0};

    put(&m, " validation loss at %s |", where);
    put_field(&m, "lm loss value", SCIENTIFIC, 6, loss);
    put_field(&m, "lm loss PPL", SCIENTIFIC, 6, isnan(loss) ? loss : exp(fmin(loss, 20.0)));
    put(&m, " ");
    put_ruler(&t, m.used + 1);
    put(&t, "\n%s\n", middle);
    put_ruler(&t, m.used + 1);
    return (int)t.used;
}

int tr_report_evaluating(char *buf, size_t size, int64_t iteration, int64_t iterations)
{
    return format(buf, size, "Evaluating iter %" PRId64 "/%" PRId64, iteration, iterations);
}

int tr_report_memory(char *buf, size_t size, int rank, int64_t iteration,
                     const struct tr_memory_line *memory)
{
    struct text t = {buf, size, 0};

    put(&t, "[Rank %d] (after %" PRId64 " iterations) memory (MB)", rank, iteration);
    put_megabytes(&t, "allocated", memory->allocated);
    put_megabytes(&t, "max allocated", memory->max_allocated);
    put_megabytes(&t, "reserved", memory->reserved);
    put_megabytes(&t, "max reserved", memory->max_reserved);
    return (int)t.used;
}

int tr_report_datetime(char *buf, size_t size, const char *event, time_t now)
{
    struct text t = {buf, size, 0};

    put_datetime(&t, event, now);
    return (int)t.used;
}

int tr_report_world(char *buf, size_t size, const struct tr_shape *s)
{
    struct text t = {buf, size, 0};

    put(&t,
        "using world size: %d, data-parallel-size: %d, tensor-model-parallel size: %d, "
        "pipeline-model-parallel size: %d \n",
        s->world, s->d, s->w, s->p);
    put(&t, "using torch.float32 for parameters ...");
    return (int)t.used;
}

int tr_report_setup(char *buf, size_t size, const struct tr_shape *s, const char *tokenizer,
                    uint64_t seed)
{
    struct text t = {buf, size, 0};

    put(&t, "setting number of micro-batches to constant %d\n", s->micros);
    put(&t, "> building %s tokenizer ...\n", tokenizer);
    put(&t,
        " > padded vocab (size: %" PRId64 ") with %" PRId64 " dummy tokens (new size: %" PRId64
        ")\n",
        s->vocab, s->vocab_padded - s->vocab, s->vocab_padded);
    put(&t, "> initializing tensor model parallel with size %d\n", s->w);
    put(&t, "> initializing pipeline model parallel with size %d\n", s->p);
    put(&t, "> setting random seeds to %" PRIu64 " ...", seed);
    return (int)t.used;
}

int tr_report_initialized(char *buf, size_t size, double seconds, time_t now)
{
    struct text t = {buf, size, 0};

    put(&t, "time to initialize megatron (seconds): %.3f\n", seconds);
    put_datetime(&t, "after megatron is initialized", now);
    put(&t, "\nbuilding GPT model ...");
    return (int)t.used;
}

int tr_report_parameters(char *buf, size_t size, int tp, int pp, int64_t number)
{
    return format(
        buf, size,
        " > number of parameters on (tensor, pipeline) model parallel rank (%d, %d): %" PRId64, tp,
        pp, number);
}

int tr_report_decay_style(char *buf, size_t size, const char *spelling)
{
    return format(buf, size, "> learning rate decay style: %s", spelling);
}

int tr_report_built(char *buf, size_t size, time_t now)
{
    return tr_report_datetime(buf, size,
                              "after model, optimizer, and learning rate scheduler are built", now);
}

int tr_report_ready(char *buf, size_t size, time_t now)
{
    struct text t = {buf, size, 0};

    put_datetime(&t, "after dataloaders are built", now);
    put(&t, "\ndone with setup ...");
    return (int)t.used;
}

int tr_report_training(char *buf, size_t size, time_t now)
{
    struct text t = {buf, size, 0};

    put(&t, "training ...\n");
    put_datetime(&t, "before the start of training step", now);
    return (int)t.used;
}

int tr_report_done(char *buf, size_t size, time_t now)
{
    return tr_report_datetime(buf, size, "after training is done", now);
}
