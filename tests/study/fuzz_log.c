/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logs that nobody wrote: whatever the reader is given, it ends, keeps its promises, and every
 * table can be made of what it found.
 *
 * The entry is libFuzzer's:
 *
 *     clang -fsanitize=fuzzer,address,undefined -DTR_FUZZ_ENTRY_ONLY ... tests/study/fuzz_log.c
 * libtrireme.a
 *
 * As it is built here, it changes excerpts of real logs by itself, in a way that depends on nothing
 * but the number of the try: fuzz_log [TRIES [FILE...]].
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "study/log.h"
#include "study/present.h"
#include "study/summary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static void check_run(const struct tr_record *r)
{
    int64_t timings = 0;

    MUST(r->name && r->starts > 0 && r->timers <= 64);
    for (int64_t i = 0; i < r->rows; i++) {
        const struct tr_row *row = &r->row[i];

        MUST(row->field[TR_FIELD_ELAPSED] >= 0.0 && row->field[TR_FIELD_ELAPSED] < 1e12);
        MUST(row->start >= 0 && row->start < r->starts && row->iteration > 0);
        MUST(i == 0 || row->iteration > row[-1].iteration);
        MUST(row->first_timing == timings);
        timings += row->timings;
        for (int n = 0; n < row->timings; n++)
            MUST(r->timing[row->first_timing + n].name < r->timers);
    }
    MUST(timings == r->timings);
}

static void make_tables(const struct tr_records *runs, FILE *out)
{
    const struct tr_present p = {runs, TR_WARMUP_AUTO, TR_FLOPS_CORE, 125.0};
    struct tr_table t[7];
    enum tr_status s[3];

    memset(t, 0, sizeof t);
    tr_present_runs(&p, &t[0]);
    tr_present_summary(&p, &t[1]);
    tr_present_starts(&p, &t[2]);
    tr_present_iterations(&p, &t[3]);
    s[0] = tr_present_breakdown(&p, &t[4]);
    s[1] = tr_present_scaling(&p, &t[5]);
    s[2] = tr_present_comparison(&p, &t[6]);
    for (int i = 0; i < 3; i++)
        MUST(s[i] == TR_OK || s[i] == TR_EDATA || s[i] == TR_ECONFIG);
    for (int f = TR_TABLE_TEXT; f <= TR_TABLE_HTML; f++)
        tr_tables_write(t, 7, (enum tr_table_format)f, out);
    for (int i = 0; i < 7; i++)
        tr_table_release(&t[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    struct tr_records runs = {0};
    FILE *f = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    enum tr_status s;

    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    if (!f || !nowhere)
        return 0;
    s = tr_log_read_stream(f, "fuzz", TR_LOG_APART, &runs);
    MUST(s == TR_OK || s == TR_EDATA);
    MUST((s == TR_OK) == (runs.count > 0));
    for (int i = 0; i < runs.count; i++)
        check_run(&runs.list[i]);
    make_tables(&runs, nowhere);
    tr_records_release(&runs);
    fclose(f);
    return 0;
}

#ifndef TR_FUZZ_ENTRY_ONLY

enum { MOST = 1 << 16 };

/* xorshift64*: the same tries everywhere. */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static size_t below(uint64_t *state, size_t n)
{
    return n ? (size_t)(draw(state) % n) : 0;
}

/* Pieces that a log is made of, where a byte alone would seldom hit one. */
static const char *const words[] = {
    "\n",
    "|",
    ":",
    " iteration        7/    1000 |",
    "time (ms) | forward-compute: 1.00 |",
    "(min, max) time across ranks (ms):\n",
    "times across ranks (ms):\n  optimizer:\n     rank  0: 1.00\n",
    "max time across ranks (ms):\n    optimizer ....: 3.00\n",
    "nan",
    "-1",
    "1e308",
    "inf",
    "0",
    "using world size: 8, data-parallel-size: 0, tensor-model-parallel size: 3\n",
    "[start 2 of this run] datetime: 2026-11-22 05:12:33 | nodes: 1 (vm) | from: the beginning\n",
    "------------------------ arguments ------------------------\n",
    "-------------------- end of arguments ---------------------\n",
    "  hidden_size ....... 0\n",
    " loading checkpoint from /x at iteration 50\n",
    "[Rank 65535] (after 1 iterations) memory (MB) | ",
    "allocated: 1.0 |",
    "[after training is done] datetime: 2021-05-23 08:41:04 \n",
    "\r\n",
    "CUDA out of memory",
    " elapsed time per iteration (ms): 5.0 |",
    "\0\0",
    "99999999999999999999",
};

/* One change: a byte, a piece out, a piece doubled, a word in, the end off. */
static size_t change(uint8_t *data, size_t size, uint64_t *state)
{
    size_t at = below(state, size), n = below(state, 200);
    const char *word = words[below(state, sizeof words / sizeof words[0])];

    n = n > size - at ? size - at : n;
    switch (below(state, 6)) {
    case 0:
        data[at] = (uint8_t)draw(state);
        return size;
    case 1:
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    case 2:
        if (size + n > MOST)
            return size;
        memmove(data + at + n, data + at, size - at);
        return size + n;
    case 3:
        return at + 1;
    default:
        n = strlen(word);
        if (size + n > MOST)
            return size;
        memmove(data + at + n, data + at, size - at);
        memcpy(data + at, word, n);
        return size + n;
    }
}

static size_t load(const char *path, uint8_t *data)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    if (!f) {
        fprintf(stderr, "cannot open %s: %s\n", path, strerror(errno));
        exit(1);
    }
    n = fread(data, 1, MOST / 2, f);
    fclose(f);
    return n;
}

int main(int argc, char **argv)
{
    int tries = argc > 1 ? atoi(argv[1]) : 300, files = argc > 2 ? argc - 2 : 0;
    uint8_t *log = malloc(MOST), *data = malloc(MOST);

    MUST(log && data && files > 0);
    for (int i = 0; i < tries; i++) {
        uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
        size_t size = load(argv[2 + i % files], log), changes = below(&state, 30);

        memcpy(data, log, size);
        for (size_t n = 0; n < changes && size > 0; n++)
            size = change(data, size, &state);
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("1..1\nok 1 - %d changed logs are read to their end\n", tries);
    free(log);
    free(data);
    return 0;
}
#endif
