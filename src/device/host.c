/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/host.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "util/clock.h"

enum { HUGE_PAGE = 2 << 20 };

/* The number after `key` in a file of lines "key number"; an empty key means the first word.
   SIZE_MAX when there is none, which is also what "max" means to a control group. */
static size_t number_in(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    char line[256];
    size_t value = SIZE_MAX, length = strlen(key);

    if (!f)
        return SIZE_MAX;
    while (value == SIZE_MAX && fgets(line, sizeof line, f)) {
        char *end;
        uintmax_t n;

        if (strncmp(line, key, length) != 0)
            continue;
        errno = 0;
        n = strtoumax(line + length, &end, 10);
        if (end != line + length && errno == 0 && n < SIZE_MAX)
            value = n;
    }
    fclose(f);
    return value;
}

/* The two versions of the kernel's control groups, as systemd mounts them. */
struct flavour {
    const char *list; /* how its line of /proc/self/cgroup goes on after the number */
    const char *mount, *limit, *usage, *cache;
};

static const struct flavour flavours[] = {
    {"::", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
    {":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "},
};

/* What is left in one group, not counting the groups above it. */
static size_t left_in_group(const struct flavour *v, const char *group)
{
    char path[4096 + 64];
    size_t limit, usage, cache;

    snprintf(path, sizeof path, "%s%s/%s", v->mount, group, v->limit);
    limit = number_in(path, "");
    snprintf(path, sizeof path, "%s%s/%s", v->mount, group, v->usage);
    usage = number_in(path, "");
    if (limit == SIZE_MAX || usage == SIZE_MAX)
        return SIZE_MAX;
    snprintf(path, sizeof path, "%s%s/memory.stat", v->mount, group);
    cache = number_in(path, v->cache);
    if (cache != SIZE_MAX)
        usage -= cache < usage ? cache : usage;
    return usage < limit ? limit - usage : 0;
}

/* The least that is left in `group` and the groups above it; shortens `group` on the way. */
static size_t left_above(const struct flavour *v, char *group)
{
    size_t least = SIZE_MAX;

    for (;;) {
        size_t left = left_in_group(v, group);
        char *slash = strrchr(group, '/');

        if (left < least)
            least = left;
        if (!slash)
            return least;
        *slash = '\0';
    }
}

size_t tr_host_available_bytes(void)
{
    size_t least = number_in("/proc/meminfo", "MemAvailable:");
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[4096];

    if (least != SIZE_MAX)
        least *= 1024;
    while (f && fgets(line, sizeof line, f))
        for (size_t i = 0; i < sizeof flavours / sizeof flavours[0]; i++) {
            const char *rest = strchr(line, ':');
            size_t length = strlen(flavours[i].list), left;

            line[strcspn(line, "\n")] = '\0';
            if (!rest || strncmp(rest, flavours[i].list, length) != 0)
                continue;
            left = left_above(&flavours[i], line + (rest - line) + length);
            if (left < least)
                least = left;
            break;
        }
    if (f)
        fclose(f);
    return least;
}

enum tr_status tr_host_count_threads(const struct tr_device_how *how, int *out)
{
    if (how->threads < 0)
        return TR_FAIL(TR_ECONFIG,
                       "%d threads cannot be: give 0 for all cores of this rank, or a "
                       "positive number",
                       how->threads);
#ifdef _OPENMP
    /* OMP_NUM_THREADS where it is set, else the cores in the affinity mask. */
    *out = how->threads > 0 ? how->threads : omp_get_max_threads();
#else
    *out = 1;
#endif
    return TR_OK;
}

enum tr_status tr_host_open(const struct tr_device_how *how, struct tr_device **out)
{
    struct tr_device *d;
    int threads = 0;

    *out = NULL;
    TR_TRY(tr_host_count_threads(how, &threads));
    d = calloc(1, sizeof *d);
    if (!d)
        return TR_FAIL(TR_ERESOURCE, "no memory left to open a device");
    d->threads = threads;
    d->budget = how->memory;
    *out = d;
    return TR_OK;
}

void tr_host_close(struct tr_device *d)
{
    struct tr_host_block *next;

    if (!d)
        return;
    for (struct tr_host_block *b = d->blocks; b; b = next) {
        next = b->next;
        munmap(b->map, b->bytes);
        free(b);
    }
    free(d);
}

int tr_host_threads(const struct tr_device *d)
{
    return d->threads;
}

/* Touch every page now: a step never waits for the kernel to clear one, each lies near the thread
   that touched it, and the next rank of this node sees that the memory is gone. */
static void touch(unsigned char *p, size_t bytes, int threads)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)threads;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < bytes; i += page)
        *(volatile unsigned char *)(p + i) = 0;
}

