/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/state.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

enum { LARGEST = 1 << 16 };

static char *path_of(const char *folder)
{
    return tr_format("%s/state", folder);
}

/* JSON is UTF-8, and a sentence may quote a path that is not. */
static json_t *text_to_json(const char *text)
{
    json_t *value = json_string(text);
    char *copy;

    if (value)
        return value;
    copy = tr_format("%s", text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = json_string(copy);
    free(copy);
    return value;
}

static json_t *time_to_json(int64_t seconds)
{
    char text[TR_TIME_BYTES];

    if (seconds < 0 || !*tr_time_utc((time_t)seconds, text))
        return json_null();
    return json_pack("s+", text, "Z");
}

static int64_t time_of_json(const json_t *value)
{
    const char *text = json_string_value(value);
    struct tm utc = {0};

    return text && strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc) ? (int64_t)timegm(&utc) : -1;
}

static char *text_of(const struct tr_state *s)
{
    json_t *object = json_object();
    char *text, *lines;

    TR_ASSERT(object);
#define PUT_TEXT(name) text_to_json(s->name)
#define PUT_WHOLE(name) (s->name < 0 ? json_null() : json_integer((json_int_t)s->name))
#define PUT_TIME(name) time_to_json(s->name)
#define PUT_REAL(name) json_real(s->name)
#define FIELD(kind, name, size) \
    TR_ASSERT(json_object_set_new(object, #name, PUT_##kind(name)) == 0);
    TR_STATE_OF(FIELD)
#undef FIELD
    text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    TR_ASSERT(text);
    lines = tr_format("%s\n", text);
    free(text);
    json_decref(object);
    return lines;
}

enum tr_status tr_state_write(const char *folder, struct tr_state *s)
{
    char *path = path_of(folder), *text;
    enum tr_status status;

    s->updated = (int64_t)time(NULL);
    text = text_of(s);
    status = tr_file_replace(path, text, strlen(text));
    free(text);
    free(path);
    return status;
}

static void take_text(char *field, size_t size, const json_t *value)
{
    if (json_is_string(value))
        snprintf(field, size, "%s", json_string_value(value));
}

static void take(struct tr_state *s, const json_t *object)
{
    memset(s, 0, sizeof *s);
#define TAKE_TEXT(name) take_text(s->name, sizeof s->name, value)
#define TAKE_WHOLE(name) s->name = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1
#define TAKE_TIME(name) s->name = time_of_json(value)
#define TAKE_REAL(name) s->name = json_number_value(value)
#define FIELD(kind, name, size)                               \
    do {                                                      \
        const json_t *value = json_object_get(object, #name); \
                                                              \
        TAKE_##kind(name);                                    \
    } while (0);
    TR_STATE_OF(FIELD)
#undef FIELD
}

enum tr_status tr_state_read(const char *folder, struct tr_state *s, bool *found)
{
    char *path = path_of(folder), *text = NULL;
    enum tr_status status = TR_OK;
    json_t *object;

    memset(s, 0, sizeof *s);
    *found = access(path, F_OK) == 0;
    if (*found)
        status = tr_regular_text(path, LARGEST, &text);
    if (*found && status == TR_OK) {
        object = json_loads(text, 0, NULL);
        if (json_is_object(object))
            take(s, object);
        else
            status = TR_FAIL(
                TR_EDATA, "%s is no JSON object; remove it, the next start writes it anew", path);
        json_decref(object);
    }
    free(text);
    free(path);
    return status;
}

void tr_state_printable(struct tr_state *s)
{
#define SHOW_TEXT(name) tr_printable(s->name)
#define SHOW_WHOLE(name) (void)0
#define SHOW_TIME(name) (void)0
#define SHOW_REAL(name) (void)0
#define FIELD(kind, name, size) SHOW_##kind(name);
    TR_STATE_OF(FIELD)
#undef FIELD
}

const char *tr_state_next(int exit_code)
{
    return exit_code == tr_status_exit_code(TR_ETEMP) ? "go-on" : "look";
}

void tr_state_fail(const char *folder, int exit_code, const char *reason)
{
    struct tr_state s;
    bool found;

    if (tr_state_read(folder, &s, &found) != TR_OK || !found || strcmp(s.state, "running") != 0)
        return;
    snprintf(s.state, sizeof s.state, "failed");
    snprintf(s.reason, sizeof s.reason, "%s", reason);
    snprintf(s.suspect, sizeof s.suspect, "%s", tr_suspected());
    snprintf(s.next, sizeof s.next, "%s", tr_state_next(exit_code));
    s.exit_code = exit_code;
    if (tr_state_write(folder, &s) != TR_OK)
        tr_log(TR_LOG_DEBUG, "the end is not written down: %s", tr_last_error());
}
