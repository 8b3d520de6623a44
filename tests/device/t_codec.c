/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/alone.h"
#include "device/device.h"
#include "util/half.h"
#include "util/rng.h"

/* The operations that compress, on every backend of the host, against bytes and numbers that
   something else made. */

static struct tr_queue open_queue(const struct tr_backend *b)
{
    struct tr_device *d;

    assert_ok(b->open(&(struct tr_device_how){.threads = 1}, &d));
    return (struct tr_queue){b, d};
}

static void put(const struct tr_tensor *t, int64_t i, float x)
{
    if (t->dtype == TR_F32)
        tr_f32(t)[i] = x;
    else
        tr_half(t)[i] = tr_f16_from_float(x);
}

static float element(const struct tr_tensor *t, int64_t i)
{
    return t->dtype == TR_F32 ? tr_f32(t)[i] : tr_f16_to_float(tr_half(t)[i]);
}

/* ---- a few bits for each number ---- */

enum { MOST = 64 };

/* Four rows of two buckets, in 4 bits: small enough to follow by hand. */
static void two_columns(const struct tr_backend *b)
{
    static const float x[8] = {1.0f, -0.5f, 0.25f, 0.1f, -1.0f, 0.3f, 0.0f, -0.05f};
    static const uint8_t want[4] = {0xf0, 0xaa, 0x0d, 0x87};
    static const float back[8] = {0.875f, -0.5f, 0.25f, 0.125f, -1.0f, 0.3125f, 0.0f, -0.0625f};
    const struct tr_fix how = {.bits = 4, .over = 2, .scale = TR_SCALE_MAX};
    struct tr_queue q = open_queue(b);
    float copy[8], y[8];
    uint16_t scales[2];
    uint8_t bytes[4];
    struct tr_tensor tx = tr_f32_3(copy, 1, 4, 2), ty = tr_f32_3(y, 1, 4, 2);
    struct tr_tensor ts = tr_tensor_1(scales, TR_F16, 2), tc = tr_u8_1(bytes, 4);

    memcpy(copy, x, sizeof x);
    b->fix_scale(&q, &ts, &tx, how);
    assert_int_equal(scales[0], 0x3c00); /* 1 */
    assert_int_equal(scales[1], 0x3800); /* 0.5 */
    b->fix_encode(&q, &tc, &tx, &ts, how);
    assert_memory_equal(bytes, want, sizeof want);
    b->fix_decode(&q, &ty, &tc, &ts, how, false);
    assert_memory_equal(y, back, sizeof back);
    b->fix_decode(&q, &ty, &tc, &ts, how, true);
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == 2.0f * back[i]);
    b->close(q.device);
}

/*
 * Scales, bytes and the sum of (i + 1) y[i] over what is decoded, for x[i] = ((7919 i + 13) mod
 * 2001 - 1000) / 256, which all float types but bf16 hold exactly.  A Python program of its own
 * made them: strings of binary digits, math.fsum() for sums, and roundings by packing numbers with
 * struct's formats e and f.
 */
