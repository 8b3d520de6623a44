/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/codec_trial.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/sizes.h"

/* ---- quantization ---- */

struct fixed {
    struct tr_fix how;
    int64_t d[3];
};

/* Any bits and any buckets; a few long ones, or many short ones. */
static struct fixed fixed_of(struct trial *t)
{
    struct fixed f = {.how.bits = 1 + (int)(draw(t) % 8),
                      .how.over = draw(t) % 8,
                      .how.scale = coin(t) ? TR_SCALE_MAX : TR_SCALE_L2};

    f.d[0] = size(t, 4);
    f.d[1] = size(t, 40);
    f.d[2] = width(t, 150);
    if (t->number % 4 == 3)
        f.d[draw(t) % 3] *= 7;
    return f;
}

/* The last operand as the operation takes it. */
static const struct tr_tensor *with_dims(struct trial *t, const struct fixed *f)
{
    struct tr_tensor *made = &t->operand[t->operands - 1].t;

    *made = tr_tensor_3(made->data, made->dtype, f->d[0], f->d[1], f->d[2]);
    return made;
}

static int64_t elements_of(const struct fixed *f)
{
    return f->d[0] * f->d[1] * f->d[2];
}

static int64_t buckets_of(const struct fixed *f)
{
    int64_t n = 1;

    for (int i = 0; i < 3; i++)
        n *= f->how.over >> i & 1 ? 1 : f->d[i];
    return n;
}

void fix_scale_trial(struct trial *t)
{
    /* Scales too large for fp16, too small for it, and of its subnormal numbers. */
    static const double magnitude[] = {1.0, 1.0, 1.0, 1e5, 1e-6, 1e-9};
    struct fixed f = fixed_of(t);
    const struct tr_tensor *scale = halves(t, TR_F16, buckets_of(&f)), *x;

    floats(t, IN, ACTIVATION, 1, elements_of(&f), magnitude[draw(t) % 6]);
    x = with_dims(t, &f);
    spoil(t);
    ready(t)->fix_scale(&t->q, scale, x, f.how);
}

/* Scales such as fix_scale() makes: none, subnormal ones, NaN and the largest are among them, and
   those to which adding 1e-6 changes nothing, so that quotients lie between two codes. */
static const struct tr_tensor *scales(struct trial *t, int64_t n)
{
    static const uint16_t special[] = {0, 1, 0x7e00, 0x7bff, 0x5000, 0x5400};
    struct operand *o = place(t, IN, tr_tensor_1(NULL, TR_F16, n));
    bool ties = coin(t);

    for (int64_t i = 0; i < n; i++)
        if (draw(t) % 4 == 0)
            tr_half(&o->t)[i] = special[draw(t) % 6];
        else
            put(&o->t, i, ties ? 32.0f : 0.5f + (float)(draw(t) % 1000) / 300.0f);
    return seal(o);
}

static const struct tr_tensor *bytes_to_fill(struct trial *t, int64_t n)
{
    struct operand *o = place(t, OUT, tr_u8_1(NULL, n));

    memset(o->t.data, 0x5a, (size_t)n);
    return seal(o);
}

static const struct tr_tensor *random_bytes(struct trial *t, int64_t n)
{
    struct operand *o = place(t, IN, tr_u8_1(NULL, n));

    for (int64_t i = 0; i < n; i++)
        tr_u8(&o->t)[i] = (uint8_t)draw(t);
    return seal(o);
}

void fix_encode_trial(struct trial *t)
{
    struct fixed f = fixed_of(t);
    const struct tr_tensor *code = bytes_to_fill(t, (elements_of(&f) * f.how.bits + 7) / 8);
    const struct tr_tensor *x, *scale;

    floats(t, IN, ACTIVATION, 1, elements_of(&f), coin(t) ? 1.0 : 20.0);
    x = with_dims(t, &f);
    if (coin(t))
        coarsen(t);
    spoil(t);
    scale = scales(t, buckets_of(&f));
    ready(t)->fix_encode(&t->q, code, x, scale, f.how);
}

