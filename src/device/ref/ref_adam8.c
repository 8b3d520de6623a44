/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref/ref.h"

#include <math.h>
#include <string.h>

#include "device/ref/ref_element.h"
#include "device/sizes.h"

/* Moments of one element, and what it becomes. */
struct element {
    float m, v, p;
};

/* One step; p stays where the gradient is of no use. */
static struct element step(const struct tr_adam8 *a, struct element x, float grad)
{
    const float g = grad * a->factor;
    const float kept_m = a->beta1 * x.m, new_m = a->to_m * g;
    const float kept_v = a->beta2 * x.v, part_v = a->to_v * g, new_v = part_v * g;
    struct element y = {.m = 0.0f, .v = 0.0f, .p = x.p};
    float root, change;

    if (!(fabsf(g) <= TR_ADAM8_MOST))
        return y;
    y.m = kept_m + new_m;
    y.v = kept_v + new_v;
    root = sqrtf(y.v) + a->eps;
    change = a->rate * (y.m / root);
    y.p = x.p - change;
    y.p *= a->shrink;
    return y;
}

/* The scale of the elements of a block, and their codes. */
static void encode(enum tr_book book, const float *x, int64_t n, uint8_t *block)
{
    tr_code_encode(book, (struct tr_code_blocks){n, n}, x, n, block);
}

static float decoded(enum tr_book book, const uint8_t *block, int64_t i)
{
    float scale;

    memcpy(&scale, block, sizeof scale);
    return tr_code_book(book)->value[block[TR_BOOK_SCALE_BYTES + i]] * scale;
}

void tr_ref_adam8(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how, struct tr_code_blocks blocks)
{
    const int64_t n = tr_sizes_adam8(half, p, m, v, g, blocks);
    const struct tr_adam8 a = tr_adam8_of(&how);
    uint8_t *mb = tr_u8(m), *vb = tr_u8(v);
    float ms[TR_BLOCK_MOST], vs[TR_BLOCK_MOST];

    (void)q;
    for (int64_t at = 0, count; at < n; at += count) {
        count = tr_code_next(blocks, at, n);
        for (int64_t i = 0; i < count; i++) {
            const struct element x = {decoded(TR_BOOK_SIGNED, mb, i),
                                      decoded(TR_BOOK_UNSIGNED, vb, i), tr_f32(p)[at + i]};
            const struct element y = step(&a, x, (float)get(g, at + i));

            ms[i] = y.m;
            vs[i] = y.v;
            set(p, at + i, (double)y.p);
            if (half)
                set(half, at + i, (double)y.p);
        }
        encode(TR_BOOK_SIGNED, ms, count, mb);
        encode(TR_BOOK_UNSIGNED, vs, count, vb);
        mb += tr_code_bytes(blocks, at + count) - tr_code_bytes(blocks, at);
        vb += tr_code_bytes(blocks, at + count) - tr_code_bytes(blocks, at);
    }
}
