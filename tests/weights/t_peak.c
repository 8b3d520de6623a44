/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/stream.h"
#include "data/folder.h"
#include "util/file.h"
#include "util/log.h"
#include "weights/import.h"
#include "weights/move.h"

/*
 * However large a model is, there is one tensor of it in memory and its permuted copy, or two blocks if these are more:
 * of what the program counts, which is all that it prints, and of what the system sees it take.
 */
#if defined(__SANITIZE_ADDRESS__)
enum { WATCHED = 1 };
#elif defined(__has_feature)
enum { WATCHED = __has_feature(address_sanitizer) };
#else
enum { WATCHED = 0 };
#endif

/* Beyond the tensors: lists of parameters, the index of a checkpoint, what malloc() keeps. */
enum { BESIDES = 4 << 20 };

enum { MANY = 1 << 18 };
static const float zeros[MANY];
static char *top;
static struct tr_comm self;

/* Transposed tensors and packed rows; groups of queries and pairs of gates, in blocks.  Ten layers and more. */
static const struct model {
    const char *name, *options;
    int64_t largest; /* bytes of a tensor in fp32 */
} models[] = {
    {"gpt2",
     "--num-layers 12 --hidden-size 384 --num-attention-heads 6 --seq-length 8 "
     "--max-position-embeddings 8 "
     "--vocab-size 512",
     384 * 1536 * 4},
    {"llama3",
     "--model-family llama3 --num-layers 10 --hidden-size 256 --ffn-hidden-size 1024 "
     "--num-attention-heads 8 "
     "--num-query-groups 4 --seq-length 8 --max-position-embeddings 8 --vocab-size 6000",
     6000 * 256 * 4},
};
static const struct model little = {"little",
                                    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 "
                                    "--seq-length 8 --max-position-embeddings 8 "
                                    "--vocab-size 16",
                                    0};

/* Bytes of all weights; these are zeros. */
static int64_t make(const struct model *m, const char *dir)
{
    struct tr_ckpt_stream *w;
    struct tr_config c;
    struct tr_dims dims;
    int64_t bytes;
    char *json;

    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, m->options));
    assert_ok(tr_dims_of(&c, 1, &dims));
    json = tr_config_get_json(&c, NULL);
    assert_ok(tr_ckpt_stream_open(&self, dir, &dims, json, "zeros", &w));
    for (int i = 0; i < tr_ckpt_stream_params(w)->count; i++) {
        const int64_t elems = tr_ckpt_stream_params(w)->list[i].elems;

        for (int64_t at = 0; at < elems; at += MANY)
            assert_ok(tr_ckpt_stream_put(w, i, at, zeros, elems - at < MANY ? elems - at : MANY));
    }
    bytes = tr_params_number(tr_ckpt_stream_params(w)) * (int64_t)sizeof(float);
    assert_ok(tr_ckpt_stream_close(w, TR_OK));
    free(json);
    tr_config_release(&c);
    return bytes;
}

struct took {
    double counted, seen; /* bytes */
};

/* "at most 65.8 kB" */
static double counted(const char *path)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"B", 1.0}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
    char *text, *at, unit[4];
    double number;

    assert_ok(tr_regular_text(path, 1 << 16, &text));
    at = strstr(text, "at most ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "at most %lf %3[a-zA-Z]", &number, unit), 2);
    free(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].unit, unit) == 0)
            return number * units[i].bytes;
    fail_msg("unit %s", unit);
    return 0.0;
}

/* What a process of its own takes for an export, or an import. */
static struct took run(const char *from, const char *to, bool exports)
{
    const struct tr_export e = {
        .load = from, .to = to, .type = TR_WEIGHTS_F32, .shard_bytes = 5 << 20, .interval = 10.0};
    const struct tr_import i = {
        .ask = {.from = from, .seq_length = 8}, .save = to, .interval = 10.0};
    char *path = tr_format("%s/said", top);
    struct rusage used;
    struct took t;
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        if (!freopen(path, "w", stdout))
            _exit(1);
        status = (exports ? tr_weights_export(&e, &self) : tr_weights_import(&i, &self)) != TR_OK;
        fflush(stdout);
        _exit(status);
    }
    assert_int_equal(wait4(child, &status, 0, &used), child);
    assert_int_equal(status, 0);
    t = (struct took){counted(path), (double)used.ru_maxrss * 1024.0};
    free(path);
    return t;
}

