/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "device/cpu/cpu.h"
#include "dp/cocktail.h"
#include "util/half.h"
#include "util/rng.h"
#include "util/clock.h"

/*
 * The round against a plain simulation of all replicas on every rank: loops over one number at a time, a sort
 * for the largest, no packing.  What each replica computes itself must be the same to the bit.
 */

#ifdef __SANITIZE_THREAD__
/* MPI has threads of its own, and is not compiled to be watched. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "ignore_noninstrumented_modules=1";
}
enum { THREADS = 1 };
#else
enum { THREADS = 2 };
#endif

static float half(float x)
{
    return tr_f16_to_float(tr_f16_from_float(x));
}

/* ---- the compressor, plainly ---- */

static const float *magnitudes;

static int by_magnitude(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    float x = fabsf(magnitudes[i]), y = fabsf(magnitudes[j]);

    return x > y ? -1 : x < y ? 1 : i < j ? -1 : 1;
}

/* The scale of the numbers at place[0], place[step], ..., n of them. */
static float plain_scale(const float *y, const int64_t *place, int64_t step, int64_t n, int bits)
{
    double sum[32] = {0.0};
    float most = 0.0F;

    for (int64_t i = 0; i < n; i++) {
        float v = y[place[i * step]];

        most = fmaxf(most, fabsf(v));
        sum[i % 32] += (double)v * (double)v;
    }
    if (bits > 1)
        return half(fminf(most, 65504.0F));
    for (int size = 16; size > 0; size /= 2)
        for (int i = 0; i < size; i++)
            sum[i] += sum[i + size];
    return half((float)fmin(sqrt(sum[0] / (double)n), 65504.0));
}

static float plain_number(float y, float scale, int bits)
{
    float steps = (float)(1 << (bits - 1)), t;

    if (bits == 1)
        return y >= 0.0F ? scale : -scale;
    t = rintf(y / (scale + 1e-6F) * steps);
    t = t < -steps ? -steps : t > steps - 1.0F ? steps - 1.0F : t;
    return t / steps * scale;
}

/* What the receiver of a message for y[n] makes of it. */
static void plain_compress(const struct tr_sparse_how *how, const float *y, int64_t n, float *out)
{
    const bool floats = how->bits == TR_SPARSE_FLOATS;
    int64_t kept = (int64_t)(how->keep * (double)n), bucket = floats ? 1 : how->bucket, k = 0;
    int64_t *order = malloc((size_t)n * sizeof *order);
    bool *is_kept = calloc((size_t)n, sizeof *is_kept);

    kept = kept < 1 ? 1 : kept;
    kept = kept >= bucket ? kept - kept % bucket : kept;
    bucket = bucket > kept ? kept : bucket;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    magnitudes = y;
    qsort(order, (size_t)n, sizeof *order, by_magnitude);
    for (int64_t i = 0; i < kept; i++)
        is_kept[order[i]] = true;
    for (int64_t i = 0; i < n; i++) {
        out[i] = 0.0F;
        if (is_kept[i])
            order[k++] = i;
    }
    for (int64_t c = 0; c < kept / bucket; c++) {
        float scale = plain_scale(y, order + c, kept / bucket, bucket, how->bits);

        for (int64_t i = c; i < kept; i += kept / bucket)
            out[order[i]] = floats ? y[order[i]] : plain_number(y[order[i]], scale, how->bits);
    }
    free(order);
    free(is_kept);
}

/* ---- all replicas, plainly ---- */

enum { MOST = 4, ELEMS = 4000, CHUNK = 2000 };

struct plain {
    float x[MOST][ELEMS], g[ELEMS], e[TR_DP_SPANS][MOST][CHUNK];
    int64_t round;
};

static int64_t total_of(const struct tr_dp_span *s)
{
    int64_t total = 0;

    for (int i = 0; i < s->pieces; i++)
        total += s->piece[i].count;
    return total;
}