void fix_decode_trial(struct trial *t)
{
    struct fixed f = fixed_of(t);
    bool add = coin(t);
    const struct tr_tensor *y, *code, *scale;

    floats(t, add ? INOUT : OUT, ACTIVATION, 1, elements_of(&f), 1.0);
    y = with_dims(t, &f);
    if (add)
        spoil(t);
    code = random_bytes(t, (elements_of(&f) * f.how.bits + 7) / 8);
    scale = scales(t, buckets_of(&f));
    ready(t)->fix_decode(&t->q, y, code, scale, f.how, add);
}

/* ---- the largest ---- */

/* The numbers of the last operand lie so close together that only their last bits differ.
   */
static void crowd(struct trial *t)
{
    struct operand *o = &t->operand[t->operands - 1];

    for (int64_t i = 0; i < tr_tensor_elems(&o->t); i++)
        put(&o->t, i, (float)(1.0 + 1e-5 * element(&o->t, i)));
    seal(o);
}

void topk_mask_trial(struct trial *t)
{
    int64_t n = size(t, t->number % 8 == 5 ? 600001 : 20000), k = size(t, n);
    const struct tr_tensor *mask = bytes_to_fill(t, (n + 7) / 8), *x;

    x = floats(t, IN, GRADIENT, 1, n, draw(t) % 8 == 0 ? 0.0 : 1.0);
    if (draw(t) % 4 == 0)
        crowd(t);
    else if (coin(t))
        coarsen(t);
    spoil(t);
    ready(t)->topk_mask(&t->q, mask, x, k);
}

/* A mask for n elements, with a bit at least; none set, or few, or all, in some stretches. */
static const struct tr_tensor *mask_of(struct trial *t, int64_t n, int64_t *k)
{
    struct operand *o = place(t, IN, tr_u8_1(NULL, (n + 7) / 8));
    uint32_t way = draw(t) % 4, word = 0;

    memset(o->t.data, 0, (size_t)tr_tensor_bytes(&o->t));
    *k = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % 32 == 0)
            word = way == 0 ? draw(t) : way == 1 ? draw(t) & draw(t) & draw(t) : way == 2 ? ~0u : 0;
        if (way == 0 && i / 700 % 3 == 1)
            word = 0;
        if (i == n / 2 || word >> i % 32 & 1) {
            tr_u8(&o->t)[i / 8] = (uint8_t)(tr_u8(&o->t)[i / 8] | 0x80 >> i % 8);
            ++*k;
        }
    }
    return seal(o);
}

void mask_take_trial(struct trial *t)
{
    int64_t n = size(t, t->number % 8 == 5 ? 600001 : 40000), k;
    const struct tr_tensor *mask = mask_of(t, n, &k);
    const struct tr_tensor *y = floats(t, OUT, ACTIVATION, 1, k, 1.0);
    const struct tr_tensor *x = floats(t, IN, RESIDUAL, 1, n, 1.0);

    spoil(t);
    ready(t)->mask_take(&t->q, y, x, mask);
}

void mask_add_trial(struct trial *t)
{
    int64_t n = size(t, t->number % 8 == 5 ? 600001 : 40000), k;
    const struct tr_tensor *mask = mask_of(t, n, &k);
    const struct tr_tensor *y = floats(t, INOUT, RESIDUAL, 1, n, 1.0), *v;
    float factor = coin(t) ? 1.0f : -1.0f;

    spoil(t);
    v = floats(t, IN, ACTIVATION, 1, k, 1.0);
    spoil(t);
    ready(t)->mask_add(&t->q, y, v, mask, factor);
}

/* ---- some of many ---- */

