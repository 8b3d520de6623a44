/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec/pair.h"
#include "data/folder.h"
#include "util/file.h"

static char *folder;
static const char *const codec_name[] = {"delta", "delta-lowbits"};

enum { IDS = 12 };

/* Different samples for a block of `how`. */
static void draw_names(const struct tr_codec_how *how, int64_t *name)
{
    int64_t all[IDS];

    for (int i = 0; i < IDS; i++)
        all[i] = i;
    for (int b = 0; b < how->samples; b++) {
        int64_t i = b + below(IDS - b), swap = all[i];
        all[i] = all[b];
        name[b] = all[b] = swap;
    }
}

static struct plain *new_plain(const struct tr_codec_how *how, bool few)
{
    struct plain *p = calloc(1, sizeof *p);

    assert_non_null(p);
    p->how = *how;
    p->keeps_few_bits = few;
    return p;
}

/* One block through the link and through the loops. */
static void both(struct pair *p, struct plain *plain, int64_t step, const int64_t *name,
                 const float *x)
{
    struct tr_codec_key key = {step, name, (int)plain->how.samples};
    unsigned char wire[MAX_WIRE], want_wire[MAX_WIRE];
    float y[MAX_NUMBERS], want[MAX_NUMBERS];
    int64_t bytes = send_block(p, &key, x, wire, y);

    assert_int_equal(bytes, plain_delta(plain, name, x, want_wire, want));
    assert_memory_equal(wire, want_wire, (size_t)bytes);
    check_block(&plain->how, y, want);
}

/* Any sequence of blocks, each parameter in turn, in memory and in a file. */
static void as_loops_say(void **state)
{
    (void)state;
    for (int number = 0; number < 2 * HOWS; number++) {
        const bool few = number >= HOWS;
        struct tr_codec_how how = draw_how(number % HOWS);
        struct plain *plain = new_plain(&how, few);
        int64_t name[MAX_SAMPLES];
        float x[MAX_NUMBERS];
        struct pair p;

        how.folder = number % 4 == 1 ? folder : NULL;
        how.ahead = 1 + below(4);
        open_pair(&p, codec_name[few], &how, backend((int)below(12)), backend((int)below(12)));
        for (int64_t step = 0; step < 12; step++) {
            struct tr_codec_key next = {step, name, (int)how.samples};
            draw_names(&how, name);
            draw_block(&how, step % 4 == 3, x);
            assert_ok(p.to.e->on->prefetch(p.to.e, &next));
            both(&p, plain, step, name, x);
        }
        close_pair(&p);
        free(plain);
    }
}

static struct tr_codec_how usual(void)
{
    return (struct tr_codec_how){.samples = 2,
                                 .tokens = 4,
                                 .width = 5,
                                 .dtype = TR_F32,
                                 .fix = {.bits = 4, .over = 3},
                                 .keep_bits = 8,
                                 .capacity = IDS,
                                 .ahead = 4};
}

/* First sight, whole; then codes: the sizes, in figures. */
static void sizes(void **state)
{
    static const int64_t name[3][2] = {{1, 2}, {2, 3}, {3, 1}};
    const int64_t tables = 32 * 4 + 9 * IDS + 10 * 8;
    struct tr_codec_how how = usual();
    float x[MAX_NUMBERS], y[MAX_NUMBERS];
    unsigned char wire[MAX_WIRE];
    struct pair p;

    (void)state;
    open_pair(&p, "delta", &how, backend(0), backend(1));
    draw_block(&how, false, x);
    assert_int_equal(p.from.e->on->wire_limit(p.from.e), 80);
    assert_int_equal(send_block(&p, &(struct tr_codec_key){0, name[0], 2}, x, wire, y), 80);
    /* 20 codes of 4 bits, 5 scales, 20 numbers in fp16. */
    assert_int_equal(send_block(&p, &(struct tr_codec_key){1, name[1], 2}, x, wire, y), 60);
    assert_int_equal(send_block(&p, &(struct tr_codec_key){2, name[2], 2}, x, wire, y), 30);
    close_pair(&p);
    assert_int_equal(tr_codec_find("delta")->sample_bytes(&how), 64);
    /* Tables: 32 places of 4 bytes, number and mark of each sample, and 10 that may be wanted. */
    assert_int_equal(tr_codec_find("delta")->host_bytes(&how), 64 * IDS + tables);
    how.width = 100;
    how.keep_bits = 4;
    assert_int_equal(tr_codec_find("delta")->sample_bytes(&how), 832);
    assert_int_equal(tr_codec_find("delta-lowbits")->sample_bytes(&how), 448);
    how.folder = folder;
    assert_in_range(tr_codec_find("delta-lowbits")->host_bytes(&how), 10 * 448 + tables,
                    10 * 448 + tables + 12 * IDS + 10 * 64);
}

