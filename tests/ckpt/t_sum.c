/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/io.h"
#include "ckpt/sum.h"
#include "util/file.h"

enum { N = 1000 };

static void fill(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)i * 0.25F - 3.0F;
}

/* Computed with numpy from the description in docs/formats.md. */
static void known_answers(void **state)
{
    float x[N];

    (void)state;
    fill(x);
    assert_int_equal(tr_ckpt_sum(x, N, 0), 0x3748825261747793u);
    assert_int_equal(tr_ckpt_sum(x, N, ((int64_t)1 << 40) + 5), 0xfba95c93424861ebu);
    memset(x, 0, sizeof x);
    assert_int_equal(tr_ckpt_sum(x, 1, 0), 0xe220a8397b1dcdafu);
    assert_int_equal(tr_ckpt_sum(x, N, 0), 0x727aaab3057838ebu);
    assert_int_equal(tr_ckpt_sum(x, 0, 7), 0);
}

/* The sum of the parts, whatever they are, is the sum of the whole. */
static void parts(void **state)
{
    float x[N];

    (void)state;
    fill(x);
    for (int cut = 0; cut <= N; cut += 37)
        assert_int_equal(tr_ckpt_sum(x, cut, 0) + tr_ckpt_sum(x + cut, N - cut, cut),
                         tr_ckpt_sum(x, N, 0));
}

/* Every flip of one bit, every exchange of neighbours, and a shift by one are seen. */
static void damage(void **state)
{
    float x[N], y[N];
    uint64_t whole;

    (void)state;
    fill(x);
    whole = tr_ckpt_sum(x, N, 0);
    for (int bit = 0; bit < 32 * N; bit++) {
        uint32_t bits;

        memcpy(y, x, sizeof y);
        memcpy(&bits, y + bit / 32, sizeof bits);
        bits ^= (uint32_t)1 << bit % 32;
        memcpy(y + bit / 32, &bits, sizeof bits);
        assert_true(tr_ckpt_sum(y, N, 0) != whole);
    }
    for (int i = 0; i + 1 < N; i++) {
        memcpy(y, x, sizeof y);
        y[i] = x[i + 1];
        y[i + 1] = x[i];
        assert_true(tr_ckpt_sum(y, N, 0) != whole);
    }
    assert_true(tr_ckpt_sum(x, N, 1) != whole);
    assert_true(tr_ckpt_sum(x, N - 1, 0) != whole);
}

/* A run over several windows of the file, which begins and ends inside of one: its bytes are there,
   and its checksum is added, whatever was there before. */
static void written(void **state)
{
    enum { MANY = 3 * TR_WRITEBACK_WINDOW / 4 + 1001, FIRST = 7, AT = 20483 };
    float *x = malloc(MANY * sizeof *x), *y = malloc(MANY * sizeof *y);
    FILE *f = tmpfile();
    struct tr_writeback to = {.fd = fileno(f)};
    uint64_t sum = 5;

    (void)state;
    assert_true(x && y && f);
    for (int i = 0; i < MANY; i++)
        x[i] = (float)(i % 1000003) - 0.5F;
    assert_int_equal(tr_ckpt_write_run(&to, AT, x, FIRST, MANY, &sum), 0);
    assert_int_equal(sum, 5 + tr_ckpt_sum(x, MANY, FIRST));
    assert_int_equal(lseek(to.fd, 0, SEEK_END), AT + (FIRST + MANY) * 4);
    assert_int_equal(tr_read_at(to.fd, y, MANY * 4, AT + FIRST * 4), 0);
    assert_memory_equal(x, y, MANY * sizeof *x);
    fclose(f);
    to.fd = -1;
    assert_int_equal(tr_ckpt_write_run(&to, AT, x, FIRST, MANY, &sum), -1);
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(parts),
        cmocka_unit_test(damage),
        cmocka_unit_test(written),
    };
    return run_tap(tests);
}
