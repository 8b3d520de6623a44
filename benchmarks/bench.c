/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench_library.h"
#include "launch/commit.h"
#include "util/text.h"
#include "telemetry/timer.h"

void bench_must(enum tr_status s)
{
    if (s != TR_OK)
        tr_die(s, "%s", tr_last_error());
}

void *bench_memory(int64_t count, int64_t bytes)
{
    void *p = calloc((size_t)count, (size_t)bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for %lld bytes", (long long)(count * bytes));
    return p;
}

/* ---- repetitions ---- */

struct tr_bench_times bench_repeat(struct tr_comm *world, int warm_up, int repeats,
                                   void (*body)(void *ctx), void *ctx)
{
    double *seconds = bench_memory(repeats, sizeof *seconds);
    struct tr_tensor all = tr_f64_1(seconds, repeats);
    struct tr_bench_times t;

    for (int i = 0; i < warm_up; i++)
        body(ctx);
    for (int i = 0; i < repeats; i++) {
        double began;

        if (world)
            world->via->barrier(world);
        began = tr_now();
        body(ctx);
        seconds[i] = tr_now() - began;
    }
    if (world)
        world->via->allreduce(world, NULL, &all, TR_MAX);
    t = tr_bench_times_of(seconds, repeats);
    free(seconds);
    return t;
}

/* ---- the clock ---- */

/* The compiler knows neither number, so the next addition waits for this one. */
static inline void add(uint64_t *sum, uint64_t *one)
{
    *sum += *one;
    __asm__ volatile("" : "+r"(*sum), "+r"(*one));
}

/* Of this core: the best of some short intervals, since others may take it away in one of them. */
static double clock_of_core(void)
{
    enum { ADDITIONS = 1 << 20, INTERVALS = 30 };
    double best = 0.0;

    for (int i = 0; i < INTERVALS; i++) {
        uint64_t sum = 1, one = 1;
        double began = tr_now();

        for (int k = 0; k < ADDITIONS; k += 4) {
            add(&sum, &one);
            add(&sum, &one);
            add(&sum, &one);
            add(&sum, &one);
        }
        best = fmax(best, 1e-6 * (double)ADDITIONS / (tr_now() - began));
    }
    return best;
}

double bench_clock(int threads)
{
    double least = INFINITY;

    (void)threads;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(min : least)
#endif
    least = clock_of_core();
    return least;
}

/* ---- lines of JSON ---- */

static void processor_name(char *buf, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(buf, size, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strstr(line, ": ");

        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(buf, size, "%s", value + 2);
        break;
    }
    if (f)
        fclose(f);
}

static int cores(void)
{
    cpu_set_t mask;

    CPU_ZERO(&mask);
    return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

static void add_text(json_t *line, const char *key, const char *text)
{
    json_object_set_new(line, key, json_string(text));
}

static void add_arguments(json_t *line, int argc, char **argv)
{
    json_t *words = json_array();

    for (int i = 1; i < argc; i++)
        json_array_append_new(words, json_string(argv[i]));
    json_object_set_new(line, "arguments", words);
}

json_t *bench_line(const char *bench, int argc, char **argv)
{
    json_t *line = json_object();
    char text[256], date[TR_TIME_BYTES];
    double load = 0.0;

    add_text(line, "bench", bench);
    memset(text, 0, sizeof text);
    gethostname(text, sizeof text - 1);
    add_text(line, "host", text);
    processor_name(text, sizeof text);
    add_text(line, "processor", text);
    json_object_set_new(line, "cores", json_integer(cores()));
    add_text(line, "libraries", bench_library_names());
    if (getloadavg(&load, 1) == 1)
        json_object_set_new(line, "load", json_real(load));
    snprintf(text, sizeof text, "%sZ", tr_time_utc(time(NULL), date));
    add_text(line, "date", text);
    add_text(line, "version", TR_COMMIT[0] ? PACKAGE_VERSION " (" TR_COMMIT ")" : PACKAGE_VERSION);
    add_arguments(line, argc, argv);
    return line;
}

void bench_add_side(json_t *line, int threads, const char *type, const char *kernels)
{
    json_object_set_new(line, "threads", json_integer(threads));
    add_text(line, "type", type);
    add_text(line, "kernels", kernels);
    json_object_set_new(line, "mhz", json_real(round(bench_clock(threads))));
}

void bench_add_times(json_t *line, const struct tr_bench_times *t)
{
    json_object_set_new(line, "repeats", json_integer(t->count));
    json_object_set_new(line, "seconds_min", json_real(t->min));
    json_object_set_new(line, "seconds_median", json_real(t->median));
    json_object_set_new(line, "seconds_p95", json_real(t->p95));
}

void bench_print(json_t *line)
{
    char *text = json_dumps(line, JSON_REAL_PRECISION(6) | JSON_PRESERVE_ORDER);

    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for a line of JSON");
    printf("%s\n", text);
    fflush(stdout);
    free(text);
    json_decref(line);
}
