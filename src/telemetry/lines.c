/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/option.h"
#include "telemetry/put.h"
#include "util/text.h"

static int put_all(char *buf, size_t size, const char *fmt, ...) TR_PRINTF(3, 4);

static int put_all(char *buf, size_t size, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(buf, size, fmt, args);
    va_end(args);
    TR_ASSERT(n >= 0 && (size_t)n < size);
    return n;
}

enum notation { FIXED, SCIENTIFIC };

/* As printf does it, but "nan" without a sign and in small letters in every notation. */
static void put_real(struct tr_text *t, enum notation how, int decimals, double x)
{
    if (isnan(x))
        tr_put(t, "nan");
    else if (isinf(x))
        tr_put(t, x < 0.0 ? "-inf" : "inf");
    else if (how == FIXED)
        tr_put(t, "%.*f", decimals, x);
    else
        tr_put(t, "%.*E", decimals, x);
}

/* " NAME: value |" */
static void put_field(struct tr_text *t, const char *name, enum notation how, int decimals,
                      double x)
{
    tr_put(t, " %s: ", name);
    put_real(t, how, decimals, x);
    tr_put(t, " |");
}

static void put_moment(struct tr_text *t, struct tr_moment now)
{
    char when[TR_TIME_BYTES];

    tr_put(t, "%s", tr_time_local(now.seconds, when));
    if (now.micros >= 0)
        tr_put(t, ".%06d", now.micros);
}

static void put_datetime(struct tr_text *t, const char *event, struct tr_moment now)
{
    tr_put(t, "[%s] datetime: ", event);
    put_moment(t, now);
    tr_put(t, " ");
}

static void put_ruler(struct tr_text *t, size_t length)
{
    while (length--)
        tr_put(t, "-");
}

/* MiB as Python prints a float, or with two decimals. */
static void put_megabytes(struct tr_text *t, int format, const char *name, int64_t bytes)
{
    char number[64];

    if (format == TR_FORMAT_CORE)
        snprintf(number, sizeof number, "%.2f", (double)bytes / 1048576.0);
    else
        tr_real_text((double)bytes / 1048576.0, number, sizeof number);
    tr_put(t, " | %s: %s", name, number);
}

void tr_interval_add(struct tr_interval *in, double loss, bool skipped, double norm, double zeros)
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
    in->has_zeros = !skipped && zeros >= 0.0;
    in->zeros = zeros;
}

struct tr_moment tr_moment_now(int format)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (struct tr_moment){
        .seconds = now.tv_sec,
        .micros = format == TR_FORMAT_CORE ? (int)(now.tv_nsec / 1000) : -1,
    };
}

/* Megatron Core's two fields, and one for runs of any size. */
static void put_energy(struct tr_text *t, const struct tr_iteration_line *line, int iterations)
{
    const double rank = line->joules / line->ranks;

    put_field(t, "energy per GPU (J/iter/GPU)", FIXED, 1, rank / iterations);
    put_field(t, "power per GPU (W/GPU)", FIXED, 1, rank / line->seconds);
    if (line->samples > 0)
        put_field(t, "energy per token (J/token)", SCIENTIFIC, 3,
                  line->joules / ((double)line->samples * (double)line->seq));
}

/* One decimal, as Megatron has it; of less than 1, which may be 0.0 so, three digits that count. */
static int decimals_of(double tflops)
{
    return tflops > 0.0 && tflops < 1.0 ? 2 - (int)floor(log10(tflops)) : 1;
}

/* Progress and speed: the first part of an iteration line. */
static void put_progress(struct tr_text *t, const struct tr_iteration_line *line, double seconds)
{
    if (line->format == TR_FORMAT_CORE) {
        tr_put(t, " [");
        put_moment(t, line->now);
        tr_put(t, "]");
    }
    tr_put(t, " iteration %8" PRId64 "/%8" PRId64 " |", line->iteration, line->train_iters);
    tr_put(t, " consumed samples: %12" PRId64 " |", line->consumed_samples);
    if (line->passed_samples > 0)
        tr_put(t, " skipped samples: %12" PRId64 " |", line->passed_samples);
    if (line->format == TR_FORMAT_DEEPSPEED) {
        tr_put(t, " consumed tokens: %12" PRId64 " |", line->consumed_samples * line->seq);
        put_field(t, "elapsed time per iteration (s)", FIXED, 2, seconds);
    } else {
        put_field(t, "elapsed time per iteration (ms)", FIXED, 1, seconds * 1000.0);
    }
    if (line->tflops >= 0.0 && line->format != TR_FORMAT_DEEPSPEED)
        put_field(t, "throughput per GPU (TFLOP/s/GPU)", FIXED, decimals_of(line->tflops),
                  line->tflops);
}

