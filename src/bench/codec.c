/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "util/rng.h"

/*
 * A codec encodes numbers `x` into what goes over a link and decodes that into `y`; `memory`, in
 * fp16, is the activation cache of both ends.  It is measured on many numbers, and compared with
 * the ref backend on fewer.
 */
enum { PIECES = 3, BUCKET = 128, STEP = 10, ONE_IN = 5 };
enum { CHECKED = 1 << 17 }; /* numbers that are compared: enough to divide among the cores */

struct work {
    struct tr_queue *q;
    int bits;
    int64_t n, width;                     /* numbers, in rows of `width` */
    struct tr_tensor x, y, memory;        /* [n] */
    struct tr_tensor some, mask;          /* room for [n / STEP], and for a bit of each number */
    struct tr_tensor kept, codes, scales; /* room for [n / ONE_IN] numbers; a byte of each; [n] */
    struct tr_tensor piece[PIECES];       /* what goes over the link */
    int pieces;
};

struct codec {
    const char *name;
    int bits;
    void (*encode)(struct work *w), (*decode)(struct work *w);
};

static struct tr_tensor part(const struct tr_tensor *t, int64_t n)
{
    return tr_tensor_span(t, 0, n);
}

static struct tr_tensor in_rows(const struct tr_tensor *t, int64_t rows, int64_t width)
{
    return tr_tensor_3(t->data, t->dtype, 1, rows, width);
}

static void send(struct work *w, struct tr_tensor t)
{
    w->piece[w->pieces++] = t;
}

/* ---- quantization ---- */

/* One scale per column: for activations a channel, for strided buckets a bucket. */
static struct tr_fix by_columns(const struct work *w)
{
    return (struct tr_fix){.bits = w->bits, .over = 3, .scale = TR_SCALE_MAX};
}

static void send_in_bits(struct work *w, const struct tr_tensor *x, int64_t rows, int64_t width)
{
    struct tr_tensor from = in_rows(x, rows, width), scale = part(&w->scales, width);
    struct tr_tensor code = part(&w->codes, (rows * width * w->bits + 7) / 8);

    w->q->on->fix_scale(w->q, &scale, &from, by_columns(w));
    w->q->on->fix_encode(w->q, &code, &from, &scale, by_columns(w));
    send(w, code);
    send(w, scale);
}

static void fixpoint_encode(struct work *w)
{
    send_in_bits(w, &w->x, w->n / w->width, w->width);
}

static void fixpoint_decode(struct work *w)
{
    struct tr_tensor to = in_rows(&w->y, w->n / w->width, w->width);

    w->q->on->fix_decode(w->q, &to, &w->piece[0], &w->piece[1], by_columns(w), false);
}

/* The delta since both ends saw the sample last. */
static void delta_encode(struct work *w)
{
    w->q->on->subtract(w->q, &w->y, &w->x, &w->memory);
    send_in_bits(w, &w->y, w->n / w->width, w->width);
}

static void delta_decode(struct work *w)
{
    struct tr_tensor to = in_rows(&w->memory, w->n / w->width, w->width);

    w->q->on->fix_decode(w->q, &to, &w->piece[0], &w->piece[1], by_columns(w), true);
}

/* ---- top-k and strided sparsification ---- */

/* The top-k elements of x; k is one in ONE_IN, and a multiple of `unit`. */
static struct tr_tensor keep_largest(struct work *w, const struct tr_tensor *x, int64_t unit)
{
    const int64_t n = tr_tensor_elems(x), k = n / ONE_IN / unit * unit;
    struct tr_tensor mask = part(&w->mask, (n + 7) / 8), kept = part(&w->kept, k);

    w->q->on->topk_mask(w->q, &mask, x, k);
    w->q->on->mask_take(w->q, &kept, x, &mask);
    send(w, mask);
    return kept;
}

static void topk_encode(struct work *w)
{
    send(w, keep_largest(w, &w->x, 1));
}

static void topk_decode(struct work *w)
{
    w->q->on->mask_add(w->q, &w->y, &w->piece[1], &w->piece[0], 1.0f);
}

static const struct tr_select every_tenth = {.first = 0, .step = STEP};

static void select_encode(struct work *w)
{
    struct tr_tensor some = part(&w->some, w->n / STEP);

    w->q->on->select_take(w->q, &some, &w->x, &w->memory, every_tenth);
    send(w, some);
}

