/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"
#include "port/options_parts.h"
#include "util/file.h"
#include "util/text.h"

/* Conversions of CocktailSGD's and AC-SGD's options that name a model, a tokenizer, data or ranks. */

static void done(struct tr_port *p, const struct tr_port_option *o, const char *name,
                 const char *value, const char *why)
{
    tr_port_add_ours(p, o, name, &value, 1, why);
}

static void nothing(struct tr_port *p, enum tr_port_kind kind, const struct tr_port_option *o,
                    const char *why)
{
    tr_port_add_item(p, kind, o, NULL, why ? tr_format("%s", why) : NULL);
}

/* Are the weights those of the folder --model-name? */
static bool pretrained(const struct tr_port *p)
{
    return tr_port_value(p, "model-name") && tr_port_true(p, "load-pretrained-model", true);
}

/* Does a run go on from a checkpoint of --load-checkpoint-path, which is not that of --checkpoint-path? */
static bool goes_on_elsewhere(const struct tr_port *p)
{
    const char *from = tr_port_value(p, "load-checkpoint-path");
    const char *to = tr_port_value(p, "checkpoint-path");

    return from && tr_port_true(p, "load-checkpoint", true) && !(to && strcmp(from, to) == 0);
}

static void convert_model(struct tr_port *p, const struct tr_port_option *o)
{
    const char *save = tr_port_value(p, "checkpoint-path");

    if (o->n != 1) {
        nothing(p, TR_PORT_REFUSED, o, "it takes the folder of a model");
    } else if (goes_on_elsewhere(p)) {
        done(p, o, "load-config", o->value[0], "its weights are those of --load-checkpoint-path");
    } else if (pretrained(p)) {
        done(p, o, "load", o->value[0], "a run begins with its weights");
    } else {
        done(p, o, "load-config", o->value[0], "a run begins with random weights");
        if (save && tr_port_true(p, "load-checkpoint", true))
            tr_port_add_line(p, "load", save);
    }
}

static void convert_weights(struct tr_port *p, const struct tr_port_option *o, const char *why)
{
    const bool yes = tr_port_true(p, "load-pretrained-model", true);

    nothing(p, yes && !tr_port_value(p, "model-name") ? TR_PORT_REFUSED : TR_PORT_GIVEN, o, why);
}

static void convert_resume(struct tr_port *p, const struct tr_port_option *o, const char *why)
{
    if (tr_port_true(p, "load-checkpoint", true) || !pretrained(p))
        nothing(p, TR_PORT_GIVEN, o, why);
    else
        tr_port_add_ours(p, o, "finetune", NULL, 0, "whatever is in --save, it begins anew");
}

static void convert_resume_from(struct tr_port *p, const struct tr_port_option *o)
{
    if (!tr_port_true(p, "load-checkpoint", true))
        nothing(p, TR_PORT_IGNORED, o, "--load-checkpoint is not true");
    else if (!goes_on_elsewhere(p))
        nothing(p, TR_PORT_GIVEN, o, NULL);
    else
        tr_port_add_ours(p, o, "load", o->value, o->n, NULL);
}

bool tr_port_classifies(const struct tr_port *p)
{
    static const char *const tasks[] = {"cola", "qnli"};
    const char *task = tr_port_value(p, "task-name");

    for (size_t i = 0; task && i < sizeof tasks / sizeof *tasks; i++)
        if (strcasecmp(task, tasks[i]) == 0)
            return true;
    return p->program && strstr(p->program, "deberta");
}

/* Datasets hold tokens; tasks are text. */
static void convert_tokenizer(struct tr_port *p, const struct tr_port_option *o,
                              const struct tr_port_row *row)
{
    const char *folder = p->known.tokenizer ? p->known.tokenizer : o->n == 1 ? o->value[0] : NULL;

    if (!folder || !tr_port_value(p, "task-name") ||
        (p->dialect != TR_DIALECT_COCKTAIL && !tr_port_classifies(p))) {
        nothing(p, TR_PORT_IGNORED, o, row->why);
        return;
    }
    tr_port_add_line(p, "tokenizer-type", "HuggingFaceTokenizer");
    done(p, o, row->ours, folder,
         p->known.tokenizer
             ? "there is no such folder, and nothing is downloaded: that of --model-name is taken"
             : NULL);
}

/* "(0,1)": a tuple of Python. */
static void convert_bare(struct tr_port *p, const struct tr_port_option *o, const char *name)
{
    const size_t n = o->n == 1 ? strlen(o->value[0]) : 0;
    char *bare;

    if (n < 2 || o->value[0][0] != '(' || o->value[0][n - 1] != ')') {
        tr_port_add_ours(p, o, name, o->value, o->n, NULL);
        return;
    }
    bare = tr_format("%.*s", (int)n - 2, o->value[0] + 1);
    done(p, o, name, bare, NULL);
    free(bare);
}

