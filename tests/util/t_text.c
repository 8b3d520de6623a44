/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "util/text.h"

/* Moments of a calendar: the leap day of 2000, and what the first moment of all was in India. */
static void times(void **state)
{
    char text[TR_TIME_BYTES];

    (void)state;
    assert_int_equal(setenv("TZ", "IST-5:30", 1), 0);
    tzset();
    assert_string_equal(tr_time_utc(951868799, text), "2000-02-29T23:59:59");
    assert_string_equal(tr_time_local(951868799, text), "2000-03-01 05:29:59");
    assert_string_equal(tr_time_utc(0, text), "1970-01-01T00:00:00");
    assert_string_equal(tr_time_local(0, text), "1970-01-01 05:30:00");
    assert_string_equal(tr_time_utc(INT64_MAX, text), "");
    assert_string_equal(tr_time_local(INT64_MAX, text), "");
}

static void plurals(void **state)
{
    (void)state;
    assert_string_equal(tr_plural(0), "s");
    assert_true(tr_text_begins("cpu: 2", "cpu") && tr_text_begins("cpu", "cpu"));
    assert_false(tr_text_begins("cp", "cpu") || tr_text_begins("my cpu", "cpu"));
    assert_string_equal(tr_plural(1), "");
    assert_string_equal(tr_plural(2), "s");
}

/* No number of four digits before the point, and no 0.0 of something. */
static void bytes(void **state)
{
    static const struct {
        double bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},          {1, "1 B"},           {1023, "1023 B"},        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},   {1048575, "1.0 MiB"}, {1048000, "1023.4 KiB"}, {52428800, "50.0 MiB"},
        {1.49e9, "1.4 GiB"}, {0x1p53, "8.0 PiB"},
    };
    char text[TR_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(tr_text_bytes(cases[i].bytes, text), cases[i].text);
}

/* In each form the borders where another unit begins. */
static void durations(void **state)
{
    static const struct {
        enum tr_duration form;
        double seconds;
        const char *text;
    } cases[] = {
        {TR_DURATION_UNITS, -1.0, "0 s"},
        {TR_DURATION_UNITS, 0.4, "0 s"},
        {TR_DURATION_UNITS, 59.4, "59 s"},
        {TR_DURATION_UNITS, 59.6, "1 min 0 s"},
        {TR_DURATION_UNITS, 231.0, "3 min 51 s"},
        {TR_DURATION_UNITS, 3569.0, "59 min 29 s"},
        {TR_DURATION_UNITS, 3570.0, "1 h 0 min"},
        {TR_DURATION_UNITS, 11520.0, "3 h 12 min"},
        {TR_DURATION_UNITS, 47.9 * 3600.0, "47 h 54 min"},
        {TR_DURATION_UNITS, 51.0 * 3600.0, "2 d 3 h"},
        {TR_DURATION_UNITS, INFINITY, "11574074074 d 1 h"},
        {TR_DURATION_CLOCK, -1.0, "0:00"},
        {TR_DURATION_CLOCK, NAN, "0:00"},
        {TR_DURATION_CLOCK, 5.0, "0:05"},
        {TR_DURATION_CLOCK, 59.6, "1:00"},
        {TR_DURATION_CLOCK, 3599.0, "59:59"},
        {TR_DURATION_CLOCK, 3600.0, "1:00:00"},
        {TR_DURATION_CLOCK, 4000.0, "1:06:40"},
        {TR_DURATION_CLOCK, 360000.0, "100:00:00"},
        {TR_DURATION_WORDS, 1.5, "1.5 seconds"},
        {TR_DURATION_WORDS, 90.0, "90 seconds"},
        {TR_DURATION_WORDS, 119.0, "119 seconds"},
        {TR_DURATION_WORDS, 120.0, "2 minutes"},
        {TR_DURATION_WORDS, 600.0, "10 minutes"},
    };
    char text[TR_DURATION_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(tr_text_duration(cases[i].form, cases[i].seconds, text), cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times),
        cmocka_unit_test(plurals),
        cmocka_unit_test(bytes),
        cmocka_unit_test(durations),
    };
    return run_tap(tests);
}
