/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/job.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"

extern char **environ;

/* A whole number of a text that holds nothing else; -1 for any other text, and for none. */
static int64_t number_of(const char *text)
{
    char *end;
    long long n;

    if (!text || !isdigit((unsigned char)text[0]))
        return -1;
    errno = 0;
    n = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' ? (int64_t)n : -1;
}

void tr_job_find(struct tr_job *job)
{
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    int64_t restart = number_of(getenv("SLURM_RESTART_COUNT"));

    *job = (struct tr_job){.id = getenv("SLURM_JOB_ID"), .restart = restart < 0 ? 0 : restart};
    if (!job->id)
        return;
    job->step = getenv("SLURM_STEP_ID");
    job->nodes = getenv("SLURM_STEP_NODELIST");
    if (!job->nodes)
        job->nodes = getenv("SLURM_JOB_NODELIST");
    if (array && task)
        snprintf(job->array, sizeof job->array, "%s_%s", array, task);
}

/* A number of one to `most` digits, which *text is moved behind; -1 if there is none. */
static int64_t take_digits(const char **text, int most)
{
    int64_t n = 0;
    int digits = 0;

    while (isdigit((unsigned char)**text) && digits <= most) {
        n = 10 * n + (*(*text)++ - '0');
        digits++;
    }
    return digits >= 1 && digits <= most ? n : -1;
}

int64_t tr_job_seconds(const char *text)
{
    int64_t part[3] = {0}, days = 0;
    int parts = 0;
    const char *dash = strchr(text, '-');

    if (dash && ((days = take_digits(&text, 6)) < 0 || text++ != dash))
        return TR_JOB_NO_END;
    do {
        if (parts == 3 || (part[parts++] = take_digits(&text, 2)) < 0)
            return TR_JOB_NO_END;
    } while (*text == ':' && *text++);
    if (*text != '\0' || parts < 2 || (dash && parts < 3))
        return TR_JOB_NO_END;
    if (parts == 2) {
        part[2] = part[1];
        part[1] = part[0];
        part[0] = 0;
    }
    if (part[1] > 59 || part[2] > 59)
        return TR_JOB_NO_END;
    return 86400 * days + 3600 * part[0] + 60 * part[1] + part[2];
}

/* Start squeue in a group of its own, so that all of it can be ended, writing to `out`. */
static int start_squeue(const char *job, int out, pid_t *pid)
{
    const char *const argv[] = {"squeue", "-h", "-j", job, "-o", "%L", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int error;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&how, 0);
    error = posix_spawnp(pid, argv[0], &files, &how, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* What comes until the other end is closed, as far as it fits; false if that takes too long. */
static bool read_until(int fd, char *text, size_t size, double deadline)
{
    size_t used = 0;

    for (;;) {
        struct pollfd in = {.fd = fd, .events = POLLIN};
        double left = deadline - tr_now();
        char rest[64];
        ssize_t n;

        if (left <= 0.0)
            return false;
        if (poll(&in, 1, (int)(1e3 * left) + 1) <= 0)
            continue;
        n = used < size - 1 ? read(fd, text + used, size - 1 - used) : read(fd, rest, sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (used < size - 1)
            used += (size_t)n;
    }
    text[used] = '\0';
    return true;
}

/* Wait for the end of `pid` until the deadline, and then kill it.  Did it succeed? */
static bool reap(pid_t pid, double deadline)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    int status;
    pid_t ended;

    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && tr_now() < deadline)
        nanosleep(&pause, NULL);
    if (ended == 0) {
        kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        return false;
    }
    return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The first line of what squeue says of the time left; false if it says nothing. */
static bool ask_squeue(const char *job, double patience, char *text, size_t size)
{
    double deadline = tr_now() + patience;
    bool heard;
    int end[2];
    pid_t pid;

    if (pipe2(end, O_CLOEXEC) != 0)
        return false;
    if (start_squeue(job, end[1], &pid) != 0) {
        close(end[0]);
        close(end[1]);
        return false;
    }
    close(end[1]);
    heard = read_until(end[0], text, size, deadline);
    close(end[0]);
    if (!reap(pid, heard ? deadline : 0.0) || !heard)
        return false;
    text[strcspn(text, "\r\n")] = '\0';
    return true;
}

int64_t tr_job_end(const struct tr_job *job, time_t now, double patience, const char **how)
{
    const char *stated = getenv("SLURM_JOB_END_TIME");
    int64_t end = number_of(stated), left;
    char text[64];

    *how = "there is no Slurm job";
    if (!job->id)
        return TR_JOB_NO_END;
    *how = "SLURM_JOB_END_TIME";
    if (end > 0)
        return end;
    *how = "squeue did not answer";
    if (!ask_squeue(job->id, patience, text, sizeof text))
        return TR_JOB_NO_END;
    left = tr_job_seconds(text + strspn(text, " "));
    *how = left < 0 ? "squeue knows no time limit" : "squeue";
    return left < 0 ? TR_JOB_NO_END : (int64_t)now + left;
}