static void select_decode(struct work *w)
{
    w->q->on->select_add(w->q, &w->y, &w->piece[0], every_tenth, 1.0f);
}

/* All three: a strided tenth of the weight deltas, top-k of a fifth of these, quantized. */
static void cocktail_encode(struct work *w)
{
    struct tr_tensor some = part(&w->some, w->n / STEP), kept;

    w->q->on->select_take(w->q, &some, &w->x, &w->memory, every_tenth);
    kept = keep_largest(w, &some, BUCKET);
    send_in_bits(w, &kept, BUCKET, tr_tensor_elems(&kept) / BUCKET);
}

static void cocktail_decode(struct work *w)
{
    struct tr_tensor some = part(&w->some, w->n / STEP);
    struct tr_tensor kept = in_rows(&w->kept, BUCKET, tr_tensor_elems(&w->piece[2]));

    w->q->on->fix_decode(w->q, &kept, &w->piece[1], &w->piece[2], by_columns(w), false);
    w->q->on->fill(w->q, &some, 0.0f);
    w->q->on->mask_add(w->q, &some, &kept, &w->piece[0], 1.0f);
    w->q->on->select_add(w->q, &w->y, &some, every_tenth, 1.0f);
}

static const struct codec all[] = {
    {"fixpoint", 1, fixpoint_encode, fixpoint_decode},
    {"fixpoint", 2, fixpoint_encode, fixpoint_decode},
    {"fixpoint", 3, fixpoint_encode, fixpoint_decode},
    {"fixpoint", 4, fixpoint_encode, fixpoint_decode},
    {"fixpoint", 5, fixpoint_encode, fixpoint_decode},
    {"fixpoint", 6, fixpoint_encode, fixpoint_decode},
    {"fixpoint", 7, fixpoint_encode, fixpoint_decode},
    {"fixpoint", 8, fixpoint_encode, fixpoint_decode},
    {"delta", 4, delta_encode, delta_decode},
    {"topk", 0, topk_encode, topk_decode},
    {"select", 0, select_encode, select_decode},
    {"cocktail", 4, cocktail_encode, cocktail_decode},
};

enum { CODECS = sizeof all / sizeof *all };

/* ---- operands ---- */

enum { TENSORS = 8 };

static void tensors_of(struct work *w, struct tr_tensor *t[TENSORS])
{
    struct tr_tensor *const list[TENSORS] = {&w->x,    &w->y,    &w->memory, &w->some,
                                             &w->mask, &w->kept, &w->codes,  &w->scales};

    memcpy(t, list, sizeof list);
}

static void size(struct work *w, struct tr_queue *q, enum tr_dtype type, int64_t n, int64_t width)
{
    *w = (struct work){.q = q, .n = n, .width = width};
    w->x = w->y = tr_tensor_1(NULL, type, n);
    w->memory = tr_tensor_1(NULL, TR_F16, n);
    w->some = tr_tensor_1(NULL, TR_F16, n / STEP);
    w->mask = tr_tensor_1(NULL, TR_U8, n / 8 + 1);
    w->kept = tr_tensor_1(NULL, TR_F16, n / ONE_IN);
    w->codes = tr_tensor_1(NULL, TR_U8, n);
    w->scales = tr_tensor_1(NULL, TR_F16, n);
}

/* The same operands, shorter, in the same places. */
static struct work shorter(const struct work *w, int64_t n)
{
    struct work s;
    struct tr_tensor *to[TENSORS], *from[TENSORS];
    struct work of = *w;

    size(&s, w->q, w->x.dtype, n, w->width);
    tensors_of(&s, to);
    tensors_of(&of, from);
    for (int i = 0; i < TENSORS; i++)
        to[i]->data = from[i]->data;
    s.bits = w->bits;
    return s;
}

/* Numbers with one peak around 0, like weight deltas, as a tensor of the queue; `room` is
   host memory for it. */