/* Where element `at` of a span is in the flat buffer, or -1. */
static int64_t flat_of(const struct tr_dp_span *s, int64_t at)
{
    for (int i = 0; i < s->pieces; i++) {
        if (at < s->piece[i].count)
            return s->piece[i].first + at;
        at -= s->piece[i].count;
    }
    return -1;
}

static void plain_chunk(struct plain *p, const struct tr_cocktail_how *how,
                        const struct tr_dp_span *s, int c, int64_t chunk)
{
    static int32_t list[CHUNK];
    static unsigned char seen[CHUNK];
    static float y[CHUNK], own[MOST][CHUNK], sum[CHUNK], all[CHUNK];
    struct tr_mask_how mask = how->mask;
    const int d = world.size;
    int64_t n;

    mask.multiple = how->pack.bits == TR_SPARSE_FLOATS ? 1 : how->pack.bucket;
    n = tr_mask_count(&mask, chunk);
    tr_mask_list(&mask, chunk, p->round, s->id * d + c, list, seen);
    for (int j = 0; j < d; j++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t at = list[i] < 0 ? -1 : flat_of(s, c * chunk + list[i]);

            y[i] = at < 0 ? 0.0F : p->x[j][at] - p->g[at];
            y[i] = how->pack.bits == TR_SPARSE_FLOATS ? y[i] : half(y[i]);
        }
        plain_compress(&how->pack, y, n, own[j]);
    }
    for (int64_t i = 0; i < n; i++) {
        sum[i] = 0.0F;
        for (int j = 0; j < d; j++)
            sum[i] += own[j][i];
        sum[i] = sum[i] * (1.0F / (float)d) + (list[i] < 0 ? 0.0F : p->e[s->id][c][list[i]]);
    }
    plain_compress(&how->pack, sum, n, all);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = list[i] < 0 ? -1 : flat_of(s, c * chunk + list[i]);

        if (list[i] >= 0)
            p->e[s->id][c][list[i]] = half(sum[i] - all[i]);
        if (at < 0)
            continue;
        for (int j = 0; j < d; j++)
            p->x[j][at] += all[i] - own[j][i];
        p->g[at] = half(p->g[at] + all[i]);
    }
}

static void plain_round(struct plain *p, const struct tr_cocktail_how *how,
                        const struct tr_dp_span *spans, int n)
{
    if (p->round < 0)
        for (int64_t i = 0; i < ELEMS; i++)
            p->g[i] = half(p->x[0][i]);
    p->round++;
    for (int i = 0; i < n; i++) {
        int64_t chunk = (total_of(&spans[i]) + world.size - 1) / world.size;

        for (int c = 0; c < world.size; c++)
            plain_chunk(p, how, &spans[i], c, chunk);
    }
}

/* The step of replica j after a round. */
static float moved(int j, int64_t round, int64_t i)
{
    struct tr_rng r = tr_rng_key(11, TR_STREAM_INIT, j, round);

    return 0.01F * ((float)(tr_rng_u32(r, (uint64_t)i) >> 8) * 0x1p-24F - 0.5F);
}

static float begun(int64_t i)
{
    return (float)(tr_rng_u32(tr_rng_key(12, TR_STREAM_INIT, 0, 0), (uint64_t)i) >> 8) * 0x1p-24F -
           0.5F;
}

static void plain_begin(struct plain *p)
{
    memset(p, 0, sizeof *p);
    p->round = -1;
    for (int j = 0; j < world.size; j++)
        for (int64_t i = 0; i < ELEMS; i++)
            p->x[j][i] = begun(i);
}

static void plain_move(struct plain *p)
{
    for (int j = 0; j < world.size; j++)
        for (int64_t i = 0; i < ELEMS; i++)
            p->x[j][i] += moved(j, p->round, i);
}

/* ---- one replica, as it runs ---- */

struct replica {
    struct tr_queue q;
    struct tr_arena arena;
    void *memory;
    struct tr_tensor x;
    struct tr_comm group;
    struct tr_cocktail *c;
};

