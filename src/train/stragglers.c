/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/stragglers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry/timer.h"
#include "train/logging.h"
#include "util/log.h"
#include "util/text.h"

/* Seconds of computing that make an interval: in less, what else happens on a node makes one rank slow now and then. */
static const double SHORTEST = 2.0;

static enum tr_status open_rule(struct tr_stragglers *s)
{
    const struct tr_run *r = s->run;
    const struct tr_slow_rule rule = {
        .percent = r->config->slow_rank_percent,
        .intervals = (int)r->config->slow_rank_intervals,
        .shortest = SHORTEST,
    };
    int *stage = calloc((size_t)r->world->size, sizeof *stage);
    enum tr_status status;

    if (!stage)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the stages of %d ranks", r->world->size);
    for (int rank = 0; rank < r->world->size; rank++)
        stage[rank] = tr_grid_place(&r->shape.layout, rank).pp;
    status = tr_slow_ranks_open(&s->ranks, rule, r->world->size, stage);
    free(stage);
    return status;
}

static enum tr_status reserve(struct tr_stragglers *s)
{
    const size_t ranks = (size_t)s->run->world->size;

    s->seconds = calloc(ranks, sizeof *s->seconds);
    s->which = calloc(ranks, sizeof *s->which);
    if (!s->seconds || !s->which)
        return TR_FAIL(TR_ERESOURCE,
                       "no memory left to compare the computing times of %zu ranks; "
                       "use --slow-rank-percent 0",
                       ranks);
    return s->run->world->rank == 0 ? open_rule(s) : TR_OK;
}

enum tr_status tr_stragglers_open(struct tr_stragglers *s, struct tr_run *run)
{
    const struct tr_backend *on = run->queue.on;
    char mine[sizeof *s->which] = "";

    *s = (struct tr_stragglers){.run = NULL};
    if (run->config->slow_rank_percent <= 0.0 || run->shape.layout.w * run->shape.layout.d == 1)
        return TR_OK;
    s->run = run;
    TR_TRY(tr_comm_agree(run->world, reserve(s)));
    if (on->which)
        snprintf(mine, sizeof mine, "%s", on->which(run->device));
    run->world->via->gather_all(run->world, mine, sizeof mine, s->which);
    tr_timers_own(true);
    return TR_OK;
}

void tr_stragglers_close(struct tr_stragglers *s)
{
    if (s->run)
        tr_timers_own(false);
    tr_slow_ranks_close(&s->ranks);
    free(s->which);
    free(s->seconds);
    memset(s, 0, sizeof *s);
}

/* "rank 3 on n1, GPU 2 (GPU-1b2c...)"; owned by the caller. */
static char *name_of(const struct tr_stragglers *s, int rank)
{
    return tr_format("rank %d on %s%s%s", rank, s->run->launch.host[rank],
                     s->which[rank][0] ? ", " : "", s->which[rank]);
}

static void tell(const struct tr_stragglers *s, int rank)
{
    const struct tr_slow_rank *x = &s->ranks.rank[rank];
    const int64_t iteration = s->run->iteration;
    char *name = name_of(s, rank);

    if (x->change == TR_SLOW_BEGINS)
        tr_notice("> slow %s: computes %.1f %% longer than the median of its %d peer%s in %d "
                  "interval%s in a row, at iteration %" PRId64
                  "; all ranks wait for it: `trireme bench node` measures the nodes, and "
                  "--exclude keeps a job off one\n",
                  name, tr_slow_rank_excess(x), x->peers, tr_plural(x->peers), x->late,
                  tr_plural(x->late), iteration);
    else if (x->change == TR_SLOW_ENDS)
        tr_notice("> no longer slow %s: computes as long as its peers in %d interval%s in a row, "
                  "at iteration %" PRId64 "\n",
                  name, x->good, tr_plural(x->good), iteration);
    free(name);
}

/* All that are slow, as many as fit. */
static void list(struct tr_stragglers *s)
{
    size_t used = 0;

    s->text[0] = '\0';
    for (int rank = 0; rank < s->ranks.ranks && used < sizeof s->text; rank++) {
        const struct tr_slow_rank *x = &s->ranks.rank[rank];
        char *name;

        if (!x->slow)
            continue;
        name = name_of(s, rank);
        used += (size_t)snprintf(s->text + used, sizeof s->text - used, "%s%s (%.1f %% longer)",
                                 used ? "; " : "", name, tr_slow_rank_excess(x));
        free(name);
    }
}

void tr_stragglers_after(struct tr_stragglers *s)
{
    double mine;

    if (!s->run || !tr_logging_every(s->run->iteration, s->run->shape.amounts.log_interval))
        return;
    mine = tr_timer_seconds(TR_TIMER_OWN_COMPUTE);
    s->run->world->via->gather_all(s->run->world, &mine, sizeof mine, s->seconds);
    if (s->run->world->rank == 0)
        s->changed = tr_slow_ranks_add(&s->ranks, s->seconds) > 0;
}

bool tr_stragglers_tell(struct tr_stragglers *s)
{
    if (!s->changed)
        return false;
    s->changed = false;
    for (int rank = 0; rank < s->ranks.ranks; rank++)
        tell(s, rank);
    list(s);
    return true;
}
