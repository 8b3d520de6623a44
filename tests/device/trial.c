/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/trial.h"

#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/alone.h"
#include "util/half.h"
#include "util/rng.h"

enum { GUARD = 64, ROOM_BYTES = 64 << 20, ROOMS = 4 };

const struct mix mixes[MIXES] = {
    {"fp32", false, {TR_F32, TR_F32, TR_F32, TR_F32, TR_F32}},
    {"fp16", false, {TR_F16, TR_F16, TR_F16, TR_F16, TR_F32}},
    {"bf16", false, {TR_BF16, TR_BF16, TR_BF16, TR_BF16, TR_F32}},
    {"bf16 with an fp32 residual", false, {TR_BF16, TR_F32, TR_BF16, TR_BF16, TR_F32}},
    {"fp16 with fp32 gradients", false, {TR_F16, TR_F16, TR_F16, TR_F32, TR_F32}},
    {"any type", true, {TR_F32, TR_F32, TR_F32, TR_F32, TR_F32}},
};

uint32_t draw(struct trial *t)
{
    return tr_rng_u32(tr_rng_key(77, TR_STREAM_INIT, 0, t->number), t->draws++);
}

/* A size in 1 .. most; every fifth is 1 and every fifth is `most`. */
int64_t size(struct trial *t, int64_t most)
{
    uint32_t d = draw(t);

    return d % 5 == 0 ? 1 : d % 5 == 1 ? most : 1 + (int64_t)(d / 5) % most;
}

bool coin(struct trial *t)
{
    return draw(t) % 2 == 0;
}

/* Kernels have a path for operands that lie well, and one for all others. */
static bool lies_well(const struct trial *t)
{
    return t->number % 3 == 0;
}

int64_t width(struct trial *t, int64_t most)
{
    int64_t n = size(t, most);

    return lies_well(t) ? (n + 15) / 16 * 16 : n;
}

/* ---- a device with its own memory ---- */

static struct room {
    const struct tr_device *of;
    unsigned char *base;
} rooms[ROOMS];

static struct room *room_of(const struct tr_device *d)
{
    for (int i = 0; i < ROOMS; i++)
        if (rooms[i].of == d)
            return &rooms[i];
    return NULL;
}

bool is_there(const struct tr_backend *b)
{
    struct tr_device *d;

    if (!b->apart)
        return true;
    if (b->open(&(struct tr_device_how){.threads = 1}, &d) != TR_OK)
        return false;
    b->close(d);
    return true;
}

struct tr_device *open_device(const struct tr_backend *b, int threads)
{
    struct tr_device *d;
    struct room *r;
    void *base;

    share_small_work();
    assert_ok(b->open(&(struct tr_device_how){.threads = threads}, &d));
    if (!b->apart)
        return d;
    r = room_of(NULL);
    assert_non_null(r);
    assert_ok(b->reserve(d, ROOM_BYTES, &base));
    *r = (struct room){d, base};
    return d;
}

void close_device(const struct tr_backend *b, struct tr_device *d)
{
    struct room *r = b->apart ? room_of(d) : NULL;

    if (r)
        *r = (struct room){NULL, NULL};
    b->close(d);
}

/* The block of an operand as the device has it. */
static struct tr_tensor block_of(const struct operand *o)
{
    return tr_u8_1(o->away, (int64_t)o->block_bytes);
}

const struct tr_backend *ready(struct trial *t)
{
    for (int i = 0; t->q.on->apart && i < t->operands; i++) {
        struct operand *o = &t->operand[i];
        struct tr_tensor there = block_of(o);

        t->q.on->upload(&t->q, &there, o->block);
        o->t.data = o->away + ((unsigned char *)o->t.data - o->block);
    }
    return t->q.on;
}

void finish(struct trial *t)
{
    t->q.on->wait(&t->q);
    for (int i = 0; t->q.on->apart && i < t->operands; i++) {
        struct operand *o = &t->operand[i];
        struct tr_tensor there = block_of(o);

        t->q.on->download(&t->q, o->block, &there);
        o->t.data = o->block + ((unsigned char *)o->t.data - o->away);
    }
}

/* ---- operands ---- */

static void place_apart(struct trial *t, struct operand *o)
{
    const struct room *r = room_of(t->q.device);

    assert_non_null(r);
    o->away = r->base + t->used;
    t->used += (o->block_bytes + 255) / 256 * 256;
    assert_true(t->used <= ROOM_BYTES);
}

