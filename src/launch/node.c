/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/node.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The first line of a small file, without its end; "" where there is none. */
static void first_line(const char *path, char *out, int size)
{
    FILE *f = fopen(path, "re");

    out[0] = 0;
    if (!f)
        return;
    if (!fgets(out, size, f))
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    fclose(f);
}

static int64_t memory_total(void)
{
    char line[128];
    long long kib;

    first_line("/proc/meminfo", line, sizeof line);
    return sscanf(line, "MemTotal: %lld", &kib) == 1 ? kib * 1024 : -1;
}

static int64_t limit_of(int resource)
{
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)resource, &r) != 0)
        return -1;
    return r.rlim_cur == RLIM_INFINITY || r.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)r.rlim_cur;
}

static bool has_entries(const char *folder)
{
    DIR *d = opendir(folder);
    bool some = false;

    if (!d)
        return false;
    for (struct dirent *e = readdir(d); e && !some; e = readdir(d))
        some = e->d_name[0] != '.';
    closedir(d);
    return some;
}

void tr_node_read(bool gpus, uint64_t build, struct tr_node_facts *out)
{
    struct statvfs shm;

    memset(out, 0, sizeof *out);
    gethostname(out->host, sizeof out->host - 1);
    out->memory = memory_total();
    if (statvfs("/dev/shm", &shm) == 0) {
        out->shm_size = (int64_t)shm.f_blocks * (int64_t)shm.f_frsize;
        out->shm_free = (int64_t)shm.f_bavail * (int64_t)shm.f_frsize;
    }
    out->open_files = limit_of(RLIMIT_NOFILE);
    out->stack = limit_of(RLIMIT_STACK);
    out->locked = limit_of(RLIMIT_MEMLOCK);
    out->verbs = has_entries("/sys/class/infiniband");
    if (gpus)
        tr_gpus_list(&out->gpus);
    out->build = build;
    tr_node_lacks(out->lacks, sizeof out->lacks);
    tr_node_networks(out->networks, sizeof out->networks);
}

void tr_node_cores(const cpu_set_t *cpus, cpu_set_t *out)
{
    char path[96], line[128];

    CPU_ZERO(out);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char *end;
        size_t first;

        if (!CPU_ISSET(cpu, cpus))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
                 cpu);
        first_line(path, line, sizeof line);
        first = strtoul(line, &end, 10);
        CPU_SET(end == line || first >= CPU_SETSIZE ? cpu : first, out);
    }
}

void tr_node_space(const char *folder, int64_t *bytes, int64_t *files)
{
    char path[4096];
    struct statvfs v;
    int rc;

    *bytes = *files = -1;
    snprintf(path, sizeof path, "%s", folder);
    while ((rc = statvfs(path, &v)) != 0 && errno == ENOENT && strcmp(path, ".") != 0) {
        char *slash = strrchr(path, '/');

        if (slash == path)
            path[1] = 0;
        else if (slash)
            *slash = 0;
        else
            strcpy(path, ".");
    }
    if (rc != 0)
        return;
    *bytes = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
    /* File systems that make inodes as they need them count none. */
    if (v.f_files > 0)
        *files = (int64_t)v.f_favail;
}

/* The sets that make a difference here; -march=native takes all that the processor has. */
#if defined(__x86_64__)
struct set {
    const char *name;
    bool used, there;
};

#ifdef __AVX2__
#define USES_AVX2 1
#else
#define USES_AVX2 0
#endif
#ifdef __FMA__
#define USES_FMA 1
#else
#define USES_FMA 0
#endif
#ifdef __AVX512F__
#define USES_AVX512F 1
#else
#define USES_AVX512F 0
#endif
#ifdef __AVX512BW__
#define USES_AVX512BW 1
#else
#define USES_AVX512BW 0
#endif
#ifdef __AVX512BF16__
#define USES_AVX512BF16 1
#else
#define USES_AVX512BF16 0
#endif

static int list_sets(struct set out[5])
{
    const struct set all[] = {
        {"avx2", USES_AVX2, __builtin_cpu_supports("avx2") != 0},
        {"fma", USES_FMA, __builtin_cpu_supports("fma") != 0},
        {"avx512f", USES_AVX512F, __builtin_cpu_supports("avx512f") != 0},
        {"avx512bw", USES_AVX512BW, __builtin_cpu_supports("avx512bw") != 0},
        {"avx512_bf16", USES_AVX512BF16, __builtin_cpu_supports("avx512bf16") != 0},
    };

    memcpy(out, all, sizeof all);
    return sizeof all / sizeof all[0];
}

static void name_sets(bool lacking, char *out, int size)
{
    struct set all[5];
    int count = list_sets(all), n = 0;

    out[0] = 0;
    for (int i = 0; i < count; i++)
        if (all[i].used && !(lacking && all[i].there) && n < size)
            n += snprintf(out + n, (size_t)(size - n), "%s%s", n ? " " : "", all[i].name);
}

void tr_node_compiled_for(char *out, int size)
{
    name_sets(false, out, size);
    if (!out[0])
        snprintf(out, (size_t)size, "x86-64");
}

void tr_node_lacks(char *out, int size)
{
    name_sets(true, out, size);
}
#else
/* Elsewhere the compilers have no such test that all of them know. */
void tr_node_compiled_for(char *out, int size)
{
#if defined(__aarch64__)
    snprintf(out, (size_t)size, "aarch64");
#else
    snprintf(out, (size_t)size, "any");
#endif
}

void tr_node_lacks(char *out, int size)
{
    (void)size;
    out[0] = 0;
}
#endif

/* "10 Gbit/s", or nothing where the driver does not say. */
static void add_speed(const char *name, char *out, int size)
{
    char path[320], text[64];
    long mbit;

    snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
    first_line(path, text, sizeof text);
    mbit = strtol(text, NULL, 10);
    if (mbit > 0)
        snprintf(out, (size_t)size, " %g Gbit/s", (double)mbit / 1000.0);
}

static void add_network(const char *kind, const char *name, char *out, int size)
{
    char path[384], text[64];
    int n = (int)strlen(out);

    snprintf(path, sizeof path, "/sys/class/net/%s/operstate", name);
    first_line(path, text, sizeof text);
    if (strcmp(kind, "net") == 0 && strcmp(text, "up") != 0)
        return;
    n += snprintf(out + n, (size_t)(size - n), "%s%s", n ? ", " : "", name);
    if (n >= size)
        return;
    if (strcmp(kind, "net") == 0) {
        add_speed(name, out + n, size - n);
        return;
    }
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/rate", name);
    first_line(path, text, sizeof text);
    if (text[0])
        snprintf(out + n, (size_t)(size - n), " %s", text);
}

void tr_node_networks(char *out, int size)
{
    static const char *const kinds[] = {"net", "infiniband"};

    out[0] = 0;
    for (int k = 0; k < 2; k++) {
        char folder[64];
        DIR *d;

        snprintf(folder, sizeof folder, "/sys/class/%s", kinds[k]);
        d = opendir(folder);
        for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
            if (e->d_name[0] != '.' && (int)strlen(out) < size - 1)
                add_network(kinds[k], e->d_name, out, size);
        if (d)
            closedir(d);
    }
}
