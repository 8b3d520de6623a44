/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/breakdown.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum role {
    FORWARD,
    BACKWARD,
    FILL,
    DRAIN,
    TRANSFER,
    AWAY,
    GRADIENTS,
    OPTIMIZER,
    BATCH,
    FILLING,
    DRAINING,
    SYNC,
    INSIDE,
    AROUND,
    SETUP,
    ROLES
};

static const struct {
    enum role role;
    const char *timer;
} roles[] = {
#define ROLE(role, timer) {role, timer},
#include "report/roles.def"
#undef ROLE
};

static const struct {
    const char *key, *plan, *what;
    bool logs;
} parts[] = {
#define PART(symbol, key, colour, logs, plan, what) {key, plan, what, logs},
#include "report/parts.def"
#undef PART
};

const char *tr_part_key(enum tr_part p)
{
    return parts[p].key;
}

const char *tr_part_what(enum tr_part p)
{
    return parts[p].what;
}

bool tr_part_is_of(enum tr_part p, enum tr_run_origin o)
{
    return o == TR_ORIGIN_MEASURED ? parts[p].logs : *parts[p].plan != '\0';
}

double tr_breakdown_bubble(const struct tr_breakdown *b)
{
    return b->part[TR_PART_FILL] + b->part[TR_PART_DRAIN] + b->part[TR_PART_BUBBLE];
}

/* The role of a timer; ROLES if it has none. */
static enum role role_of(const char *timer)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i].timer, timer) == 0)
            return roles[i].role;
    return ROLES;
}

/* Medians of a timer over the lines that have it. */
struct times {
    double mine, mean, max;
    int64_t lines;
    bool of_last;
};

static struct times median_times(const struct tr_record *r, const struct tr_selection *s, int timer)
{
    double *x = calloc(3 * (size_t)s->count + 1, sizeof *x), *mean = x + s->count;
    double *max = mean + s->count;
    struct times t = {.of_last = true};

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the timers of a run");
    for (int64_t i = 0; i < s->count; i++) {
        const struct tr_timing *one = tr_row_timing(r, &r->row[s->row[i]], timer);

        x[i] = mean[i] = max[i] = NAN;
        if (!one)
            continue;
        t.lines++;
        t.of_last &= !isnan(one->last);
        x[i] = isnan(one->last) ? one->max : one->last;
        mean[i] = one->mean;
        max[i] = one->max;
    }
    t.mine = tr_order_of(x, s->count).median;
    t.mean = tr_order_of(mean, s->count).median;
    t.max = tr_order_of(max, s->count).median;
    free(x);
    return t;
}

/* The sums of timers by role. */
struct sums {
    double role[ROLES], mean, max;
    int64_t lines;
    bool of_last;
    bool measured; /* the fill and drain of the last rank were */
};

static struct sums add_up(const struct tr_record *r, const struct tr_selection *s)
{
    bool chunks = tr_record_fact(r, TR_FACT_CHUNKS) > 1.0;
    struct sums sums = {.of_last = true};

    for (int i = 0; i < r->timers; i++) {
        enum role role = role_of(r->timer[i]);
        struct times t = median_times(r, s, i);

        if (role == ROLES || t.lines == 0)
            continue;
        /* In an interleaved pipeline the last stage is in the middle too. */
        if (role == AWAY && (chunks || t.of_last))
            role = TRANSFER;
        sums.role[role] += t.mine;
        sums.measured |= role == FILLING && t.of_last;
        if (role == FORWARD || role == BACKWARD) {
            sums.lines = sums.lines > t.lines ? sums.lines : t.lines;
            sums.mean += t.mean;
            sums.max += t.max;
            sums.of_last &= t.of_last;
        }
    }
    return sums;
}

static enum tr_status check(const struct tr_record *r, const struct sums *sums)
{
    if (sums->lines == 0 || !(sums->role[FORWARD] > 0.0) || !(sums->role[BACKWARD] > 0.0))
        return TR_FAIL(
            TR_EDATA,
            "no line that counts in %s has times of forward-compute and backward-compute, "
            "so its iterations cannot be broken down; let training print timers "
            "(--timing-log-level 2)",
            r->name);
    if (isnan(tr_record_fact(r, TR_FACT_PP)))
        return tr_record_lacks(r, TR_FACT_PP, "the breakdown");
    if (isnan(tr_record_fact(r, TR_FACT_MICROS)))
        return tr_record_lacks(r, TR_FACT_MICROS, "the breakdown");
    return TR_OK;
}