static const struct {
    int64_t d[3];
    struct tr_fix how;
    int scales;
    uint16_t scale[15];
    int bytes;
    uint8_t code[32];
    double sum;
} known[] = {
    {{2, 3, 5},
     {.bits = 3, .over = 2, .scale = TR_SCALE_MAX},
     10,
     {0x43b6, 0x4342, 0x4298, 0x41ee, 0x4144, 0x42f4, 0x424a, 0x42b0, 0x435a, 0x439e},
     12,
     {0x1f, 0xff, 0xb6, 0xd6, 0xc9, 0x1b, 0x49, 0x22, 0x00, 0xff, 0xff, 0x80},
     63.263671875},
    {{2, 3, 5},
     {.bits = 5, .over = 6, .scale = TR_SCALE_L2},
     2,
     {0x4454, 0x4573},
     19,
     {0x17, 0x79, 0xbd, 0x66, 0xf6, 0xad, 0x25, 0x18, 0x3d, 0xad, 0x62, 0xd4, 0x94, 0x1c, 0xc5,
      0xde, 0xb3, 0x8b, 0xd8},
     117.626708984375},
    {{2, 3, 5},
     {.bits = 1, .over = 3, .scale = TR_SCALE_MAX},
     5,
     {0x4138, 0x4107, 0x40dd, 0x40c9, 0x40b0},
     4,
     {0x7f, 0xf0, 0x00, 0xfc},
     45.337890625},
    {{2, 3, 5},
     {.bits = 7, .over = 1, .scale = TR_SCALE_MAX},
     15,
     {0x43b6, 0x4342, 0x4298, 0x41ee, 0x4144, 0x415c, 0x4206, 0x42b0, 0x435a, 0x439e, 0x42f4,
      0x424a, 0x41a0, 0x40f6, 0x404c},
     27,
     {0x01, 0xff, 0xff, 0xff, 0xfd, 0xf5, 0x5f, 0xaf, 0x42, 0x64, 0x67, 0xed, 0xd6, 0x2f,
      0x50, 0x7c, 0xa0, 0x70, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc0},
     129.5152587890625},
    {{2, 3, 5},
     {.bits = 2, .over = 5, .scale = TR_SCALE_L2},
     3,
     {0x454a, 0x454a, 0x4416},
     8,
     {0x7f, 0xff, 0xaa, 0xaa, 0x55, 0x55, 0xff, 0xf0},
     8.33984375},
    {{1, 4, 8},
     {.bits = 8, .over = 3, .scale = TR_SCALE_MAX},
     8,
     {0x43b6, 0x4342, 0x4298, 0x41ee, 0x415c, 0x4206, 0x42b0, 0x435a},
     32,
     {0x00, 0xff, 0xff, 0xff, 0xfe, 0xe2, 0xcb, 0xb9, 0xab, 0xa2, 0x99,
      0x8d, 0x7f, 0x71, 0x66, 0x5c, 0x53, 0x45, 0x32, 0x1b, 0x00, 0x00,
      0x00, 0x00, 0xfe, 0xfb, 0xfa, 0xf9, 0xf6, 0xdb, 0xc6, 0xb4},
     242.2535400390625},
    {{3, 2, 5},
     {.bits = 6, .over = 7, .scale = TR_SCALE_L2},
     1,
     {0x44ec},
     23,
     {0x1f, 0x8d, 0x73, 0xc6, 0xfb, 0x6b, 0xa2, 0x69, 0x22, 0x81, 0xe7, 0x19,
      0x5d, 0x54, 0xd1, 0x3c, 0xc2, 0x88, 0xe7, 0x7d, 0x32, 0xc2, 0xe0},
     136.8896484375},
    {{1, 4, 8},
     {.bits = 4, .over = 4, .scale = TR_SCALE_L2},
     4,
     {0x45c4, 0x3e31, 0x4541, 0x4582},
     16,
     {0x3d, 0xdc, 0xcb, 0xba, 0xfd, 0xba, 0x86, 0x43, 0x65, 0x54, 0x43, 0x32, 0xed, 0xdc, 0xcb,
      0xba},
     247.860595703125},
};

enum { KNOWN = sizeof known / sizeof *known };

static void known_vector(struct tr_queue *q, int which, enum tr_dtype type)
{
    const int64_t *d = known[which].d, n = d[0] * d[1] * d[2];
    const struct tr_fix how = known[which].how;
    float room_x[MOST], room_y[MOST];
    uint16_t scales[MOST];
    uint8_t bytes[MOST];
    struct tr_tensor x = tr_tensor_3(room_x, type, d[0], d[1], d[2]);
    struct tr_tensor y = tr_tensor_3(room_y, type, d[0], d[1], d[2]);
    struct tr_tensor s = tr_tensor_1(scales, TR_F16, known[which].scales);
    struct tr_tensor c = tr_u8_1(bytes, known[which].bytes);
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        put(&x, i, (float)((7919 * i + 13) % 2001 - 1000) / 256.0f);
    q->on->fix_scale(q, &s, &x, how);
    assert_memory_equal(scales, known[which].scale, (size_t)known[which].scales * 2);
    q->on->fix_encode(q, &c, &x, &s, how);
    assert_memory_equal(bytes, known[which].code, (size_t)known[which].bytes);
    y.dtype = TR_F32;
    q->on->fix_decode(q, &y, &c, &s, how, false);
    for (int64_t i = 0; i < n; i++)
        sum += (double)(i + 1) * (double)room_y[i];
    assert_true(sum == known[which].sum);
}

static void known_vectors(const struct tr_backend *b)
{
    struct tr_queue q = open_queue(b);

    for (int i = 0; i < KNOWN; i++) {
        known_vector(&q, i, TR_F32);
        known_vector(&q, i, TR_F16);
    }
    b->close(q.device);
}

/* With a scale of 1, (c - h) / h has the code c and comes back: every code of every width, and
   bytes that are written here digit by digit. */