static void replica_open(struct replica *r, const struct tr_cocktail_how *how,
                         const struct tr_dp_span *spans, int n)
{
    const struct tr_device_how device = {.threads = THREADS};
    size_t bytes;

    r->q.on = &tr_cpu;
    assert_all_ok(tr_cpu.open(&device, &r->q.device));
    assert_all_ok(tr_cocktail_open(how, spans, n, ELEMS, world.rank, world.size, &r->c));
    tr_arena_init(&r->arena);
    tr_cocktail_plan(r->c, &r->arena);
    bytes = r->arena.used_bytes;
    r->memory = aligned_alloc(TR_ARENA_ALIGN, bytes + TR_ARENA_ALIGN - bytes % TR_ARENA_ALIGN);
    memset(r->memory, 0, bytes);
    tr_arena_open(&r->arena, r->memory);
    tr_cocktail_plan(r->c, &r->arena);
    assert_all(r->arena.used_bytes == bytes);
    r->x = tr_f32_1(malloc(ELEMS * sizeof(float)), ELEMS);
    for (int64_t i = 0; i < ELEMS; i++)
        tr_f32(&r->x)[i] = begun(i);
    assert_all_ok(world.via->split(&world, 0, world.rank, "replicas", &r->group));
    assert_all_ok(tr_cocktail_connect(r->c, &r->group, &r->q, &r->x));
}

static void replica_close(struct replica *r)
{
    tr_cocktail_close(r->c);
    r->group.via->release(&r->group);
    free(r->memory);
    free(r->x.data);
    tr_cpu.close(r->q.device);
}

/* Some polls on the way, other ones on each rank, and other traffic. */
static bool replica_round(struct replica *r, uint64_t draw)
{
    struct tr_rng rng = tr_rng_key(draw, TR_STREAM_INIT, 0, world.rank);
    double one = 1.0;
    struct tr_tensor t = tr_f64_1(&one, 1);

    tr_cocktail_begin(r->c, &r->q);
    for (uint32_t i = tr_rng_u32(rng, 0) % 8; i > 0; i--) {
        tr_cocktail_poll(r->c);
        usleep(tr_rng_u32(rng, i) % 64);
    }
    world.via->allreduce(&world, NULL, &t, TR_SUM);
    for (uint32_t i = tr_rng_u32(rng, 9) % 8; i > 0; i--)
        tr_cocktail_poll(r->c);
    return tr_cocktail_join(r->c, &r->q);
}

static bool same(const struct replica *r, const struct plain *p, const struct tr_dp_span *spans,
                 int n)
{
    struct tr_cocktail_state s = tr_cocktail_state(r->c);
    int64_t at = 0;

    if (*s.round != p->round || memcmp(r->x.data, p->x[world.rank], ELEMS * sizeof(float)) != 0)
        return false;
    for (int64_t i = 0; i < ELEMS; i++)
        if (tr_f16_to_float(tr_half(&s.g)[i]) != p->g[i])
            return false;
    for (int k = 0; k < n; k++) {
        int64_t chunk = (total_of(&spans[k]) + world.size - 1) / world.size;

        for (int64_t i = 0; i < chunk; i++)
            if (tr_f16_to_float(tr_half(&s.e)[at + i]) != p->e[spans[k].id][world.rank][i])
                return false;
        at += chunk;
    }
    return true;
}

static bool all_have(uint64_t mine)
{
    uint64_t all[MOST];

    world.via->gather_all(&world, &mine, sizeof mine, all);
    for (int j = 1; j < world.size; j++)
        if (all[j] != all[0])
            return false;
    return true;
}

/* A whole buffer that the replicas divide; one with holes that they do not; and three spans. */
static struct tr_bucket everything[] = {{0, 3960}};
static struct tr_bucket holes[] = {{3, 7}, {10, 1500}, {1600, 1}, {1700, 899}};
static struct tr_bucket some[] = {{0, 1200}, {1300, 333}}, few[] = {{1250, 50}, {2000, 11}},
                        tied[] = {{2400, 1320}};