/* n different places below `all` in any order, some of them none. */
static const struct tr_tensor *places(struct trial *t, int64_t n, int64_t all)
{
    struct operand *o = place(t, IN, tr_i32_1(NULL, n));
    int32_t *list = malloc((size_t)all * sizeof *list);
    bool absent = coin(t);

    assert_non_null(list);
    for (int32_t i = 0; i < all; i++)
        list[i] = i;
    for (int64_t i = 0; i < n; i++) {
        int64_t other = i + (int64_t)(draw(t) % (uint32_t)(all - i));
        int32_t at = list[other];

        list[other] = list[i];
        list[i] = at;
        tr_i32(&o->t)[i] = absent && draw(t) % 8 == 0 ? -1 - (int32_t)(draw(t) % 100) : at;
    }
    free(list);
    return seal(o);
}

/* A selection and how many it selects of `all`. */
static struct tr_select selection(struct trial *t, int64_t all, int64_t *n)
{
    struct tr_select s = {.step = size(t, all < 12 ? all : 12)};

    s.first = (int64_t)(draw(t) % (uint32_t)s.step);
    *n = size(t, (all - s.first + s.step - 1) / s.step);
    if (coin(t))
        s = (struct tr_select){.index = places(t, *n, all)};
    return s;
}

void select_take_trial(struct trial *t)
{
    int64_t all = size(t, 60000), n;
    struct tr_select s = selection(t, all, &n);
    const struct tr_tensor *y = floats(t, OUT, ACTIVATION, 1, n, 1.0);
    const struct tr_tensor *a = floats(t, IN, RESIDUAL, 1, all, 1.0), *b;

    spoil(t);
    b = coin(t) ? floats(t, IN, WEIGHT, 1, all, 1.0) : NULL;
    ready(t)->select_take(&t->q, y, a, b, s);
}

void select_put_trial(struct trial *t)
{
    int64_t all = size(t, 60000), n;
    struct tr_select s = selection(t, all, &n);
    const struct tr_tensor *a = floats(t, INOUT, RESIDUAL, 1, all, 1.0);
    const struct tr_tensor *y = floats(t, IN, ACTIVATION, 1, n, 1.0);

    spoil(t);
    ready(t)->select_put(&t->q, a, y, s);
}

void select_add_trial(struct trial *t)
{
    int64_t all = size(t, 60000), n;
    struct tr_select s = selection(t, all, &n);
    const struct tr_tensor *a = floats(t, INOUT, RESIDUAL, 1, all, 1.0);
    const struct tr_tensor *y = floats(t, IN, ACTIVATION, 1, n, 1.0);
    float factor = coin(t) ? 1.0f : -1.0f;

    spoil(t);
    ready(t)->select_add(&t->q, a, y, s, factor);
}

void subtract_trial(struct trial *t)
{
    int64_t n = (t->number % 8 == 6 ? (1 << 20) + 77 : 0) + size(t, 40000);
    uint32_t in_place = draw(t) % 3;
    const struct tr_tensor *y = floats(t, in_place ? INOUT : OUT, ACTIVATION, 1, n, 1.0), *other,
                           *a;

    if (in_place)
        spoil(t);
    other = floats(t, IN, RESIDUAL, 1, n, 1.0);
    spoil(t);
    a = in_place ? y : floats(t, IN, WEIGHT, 1, n, 1.0);
    if (in_place == 2)
        ready(t)->subtract(&t->q, y, other, a);
    else
        ready(t)->subtract(&t->q, y, a, other);
}

/* ---- fingerprint ---- */

void fingerprint_trial(struct trial *t)
{
    struct operand *o = place(t, INOUT, tr_i64_1(NULL, 1));
    const struct tr_tensor *out, *x;

    tr_i64(&o->t)[0] = (int64_t)draw(t) - INT32_MAX;
    out = seal(o);
    if (coin(t))
        x = random_bytes(t, size(t, 200000));
    else
        x = floats(t, IN, ACTIVATION, 1, size(t, 60000), 1.0);
    ready(t)->fingerprint(&t->q, out, x);
}