static void every_code(const struct tr_backend *b)
{
    enum { N = 1003 };
    struct tr_queue q = open_queue(b);
    static float room[N], back[N];
    static uint8_t bytes[N], want[N];
    uint16_t one = 0x3c00;
    struct tr_tensor x = tr_f32_3(room, 1, 1, N), y = tr_f32_3(back, 1, 1, N);
    struct tr_tensor s = tr_tensor_1(&one, TR_F16, 1);

    for (int bits = 2; bits <= 8; bits++) {
        const struct tr_fix how = {.bits = bits, .over = 7};
        struct tr_tensor c = tr_u8_1(bytes, (N * bits + 7) / 8);
        int h = 1 << (bits - 1), at = 0;

        memset(want, 0, sizeof want);
        for (int i = 0; i < N; i++) {
            int code = i * 11 % (2 * h);

            room[i] = (float)(code - h) / (float)h;
            for (int k = bits - 1; k >= 0; k--, at++)
                want[at / 8] = (uint8_t)(want[at / 8] + (code / (1 << k) % 2) * (128 >> at % 8));
        }
        q.on->fix_encode(&q, &c, &x, &s, how);
        assert_memory_equal(bytes, want, (size_t)((N * bits + 7) / 8));
        q.on->fix_decode(&q, &y, &c, &s, how, false);
        assert_memory_equal(back, room, sizeof room);
    }
    b->close(q.device);
}

/* How many of n numbers t / 8 became the code above t, in 4 bits by draws from `first` on; the others became the one
   below it.  What the bytes are is in `bytes`. */
static int rounded_up(const struct tr_backend *b, float t, float distance, uint64_t first,
                      int threads, uint8_t *bytes)
{
    enum { N = 40000 };
    static float room[N];
    const struct tr_fix how = {.bits = 4,
                               .over = 7,
                               .stochastic = true,
                               .distance = distance,
                               .draws = tr_rng_key(7, TR_STREAM_QUANT, 3, 11),
                               .first = first};
    struct tr_device *d;
    uint16_t big = 0x7800; /* 32768, to which 1e-6 adds nothing */
    struct tr_tensor x = tr_f32_3(room, 1, 1, N), c = tr_u8_1(bytes, N / 2);
    struct tr_tensor s = tr_tensor_1(&big, TR_F16, 1);
    int up = 0;

    share_small_work();
    assert_ok(b->open(&(struct tr_device_how){.threads = threads}, &d));
    for (int i = 0; i < N; i++)
        room[i] = t / 8.0f * 32768.0f;
    b->fix_encode(&(struct tr_queue){b, d}, &c, &x, &s, how);
    b->close(d);
    for (int i = 0; i < N; i++) {
        const int code = (i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4) - 8;

        assert_true(code == (int)floorf(t) || code == (int)floorf(t) + 1);
        up += code > (int)floorf(t);
    }
    return up;
}

/* The mean over draws is the number itself, and with a distance what is near to a code goes there.  Bounds are five
   standard deviations; the draws are the same each time. */
static void drawn(const struct tr_backend *b)
{
    static const struct {
        float t, distance;
        double mean;
    } of[] = {
        {2.25f, 0.0f, .25},   {-2.25f, 0.0f, .75},  {0.0625f, 0.0f, .0625}, {-7.5f, 0.0f, .5},
        {3.0f, 0.0f, 0.0},    {2.125f, 0.2f, 0.0},  {2.875f, 0.2f, 1.0},    {2.25f, 0.2f, .25},
        {-2.875f, 0.2f, 0.0}, {-2.125f, 0.2f, 1.0}, {-2.25f, 0.2f, .75},
    };
    static uint8_t bytes[20000], other[20000];

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const int up = rounded_up(b, of[i].t, of[i].distance, 0, 1, bytes);
        const double p = of[i].mean;

        assert_true(fabs(up - 40000 * p) <= 5 * sqrt(40000 * p * (1 - p)));
        assert_int_equal(rounded_up(b, of[i].t, of[i].distance, 0, 3, other), up);
        assert_memory_equal(bytes, other, sizeof bytes);
        rounded_up(tr_backend_find("ref"), of[i].t, of[i].distance, 0, 1, other);
        assert_memory_equal(bytes, other, sizeof bytes);
    }
    /* Two elements are a byte: the draws of element 2 on are those from number 2 on. */
    rounded_up(b, 2.25f, 0.0f, 1000, 1, bytes);
    rounded_up(b, 2.25f, 0.0f, 1002, 1, other);
    assert_memory_equal(bytes + 1, other, sizeof bytes - 1);
    assert_true(memcmp(bytes, other, sizeof bytes) != 0);
}

