/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/shape.h"
#include "model/param.h"
#include "optim/lr.h"
#include "optim/scaler.h"
#include "telemetry/lines.h"

/*
 * Two public runs of Megatron-LM, iteration by iteration: from their options and from which gradients
 * overflowed, the numbers of every line of their logs to the letter.  How many iterations were skipped
 * in an interval is in the log; which ones is not, but for the last.
 */
enum { RUNS = 2, INTERVAL = 10, LINES = 20 };

static struct run {
    const char *name, *model;
    int world;
    struct tr_config c;
    struct tr_shape s;
    struct tr_scaler scaler;
    int64_t iteration, lr_samples;
    int lines;
} runs[RUNS] = {
    {.name = "18B",
     .model = "--num-layers 40 --hidden-size 6144 --pipeline-model-parallel-size 4",
     .world = 16},
    {.name = "30B",
     .model = "--num-layers 48 --hidden-size 7168 --pipeline-model-parallel-size 8",
     .world = 32},
};

/* As their command lines say; the vocabulary file has 50257 entries. */
static void open_run(struct run *r)
{
    char text[2048];

    snprintf(text, sizeof text,
             "%s --num-attention-heads 32 --seq-length 1024 --max-position-embeddings 1024 "
             "--micro-batch-size 1 --global-batch-size 4 --lr 0.00015 --lr-decay-style cosine "
             "--min-lr 1.0e-5 --train-iters 1000 --lr-decay-iters 800 --lr-warmup-fraction .01 "
             "--weight-decay 1e-2 --clip-grad 1.0 --fp16 --checkpoint-activations "
             "--vocab-size 50257 --split 949,50,1 --log-interval 10 --eval-interval 100 "
             "--eval-iters 10 --tensor-model-parallel-size 4",
             r->model);
    tr_config_init(&r->c);
    assert_ok(tr_config_parse_text(&r->c, text));
    assert_ok(tr_shape_of(&r->c, r->world, &r->s));
    tr_scaler_init_dynamic(&r->scaler, r->c.initial_loss_scale, r->c.min_loss_scale,
                           (int)r->c.loss_scale_window, (int)r->c.hysteresis);
}

static void step(struct run *r, bool overflow, struct tr_interval *in)
{
    tr_scaler_update(&r->scaler, overflow);
    if (!overflow)
        r->lr_samples += r->s.batches.global_batch;
    tr_interval_add(in, 7.5, overflow, overflow ? (double)INFINITY : 2.5, -1.0);
    r->iteration++;
}

/* The field "LABEL: text |" of a line, without blanks before it; "-" if it is not there. */
static void field(const char *line, const char *label, char out[64])
{
    const char *at = strstr(line, label);

    snprintf(out, 64, "-");
    if (!at)
        return;
    at += strlen(label);
    at += strspn(at, " ");
    snprintf(out, 64, "%.*s", (int)strcspn(at, " "), at);
}

/* One interval, then its line, as the table writes it: "18B 10 40 0.000E+00 ...". */
static void interval(struct run *r, int skipped, bool norm, char out[512])
{
    static const char *labels[] = {
        " iteration",  "consumed samples:", "learning rate:",      "global batch size:",
        "loss scale:", "grad norm:",        "skipped iterations:", "nan iterations:"};
    char text[TR_REPORT_BYTES], word[64];
    struct tr_interval in = {0};
    struct tr_iteration_line line = {
        .train_iters = r->s.amounts.train_iters,
        .global_batch = r->s.batches.global_batch,
        .seconds = 1.0,
        .tflops = -1.0,
        .params_norm = -1.0,
    };
    size_t n = (size_t)snprintf(out, 512, "%s", r->name);

    /* Where the norm is missing, the last iterations are those that were skipped. */
    for (int i = 0; i < INTERVAL; i++)
        step(r, norm ? i < skipped : i >= INTERVAL - skipped, &in);
    line.iteration = r->iteration;
    line.consumed_samples = r->iteration * r->s.batches.global_batch;
    line.lr = tr_lr_at(&r->s.lr_schedule, (double)r->lr_samples);
    line.loss_scale = r->scaler.scale;
    line.interval = in;
    tr_lines_iteration(text, sizeof text, &line);
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        field(text, labels[i], word);
        word[strcspn(word, "/")] = '\0';
        if (strcmp(labels[i], "grad norm:") == 0)
            snprintf(word, sizeof word, "%s", strcmp(word, "-") == 0 ? "no" : "yes");
        n += (size_t)snprintf(out + n, 512 - n, " %s", word);
    }
}

static void parameters(const struct run *r, int stage, int64_t wanted)
{
    for (int tp = 0; tp < r->s.layout.w; tp++) {
        struct tr_params ps;

        tr_params_list(&r->s.dims, &r->s.layout, tp, stage, &ps);
        assert_int_equal(tr_params_number(&ps), wanted);
        tr_params_release(&ps);
    }
}

static struct run *run_of(const char *line)
{
    for (int i = 0; i < RUNS; i++)
        if (strncmp(line, runs[i].name, strlen(runs[i].name)) == 0)
            return &runs[i];
    fail_msg("no such run: %s", line);
    return NULL;
}

/* One row of the table. */
static void row(const char *line)
{
    struct run *r = run_of(line);
    char norm[8], mine[512];
    int64_t number, train, valid, test;
    int stage, skipped;

    if (sscanf(line, "%*s params %d %" SCNd64, &stage, &number) == 2) {
        parameters(r, stage, number);
    } else if (sscanf(line, "%*s wants %" SCNd64 " %" SCNd64 " %" SCNd64, &train, &valid, &test) ==
               3) {
        assert_int_equal(r->s.amounts.train_samples, train);
        assert_int_equal(r->s.amounts.valid_samples, valid);
        assert_int_equal(r->s.amounts.test_samples, test);
    } else {
        assert_int_equal(sscanf(line, "%*s %*s %*s %*s %*s %*s %7s %d %*s", norm, &skipped), 2);
        interval(r, skipped, strcmp(norm, "yes") == 0, mine);
        assert_string_equal(mine, line);
        r->lines++;
    }
}

static void every_line(void **state)
{
    const char *srcdir = getenv("srcdir");
    char path[4096], line[512];
    FILE *f;

    (void)state;
    for (int i = 0; i < RUNS; i++)
        open_run(&runs[i]);
    snprintf(path, sizeof path, "%s/tests/golden/megatron-runs.txt", srcdir ? srcdir : ".");
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '#')
            row(line);
    }
    fclose(f);
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(runs[i].lines, LINES);
        tr_config_release(&runs[i].c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_line)};

    return run_tap(tests);
}