static const struct tr_dp_span one[] = {{0, 1, everything}}, gaps[] = {{1, 4, holes}},
                               three[] = {{0, 2, some}, {1, 2, few}, {2, 1, tied}};
static const struct {
    const struct tr_dp_span *span;
    int n;
} layouts[] = {{one, 1}, {gaps, 1}, {three, 3}};

static void compare(const struct tr_cocktail_how *how, int layout, int rounds)
{
    const struct tr_dp_span *spans = layouts[layout].span;
    const int n = layouts[layout].n;
    struct plain *p = malloc(sizeof *p);
    struct replica r;

    plain_begin(p);
    replica_open(&r, how, spans, n);
    for (int round = 0; round < rounds; round++) {
        assert_all(replica_round(&r, (uint64_t)round));
        tr_cocktail_commit(r.c, &r.q, true);
        plain_round(p, how, spans, n);
        assert_all(same(&r, p, spans, n));
        assert_all(all_have(tr_cocktail_print(r.c, &r.q)));
        plain_move(p);
        for (int64_t i = 0; i < ELEMS; i++)
            tr_f32(&r.x)[i] += moved(world.rank, round, i);
    }
    replica_close(&r);
    free(p);
}

static struct tr_cocktail_how how_of(enum tr_mask_method method, double ratio, int bits,
                                     double keep, bool overlap)
{
    return (struct tr_cocktail_how){.mask = {.method = method, .ratio = ratio, .seed = 1234},
                                    .pack = {.bits = bits, .bucket = 16, .keep = keep},
                                    .overlap = overlap};
}

static void every_bit(void **state)
{
    static const int bits[] = {1, 2, 3, 4, 5, 6, 7, 8, TR_SPARSE_FLOATS};

    (void)state;
    for (int b = 0; b < 9; b++) {
        struct tr_cocktail_how how = how_of(TR_MASK_ROLLING, 0.3, bits[b], 0.5, b % 2 == 0);

        compare(&how, b % 3, 5);
    }
}

static void every_choice(void **state)
{
    static const enum tr_mask_method methods[] = {TR_MASK_ROLLING, TR_MASK_REPLACED,
                                                  TR_MASK_PERMUTED};
    static const double ratios[] = {0.1, 0.4, 1.0}, keeps[] = {0.02, 0.3, 1.0};
    int k = 0;

    (void)state;
    for (int m = 0; m < 3; m++)
        for (int p = 0; p < 3; p++)
            for (int layout = 0; layout < 3; layout++, k++) {
                struct tr_cocktail_how how =
                    how_of(methods[m], ratios[p], k % 5 == 0 ? TR_SPARSE_FLOATS : 4,
                           keeps[k % 3 ? (k / 2) % 3 : 1], k % 2 == 0);

                /* Where nothing is left out there is another way, below. */
                if (how.pack.bits == TR_SPARSE_FLOATS && how.pack.keep >= 1.0)
                    how.pack.keep = 0.9;
                compare(&how, layout, 4);
            }
}

/* With a thread and without, and whatever it is asked meanwhile: the same bits. */
static void overlap(void **state)
{
    struct tr_cocktail_how how = how_of(TR_MASK_PERMUTED, 0.3, 4, 0.3, false);

    (void)state;
    for (int i = 0; i < 2; i++) {
        how.overlap = i == 1;
        compare(&how, 2, 12);
    }
}