/* Loss, gradient norm and the like: the middle of the line. */
static void put_results(struct tr_text *t, const struct tr_iteration_line *line)
{
    const struct tr_interval *in = &line->interval;

    put_field(t, "learning rate", SCIENTIFIC, line->format == TR_FORMAT_CORE ? 6 : 3, line->lr);
    tr_put(t, " global batch size: %5" PRId64 " |", line->global_batch);
    if (in->advanced > 0)
        put_field(t, "lm loss", SCIENTIFIC, 6, in->loss_sum / in->advanced);
    if (line->scaled || line->format != TR_FORMAT_DEEPSPEED)
        put_field(t, "loss scale", FIXED, 1, line->loss_scale);
    if (in->has_norm)
        put_field(t, "grad norm", FIXED, 3, in->norm);
    if (in->has_zeros)
        put_field(t, "num zeros", FIXED, line->format == TR_FORMAT_CORE ? 0 : 1, in->zeros);
    if (!(line->params_norm < 0.0))
        put_field(t, "params norm", FIXED, 3, line->params_norm);
}

int tr_lines_iteration(char *buf, size_t size, const struct tr_iteration_line *line)
{
    const struct tr_interval *in = &line->interval;
    struct tr_text t = {buf, size, 0};
    int iterations = in->advanced + in->skipped;
    double seconds;

    TR_ASSERT(iterations > 0);
    seconds = line->seconds / iterations;
    put_progress(&t, line, seconds);
    if (line->joules > 0.0)
        put_energy(&t, line, iterations);
    put_results(&t, line);
    tr_put(&t, " number of skipped iterations: %3d |", in->skipped);
    tr_put(&t, " number of nan iterations: %3d |", in->nan);
    if (line->format == TR_FORMAT_DEEPSPEED) {
        put_field(&t, "samples per second", FIXED, 3, (double)line->samples / line->seconds);
        put_field(&t, "TFLOPs", FIXED, 2, line->tflops);
    }
    return (int)t.used;
}

int tr_lines_formula(char *buf, size_t size, const char *formula)
{
    return put_all(buf, size, "> TFLOP/s by the formula %s", formula);
}

int tr_lines_validation(char *buf, size_t size, const char *where, double loss)
{
    char middle[512];
    struct tr_text t = {buf, size, 0}, m = {middle, sizeof middle, 0};

    tr_put(&m, " validation loss at %s |", where);
    put_field(&m, "lm loss value", SCIENTIFIC, 6, loss);
    put_field(&m, "lm loss PPL", SCIENTIFIC, 6, isnan(loss) ? loss : exp(fmin(loss, 20.0)));
    tr_put(&m, " ");
    put_ruler(&t, m.used + 1);
    tr_put(&t, "\n%s\n", middle);
    put_ruler(&t, m.used + 1);
    return (int)t.used;
}

int tr_lines_evaluation(char *buf, size_t size, double loss)
{
    return put_all(buf, size, "{\"valid.perplexity\": %.6f, \"valid.loss\": %.6f}",
                   isnan(loss) ? loss : exp(fmin(loss, 20.0)), loss);
}

int tr_lines_where(char *buf, size_t size, int format, int64_t iteration, bool test)
{
    if (format == TR_FORMAT_CORE || format == TR_FORMAT_TERMINAL)
        return put_all(buf, size, "iteration %" PRId64 " on %s set", iteration,
                       test ? "test" : "validation");
    return put_all(buf, size, "the end of training for %s data", test ? "test" : "val");
}

int tr_lines_evaluating(char *buf, size_t size, int64_t iteration, int64_t iterations)
{
    return put_all(buf, size, "Evaluating iter %" PRId64 "/%" PRId64, iteration, iterations);
}

int tr_lines_memory(char *buf, size_t size, int format, int rank, int64_t iteration,
                    const struct tr_memory_line *memory)
{
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "[Rank %d] (after %" PRId64 " iterations) memory (MB)", rank, iteration);
    put_megabytes(&t, format, "allocated", memory->allocated);
    put_megabytes(&t, format, "max allocated", memory->max_allocated);
    put_megabytes(&t, format, "reserved", memory->reserved);
    put_megabytes(&t, format, "max reserved", memory->max_reserved);
    return (int)t.used;
}

int tr_lines_theory(char *buf, size_t size, double weights, double activations)
{
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "Theoretical memory footprints: weight and optimizer=%.2f MB", weights / 1048576.0);
    if (activations >= 0.0)
        tr_put(&t, ", activation=%.2f MB, total=%.2f MB", activations / 1048576.0,
               (weights + activations) / 1048576.0);
    tr_put(&t, "\n");
    return (int)t.used;
}

int tr_lines_datetime(char *buf, size_t size, const char *event, struct tr_moment now)
{
    struct tr_text t = {buf, size, 0};

    put_datetime(&t, event, now);
    return (int)t.used;
}