/* What is sent over and over comes closer and closer, where rounding alone does not. */
static void converges(void **state)
{
    static const int64_t name[2] = {4, 9};
    struct tr_codec_how how = usual();
    float x[2][MAX_NUMBERS], y[MAX_NUMBERS], worst[2] = {0.0F, 0.0F};
    unsigned char wire[MAX_WIRE];

    (void)state;
    how.fix.bits = 3;
    draw_block(&how, false, x[0]);
    draw_block(&how, false, x[1]);
    for (int c = 0; c < 2; c++) {
        struct pair p;
        open_pair(&p, c == 0 ? "fixpoint" : "delta", &how, backend(0), backend(0));
        for (int64_t step = 0; step < 8; step++)
            send_block(&p, &(struct tr_codec_key){step, name, 2}, x[step > 0], wire, y);
        for (int i = 0; i < 40; i++)
            worst[c] = fmaxf(worst[c], fabsf(y[i] - x[1][i]));
        close_pair(&p);
    }
    assert_true(worst[0] > 0.1F);
    assert_true(worst[1] < 0.005F);
}

/* Warm-up: what went over uncompressed is known, also where something else was. */
static void learns(void **state)
{
    (void)state;
    for (int few = 0; few < 2; few++) {
        struct tr_codec_how how = usual();
        struct plain *plain = new_plain(&how, few);
        int64_t name[2] = {0, 0};
        float x[MAX_NUMBERS], y[MAX_NUMBERS];
        unsigned char wire[MAX_WIRE];
        struct pair p;

        open_pair(&p, codec_name[few], &how, backend(0), backend(1));
        for (int64_t step = 0; step < 30; step++) {
            struct tr_codec_key key = {step, name, 2};
            draw_names(&how, name);
            draw_block(&how, step % 5 == 4, x);
            if (step % 3 != 2) {
                learn_block(&p, &key, x);
                plain->seen[name[0]] = plain->seen[name[1]] = false;
                plain_delta(plain, name, x, wire, y);
            } else {
                both(&p, plain, step, name, x);
            }
        }
        close_pair(&p);
        free(plain);
    }
}

/* A scale that is not a number leaves m as it was; a sample that is too large is forgotten. */
static void overflow(void **state)
{
    static const int64_t name[2] = {0, 1};
    struct tr_codec_how how = usual();
    struct tr_codec_key key = {0, name, 2};
    float x[MAX_NUMBERS], before[MAX_NUMBERS], y[MAX_NUMBERS];
    unsigned char wire[MAX_WIRE];
    struct pair p;

    (void)state;
    open_pair(&p, "delta", &how, backend(0), backend(0));
    draw_block(&how, false, x);
    send_block(&p, &key, x, wire, before);
    x[7] = INFINITY; /* channel 2 of both samples */
    assert_int_equal(send_block(&p, &key, x, wire, y), 30);
    for (int i = 0; i < 40; i++)
        assert_true(i % 5 != 2 ? isfinite(y[i]) : y[i] == before[i]);
    /* m of sample 1 goes beyond the largest half, step by step, and the others stay. */
    x[7] = 0.0F;
    x[21] = 60000.0F;
    assert_int_equal(send_block(&p, &key, x, wire, y), 30);
    x[21] = 131000.0F;
    assert_int_equal(send_block(&p, &key, x, wire, y), 30);
    assert_true(isinf(y[21]) && isfinite(y[0]));
    x[21] = 5.0F;
    assert_int_equal(send_block(&p, &key, x, wire, y), 20 / 2 + 10 + 40);
    assert_true(y[21] == 5.0F);
    assert_int_equal(send_block(&p, &key, x, wire, y), 30);
    close_pair(&p);
}

/* ---- what fingerprints tell ---- */

/* A backend whose arithmetic is that of "ref" but for one operation of the receiver. */
static struct tr_backend odd;

static void last_bit(const struct tr_tensor *t)
{
    *(unsigned char *)t->data ^= 1;
}

static void odd_decode(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *code,
                       const struct tr_tensor *scale, struct tr_fix how, bool add)
{
    tr_backend_find("ref")->fix_decode(q, y, code, scale, how, add);
    if (add)
        last_bit(y);
}

static void odd_scale(struct tr_queue *q, const struct tr_tensor *scale, const struct tr_tensor *x,
                      struct tr_fix how)
{
    tr_backend_find("ref")->fix_scale(q, scale, x, how);
    last_bit(scale);
}

