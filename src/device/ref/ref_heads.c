/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref/ref.h"

#include <math.h>
#include <string.h>

#include "device/ref/ref_element.h"
#include "device/sizes.h"

/* Operations on single queries and keys in rows of qkv's layout, and on single columns. */

/* The vector from element `first` on: of row n, number `index` of its queries and keys, queries first, or a
   value, which has no index. */
struct place {
    int64_t first, n, index;
    bool query, value;
};

static struct place place_of(struct tr_heads_how how, int64_t n, int64_t i)
{
    int64_t each = how.heads / how.groups, group = i / (each + 2), k = i % (each + 2);
    int64_t parts = how.heads + 2 * how.groups;

    return (struct place){.first = (n * parts + i) * how.width,
                          .n = n,
                          .index = k < each ? group * each + k : how.heads + group,
                          .query = k < each,
                          .value = k == each + 1};
}

static void copy_of(const struct tr_tensor *y, const struct tr_tensor *x, int64_t first,
                    int64_t count)
{
    for (int64_t i = first; i < first + count; i++)
        set(y, i, get(x, i));
}

/* ---- rotary positions ---- */

static void rotate(const struct tr_tensor *y, const struct tr_tensor *x,
                   const struct tr_tensor *table, int64_t row, int64_t first,
                   struct tr_rotary_how how)
{
    const int64_t half = how.rotary / 2;

    for (int64_t i = 0; i < half; i++) {
        int64_t at_a = first + (how.pairs ? 2 * i : i), at_b = how.pairs ? at_a + 1 : at_a + half;
        double a = get(x, at_a), b = get(x, at_b), c = get(table, row * how.rotary + i);
        double s = get(table, row * how.rotary + half + i) * (how.back ? -1.0 : 1.0);

        set(y, at_a, a * c - b * s);
        set(y, at_b, a * s + b * c);
    }
}

void tr_ref_rotary(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                   const struct tr_tensor *table, const struct tr_tensor *position,
                   struct tr_rotary_how how)
{
    struct tr_heads_sizes s = tr_sizes_rotary(y, x, table, position, how);
    int64_t rows = tr_tensor_elems(table) / how.rotary;

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t i = 0; i < how.heads.heads + 2 * how.heads.groups; i++) {
            struct place p = place_of(how.heads, n, i);
            int64_t turned = p.value ? 0 : how.rotary, row = tr_i32(position)[n];

            TR_ASSERT(row >= 0 && row < rows);
            if (!p.value)
                rotate(y, x, table, row, p.first, how);
            copy_of(y, x, p.first + turned, s.width - turned);
        }
}

/* ---- norms of heads ---- */

static double gain_of(const struct tr_tensor *gain, int64_t i, struct tr_norm_how how)
{
    return get(gain, i) + (how.one ? 1.0 : 0.0);
}

void tr_ref_head_norm(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *rstd,
                      const struct tr_tensor *x, const struct tr_tensor *q_gain,
                      const struct tr_tensor *k_gain, struct tr_heads_how heads,
                      struct tr_norm_how how)
{
    struct tr_heads_sizes s = tr_sizes_head_norm(y, rstd, x, q_gain, k_gain, heads);

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t k = 0; k < heads.heads + 2 * heads.groups; k++) {
            struct place p = place_of(heads, n, k);
            double squares = 0.0, r;

            if (p.value) {
                copy_of(y, x, p.first, s.width);
                continue;
            }
            for (int64_t i = 0; i < s.width; i++)
                squares += get(x, p.first + i) * get(x, p.first + i);
            r = 1.0 / sqrt(squares / (double)s.width + (double)how.eps);
            for (int64_t i = 0; i < s.width; i++)
                set(y, p.first + i,
                    get(x, p.first + i) * r * gain_of(p.query ? q_gain : k_gain, i, how));
            set(rstd, n * s.heads + p.index, r);
        }
}

/* Of the gain of queries, or of keys. */
static void gain_bwd(const struct tr_tensor *dgain, const struct tr_tensor *dy,
                     const struct tr_tensor *x, const struct tr_tensor *rstd,
                     struct tr_heads_how heads, struct tr_heads_sizes s, bool query)
{
    for (int64_t i = 0; i < s.width; i++) {
        double sum = get(dgain, i);

        for (int64_t n = 0; n < s.n; n++)
            for (int64_t k = 0; k < heads.heads + 2 * heads.groups; k++) {
                struct place p = place_of(heads, n, k);

                if (!p.value && p.query == query)
                    sum += get(dy, p.first + i) * get(x, p.first + i) *
                           get(rstd, n * s.heads + p.index);
            }
        set(dgain, i, sum);
    }
}

void tr_ref_head_norm_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                          const struct tr_tensor *dq_gain, const struct tr_tensor *dk_gain,
                          const struct tr_tensor *dy, const struct tr_tensor *x,
                          const struct tr_tensor *q_gain, const struct tr_tensor *k_gain,
                          const struct tr_tensor *rstd, struct tr_heads_how heads,
                          struct tr_norm_how how)
{
    struct tr_heads_sizes s = tr_sizes_head_norm(dx, rstd, x, q_gain, k_gain, heads);

    (void)q;
    tr_sizes_head_norm(dy, rstd, x, dq_gain, dk_gain, heads);
    gain_bwd(dq_gain, dy, x, rstd, heads, s, true);
    gain_bwd(dk_gain, dy, x, rstd, heads, s, false);
    /* With g = dy * gain and u = x * rstd: dx = rstd (g - u mean(g u)). */
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t k = 0; k < heads.heads + 2 * heads.groups; k++) {
            struct place p = place_of(heads, n, k);
            const struct tr_tensor *gain = p.query ? q_gain : k_gain;
            double r, mean = 0.0;

            if (p.value) {
                copy_of(dx, dy, p.first, s.width);
                continue;
            }
            r = get(rstd, n * s.heads + p.index);
            for (int64_t i = 0; i < s.width; i++)
                mean += get(dy, p.first + i) * gain_of(gain, i, how) * get(x, p.first + i) * r /
                        (double)s.width;
            for (int64_t i = 0; i < s.width; i++)
                set(dx, p.first + i,
                    r * (get(dy, p.first + i) * gain_of(gain, i, how) -
                         get(x, p.first + i) * r * mean));
        }
}

/* ---- columns ---- */

void tr_ref_columns(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                    int64_t to, int64_t from, int64_t count)
{
    int64_t rows = tr_sizes_columns(y, x, to, from, count);
    int64_t y_width = tr_tensor_elems(y) / rows, x_width = tr_tensor_elems(x) / rows;

    (void)q;
    for (int64_t n = 0; n < rows; n++)
        for (int64_t i = 0; i < count; i++)
            set(y, n * y_width + to + i, get(x, n * x_width + from + i));
}
