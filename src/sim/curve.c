/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/curve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const calls[] = {[TR_WORK_ALL_REDUCE] = "all-reduce",
                                    [TR_WORK_ALL_GATHER] = "all-gather",
                                    [TR_WORK_REDUCE_SCATTER] = "reduce-scatter"};
enum { CALLS = sizeof calls / sizeof *calls };

static enum tr_status head(const char *name, const char *line, struct tr_sim_curve *c)
{
    char group[16];

    if (sscanf(line, "# coll: %*d %*s \"%15[^\"]\" of %d ranks", group, &c->ranks) != 2 ||
        c->ranks < 2)
        return TR_FAIL(
            TR_ECONFIG,
            "%s has no line \"# coll: ... of N ranks\" at the head of a table, so nobody "
            "knows of which group its times are: give what `trireme bench coll` printed",
            name);
    c->tensor = strcmp(group, "tp") == 0;
    if (!c->tensor && strcmp(group, "dp") != 0 && strcmp(group, "world") != 0)
        return TR_FAIL(TR_ECONFIG,
                       "%s is of group \"%s\", and collectives are those of replicas and of tensor "
                       "ranks: measure with --group dp, tp or world",
                       name, group);
    return TR_OK;
}

/* A row of a collective that the simulation has; others are left out. */
static enum tr_status row(const char *name, const char *line, int number, struct tr_sim_curve *c)
{
    struct tr_sim_measured *m = NULL;
    double bytes, us;
    char call[32];

    if (sscanf(line, "%lf %*f %*s %*s %*d %lf %*f %*f %*d %*f %*f %31s", &bytes, &us, call) != 3)
        return TR_FAIL(TR_ECONFIG,
                       "%s, line %d: this is no row of `trireme bench coll`, with size, count, "
                       "type, redop, root, time and so on up to the call: take its table as it is",
                       name, number);
    for (int i = 0; i < CALLS; i++)
        if (strcmp(call, calls[i]) == 0)
            m = &c->of[i];
    if (!m)
        return TR_OK;
    if (!(us >= 1e-3 && us < 1e15) || !(bytes >= 1.0 && bytes < 1e18) ||
        m->points == TR_SIM_CURVE_POINTS || (m->points > 0 && bytes <= m->bytes[m->points - 1]))
        return TR_FAIL(
            TR_ECONFIG,
            "%s, line %d: sizes of %s are to grow, %d at most, and times a nanosecond or more, "
            "or there is nothing to interpolate: take one table of one run",
            name, number, call, TR_SIM_CURVE_POINTS);
    m->bytes[m->points] = bytes;
    m->seconds[m->points++] = 1e-6 * us;
    return TR_OK;
}

enum tr_status tr_sim_curve_read(const char *name, const char *text, struct tr_sim_curve *out)
{
    const char *first = strstr(text, "# coll: ");
    int number = 1, points = 0;

    *out = (struct tr_sim_curve){.ranks = 0};
    first = first ? first : text;
    TR_TRY(head(name, first, out));
    for (const char *at = text; at < first; at++)
        number += *at == '\n';
    for (const char *at = strchr(first, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
        number++;
        if (at[1] != '#' && at[1] != '\n')
            TR_TRY(row(name, at + 1, number, out));
    }
    for (int i = 0; i < CALLS; i++)
        points += out->of[i].points;
    if (points == 0)
        return TR_FAIL(TR_ECONFIG,
                       "%s has no time of an all-reduce, an all-gather or a reduce-scatter: "
                       "measure with --call all",
                       name);
    return TR_OK;
}

double tr_sim_curve_seconds(const struct tr_sim_curve *c, enum tr_work_collective_kind kind,
                            double bytes)
{
    const struct tr_sim_measured *m = &c->of[kind];
    const int last = m->points - 1;
    int i = 0;
    double part;

    if (bytes <= m->bytes[0])
        return m->seconds[0];
    if (bytes >= m->bytes[last])
        return m->seconds[last] * bytes / m->bytes[last];
    while (bytes > m->bytes[i + 1])
        i++;
    part = log(bytes / m->bytes[i]) / log(m->bytes[i + 1] / m->bytes[i]);
    return m->seconds[i] * pow(m->seconds[i + 1] / m->seconds[i], part);
}