enum wrong { NOTHING, A_NAME, A_STEP, A_BYTE, A_SUM, A_RECORD, WRONGS };

/* Two blocks, between them what is wrong, and whether the ends still seem to agree. */
static bool agree(enum wrong wrong)
{
    static const int64_t name[2][2] = {{0, 1}, {1, 0}};
    struct tr_codec_how how = usual();
    struct tr_codec_key key = {0, name[0], 2};
    float x[MAX_NUMBERS], y[MAX_NUMBERS];
    unsigned char wire[MAX_WIRE];
    struct pair p;
    bool same;

    odd = *tr_backend_find("ref");
    open_pair(&p, codec_name[wrong == A_RECORD], &how, &odd, &odd);
    draw_block(&how, false, x);
    send_block(&p, &key, x, wire, y);
    for (int i = 0; i < 40; i++)
        x[i] += 0.1F;
    send_block(&p, &key, x, wire, y);
    key.step++;
    assert_ok(p.from.e->on->encode(p.from.e, &p.from.q, &key, &p.from.wire, &p.from.x));
    memcpy(p.to.wire.data, p.from.wire.data, MAX_WIRE);
    if (wrong == A_NAME)
        key.sample = name[1];
    key.step += wrong == A_STEP;
    if (wrong == A_BYTE)
        ((unsigned char *)p.to.wire.data)[3] ^= 16;
    if (wrong == A_SUM)
        odd.fix_decode = odd_decode;
    if (wrong == A_RECORD)
        odd.fix_scale = odd_scale;
    assert_ok(p.to.e->on->decode(p.to.e, &p.to.q, &key, &p.to.x, &p.to.wire));
    same =
        p.from.e->on->fingerprint(p.from.e, &p.from.q) == p.to.e->on->fingerprint(p.to.e, &p.to.q);
    close_pair(&p);
    return same;
}

static void fingerprints_tell(void **state)
{
    (void)state;
    assert_true(agree(NOTHING));
    for (enum wrong wrong = A_NAME; wrong < WRONGS; wrong++)
        assert_false(agree(wrong));
}

/* ---- ends that stop and go on ---- */

static void save_pair(struct pair *p, char *path[2])
{
    const struct tr_codec *c = p->from.e->on;

    assert_ok(c->save(p->from.e, &p->from.q, path[0], "run, from 0"));
    assert_ok(c->save(p->to.e, &p->to.q, path[1], "run, to 1"));
}

static void load_pair(struct pair *p, char *path[2])
{
    const struct tr_codec *c = p->from.e->on;

    assert_ok(c->load(p->from.e, &p->from.q, path[0], "run, from 0"));
    assert_ok(c->load(p->to.e, &p->to.q, path[1], "run, to 1"));
}

/* Steps first .. last - 1, drawn from their numbers; what came out and was hashed at the end. */
static uint64_t run(struct pair *p, const struct tr_codec_how *how, int64_t first, int64_t last,
                    float *y)
{
    unsigned char wire[MAX_WIRE];
    float x[MAX_NUMBERS];

    for (int64_t step = first; step < last; step++) {
        const int64_t name[2] = {step * 5 % IDS, (step * 5 + 3) % IDS};
        for (int i = 0; i < how->samples * how->tokens * how->width; i++)
            x[i] = sinf((float)(i + 1) * 1.7F + (float)name[i / 20] + 0.01F * (float)step);
        send_block(p, &(struct tr_codec_key){step, name, 2}, x, wire, y);
    }
    return p->to.e->on->fingerprint(p->to.e, &p->to.q);
}

