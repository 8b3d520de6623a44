/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_CHECK_H
#define TR_TESTS_CHECK_H

/* What every test program includes: cmocka and the headers it forgets, and a main() that prints TAP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/status.h"

/* A call that must succeed; shows the sentence when it does not. */
#define assert_ok(call)                                        \
    do {                                                       \
        if ((call) != TR_OK)                                   \
            fail_msg("%s failed: %s", #call, tr_last_error()); \
    } while (0)

/* A call that must fail with this status and a sentence that contains this text. */
#define assert_fails(status, text, call)                                            \
    do {                                                                            \
        assert_int_equal((call), (status));                                         \
        if (!strstr(tr_last_error(), (text)))                                       \
            fail_msg("\"%s\" is not in the sentence: %s", (text), tr_last_error()); \
    } while (0)

/* Whether this is `make check-short`: with other compilers, for other processors and with sanitizers, a part of the
   numbers of the longest tests shows as much as all of them do. */
static inline bool check_short(void)
{
    return getenv("TR_TEST_SHORT");
}

#define run_tap(tests) \
    (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests((tests), NULL, NULL))
/* The first of an array. */
#define run_tap_of(tests, count)               \
    (cmocka_set_message_output(CM_OUTPUT_TAP), \
     _cmocka_run_group_tests(#tests, (tests), (count), NULL, NULL))

#endif
