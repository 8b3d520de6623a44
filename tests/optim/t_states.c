/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include "optim/states.h"

/*
 * Where states in 8 bits lie, element by element: a block is what a shard has of the 256 or 2048 elements that stand
 * together in a parameter, counted from its first one.
 */
enum { PARAMS = 5 };

/* A table, parameters of 4096 elements and more, one of fewer, and one of which a tensor rank has half. */
static struct tr_param list[PARAMS] = {
    {.full = {100, 64}, .elems = 6400, .table = true},
    {.full = {64, 64}, .elems = 4096},
    {.full = {63, 65}, .elems = 4095},
    {.full = {100, 100}, .elems = 10000},
    {.full = {64, 64}, .elems = 2048},
};

static const struct tr_bucket whole[] = {{0, 30000}};
static const struct tr_bucket shard[] = {{100, 7300}, {8000, 4000}, {15000, 9601}, {26000, 512}};

/* With gaps between the parameters, of 1, 2 and so on elements. */
static struct tr_params params(void)
{
    int64_t at = 0;

    for (int i = 0; i < PARAMS; i++) {
        list[i].offset = at;
        at += list[i].elems + i + 1;
    }
    return (struct tr_params){.count = PARAMS, .list = list};
}

/* The parameter in blocks that has element `at` of the flat buffers, or NULL. */
static const struct tr_param *in_blocks(int64_t at)
{
    for (int i = 0; i < PARAMS; i++)
        if (at >= list[i].offset && at < list[i].offset + list[i].elems)
            return !list[i].table && list[i].full[0] * list[i].full[1] >= 4096 ? &list[i] : NULL;
    return NULL;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of each element the place where its block begins, counted as the shard's are, and the bytes in front of that. */
static void compare(const struct tr_bucket *own, int owns, int64_t block)
{
    const struct tr_params ps = params();
    struct tr_states s;
    int64_t state = 0, bytes = 0, begin = 0;

    tr_states_open(&s, &ps, own, owns, block);
    for (int i = 0; i < owns; i++) {
        for (int64_t at = own[i].first; at < own[i].first + own[i].count; at++, state++) {
            const struct tr_param *p = in_blocks(at);
            const int64_t first = p ? larger(own[i].first, at - (at - p->offset) % block) : at;
            const int64_t border = state - at + larger(first, p ? p->offset : first);

            assert_int_equal(tr_states_border(&s, state), border);
            if (border == state) {
                bytes = (bytes + 3) / 4 * 4;
                assert_int_equal(tr_states_byte(&s, state), bytes);
                begin = state;
            }
            bytes += p ? 1 + (state == begin ? TR_BOOK_SCALE_BYTES : 0) : 4;
            assert_int_equal(tr_states_blocks(&s, border).size, p ? block : 0);
        }
    }
    assert_int_equal(tr_states_byte(&s, state), (bytes + 3) / 4 * 4);
    tr_states_close(&s);
}

static void element_by_element(void **state)
{
    (void)state;
    for (int64_t block = 256; block <= 2048; block *= 8) {
        compare(whole, 1, block);
        compare(shard, 4, block);
    }
}

/* Without blocks all are one piece of fp32 numbers. */
static void plain(void **state)
{
    const struct tr_params ps = params();
    struct tr_states s;

    (void)state;
    tr_states_open(&s, &ps, shard, 4, 0);
    assert_true(tr_states_plain(&s));
    assert_int_equal(tr_states_byte(&s, 21413), 4 * 21413);
    assert_int_equal(tr_states_border(&s, 7777), 7777);
    tr_states_close(&s);
    assert_true(tr_optim_state_bytes(0) == 8.0 && tr_optim_state_bytes(256) == 2.0 + 8.0 / 256.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(element_by_element),
                                       cmocka_unit_test(plain)};

    return run_tap(tests);
}