static const double gib = 1024.0 * 1024.0 * 1024.0;

static enum tr_status map_pages(struct tr_device *d, size_t bytes, void **out)
{
    size_t left = tr_host_available_bytes();
    size_t align = bytes < HUGE_PAGE ? 0 : HUGE_PAGE;
    struct tr_host_block *b;
    void *map;

    *out = NULL;
    TR_ASSERT(bytes > 0);
    if (bytes > left || bytes > SIZE_MAX / 2)
        return TR_FAIL(
            TR_ERESOURCE,
            "this rank needs %.2f GiB of memory and the machine has %.2f GiB left for it: "
            "use more nodes, fewer ranks per node or a smaller micro-batch",
            (double)bytes / gib, (double)left / gib);
    b = malloc(sizeof *b);
    map = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!b || map == MAP_FAILED) {
        int error = errno;

        if (map != MAP_FAILED)
            munmap(map, bytes + align);
        free(b);
        return TR_FAIL(TR_ERESOURCE,
                       "this rank needs %.2f GiB of memory and the system refuses it "
                       "(%s): see ulimit -v and the memory limit of the job",
                       (double)bytes / gib, strerror(error));
    }
    *b = (struct tr_host_block){.next = d->blocks, .map = map, .bytes = bytes + align};
    d->blocks = b;
    *out = map;
    if (align) {
        *out = (void *)(((uintptr_t)map + align - 1) / align * align);
        /* Only a hint: without huge pages everything works, with more misses of the TLB. */
        madvise(*out, bytes, MADV_HUGEPAGE);
    }
    touch(*out, bytes, d->threads);
    return TR_OK;
}

static enum tr_status check_budget(const struct tr_device *d, size_t bytes)
{
    const double mib = 1024.0 * 1024.0;

    TR_ASSERT(d->budget == 0 || d->used.device <= d->budget);
    if (d->budget == 0 || bytes <= d->budget - d->used.device)
        return TR_OK;
    return TR_FAIL(TR_ERESOURCE,
                   "this rank needs %.2f MiB of the device, which has %.2f of its %.2f MiB left "
                   "(--device-memory): offload the optimizer (--offload-optimizer cpu), use more "
                   "ranks with --zero-stage 1 to 3, recomputation or a smaller micro-batch, or "
                   "give it more",
                   (double)bytes / mib, (double)(d->budget - d->used.device) / mib,
                   (double)d->budget / mib);
}

enum tr_status tr_host_reserve(struct tr_device *d, size_t bytes, void **out)
{
    *out = NULL;
    TR_TRY(check_budget(d, bytes));
    TR_TRY(map_pages(d, bytes, out));
    d->used.device += bytes;
    TR_ASSERT(d->budget == 0 || d->used.device <= d->budget);
    return TR_OK;
}

enum tr_status tr_host_reserve_host(struct tr_device *d, size_t bytes, void **out)
{
    *out = NULL;
    TR_TRY(map_pages(d, bytes, out));
    d->used.host += bytes;
    return TR_OK;
}

void tr_host_used(const struct tr_device *d, struct tr_device_used *out)
{
    *out = d->used;
}

int64_t tr_host_move(struct tr_queue *q, enum tr_lane lane, const struct tr_tensor *to,
                     const struct tr_tensor *from)
{
    (void)lane;
    TR_ASSERT(to->dtype == from->dtype);
    q->on->copy(q, to, from);
    return 0;
}

void tr_host_moved(struct tr_queue *q, int64_t copy)
{
    (void)q, (void)copy;
}

void tr_host_wait(struct tr_queue *q)
{
    (void)q;
}

void tr_host_upload(struct tr_queue *q, const struct tr_tensor *to, const void *from)
{
    (void)q;
    memcpy(to->data, from, (size_t)tr_tensor_bytes(to));
}

void tr_host_download(struct tr_queue *q, void *to, const struct tr_tensor *from)
{
    (void)q;
    memcpy(to, from->data, (size_t)tr_tensor_bytes(from));
}

void tr_host_mark(struct tr_queue *q, int i)
{
    TR_ASSERT(i >= 0 && i < TR_MARKS);
    q->device->mark[i] = tr_now();
}

double tr_host_between(struct tr_queue *q, int from, int to)
{
    return q->device->mark[to] - q->device->mark[from];
}

void tr_host_range(struct tr_queue *q, const char *name)
{
    (void)q, (void)name;
}

void tr_host_record(struct tr_queue *q, bool on)
{
    (void)q, (void)on;
}
