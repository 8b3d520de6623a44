/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_gemm [THREADS]: products in fp32, by this program and by the BLAS, if there is one.  THREADS is
 * for this program alone: a BLAS has variables of its own (OPENBLAS_NUM_THREADS).
 *
 * First 1024^3, then the three products of each linear layer in one step of GPT-2 124M with 4 samples
 * of 64 tokens (H 768, F 3072, L 12, V 50304); the last lines are all of them together, each as often
 * as a step has it.  Rates are of the least time.
 */
#include "bench_device.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    int64_t n, o, i;
    int times; /* in a step */
} layers[] = {
    {"cube", 1024, 1024, 1024, 0}, {"qkv", 256, 2304, 768, 12},  {"out", 256, 768, 768, 12},
    {"up", 256, 3072, 768, 12},    {"down", 256, 768, 3072, 12}, {"logits", 256, 50304, 768, 1},
};

enum by { OURS, BLAS, BYS };

static const char *const names[BYS] = {"trireme", "blas"};

struct sum {
    double gflop, seconds;
};

static void report(const char *layer, enum by by, const struct bench_sgemm *r, int i, int argc,
                   char **argv)
{
    json_t *line = bench_line("gemm", argc, argv);

    json_object_set_new(line, "layer", json_string(layer));
    json_object_set_new(line, "by", json_string(names[by]));
    json_object_set_new(line, "n", json_integer(layers[i].n));
    json_object_set_new(line, "o", json_integer(layers[i].o));
    json_object_set_new(line, "i", json_integer(layers[i].i));
    json_object_set_new(line, "forward_gflops", json_real(r->forward));
    json_object_set_new(line, "dgrad_gflops", json_real(r->dgrad));
    json_object_set_new(line, "wgrad_gflops", json_real(r->wgrad));
    bench_print(line);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;

    if (argc > 2) {
        fprintf(stderr, "usage: bench_gemm [THREADS]\n");
        return 64;
    }
    /* A BLAS may keep threads that look for work, so all of ours is measured before it. */
    for (enum by by = OURS; by < BYS; by++) {
        struct sum sum = {0.0, 0.0};
        json_t *line;

        if (by == BLAS && !bench_blas())
            break;
        for (int i = 0; i < (int)(sizeof layers / sizeof layers[0]); i++) {
            double gflop = 2e-9 * (double)(layers[i].n * layers[i].o * layers[i].i);
            struct bench_sgemm r =
                by == OURS ? bench_linear(threads, layers[i].n, layers[i].o, layers[i].i, 0.3)
                           : bench_sgemm(layers[i].n, layers[i].o, layers[i].i, 0.3);

            report(layers[i].name, by, &r, i, argc, argv);
            sum.gflop += 3.0 * layers[i].times * gflop;
            sum.seconds +=
                layers[i].times * gflop * (1.0 / r.forward + 1.0 / r.dgrad + 1.0 / r.wgrad);
        }
        line = bench_line("gemm", argc, argv);
        json_object_set_new(line, "layer", json_string("all of a step"));
        json_object_set_new(line, "by", json_string(names[by]));
        json_object_set_new(line, "gflop", json_real(sum.gflop));
        json_object_set_new(line, "gflops", json_real(sum.gflop / sum.seconds));
        bench_print(line);
    }
    return 0;
}
