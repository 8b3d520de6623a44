/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/plan_calibrate.h"
#include "config/words.h"
#include "plan/pareto.h"
#include "sweep/space.h"
#include "train/start.h"
#include "util/file.h"
#include "util/log.h"

struct ask {
    bool json, zero, search;
    char *machine, *gpus, *batches, *trace;
    struct tr_words keep, fit;
    int64_t fit_mib;
};

#define OPT(type_, field_, name_, initial_, help_)                                  \
    {                                                                               \
        .kind = TR_ROW_OPT, .group = "plan", .type = TR_OPT_##type_, .name = name_, \
        .offset = offsetof(struct ask, field_), .initial = initial_, .help = help_  \
    }

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "plan", .group = "plan"},
    OPT(TEXT, machine, "machine", NULL,
        "machine profile, its name or a file; without one there is no verdict and no time"),
    OPT(FLAG, zero, "zero", NULL,
        "also print what DeepSpeed estimates for ZeRO of stage 2 and 3, and shards of whole "
        "tensors"),
    OPT(INT, fit_mib, "fit-mib", NULL,
        "also name the changes with which it would fit GPUs of so many MiB, whatever the machine "
        "has"),
    OPT(WORDS, fit, "fit", NULL,
        "logs of runs, of trireme or Megatron-LM, or folders of those: print the profile of "
        "--machine with their constants, and its error on runs left out"),
    OPT(FLAG, search, "search", NULL,
        "search all options that change memory or speed; print the runs that no other beats, and "
        "why neighbours of the fastest were rejected"),
    OPT(WORDS, keep, "search-keep", NULL,
        "options whose values --search keeps as they are, without their dashes, as in "
        "micro-batch-size zero-stage"),
    OPT(TEXT, gpus, "search-gpus", NULL,
        "numbers of GPUs to search, 64,128, or 64-512, which doubles; --world-size unless given"),
    OPT(TEXT, batches, "search-global-batch", NULL,
        "global batch sizes to search, a list like that; --global-batch-size unless given"),
    OPT(TEXT, trace, "plan-trace", NULL,
        "file for the timeline of a rank of each stage, as `trireme train --trace` writes it; "
        "`trireme report --timeline` draws it"),
    OPT(FLAG, json, "json", NULL, "print one JSON object: all stages, bytes and seconds"),
};

static const struct tr_options *table(void)
{
    static const struct tr_options all = {"plan", rows, sizeof rows / sizeof *rows, NULL, 0, NULL};

    return &all;
}

const struct tr_doc tr_doc_plan = {
    .synopsis =
        "trireme plan [--machine NAME|FILE] [--fit-mib MIB] [--zero] [--search] [--json] [@file] "
        "[--option value ...]\n"
        "trireme plan --fit LOG|FOLDER... --machine NAME|FILE [--json] [@file] [--option "
        "value ...]",
    .about =
        "Plan a run without a job, MPI or a GPU.  A plan has the memory of every pipeline stage, "
        "whether it fits the GPU, and the time of an iteration with its breakdown.  It has "
        "checkpoints, GPU-hours and jobs, and other layouts of the same GPUs that fit.  Options "
        "are those of `trireme train`; --world-size is the number of GPUs, the fewest that hold "
        "the model unless given.\n"
        "\n"
        "    trireme plan --machine jean-zay-v100-16g @study-30b.args --fp16 --vocab-size 50257\n"
        "\n"
        "Memory is counted by the functions that allocate when training begins.  It is compared "
        "with what Megatron-LM of 2021 would hold, with the fragmentation of PyTorch's caching "
        "allocator.  A rank fits below 95 % of GPU memory, is tight above, and the exit code is 69 "
        "where it does not fit.\n"
        "\n"
        "--fit adapts the constants of a profile to runs that you have, and prints the new "
        "profile, which --machine takes.  Layout, model and batch come from the logs; options of "
        "training are for what logs do not say.\n"
        "\n"
        "    trireme plan --fit runs/*.log --machine jean-zay-v100-32g >ours.conf\n"
        "\n"
        "Time is a cost model: the constants of a machine profile over the pipeline schedule that "
        "would run.  Where measured runs were compared, a plan gives the range in which eight of "
        "ten of them lay.  A profile is a text file of lines \"key = value\".  A wrong name lists "
        "those that come with the program; docs/machines.md tells how to write one:\n"
        "\n"
#define TEXT(field, key, help) "    " key ": " help "\n"
#define KIND(field, key, initial, help) "    " key ": " help "\n"
#define COUNT(field, key, least, most, help) "    " key ": " help "\n"
#define NUMBER(field, key, initial, least, most, help) "    " key ": " help "\n"
#include "config/machine.def"
    ,
    .options = table,
    .trains = true,
};

