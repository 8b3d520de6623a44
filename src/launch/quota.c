/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch.h"
#include "util/file.h"

/* The man page cgroups(7) and Documentation/admin-guide/cgroup-v2.rst of Linux have the files. */
enum { LIMIT = 1 << 16 };

/* What is in a file of one line, owned by the caller, or NULL. */
static char *line_of(const char *root, const char *hierarchy, const char *group, int length,
                     const char *file)
{
    char *path = tr_format("%s/sys/fs/cgroup%s%.*s/%s", root, hierarchy, length, group, file);
    char *text = NULL;

    if (tr_file_text(path, LIMIT, &text) != TR_OK)
        text = NULL;
    free(path);
    return text;
}

/* Of a group of version 2: "200000 100000", microseconds in each so many, or "max 100000". */
static double quota_2(const char *root, const char *group, int length)
{
    char *text = line_of(root, "", group, length, "cpu.max");
    double time = 0.0, period = 0.0;
    const int found = text ? sscanf(text, "%lf %lf", &time, &period) : 0;

    free(text);
    return found == 2 && period > 0.0 ? time / period : 0.0;
}

/* Of version 1, in two files; -1 is no limit. */
static double quota_1(const char *root, const char *group, int length)
{
    char *time = line_of(root, "/cpu", group, length, "cpu.cfs_quota_us");
    char *period = line_of(root, "/cpu", group, length, "cpu.cfs_period_us");
    const double x = time ? strtod(time, NULL) : 0.0, y = period ? strtod(period, NULL) : 0.0;

    free(time);
    free(period);
    return x > 0.0 && y > 0.0 ? x / y : 0.0;
}

/* The least of a group and those above it; 0 if none has one. */
static double least(const char *root, const char *group,
                    double (*of)(const char *root, const char *group, int length))
{
    int length = (int)strcspn(group, "\n");
    double found = 0.0;

    for (;; length--) {
        const double x = of(root, group, length);

        if (x > 0.0 && (!(found > 0.0) || x < found))
            found = x;
        while (length > 0 && group[length - 1] != '/')
            length--;
        if (length == 0)
            return found;
    }
}

/* A line of /proc/self/cgroup is "0::/group" of version 2, and "4:cpu,cpuacct:/group" of version 1. */
static double of_line(const char *root, const char *line)
{
    const char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;

    if (!group)
        return 0.0;
    if (group == names + 1)
        return least(root, group + 1, quota_2);
    for (const char *at = names + 1; at < group; at += strcspn(at, ",:") + 1)
        if (strncmp(at, "cpu,", 4) == 0 || strncmp(at, "cpu:", 4) == 0)
            return least(root, group + 1, quota_1);
    return 0.0;
}

double tr_launch_quota(const char *root)
{
    char *path = tr_format("%s/proc/self/cgroup", root), *text = NULL;
    double found = 0.0;

    if (tr_file_text(path, LIMIT, &text) != TR_OK)
        text = NULL;
    free(path);
    for (const char *line = text; line && *line;
         line += strcspn(line, "\n"), line += *line == '\n') {
        const double x = of_line(root, line);

        if (x > 0.0 && (!(found > 0.0) || x < found))
            found = x;
    }
    free(text);
    return found;
}
