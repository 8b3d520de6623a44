/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/parent.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
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

/* A proxy of a launcher has pipes, and the launcher itself is above it. */
bool tr_parent_watched(void)
{
    struct tr_parent nearest;
    struct process p, above;
    char path[64];
    bool watched;
    pid_t pid;
    int fd;

    if (!tr_parent_find(&nearest) || !look(nearest.pid, &p))
        return false;
    pid = nearest.pid;
    while (look((pid_t)p.above, &above) && is_launcher(&above)) {
        pid = (pid_t)p.above;
        p = above;
    }
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
