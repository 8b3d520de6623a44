/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/translate.h"

#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "port/options_parts.h"
#include "token/folder.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* What a line of theirs has, and none of ours. */
static const char theirs[] = "pipeline-group-size";

enum { CONFIG_MOST = 1 << 20 };

/* config.json of the model's folder.  What cannot be read is for --load to complain about. */
static void read_model(struct tr_port *p)
{
    static const char *const depths[] = {"num_hidden_layers", "n_layer", "num_layers"};
    const char *folder = tr_port_value(p, "model-name");
    char *path, *text = NULL;
    json_t *all;

    if (!folder)
        return;
    path = tr_format("%s/config.json", folder);
    all = tr_regular_text(path, CONFIG_MOST, &text) == TR_OK ? json_loads(text, 0, NULL) : NULL;
    for (size_t i = 0; i < sizeof depths / sizeof *depths && p->known.layers == 0; i++) {
        const json_int_t n = json_integer_value(json_object_get(all, depths[i]));

        p->known.layers = n > 0 && n <= INT_MAX ? n : 0;
    }
    if (json_string_value(json_object_get(all, "model_type")))
        p->known.type = tr_format("%s", json_string_value(json_object_get(all, "model_type")));
    json_decref(all);
    free(text);
    free(path);
}

/* A name of the hub, where the folder of the model has a tokenizer. */
static void find_tokenizer(struct tr_port *p)
{
    const char *named = tr_port_value(p, "tokenizer-name"),
               *folder = tr_port_value(p, "model-name");

    if (named && folder && !tr_folder_has(named) && tr_folder_has(folder))
        p->known.tokenizer = tr_format("%s", folder);
}

static void set_words(struct tr_port *p, const struct tr_args *a)
{
    for (int i = 0; i < a->count; i++)
        tr_list_add(&p->words, a->list[i].text, strlen(a->list[i].text));
}

/* How many ranks would be there. */
static int ranks_of(const struct tr_port *p, const struct tr_port_launch *launch)
{
    const long given = tr_port_number(p, "world-size", -1);

    return tr_port_value(p, "dry-run") && given > 0 ? (int)given : launch->ranks;
}

/* ---- what is said ---- */

static void say(struct tr_list *said, char *line)
{
    tr_list_take(said, line);
}

static void say_item(struct tr_list *said, const struct tr_port_item *i)
{
    if (i->kind == TR_PORT_DONE && i->other)
        say(said, tr_format("%s is %s%s%s", i->theirs, i->ours, i->why ? ": " : "",
                            i->why ? i->why : ""));
    else if (i->kind == TR_PORT_IGNORED)
        say(said, tr_format("%s has no effect: %s", i->theirs, i->why));
}

/* "first, second, third", owned by the caller. */
static char *joined(const struct tr_list *l, const char *between)
{
    char *all = tr_format("%s", "");

    for (int i = 0; i < l->count; i++) {
        char *longer = tr_format("%s%s%s", all, i ? between : "", l->item[i]);

        free(all);
        all = longer;
    }
    return all;
}

static void say_list(struct tr_list *said, const char *before, const struct tr_list *l,
                     const char *between)
{
    char *all = joined(l, between);

    if (l->count)
        say(said, tr_format("%s%s", before, all));
    free(all);
}

/* What the line says of the launch, where it is something else and the run does not depend on it. */
static void say_launch(const struct tr_port *p, const struct tr_port_launch *launch,
                       struct tr_list *said)
{
    static const char *const variables[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"};
    const char *net = tr_port_value(p, "net-interface"), *url = tr_port_value(p, "dist-url");
    const char *job = tr_port_value(p, "job-id"), *slurm = getenv("SLURM_JOB_ID");

    for (size_t i = 0; net && i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);

        if (value && strcmp(value, net) != 0)
            say(said, tr_format("--net-interface %s and %s=%s name two interfaces", net,
                                variables[i], value));
    }
    if (net && if_nametoindex(net) == 0)
        say(said, tr_format("--net-interface %s is none of this host", net));
    if (url && launch->nodes > 1 && (strstr(url, "//127.") || strstr(url, "//localhost")))
        say(said, tr_format("--dist-url %s is an address of one host, and there are %d", url,
                            launch->nodes));
    if (job && slurm && strcmp(job, "0") != 0 && strcmp(job, slurm) != 0)
        say(said, tr_format("--job-id %s is not the number of this job, %s", job, slurm));
}

/* ---- words ---- */

/* The words of a line of ours, with the place of theirs. */
static enum tr_status add_line(struct tr_args *to, const char *line, const char *where)
{
    struct tr_args words = {0};
    enum tr_status s = tr_args_text(&words, line);

    for (int i = 0; i < words.count && s == TR_OK; i++)
        tr_args_add(to, words.list[i].text, where, false);
    tr_args_release(&words);
    return s;
}

static void add_same(struct tr_args *to, const struct tr_args *a, int from, int end)
{
    for (int i = from; i < end; i++)
        tr_args_add(to, a->list[i].text, a->list[i].where, a->list[i].firm);
}

/* The lines that no option of theirs asked for. */
static enum tr_status add_added(const struct tr_port *p, struct tr_args *to, const char *where)
{
    for (int i = 0; i < p->added.count; i++)
        TR_TRY(add_line(to, p->added.item[i], where));
    return TR_OK;
}