static void compare(const char *what, const struct model *m, const struct took *t,
                    const struct took *base, int64_t all)
{
    const int64_t each = m->largest > TR_WEIGHTS_BLOCK ? m->largest : TR_WEIGHTS_BLOCK;
    const double most = 2.02 * (double)each; /* with a tile, and three digits */

    print_message("# %s of %s: %.1f MB counted, %.1f MB seen, of %.1f MB\n", what, m->name,
                  t->counted / 1e6, (t->seen - base->seen) / 1e6, (double)all / 1e6);
    assert_true((double)all > 3.0 * (most + BESIDES));
    assert_true(t->counted <= most);
    if (!WATCHED)
        assert_true(t->seen - base->seen <= most + BESIDES);
}

static void peaks(void **state)
{
    char *origin = tr_format("%s/little", top), *folder = tr_format("%s/little-hf", top);
    char *back = tr_format("%s/little-back", top);
    struct took base[2];

    (void)state;
    make(&little, origin);
    base[0] = run(origin, folder, true);
    base[1] = run(folder, back, false);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const struct model *m = &models[i];
        struct took t;
        int64_t all;

        free(origin);
        free(folder);
        free(back);
        origin = tr_format("%s/%s", top, m->name);
        folder = tr_format("%s-hf", origin);
        back = tr_format("%s-back", origin);
        all = make(m, origin);
        t = run(origin, folder, true);
        compare("export", m, &t, &base[0], all);
        t = run(folder, back, false);
        compare("import", m, &t, &base[1], all);
    }
    free(origin);
    free(folder);
    free(back);
}

/* Bytes that this process has read by system calls so far; -1 where the system does not say. */
static long long read_so_far(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    long long bytes = -1;

    if (!f)
        return -1;
    if (fscanf(f, "rchar: %lld", &bytes) != 1)
        bytes = -1;
    fclose(f);
    return bytes;
}

static enum tr_status drop(void *ctx, const struct tr_weights_item *m, int64_t first, float *x,
                           int64_t n)
{
    (void)ctx;
    (void)m;
    (void)first;
    (void)x;
    (void)n;
    return TR_OK;
}

/* A range of rows is read, and no more: of the Llama of the test above, whose rows are in groups and pairs. */
static void only_rows(void **state)
{
    enum { ITSELF = 4096 }; /* reading what was read */
    char *folder = tr_format("%s/%s-hf", top, models[1].name);
    const struct tr_weights_ask ask = {.from = folder, .seq_length = 8};
    struct tr_weights_end to = {.block = drop};
    struct tr_weights_source s;

    (void)state;
    assert_ok(tr_weights_source_open(&ask, &s));
    for (int i = 0; i < s.whole.count && read_so_far() >= 0; i++) {
        const struct tr_param *p = &s.whole.list[i];
        const int64_t lo = p->full[0] / 2, hi = p->full[0] / 2 + p->full[0] / 4;
        const long long before = read_so_far();

        assert_ok(tr_weights_read(&s.table, &s.map.list[i], lo, hi, &to));
        assert_in_range(read_so_far() - before, (hi - lo) * p->full[1] * 4,
                        (hi - lo) * p->full[1] * 4 + ITSELF);
    }
    tr_weights_source_release(&s);
    free(folder);
}

/* A signal after some blocks. */
static int left;

static int soon(void)
{
    return --left < 0 ? SIGTERM : 0;
}

static void stopped(void **state)
{
    char *origin = tr_format("%s/stop", top), *folder = tr_format("%s/stop-hf", top);
    struct tr_export e = {.load = origin,
                          .to = folder,
                          .type = TR_WEIGHTS_F32,
                          .shard_bytes = 1000,
                          .interval = 10.0,
                          .stopped = soon};
    struct tr_import i = {
        .ask = {.from = folder, .seq_length = 8}, .interval = 10.0, .stopped = soon};

    (void)state;
    make(&little, origin);
    for (int blocks = 0; blocks < 12; blocks += 3) {
        left = blocks;
        assert_fails(TR_ETEMP, "stopped by signal 15 (Terminated); nothing was written",
                     tr_weights_export(&e, &self));
        assert_int_not_equal(access(folder, F_OK), 0);
    }
    left = 1000;
    assert_ok(tr_weights_export(&e, &self));
    i.save = tr_format("%s/stop-back", top);
    left = 7;
    assert_fails(TR_ETEMP, "stopped by signal 15", tr_weights_import(&i, &self));
    assert_int_not_equal(access(i.save, F_OK), 0);
    free((char *)(uintptr_t)i.save);
    free(folder);
    free(origin);
    folder = tr_format("ls -A %s | grep -q tmp-", top);
    assert_int_not_equal(system(folder), 0);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(peaks), cmocka_unit_test(only_rows),
                                       cmocka_unit_test(stopped)};
    int failed;

    tr_log_level(TR_LOG_ERROR);
    tr_comm_self(&self);
    top = folder_make();
    failed = run_tap(tests);
    folder_remove(top);
    return failed;
}
