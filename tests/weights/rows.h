/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_WEIGHTS_ROWS_H
#define TESTS_WEIGHTS_ROWS_H

#include <stdlib.h>
#include <string.h>

#include "weights/move.h"
#include "weights/source.h"

/* Ranges of rows are those of the whole parameter, and no others are passed on. */
struct rows_taken {
    float *x;          /* the whole parameter */
    int64_t next, end; /* numbers that are still to come */
    bool compare;      /* with x, which else is filled */
};

static enum tr_status rows_take(void *ctx, const struct tr_weights_item *m, int64_t first, float *x,
                                int64_t n)
{
    struct rows_taken *v = ctx;

    (void)m;
    assert_int_equal(first, v->next);
    assert_true(first + n <= v->end);
    if (v->compare)
        assert_memory_equal(v->x + first, x, (size_t)n * sizeof *x);
    else
        memcpy(v->x + first, x, (size_t)n * sizeof *x);
    v->next += n;
    return TR_OK;
}

static void rows_read(const struct tr_weights_source *s, int i, int64_t lo, int64_t hi,
                      struct rows_taken *v)
{
    struct tr_weights_end to = {.block = rows_take, .ctx = v};
    const int64_t cols = s->whole.list[i].full[1];

    v->next = lo * cols;
    v->end = hi * cols;
    assert_ok(tr_weights_read(&s->table, &s->map.list[i], lo, hi, &to));
    assert_int_equal(v->next, v->end);
}

/* Each parameter of the folder: all rows, and then the first third, one, and the rest. */
static void rows_of_folder(const struct tr_weights_ask *ask)
{
    struct tr_weights_source s;

    assert_ok(tr_weights_source_open(ask, &s));
    for (int i = 0; i < s.whole.count; i++) {
        const int64_t rows = s.whole.list[i].full[0], third = (rows + 2) / 3;
        struct rows_taken v = {.x = malloc((size_t)s.whole.list[i].elems * sizeof(float))};

        rows_read(&s, i, 0, rows, &v);
        v.compare = true;
        rows_read(&s, i, 0, third, &v);
        rows_read(&s, i, rows - 1, rows, &v);
        if (third < rows)
            rows_read(&s, i, third, rows, &v);
        free(v.x);
    }
    tr_weights_source_release(&s);
}

#endif
