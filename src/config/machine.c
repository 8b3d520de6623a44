/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/option.h"
#include "util/file.h"

#define NEEDED NAN
#define ENDING ".conf"

struct key {
    const char *key, *help;
    size_t offset;
    enum { TEXT_KEY, KIND_KEY, COUNT_KEY, NUMBER_KEY } type;
    double initial, least, most;
};

#define KEY(field, key, type, initial, least, most, help) \
    {key, help, offsetof(struct tr_machine, field), type, initial, least, most},
static const struct key keys[] = {
#define TEXT(field, key, help) KEY(field, key, TEXT_KEY, NEEDED, 0.0, 0.0, help)
#define KIND(field, key, initial, help) KEY(field, key, KIND_KEY, initial, 0.0, 0.0, help)
#define COUNT(field, key, least, most, help) KEY(field, key, COUNT_KEY, NEEDED, least, most, help)
#define NUMBER(field, key, initial, least, most, help) \
    KEY(field, key, NUMBER_KEY, initial, least, most, help)
#include "config/machine.def"
};

enum { KEYS = sizeof keys / sizeof *keys, FILE_LIMIT = 1 << 16 };

static void *field_of(const struct key *k, struct tr_machine *m)
{
    return (char *)m + k->offset;
}

/* Where we are in a file, for sentences. */
struct place {
    const char *path;
    int line;
};

static const struct key *find_key(const char *name)
{
    for (int i = 0; i < KEYS; i++)
        if (strcmp(keys[i].key, name) == 0)
            return &keys[i];
    return NULL;
}

static enum tr_status unknown_key(const struct place *at, const char *name)
{
    const char *names[KEYS], *near;

    for (int i = 0; i < KEYS; i++)
        names[i] = keys[i].key;
    near = tr_nearest_name(name, names, KEYS);
    return TR_FAIL(TR_ECONFIG, "%s, line %d: a machine has no '%s'%s%s%s", at->path, at->line, name,
                   near ? "; did you mean " : ": `trireme help plan` lists what it has",
                   near ? near : "", near ? "?" : "");
}

static enum tr_status set_text(const struct place *at, const struct key *k, const char *value,
                               struct tr_machine *m)
{
    if (strlen(value) >= TR_MACHINE_TEXT)
        return TR_FAIL(TR_ECONFIG, "%s, line %d: %s is longer than %d characters: shorten it",
                       at->path, at->line, k->key, TR_MACHINE_TEXT - 1);
    strcpy(field_of(k, m), value);
    return TR_OK;
}

static enum tr_status set_kind(const struct place *at, const struct key *k, const char *value,
                               struct tr_machine *m)
{
    const enum tr_processor kind = tr_processor_named(value);

    if (kind == TR_PROCESSORS)
        return TR_FAIL(TR_ECONFIG, "%s, line %d: '%s' is no %s: give gpu or cpu (%s)", at->path,
                       at->line, value, k->key, k->help);
    *(enum tr_processor *)field_of(k, m) = kind;
    return TR_OK;
}

/* Only decimal digits: strtod() also takes "nan", "inf" and hexadecimal. */
static enum tr_status set_number(const struct place *at, const struct key *k, const char *value,
                                 struct tr_machine *m)
{
    char *end;
    const double x = strtod(value, &end);
    const bool whole = k->type == COUNT_KEY;

    if (end == value || *end || value[strspn(value, "+-.0123456789eE")] || !(x >= k->least) ||
        !(x <= k->most) || (whole && x != floor(x)))
        return TR_FAIL(
            TR_ECONFIG, "%s, line %d: '%s' will not do for %s: give a %snumber from %g to %g (%s)",
            at->path, at->line, value, k->key, whole ? "whole " : "", k->least, k->most, k->help);
    if (whole)
        *(int *)field_of(k, m) = (int)x;
    else
        *(double *)field_of(k, m) = x;
    return TR_OK;
}

/* Without the blanks around it; `s` is changed. */
static char *trimmed(char *s)
{
    char *end;

    while (isspace((unsigned char)*s))
        s++;
    end = s + strlen(s);
    while (end > s && isspace((unsigned char)end[-1]))
        end--;
    *end = 0;
    return s;
}

static enum tr_status parse_line(const struct place *at, char *line, bool *given,
                                 struct tr_machine *m)
{
    static enum tr_status (*const set[])(const struct place *, const struct key *, const char *,
                                         struct tr_machine *) = {[TEXT_KEY] = set_text,
                                                                 [KIND_KEY] = set_kind,
                                                                 [COUNT_KEY] = set_number,
                                                                 [NUMBER_KEY] = set_number};
    char *equals, *name;
    const struct key *k;

    line[strcspn(line, "#")] = 0;
    name = trimmed(line);
    if (!*name)
        return TR_OK;
    equals = strchr(name, '=');
    if (!equals)
        return TR_FAIL(TR_ECONFIG, "%s, line %d: '%s' is no setting: write key = value", at->path,
                       at->line, name);
    *equals = 0;
    name = trimmed(name);
    k = find_key(name);
    if (!k)
        return unknown_key(at, name);
    if (given[k - keys])
        return TR_FAIL(TR_ECONFIG, "%s, line %d: %s was given before: leave one of them out",
                       at->path, at->line, k->key);
    given[k - keys] = true;
    return set[k->type](at, k, trimmed(equals + 1), m);
}

