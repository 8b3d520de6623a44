/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "util/file.h"

/* A directive without a comment behind it: the length of what counts. */
static int useful(const char *text)
{
    int n = (int)strlen(text);

    for (int i = 1; i < n; i++) {
        if (text[i] == '#' && (text[i - 1] == ' ' || text[i - 1] == '\t'))
            n = i;
    }
    while (n > 0 && strchr(" \t\r", text[n - 1]))
        n--;
    return n;
}

/* What stands behind "--name=" or "--name " in any directive; NULL if nothing does. */
static const char *directive(const struct tr_port *p, const char *name)
{
    const size_t n = strlen(name);

    for (int i = 0; i < p->script.directives.count; i++) {
        const char *text = p->script.directives.item[i], *at = text;

        while ((at = strstr(at, name))) {
            const bool begins = at == text || at[-1] == ' ' || at[-1] == '\t';

            if (begins && (at[n] == '=' || at[n] == ' ' || at[n] == '\t') &&
                at - text < useful(text))
                return at + n + 1 + strspn(at + n + 1, " \t");
            at += n;
        }
    }
    return NULL;
}

/* A count at the start of a text, 0 if there is none. */
static int count(const char *text)
{
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;

    return text && end > text && n > 0 && n <= INT_MAX / 65536 ? (int)n : 0;
}

/* The number behind one of the launcher's options, in either spelling. */
static int launched(const struct tr_port *p, const char *name)
{
    const size_t n = strlen(name);

    for (int i = 0; i < p->launcher.count; i++) {
        char *word = tr_format("%s", p->launcher.item[i]);
        int found = 0;

        for (char *s = word + 2 * (strncmp(word, "--", 2) == 0); *s; s++)
            *s = *s == '-' ? '_' : *s;
        if (strncmp(word, name, n) == 0 && word[n] == '=')
            found = count(word + n + 1);
        else if (strcmp(word, name) == 0 && i + 1 < p->launcher.count)
            found = count(p->launcher.item[i + 1]);
        free(word);
        if (found)
            return found;
    }
    return 0;
}

static int gpus_in(const char *text)
{
    const char *colon = text && strncmp(text, "gpu:", 4) == 0 ? text + 4 : NULL;

    if (colon && count(colon) == 0 && strchr(colon, ':'))
        colon = strchr(colon, ':') + 1;
    return count(colon);
}

/* The first of these that is a number. */
static int first_of(const int *n, int several)
{
    for (int i = 0; i < several; i++) {
        if (n[i])
            return n[i];
    }
    return 0;
}

static int nodes_of(const struct tr_port *p)
{
    const int n[] = {count(directive(p, "--nodes")), count(directive(p, "-N")),
                     launched(p, "--nnodes"), launched(p, "--num_nodes")};

    return first_of(n, 4);
}

static int tasks_of(const struct tr_port *p)
{
    const int n[] = {launched(p, "--nproc_per_node"), launched(p, "--num_gpus"),
                     gpus_in(directive(p, "--gres")), count(directive(p, "--gpus-per-node")),
                     count(directive(p, "--ntasks-per-node"))};

    return first_of(n, 5);
}

/* How many ranks their own options say. */
static int world_of(const struct tr_port *p)
{
    for (int i = 0; i + 1 < p->words.count; i++) {
        if (strcmp(p->words.item[i], "--world-size") == 0)
            return count(p->words.item[i + 1]);
    }
    return 0;
}

/* Directives that the job file has of its own. */
static bool replaced(const char *text)
{
    static const char *const names[] = {"--nodes", "-N", "--ntasks-per-node", "--ntasks", "-n"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);

        if (strncmp(text, names[i], n) == 0 && strchr("= \t", text[n]))
            return true;
    }
    return false;
}

/* The words of a directive but for those that the job file has of its own. */
static void add_directive(struct tr_gathering *g, const char *text, const char *end)
{
    struct tr_gathering line = {0};
    bool skip = false;

    for (const char *next; text < end; text = next + strspn(next, " \t")) {
        next = text + strcspn(text, " \t");
        if (text[0] == '-')
            skip = replaced(text);
        if (!skip) {
            tr_gather(&line, " ", 1);
            tr_gather(&line, text, (size_t)(next - text));
        }
    }
    if (line.n) {
        tr_gather(g, "#SBATCH", 7);
        tr_gather(g, line.text, line.n);
        tr_gather(g, "\n", 1);
    }
    free(line.text);
}

static void add_directives(const struct tr_port *p, struct tr_gathering *g)
{
    for (int i = 0; i < p->script.directives.count; i++) {
        const char *all = p->script.directives.item[i], *text = all;

        /* "<SLURM OPTIONS> --exclusive": what stands behind a placeholder. */
        for (const char *s = all; *s; s++)
            text = *s == TR_MARK_CLOSE ? s + 1 + strspn(s + 1, " ") : text;
        const int n = useful(text);

        if (n == 0 || text[0] != '-')
            continue;
        add_directive(g, text, text + n);
    }
}

enum tr_status tr_port_job(const struct tr_port *p, const char *file, const char *args, int ranks,
                           char **out)
{
    int nodes = nodes_of(p), tasks = tasks_of(p), world = world_of(p);
    struct tr_gathering g = {0};
    char *text;

    ranks = ranks > 0 ? ranks : nodes && tasks ? nodes * tasks : world;
    if (ranks < 1)
        return TR_FAIL(TR_ECONFIG,
                       "%s: neither #SBATCH lines nor the launcher say how many GPUs there are, "
                       "which the job file has to: add --ranks N",
                       file);
    if (!tasks || tasks > ranks)
        tasks = ranks < 4 ? ranks : 4;
    nodes = (ranks + tasks - 1) / tasks;
    text =
        tr_format("#!/bin/bash\n#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=%d\n", nodes, tasks);
    tr_gather(&g, text, strlen(text));
    free(text);
    add_directives(p, &g);
    if (!directive(p, "--job-name") && !directive(p, "-J"))
        tr_gather(&g, "#SBATCH --job-name=ported\n", 26);
    char *quoted = tr_quoted(args);
    text = tr_format("#\n# Made by `trireme port`: %d ranks, a GPU each.  Checkpoints go to RUN, "
                     "see jobs/lib.sh.\n"
                     ". \"${TRIREME_JOBS:-jobs}/lib.sh\" || exit 69\n"
                     "job %d \"$@\"\n"
                     "precision=    # what the argument file says\n"
                     "train @%s\n",
                     ranks, ranks, quoted);
    tr_gather(&g, text, strlen(text));
    free(quoted);
    free(text);
    *out = tr_gathered(&g);
    return TR_OK;
}