void tr_lines_shorten(char *text)
{
    static const char *const stay[] = {
        "using world size:",
        "setting number of micro-batches",
        "will use batch size rampup",
        "decreasing the global batch size",
        " > padded vocab",
        "[before the start of training step]",
    };
    char *to = text;

    for (char *line = text, *end; *line; line = end) {
        bool stays = false;

        end = line + strcspn(line, "\n");
        end += *end == '\n';
        for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++)
            stays = stays || strncmp(line, stay[i], strlen(stay[i])) == 0;
        if (!stays)
            continue;
        memmove(to, line, (size_t)(end - line));
        to += end - line;
    }
    if (to > text && to[-1] == '\n')
        to--;
    *to = '\0';
}

int tr_lines_stages(char *buf, size_t size, const struct tr_layout *l, int64_t layers)
{
    struct tr_text t = {buf, size, 0};
    char list[TR_LAYOUT_TEXT];

    buf[0] = '\0';
    if (!l->spread)
        return 0;
    tr_put(&t,
           "> %" PRId64 " layers on %d stages, one more on those before the last: "
           "--pipeline-model-parallel-layout %s",
           layers, l->p, tr_layout_list(l, list));
    return (int)t.used;
}

int tr_lines_world(char *buf, size_t size, const struct tr_layout *l, const struct tr_precision *p)
{
    struct tr_text t = {buf, size, 0};

    tr_put(&t,
           "using world size: %d, data-parallel-size: %d, tensor-model-parallel size: %d, "
           "pipeline-model-parallel size: %d \n",
           l->world, l->d, l->w, l->p);
    tr_put(&t, "using torch.%s for parameters ...",
           !p->half  ? "float32"
           : p->bf16 ? "bfloat16"
                     : "float16");
    return (int)t.used;
}

static void put_batches(struct tr_text *t, const struct tr_batches *b)
{
    if (b->step)
        tr_put(t,
               "will use batch size rampup starting from global batch size %" PRId64
               " to global batch size %" PRId64 " with batch size increments %" PRId64
               " over %" PRId64 " samples.\n",
               b->start, b->wanted, b->step, b->over);
    else
        tr_put(t, "setting number of micro-batches to constant %d\n", b->micros);
    if (b->global_batch != b->wanted)
        tr_put(t,
               "decreasing the global batch size from %" PRId64 " to %" PRId64
               ", a multiple of %" PRId64 "\n",
               b->wanted, b->global_batch, b->unit);
}

int tr_lines_setup(char *buf, size_t size, const struct tr_shape *s, const char *tokenizer,
                   uint64_t seed)
{
    struct tr_text t = {buf, size, 0};

    put_batches(&t, &s->batches);
    tr_put(&t, "> building %s tokenizer ...\n", tokenizer);
    tr_put(&t,
           " > padded vocab (size: %" PRId64 ") with %" PRId64 " dummy tokens (new size: %" PRId64
           ")\n",
           s->dims.vocab, s->dims.vocab_padded - s->dims.vocab, s->dims.vocab_padded);
    tr_put(&t, "> initializing tensor model parallel with size %d\n", s->layout.w);
    tr_put(&t, "> initializing pipeline model parallel with size %d\n", s->layout.p);
    tr_put(&t, "> setting random seeds to %" PRIu64 " ...", seed);
    return (int)t.used;
}

int tr_lines_initialized(char *buf, size_t size, double seconds, struct tr_moment now)
{
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "time to initialize megatron (seconds): %.3f\n", seconds);
    put_datetime(&t, "after megatron is initialized", now);
    tr_put(&t, "\nbuilding GPT model ...");
    return (int)t.used;
}

int tr_lines_start(char *buf, size_t size, const double *parts, double seconds)
{
    static const char *const names[] = {"program", "MPI", "launch", "model", "checkpoint", "data"};
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "> start-up (seconds): %.3f", seconds);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        tr_put(&t, " | %s: %.3f", names[i], parts[i]);
    return (int)t.used;
}

int tr_lines_parameters(char *buf, size_t size, int tp, int pp, int64_t number)
{
    return put_all(
        buf, size,
        " > number of parameters on (tensor, pipeline) model parallel rank (%d, %d): %" PRId64, tp,
        pp, number);
}

int tr_lines_decay_style(char *buf, size_t size, const char *spelling)
{
    return put_all(buf, size, "> learning rate decay style: %s", spelling);
}

int tr_lines_built(char *buf, size_t size, struct tr_moment now)
{
    return tr_lines_datetime(buf, size,
                             "after model, optimizer, and learning rate scheduler are built", now);
}

int tr_lines_ready(char *buf, size_t size, struct tr_moment now)
{
    struct tr_text t = {buf, size, 0};

    put_datetime(&t, "after dataloaders are built", now);
    tr_put(&t, "\ndone with setup ...");
    return (int)t.used;
}

int tr_lines_training(char *buf, size_t size, struct tr_moment now)
{
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "training ...\n");
    put_datetime(&t, "before the start of training step", now);
    return (int)t.used;
}

int tr_lines_done(char *buf, size_t size, struct tr_moment now)
{
    return tr_lines_datetime(buf, size, "after training is done", now);
}
