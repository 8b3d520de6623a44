/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/clocks.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A try takes some microseconds, and one of these is undisturbed as a rule. */
enum { TRIES = 12, KERNEL_BYTES = 96 };
/* No clock runs faster or slower than another by more than this part. */
static const double DRIFT = 1e-3;

static void *need(size_t count, size_t bytes)
{
    void *p = calloc(count, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left to compare the clocks of the ranks");
    return p;
}

/* What ranks with one clock have in common: the boot of their kernel, and the time namespace, in
   which a container may have an offset of its own.  A kernel without time namespaces has only
   one. */
static void name_kernel(char name[KERNEL_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, name, KERNEL_BYTES / 2 - 1);

    memset(name + (n > 0 ? n : 0), 0, (size_t)(KERNEL_BYTES - (n > 0 ? n : 0)));
    if (fd >= 0)
        close(fd);
    /* Without a boot id, no rank has the same clock as another. */
    if (n <= 0)
        memcpy(name, &(pid_t){getpid()}, sizeof(pid_t));
    n = readlink("/proc/self/ns/time", name + KERNEL_BYTES / 2, KERNEL_BYTES / 2 - 1);
    if (n < 0)
        name[KERNEL_BYTES / 2] = '\0';
}

static void find_hosts(struct tr_clocks *c, bool apart)
{
    const int ranks = c->world->size;
    char mine[KERNEL_BYTES], (*all)[KERNEL_BYTES] = need((size_t)ranks, sizeof *all);

    name_kernel(mine);
    c->world->via->gather_all(c->world, mine, sizeof mine, all);
    for (int rank = 0; rank < ranks; rank++) {
        int host = 0;

        while (host < c->hosts &&
               (apart || memcmp(all[c->leader[host]], all[rank], sizeof *all) != 0))
            host++;
        if (host == c->hosts)
            c->leader[c->hosts++] = rank;
        c->host_of[rank] = host;
    }
    c->host = c->host_of[c->world->rank];
    free(all);
}

void tr_clocks_open(struct tr_clocks *c, struct tr_comm *world, double (*now)(void), bool apart)
{
    *c = (struct tr_clocks){.world = world, .now = now};
    c->leader = need((size_t)world->size, sizeof *c->leader);
    c->host_of = need((size_t)world->size, sizeof *c->host_of);
    find_hosts(c, apart);
    tr_clocks_align(c);
    c->before = c->last;
}

void tr_clocks_close(struct tr_clocks *c)
{
    free(c->leader);
    free(c->host_of);
    memset(c, 0, sizeof *c);
}

static void pass(struct tr_clocks *c, int peer, bool send, double *time)
{
    struct tr_leg leg = {
        .dir = send ? TR_LEG_SEND : TR_LEG_RECV, .peer = peer, .buf = time, .bytes = sizeof *time};
    struct tr_pending p;

    c->world->via->exchange_start(c->world, NULL, &leg, 1, &p);
    c->world->via->finish(c->world, NULL, &p);
}

static void answer(struct tr_clocks *c, int peer)
{
    double time;

    for (int i = 0; i < TRIES; i++) {
        pass(c, peer, false, &time);
        time = c->now();
        pass(c, peer, true, &time);
    }
}

/* The offset to the clock of `peer`, whatever that is to the common one. */
static struct tr_clock_offset ask(struct tr_clocks *c, int peer)
{
    struct tr_clock_offset best = {.error = HUGE_VAL};

    for (int i = 0; i < TRIES; i++) {
        double sent = c->now(), there = sent, back, middle;

        pass(c, peer, true, &there);
        pass(c, peer, false, &there);
        back = c->now();
        middle = sent + 0.5 * (back - sent);
        if (0.5 * (back - sent) < best.error)
            best = (struct tr_clock_offset){
                .at = middle, .offset = there - middle, .error = 0.5 * (back - sent)};
    }
    return best;
}

/* Which host `host` asks: the one with its lowest bit cleared. */
static int parent(int host)
{
    return host & (host - 1);
}

static struct tr_clock_offset compare(struct tr_clocks *c)
{
    struct tr_clock_offset mine = {.at = c->now()};

    if (c->leader[c->host] != c->world->rank)
        return mine;
    for (int bit = 1; bit < c->hosts; bit *= 2) {
        if (c->host & bit) {
            mine = ask(c, c->leader[parent(c->host)]);
            break;
        }
        if (c->host + bit < c->hosts)
            answer(c, c->leader[c->host + bit]);
    }
    return mine;
}

/* From this host to the one with the common clock.  What a host on the way found of its own parent was at
   another moment than it was asked itself, and its clock has drifted in between. */
static struct tr_clock_offset chain(const struct tr_clocks *c, const struct tr_clock_offset *all)
{
    struct tr_clock_offset sum = {.at = all[c->leader[c->host]].at};

    for (int host = c->host; host != 0; host = parent(host)) {
        const struct tr_clock_offset *mine = &all[c->leader[host]];

        if (host != c->host)
            sum.error += DRIFT * fabs(sum.at + sum.offset - mine->at);
        sum.offset += mine->offset;
        sum.error += mine->error;
    }
    return sum;
}

void tr_clocks_align(struct tr_clocks *c)
{
    struct tr_clock_offset mine, *all;

    c->before = c->last;
    if (c->hosts == 1) {
        c->last = (struct tr_clock_offset){.at = c->now()};
        return;
    }
    mine = compare(c);
    all = need((size_t)c->world->size, sizeof *all);
    c->world->via->gather_all(c->world, &mine, sizeof mine, all);
    c->last = chain(c, all);
    free(all);
}

double tr_clocks_common(const struct tr_clocks *c, double t)
{
    double between = c->last.at - c->before.at;
    double part = between > 0.0 ? (t - c->before.at) / between : 1.0;

    return t + c->before.offset + part * (c->last.offset - c->before.offset);
}

double tr_clocks_error(const struct tr_clocks *c)
{
    return fmax(c->before.error, c->last.error);
}