struct operand *place(struct trial *t, enum role role, struct tr_tensor shape)
{
    struct operand *o = &t->operand[t->operands++];
    size_t bytes = (size_t)tr_tensor_bytes(&shape), one = (size_t)tr_dtype_bytes(shape.dtype);
    size_t offset = GUARD + (lies_well(t) ? 0 : one * (draw(t) % (GUARD / (uint32_t)one)));

    assert_true(t->operands <= MAX_OPERANDS);
    *o = (struct operand){.t = shape, .role = role, .block_bytes = bytes + 3 * GUARD};
    o->block = aligned_alloc(64, (o->block_bytes + 63) / 64 * 64);
    o->before = malloc(o->block_bytes);
    assert_non_null(o->block);
    assert_non_null(o->before);
    memset(o->block, 0xA5, o->block_bytes);
    o->t.data = o->block + offset;
    if (t->q.on->apart)
        place_apart(t, o);
    return o;
}

const struct tr_tensor *seal(struct operand *o)
{
    memcpy(o->before, o->block, o->block_bytes);
    return &o->t;
}

/* n numbers around 0 with standard deviation 1, none beyond 3.5: sums of four uniform ones. */
static void random_numbers(struct tr_rng r, int64_t n, float *out)
{
    uint32_t words[4];

    for (int64_t i = 0; i < n; i++) {
        uint32_t word;
        int sum;

        if (i % 4 == 0)
            tr_rng_block(r, (uint64_t)i / 4, words);
        word = words[i % 4];
        sum = (int)(word & 255) + (int)(word >> 8 & 255) + (int)(word >> 16 & 255) +
              (int)(word >> 24);
        out[i] = (float)(sum - 510) / 147.8f;
    }
}

double element(const struct tr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TR_F64:
        return tr_f64(t)[i];
    case TR_F16:
        return (double)tr_f16_to_float(tr_half(t)[i]);
    case TR_BF16:
        return (double)tr_bf16_to_float(tr_half(t)[i]);
    default:
        return (double)tr_f32(t)[i];
    }
}

void put(const struct tr_tensor *t, int64_t i, float x)
{
    if (t->dtype == TR_F32)
        tr_f32(t)[i] = x;
    else
        tr_half(t)[i] = t->dtype == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
}

static enum tr_dtype type_of(struct trial *t, enum kind kind)
{
    static const enum tr_dtype any[] = {TR_F32, TR_F16, TR_BF16};

    return t->mix->any && kind != STATISTIC ? any[draw(t) % 3] : t->mix->type[kind];
}

/* A [rows,columns] of such numbers times `scale`. */
const struct tr_tensor *floats(struct trial *t, enum role role, enum kind kind, int64_t rows,
                               int64_t columns, double scale)
{
    struct operand *o = place(t, role, tr_tensor_2(NULL, type_of(t, kind), rows, columns));
    struct tr_rng r = tr_rng_key(78, TR_STREAM_INIT, t->operands, t->number);
    int64_t n = rows * columns;
    float *x = malloc((size_t)n * sizeof *x);

    assert_non_null(x);
    if (role != OUT)
        random_numbers(r, n, x);
    for (int64_t i = 0; i < n; i++)
        put(&o->t, i, role == OUT ? NAN : x[i] * (float)scale);
    free(x);
    return seal(o);
}

void coarsen(struct trial *t)
{
    struct operand *o = &t->operand[t->operands - 1];

    for (int64_t i = 0; i < tr_tensor_elems(&o->t); i++)
        put(&o->t, i, (float)(nearbyint(element(&o->t, i) * 8.0) / 8.0));
    seal(o);
}

/* Infinities and NaN among the numbers of the last operand, in a quarter of the trials. */
void spoil(struct trial *t)
{
    static const float special[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 1e-7f, 3e38f};
    struct operand *o = &t->operand[t->operands - 1];
    int64_t n = tr_tensor_elems(&o->t);

    if (t->number % 4 != 0)
        return;
    for (int i = 0; i < 3; i++)
        put(&o->t, draw(t) % (uint32_t)n, special[draw(t) % 7]);
    seal(o);
}

const struct tr_tensor *floats3(struct trial *t, enum role role, int64_t d0, int64_t d1, int64_t d2)
{
    struct tr_tensor *made = &t->operand[t->operands].t;

    floats(t, role, STATISTIC, d0 * d1, d2, 1.0);
    *made = tr_f32_3(made->data, d0, d1, d2);
    return made;
}

