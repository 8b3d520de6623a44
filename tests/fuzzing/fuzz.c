/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzzing/fuzz.h"

#include <ftw.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "util/status.h"

static const struct fuzz_target *const targets[] = {
#define TARGET(name) &fuzz_##name,
#include "fuzzing/targets.def"
#undef TARGET
};
enum { TARGETS = sizeof targets / sizeof targets[0] };

static char folder[512];

const struct fuzz_target *fuzz_number(int n)
{
    return n >= 0 && n < TARGETS ? targets[n] : NULL;
}

const struct fuzz_target *fuzz_find(const char *name)
{
    for (int i = 0; i < TARGETS; i++)
        if (strcmp(targets[i]->name, name) == 0)
            return targets[i];
    return NULL;
}

static void stop(int exit_code, const char *sentence)
{
    fprintf(stderr, "the parser ended the program with %d: %s\n", exit_code, sentence);
    abort();
}

void fuzz_begin(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/trireme-fuzz.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    tr_on_die(stop);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

void fuzz_end(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_path(const char *name)
{
    static char path[8][768];
    static unsigned next;
    char *to = path[next++ % 8];

    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

void fuzz_put(const char *name, const void *data, size_t size)
{
    const char *path = fuzz_path(name);
    FILE *f = fopen(path, "wbe");

    if (!f || (size > 0 && fwrite(data, 1, size, f) != size) || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

size_t fuzz_read(const char *path, uint8_t *out, size_t most)
{
    FILE *f = fopen(path, "rbe");
    size_t n;

    if (!f)
        return 0;
    n = fread(out, 1, most, f);
    fclose(f);
    return n;
}

size_t fuzz_get(const char *name, uint8_t *out, size_t most)
{
    return fuzz_read(fuzz_path(name), out, most);
}

/* File n of those that match the pattern; truncated if it is too long. */
static size_t matching(const char *pattern, int *n, uint8_t *out, size_t most)
{
    const char *top = getenv("srcdir");
    char full[768];
    size_t size = 0;
    glob_t found;

    snprintf(full, sizeof full, "%s/%s", top ? top : ".", pattern);
    if (glob(full, 0, NULL, &found) != 0)
        return 0;
    if ((size_t)*n < found.gl_pathc)
        size = fuzz_read(found.gl_pathv[*n], out, most);
    *n -= (int)found.gl_pathc;
    globfree(&found);
    return size;
}

size_t fuzz_input(const struct fuzz_target *t, int n, uint8_t *out, size_t most)
{
    char pattern[256];
    size_t size = 0;
    int seeds = 0;

    while (t->seed && seeds < n && t->seed(seeds, out, most) > 0)
        seeds++;
    if (t->seed && seeds == n && (size = t->seed(n, out, most)) > 0)
        return size;
    n -= seeds;
    if (t->files && (size = matching(t->files, &n, out, most)) > 0)
        return size;
    snprintf(pattern, sizeof pattern, "tests/fuzzing/corpus/%s/*", t->name);
    return n >= 0 ? matching(pattern, &n, out, most) : 0;
}

FILE *fuzz_nowhere(void)
{
    static FILE *f;

    if (!f)
        f = fopen("/dev/null", "we");
    MUST(f);
    return f;
}