static enum tr_status check(const struct tr_config *c)
{
    if (!c->use_checkpoint_args)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "a plan takes no options from a checkpoint: in place of --use-checkpoint-args "
                   "give those that `trireme ckpt show` has, or ask `trireme train --dry-run`");
}

/* Ranks of a node lie side by side, so its groups are whole where they divide it. */
static void warn(const struct tr_plan *p)
{
    const int node = p->machine.gpus_per_node, w = p->shape.layout.w;

    if (p->has_machine && w > 1 && (w > node || node % w != 0))
        tr_log(TR_LOG_WARNING,
               "--tensor-model-parallel-size %d spans nodes of %s with %d %s: the all-reduces of "
               "every layer would cross the network between nodes; take a divisor of %d",
               w, p->machine.name, node, tr_processor_noun(tr_plan_processor(p), node), node);
}

static enum tr_status read_list(const char *option, const char *list, int64_t *value, int *count)
{
    *count = list ? tr_sweep_numbers(list, value, TR_PARETO_NUMBERS) : 0;
    if (!list || *count > 0)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--%s '%s' is no list of up to %d whole numbers from 1: say 64,128, or 64-512, "
                   "which is 64,128,256,512",
                   option, list, TR_PARETO_NUMBERS);
}

static enum tr_status read_keep(const struct ask *a, struct tr_pareto_ask *out)
{
    for (int i = 0; i < a->keep.count; i++) {
        bool known = false;

        for (int d = 0; d < TR_PARETO_DIMS; d++) {
            out->fixed[d] = out->fixed[d] || tr_pareto_says(d, a->keep.word[i]);
            known = known || tr_pareto_says(d, a->keep.word[i]);
        }
        if (!known)
            return TR_FAIL(TR_ECONFIG,
                           "--search-keep %s: a search does not change it; what it changes is in "
                           "docs/plan.md, as in --search-keep micro-batch-size",
                           a->keep.word[i]);
    }
    return TR_OK;
}

static enum tr_status search(const struct ask *a, const struct tr_config *c)
{
    struct tr_pareto_ask ask = {.everything = false};
    struct tr_machine machine;
    struct tr_plan base = {0};
    struct tr_pareto found;
    enum tr_status s;

    if (!a->machine)
        return TR_FAIL(TR_ECONFIG, "--search compares times and memory on a machine: give its "
                                   "profile with --machine, as in --machine jean-zay-v100-32g");
    TR_TRY(read_list("search-gpus", a->gpus, ask.gpus, &ask.gpu_counts));
    TR_TRY(read_list("search-global-batch", a->batches, ask.batches, &ask.batch_counts));
    TR_TRY(read_keep(a, &ask));
    TR_TRY(tr_machine_find(a->machine, &machine));
    s = tr_plan_itself(c, &machine, &base);
    if (s == TR_OK)
        s = tr_pareto_search(&base, &ask, &found);
    if (s == TR_OK && a->json) {
        json_t *all = tr_pareto_json(&base, &found);

        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        putchar('\n');
        json_decref(all);
    } else if (s == TR_OK) {
        tr_pareto_text(&base, &found, stdout);
    }
    tr_plan_release(&base);
    return s;
}