/* A bucket with an infinity is lost, and only it; a memory that it is added to stays as it was. */
static void overflow(const struct tr_backend *b)
{
    const struct tr_fix how = {.bits = 4, .over = 4, .scale = TR_SCALE_MAX};
    struct tr_queue q = open_queue(b);
    float room[8] = {1.0f, INFINITY, 2.0f, 3.0f, 1.0f, 2.0f, -4.0f, 0.0f}, memory[8];
    uint16_t scales[2];
    uint8_t bytes[4];
    struct tr_tensor x = tr_f32_3(room, 1, 2, 4), y = tr_f32_3(memory, 1, 2, 4);
    struct tr_tensor s = tr_tensor_1(scales, TR_F16, 2), c = tr_u8_1(bytes, 4);

    for (int i = 0; i < 8; i++)
        memory[i] = 10.0f;
    b->fix_scale(&q, &s, &x, how);
    assert_int_equal(scales[0], 0x7e00);
    assert_int_equal(scales[1], 0x4400);
    b->fix_encode(&q, &c, &x, &s, how);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[1], 0);
    b->fix_decode(&q, &y, &c, &s, how, true);
    for (int i = 0; i < 8; i++)
        assert_true(memory[i] == (i < 4 ? 10.0f : 10.0f + room[i]));
    b->fix_decode(&q, &y, &c, &s, how, false);
    for (int i = 0; i < 8; i++)
        assert_true(i < 4 ? isnan(memory[i]) : memory[i] == room[i]);
    b->close(q.device);
}

/* ---- top-k ---- */

struct ranked {
    float size;
    int at;
};

static int larger_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* topk_mask() against a sort, with many equal numbers and with few. */
static void against_sort(const struct tr_backend *b, enum tr_dtype type, uint32_t values)
{
    enum { N = 3001 };
    struct tr_queue q = open_queue(b);
    static float room[N];
    static struct ranked ranked[N];
    static uint8_t bytes[(N + 7) / 8], want[(N + 7) / 8];
    struct tr_tensor x = tr_tensor_1(room, type, N), mask = tr_u8_1(bytes, (N + 7) / 8);
    struct tr_rng r = tr_rng_key(5, TR_STREAM_INIT, 0, values);

    for (int i = 0; i < N; i++) {
        int32_t word = (int32_t)(tr_rng_u32(r, (uint64_t)i) % values) - (int32_t)(values / 2);

        put(&x, i, (float)word / 1024.0f);
        ranked[i] = (struct ranked){fabsf(element(&x, i)), i};
    }
    qsort(ranked, N, sizeof *ranked, larger_first);
    for (int k = 1; k <= N; k += 100) {
        memset(want, 0, sizeof want);
        for (int i = 0; i < k; i++)
            want[ranked[i].at / 8] = (uint8_t)(want[ranked[i].at / 8] + (128 >> ranked[i].at % 8));
        b->topk_mask(&q, &mask, &x, k);
        assert_memory_equal(bytes, want, sizeof want);
    }
    b->close(q.device);
}

static void sorted(const struct tr_backend *b)
{
    static const uint32_t values[] = {2, 100, 60000, 4000000};

    for (int i = 0; i < 4; i++) {
        against_sort(b, TR_F32, values[i]);
        against_sort(b, TR_F16, values[i]);
    }
}

/* Most numbers rise with their place; where a fast way may look to guess, every so many elements,
   they are all the same, and less or more than the others.  The largest are known all the same. */
static void misled(const struct tr_backend *b)
{
    enum { N = 1 << 18, K = N / 2, PERIOD = 256, SAME = 8 };
    static float room[N];
    static uint8_t bytes[N / 8], want[N / 8];
    struct tr_queue q = open_queue(b);
    struct tr_tensor x = tr_f32_1(room, N), mask = tr_u8_1(bytes, N / 8);

    for (int high = 0; high < 2; high++) {
        int left = high ? K - N / PERIOD * SAME : K;

        memset(want, 0, sizeof want);
        for (int i = N - 1; i >= 0; i--) {
            bool same = i % PERIOD < SAME;

            room[i] = !same ? (float)i : high ? 1e6f : 0.0f;
            if (same ? high : left-- > 0)
                want[i / 8] = (uint8_t)(want[i / 8] | 128 >> i % 8);
        }
        b->topk_mask(&q, &mask, &x, K);
        assert_memory_equal(bytes, want, sizeof want);
    }
    b->close(q.device);
}

