/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/guard.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/clock.h"

extern char **environ;

/* How long the guard looks for what a program has left behind, seconds. */
static const double PATIENCE = 10.0;

static int signals = -1;

enum tr_status tr_guard_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 || (signals = signalfd(-1, &set, SFD_CLOEXEC)) < 0)
        return TR_FAIL(TR_ERESOURCE, "signals cannot be waited for: %s", strerror(errno));
    return TR_OK;
}

/* The signal is not taken, so that whoever asks later hears the same. */
bool tr_guard_stopped(void)
{
    struct pollfd in = {.fd = signals, .events = POLLIN};

    return poll(&in, 1, 0) > 0;
}

/* ---- the guard ---- */

struct said {
    int error; /* of starting, or 0 */
    struct tr_guard_result result;
};

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};

    nanosleep(&pause, NULL);
}

static int start(char *const *argv, const char *log, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    int error;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log, O_WRONLY | O_APPEND, 0);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    error = posix_spawnp(pid, argv[0], &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* When memory runs out the kernel is to kill the ranks, not the guard. */
static void offer(pid_t pid)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "500", 3) != 3)
        errno = 0; /* it then stays as likely as any other */
    close(fd);
}

/* The parent of a process, or 0. */
static pid_t parent_of(const char *pid)
{
    char path[300], text[512], *after;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    after = strrchr(text, ')'); /* "PID (name) S PARENT" */
    return after && after[1] && after[2] ? (pid_t)strtol(after + 3, NULL, 10) : 0;
}

/* SIGKILL for the children of this process; what has lost its parent becomes one of them. */
static void kill_children(void)
{
    DIR *all = opendir("/proc");
    const struct dirent *one;

    if (!all)
        return;
    while ((one = readdir(all)) != NULL)
        if (isdigit((unsigned char)one->d_name[0]) && parent_of(one->d_name) == getpid())
            kill((pid_t)strtol(one->d_name, NULL, 10), SIGKILL);
    closedir(all);
}

static void clear(void)
{
    const double deadline = tr_now() + PATIENCE;

    while (tr_now() < deadline) {
        pid_t ended = waitpid(-1, NULL, WNOHANG);

        if (ended < 0)
            return;
        if (ended > 0)
            continue;
        kill_children();
        nap();
    }
}

/* A shell command, with a time limit. */
static void do_last(const char *command)
{
    const char *const argv[] = {"sh", "-c", command, NULL};
    const double deadline = tr_now() + PATIENCE;
    pid_t pid;

    if (!command || start((char *const *)(uintptr_t)argv, "/dev/null", &pid) != 0)
        return;
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (tr_now() >= deadline) {
            kill(-pid, SIGKILL);
            return;
        }
        nap();
    }
}

/* Wait for the program, and end it when its time is over. */
static void watch(const struct tr_guard_run *run, pid_t pid, int parent,
                  struct tr_guard_result *out)
{
    const double began = tr_now();
    double kill_at = 0.0;
    bool killed = false;

    out->end = TR_GUARD_ENDED;
    while (waitpid(pid, &out->status, WNOHANG) == 0) {
        struct pollfd in = {.fd = kill_at > 0.0 ? -1 : parent, .events = POLLIN};
        const bool stop = poll(&in, 1, 50) > 0;

        if (kill_at <= 0.0 && (stop || tr_now() - began > run->limit)) {
            out->end = stop ? TR_GUARD_STOPPED : TR_GUARD_LATE;
            kill(-pid, SIGTERM);
            kill_at = tr_now() + run->grace;
        } else if (kill_at > 0.0 && tr_now() > kill_at && !killed) {
            kill(-pid, SIGKILL);
            killed = true;
        }
    }
    kill(-pid, SIGKILL);
    clear();
    if (killed)
        do_last(run->last);
    out->seconds = tr_now() - began;
}

_Noreturn static void guard(const struct tr_guard_run *run, int parent, int tell)
{
    struct said said = {0};
    sigset_t all;
    pid_t pid;
    int nothing = open("/dev/null", O_RDWR);

    /* What the terminal sends to everybody is for the one that asked. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    /* Who reads what the sweep prints is not to wait for the guard. */
    for (int fd = 0; fd < 3 && nothing >= 0; fd++)
        dup2(nothing, fd);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    said.error = start(run->argv, run->log, &pid);
    if (said.error == 0) {
        offer(pid);
        watch(run, pid, parent, &said.result);
    }
    _exit(tr_write_all(tell, &said, sizeof said) != 0);
}

/* ---- the sweep's side ---- */

/* What the guard says at its end; a signal that comes meanwhile makes it end soon, by closing *ask. */
static bool hear(int fd, int *ask, struct said *said)
{
    size_t got = 0;

    while (got < sizeof *said) {
        struct pollfd in[] = {{.fd = fd, .events = POLLIN},
                              {.fd = *ask >= 0 ? signals : -1, .events = POLLIN}};
        ssize_t n;

        if (poll(in, 2, -1) < 0 && errno != EINTR)
            return false;
        if (in[1].revents) {
            close(*ask);
            *ask = -1;
        }
        if (!in[0].revents)
            continue;
        n = read(fd, (char *)said + got, sizeof *said - got);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static enum tr_status make_log(const char *path)
{
    int fd;

    /* Whoever still writes to the one before does not write to this one. */
    if (unlink(path) != 0 && errno != ENOENT)
        return TR_FAIL(TR_EIO, "the log %s of an earlier run cannot be removed: %s", path,
                       strerror(errno));
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return TR_FAIL(TR_EIO, "the log %s cannot be made: %s", path, strerror(errno));
    close(fd);
    return TR_OK;
}

enum tr_status tr_guard(const struct tr_guard_run *run, struct tr_guard_result *out)
{
    struct said said = {0};
    int down[2], up[2];
    bool heard;
    pid_t pid;

    TR_TRY(make_log(run->log));
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        return TR_FAIL(TR_ERESOURCE, "no run can be watched: %s", strerror(errno));
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        guard(run, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    if (pid < 0) {
        close(down[1]);
        close(up[0]);
        return TR_FAIL(TR_ERESOURCE, "no run can be watched: %s", strerror(errno));
    }
    heard = hear(up[0], &down[1], &said);
    if (down[1] >= 0)
        close(down[1]);
    close(up[0]);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (said.error)
        return TR_FAIL(TR_ERESOURCE, "%s, which is to start the ranks, cannot be run: %s",
                       run->argv[0], strerror(said.error));
    *out = said.result;
    if (!heard)
        out->end = TR_GUARD_LOST;
    return TR_OK;
}
