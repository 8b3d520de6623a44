/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

#include "launch/libraries.h"
#include "launch/checks.h"
#include "comm/comm.h"
#include "util/log.h"
#include "util/text.h"

struct doctor {
    bool json;
    bool gpu_oversubscribe, allow_mixed_gpus, allow_tensor_parallel_across_nodes;
    int64_t threads, tensor_model_parallel_size;
    char *save;
};

#define ROWS_OF struct doctor
#define ROWS_GROUP "doctor"
#include "cmd/option_rows.h"

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "doctor", .group = "doctor"},
    ROW(FLAG, json, "json", NULL, ANY, "print one JSON object"),
    ROW(INT, tensor_model_parallel_size, "tensor-model-parallel-size", "1", COUNT,
        "as in training: whether its groups share nodes"),
    ROW(FLAG, allow_tensor_parallel_across_nodes, "allow-tensor-parallel-across-nodes", NULL, ANY,
        "as in training"),
    ROW(INT, threads, "threads", "0", COUNT_OR_0, "as in training: threads of each rank"),
    ROW(TEXT, save, "save", NULL, ANY, "as in training: folder whose free space is looked at"),
    ROW(FLAG, gpu_oversubscribe, "gpu-oversubscribe", NULL, ANY, "as in training"),
    ROW(FLAG, allow_mixed_gpus, "allow-mixed-gpus", NULL, ANY, "as in training"),
};

static const struct tr_options *table(void)
{
    static const struct tr_options all = {"doctor", rows, sizeof rows / sizeof *rows,
                                          NULL,     0,    NULL};

    return &all;
}

const struct tr_doc tr_doc_doctor = {
    .synopsis = "trireme doctor [--json] [OPTION...]\n"
                "srun trireme doctor [--json] [OPTION...]",
    .about =
        "Check the nodes and the launch (ranks, binding, GPUs, limits), and say what is wrong and "
        "what to type.  Start it as training would be started, with the same srun or mpiexec, or "
        "alone, on a login node or in a job script.  It trains nothing, and takes less than two "
        "seconds.\n"
        "\n"
        "It prints the libraries as `trireme version` does, the nodes with their ranks, and a line "
        "for each check.  The line says ok and what was checked, or warn or fail, why, and on "
        "which nodes.  With a fail training does not start.  A warn makes training slower, or may "
        "end it later.  Training warns of it too, but for pmix-fence, for which Slurm has to be "
        "asked.  The exit code is 0 when nothing failed, else 69.\n"
        "\n"
        "One rank of each node checks the node.  Options of training that a check depends on may "
        "be given.  Quotas are not seen, nor what a scheduler would allow another job.  The limit "
        "on core files is not judged: both none and large ones have their use.\n"
        "\n"
        "    srun --ntasks-per-node=4 trireme doctor --tensor-model-parallel-size 4\n"
        "\n"
        "The checks, and the worst that each may say:\n"
        "\n"
#define CHECK(symbol, name, scope, worst, what) "    " name " (" WORD_##worst "): " what "\n"
#define WORD_WARN "warn"
#define WORD_REFUSE "fail"
#include "launch/checks.def"
#undef CHECK
    ,
    .options = table,
};

static struct tr_intent intent_of(const struct doctor *d)
{
    return (struct tr_intent){
        .gpus = true,
        .share = d->gpu_oversubscribe,
        .mixed = d->allow_mixed_gpus,
        .has_cuda = tr_backend_find("cuda") != NULL,
        .threads = (int)d->threads,
        .tensor_parallel = (int)d->tensor_model_parallel_size,
        .tensor_across = d->allow_tensor_parallel_across_nodes,
        .save = d->save,
        .build = tr_build_sum(),
    };
}

static const char *starter_text(const struct tr_facts *f)
{
    switch (f->job.starter) {
    case TR_STARTED_BY_SRUN:
        return f->job.pmix ? "srun with PMIx" : "srun";
    case TR_STARTED_BY_MPIEXEC:
        return "mpiexec";
    default:
        return "no launcher: one process";
    }
}

/* "0-3 8", of one node. */
static void ranks_text(const struct tr_facts *f, int node, char *out, size_t size)
{
    size_t n = 0;

    out[0] = 0;
    for (int first = 0, last; first < f->ranks && n < size; first = last + 1) {
        for (last = first; last + 1 < f->ranks && f->node_of[last + 1] == f->node_of[first];)
            last++;
        if (f->node_of[first] != node)
            continue;
        n += (size_t)snprintf(out + n, size - n, n ? " %d" : "%d", first);
        if (last > first && n < size)
            n += (size_t)snprintf(out + n, size - n, "-%d", last);
    }
}

static void print_node(const struct tr_facts *f, int node)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    const struct tr_node_facts *n = &f->node[node];
    char ranks[256];

    ranks_text(f, node, ranks, sizeof ranks);
    printf("  %s: rank%s %s, %.1f GiB of memory", n->host, tr_plural(tr_facts_local(f, node)),
           ranks, (double)n->memory / gib);
    if (n->gpus.count > 0)
        printf(", %d x %s with %.1f GiB", n->gpus.count, n->gpus.name, (double)n->gpus.bytes / gib);
    printf("%s%s\n", n->networks[0] ? ", " : "", n->networks);
}

