/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/timer.h"

/* Seconds. */
static const double ENDING = 2.0, SAME_JOB = 120.0;

/* What the file says.  Each is one word, but for the time. */
struct holder {
    char job[64], step[64], host[256], since[32];
    long pid;
    int64_t restart;
};

static int lock_call(int fd, int command, struct flock *whole)
{
    *whole = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, command, whole);
}

static bool has_no_locks(int error)
{
    return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

static void read_holder(int fd, struct holder *h)
{
    char text[1024], *line, *rest = text;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    memset(h, 0, sizeof *h);
    text[n > 0 ? n : 0] = '\0';
    while ((line = strsep(&rest, "\n"))) {
        if (sscanf(line, "job %63s", h->job) == 1 || sscanf(line, "step %63s", h->step) == 1 ||
            sscanf(line, "host %255s", h->host) == 1 ||
            sscanf(line, "since %31[^\n]", h->since) == 1)
            continue;
        if (strncmp(line, "pid ", 4) == 0)
            h->pid = strtol(line + 4, NULL, 10);
        else if (strncmp(line, "restart ", 8) == 0)
            h->restart = (int64_t)strtoll(line + 8, NULL, 10);
    }
}

static void describe(const struct holder *h, char *text, size_t size)
{
    bool known = strcmp(h->job, "none") != 0 && h->job[0];

    snprintf(text, size, "%s%s, host %s, process %ld, since %s", known ? "job " : "no Slurm job",
             known ? h->job : "", h->host[0] ? h->host : "unknown", h->pid,
             h->since[0] ? h->since : "an unknown time");
}

/* For people, and for the sentence of whoever comes second: a failure is no reason to stop. */
static void write_holder(int fd, const struct tr_job *job)
{
    char host[256] = "unknown", since[TR_TIME_BYTES], *text;

    gethostname(host, sizeof host - 1);
    text = tr_format("job %s\nstep %s\nrestart %" PRId64 "\nhost %s\npid %ld\nsince %s\n",
                     job->id ? job->id : "none", job->step ? job->step : "none", job->restart, host,
                     (long)getpid(), tr_time_local(time(NULL), since));
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, strlen(text), 0) < 0)
        tr_log(TR_LOG_DEBUG, "the lock cannot say who holds it: %s", strerror(errno));
    free(text);
}

/* An earlier start of this very job, or an earlier step of it. */
static bool is_earlier_self(const struct holder *h, const struct tr_job *job)
{
    if (!job->id || strcmp(h->job, job->id) != 0)
        return false;
    return h->restart < job->restart || strcmp(h->step, job->step ? job->step : "none") != 0;
}

/* Until it is ours, or there is no hope: 0, or the errno of the last try. */
static int try_for_long(int fd, const char *path, const struct tr_job *job)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    double began = tr_now();
    bool warned = false;

    for (;;) {
        struct flock whole;
        struct holder h;
        double waited;

        if (lock_call(fd, F_OFD_SETLK, &whole) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return errno;
        read_holder(fd, &h);
        waited = tr_now() - began;
        if (waited > (is_earlier_self(&h, job) ? SAME_JOB : ENDING))
            return EAGAIN;
        if (waited > ENDING && !warned) {
            tr_log(TR_LOG_WARNING,
                   "%s is still held by an earlier start of this job on %s: waiting up to %g s for "
                   "its end",
                   path, h.host, SAME_JOB);
            warned = true;
        }
        nanosleep(&pause, NULL);
    }
}

static enum tr_status refuse(int fd, const char *folder)
{
    struct holder h;
    char by[512];

    read_holder(fd, &h);
    describe(&h, by, sizeof by);
    return TR_FAIL(
        TR_ERESOURCE,
        "another run writes into %s (%s), and two would destroy each other's checkpoints: "
        "wait for its end, end it with `trireme ctl %s stop`, or give another --save",
        folder, by, folder);
}

enum tr_status tr_lock_take(const char *folder, const struct tr_job *job, struct tr_lock *out)
{
    char *path = tr_format("%s/lock", folder);
    enum tr_status s = TR_OK;
    int error;

    out->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (out->fd < 0) {
        s = TR_FAIL(
            TR_EIO,
            "cannot open %s, with which a run keeps other writers out: %s; make the folder and "
            "that file writable, or give another --save",
            path, strerror(errno));
        free(path);
        return s;
    }
    error = try_for_long(out->fd, path, job);
    if (error == 0) {
        write_holder(out->fd, job);
    } else if (has_no_locks(error)) {
        tr_log(
            TR_LOG_WARNING,
            "the file system of %s has no locks (%s), so nothing keeps a second run from writing "
            "there at the same time",
            folder, strerror(error));
    } else if (error == EAGAIN) {
        s = refuse(out->fd, folder);
    } else {
        s = TR_FAIL(TR_EIO, "cannot lock %s: %s", path, strerror(error));
    }
    if (error != 0) {
        close(out->fd);
        out->fd = -1;
    }
    free(path);
    return s;
}

void tr_lock_release(struct tr_lock *lock)
{
    if (lock->fd < 0)
        return;
    if (ftruncate(lock->fd, 0) != 0)
        tr_log(TR_LOG_DEBUG, "the lock cannot be emptied: %s", strerror(errno));
    close(lock->fd);
    lock->fd = -1;
}

enum tr_lock_view tr_lock_look(const char *folder, char *by, size_t size)
{
    char *path = tr_format("%s/lock", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum tr_lock_view view = TR_LOCK_UNKNOWN;
    struct flock whole;
    struct holder h;

    by[0] = '\0';
    free(path);
    if (fd < 0)
        return TR_LOCK_UNKNOWN;
    if (lock_call(fd, F_OFD_GETLK, &whole) == 0)
        view = whole.l_type == F_UNLCK ? TR_LOCK_FREE : TR_LOCK_HELD;
    if (view == TR_LOCK_HELD) {
        read_holder(fd, &h);
        describe(&h, by, size);
    }
    close(fd);
    return view;
}
