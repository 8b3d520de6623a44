/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/row_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "infer/detokenize.h"

/* Bytes of the white space that `text` begins with, by Unicode; 0 if it begins with none. */
static size_t space_at(const char *text, size_t bytes)
{
    static const char *const wide[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

    if (bytes > 0 && (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r') ||
                      (text[0] >= '\x1c' && text[0] <= '\x1f')))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (bytes >= strlen(wide[i]) && memcmp(text, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

/* Whether white space ends at text + bytes, and how long it is. */
static size_t space_before(const char *text, size_t bytes)
{
    for (size_t n = 1; n <= 3 && n <= bytes; n++)
        if (space_at(text + bytes - n, n) == n)
            return n;
    return 0;
}

static void put_stripped(const char *text, size_t bytes, FILE *out)
{
    size_t n;

    while ((n = space_at(text, bytes)) > 0) {
        text += n;
        bytes -= n;
    }
    while ((n = space_before(text, bytes)) > 0)
        bytes -= n;
    fwrite(text, 1, bytes, out);
}

static void put_row(struct tr_rows *x, const char *text, size_t bytes, FILE *out)
{
    struct tr_bytes plain = {0};

    if (x->count++ > 0)
        fputs("\n\n", out);
    switch (x->detokenizer) {
    case TR_DETOKENIZER_NONE:
        fwrite(text, 1, bytes, out);
        break;
    case TR_DETOKENIZER_WIKITEXT:
        tr_detokenize_wikitext(text, bytes, &plain);
        if (plain.count > 0)
            fwrite(plain.data, 1, plain.count, out);
        free(plain.data);
        break;
    case TR_DETOKENIZER_STRIP:
        put_stripped(text, bytes, out);
        break;
    }
}

static enum tr_status put_object(struct tr_rows *x, const char *path, int64_t number,
                                 const char *text, size_t bytes, FILE *out)
{
    json_error_t error;
    json_t *object = json_loadb(text, bytes, JSON_ALLOW_NUL, &error);
    const json_t *value = json_object_get(object, x->key);
    enum tr_status s = TR_OK;

    if (!object)
        s = TR_FAIL(TR_EDATA, "%s:%lld is not JSON: %s", path, (long long)number, error.text);
    else if (!json_is_string(value))
        s = TR_FAIL(TR_EDATA, "%s:%lld is no object with a text under \"%s\"", path,
                    (long long)number, x->key);
    else
        put_row(x, json_string_value(value), json_string_length(value), out);
    json_decref(object);
    return s;
}

static bool is_blank(const char *text, size_t bytes, const char *blanks)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\0' || !strchr(blanks, text[i]))
            return false;
    return true;
}

/* A line without its newline; the last one may have had none, and counts as if it had. */
static enum tr_status put_line(struct tr_rows *x, const char *path, int64_t number, char *line,
                               size_t bytes, FILE *out)
{
    if (x->key)
        return is_blank(line, bytes, " \t\r") ? TR_OK
                                              : put_object(x, path, number, line, bytes, out);
    if (is_blank(line, bytes, " "))
        bytes = 0;
    else
        line[bytes++] = '\n'; /* in the place of its end */
    put_row(x, line, bytes, out);
    return TR_OK;
}

enum tr_status tr_rows_join(struct tr_rows *x, const char *path, FILE *out)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    enum tr_status s = TR_OK;
    int64_t number = 0;
    size_t capacity = 0;
    char *line = NULL;
    ssize_t bytes;

    if (!f)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    while (s == TR_OK && (bytes = getline(&line, &capacity, f)) > 0) {
        bytes -= line[bytes - 1] == '\n';
        s = put_line(x, path, ++number, line, (size_t)bytes, out);
    }
    if (s == TR_OK && ferror(f))
        s = TR_FAIL(TR_EIO, "cannot read %s: %s", path, strerror(errno));
    free(line);
    if (f != stdin)
        fclose(f);
    return s;
}