/* What an operation overwrites with fp16 or bf16. */
const struct tr_tensor *halves(struct trial *t, enum tr_dtype type, int64_t n)
{
    struct operand *o = place(t, OUT, tr_tensor_1(NULL, type, n));

    for (int64_t i = 0; i < n; i++)
        put(&o->t, i, NAN);
    return seal(o);
}

const struct tr_tensor *ints(struct trial *t, int64_t n, int32_t from, int32_t to)
{
    struct operand *o = place(t, IN, tr_i32_1(NULL, n));

    for (int64_t i = 0; i < n; i++)
        tr_i32(&o->t)[i] = from + (int32_t)(draw(t) % (uint32_t)(to - from));
    return seal(o);
}

const struct tr_tensor *one_double(struct trial *t)
{
    struct operand *o = place(t, INOUT, tr_f64_1(NULL, 1));

    tr_f64(&o->t)[0] = 0.25;
    return seal(o);
}

/* The first token that each query sees: documents of any length, or none. */
const struct tr_tensor *first_tokens(struct trial *t, int64_t samples, int64_t tokens)
{
    struct operand *o;

    if (coin(t))
        return NULL;
    o = place(t, IN, tr_i32_1(NULL, samples * tokens));
    for (int64_t n = 0; n < samples * tokens; n++) {
        int64_t token = n % tokens;
        bool begins = token == 0 || draw(t) % 16 == 0;

        tr_i32(&o->t)[n] = begins ? (int32_t)token : tr_i32(&o->t)[n - 1];
        /* Two samples in three are one document up to the last block of keys. */
        if (begins && token > 0 && n / tokens % 3 > 0 && token < tokens - 20)
            tr_i32(&o->t)[n] = tr_i32(&o->t)[n - 1];
    }
    return seal(o);
}

/* On in two of three trials.  Places of samples are neither sorted nor small. */
struct tr_dropout dropping(struct trial *t, int64_t samples, int64_t tokens)
{
    static const double p[] = {0.0, 0.1, 0.5};
    struct tr_dropout d = {.p = p[draw(t) % 3],
                           .seed = UINT64_C(0x123456789abcdef),
                           .stream = TR_STREAM_MLP_OUT_DROPOUT,
                           .site = (int)(draw(t) % 96),
                           .tokens = tokens};
    struct operand *o = place(t, IN, tr_tensor_1(NULL, TR_I64, samples));

    assert_true(samples <= 8);
    for (int64_t i = 0; i < samples; i++)
        t->sample[i] = ((int64_t)draw(t) << 7) + (int64_t)draw(t) % 128;
    memcpy(o->t.data, t->sample, (size_t)tr_tensor_bytes(&o->t));
    d.sample = seal(o)->data;
    if (t->q.on->apart)
        d.sample = (int64_t *)(void *)(o->away + ((unsigned char *)o->t.data - o->block));
    return d;
}

void release(struct trial *t)
{
    for (int i = 0; i < t->operands; i++) {
        free(t->operand[i].block);
        free(t->operand[i].before);
    }
}

void describe_operands(const struct trial *t, char *out, size_t size)
{
    static const char *const roles[] = {[IN] = "in", [OUT] = "out", [INOUT] = "inout"};
    size_t n = 0;

    out[0] = '\0';
    for (int i = 0; i < t->operands && n < size; i++) {
        const struct tr_tensor *x = &t->operand[i].t;

        n += (size_t)snprintf(out + n, size - n, "%s%s %s[", i ? " " : "",
                              roles[t->operand[i].role], tr_dtype_name(x->dtype));
        for (int k = 0; k < x->ndim && n < size; k++)
            n += (size_t)snprintf(out + n, size - n, "%s%lld", k ? "," : "", (long long)x->dim[k]);
        if (n < size)
            n += (size_t)snprintf(out + n, size - n, "]");
    }
}

static char sentence[512];

/* Guards and inputs are as they were. */
const char *touched(const struct trial *t)
{
    for (int i = 0; i < t->operands; i++) {
        const struct operand *o = &t->operand[i];
        size_t from = (size_t)((unsigned char *)o->t.data - o->block);
        size_t to = o->role == IN ? from : from + (size_t)tr_tensor_bytes(&o->t);

        if (memcmp(o->block, o->before, from) != 0 ||
            memcmp(o->block + to, o->before + to, o->block_bytes - to) != 0) {
            snprintf(sentence, sizeof sentence,
                     "%s in %s, trial %d on %s: operand %d was written where it must not be",
                     t->row, t->mix->name, t->number, t->q.on->name, i);
            return sentence;
        }
    }
    return NULL;
}

