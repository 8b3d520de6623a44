/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "token/pieces.h"
#include "token/utf8.h"
#include "data/crc32.h"
#include "util/file.h"

/* Against tests/golden/bpe_borders.txt, which the module regex made; the README there says what its
   lines are. */
enum { MOST_BYTES = 256, LINES = 3109 };

static struct tr_char_classes classes;

static char *golden_text(void)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/golden/bpe_borders.txt", srcdir ? srcdir : "."), *text;

    assert_ok(tr_file_text(path, 1 << 20, &text));
    free(path);
    return text;
}

/* How many characters each class has, and the CRC-32 of the classes of all. */
static void all_characters(void **state)
{
    char *text = golden_text(), *at = text + strlen("classes");
    uint8_t *of = calloc(0x110000, 1);
    uint64_t count[4] = {0};

    (void)state;
    assert_non_null(of);
    for (uint32_t c = 0; c < 0x110000; c++) {
        of[c] = (uint8_t)tr_char_class(&classes, c);
        count[of[c]] += c < 0xd800 || c > 0xdfff;
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(count[i], strtoull(at, &at, 10));
    assert_int_equal(crc32(of, 0x110000), strtoull(at, NULL, 10));
    free(of);
    free(text);
}

/* The characters of a line in UTF-8, and where it is split; returns how many bytes. */
static size_t read_line(const char *line, unsigned char text[MOST_BYTES], bool cut[MOST_BYTES + 1])
{
    size_t bytes = 0;

    memset(cut, 0, MOST_BYTES + 1);
    while (*line != '\n') {
        char *end;

        if (*line == '|') {
            cut[bytes] = true;
            line++;
        } else {
            bytes += tr_utf8_encode((uint32_t)strtoul(line, &end, 16), (char *)text + bytes);
            assert_true(bytes + 4 <= MOST_BYTES);
            line = end;
        }
        line += *line == ' ';
    }
    cut[bytes] = true;
    return bytes;
}

static void check_line(const char *line, int number)
{
    unsigned char text[MOST_BYTES];
    bool cut[MOST_BYTES + 1], got[MOST_BYTES + 1] = {false};
    const size_t bytes = read_line(line, text, cut);

    for (size_t at = 0; at < bytes;) {
        at += tr_piece(&classes, text + at, bytes - at);
        assert_true(at <= bytes);
        got[at] = true;
    }
    for (size_t at = 0; at <= bytes; at++)
        if (cut[at] != got[at])
            fail_msg("line %d: %s before byte %zu", number, got[at] ? "cut" : "not cut", at);
}

static void borders(void **state)
{
    char *golden = golden_text();
    int number = 1;

    (void)state;
    for (const char *line = golden + strcspn(golden, "\n") + 1; *line;) {
        check_line(line, ++number);
        line += strcspn(line, "\n") + 1;
    }
    assert_int_equal(number, LINES);
    free(golden);
}

/* The version that the table, the golden lines and the manual speak of. */
static void version(void **state)
{
    (void)state;
    assert_string_equal(tr_unicode_version(), "18.0.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_characters),
        cmocka_unit_test(borders),
        cmocka_unit_test(version),
    };

    tr_char_classes_fill(&classes);
    return run_tap(tests);
}
