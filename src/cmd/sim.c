/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "config/words.h"
#include "train/start.h"
#include "util/file.h"

struct ask {
    bool json, every_rank, sensitivities;
    char *machine, *speeds, *curve, *what_if, *trace, *trace_ranks;
    double jitter, rail, leaf_over, spine_over, restart, queue, queue_median, save;
    int collectives;
    int64_t draws, leaf_nodes, spine_leaves;
};

#define ROWS_OF struct ask
#define ROWS_GROUP "sim"
#include "cmd/option_rows.h"

static const struct tr_opt rows[] = {
    GROUP("sim", "sim"),
    ROW(TEXT, machine, "machine", tr_required, ANY, "machine profile, its name or a file"),
    ROW(TEXT, speeds, "speeds", NULL, ANY,
        "RANK:SPEED,FIRST-LAST:SPEED,...: the speed at which ranks compute, where the others have "
        "1; 3:0.9 is a straggler that takes 1/0.9 times as long"),
    ROW(REAL, jitter, "jitter", "0", NOT_NEGATIVE,
        "percent by which the time of a pass varies (log-normal, its median is the plan's); all "
        "ranks are then simulated"),
    ROW(INT, draws, "draws", "50", COUNT,
        "with --jitter: iterations, of whose times P10, P50 and P90 are printed"),
    ROW(REAL, rail, "rail-gbs", "0", NOT_NEGATIVE,
        "GB/s of the network adapter of one GPU, each way; 0: the GPUs of a node share all of its "
        "adapters"),
    ROW(INT, leaf_nodes, "leaf-nodes", "0", COUNT_OR_0,
        "nodes under a leaf switch; 0: the network beyond nodes is shared by nobody"),
    ROW(REAL, leaf_over, "leaf-oversubscription", "1", ABOVE_ZERO,
        "what the nodes under a leaf switch can send, over what it has upwards"),
    ROW(INT, spine_leaves, "spine-leaves", "0", COUNT_OR_0,
        "with --leaf-nodes: leaf switches of a pod; 0: all are in one"),
    ROW(REAL, spine_over, "spine-oversubscription", "1", ABOVE_ZERO,
        "what the leaf switches of a pod can send, over what it has to other pods"),
    CHOICE(ROWS_GROUP, collectives, "collectives", "collectives", "plan",
           "how sums and gathers go over links: plan is a ring with the plan's time; ring, tree "
           "and hierarchical have latencies; auto is the quickest"),
    ROW(TEXT, curve, "collective-curve", NULL, ANY,
        "file with what `trireme bench coll` printed: collectives of that group take the measured "
        "times, between two sizes log-log interpolated"),
    ROW(TEXT, what_if, "what-if", NULL, ANY,
        "KEY=VALUE,KEY=2x,...: numbers of the machine profile that are other than they are, or a "
        "multiple; both times are printed"),
    ROW(FLAG, sensitivities, "sensitivities", NULL, ANY,
        "also print what the time would be with each number of the profile a tenth lower and a "
        "tenth higher"),
    ROW(REAL, restart, "restart-seconds", "300", NOT_NEGATIVE,
        "seconds from the start of a job to its first new iteration"),
    ROW(REAL, queue, "queue-seconds", "0", NOT_NEGATIVE,
        "seconds in the queue after a failure, on average"),
    ROW(REAL, queue_median, "queue-median-seconds", NULL, ABOVE_ZERO,
        "with --queue-seconds: half of the waits in the queue are shorter; they are lognormal. "
        "Unless given, all are equally long"),
    ROW(REAL, save, "save-seconds", NULL, ABOVE_ZERO,
        "seconds of a save; unless given, the checkpoint over disk-write-gbs of the profile"),
    ROW(TEXT, trace, "sim-trace", NULL, ANY,
        "file for the timelines of some ranks, as `trireme train --trace` writes them; `trireme "
        "report "
        "--timeline` draws it"),
    ROW(TEXT, trace_ranks, "sim-trace-ranks", NULL, ANY,
        "RANK,RANK,...: with --sim-trace: which; unless given, one of each stage"),
    ROW(FLAG, every_rank, "every-rank", NULL, ANY,
        "simulate each rank, also those that are alike: the same result, later"),
    ROW(FLAG, json, "json", NULL, ANY, "print one JSON object"),
};