/* "machines/h200.conf" is h200. */
static void name_it(struct tr_machine *m, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name), ending = strlen(ENDING);

    if (n > ending && strcmp(name + n - ending, ENDING) == 0)
        n -= ending;
    snprintf(m->name, sizeof m->name, "%.*s", (int)n, name);
}

static enum tr_status complete(const char *path, const bool *given)
{
    for (int i = 0; i < KEYS; i++)
        if (!given[i] && isnan(keys[i].initial))
            return TR_FAIL(TR_ECONFIG, "%s has no %s (%s): add a line \"%s = ...\"", path,
                           keys[i].key, keys[i].help, keys[i].key);
    return TR_OK;
}

enum tr_status tr_machine_parse(const char *path, const char *text, struct tr_machine *out)
{
    struct place at = {.path = path};
    bool given[KEYS] = {false};
    char *copy = tr_format("%s", text), *rest = copy, *line;
    enum tr_status s = TR_OK;

    *out = (struct tr_machine){0};
    name_it(out, path);
    for (int i = 0; i < KEYS; i++)
        if (keys[i].type == NUMBER_KEY)
            *(double *)field_of(&keys[i], out) = keys[i].initial;
        else if (keys[i].type == KIND_KEY)
            *(enum tr_processor *)field_of(&keys[i], out) = (enum tr_processor)keys[i].initial;
    while (s == TR_OK && (line = strsep(&rest, "\n"))) {
        at.line++;
        s = parse_line(&at, line, given, out);
    }
    free(copy);
    return s == TR_OK ? complete(path, given) : s;
}

/* The folder of this program, "." if the system does not say. */
static char *program_folder(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    char *slash;

    if (n <= 0)
        return tr_format(".");
    path[n] = 0;
    slash = strrchr(path, '/');
    return slash ? tr_format("%.*s", (int)(slash - path), path) : tr_format(".");
}

/* The folder of profiles, owned by the caller. */
static char *profiles_folder(void)
{
    static const char *const nearby[] = {"../share/trireme/machines", "../machines", "machines"};
    const char *given = getenv("TRIREME_MACHINES");
    char *program, *folder = NULL;

    if (given && *given)
        return tr_format("%s", given);
    program = program_folder();
    for (size_t i = 0; i < sizeof nearby / sizeof *nearby; i++) {
        free(folder);
        folder = tr_format("%s/%s", program, nearby[i]);
        if (access(folder, R_OK) == 0)
            break;
    }
    free(program);
    return folder;
}

/* Adds up the names of profiles in a folder; the order is that of the names. */
static void list_names(const char *folder, char *out, size_t size)
{
    struct dirent **entry;
    int n = scandir(folder, &entry, NULL, alphasort);
    size_t used = 0;

    out[0] = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name, *end = strstr(name, ENDING);

        if (end && !end[strlen(ENDING)] && end > name && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? ", " : "",
                                     (int)(end - name), name);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

static enum tr_status read_file(const char *path, struct tr_machine *out)
{
    char *text;
    enum tr_status s;

    TR_TRY(tr_file_text(path, FILE_LIMIT, &text));
    s = tr_machine_parse(path, text, out);
    free(text);
    return s;
}

static enum tr_status no_such(const char *name, const char *folder)
{
    char names[512];

    list_names(folder, names, sizeof names);
    if (!names[0])
        return TR_FAIL(TR_ECONFIG,
                       "there is no machine '%s', and no profile at all in %s: give a file "
                       "(--machine ./mine.conf), or set TRIREME_MACHINES to the folder of profiles",
                       name, folder);
    return TR_FAIL(TR_ECONFIG,
                   "there is no machine '%s' in %s, which has %s: give one of them, or a file "
                   "(--machine ./mine.conf)",
                   name, folder, names);
}

enum tr_status tr_machine_find(const char *name, struct tr_machine *out)
{
    size_t n = strlen(name), ending = strlen(ENDING);
    char *folder, *path;
    enum tr_status s;

    if (strchr(name, '/') || (n > ending && strcmp(name + n - ending, ENDING) == 0))
        return read_file(name, out);
    folder = profiles_folder();
    path = tr_format("%s/%s%s", folder, name, ENDING);
    s = access(path, F_OK) == 0 ? read_file(path, out) : no_such(name, folder);
    free(path);
    free(folder);
    return s;
}

void tr_machine_write(const struct tr_machine *m, FILE *f)
{
    for (int i = 0; i < KEYS; i++) {
        const char *field = (const char *)m + keys[i].offset;
        char value[TR_MACHINE_TEXT];

        if (keys[i].type == TEXT_KEY)
            snprintf(value, sizeof value, "%s", field);
        else if (keys[i].type == KIND_KEY)
            snprintf(value, sizeof value, "%s",
                     tr_processor_name(*(const enum tr_processor *)(const void *)field));
        else if (keys[i].type == COUNT_KEY)
            snprintf(value, sizeof value, "%d", *(const int *)(const void *)field);
        else
            tr_real_text(*(const double *)(const void *)field, value, sizeof value);
        fprintf(f, "# %s\n%s = %s\n", keys[i].help, keys[i].key, value);
    }
}
