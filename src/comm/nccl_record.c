/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/nccl_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What can be known of NCCL, for the record of a run. */

extern char **environ;

enum { LINES = 64, LINE = 256, VALUE = 64 };

/* NCCL's own numbers, as NCCL_VERSION() makes them since 2.9. */
static void write_version(char *text, size_t size, int version)
{
    snprintf(text, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

static void put_versions(tr_nccl_put *put, void *ctx)
{
    char text[VALUE];
    int version = 0;

    tr_nccl.ncclGetVersion(&version);
    write_version(text, sizeof text, version);
    put(ctx, "version", text);
    write_version(text, sizeof text, NCCL_VERSION_CODE);
    put(ctx, "built_with", text);
}

static void put_numbers(const struct tr_nccl_world *w, tr_nccl_put *put, void *ctx)
{
    char text[VALUE];
    int communicators = 0;

    for (const struct tr_nccl_group *g = w->groups; g; g = g->next)
        communicators += g->comm != NULL;
    snprintf(text, sizeof text, "%d", communicators);
    put(ctx, "communicators", text);
    snprintf(text, sizeof text, "%.1f", (double)w->bytes / 1048576.0);
    put(ctx, "memory_mib", text);
    put(ctx, "calls", w->guard ? "blocking" : "non-blocking");
}

/* As NCCL finds them: those of the user and those that this program sets. */
static void put_environment(tr_nccl_put *put, void *ctx)
{
    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[VALUE];

        if (strncmp(*at, "NCCL_", 5) != 0 || !equals || (size_t)(equals - *at) >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *at), *at);
        put(ctx, name, equals + 1);
    }
}

/* ---- what NCCL says ---- */

/* The file that this process writes: %h is the host without its domain, %p the process. */
static bool debug_file(char *path, size_t size)
{
    const char *how = getenv("NCCL_DEBUG_FILE");
    char host[256] = "";
    size_t n = 0;

    if (!how || !*how)
        return false;
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    for (; *how && n + 1 < size; how++) {
        const char next = how[0] == '%' ? how[1] : '\0';
        char piece[sizeof host] = {how[0], '\0'};

        if (next == 'h')
            snprintf(piece, sizeof piece, "%s", host);
        else if (next == 'p')
            snprintf(piece, sizeof piece, "%d", (int)getpid());
        n += (size_t)snprintf(path + n, size - n, "%s", piece);
        how += next == 'h' || next == 'p' || next == '%';
    }
    path[n < size ? n : size - 1] = '\0';
    return n < size;
}

/* Lines about how messages go: channels, algorithm and protocol by size, NVLS, SHARP (which NCCL calls CollNet),
   the network.  They are kept in NCCL's words, which differ from version to version. */
static bool tells(const char *line)
{
    static const char *const words[] = {"coll channels", "Bytes -> Algo", "NVLS",
                                        "CollNet",       "SHARP",         "Using network"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(line, words[i]))
            return true;
    return false;
}

static void put_new(char (*seen)[LINE], int *n, const char *text, tr_nccl_put *put, void *ctx)
{
    if (*n == LINES)
        return;
    snprintf(seen[*n], LINE, "%s", text);
    for (int i = 0; i < *n; i++)
        if (strcmp(seen[i], seen[*n]) == 0)
            return;
    put(ctx, "says", seen[(*n)++]);
}

static void put_words(tr_nccl_put *put, void *ctx)
{
    static const char mark[] = "NCCL INFO ";
    char path[1024], line[1024], (*seen)[LINE];
    int n = 0;
    FILE *f;

    if (!debug_file(path, sizeof path))
        return;
    f = fopen(path, "re");
    seen = f ? calloc(LINES, sizeof *seen) : NULL;
    while (seen && fgets(line, sizeof line, f)) {
        const char *text = strstr(line, mark);

        line[strcspn(line, "\n")] = '\0';
        if (text && tells(text))
            put_new(seen, &n, text + sizeof mark - 1, put, ctx);
    }
    free(seen);
    if (f)
        fclose(f);
}

void tr_comm_nccl_record(const struct tr_comm *world, tr_nccl_put *put, void *ctx)
{
    const struct tr_nccl_group *g = world->state;

    if (world->size == 1)
        return;
    put_versions(put, ctx);
    put_numbers(g->world, put, ctx);
    put_environment(put, ctx);
    put_words(put, ctx);
}