/* x goes with g: after a round x - g has lost what was sent and nothing else, but for the rounding of g. */
static void difference(void **state)
{
    struct tr_cocktail_how how = how_of(TR_MASK_ROLLING, 0.5, 4, 0.5, true);
    float *before = malloc(ELEMS * sizeof *before);
    struct replica r;
    bool kept = true;
    int64_t changed = 0;

    (void)state;
    replica_open(&r, &how, one, 1);
    for (int round = 0; round < 3; round++) {
        struct tr_cocktail_state s = tr_cocktail_state(r.c);

        assert_all(replica_round(&r, 1));
        for (int64_t i = 0; i < ELEMS; i++)
            before[i] = tr_f32(&r.x)[i] - tr_f16_to_float(tr_half(&s.g)[i]);
        tr_cocktail_commit(r.c, &r.q, true);
        for (int64_t i = 0; i < ELEMS; i++) {
            float after = tr_f32(&r.x)[i] - tr_f16_to_float(tr_half(&s.g)[i]);
            float sent = before[i] - after;

            /* At most all of the difference, and the step of a scale that is no larger than 0.02. */
            kept = kept && fabsf(sent) <= fabsf(before[i]) + 0.02F / 16.0F + 1e-3F;
            kept = kept && (i % 2 == round % 2 || sent == 0.0F);
            changed += sent != 0.0F;
            tr_f32(&r.x)[i] += moved(world.rank, round, i);
        }
    }
    assert_all(kept);
    assert_all(changed > ELEMS / 4);
    replica_close(&r);
    free(before);
}

/* The bytes are those of the formula. */
static void bytes(void **state)
{
    static const struct {
        double ratio, keep;
        int bits;
        int64_t r; /* R, times 100000 */
    } known[] = {
        {0.1, 0.2, 4, 18250}, {0.1, 0.1, 4, 14125}, {0.4, 0.5, 4, 153125}, {0.5, 0.5, 8, 253125}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct tr_bucket all = {0, 12800 * 7 * world.size};
        const struct tr_dp_span span = {0, 1, &all};
        struct tr_cocktail_how how =
            how_of(TR_MASK_ROLLING, known[i].ratio, known[i].bits, known[i].keep, true);
        struct tr_cocktail *c;

        how.pack.bucket = 128;
        assert_all_ok(tr_cocktail_open(&how, &span, 1, all.count, world.rank, world.size, &c));
        assert_all(tr_cocktail_numbers(c) == 12800 * 7);
        assert_all(tr_cocktail_bytes(c) * 8 * 100000 == 12800 * 7 * known[i].r);
        tr_cocktail_close(c);
    }
}

/* Nothing left out and nothing rounded: x is the mean that the transport makes. */
static void exact(void **state)
{
    const struct tr_cocktail_how hows[] = {
        how_of(TR_MASK_ROLLING, 1.0, TR_SPARSE_FLOATS, 1.0, true),
        how_of(TR_MASK_PERMUTED, 0.8, TR_SPARSE_FLOATS, 1.0, true)};
    const int64_t part = 3960 / world.size;
    struct tr_tensor whole = tr_f32_1(malloc(3960 * sizeof(float)), 3960), mine;
    struct replica r;

    (void)state;
    replica_open(&r, &hows[0], one, 1);
    assert_all(!tr_cocktail_state(r.c).g.data && !tr_cocktail_state(r.c).e.data);
    assert_all(tr_cocktail_bytes(r.c) == 4 * part);
    for (int round = 0; round < 3; round++) {
        for (int64_t i = 0; i < ELEMS; i++)
            tr_f32(&r.x)[i] = i % 5 ? 1.0F / (float)(3 + i % 101 + 7 * world.rank + round) : -0.0F;
        memcpy(whole.data, r.x.data, 3960 * sizeof(float));
        mine = tr_tensor_span(&whole, world.rank * part, part);
        world.via->reduce_scatter(&world, NULL, &mine, &whole, TR_SUM);
        tr_cpu.scale(&r.q, &mine, 1.0F / (float)world.size);
        world.via->allgather(&world, NULL, &whole);
        assert_all(replica_round(&r, (uint64_t)round));
        tr_cocktail_commit(r.c, &r.q, true);
        assert_all(memcmp(whole.data, r.x.data, 3960 * sizeof(float)) == 0);
        /* What no span holds is each replica's own. */
        memset(tr_f32(&r.x) + 3960, 0, 40 * sizeof(float));
        assert_all(all_have(tr_cocktail_print(r.c, &r.q)));
    }
    replica_close(&r);
    free(whole.data);
    /* With a choice there is a reference after all. */
    replica_open(&r, &hows[1], one, 1);
    assert_all(tr_cocktail_state(r.c).g.data != NULL);
    replica_close(&r);
}

