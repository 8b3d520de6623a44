/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "report/plot_parts.h"
#include "util/file.h"

static bool differ(char *const *name, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(name[i], name[k]) == 0)
                return false;
    return true;
}

/* Names that `cut` made of them, all or none: they must tell the runs apart. */
static void try_all(char **name, int count, const char *(*cut)(const char *name, size_t *n))
{
    char **shorter = calloc((size_t)count + 1, sizeof *shorter);
    bool good;

    if (!shorter)
        tr_die(TR_ERESOURCE, "no memory left for names of runs");
    for (int i = 0; i < count; i++) {
        size_t n = strlen(name[i]);
        const char *from = cut(name[i], &n);

        shorter[i] = tr_format("%.*s", (int)n, from);
    }
    good = differ(shorter, count);
    for (int i = 0; i < count; i++) {
        free(good ? name[i] : shorter[i]);
        name[i] = good ? shorter[i] : name[i];
    }
    free(shorter);
}

static const char *without_folder(const char *name, size_t *n)
{
    const char *slash = strrchr(name, '/');

    if (!slash || !slash[1])
        return name;
    *n = strlen(slash + 1);
    return slash + 1;
}

/* Without ".log" and the like; a run behind the first of its log has a number there. */
static const char *without_ending(const char *name, size_t *n)
{
    static const char *const endings[] = {".log", ".out", ".txt", ".json"};
    const char *end = strrchr(name, '.');

    for (size_t k = 0; end && end > name && k < sizeof endings / sizeof endings[0]; k++)
        if (strcmp(end, endings[k]) == 0)
            *n = (size_t)(end - name);
    return name;
}

/* How many bytes all names begin with, and end with, up to a letter that parts words. */
static void shared_ends(char *const *name, int count, size_t *head, size_t *tail)
{
    size_t n = strlen(name[0]);

    *head = *tail = n;
    for (int i = 1; i < count; i++) {
        size_t m = strlen(name[i]), same = 0;

        while (same < *head && name[0][same] == name[i][same])
            same++;
        *head = same;
        for (same = 0; same < *tail && same < m && name[0][n - 1 - same] == name[i][m - 1 - same];)
            same++;
        *tail = same;
    }
    while (*head > 0 && !strchr("-_./ ", name[0][*head - 1]))
        --*head;
    while (*tail > 0 && !strchr("-_./ #", name[0][n - *tail]))
        --*tail;
}

void tr_plot_short_names(char **name, int count)
{
    size_t head, tail;

    if (count < 2)
        return;
    try_all(name, count, without_folder);
    try_all(name, count, without_ending);
    shared_ends(name, count, &head, &tail);
    for (int i = 0; i < count; i++)
        if (strlen(name[i]) <= head + tail)
            return;
    for (int i = 0; i < count; i++) {
        size_t n = strlen(name[i]) - head - tail;

        memmove(name[i], name[i] + head, n);
        name[i][n] = '\0';
    }
}

void tr_plot_short_series(struct tr_plot *out)
{
    char **name = calloc((size_t)out->count + 1, sizeof *name);

    if (!name)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    for (int i = 0; i < out->count; i++)
        name[i] = out->series[i].name;
    tr_plot_short_names(name, out->count);
    for (int i = 0; i < out->count; i++)
        out->series[i].name = name[i];
    free(name);
}