static enum tr_status our_words(const struct tr_port *p, const struct tr_args *a,
                                struct tr_args *to)
{
    for (int i = 0; i < p->items; i++) {
        const struct tr_port_item *item = &p->item[i];
        if (item->kind == TR_PORT_DONE && item->other)
            TR_TRY(add_line(to, item->ours, a->list[item->at].where));
        else if (item->kind == TR_PORT_DONE)
            add_same(to, a, item->at, item->end);
    }
    return add_added(p, to, "");
}

/* Options that will not do: the sentence of one, a line for each of several. */
static enum tr_status wrong(const struct tr_port *p, const struct tr_args *a)
{
    const int n = p->count[TR_PORT_REFUSED] + p->count[TR_PORT_UNKNOWN] + p->count[TR_PORT_OPEN];

    for (int i = 0; i < p->items && n > 0; i++) {
        const struct tr_port_item *item = &p->item[i];
        const char *why = item->why ? item->why : "give a whole number";

        if (item->kind != TR_PORT_REFUSED && item->kind != TR_PORT_UNKNOWN &&
            item->kind != TR_PORT_OPEN)
            continue;
        if (n == 1)
            return TR_FAIL(TR_ECONFIG, "%s: %s%s", item->theirs, why, a->list[item->at].where);
        tr_log_rank0(TR_LOG_ERROR, "%s: %s%s", item->theirs, why, a->list[item->at].where);
    }
    if (n == 0)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG, "%d options will not do, see above; nothing was started", n);
}

static void replace(struct tr_args *a, struct tr_args *by)
{
    tr_args_release(a);
    *a = *by;
    *by = (struct tr_args){0};
}

bool tr_port_is_theirs(const struct tr_args *a)
{
    struct tr_port p = {.dialect = TR_DIALECT_MEGATRON};
    bool is;

    set_words(&p, a);
    is = tr_port_value(&p, theirs) != NULL;
    tr_port_release(&p);
    return is;
}

/* A line of theirs. */
static enum tr_status translate(struct tr_port *p, struct tr_args *a,
                                const struct tr_port_launch *launch, struct tr_list *said)
{
    static const char *const programs[] = {
        [TR_DIALECT_COCKTAIL] = "CocktailSGD", [TR_DIALECT_ACSGD] = "AC-SGD"};
    struct tr_args ours = {0};
    enum tr_status s;

    p->dialect = tr_port_guess(p);
    p->known.ranks = ranks_of(p, launch);
    read_model(p);
    find_tokenizer(p);
    tr_port_convert(p);
    TR_TRY(wrong(p, a));
    s = our_words(p, a, &ours);
    if (s == TR_OK) {
        say(said,
            tr_format("--%s: these options are read as those of %s", theirs, programs[p->dialect]));
        for (int i = 0; i < p->items; i++)
            say_item(said, &p->item[i]);
        say_list(said, "without an option it does: ", &(struct tr_list){p->habits, p->added.item},
                 " ");
        replace(a, &ours);
    }
    tr_args_release(&ours);
    return s;
}

enum tr_status tr_port_translate(struct tr_args *a, const struct tr_port_launch *launch,
                                 struct tr_list *said)
{
    struct tr_port p = {.dialect = TR_DIALECT_MEGATRON,
                        .known = {.runs = true, .ranks = launch->ranks}};
    enum tr_status s;

    set_words(&p, a);
    if (tr_port_value(&p, theirs)) {
        s = translate(&p, a, launch, said);
    } else {
        tr_port_add_variables(&p);
        s = add_added(&p, a, " (environment)");
    }
    if (s == TR_OK) {
        say_list(said, "environment: ", &p.taken, "; ");
        if (p.dialect != TR_DIALECT_MEGATRON)
            say_launch(&p, launch, said);
    }
    tr_port_release(&p);
    return s;
}

enum tr_status tr_port_check_ids(int argc, char **argv, int rank, int local_rank)
{
    struct tr_port p = {.dialect = TR_DIALECT_MEGATRON};
    enum tr_status s = TR_OK;
    const char *gpu, *given;
    char own[32], local[32];

    for (int i = 0; i < argc; i++)
        tr_list_add(&p.words, argv[i], strlen(argv[i]));
    snprintf(own, sizeof own, "%d", rank);
    snprintf(local, sizeof local, "%d", local_rank);
    given = tr_port_value(&p, "rank");
    gpu = tr_port_value(&p, "cuda-id");
    if (tr_port_value(&p, theirs) && given && strcmp(given, own) != 0)
        s = TR_FAIL(TR_ECONFIG,
                    "--rank %s was given to rank %s of this launch: one command starts all ranks "
                    "(srun -n, mpiexec -n), "
                    "which are counted for it: leave --rank out",
                    given, own);
    else if (tr_port_value(&p, theirs) && gpu && strcmp(gpu, local) != 0)
        tr_log(
            TR_LOG_WARNING,
            "--cuda-id %s: rank %s has number %s on its host, and takes that GPU if there is one",
            gpu, own, local);
    tr_port_release(&p);
    return s;
}
