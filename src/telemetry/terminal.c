/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "telemetry/put.h"
#include "util/text.h"

/* Four decimals, of large numbers two, and four digits of what is very small or large; "nan" has no
   sign. */
static void put_real(struct tr_text *t, double x)
{
    if (isnan(x))
        tr_put(t, "nan");
    else if (isinf(x) || x == 0.0 || (fabs(x) >= 0.01 && fabs(x) < 100.0))
        tr_put(t, "%.4f", x);
    else if (fabs(x) >= 100.0 && fabs(x) < 1e6)
        tr_put(t, "%.2f", x);
    else
        tr_put(t, "%.3e", x);
}

static int digits(int64_t n)
{
    return snprintf(NULL, 0, "%" PRId64, n);
}

static void put_speed(struct tr_text *t, const struct tr_terminal_line *line, int iterations)
{
    double rate = (double)(line->samples * line->seq) / line->seconds;
    double each = line->seconds / iterations;
    char left[TR_DURATION_BYTES];

    tr_put(t, "  %.*f tokens/s", rate < 10.0 ? 2 : 0, rate);
    if (each < 1.0)
        tr_put(t, "  %.1f ms", each * 1000.0);
    else
        tr_put(t, "  %.2f s", each);
    if (line->iteration < line->train_iters)
        tr_put(t, "  %s left", tr_text_duration(TR_DURATION_UNITS, line->left, left));
}

int tr_terminal_iteration(char *buf, size_t size, const struct tr_terminal_line *line)
{
    const struct tr_interval *in = &line->interval;
    struct tr_text t = {buf, size, 0};

    TR_ASSERT(in->advanced + in->skipped > 0);
    tr_put(&t, "%*" PRId64 "/%" PRId64 "  loss ", digits(line->train_iters), line->iteration,
           line->train_iters);
    if (in->advanced > 0)
        put_real(&t, in->loss_sum / in->advanced);
    else
        tr_put(&t, "-");
    put_speed(&t, line, in->advanced + in->skipped);
    if (line->loss_scale > 0.0)
        tr_put(&t, "  loss scale %.10g", line->loss_scale);
    if (in->skipped > 0)
        tr_put(&t, "  %d skipped", in->skipped);
    if (in->nan > 0)
        tr_put(&t, "  %d nan", in->nan);
    tr_put(&t, "  lr %.3e", line->lr);
    if (in->has_norm) {
        tr_put(&t, "  grad norm ");
        put_real(&t, in->norm);
    }
    return (int)t.used;
}

void tr_terminal_fit(char *line, int width)
{
    char *loss = strstr(line, "  loss "), *next;

    if (!loss)
        return;
    for (next = strstr(loss + 2, "  "); next; next = strstr(next + 2, "  ")) {
        char *end = strstr(next + 2, "  ");

        if ((end ? end - line : (ptrdiff_t)strlen(line)) <= width)
            continue;
        *next = '\0';
        return;
    }
}

void tr_pace_add(struct tr_pace *p, double seconds, int iterations)
{
    const int at = (int)(p->count++ % TR_PACE_INTERVALS);

    p->seconds[at] = seconds;
    p->iterations[at] = iterations;
}

double tr_pace_left(const struct tr_pace *p, int64_t iterations)
{
    double seconds = 0.0;
    int64_t done = 0;

    for (int i = 0; i < TR_PACE_INTERVALS && i < p->count; i++) {
        seconds += p->seconds[i];
        done += p->iterations[i];
    }
    return done > 0 ? seconds / (double)done * (double)iterations : 0.0;
}

int tr_terminal_start(char *buf, size_t size, const struct tr_shape *s, enum tr_processor on,
                      int64_t done)
{
    const struct tr_layout *l = &s->layout;
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "training on %d %s (TP %d, PP %d, DP %d): iterations %" PRId64 " to %" PRId64,
           l->world, tr_processor_noun(on, l->world), l->w, l->p, l->d, done + 1,
           s->amounts.train_iters);
    tr_put(&t, " of %" PRId64 " sample%s%s, %" PRId64 " tokens each", s->batches.global_batch,
           tr_plural(s->batches.global_batch),
           tr_batches_increments(&s->batches) > 0 ? " at most" : "", s->dims.seq);
    return (int)t.used;
}

int tr_terminal_validation(char *buf, size_t size, const char *where, double loss)
{
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "validation loss at %s: ", where);
    put_real(&t, loss);
    tr_put(&t, ", perplexity ");
    put_real(&t, isnan(loss) ? loss : exp(fmin(loss, 20.0)));
    return (int)t.used;
}

int tr_terminal_saved(char *buf, size_t size, int64_t iteration, const char *folder, double seconds)
{
    struct tr_text t = {buf, size, 0};

    tr_put(&t, "checkpoint saved at iteration %" PRId64 " in %s, %.2f s", iteration, folder,
           seconds);
    return (int)t.used;
}

int tr_terminal_done(char *buf, size_t size, int64_t iterations, double seconds)
{
    struct tr_text t = {buf, size, 0};
    char took[TR_DURATION_BYTES];

    tr_put(&t, "training is done: %" PRId64 " iteration%s in %s", iterations, tr_plural(iterations),
           tr_text_duration(TR_DURATION_UNITS, seconds, took));
    return (int)t.used;
}
