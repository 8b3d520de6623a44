/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

enum scope { JOB, NODE };

static const struct row {
    const char *name, *what;
    enum scope scope;
    enum tr_check_level worst;
    void (*judge)(const struct tr_facts *f, const struct tr_intent *i, int node,
                  struct tr_verdict *out);
} rows[] = {
#define CHECK(symbol, name, scope, worst, what) \
    {name, what, scope, TR_LEVEL_##worst, tr_judge_##symbol},
#include "launch/checks.def"
#undef CHECK
};

const char *tr_check_name(enum tr_check c)
{
    return rows[c].name;
}

const char *tr_check_what(enum tr_check c)
{
    return rows[c].what;
}

enum tr_check_level tr_check_worst(enum tr_check c)
{
    return rows[c].worst;
}

bool tr_check_of_node(enum tr_check c)
{
    return rows[c].scope == NODE;
}

const char *tr_level_name(enum tr_check_level l)
{
    static const char *const names[] = {"ok", "warn", "fail"};

    return names[l];
}

static void say(struct tr_verdict *v, enum tr_check_level level, const char *fmt, va_list ap)
{
    v->level = level;
    vsnprintf(v->text, sizeof v->text, fmt, ap);
}

void tr_verdict_warn(struct tr_verdict *v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(v, TR_LEVEL_WARN, fmt, ap);
    va_end(ap);
}

void tr_verdict_refuse(struct tr_verdict *v, enum tr_status s, const char *fmt, ...)
{
    va_list ap;

    v->status = s;
    va_start(ap, fmt);
    say(v, TR_LEVEL_REFUSE, fmt, ap);
    va_end(ap);
}

void tr_check_judge(enum tr_check c, const struct tr_facts *f, const struct tr_intent *i, int node,
                    struct tr_verdict *out)
{
    memset(out, 0, sizeof *out);
    rows[c].judge(f, i, node, out);
    TR_ASSERT(out->level <= rows[c].worst);
}

/* Names as --exclude and --nodelist take them; where they are too many, the first of them. */
static void add_host(struct tr_finding *g, const char *host)
{
    int n = (int)strlen(g->hosts), room = (int)sizeof g->hosts - 32;

    g->nodes++;
    if (n + (int)strlen(host) + 1 < room)
        snprintf(g->hosts + n, sizeof g->hosts - (size_t)n, "%s%s", n ? "," : "", host);
}

static void close_hosts(struct tr_finding *g)
{
    int listed = g->hosts[0] ? 1 : 0;
    size_t n = strlen(g->hosts);

    for (const char *s = g->hosts; *s; s++)
        listed += *s == ',';
    if (listed < g->nodes)
        snprintf(g->hosts + n, sizeof g->hosts - n, ",... (%d nodes)", g->nodes);
}

/* The finding of this check with that verdict, among list[from..count-1], or a new one at the end. */
static int place_of(struct tr_finding *list, int from, int count, const struct tr_verdict *v)
{
    int at = from;

    while (at < count &&
           (list[at].verdict.level != v->level || strcmp(list[at].verdict.text, v->text) != 0))
        at++;
    return at;
}

int tr_check_all(const struct tr_facts *f, const struct tr_intent *i, struct tr_finding **out)
{
    int count = 0;
    struct tr_finding *list = calloc((size_t)TR_CHECKS * (size_t)f->nodes, sizeof *list);

    if (!list)
        tr_die(TR_ERESOURCE, "no memory left for the checks of %d nodes", f->nodes);
    for (int c = 0; c < TR_CHECKS; c++) {
        const int from = count, turns = rows[c].scope == NODE ? f->nodes : 1;

        for (int node = 0; node < turns; node++) {
            struct tr_verdict v;
            int at;

            tr_check_judge((enum tr_check)c, f, i, node, &v);
            at = place_of(list, from, count, &v);
            list[at].check = (enum tr_check)c;
            list[at].verdict = v;
            if (rows[c].scope == NODE)
                add_host(&list[at], f->node[node].host);
            count = at == count ? count + 1 : count;
        }
        for (int at = from; at < count; at++)
            close_hosts(&list[at]);
    }
    *out = list;
    return count;
}

/* Ranks of a node that follow one another are written as one span. */
void tr_check_map(const struct tr_facts *f, char *out, int size)
{
    int n = 0;

    out[0] = 0;
    for (int first = 0, last; first < f->ranks && n < size; first = last + 1) {
        const int node = f->node_of[first];

        for (last = first; last + 1 < f->ranks && f->node_of[last + 1] == node;)
            last++;
        n += snprintf(out + n, (size_t)(size - n), "%s%s %d", n ? ", " : "", f->rank[first].host,
                      first);
        if (last > first && n < size)
            n += snprintf(out + n, (size_t)(size - n), "-%d", last);
    }
    if (n >= size && size > 4)
        memcpy(out + size - 4, "...", 4);
}

static void print_map(const struct tr_facts *f)
{
    char map[1024];

    if (f->nodes < 2)
        return;
    tr_check_map(f, map, sizeof map);
    tr_print_rank0("> %d ranks on %d nodes: %s\n", f->ranks, f->nodes, map);
}

static void tell(const struct tr_finding *g, const struct tr_facts *f, char *out, size_t size)
{
    if (f->nodes > 1 && g->hosts[0])
        snprintf(out, size, "on %s %s", g->hosts, g->verdict.text);
    else
        snprintf(out, size, "%s", g->verdict.text);
}

/* The first refusal is the sentence of the failure; all others are warnings before it. */
static enum tr_status tell_all(const struct tr_facts *f, const struct tr_intent *i)
{
    struct tr_finding *list;
    int count = tr_check_all(f, i, &list), first = -1;
    enum tr_status s = TR_OK;
    char text[1100];

    for (int at = 0; at < count; at++) {
        if (list[at].verdict.level == TR_LEVEL_OK)
            continue;
        if (list[at].verdict.level == TR_LEVEL_REFUSE && first < 0) {
            first = at;
            continue;
        }
        tell(&list[at], f, text, sizeof text);
        tr_log_rank0(TR_LOG_WARNING, "%s", text);
    }
    if (first >= 0) {
        tell(&list[first], f, text, sizeof text);
        s = TR_FAIL(list[first].verdict.status, "%s", text);
    } else {
        print_map(f);
    }
    free(list);
    return s;
}

enum tr_status tr_check_launch(struct tr_comm *world, const struct tr_intent *i)
{
    const struct tr_facts_of of = {.gpus = i->gpus, .save = i->save, .build = i->build};
    struct tr_facts f;
    enum tr_status s;

    TR_TRY(tr_facts_read(world, &of, &f));
    s = world->rank == 0 ? tell_all(&f, i) : TR_OK;
    tr_facts_release(&f);
    return tr_comm_agree(world, s);
}

enum tr_status tr_check_before_mpi(void)
{
    const struct tr_intent i = {0};
    struct tr_facts f = {.ranks = 1, .nodes = 1};
    struct tr_verdict v;

    if (tr_launch_offers())
        return TR_OK;
    tr_job_read(&(struct tr_facts_of){0}, &f.job);
    tr_check_judge(TR_CHECK_OF_ranks, &f, &i, 0, &v);
    return v.level == TR_LEVEL_REFUSE ? TR_FAIL(v.status, "%s", v.text) : TR_OK;
}
