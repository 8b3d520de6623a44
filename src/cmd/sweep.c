/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "config/words.h"
#include "launch/libraries.h"
#include "train/start.h"
#include "util/file.h"
#include "util/log.h"

#define ROWS_OF struct tr_sweep
#define ROWS_GROUP "sweep"
#include "cmd/option_rows.h"

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "Shapes", .group = "sweep"},
#define DIM(symbol, name, option, field, help) \
    ROW(TEXT, list[TR_SWEEP_##symbol], name, NULL, ANY, help),
#include "sweep/dims.def"
    ROW(WORDS, sweep, "sweep", NULL, ANY,
        "other options of training: OPTION=V1,V2 for each, as in seq-length=1024,2048 bf16=on,off; "
        "a flag is on or "
        "off"),
    ROW(FLAG, weak, "sweep-weak-scaling", "off", ANY,
        "weak scaling: global batch sizes are those of the first of --ranks, and grow as ranks do"),
    {.kind = TR_ROW_GROUP, .name = "Runs", .group = "runs"},
    ROW(INT, iters, "sweep-iters", "10", COUNT, "iterations of each run"),
    ROW(INT, warmup, "sweep-warmup", "3", COUNT_OR_0,
        "warm-up iterations of each run that do "
        "not count"),
    ROW(INT, repeats, "sweep-repeats", "1", COUNT,
        "runs of each shape: each repetition runs every shape once, in an order of its own"),
    ROW(INT, seed, "sweep-seed", NULL, COUNT_OR_0,
        "seed of the order of runs; 0 with --sweep-repeats, and the best predicted first without, "
        "unless given"),
    ROW(REAL, stop_early, "sweep-stop-early", NULL, NOT_NEGATIVE,
        "end the run of a shape whose fastest iteration is so many percent slower per sample than "
        "the "
        "best shape, once five iterations count"),
    ROW(MINUTES, timeout, "sweep-timeout", NULL, ABOVE_ZERO,
        "timeout of a run in minutes, or 90s; unless given, 10 and ten times the prediction, or "
        "30 without one"),
    ROW(REAL, node_hours, "sweep-node-hours", NULL, ABOVE_ZERO,
        "budget: no run begins that would take the nodes times hours of all runs in the folder "
        "above this"),
    ROW(TEXT, folder, "sweep-folder", "sweep", ANY,
        "folder for logs, results and tables; a sweep resumes from the results there"),
    ROW(TEXT, autotune_log, "autotune-log", NULL, ANY,
        "also write a CSV file as Horovod's autotuning does: a row for each measured bucket size, "
        "with bytes of gradients per second as score"),
    ROW(FLAG, again, "sweep-again", "off", ANY, "retry layouts that failed before"),
    ROW(TEXT, machine, "machine", NULL, ANY,
        "machine profile of `trireme plan`: what does not fit is not run, and the fastest "
        "predicted runs first"),
    ROW(TEXT, launcher, "launcher", NULL, ANY,
        "command that starts the ranks, with {ranks}, {nodes} and {name} in it; srun inside a "
        "Slurm job and mpiexec outside unless given"),
    ROW(INT, ranks_per_node, "ranks-per-node", NULL, COUNT,
        "ranks on each node; those of the Slurm job, or all on this node, unless given"),
    ROW(FLAG, dry_run, "dry-run", "off", ANY, "dry run: print what would be run, and run nothing"),
    {.kind = TR_ROW_GROUP, .name = "Job arrays", .group = "array"},
    OPT("array", TEXT, array, "sweep-array", NULL, ANY,
        "write a script for sbatch instead, with an array task for each shape that has no result; "
        "one for each "
        "number of ranks"),
    OPT("array", INT, array_limit, "sweep-array-limit", NULL, COUNT,
        "array tasks that run at a time; any number unless given"),
    OPT("array", WORDS, array_options, "sweep-array-options", NULL, ANY,
        "options of sbatch for the script, without their dashes, as in account=abc gres=gpu:4"),
    OPT("array", FLAG, submit, "sweep-submit", "off", ANY, "submit the scripts of --sweep-array"),
    OPT("array", TEXT, only, "sweep-only", NULL, ANY,
        "run the shape of that name alone, with its own file for the result, so that several can "
        "run at once in one folder"),
    OPT("array", FLAG, collect, "sweep-collect", "off", ANY,
        "run nothing: write the tables of the results that there are"),
};

static const struct tr_options table = {"sweep", rows, sizeof rows / sizeof *rows, NULL, 0, NULL};

static const struct tr_options *options(void)
{
    return &table;
}

const struct tr_doc tr_doc_sweep = {
    .synopsis = "trireme sweep [--sweep-tensor LIST] [...] [@file] [--option value ...]",
    .about =
        "Benchmark training in many shapes (layouts and batch sizes), one after another, and "
        "write tables of them.  A shape is one combination of the lists; everything else follows "
        "from the options of `trireme train`.  Call it once, in a batch job, in the shell of "
        "salloc, or on a machine without Slurm: it starts the ranks itself.\n"
        "\n"
        "    trireme sweep --machine jean-zay-v100-16g --sweep-tensor 1-4 --sweep-pipeline 4-16 "
        "\\\n"
        "        --sweep-micro-batch 1,2,4 @study.args --mock-data\n"
        "\n"
        "Shapes that cannot be, or do not fit the machine, are listed with the reason.  The "
        "others run, the best predicted first.  A run that runs out of memory, crashes or hangs "
        "becomes a row with the reason, and the next one begins.  An interrupted sweep resumes "
        "when it is called again: shapes with a result are not run again.  It ends by itself "
        "before its Slurm job does, with exit code 75 if shapes are left.\n"
        "\n"
        "The folder then has results.md, results.csv, failed.csv, results.jsonl with all that is "
        "known of each shape, and the logs for `trireme report`.",
    .options = options,
    .trains = true,
};

/* The value of an option as it is typed; owned by the caller. */
static char *value_of(const struct tr_opt *o, const void *field)
{
    if (o->type == TR_OPT_TEXT)
        return tr_format("%s", *(char *const *)field);
    if (o->type == TR_OPT_INT)
        return tr_format("%lld", (long long)*(const int64_t *)field);
    return tr_format("%.17g", *(const double *)field);
}

static void add_option(const struct tr_opt *o, const void *field, struct tr_args *a)
{
    const struct tr_words *words = field;
    char *name = tr_format("--%s", o->name), *value;

    tr_args_add(a, name, "", false);
    free(name);
    if (o->type == TR_OPT_WORDS) {
        for (int i = 0; i < words->count; i++)
            tr_args_add(a, words->word[i], "", false);
    } else if (o->type != TR_OPT_FLAG) {
        value = value_of(o, field);
        tr_args_add(a, value, "", false);
        free(value);
    }
}

/* The options that a sweep of one of the shapes has, too: all but those of arrays and --dry-run, which shows them. */
static void own_words(const struct tr_sweep *w, struct tr_args *a)
{
    for (int i = 0; i < table.rows; i++) {
        const struct tr_opt *o = &rows[i];
        const void *field = (const char *)w + o->offset;

        if (o->kind == TR_ROW_OPT && strcmp(o->group, "array") != 0 && field != &w->dry_run &&
            !tr_options_unset(o, w) && (o->type != TR_OPT_FLAG || *(const bool *)field))
            add_option(o, field, a);
    }
}

static enum tr_status sweep(struct tr_sweep *w, struct tr_config *c, const struct tr_args *words)
{
    struct tr_args own = {0};
    enum tr_status s;

    TR_TRY(tr_start_count(c, false));
    own_words(w, &own);
    w->own = &own;
    w->words = words;
    w->base = c;
    w->versions = tr_libraries_json();
    s = tr_sweep_run(w);
    w->own = NULL;
    tr_args_release(&own);
    json_decref(w->versions);
    return s;
}

/* Of two the later would count. */
static enum tr_status check_once(int argc, char **argv)
{
    int times = 0;

    for (int i = 1; i < argc; i++)
        times += strcmp(argv[i], "--sweep") == 0;
    return times < 2 ? TR_OK
                     : TR_FAIL(TR_ECONFIG,
                               "--sweep is there %d times: say all dimensions after one, "
                               "as in --sweep seq-length=1024,2048 bf16=on,off",
                               times);
}

int tr_cmd_sweep(int argc, char **argv)
{
    struct tr_args rest = {0};
    struct tr_config c;
    struct tr_sweep w;
    enum tr_status s;

    memset(&w, 0, sizeof w);
    tr_config_init(&c);
    tr_options_init(&table, &w);
    s = check_once(argc, argv);
    if (s == TR_OK)
        s = tr_options_parse_both(&table, &w, tr_config_options(), &c, argc - 1, argv + 1, &rest);
    tr_args_settle(&rest);
    if (s == TR_OK)
        s = sweep(&w, &c, &rest);
    tr_args_release(&rest);
    tr_options_release(&table, &w);
    tr_config_release(&c);
    return tr_status_exit_code(s);
}