void check_untouched(const struct trial *t)
{
    const char *wrong = touched(t);

    if (wrong)
        fail_msg("%s", wrong);
}

/* Squared relative error of `got`; two elements that are both NaN or the same infinity are
   equal. */
static double error_of(const struct tr_tensor *got, const struct tr_tensor *want)
{
    double error = 0.0, norm = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(want); i++) {
        double g = element(got, i), w = element(want, i);

        if (g == w || (isnan(g) && isnan(w))) {
            norm += isfinite(w) ? w * w : 0.0;
            continue;
        }
        if (!isfinite(g) || !isfinite(w))
            return INFINITY;
        error += (g - w) * (g - w);
        norm += w * w;
    }
    return error == 0.0 ? 0.0 : error / norm;
}

static bool same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && (signbit(a) != 0) == (signbit(b) != 0);
}

static double exact_error(const struct tr_tensor *got, const struct tr_tensor *want)
{
    if (!tr_dtype_is_float(got->dtype) && got->dtype != TR_F64)
        return memcmp(got->data, want->data, (size_t)tr_tensor_bytes(got)) == 0 ? 0.0 : INFINITY;
    for (int64_t i = 0; i < tr_tensor_elems(got); i++)
        if (!same(element(got, i), element(want, i)))
            return INFINITY;
    return 0.0;
}

bool linear_rounds(const struct tr_tensor *y, const struct tr_tensor *pre, enum tr_act act)
{
    return pre && pre->dtype != TR_F32 && pre->dtype == y->dtype && act != TR_ACT_NONE &&
           act != TR_ACT_GELU_TANH;
}

/* Whether attention multiplies what it has rounded: on GPUs, and by the bf16 instructions of a
   processor. */
static bool rounds_products(const struct tr_queue *q)
{
    return q->on->apart || strstr(q->on->describe(q->device), "attention by A") != NULL;
}

/*
 * The tolerance of ops.def for fp16 and bf16, which is 4 u^2, and less where there are many: two
 * correct results are equal but for the few that lie so close to a middle that they become
 * neighbours, 2 u apart. Here two of them, the largest, and 1/8 u^2 for the rest; to round all of
 * them once more adds 0.18 u^2, to cut them off instead 0.7 u^2.  Attention on tensor cores, or by
 * bf16 instructions, rounds probabilities and gradients of scores before it sums them, which
 * ops.def allows: another 1/2 u^2, as in tests/cuda/t_attention.cc.  An activation of what is
 * rounded already multiplies that error, by 2 where it is a square: another 1 1/2 u^2.
 */
static double allowed_halves(const struct trial *got, const struct tr_tensor *want)
{
    const bool rounds = strncmp(got->row, "attention", 9) == 0 && rounds_products(&got->q);
    double u2 = want->dtype == TR_F16 ? 0x1p-22 : 0x1p-16, most = 0.0, norm = 0.0;
    double rest = 0.125 + (rounds ? 0.5 : 0.0) + (got->rounds ? 1.5 : 0.0);

    for (int64_t i = 0; i < tr_tensor_elems(want); i++) {
        double square = element(want, i) * element(want, i);

        if (isfinite(square)) {
            most = fmax(most, square);
            norm += square;
        }
    }
    return norm > 0.0 ? fmin(4.0, 8.0 * most / norm + rest) * u2 : 0.0;
}

const char *difference(const struct trial *got, const struct trial *want, double tol)
{
    for (int i = 0; i < got->operands; i++) {
        const struct tr_tensor *g = &got->operand[i].t, *w = &want->operand[i].t;
        bool half = g->dtype == TR_F16 || g->dtype == TR_BF16;
        double allowed = half && tol > 0.0 ? allowed_halves(got, w) : tol, error;

        if (got->operand[i].role == IN)
            continue;
        error = tol > 0.0 ? error_of(g, w) : exact_error(g, w);
        if (!(error <= allowed)) {
            snprintf(sentence, sizeof sentence,
                     "%s in %s, trial %d on %s with %d threads: operand %d (%s) is off by %.3g, "
                     "allowed %.3g",
                     got->row, got->mix->name, got->number, got->q.on->name,
                     got->q.on->threads(got->q.device), i, tr_dtype_name(g->dtype), error, allowed);
            return sentence;
        }
    }
    return NULL;
}

void compare(const struct trial *got, const struct trial *want, double tol)
{
    const char *wrong;

    assert_int_equal(got->operands, want->operands);
    wrong = difference(got, want, tol);
    if (wrong)
        fail_msg("%s", wrong);
}
