/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/clock.h"

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
    tr_printable(text);
}

/* For people, and for the message of a second run: a failure is no reason to stop. */
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

/* Try until the lock is ours or waiting is useless: 0, or the errno of the last try. */
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

/* Whoever may read a file may keep writers out of it with a lock for readers; runs have that of a writer. */
static bool held_by_a_reader(int fd)
{
    struct flock whole;

    return lock_call(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type == F_RDLCK;
}

static enum tr_status refuse(int fd, const char *folder)
{
    struct holder h;
    char by[512];

    if (held_by_a_reader(fd))
        return TR_FAIL(TR_ERESOURCE,
                       "a process that is no run of trireme holds a lock on %s/lock, so this run "
                       "cannot keep others out of %s: `fuser %s/lock` names it; end it, or give "
                       "another --save",
                       folder, folder, folder);
    read_holder(fd, &h);
    describe(&h, by, sizeof by);
    return TR_FAIL(
        TR_ERESOURCE,
        "another run writes into %s (%s), and two would destroy each other's checkpoints: "
        "wait for its end, end it with `trireme ctl %s stop`, or give another --save",
        folder, by, folder);
}

static bool is_of_my_group(const struct stat *st)
{
    gid_t group[1024];
    int n = getgroups(sizeof group / sizeof group[0], group);

    if (!(st->st_mode & S_IWGRP))
        return false;
    for (int i = 0; i < n; i++)
        if (group[i] == st->st_gid)
            return true;
    return st->st_gid == getegid();
}

/* Only its owner may open it, or its group where umask and owner let the group write, so that
   members of the group can run here in turn.  A user who cannot change the mode must find it so. */
static enum tr_status guard(int fd, const char *folder, struct stat *st)
{
    struct stat above;
    mode_t mode = S_IRUSR | S_IWUSR;

    if (fstat(fd, st) != 0)
        return TR_FAIL(TR_EIO, "cannot look at %s/lock: %s", folder, strerror(errno));
    if (st->st_nlink > 1)
        return TR_FAIL(TR_EIO,
                       "%s/lock is a second name of another file, which a run would overwrite: "
                       "remove that name, or give another --save",
                       folder);
    if (st->st_mode & S_IWGRP)
        mode |= S_IRGRP | S_IWGRP;
    if (fchmod(fd, mode) == 0 || is_of_my_group(st) ||
        (stat(folder, &above) == 0 && above.st_uid == st->st_uid))
        return TR_OK;
    return TR_FAIL(
        TR_ERESOURCE,
        "%s/lock belongs to user %ld, who is neither you nor of your group nor the owner "
        "of the folder, and who could keep you out: have it removed, or give another "
        "--save",
        folder, (long)st->st_uid);
}

/* Opened without following a link, which could lead to any file of the user, and without waiting. */
static enum tr_status open_lock(const char *folder, struct tr_lock *out)
{
    struct stat st;
    enum tr_status s;

    out->path = tr_format("%s/lock", folder);
    out->fd = tr_open_regular(out->path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (out->fd < 0)
        return TR_FAIL(TR_EIO,
                       "cannot open %s, with which a run keeps other writers out: %s; make the "
                       "folder and that file writable or remove the file, or give another --save",
                       out->path, tr_open_why(errno));
    s = guard(out->fd, folder, &st);
    out->device = (int64_t)st.st_dev;
    out->inode = (int64_t)st.st_ino;
    return s;
}

static void drop(struct tr_lock *lock)
{
    if (lock->fd >= 0)
        close(lock->fd);
    free(lock->path);
    *lock = (struct tr_lock){.fd = -1};
}

static enum tr_status take(const char *folder, const struct tr_job *job, struct tr_lock *out)
{
    int error;

    TR_TRY(open_lock(folder, out));
    error = try_for_long(out->fd, out->path, job);
    if (error == EAGAIN)
        return refuse(out->fd, folder);
    if (error != 0 && !has_no_locks(error))
        return TR_FAIL(TR_EIO, "cannot lock %s: %s", out->path, strerror(error));
    if (error == 0) {
        write_holder(out->fd, job);
        return TR_OK;
    }
    tr_log(TR_LOG_WARNING,
           "the file system of %s has no locks (%s), so nothing keeps a second run from writing "
           "there at the same time",
           folder, strerror(error));
    drop(out);
    return TR_OK;
}

enum tr_status tr_lock_take(const char *folder, const struct tr_job *job, struct tr_lock *out)
{
    enum tr_status s;

    *out = (struct tr_lock){.fd = -1};
    s = take(folder, job, out);
    if (s == TR_OK)
        s = tr_lock_check(out, folder);
    if (s != TR_OK)
        drop(out);
    return s;
}

/* The file that has the name now.  To open it makes a file server look anew. */
static int now_there(const char *path, struct stat *st)
{
    int fd = tr_open_regular(path, O_RDONLY | O_NOFOLLOW), failed;

    if (fd < 0)
        return lstat(path, st);
    failed = fstat(fd, st);
    close(fd);
    return failed;
}

enum tr_status tr_lock_check(const struct tr_lock *lock, const char *folder)
{
    struct stat st;
    char by[512];

    if (lock->fd < 0)
        return TR_OK;
    if (now_there(lock->path, &st) == 0) {
        if ((int64_t)st.st_dev == lock->device && (int64_t)st.st_ino == lock->inode)
            return TR_OK;
        if (tr_lock_look(folder, by, sizeof by) != TR_LOCK_HELD)
            snprintf(by, sizeof by, "which nobody holds now");
        return TR_FAIL(TR_ERESOURCE,
                       "%s was replaced while this run held it (%s), so another run may write into "
                       "%s: this one saves nothing more there, and what was saved is kept",
                       lock->path, by, folder);
    }
    if (errno != ENOENT && errno != ENOTDIR)
        return TR_OK;
    return TR_FAIL(
        TR_ERESOURCE,
        "%s was removed while this run held it, so nothing keeps another run out of %s: "
        "this one saves nothing more there, and what was saved is kept; start it again to "
        "go on from that, and leave the lock alone while a run is under way",
        lock->path, folder);
}

void tr_lock_release(struct tr_lock *lock)
{
    if (lock->fd >= 0 && ftruncate(lock->fd, 0) != 0)
        tr_log(TR_LOG_DEBUG, "the lock cannot be emptied: %s", strerror(errno));
    drop(lock);
}

enum tr_lock_view tr_lock_look(const char *folder, char *by, size_t size)
{
    char *path = tr_format("%s/lock", folder);
    int fd = tr_open_regular(path, O_RDONLY | O_NOFOLLOW);
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
