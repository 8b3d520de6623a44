/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "data/crc32.h"
#include "data/cyclic.h"
#include "data/torch_rng.h"
#include "util/file.h"

/* Against tests/golden/cyclic.txt, which PyTorch made; the README there says what its lines are. */
enum { NUMBERS = 128 };

/* The numbers after the word that a line begins with; gives how many. */
static int numbers_of(const char *line, uint64_t out[NUMBERS])
{
    char *end = strchr(line, ' ');
    int n = 0;

    while (end && *end == ' ' && n < NUMBERS)
        out[n++] = strtoull(end, &end, 10);
    return n;
}

/* Call `check` with the numbers of each line that begins with `word`; gives how many there were. */
static int each_line(const char *word, void (*check)(const uint64_t *v, int n))
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/golden/cyclic.txt", srcdir ? srcdir : "."), *text, *line;
    uint64_t v[NUMBERS];
    int lines = 0;

    assert_ok(tr_file_text(path, 1 << 20, &text));
    for (line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, word, strlen(word)) != 0)
            continue;
        check(v, numbers_of(line, v));
        lines++;
    }
    free(text);
    free(path);
    return lines;
}

static void check_permutation(const uint64_t *v, int n)
{
    int64_t count = (int64_t)v[1];
    uint32_t *p = malloc((size_t)count * sizeof *p);

    assert_non_null(p);
    assert_true(n == 3 + (count < 12 ? (int)count : 12));
    tr_torch_randperm((uint32_t)v[0], count, p);
    for (int i = 3; i < n; i++)
        assert_int_equal(p[i - 3], v[i]);
    assert_int_equal(crc32(p, (size_t)count * sizeof *p), v[2]);
    free(p);
}

static void permutations(void **state)
{
    (void)state;
    assert_int_equal(each_line("randperm", check_permutation), 13);
}

/* What replica v[4] takes from v[3] consumed samples on. */
static void check_order(const uint64_t *v, int n)
{
    int64_t batch = (int64_t)v[1], replicas = (int64_t)v[2], first = (int64_t)v[3];
    struct tr_cyclic x;

    assert_int_equal(n, 5 + 14 * batch);
    assert_ok(tr_cyclic_open(&x, "it", (int64_t)v[0], batch, replicas));
    for (int64_t i = 0; i < 14 * batch; i++) {
        int64_t block = i / batch,
                position = first + block * batch * replicas + (int64_t)v[4] * batch + i % batch;

        assert_int_equal(tr_cyclic_at(&x, position), v[5 + i]);
    }
    tr_cyclic_close(&x);
}

static void orders(void **state)
{
    (void)state;
    assert_int_equal(each_line("order", check_order), 16);
}

/* Each epoch gives every sample of the buckets once, and another order than the one before. */
static void epochs(void **state)
{
    enum { TOTAL = 1003, BATCH = 4, REPLICAS = 5, ACTIVE = 1000 };
    int seen[ACTIVE], same = 0;
    int64_t was[ACTIVE];
    struct tr_cyclic x;

    (void)state;
    assert_ok(tr_cyclic_open(&x, "it", TOTAL, BATCH, REPLICAS));
    for (int e = 0; e < 3; e++) {
        memset(seen, 0, sizeof seen);
        for (int64_t k = 0; k < ACTIVE; k++) {
            int64_t at = tr_cyclic_at(&x, e * ACTIVE + k);

            assert_true(at >= 0 && at < ACTIVE);
            assert_int_equal(seen[at]++, 0);
            assert_int_equal(at / (ACTIVE / REPLICAS), k / BATCH % REPLICAS);
            same += e > 0 && was[k] == at;
            was[k] = at;
        }
    }
    assert_true(same < 50);
    tr_cyclic_close(&x);
}

static void too_few(void **state)
{
    struct tr_cyclic x;

    (void)state;
    assert_fails(TR_EDATA, "the train split has 11 samples, fewer than one micro-batch of 4",
                 tr_cyclic_open(&x, "the train split", 11, 4, 3));
    assert_fails(TR_EDATA, "use --dataloader-type single",
                 tr_cyclic_open(&x, "it", INT64_C(1) << 33, 4, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations),
        cmocka_unit_test(orders),
        cmocka_unit_test(epochs),
        cmocka_unit_test(too_few),
    };
    return run_tap(tests);
}