/* With --dry-run nothing was launched. */
static void convert_ranks(struct tr_port *p, const struct tr_port_option *o, const char *why)
{
    const long ranks = tr_port_number(p, "world-size", -1);

    if (p->known.runs && tr_port_value(p, "dry-run"))
        tr_port_add_ours(p, o, "world-size", o->value, o->n, NULL);
    else if (p->known.runs && ranks != p->known.ranks)
        tr_port_add_item(
            p, TR_PORT_REFUSED, o, NULL,
            tr_format(
                "there %s %d rank%s in this launch: start as many with srun -n or mpiexec -n, by "
                "one command without --rank",
                p->known.ranks == 1 ? "is" : "are", p->known.ranks, tr_plural(p->known.ranks)));
    else
        nothing(p, p->known.runs ? TR_PORT_GIVEN : TR_PORT_IGNORED, o, why);
}

static void convert_replicas(struct tr_port *p, const struct tr_port_option *o, const char *why)
{
    const long stages = tr_port_number(p, "pipeline-group-size", 1);
    const long replicas = tr_port_number(p, "data-group-size", -1);

    if (p->known.runs && (stages < 1 || replicas < 1 || replicas > p->known.ranks ||
                          stages != p->known.ranks / replicas || p->known.ranks % replicas != 0))
        tr_port_add_item(
            p, TR_PORT_REFUSED, o, NULL,
            tr_format(
                "%ld replica%s of %ld stage%s are %ld ranks, and there %s %d: make --world-size, "
                "--pipeline-group-size and --data-group-size agree",
                replicas, tr_plural(replicas), stages, tr_plural(stages), replicas * stages,
                p->known.ranks == 1 ? "is" : "are", p->known.ranks));
    else
        nothing(p, p->known.runs ? TR_PORT_GIVEN : TR_PORT_IGNORED, o, why);
}

/* As `trireme data build --output-prefix data/NAME-train` calls it. */
static void convert_dataset(struct tr_port *p, const struct tr_port_option *o,
                            const struct tr_port_row *row)
{
    char *train, *valid;

    if (o->n != 1 || tr_port_classifies(p)) {
        tr_port_add_ours(p, o, o->name, o->value, o->n, NULL);
        return;
    }
    train = tr_format("data/%s-train_text_document", o->value[0]);
    valid = tr_format("data/%s-test_text_document", o->value[0]);
    done(p, o, row->ours, train, row->why);
    tr_port_add_line(p, "valid-data-path", valid);
    free(train);
    free(valid);
}

/* Their names of families, and what config.json has for model_type. */
static const struct type {
    const char *theirs, *config;
} types[] = {
    {"gptneox", "gpt_neox"}, {"gptneo", "gpt_neo"}, {"gptj", "gptj"},
    {"opt", "opt"},          {"llama", "llama"},    {"gpt2", "gpt2"},
};

static void convert_type(struct tr_port *p, const struct tr_port_option *o)
{
    const char *name = o->n == 1 ? o->value[0] : "";

    name += strncmp(name, "flash_", 6) == 0 ? 6 : 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].theirs) != 0)
            continue;
        if (p->known.type && strcmp(p->known.type, types[i].config) != 0)
            tr_port_add_item(
                p, TR_PORT_REFUSED, o, NULL,
                tr_format("config.json of --model-name says %s: give another folder, or leave "
                          "--model-type out",
                          p->known.type));
        else
            nothing(p, TR_PORT_GIVEN, o, NULL);
        return;
    }
    nothing(p, TR_PORT_REFUSED, o, "it is none of opt, gptj, gptneox, gpt2, llama");
}

void tr_port_convert_folder(struct tr_port *p, const struct tr_port_option *o,
                            const struct tr_port_row *row)
{
    switch (row->how) {
    case MODEL:
        convert_model(p, o);
        break;
    case WEIGHTS:
        convert_weights(p, o, row->why);
        break;
    case RESUME:
        convert_resume(p, o, row->why);
        break;
    case RESUME_FROM:
        convert_resume_from(p, o);
        break;
    case TOKENIZER:
        convert_tokenizer(p, o, row);
        break;
    case BARE:
        convert_bare(p, o, row->ours);
        break;
    case RANKS:
        convert_ranks(p, o, row->why);
        break;
    case REPLICAS:
        convert_replicas(p, o, row->why);
        break;
    case DATASET:
        convert_dataset(p, o, row);
        break;
    default: /* FAMILY */
        convert_type(p, o);
    }
}

/* Stages of n layers hold a model of that depth if all but the last one are full, and the last one has some. */
void tr_port_convert_depth(struct tr_port *p, const struct tr_port_option *o,
                           const struct tr_port_row *row)
{
    const long n = tr_port_number(p, o->name, -1);
    const long stages = tr_port_number(p, "pipeline-group-size", 1);
    const long depth = (long)p->known.layers, last = depth - n * (stages - 1);
    char *text;

    if (n < 1 || stages < 1 || last < 1 || last > n) {
        tr_port_add_item(
            p, TR_PORT_REFUSED, o, NULL,
            tr_format(
                "%ld stage%s of so many layers %s not hold the %ld layers that config.json of "
                "--model-name has: %ld on each GPU would",
                stages, tr_plural(stages), stages == 1 ? "does" : "do", depth,
                stages > 0 ? (depth + stages - 1) / stages : depth));
        return;
    }
    text = tr_format("%ld", depth);
    done(p, o, row->ours, text, row->why);
    free(text);
    if (last == n)
        return;
    text = tr_format("%ld*%ld,%ld", n, stages - 1, last);
    tr_port_add_line(p, "pipeline-model-parallel-layout", text);
    free(text);
}
