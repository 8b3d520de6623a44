/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into ranks: /sys/class/powercap is a node with one package of processors, which uses 2 J between any two
 * looks at it and begins again at 100 J.
 */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *memory(const char *format, long number)
{
    static char text[4][64];
    static int at;
    char *room = text[at++ % 4];

    snprintf(room, sizeof text[0], format, number);
    return fmemopen(room, strlen(room), "r");
}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    static long joules;

    if (strcmp(path, "/sys/class/powercap/intel-rapl:0/name") == 0)
        return memory("package-%ld\n", 0);
    if (strcmp(path, "/sys/class/powercap/intel-rapl:0/max_energy_range_uj") == 0)
        return memory("%ld\n", 100000000);
    if (strcmp(path, "/sys/class/powercap/intel-rapl:0/energy_uj") == 0)
        return memory("%ld\n", (joules += 2) % 100 * 1000000);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    return real(path, mode);
}

int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *out)
{
    static char path[] = "/sys/class/powercap/intel-rapl:0", *paths[] = {path, NULL};
    static int (*real)(const char *, int, int (*)(const char *, int), glob_t *);

    if (strcmp(pattern, "/sys/class/powercap/intel-rapl:*") == 0) {
        *out = (glob_t){.gl_pathc = 1};
        out->gl_pathv = malloc(sizeof paths);
        if (!out->gl_pathv)
            return GLOB_NOSPACE;
        memcpy(out->gl_pathv, paths, sizeof paths);
        out->gl_pathv[0] = strdup(path);
        return out->gl_pathv[0] ? 0 : GLOB_NOSPACE;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "glob");
    return real(pattern, flags, error, out);
}