static void draw(struct tr_queue *q, const struct tr_tensor *t, int which, double scale, void *room)
{
    const struct tr_rng r = tr_rng_key(1, TR_STREAM_INIT, 0, which);

    for (int64_t i = 0; i < tr_tensor_elems(t); i++) {
        uint32_t a = tr_rng_u32(r, (uint64_t)(2 * i)), b = tr_rng_u32(r, (uint64_t)(2 * i + 1));
        double sum = (double)(a & 0xffff) + (double)(a >> 16) + (double)(b & 0xffff) +
                     (double)(b >> 16) - 131070.0;

        tr_bench_set(room, t->dtype, i, (float)(scale * sum / 37837.0));
    }
    q->on->upload(q, t, room);
}

/* ---- is it right? ---- */

/* Bytes of `t` on the device that are not those of `want` on the host; `room` is host memory for
   them. */
static int64_t different(struct tr_queue *q, const struct tr_tensor *t,
                         const struct tr_tensor *want, unsigned char *room)
{
    const unsigned char *plain = want->data;
    int64_t bytes = tr_tensor_bytes(t), wrong = 0;

    TR_ASSERT(bytes == tr_tensor_bytes(want));
    q->on->download(q, room, t);
    for (int64_t i = 0; i < bytes; i++)
        wrong += room[i] != plain[i];
    return wrong;
}

/* Both ways once on fresh operands. */
static void pass(const struct codec *c, struct work *w, void *room)
{
    draw(w->q, &w->x, 0, 1.0, room);
    draw(w->q, &w->memory, 1, 0.5, room);
    w->q->on->fill(w->q, &w->y, 0.0f);
    w->bits = c->bits;
    w->pieces = 0;
    c->encode(w);
    c->decode(w);
}

/* Compare what this codec makes of the first numbers with what ref makes of them. */
static int64_t check(struct tr_bench *b, const struct codec *c, const struct work *fast,
                     struct work *plain, unsigned char *room)
{
    struct work w = shorter(fast, plain->n);
    int64_t wrong = 0, compared = 0;

    pass(c, plain, room);
    pass(c, &w, room);
    for (int i = 0; i < w.pieces; i++) {
        wrong += different(w.q, &w.piece[i], &plain->piece[i], room);
        compared += tr_tensor_bytes(&w.piece[i]);
    }
    wrong += different(w.q, &w.y, &plain->y, room);
    wrong += different(w.q, &w.memory, &plain->memory, room);
    compared += tr_tensor_bytes(&w.y) + tr_tensor_bytes(&w.memory);
    return tr_bench_count(b, compared, wrong);
}

/* ---- the table ---- */

struct timed {
    const struct codec *codec;
    struct work *w;
};

static void encode(void *ctx)
{
    const struct timed *t = ctx;

    t->w->pieces = 0;
    t->codec->encode(t->w);
}

static void decode(void *ctx)
{
    const struct timed *t = ctx;

    t->codec->decode(t->w);
}

static void copy(void *ctx)
{
    const struct timed *t = ctx;

    t->w->q->on->copy(t->w->q, &t->w->y, &t->w->x);
}

static json_t *times_json(struct tr_bench_times t, double gb, double copied)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "ms", 1e3 * t.median, "ms_min", 1e3 * t.min,
                     "ms_max", 1e3 * t.max, "gbs", gb / t.median, "of_copy", copied / t.median);
}

static void measure(struct tr_bench *b, const struct codec *c, struct work *w, double copied,
                    int64_t wrong)
{
    struct timed timed = {.codec = c, .w = w};
    const double gb = 1e-9 * (double)tr_tensor_bytes(&w->x);
    struct tr_bench_times there, back;
    int64_t bytes = 0;

    w->bits = c->bits;
    there = tr_bench_time(b, encode, &timed, NULL);
    back = tr_bench_time(b, decode, &timed, NULL);
    for (int i = 0; i < w->pieces; i++)
        bytes += tr_tensor_bytes(&w->piece[i]);
    tr_bench_print(
        b,
        "%9s %4d %5s %11lld %10lld %6.1f %9.3f %9.3f %9.3f %7.2f %5.2f %9.3f %9.3f %9.3f "
        "%7.2f %5.2f %6lld\n",
        c->name, c->bits, tr_dtype_name(w->x.dtype), (long long)tr_tensor_bytes(&w->x),
        (long long)bytes, (double)tr_tensor_bytes(&w->x) / (double)bytes, 1e3 * there.median,
        1e3 * there.min, 1e3 * there.max, gb / there.median, copied / there.median,
        1e3 * back.median, 1e3 * back.min, 1e3 * back.max, gb / back.median, copied / back.median,
        (long long)wrong);
    tr_bench_row(b, json_pack("{s:s, s:s, s:i, s:s, s:I, s:I, s:f, s:o, s:o, s:I}", "bench",
                              "codec", "codec", c->name, "bits", c->bits, "type",
                              tr_dtype_name(w->x.dtype), "bytes_in",
                              (json_int_t)tr_tensor_bytes(&w->x), "bytes_out", (json_int_t)bytes,
                              "ratio", (double)tr_tensor_bytes(&w->x) / (double)bytes, "encode",
                              times_json(there, gb, copied), "decode", times_json(back, gb, copied),
                              "wrong", (json_int_t)wrong));
}