/* A process that saves both ends after step 16, goes on and is killed. */
static void run_and_die(const char *codec, const struct tr_codec_how *how, char *path[2])
{
    pid_t child = fork();
    float y[MAX_NUMBERS];
    struct pair p;
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        open_pair(&p, codec, how, tr_backend_find("cpu"), tr_backend_find("ref"));
        run(&p, how, 0, 17, y);
        save_pair(&p, path);
        run(&p, how, 17, 17 + how->fix.bits, y);
        kill(getpid(), SIGKILL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void resumes(void **state)
{
    char *path[2] = {tr_format("%s/from", folder), tr_format("%s/to", folder)};
    const struct tr_backend *cpu = tr_backend_find("cpu"), *ref = tr_backend_find("ref");

    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        struct tr_codec_how how = usual();
        float straight[MAX_NUMBERS], resumed[MAX_NUMBERS];
        uint64_t prints[2];
        struct pair p;

        how.fix.bits = 1 + kind;
        how.folder = kind & 1 ? folder : NULL;
        run_and_die(codec_name[kind / 4], &how, path);
        open_pair(&p, codec_name[kind / 4], &how, cpu, ref);
        prints[0] = run(&p, &how, 0, 40, straight);
        close_pair(&p);

        how.folder = kind & 2 ? folder : NULL;
        open_pair(&p, codec_name[kind / 4], &how, ref, cpu);
        load_pair(&p, path);
        prints[1] = run(&p, &how, 17, 40, resumed);
        close_pair(&p);
        assert_memory_equal(straight, resumed, 40 * sizeof(float));
        assert_true(prints[0] == prints[1]);
    }
    free(path[0]);
    free(path[1]);
}

/* The memory of the other end, of another codec or of other sizes is not taken for one's own. */
static void not_ours(void **state)
{
    char *path[2] = {tr_format("%s/from", folder), tr_format("%s/to", folder)};
    struct tr_codec_how how = usual();
    const struct tr_codec *c = tr_codec_find("delta");
    float y[MAX_NUMBERS];
    struct pair p;

    (void)state;
    open_pair(&p, "delta", &how, backend(0), backend(0));
    run(&p, &how, 0, 5, y);
    save_pair(&p, path);
    close_pair(&p);

    open_pair(&p, "delta", &how, backend(0), backend(0));
    assert_fails(TR_EDATA, "run, to 1", c->load(p.from.e, &p.from.q, path[1], "run, from 0"));
    assert_fails(TR_EDATA, "another run", c->load(p.from.e, &p.from.q, path[0], "another run"));
    assert_fails(TR_EIO, "No such file", c->load(p.from.e, &p.from.q, "nowhere/x", "run"));
    /* An end that could not load starts anew. */
    load_pair(&p, path);
    run(&p, &how, 5, 9, y);
    close_pair(&p);
    open_pair(&p, "delta-lowbits", &how, backend(0), backend(0));
    assert_fails(TR_EDATA, "delta of 4x5",
                 tr_codec_find("delta-lowbits")->load(p.to.e, &p.to.q, path[1], "run, to 1"));
    close_pair(&p);
    how.tokens = 2;
    how.width = 10;
    open_pair(&p, "delta", &how, backend(0), backend(0));
    assert_fails(TR_EDATA, "delta of 2x10", c->load(p.to.e, &p.to.q, path[1], "run, to 1"));
    close_pair(&p);
    free(path[0]);
    free(path[1]);
}

/* ---- what users get wrong ---- */

static void too_many(void **state)
{
    struct tr_codec_how how = usual();
    const struct tr_codec *c = tr_codec_find("delta");
    unsigned char wire[MAX_WIRE];
    float x[MAX_NUMBERS] = {0}, y[MAX_NUMBERS];
    int64_t name[2] = {0, 1};
    struct tr_codec_key key = {0, name, 2};
    struct pair p;

    (void)state;
    how.capacity = 3;
    open_pair(&p, "delta", &how, backend(0), backend(0));
    send_block(&p, &key, x, wire, y);
    name[1] = 2;
    send_block(&p, &key, x, wire, y);
    name[0] = 77;
    assert_fails(TR_ECONFIG, "--max-activation-cache-size",
                 c->encode(p.from.e, &p.from.q, &key, &p.from.wire, &p.from.x));
    close_pair(&p);
}

static void full_disk(void **state)
{
    struct tr_codec_how how = usual();
    const struct tr_codec *c = tr_codec_find("delta");
    struct rlimit old, few;
    enum tr_status status = TR_OK;
    struct pair p;

    (void)state;
    how.folder = folder;
    how.ahead = 1;
    getrlimit(RLIMIT_FSIZE, &old);
    few = old;
    few.rlim_cur = 3 * 64;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    open_pair(&p, "delta", &how, backend(0), backend(0));
    for (int64_t step = 0; step < 6 && status == TR_OK; step++) {
        const int64_t name[2] = {2 * step, 2 * step + 1};
        struct tr_codec_key key = {step, name, 2};
        status = c->encode(p.from.e, &p.from.q, &key, &p.from.wire, &p.from.x);
    }
    assert_fails(TR_EIO, "--activation-cache-dir", status);
    close_pair(&p);
    setrlimit(RLIMIT_FSIZE, &old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),     cmocka_unit_test(as_loops_say),
        cmocka_unit_test(converges), cmocka_unit_test(learns),
        cmocka_unit_test(overflow),  cmocka_unit_test(fingerprints_tell),
        cmocka_unit_test(resumes),   cmocka_unit_test(not_ours),
        cmocka_unit_test(too_many),  cmocka_unit_test(full_disk),
    };
    int failed;

    folder = folder_make();
    failed = run_tap(tests);
    folder_remove(folder);
    return failed;
}