/* A number that is not finite anywhere: all replicas know, nothing changes, and the next round is as if the
   one before had chosen and sent nothing. */
static void failed(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e6F};
    static const int bits[] = {1, 4, 8, TR_SPARSE_FLOATS};
    struct plain *p = malloc(sizeof *p);
    float *kept = malloc(ELEMS * sizeof *kept);
    struct replica r;

    (void)state;
    for (int b = 0; b < 4; b++) {
        struct tr_cocktail_how how = how_of(TR_MASK_ROLLING, 1.0, bits[b], 0.2, b % 2 == 0);

        plain_begin(p);
        replica_open(&r, &how, three, 3);
        for (int round = 0; round < 8; round++) {
            const bool breaks = round % 2 == 1;
            const int64_t at = 2400 + 100 * round;
            float was = tr_f32(&r.x)[at];
            bool good;

            /* In fp32 what is too large for fp16 is a number like others. */
            if (breaks && world.rank == round % world.size)
                tr_f32(&r.x)[at] = bad[bits[b] == TR_SPARSE_FLOATS ? round / 2 % 3 : round / 2];
            memcpy(kept, r.x.data, ELEMS * sizeof *kept);
            good = replica_round(&r, (uint64_t)round);
            assert_all(good == !breaks);
            tr_cocktail_commit(r.c, &r.q, good);
            if (breaks) {
                assert_all(memcmp(kept, r.x.data, ELEMS * sizeof *kept) == 0);
                tr_f32(&r.x)[at] = was;
                p->round++;
            } else {
                plain_round(p, &how, three, 3);
            }
            assert_all(same(&r, p, three, 3));
            plain_move(p);
            for (int64_t i = 0; i < ELEMS; i++)
                tr_f32(&r.x)[i] += moved(world.rank, round, i);
        }
        replica_close(&r);
    }
    free(kept);
    free(p);
}

/* Replicas that start with different weights converge, though most of the deltas are left out each
   time. */
static void converges(void **state)
{
    struct tr_cocktail_how how = how_of(TR_MASK_ROLLING, 0.25, 4, 0.25, true);
    double apart = 0.0, first = 0.0;
    struct replica r;

    (void)state;
    replica_open(&r, &how, one, 1);
    for (int round = 0; round < 160; round++) {
        assert_all(replica_round(&r, (uint64_t)round));
        tr_cocktail_commit(r.c, &r.q, true);
        /* After the first round, which makes the reference. */
        for (int64_t i = 0; i < 3960 && round == 0; i++)
            tr_f32(&r.x)[i] += moved(world.rank, 0, i);
        apart = 0.0;
        for (int64_t i = 0; i < 3960; i++) {
            double mean = (double)tr_f32(&r.x)[i];
            struct tr_tensor t = tr_f64_1(&mean, 1);

            if (i % 99)
                continue;
            world.via->allreduce(&world, NULL, &t, TR_SUM);
            apart += fabs((double)tr_f32(&r.x)[i] - mean / world.size);
        }
        first = round == 0 ? apart : first;
    }
    assert_all(world.size == 1 || (first > 0.01 && apart < 0.05 * first));
    replica_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes),   cmocka_unit_test(every_bit),  cmocka_unit_test(every_choice),
        cmocka_unit_test(overlap), cmocka_unit_test(difference), cmocka_unit_test(exact),
        cmocka_unit_test(failed),  cmocka_unit_test(converges),
    };
    return run_mpi_tap(tests);
}
