/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/parent.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch.h"
#include "util/log.h"

/* What starts ranks on a host: Open MPI's, its next name, those of MPICH and its relatives, Slurm's. */
static const char *const launchers[] = {
    "mpiexec", "mpirun", "orterun", "orted",           "mpiexec.openmpi", "mpirun.openmpi",
    "prterun", "prte",   "prted",   "hydra_pmi_proxy", "mpiexec.hydra",   "slurmstepd",
};

/* Scripts may stand between a launcher and its rank. */
enum { MOST_ABOVE = 32 };

struct process {
    char name[16], state;
    long above;
    uint64_t born;
};

/* A line of /proc: number, name in brackets, which may hold anything, state, number of the parent; the
   22nd word is when it began. */
static bool look(pid_t pid, struct process *p)
{
    char path[64], line[1024] = "", *open, *close;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    if (!fgets(line, sizeof line, f))
        line[0] = '\0';
    fclose(f);
    open = strchr(line, '(');
    close = strrchr(line, ')');
    if (!open || !close)
        return false;
    *close = '\0';
    snprintf(p->name, sizeof p->name, "%.15s", open + 1);
    return sscanf(close + 1,
                  " %c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%" SCNu64,
                  &p->state, &p->above, &p->born) == 3;
}

static bool is_launcher(const struct process *p)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (strcmp(p->name, launchers[i]) == 0)
            return true;
    return false;
}

bool tr_parent_find(struct tr_parent *out)
{
    pid_t pid = getppid();
    struct process p;

    *out = (struct tr_parent){0};
    if (tr_launch_starter() == TR_STARTED_ALONE)
        return false;
    for (int i = 0; i < MOST_ABOVE && pid > 1 && look(pid, &p); i++, pid = (pid_t)p.above) {
        if (!is_launcher(&p))
            continue;
        *out = (struct tr_parent){.pid = pid, .born = p.born};
        return true;
    }
    return false;
}

/* The inode of the socket that waits for connections at a port, by a table of /proc, or 0. */
static unsigned long listening_in(const char *table, unsigned port)
{
    unsigned long inode = 0, found;
    unsigned at, state;
    char line[512];
    FILE *f = fopen(table, "re");

    while (f && inode == 0 && fgets(line, sizeof line, f))
        if (sscanf(line, " %*[^:]: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &at, &state,
                   &found) == 3 &&
            at == port && state == 0x0a)
            inode = found;
    if (f)
        fclose(f);
    return inode;
}

static bool holds_socket(pid_t pid, unsigned long inode)
{
    char path[64], wanted[64], target[64];
    struct dirent *e;
    bool held = false;
    DIR *d;

    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    d = opendir(path);
    while (d && !held && (e = readdir(d))) {
        const ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);

        target[n > 0 ? n : 0] = '\0';
        held = strcmp(target, wanted) == 0;
    }
    if (d)
        closedir(d);
    return held;
}

/* The srun of this step, where it runs on this host: it listens where the step reports to. */
static pid_t srun_here(void)
{
    const char *text = getenv("SLURM_SRUN_COMM_PORT");
    const unsigned port = text ? (unsigned)strtoul(text, NULL, 10) : 0;
    unsigned long inode = port > 0 ? listening_in("/proc/net/tcp", port) : 0;
    struct dirent *e;
    pid_t found = 0;
    DIR *d;

    if (inode == 0 && port > 0)
        inode = listening_in("/proc/net/tcp6", port);
    d = inode > 0 ? opendir("/proc") : NULL;
    while (d && found == 0 && (e = readdir(d))) {
        const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        struct process p;

        if (pid > 0 && look(pid, &p) && strcmp(p.name, "srun") == 0 && holds_socket(pid, inode))
            found = pid;
    }
    if (d)
        closedir(d);
    return found;
}

/* A proxy of a launcher has pipes, and the launcher itself is above it. */
static pid_t topmost(void)
{
    struct tr_parent nearest;
    struct process p, above;
    pid_t pid;

    if (!tr_parent_find(&nearest) || !look(nearest.pid, &p))
        return 0;
    pid = nearest.pid;
    while (look((pid_t)p.above, &above) && is_launcher(&above)) {
        pid = (pid_t)p.above;
        p = above;
    }
    return pid;
}

bool tr_parent_watched(void)
{
    const pid_t srun = srun_here(), pid = srun > 0 ? srun : topmost();
    char path[64];
    bool watched;
    int fd;

    if (pid == 0)
        return false;
    snprintf(path, sizeof path, "/proc/%ld/fd/1", (long)pid);
    fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    watched = fd >= 0 && isatty(fd) == 1;
    if (fd >= 0)
        close(fd);
    return watched;
}

/* One that has ended is still shown until its own parent has asked how. */
bool tr_parent_gone(const struct tr_parent *parent)
{
    struct process p;

    if (parent->pid == 0)
        return false;
    return !look(parent->pid, &p) || p.born != parent->born || p.state == 'Z' || p.state == 'X';
}

/* ---- PMIx, as its standard has it: of the library that MPI has loaded, if it has ---- */

enum { LOST_CONNECTION = -61, LOST_CONNECTION_BEFORE_4 = -101, ACTION_COMPLETE = -334 };

typedef void answer_fn(int status, void *results, size_t count, void *then, void *then_data,
                       void *data);
typedef void event_fn(size_t id, int status, const void *source, void *info, size_t infos,
                      void *results, size_t count, answer_fn *answer, void *data);
typedef void registered_fn(int status, size_t id, void *data);
typedef int register_fn(int *codes, size_t count, void *info, size_t infos, event_fn *event,
                        registered_fn *registered, void *data);

/* Handlers of one kind of event come before those of all kinds, and this one is the last to be called. */
static void lost(size_t id, int status, const void *source, void *info, size_t infos, void *results,
                 size_t count, answer_fn *answer, void *data)
{
    (void)id, (void)status, (void)source, (void)info, (void)infos, (void)results, (void)count;
    if (answer)
        answer(ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void registered(int status, size_t id, void *data)
{
    (void)id, (void)data;
    if (status < 0)
        tr_log(TR_LOG_DEBUG, "PMIx takes no handler for a launcher that is gone: %d", status);
}

void tr_parent_outlive(void)
{
    static int codes[] = {LOST_CONNECTION, LOST_CONNECTION_BEFORE_4};
    void *library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
    void *call = library ? dlsym(library, "PMIx_Register_event_handler") : NULL;
    register_fn *enlist;

    signal(SIGPIPE, SIG_IGN);
    if (!call)
        return;
    memcpy(&enlist, &call, sizeof enlist);
    enlist(codes, sizeof codes / sizeof *codes, NULL, 0, lost, registered, NULL);
}
