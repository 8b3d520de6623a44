/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/array.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sweep/command.h"
#include "sweep/guard.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* Seconds for sbatch to answer, and between SIGTERM and SIGKILL if it does not. */
static const double PATIENCE = 120.0, GRACE = 5.0;

enum { ANSWER_MOST = 1 << 20 };

/* Tasks of one array: those of so many ranks. */
struct array {
    const struct tr_sweep *w;
    const struct tr_sweep_place *place;
    const struct tr_sweep_task *task; /* [count], of all numbers of ranks */
    int count, ranks;
};

static int tasks_of(const struct array *a)
{
    int n = 0;

    for (int i = 0; i < a->count; i++)
        n += a->task[i].shape->ranks == a->ranks;
    return n;
}

static double seconds_of(const struct array *a)
{
    double most = 0.0;

    for (int i = 0; i < a->count; i++)
        if (a->task[i].shape->ranks == a->ranks)
            most = fmax(most, a->task[i].seconds);
    return most;
}

static void put_header(const struct array *a, FILE *f)
{
    const int nodes = tr_sweep_nodes(a->place, a->ranks), per_node = a->place->per_node;
    char here[PATH_MAX];

    fprintf(f, "#!/bin/bash\n#SBATCH --job-name=sweep\n#SBATCH --array=0-%d", tasks_of(a) - 1);
    if (a->w->array_limit != TR_UNSET_INT)
        fprintf(f, "%%%lld", (long long)a->w->array_limit);
    fprintf(f, "\n#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=%d\n", nodes,
            per_node > 0 && per_node < a->ranks ? per_node : a->ranks);
    fprintf(f, "#SBATCH --time=%.0f\n", ceil(seconds_of(a) / 60.0));
    if (getcwd(here, sizeof here)) {
        fputs("#SBATCH --chdir=", f);
        tr_sweep_put_word(f, here);
        putc('\n', f);
    }
    fputs("#SBATCH --output=", f);
    tr_sweep_put_word(f, a->w->folder);
    fputs("/array-%A_%a.out\n", f);
}

/* What follows counts over what stands before. */
static void put_options(const struct array *a, FILE *f)
{
    const struct tr_words *words = &a->w->array_options;

    for (int i = 0; i < words->count; i++) {
        char *option = tr_format("--%s", words->word[i]);

        fputs("#SBATCH ", f);
        tr_sweep_put_word(f, option);
        putc('\n', f);
        free(option);
    }
}

static void put_words(const struct tr_args *a, FILE *f)
{
    for (int i = 0; i < a->count; i++) {
        tr_sweep_put_word(f, a->list[i].text);
        putc(' ', f);
    }
}

static void put_command(const struct array *a, FILE *f)
{
    struct tr_args self = {0};

    fputs("#\n# One array task for each shape, by trireme sweep --sweep-array; trireme sweep "
          "--sweep-collect has the tables.\nshapes=(\n",
          f);
    for (int i = 0; i < a->count; i++)
        if (a->task[i].shape->ranks == a->ranks)
            fprintf(f, "    %s\n", a->task[i].shape->name);
    fputs(")\nexec ", f);
    tr_sweep_add_self(&self);
    put_words(&self, f);
    fputs("sweep ", f);
    put_words(a->w->own, f);
    if (!a->w->list[TR_SWEEP_RANKS])
        fprintf(f, "--ranks %d ", a->ranks);
    fputs("--sweep-only \"${shapes[SLURM_ARRAY_TASK_ID]}\" ", f);
    put_words(a->w->words, f);
    putc('\n', f);
    tr_args_release(&self);
}

static char *text_of(const struct array *a, size_t *size)
{
    char *text;
    FILE *f = open_memstream(&text, size);

    TR_ASSERT(f);
    put_header(a, f);
    put_options(a, f);
    put_command(a, f);
    fclose(f);
    return text;
}

/* FILE, or of several FILE with "-ranks16" before what stands behind its last dot; owned by the caller. */
static char *path_of(const struct array *a, bool several)
{
    const char *file = a->w->array, *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file, *dot = strrchr(name, '.');
    const int stem = dot && dot != name ? (int)(dot - file) : (int)strlen(file);

    return several ? tr_format("%.*s-ranks%d%s", stem, file, a->ranks, file + stem)
                   : tr_format("%s", file);
}

static enum tr_status submit(const struct array *a, const char *path)
{
    char *log = tr_format("%s/sbatch.log", a->w->folder), *said = NULL;
    char *const argv[] = {(char *)(uintptr_t) "sbatch", (char *)(uintptr_t)path, NULL};
    const struct tr_guard_run run = {.argv = argv, .log = log, .limit = PATIENCE, .grace = GRACE};
    struct tr_guard_result end;
    enum tr_status s = tr_guard(&run, &end);

    if (s == TR_OK)
        s = tr_regular_text(log, ANSWER_MOST, &said);
    if (said)
        said[strcspn(said, "\n")] = '\0';
    if (s == TR_OK && (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0))
        s = TR_FAIL(TR_ERESOURCE, "sbatch does not take %s: %s", path, said);
    else if (s == TR_OK)
        tr_print("%s\n", said);
    free(said);
    free(log);
    return s;
}

static enum tr_status write_one(const struct array *a, bool several)
{
    size_t size;
    char *path = path_of(a, several), *text = text_of(a, &size);
    const int n = tasks_of(a);
    enum tr_status s = TR_OK;

    if (a->w->dry_run) {
        tr_print("\n# %s:\n%s", path, text);
    } else {
        s = tr_file_replace(path, text, size);
        if (s == TR_OK)
            tr_print("%s: %d array task%s of %d ranks\n", path, n, tr_plural(n), a->ranks);
        if (s == TR_OK && a->w->submit)
            s = submit(a, path);
    }
    free(text);
    free(path);
    return s;
}

enum tr_status tr_sweep_arrays(const struct tr_sweep *w, const struct tr_sweep_place *place,
                               const struct tr_sweep_task *task, int count)
{
    bool several = false;

    for (int i = 1; i < count; i++)
        several = several || task[i].shape->ranks != task[0].shape->ranks;
    for (int i = 0; i < count; i++) {
        const struct array a = {w, place, task, count, task[i].shape->ranks};
        int first = 0;

        while (task[first].shape->ranks != a.ranks)
            first++;
        if (first == i)
            TR_TRY(write_one(&a, several));
    }
    return TR_OK;
}
