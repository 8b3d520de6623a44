/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/text_lines.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "token/grow.h"
#include "util/file.h"

bool tr_lines_json(const char *path)
{
    const char *end = strrchr(path, '.');

    return end && (strcasecmp(end, ".jsonl") == 0 || strcasecmp(end, ".json") == 0 ||
                   strcasecmp(end, ".ndjson") == 0);
}

void tr_lines_add(struct tr_lines *x, const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);

    if (!copy)
        tr_die(TR_ERESOURCE, "no memory left for the lines of a file");
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    x->line = tr_grow(x->line, &x->capacity, x->count + 1, sizeof *x->line);
    x->line[x->count].text = copy;
    x->line[x->count++].bytes = bytes;
}

static enum tr_status add_object(struct tr_lines *x, const char *path, int64_t number,
                                 const char *key, const char *text, size_t bytes)
{
    json_error_t error;
    json_t *object = json_loadb(text, bytes, JSON_ALLOW_NUL, &error);
    const json_t *value = json_object_get(object, key);
    enum tr_status s = TR_OK;

    if (!object)
        s = TR_FAIL(TR_EDATA, "%s:%lld is not JSON: %s", path, (long long)number, error.text);
    else if (!json_is_string(value))
        s = TR_FAIL(TR_EDATA, "%s:%lld is no object with a text under \"%s\"", path,
                    (long long)number, key);
    else
        tr_lines_add(x, json_string_value(value), json_string_length(value));
    json_decref(object);
    return s;
}

static bool is_blank(const char *text, size_t bytes)
{
    return strspn(text, " \t\r\n") >= bytes;
}

enum tr_status tr_lines_read(const char *path, const char *key, struct tr_lines *out)
{
    const bool json = tr_lines_json(path);
    enum tr_status s = TR_OK;
    int64_t number = 0;
    size_t all;
    char *text;

    *out = (struct tr_lines){0};
    TR_TRY(tr_file_bytes(path, TR_LINES_MOST, &text, &all));
    for (const char *at = text, *const end = text + all; at < end && s == TR_OK;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t bytes = (size_t)((newline ? newline : end) - at);

        number++;
        if (!json)
            tr_lines_add(out, at, bytes);
        else if (!is_blank(at, bytes))
            s = add_object(out, path, number, key, at, bytes);
        at += bytes + (newline != NULL);
    }
    free(text);
    return s;
}

void tr_lines_release(struct tr_lines *x)
{
    for (size_t i = 0; i < x->count; i++)
        free(x->line[i].text);
    free(x->line);
    *x = (struct tr_lines){0};
}