/* Sentences stand behind the name of the check, and in front of them the nodes. */
static void print_finding(const struct tr_facts *f, const struct tr_finding *g)
{
    const bool some = g->nodes > 0 && f->nodes > 1;

    printf("  %-4s  %-15s  %s%s%s%s\n", tr_level_name(g->verdict.level), tr_check_name(g->check),
           some ? "on " : "", some ? g->hosts : "", some ? ": " : "",
           g->verdict.level == TR_LEVEL_OK ? tr_check_what(g->check) : g->verdict.text);
}

static void print_all(const struct tr_facts *f, const struct tr_finding *list, int count)
{
    printf("%s\n", tr_version_text());
    tr_libraries_print(stdout);
    printf("%d rank%s on %d node%s, started by %s\n", f->ranks, tr_plural(f->ranks), f->nodes,
           tr_plural(f->nodes), starter_text(f));
    for (int n = 0; n < f->nodes; n++)
        print_node(f, n);
    printf("checks\n");
    for (int i = 0; i < count; i++)
        print_finding(f, &list[i]);
}

static json_t *json_nodes(const struct tr_facts *f)
{
    json_t *nodes = json_array();

    for (int n = 0; n < f->nodes; n++) {
        const struct tr_node_facts *node = &f->node[n];
        json_t *ranks = json_array(), *one;

        for (int r = 0; r < f->ranks; r++)
            if (f->node_of[r] == n)
                json_array_append_new(ranks, json_integer(r));
        one = json_pack("{s:s, s:o, s:I, s:i, s:s, s:I, s:s}", "host", node->host, "ranks", ranks,
                        "memory_bytes", (json_int_t)node->memory, "gpus", node->gpus.count, "gpu",
                        node->gpus.name, "gpu_bytes", (json_int_t)node->gpus.bytes, "networks",
                        node->networks);
        TR_ASSERT(one);
        json_array_append_new(nodes, one);
    }
    return nodes;
}

static void print_json(const struct tr_facts *f, const struct tr_finding *list, int count)
{
    json_t *checks = json_array(), *all = tr_libraries_json();

    for (int i = 0; i < count; i++) {
        json_t *one = json_pack("{s:s, s:s, s:s, s:s}", "check", tr_check_name(list[i].check),
                                "level", tr_level_name(list[i].verdict.level), "nodes",
                                list[i].hosts, "sentence", list[i].verdict.text);

        TR_ASSERT(one);
        json_array_append_new(checks, one);
    }
    json_object_set_new(all, "started_by", json_string(starter_text(f)));
    json_object_set_new(all, "ranks", json_integer(f->ranks));
    json_object_set_new(all, "nodes", json_nodes(f));
    json_object_set_new(all, "checks", checks);
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

/* On rank 0. */
static enum tr_status tell(const struct tr_facts *f, const struct tr_intent *i, bool json)
{
    struct tr_finding *list;
    int count = tr_check_all(f, i, &list), failed = 0;

    for (int k = 0; k < count; k++)
        failed += list[k].verdict.level == TR_LEVEL_REFUSE;
    if (json)
        print_json(f, list, count);
    else
        print_all(f, list, count);
    free(list);
    return failed == 0
               ? TR_OK
               : TR_FAIL(TR_ERESOURCE,
                         "%d check%s failed, so training would not start like this: do what the "
                         "line%s with \"fail\" say%s",
                         failed, tr_plural(failed), tr_plural(failed), failed == 1 ? "s" : "");
}

static enum tr_status look(const struct doctor *d, struct tr_comm *world)
{
    const struct tr_intent i = intent_of(d);
    const struct tr_facts_of of = {.gpus = true, .slurm = true, .save = d->save, .build = i.build};
    struct tr_facts f;
    enum tr_status s;

    TR_TRY(tr_facts_read(world, &of, &f));
    s = world->rank == 0 ? tell(&f, &i, d->json) : TR_OK;
    fflush(stdout);
    tr_facts_release(&f);
    return tr_comm_agree(world, s);
}

/* Tasks of srun that cannot find one another: MPI would not start, and the first of them reports
   it. */
static enum tr_status look_apart(const struct doctor *d)
{
    struct tr_job_facts job;
    struct tr_comm self;
    enum tr_status s;

    tr_job_read(&(struct tr_facts_of){0}, &job);
    if (job.task > 0)
        return TR_OK;
    tr_comm_self(&self);
    s = look(d, &self);
    self.via->release(&self);
    return s;
}

static enum tr_status look_together(const struct doctor *d)
{
    struct tr_comm world;
    enum tr_status s;

    TR_TRY(tr_comm_mpi_start(&world));
    s = look(d, &world);
    if (s != TR_OK)
        tr_report_error();
    world.via->barrier(&world);
    tr_comm_mpi_stop(&world);
    return s;
}

int tr_cmd_doctor(int argc, char **argv)
{
    struct doctor d;
    enum tr_status s;

    tr_options_init(table(), &d);
    s = tr_options_parse(table(), &d, argc - 1, argv + 1, NULL);
    if (s == TR_OK)
        s = tr_check_before_mpi() == TR_OK ? look_together(&d) : look_apart(&d);
    tr_options_release(table(), &d);
    return tr_status_exit_code(s);
}
