/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_data [TOKENS [MEAN [SEQ]]]: what the data layer costs at the start of a run and in a step.
 *
 * Index maps are made for TOKENS tokens (10^9) in documents of MEAN tokens (1000) on average, split
 * into samples of SEQ (2048), one epoch; the sizes are drawn, no text exists.  Then 2^24 tokens
 * are written and read back as a dataset in a folder under $TMPDIR, from the page cache.  All on one
 * thread.  Each line is a JSON object; seconds are the least and the middle of five repetitions.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "data/indexed.h"
#include "data/numpy_rng.h"
#include "data/samples.h"
#include "util/rng.h"
#include "telemetry/timer.h"

enum { REPEATS = 5, WRITTEN = 1 << 24 };

static struct {
    int64_t tokens, mean, seq;
    int argc;
    char **argv;
} about = {.tokens = 1000000000, .mean = 1000, .seq = 2048};

/* `per` and `amount` make a rate of the least time: amount tokens, samples or bytes per second. */
static void report(const char *what, double seconds[REPEATS], const char *per, double amount)
{
    const struct tr_bench_times t = tr_bench_times_of(seconds, REPEATS);
    json_t *line = bench_line("data", about.argc, about.argv);
    char rate[64];

    snprintf(rate, sizeof rate, "%s_per_second", per);
    json_object_set_new(line, "what", json_string(what));
    json_object_set_new(line, "threads", json_integer(1));
    json_object_set_new(line, "mhz", json_real(round(bench_clock(1))));
    json_object_set_new(line, "tokens", json_integer(about.tokens));
    json_object_set_new(line, "mean_document", json_integer(about.mean));
    json_object_set_new(line, "seq", json_integer(about.seq));
    bench_add_times(line, &t);
    json_object_set_new(line, rate, json_real(amount / t.min));
    bench_print(line);
}

/* Lengths of documents as text has them, roughly: exponential, none empty. */
static int64_t draw_sizes(int32_t **out)
{
    struct tr_rng r = tr_rng_key(1, TR_STREAM_INIT, 0, 0);
    int64_t most = about.tokens, sum = 0, n = 0;
    int32_t *sizes = bench_memory(most / about.mean * 2 + 1024, sizeof *sizes);

    while (sum < about.tokens) {
        double u = ((double)tr_rng_u32(r, (uint64_t)n) + 0.5) / 4294967296.0;

        sizes[n] = 1 + (int32_t)(-log(u) * (double)about.mean);
        sum += sizes[n++];
    }
    *out = sizes;
    return n;
}

static void bench_maps(void)
{
    static const char *const names[] = {"document map", "sample map", "shuffle map"};
    double plan[REPEATS], map[TR_MAPS][REPEATS], verify[REPEATS];
    struct tr_samples_spec spec = {.seq = about.seq, .seed = 1234};
    struct tr_samples x;
    int32_t *sizes;

    spec.last = draw_sizes(&sizes);
    spec.sizes = (const unsigned char *)sizes;
    spec.wanted = (about.tokens - 1) / about.seq;
    for (int i = 0; i < REPEATS; i++) {
        struct tr_numpy_rng rng;
        double begin = tr_now();

        bench_must(tr_samples_plan(&spec, "the drawn sizes", &x));
        plan[i] = tr_now() - begin;
        tr_numpy_seed(&rng, spec.seed);
        for (int m = 0; m < TR_MAPS; m++) {
            begin = tr_now();
            tr_samples_build(&x, (enum tr_samples_map)m, &rng, NULL);
            map[m][i] = tr_now() - begin;
        }
        begin = tr_now();
        bench_must(tr_samples_verify(&x, NULL));
        verify[i] = tr_now() - begin;
        tr_samples_close(&x);
    }
    report("plan", plan, "tokens", (double)about.tokens);
    for (int m = 0; m < TR_MAPS; m++)
        report(names[m], map[m], "tokens", (double)about.tokens);
    report("verify maps", verify, "tokens", (double)about.tokens);
    free(sizes);
}

static void write_set(const char *prefix)
{
    int32_t *tokens = bench_memory(about.mean, sizeof *tokens);
    struct tr_index_writer *w;

    for (int64_t i = 0; i < about.mean; i++)
        tokens[i] = (int32_t)(i % 50257);
    bench_must(tr_index_writer_open(prefix, TR_INDEX_U16, &w));
    for (int64_t n = 0; n < WRITTEN; n += about.mean)
        bench_must(tr_index_writer_add(w, tokens, about.mean));
    bench_must(tr_index_writer_close(w));
    free(tokens);
}

static void bench_files(const char *prefix)
{
    double write[REPEATS], open[REPEATS], get[REPEATS];
    int32_t *text = bench_memory(about.seq + 1, sizeof *text);
    int64_t count = 0;

    for (int i = 0; i < REPEATS; i++) {
        struct tr_samples_spec spec = {.seq = about.seq, .wanted = 1, .seed = 1234};
        struct tr_samples x;
        struct tr_index index;
        double begin = tr_now();

        write_set(prefix);
        write[i] = tr_now() - begin;
        begin = tr_now();
        bench_must(tr_index_open(prefix, &index));
        open[i] = tr_now() - begin;
        spec.sizes = index.sizes;
        spec.last = index.sequences;
        bench_must(tr_samples_make(&spec, prefix, &x));
        count = x.count;
        begin = tr_now();
        for (int64_t k = 0; k < count; k++)
            bench_must(tr_samples_get(&x, &index, k, 50257, text));
        get[i] = tr_now() - begin;
        tr_samples_close(&x);
        tr_index_close(&index);
    }
    report("write 2^24 tokens and flush", write, "tokens", WRITTEN);
    report("open and check 2^24 tokens", open, "tokens", WRITTEN);
    report("read samples of 2^24 tokens", get, "samples", (double)count);
    free(text);
}

int main(int argc, char **argv)
{
    int64_t *const argument[] = {&about.tokens, &about.mean, &about.seq};
    const char *where = getenv("TMPDIR");
    char *folder = tr_format("%s/trireme.XXXXXX", where && *where ? where : "/tmp"), *prefix;

    for (int i = 1; i < argc && i <= 3; i++)
        *argument[i - 1] = (int64_t)strtod(argv[i], NULL);
    if (argc > 4 || about.tokens < 2 || about.mean < 1 || about.seq < 1 ||
        about.seq >= about.tokens) {
        fprintf(stderr, "usage: bench_data [TOKENS [MEAN [SEQ]]]\n");
        return 64;
    }
    about.argc = argc;
    about.argv = argv;
    bench_maps();
    if (!mkdtemp(folder))
        tr_die(TR_EIO, "cannot make a folder %s", folder);
    prefix = tr_format("%s/set", folder);
    bench_files(prefix);
    for (int i = 0; i < 2; i++) {
        char *path = tr_format("%s.%s", prefix, i ? "idx" : "bin");

        unlink(path);
        free(path);
    }
    rmdir(folder);
    free(prefix);
    free(folder);
    return 0;
}