static const struct tr_spelling spellings[] = {
#define ALGORITHM(symbol, name, what) \
    {"collectives", name, TR_SIM_##symbol, TR_SPELLING_MAIN, NULL},
#include "sim/algorithms.def"
};

static const struct tr_options *table(void)
{
    static const struct tr_options all = {
        "sim", rows, sizeof rows / sizeof *rows, spellings, sizeof spellings / sizeof *spellings,
        NULL};

    return &all;
}

const struct tr_doc tr_doc_sim = {
    .synopsis = "trireme sim --machine NAME|FILE [--speeds RANK:SPEED,...] [--jitter PERCENT] "
                "[--what-if KEY=2x,...]\n"
                "            [--sensitivities] [--sim-trace FILE] [--json] [@file] "
                "[--option value ...]",
    .about =
        "Simulate an iteration of a run, without a job, MPI or a GPU.  Every rank executes its "
        "pipeline schedule with the durations of `trireme plan`, and messages share the links of "
        "nodes and switches.  Options are those of `trireme train`; --world-size is the number of "
        "ranks.\n"
        "\n"
        "    trireme sim --machine selene-a100 @model.args --world-size 1024 --speeds 17:0.8\n"
        "\n"
        "It prints the time of an iteration, what ranks spend it on and wait for, and how much of "
        "each kind of link is used.  With failures of nodes it prints the goodput of a month and "
        "the best interval between checkpoints.  Ranks that are alike are simulated once.  "
        "docs/sim.md says how it computes.  Numbers of a machine profile for --what-if:\n"
        "\n"
#define NUMBER(field, key, initial, least, most, help) "    " key ": " help "\n"
#include "config/machine.def"
    ,
    .options = table,
    .trains = true,
};

/* Random numbers are keyed by draw (util/rng.h). */
enum { MOST_DRAWS = 65536, CURVE_MOST = 1 << 20 /* bytes of a table */ };

static enum tr_status check(const struct ask *a, const struct tr_config *c)
{
    if (c->use_checkpoint_args)
        return TR_FAIL(TR_ECONFIG,
                       "a simulation takes no options from a checkpoint, so --use-checkpoint-args "
                       "would be ignored: give the options of the model (`trireme ckpt show` has "
                       "them)");
    if (a->leaf_over < 1.0 || a->spine_over < 1.0)
        return TR_FAIL(TR_ECONFIG,
                       "--leaf-oversubscription and --spine-oversubscription are at least 1: a "
                       "switch that has more upwards than its nodes send is shared by nobody");
    if (a->spine_leaves > 0 && a->leaf_nodes == 0)
        return TR_FAIL(TR_ECONFIG, "--spine-leaves counts leaf switches, which --leaf-nodes gives "
                                   "their nodes: give it, too");
    if (a->leaf_nodes == 0 && (a->leaf_over > 1.0 || a->spine_over > 1.0))
        return TR_FAIL(TR_ECONFIG, "oversubscription is that of switches, of which there are none "
                                   "without --leaf-nodes: give it, as in --leaf-nodes 16");
    if (a->draws > MOST_DRAWS)
        return TR_FAIL(
            TR_ECONFIG,
            "--draws %lld is more than the %d that have numbers of their own; the quantiles of "
            "1000 are as good",
            (long long)a->draws, MOST_DRAWS);
    if (a->queue_median > a->queue)
        return TR_FAIL(TR_ECONFIG,
                       "--queue-median-seconds %g is above the mean of --queue-seconds, %g, but "
                       "long waits make the mean larger: give both, as in --queue-seconds 3600 "
                       "--queue-median-seconds 600",
                       a->queue_median, a->queue);
    if (a->trace_ranks && !a->trace)
        return TR_FAIL(TR_ECONFIG, "--sim-trace-ranks says which ranks --sim-trace writes: give "
                                   "--sim-trace FILE, too");
    return TR_OK;
}

/* One rank of each stage. */
static void watch_stages(const struct tr_layout *l, struct tr_sim_ask *out)
{
    out->watch = calloc((size_t)l->p, sizeof *out->watch);
    if (!out->watch)
        tr_die(TR_ERESOURCE, "no memory left for a list of ranks");
    for (int stage = 0; stage < l->p; stage++)
        out->watch[out->watched++] = stage * tr_layout_pipeline_stride(l);
}

static enum tr_status read_curve(const char *path, struct tr_sim_ask *out)
{
    char *text = NULL;
    enum tr_status s = tr_regular_text(path, CURVE_MOST, &text);

    if (s == TR_OK)
        s = tr_sim_curve_read(path, text, &out->curve);
    free(text);
    out->like.curve = &out->curve;
    return s;
}

static enum tr_status ask_of(const struct ask *a, const struct tr_plan *p, struct tr_sim_ask *out)
{
    const int world = p->shape.layout.world;

    *out = (struct tr_sim_ask){
        .like = {.fabric = {.rail = a->rail,
                            .leaf_nodes = (int)a->leaf_nodes,
                            .leaf_over = a->leaf_over,
                            .spine_leaves = (int)a->spine_leaves,
                            .spine_over = a->spine_over},
                 .algorithm = (enum tr_sim_algorithm)a->collectives},
        .jitter = a->jitter / 100.0,
        .draws = (int)a->draws,
        .seed = (uint64_t)p->config.seed,
        .every_rank = a->every_rank,
        .restart = a->restart,
        .queue = a->queue,
        .queue_median = a->queue_median > 0.0 ? a->queue_median : 0.0,
        .save = a->save > 0.0 ? a->save : -1.0,
    };
    if (a->curve)
        TR_TRY(read_curve(a->curve, out));
    if (a->speeds)
        TR_TRY(tr_sim_parse_speeds(a->speeds, world, out));
    if (a->trace_ranks)
        TR_TRY(tr_sim_parse_ranks(a->trace_ranks, world, out));
    else if (a->trace)
        watch_stages(&p->shape.layout, out);
    return TR_OK;
}

static enum tr_status write_trace(const char *path, const struct tr_plan *p,
                                  const struct tr_sim_report *r)
{
    FILE *f;

    TR_TRY(tr_output_open(path, &f));
    tr_sim_trace(p, r, f);
    return tr_output_close(path, f);
}

/* What is printed besides the simulation itself. */
struct more {
    double before; /* seconds without --what-if; 0: it was not given */
    int rows;
    struct tr_sim_sensitivity row[TR_SIM_SENSITIVITIES];
};

static void more_text(const struct ask *a, const struct tr_sim_report *r, const struct more *m)
{
    if (m->before > 0.0)
        printf("\n%-16s %s: %.4g s an iteration in place of %.4g s, %+.1f %%\n", "what if",
               a->what_if, r->p50, m->before, 100.0 * (r->p50 / m->before - 1.0));
    if (m->rows > 0)
        printf("\n%-24s %10s %10s\n", "time with a constant", "-10 %", "+10 %");
    for (int i = 0; i < m->rows; i++)
        printf("%-24s %+8.2f %% %+8.2f %%\n", m->row[i].key, 100.0 * m->row[i].lower,
               100.0 * m->row[i].higher);
}

static void print_json(const struct ask *a, const struct tr_plan *p, const struct tr_sim_report *r,
                       const struct more *m)
{
    json_t *all = tr_sim_json(p, r), *list = json_object();

    if (m->before > 0.0)
        json_object_set_new(
            all, "what_if",
            json_pack("{s:s, s:f}", "changes", a->what_if, "seconds_before", m->before));
    for (int i = 0; i < m->rows; i++)
        json_object_set_new(
            list, m->row[i].key,
            json_pack("{s:f, s:f}", "lower", m->row[i].lower, "higher", m->row[i].higher));
    if (a->sensitivities)
        json_object_set(all, "sensitivities", list);
    json_object_set_new(all, "shape", tr_plan_shape_json(p));
    json_object_set_new(all, "options", tr_plan_options_json(p));
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    putchar('\n');
    json_decref(list);
    json_decref(all);
}

/* The plan on that machine, and its simulation; both are released by the caller, also after a failure. */
static enum tr_status simulate(const struct ask *a, const struct tr_config *c,
                               const struct tr_machine *m, struct tr_plan *p,
                               struct tr_sim_ask *ask, struct tr_sim_report *r)
{
    TR_TRY(tr_plan_itself(c, m, p));
    TR_TRY(ask_of(a, p, ask));
    return tr_sim_make(p, ask, r);
}

static enum tr_status before(const struct ask *a, const struct tr_config *c,
                             const struct tr_machine *m, double *seconds)
{
    struct tr_sim_report r = {0};
    struct tr_sim_ask ask = {0};
    struct tr_plan p = {0};
    const enum tr_status s = simulate(a, c, m, &p, &ask, &r);

    *seconds = r.p50;
    tr_sim_release(&r);
    tr_sim_ask_release(&ask);
    tr_plan_release(&p);
    return s;
}

static enum tr_status tell(const struct ask *a, const struct tr_config *c)
{
    struct tr_machine machine;
    struct tr_plan p = {0};
    struct tr_sim_ask ask = {0};
    struct tr_sim_report r = {0};
    struct more more = {0};
    enum tr_status s;

    TR_TRY(tr_machine_find(a->machine, &machine));
    if (a->what_if) {
        TR_TRY(before(a, c, &machine, &more.before));
        TR_TRY(tr_sim_change(&machine, a->what_if));
    }
    s = simulate(a, c, &machine, &p, &ask, &r);
    if (s == TR_OK && a->sensitivities)
        s = tr_sim_sensitivities(c, &machine, &ask, r.p50, more.row, &more.rows);
    if (s == TR_OK && a->trace)
        s = write_trace(a->trace, &p, &r);
    if (s == TR_OK && a->json) {
        print_json(a, &p, &r, &more);
    } else if (s == TR_OK) {
        tr_sim_text(&p, &r, stdout);
        more_text(a, &r, &more);
    }
    tr_sim_release(&r);
    tr_sim_ask_release(&ask);
    tr_plan_release(&p);
    return s;
}

int tr_cmd_sim(int argc, char **argv)
{
    struct tr_args words = {0};
    struct tr_config c;
    struct ask a;
    enum tr_status s;

    tr_config_init(&c);
    tr_options_init(table(), &a);
    s = tr_options_parse_both(table(), &a, tr_config_options(), &c, argc - 1, argv + 1, &words);
    if (s == TR_OK)
        s = check(&a, &c);
    if (s == TR_OK)
        s = tr_start_count(&c, false);
    if (s == TR_OK)
        s = tell(&a, &c);
    tr_args_release(&words);
    tr_options_release(table(), &a);
    tr_config_release(&c);
    return tr_status_exit_code(s);
}