/* What would be ignored. */
static enum tr_status check_asked(const struct ask *a)
{
    if (a->fit.count == 1 && strspn(a->fit.word[0], "0123456789") == strlen(a->fit.word[0]))
        return TR_FAIL(TR_ECONFIG,
                       "--fit takes logs of runs, and %s is a number: what would fit GPUs of so "
                       "many MiB is asked "
                       "for by --fit-mib %s",
                       a->fit.word[0], a->fit.word[0]);
    if (a->fit.count > 0 && (a->search || a->zero || a->fit_mib != TR_UNSET_INT))
        return TR_FAIL(TR_ECONFIG,
                       "--fit prints a profile and no plan, so --%s has nothing to say: plan "
                       "with that profile afterwards",
                       a->search ? "search"
                       : a->zero ? "zero"
                                 : "fit-mib");
    if (!a->search && (a->gpus || a->batches || a->keep.count > 0))
        return TR_FAIL(TR_ECONFIG,
                       "--search-gpus, --search-global-batch and --search-keep are about "
                       "--search: give it, too");
    if (a->trace && (!a->machine || a->search || a->fit.count > 0))
        return TR_FAIL(TR_ECONFIG,
                       "--plan-trace is the timeline of one plan on a machine: give --machine, and "
                       "leave --search and --fit out");
    if (a->search && (a->zero || a->fit_mib != TR_UNSET_INT))
        return TR_FAIL(TR_ECONFIG,
                       "--search prints runs and no plan of one, so --%s has nothing to "
                       "say: leave one of them out",
                       a->zero ? "zero" : "fit-mib");
    return TR_OK;
}

static enum tr_status write_trace(const char *path, const struct tr_plan *p)
{
    enum tr_status s, closed;
    FILE *f;

    TR_TRY(tr_output_open(path, &f));
    s = tr_plan_trace(p, f);
    closed = tr_output_close(path, f);
    return s == TR_OK ? closed : s;
}

static enum tr_status tell(const struct ask *a, const struct tr_config *c)
{
    struct tr_machine machine;
    struct tr_plan p = {0};
    enum tr_status s;

    if (a->fit_mib != TR_UNSET_INT && (!a->machine || a->fit_mib < 1))
        return TR_FAIL(TR_ECONFIG, "--fit-mib is MiB of a GPU, from 1, and orders changes by their "
                                   "time on a machine: give it with "
                                   "--machine, as in --fit-mib 16384 --machine jean-zay-v100-32g");
    if (a->machine)
        TR_TRY(tr_machine_find(a->machine, &machine));
    s = tr_plan_make(c, a->machine ? &machine : NULL, &p);
    if (s == TR_OK)
        warn(&p);
    if (s == TR_OK && a->fit_mib != TR_UNSET_INT)
        tr_plan_changes_of(&p, (double)a->fit_mib * 1048576.0);
    if (s == TR_OK && a->trace)
        s = write_trace(a->trace, &p);
    if (s == TR_OK && a->json) {
        json_t *all = tr_plan_json(&p);

        if (a->zero) {
            json_object_set_new(all, "zero", tr_plan_zero_json(&p));
            json_object_set_new(all, "whole_tensors", tr_plan_whole_json(&p));
        }
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        putchar('\n');
        json_decref(all);
    } else if (s == TR_OK) {
        tr_plan_text(&p, stdout);
        if (a->zero)
            tr_plan_zero_text(&p, stdout);
    }
    if (s == TR_OK)
        s = tr_plan_fits(&p);
    tr_plan_release(&p);
    return s;
}

int tr_cmd_plan(int argc, char **argv)
{
    struct tr_args words = {0};
    struct tr_config c;
    struct ask a;
    enum tr_status s;

    tr_config_init(&c);
    tr_options_init(table(), &a);
    s = tr_options_parse_both(table(), &a, tr_config_options(), &c, argc - 1, argv + 1, &words);
    if (s == TR_OK)
        s = check(&c);
    if (s == TR_OK)
        s = check_asked(&a);
    if (s == TR_OK && a.fit.count == 0)
        s = tr_start_count(&c, false);
    if (s == TR_OK)
        s = a.fit.count > 0 ? tr_plan_calibrate(&a.fit, &words, a.machine, a.json)
            : a.search      ? search(&a, &c)
                            : tell(&a, &c);
    tr_args_release(&words);
    tr_options_release(table(), &a);
    tr_config_release(&c);
    return tr_status_exit_code(s);
}