/* What is taken by a mask and added again doubles those elements and no others. */
static void taken_and_added(const struct tr_backend *b)
{
    enum { N = 100, K = 7 };
    static const float want[K] = {1.0f, 10.0f, 11.0f, 42.0f, 63.0f, 64.0f, 99.0f};
    struct tr_queue q = open_queue(b);
    float room[N], some[K];
    uint8_t bytes[(N + 7) / 8] = {0};
    struct tr_tensor x = tr_f32_1(room, N), v = tr_f32_1(some, K), mask = tr_u8_1(bytes, 13);

    for (int i = 0; i < N; i++)
        room[i] = (float)i;
    for (int i = 0; i < K; i++)
        bytes[(int)want[i] / 8] = (uint8_t)(bytes[(int)want[i] / 8] | 128 >> (int)want[i] % 8);
    b->mask_take(&q, &v, &x, &mask);
    assert_memory_equal(some, want, sizeof want);
    b->mask_add(&q, &x, &v, &mask, 1.0f);
    for (int i = 0, k = 0; i < N; i++) {
        bool set = k < K && want[k] == (float)i;

        assert_true(room[i] == (set ? 2.0f : 1.0f) * (float)i);
        k += set;
    }
    b->close(q.device);
}

/* ---- some of many; fingerprints ---- */

static void selections(const struct tr_backend *b)
{
    struct tr_queue q = open_queue(b);
    float room_a[12], room_b[12], room_y[4];
    int32_t list[4] = {11, -1, 0, 5};
    struct tr_tensor a = tr_f32_1(room_a, 12), bt = tr_f32_1(room_b, 12), y = tr_f32_1(room_y, 4);
    struct tr_tensor index = tr_i32_1(list, 4);
    struct tr_select by_step = {.first = 2, .step = 3}, by_index = {.index = &index};

    for (int i = 0; i < 12; i++) {
        room_a[i] = (float)(100 + i);
        room_b[i] = (float)(i * i);
    }
    b->select_take(&q, &y, &a, &bt, by_step);
    assert_true(room_y[0] == 98.0f && room_y[1] == 80.0f && room_y[2] == 44.0f &&
                room_y[3] == -10.0f);
    b->select_take(&q, &y, &a, NULL, by_index);
    assert_true(room_y[0] == 111.0f && room_y[1] == 0.0f && room_y[2] == 100.0f &&
                room_y[3] == 105.0f);
    room_y[1] = 7.0f;
    b->select_add(&q, &a, &y, by_index, -1.0f);
    b->select_put(&q, &bt, &y, by_step);
    for (int i = 0; i < 12; i++) {
        bool in_list = i == 11 || i == 0 || i == 5, in_steps = i % 3 == 2;

        assert_true(room_a[i] == (in_list ? 0.0f : (float)(100 + i)));
        assert_true(room_b[i] == (in_steps ? room_y[i / 3] : (float)(i * i)));
    }
    b->close(q.device);
}

/* Numbers of the same Python program. */
static void fingerprints(const struct tr_backend *b)
{
    static const struct {
        int bytes;
        uint64_t before, after;
    } want[] = {{21, 0, UINT64_C(0x2493bec608abd2cc)},
                {16, 5, UINT64_C(0x1c112e76aa7cec51)},
                {1, UINT64_MAX, UINT64_C(0x4133357112d05cc6)}};
    struct tr_queue q = open_queue(b);
    uint8_t bytes[21];

    for (int i = 0; i < 21; i++)
        bytes[i] = (uint8_t)(37 * i + 11);
    for (int i = 0; i < 3; i++) {
        int64_t room = (int64_t)want[i].before;
        struct tr_tensor out = tr_i64_1(&room, 1), x = tr_u8_1(bytes, want[i].bytes);

        b->fingerprint(&q, &out, &x);
        assert_true(room == (int64_t)want[i].after);
    }
    b->close(q.device);
}

#define ON_ALL(name)                           \
    static void all_##name(void **state)       \
    {                                          \
        (void)state;                           \
        for (int i = 0; tr_backends()[i]; i++) \
            if (!tr_backends()[i]->apart)      \
                name(tr_backends()[i]);        \
    }
ON_ALL(two_columns)
ON_ALL(known_vectors)
ON_ALL(every_code)
ON_ALL(drawn)
ON_ALL(overflow)
ON_ALL(sorted)
ON_ALL(misled)
ON_ALL(taken_and_added)
ON_ALL(selections)
ON_ALL(fingerprints)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_two_columns),     cmocka_unit_test(all_known_vectors),
        cmocka_unit_test(all_every_code),      cmocka_unit_test(all_overflow),
        cmocka_unit_test(all_sorted),          cmocka_unit_test(all_misled),
        cmocka_unit_test(all_taken_and_added), cmocka_unit_test(all_selections),
        cmocka_unit_test(all_fingerprints),    cmocka_unit_test(all_drawn),
    };

    return run_tap(tests);
}
