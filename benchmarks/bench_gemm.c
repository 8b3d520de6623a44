/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_gemm [THREADS]: GEMMs in fp32 and bf16, by this program and by every library that configure
 * found and that takes the type, all on THREADS threads, or on all cores.  A library that takes another
 * number is left out, with a sentence.
 *
 * First squares, then the three GEMMs of each linear layer in one step of GPT-2 124M with 4 samples
 * of 64 tokens (H 768, F 3072, L 12, V 50304); the last line of each is all of them together, as often
 * as a step has them.  Rates are of the least time; gradients of weights are fp32.
 */
#include "bench_device.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench_library.h"
#include "bench_like.h"
#include "util/text.h"

static const struct {
    const char *name;
    int64_t n, o, i;
    int times; /* in a step */
} layers[] = {
    {"square 1024", 1024, 1024, 1024, 0}, {"square 3072", 3072, 3072, 3072, 0},
    {"qkv", 256, 2304, 768, 12},          {"out", 256, 768, 768, 12},
    {"up", 256, 3072, 768, 12},           {"down", 256, 768, 3072, 12},
    {"logits", 256, 50304, 768, 1},
};

enum { LAYERS = sizeof layers / sizeof layers[0] };

struct who {
    const struct bench_library *library; /* NULL: this program */
    enum tr_dtype type;
    int threads, argc;
    char **argv;
    char kernels[256]; /* of this program */
};

static json_t *begin(const struct who *w, const char *layer)
{
    json_t *line = bench_line("gemm", w->argc, w->argv);

    json_object_set_new(line, "layer", json_string(layer));
    json_object_set_new(line, "by", json_string(w->library ? w->library->name() : "trireme"));
    bench_add_side(line, w->threads, tr_dtype_name(w->type),
                   w->library ? w->library->name() : w->kernels);
    return line;
}

static struct bench_rates measure(const struct who *w, int i)
{
    json_t *line = begin(w, layers[i].name);
    int64_t n = layers[i].n, outputs = layers[i].o, inputs = layers[i].i;
    struct bench_rates r = w->library
                               ? bench_library_rates(w->library, w->type, n, outputs, inputs, 0.3)
                               : bench_linear(w->threads, w->type, n, outputs, inputs, 0.3);

    json_object_set_new(line, "n", json_integer(n));
    json_object_set_new(line, "o", json_integer(outputs));
    json_object_set_new(line, "i", json_integer(inputs));
    json_object_set_new(line, "forward_gflops", json_real(r.forward));
    json_object_set_new(line, "dgrad_gflops", json_real(r.dgrad));
    json_object_set_new(line, "wgrad_gflops", json_real(r.wgrad));
    bench_print(line);
    return r;
}

static void measure_all(const struct who *w)
{
    double gflop = 0.0, seconds = 0.0;
    json_t *line;

    for (int i = 0; i < LAYERS; i++) {
        struct bench_rates r = measure(w, i);
        double one = 2e-9 * (double)(layers[i].n * layers[i].o * layers[i].i) * layers[i].times;

        gflop += 3.0 * one;
        seconds += one / r.forward + one / r.dgrad + one / r.wgrad;
    }
    line = begin(w, "all of a step");
    json_object_set_new(line, "gflop", json_real(gflop));
    json_object_set_new(line, "gflops", json_real(gflop / seconds));
    bench_print(line);
}

/* The threads that were asked for, or all, and what this program multiplies with. */
static void open_ours(struct who *w, int threads)
{
    struct tr_queue q = bench_queue(threads);

    w->threads = q.on->threads(q.device);
    snprintf(w->kernels, sizeof w->kernels, "%s", q.on->describe(q.device));
    q.on->close(q.device);
}

static void measure_library(struct who *w)
{
    const struct bench_side ours = {"this program", w->threads, 1, tr_dtype_name(w->type)};
    const struct bench_side theirs = {w->library->name(), w->library->threads(w->threads), 1,
                                      ours.type};
    char why[512];

    if (bench_alike(&ours, &theirs, why, sizeof why))
        measure_all(w);
    else
        printf("%s\n", why);
}

int main(int argc, char **argv)
{
    struct who w = {.argc = argc, .argv = argv};

    if (argc > 2) {
        fprintf(stderr, "usage: bench_gemm [THREADS]\n");
        return 64;
    }
    open_ours(&w, argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0);
    printf("all on %d thread%s; ours: %s\n", w.threads, tr_plural(w.threads), w.kernels);
    /* A library may keep threads that look for work, so all of ours is measured before it. */
    w.type = TR_F32;
    measure_all(&w);
    w.type = TR_BF16;
    measure_all(&w);
    for (const struct bench_library *const *l = bench_libraries(); *l; l++) {
        w.library = *l;
        w.type = TR_F32;
        measure_library(&w);
        w.type = TR_BF16;
        if (w.library->bf16)
            measure_library(&w);
    }
    return 0;
}
