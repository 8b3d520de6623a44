/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "sim/sim.h"

static void time_text(const struct tr_plan *p, const struct tr_sim_report *r, FILE *f)
{
    fprintf(f, "%-16s %.0f ranks on %d nodes of %s, %d of %d groups of tensor ranks simulated\n",
            "simulated", r->ranks, p->nodes, p->machine.name, r->units, r->of);
    fprintf(f, "%-16s %.4g s", "iteration", r->p50);
    if (r->draws > 1)
        fprintf(f, " (P10 %.4g, P90 %.4g, of %d draws)", r->p10, r->p90, r->draws);
    fprintf(f, "; planned %.4g s, %+.1f %%\n", r->planned, 100.0 * (r->p50 / r->planned - 1.0));
}

static void collectives_text(const struct tr_sim_report *r, FILE *f)
{
    if (r->replicas_by != TR_SIM_PLANNED || r->tensor_by != TR_SIM_PLANNED)
        fprintf(f, "%-16s %s over replicas, %s over tensor ranks\n", "collectives",
                tr_sim_algorithm_name(r->replicas_by), tr_sim_algorithm_name(r->tensor_by));
}

static void spent_text(const struct tr_sim_report *r, FILE *f)
{
    double all = 0.0;

    for (int cause = 0; cause < TR_SIM_CAUSES; cause++)
        all += r->spent[cause].mean;
    fprintf(f, "\n%-16s %10s %10s %10s %8s\n", "seconds of", "mean rank", "least", "most", "share");
    for (int cause = 0; cause < TR_SIM_CAUSES; cause++) {
        const struct tr_sim_spent *s = &r->spent[cause];

        fprintf(f, "%-16s %10.4g %10.4g %10.4g %6.1f %%\n",
                tr_sim_cause_name((enum tr_sim_cause)cause), s->mean, s->least, s->most,
                100.0 * s->mean / all);
    }
}

static void use_text(const struct tr_sim_report *r, FILE *f)
{
    fprintf(f, "\n%-16s %10s %10s %10s %10s\n", "links", "number", "GB/s", "busiest", "mean");
    for (int kind = 0; kind < TR_NET_KINDS; kind++) {
        const struct tr_sim_use *u = &r->use[kind];

        if (u->links > 0)
            fprintf(f, "%-16s %10d %10.4g %8.1f %% %8.1f %%\n", tr_net_name((enum tr_net_kind)kind),
                    u->links, u->gbs, 100.0 * u->busiest, 100.0 * u->mean);
    }
}

/* 90 % of normal numbers are below it. */
static const double Z_OF_P90 = 1.2815515655446004;

static void goodput_text(const struct tr_goodput *g, FILE *f)
{
    if (g->failures.mtbf <= 0.0)
        return;
    fprintf(f,
            "\n%-16s a failure in %.4g h, a save takes %.4g s, a restart %.4g s, the queue %.4g s",
            "failures", g->failures.mtbf / 3600.0, g->failures.save, g->failures.restart,
            g->failures.queue);
    if (g->failures.median > 0.0)
        fprintf(f, " on average (median %.4g, P90 %.4g)", g->failures.median,
                tr_goodput_wait_at(&g->failures, Z_OF_P90));
    fputc('\n', f);
    fprintf(f, "%-16s every %.4g s is best (Young %.4g, Daly %.4g)\n", "saves", g->best, g->young,
            g->daly);
    fprintf(f,
            "%-16s %.2f %% expected, every %.4g s; of %d months P10 %.2f, P50 %.2f, P90 %.2f %%\n",
            "goodput", 100.0 * g->expected, g->interval, TR_GOODPUT_MONTHS, 100.0 * g->p10,
            100.0 * g->p50, 100.0 * g->p90);
}

void tr_sim_text(const struct tr_plan *p, const struct tr_sim_report *r, FILE *f)
{
    time_text(p, r, f);
    collectives_text(r, f);
    spent_text(r, f);
    use_text(r, f);
    goodput_text(&r->goodput, f);
}

/* Under the name of a table, as keys of JSON are spelled here. */
static void set_named(json_t *object, const char *name, json_t *value)
{
    char key[32];
    size_t i = 0;

    for (; name[i] && i + 1 < sizeof key; i++)
        key[i] = (char)(name[i] == '-' ? '_' : name[i]);
    key[i] = '\0';
    json_object_set_new(object, key, value);
}

static json_t *spent_json(const struct tr_sim_report *r)
{
    json_t *all = json_object();

    for (int cause = 0; cause < TR_SIM_CAUSES; cause++)
        set_named(all, tr_sim_cause_name((enum tr_sim_cause)cause),
                  json_pack("{s:f, s:f, s:f}", "mean", r->spent[cause].mean, "least",
                            r->spent[cause].least, "most", r->spent[cause].most));
    return all;
}

static json_t *use_json(const struct tr_sim_report *r)
{
    json_t *all = json_object();

    for (int kind = 0; kind < TR_NET_KINDS; kind++) {
        const struct tr_sim_use *u = &r->use[kind];

        if (u->links > 0)
            set_named(all, tr_net_name((enum tr_net_kind)kind),
                      json_pack("{s:i, s:f, s:f, s:f}", "number", u->links, "gbs", u->gbs,
                                "busiest", u->busiest, "mean", u->mean));
    }
    return all;
}

static json_t *goodput_json(const struct tr_goodput *g)
{
    if (g->failures.mtbf <= 0.0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                     "mtbf_seconds", g->failures.mtbf, "save_seconds", g->failures.save,
                     "restart_seconds", g->failures.restart, "queue_seconds", g->failures.queue,
                     "queue_p50_seconds", tr_goodput_wait_at(&g->failures, 0.0),
                     "queue_p90_seconds", tr_goodput_wait_at(&g->failures, Z_OF_P90),
                     "best_interval_seconds", g->best, "young_interval_seconds", g->young,
                     "daly_interval_seconds", g->daly, "interval_seconds", g->interval, "expected",
                     g->expected, "mean", g->mean, "p10", g->p10, "p50", g->p50, "p90", g->p90);
}

json_t *tr_sim_json(const struct tr_plan *p, const struct tr_sim_report *r)
{
    json_t *all = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:i}", "machine", p->machine.name,
                            "processor", tr_processor_name(tr_plan_processor(p)), "world_size",
                            p->shape.layout.world, "nodes", p->nodes, "groups_simulated", r->units,
                            "groups", r->of, "events", (json_int_t)r->events, "draws", r->draws);

    json_object_set_new(all, "iteration_seconds",
                        json_pack("{s:f, s:f, s:f, s:f}", "planned", r->planned, "p10", r->p10,
                                  "p50", r->p50, "p90", r->p90));
    json_object_set_new(all, "collectives",
                        json_pack("{s:s, s:s}", "replicas", tr_sim_algorithm_name(r->replicas_by),
                                  "tensor_ranks", tr_sim_algorithm_name(r->tensor_by)));
    json_object_set_new(all, "seconds_of_a_rank", spent_json(r));
    json_object_set_new(all, "links", use_json(r));
    json_object_set_new(all, "goodput", goodput_json(&r->goodput));
    return all;
}