static void share_out(const struct tr_record *r, const struct sums *s, struct tr_breakdown *b)
{
    double chunks = tr_record_fact(r, TR_FACT_CHUNKS);
    double pieces = tr_record_fact(r, TR_FACT_MICROS) * chunks;
    double others = tr_record_fact(r, TR_FACT_PP) - 1.0;
    double *part = b->part, sum = 0.0, sync;

    b->forward = s->role[FORWARD] / pieces * chunks;
    b->backward = s->role[BACKWARD] / pieces * chunks;
    b->fill_by_formula = others * s->role[FORWARD] / pieces;
    b->drain_by_formula = others * s->role[BACKWARD] / pieces;
    b->fill_timer = s->role[FILL];
    b->drain_timer = s->role[DRAIN];
    part[TR_PART_COMPUTE] = s->role[FORWARD] + s->role[BACKWARD] - s->role[BATCH];
    b->measured = s->measured;
    part[TR_PART_FILL] = s->measured ? s->role[FILLING] : fmin(s->role[FILL], b->fill_by_formula);
    part[TR_PART_DRAIN] =
        s->measured ? s->role[DRAINING] : fmin(s->role[DRAIN], b->drain_by_formula);
    sync = s->measured ? fmin(s->role[SYNC], s->role[DRAINING]) : 0.0;
    part[TR_PART_TRANSFER] = s->role[TRANSFER] + s->role[FILL] - part[TR_PART_FILL] +
                             s->role[DRAIN] - (part[TR_PART_DRAIN] - sync);
    part[TR_PART_GRADIENTS] = s->role[GRADIENTS];
    part[TR_PART_OPTIMIZER] = s->role[OPTIMIZER] - sync;
    part[TR_PART_DATA] = s->role[BATCH];
    for (int p = 0; p < TR_PART_OTHER; p++)
        sum += part[p];
    part[TR_PART_OTHER] = b->ms - sum;
}

/* Of the lines that count those that have timers: time and timers must be of the same iterations.
 */
static struct tr_selection select_timed(const struct tr_record *r, int64_t warmup)
{
    struct tr_selection s = tr_select_rows(r, warmup);
    int64_t timed = 0;

    for (int64_t i = 0; i < s.count; i++)
        if (r->row[s.row[i]].timings > 0)
            s.row[timed++] = s.row[i];
    s.count = timed;
    return s;
}

/* Of a plan or a simulation, which said its parts. */
static enum tr_status take_parts(const struct tr_record *r, struct tr_breakdown *out)
{
    *out = (struct tr_breakdown){.balance = r->origin == TR_ORIGIN_SIMULATED ? 1.0 : NAN,
                                 .lines = r->rows};
    if (r->rows == 0)
        return TR_FAIL(TR_EDATA,
                       "%s has no times, because it was planned without a machine: plan it with "
                       "--machine",
                       r->name);
    out->ms = r->row[0].field[TR_FIELD_ELAPSED];
    memcpy(out->part, r->part, sizeof out->part);
    return TR_OK;
}

static enum tr_status add_up_timers(const struct tr_record *r, int64_t warmup,
                                    struct tr_breakdown *out)
{
    struct tr_selection s = select_timed(r, warmup);
    struct sums sums = add_up(r, &s);
    enum tr_status status = check(r, &sums);

    memset(out, 0, sizeof *out);
    if (status == TR_OK) {
        out->ms = tr_selection_order(r, &s, TR_FIELD_ELAPSED).median;
        out->lines = sums.lines;
        out->of_last = sums.of_last;
        /* One rank's numbers say nothing of the others. */
        out->balance =
            sums.mean < sums.max ? sums.mean / (sums.role[FORWARD] + sums.role[BACKWARD]) : NAN;
        share_out(r, &sums, out);
    }
    tr_selection_release(&s);
    return status;
}

enum tr_status tr_break_down(const struct tr_record *r, int64_t warmup, struct tr_breakdown *out)
{
    return r->origin == TR_ORIGIN_MEASURED ? add_up_timers(r, warmup, out) : take_parts(r, out);
}