static void table(struct tr_bench *b, struct work *fast, struct work *plain, unsigned char *room)
{
    struct timed timed = {.w = fast};
    struct tr_bench_times copied;

    draw(fast->q, &fast->x, 0, 1.0, room);
    copied = tr_bench_time(b, copy, &timed, NULL);
    tr_bench_print(
        b,
        "# codec: %lld numbers in rows of %lld, by %s; a copy of them takes %.3f ms, "
        "%.2f GB/s; medians of %d\n"
        "#   codec bits  type    bytes in  bytes out  ratio   encode ms (median, min, max)"
        "    GB/s /copy  decode ms (median, min, max)    GB/s /copy #wrong\n",
        (long long)fast->n, (long long)fast->width, fast->q->on->describe(fast->q->device),
        1e3 * copied.median, 1e-9 * (double)tr_tensor_bytes(&fast->x) / copied.median, b->repeats);
    for (int i = 0; i < CODECS; i++) {
        int64_t wrong = check(b, &all[i], fast, plain, room);

        draw(fast->q, &fast->x, 0, 1.0, room);
        draw(fast->q, &fast->memory, 1, 0.5, room);
        measure(b, &all[i], fast, copied.median, wrong);
    }
}

/* ---- devices ---- */

static enum tr_status on_devices(struct tr_bench *b, struct tr_queue *fast, struct tr_queue *plain,
                                 enum tr_dtype type, int64_t n)
{
    const int64_t width = b->run->shape.dims.hidden;
    struct tr_tensor *t[TENSORS], room;
    struct work w, short_one;
    void *data = NULL;

    size(&w, fast, type, n, width);
    tensors_of(&w, t);
    TR_TRY(tr_bench_reserve(b, t, TENSORS));
    size(&short_one, plain, type, (CHECKED + width - 1) / width * width, width);
    tensors_of(&short_one, t);
    for (int i = 0; i < TENSORS; i++)
        TR_TRY(tr_comm_agree(
            b->run->world,
            plain->on->reserve(plain->device, (size_t)tr_tensor_bytes(t[i]), &t[i]->data)));
    room = w.x;
    TR_TRY(tr_comm_agree(b->run->world,
                         plain->on->reserve(plain->device, (size_t)tr_tensor_bytes(&room), &data)));
    table(b, &w, &short_one, data);
    return TR_OK;
}

/* On the host on one core of each rank, whatever the run has. */
static enum tr_status open_one(struct tr_bench *b, const struct tr_backend *on, struct tr_queue *q)
{
    *q = (struct tr_queue){.on = on};
    if (on->apart) {
        q->device = b->run->device;
        return TR_OK;
    }
    return tr_comm_agree(b->run->world,
                         on->open(&(struct tr_device_how){.threads = 1}, &q->device));
}

enum tr_status tr_bench_codec(struct tr_bench *b, enum tr_dtype type, int64_t bytes)
{
    const int64_t width = b->run->shape.dims.hidden, least = CHECKED + width;
    const int64_t most =
        bytes / tr_dtype_bytes(type) > least ? bytes / tr_dtype_bytes(type) : least;
    struct tr_queue fast = {0}, plain = {0};
    enum tr_status s = open_one(b, b->run->queue.on, &fast);

    if (s == TR_OK)
        s = open_one(b, tr_backend_find("ref"), &plain);
    if (s == TR_OK)
        s = on_devices(b, &fast, &plain, type, (most + width - 1) / width * width);
    if (fast.device && fast.device != b->run->device)
        fast.on->close(fast.device);
    if (plain.device)
        plain.on->close(plain.device);
    return s;
}
