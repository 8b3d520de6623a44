/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/path.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ckpt.h"
#include "ckpt/schema.h"
#include "util/file.h"
#include "util/log.h"

char *tr_ckpt_folder(const char *dir, int64_t iteration)
{
    return tr_format("%s/" TR_CKPT_ITER, dir, (long long)iteration);
}

char *tr_ckpt_file_in(const char *folder)
{
    return tr_format("%s/" TR_CKPT_FILE, folder);
}

char *tr_ckpt_temporary(const char *dir, int64_t iteration, long tag)
{
    return tr_format("%s/" TR_CKPT_TMP, dir, (long long)iteration, tag);
}

/* The number that `name` stands for, or -1 if it is not exactly how that number is written. */
static int64_t iteration_of(const char *name)
{
    char again[64], *end;
    long long number;

    if (strncmp(name, "iter_", 5) != 0 || !isdigit((unsigned char)name[5]))
        return -1;
    errno = 0;
    number = strtoll(name + 5, &end, 10);
    if (errno != 0)
        return -1;
    snprintf(again, sizeof again, TR_CKPT_ITER, number);
    return strcmp(again, name) == 0 ? (int64_t)number : -1;
}

int64_t tr_ckpt_older(const char *dir, int64_t below)
{
    DIR *d = opendir(dir);
    int64_t best = -1;

    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        int64_t number = iteration_of(e->d_name);

        if (number < below && number > best)
            best = number;
    }
    if (d)
        closedir(d);
    return best;
}

enum tr_status tr_ckpt_latest(const char *dir, int64_t *iteration)
{
    char *path = tr_format("%s/" TR_CKPT_TRACKER, dir), *text = NULL, *end = NULL;
    enum tr_status s;

    *iteration = -1;
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        free(path);
        return TR_OK;
    }
    s = tr_file_text(path, 64, &text);
    if (s == TR_OK) {
        errno = 0;
        *iteration = isdigit((unsigned char)text[0]) ? strtoll(text, &end, 10) : -1;
        if (*iteration < 0 || errno != 0 || end[strspn(end, " \t\r\n")] != '\0') {
            *iteration = -1;
            s = TR_FAIL(TR_EDATA,
                        "%s must hold the number of an iteration and nothing else; write the one "
                        "to resume from into it, or remove it to start anew",
                        path);
        }
    }
    free(text);
    free(path);
    return s;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum tr_status tr_ckpt_find(const char *path, char **file)
{
    int64_t iteration;
    char *folder;

    *file = NULL;
    if (!is_folder(path)) {
        *file = tr_format("%s", path);
        return TR_OK;
    }
    TR_TRY(tr_ckpt_latest(path, &iteration));
    folder = iteration >= 0 ? tr_ckpt_folder(path, iteration) : tr_format("%s", path);
    *file = tr_ckpt_file_in(folder);
    free(folder);
    if (iteration < 0 && access(*file, F_OK) != 0) {
        free(*file);
        *file = NULL;
        return TR_FAIL(
            TR_EIO, "there is no checkpoint in %s: neither " TR_CKPT_FILE " nor " TR_CKPT_TRACKER,
            path);
    }
    return TR_OK;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* True if the folder holds the files of a checkpoint, or nothing, and no more: what someone else
   put there is not ours to remove. */
static bool is_ours(const char *folder)
{
    DIR *d = opendir(folder);
    bool ours = d != NULL;

    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        ours &= strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
                strcmp(e->d_name, TR_CKPT_FILE) == 0 || begins(e->d_name, TR_CKPT_BESIDE);
    if (d)
        closedir(d);
    return ours;
}

static void remove_beside(const char *folder)
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (begins(e->d_name, TR_CKPT_BESIDE))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

void tr_ckpt_remove(const char *folder)
{
    char *file = tr_ckpt_file_in(folder);

    if (is_ours(folder))
        remove_beside(folder);
    if (!is_ours(folder))
        tr_log(TR_LOG_WARNING, "%s holds more than a checkpoint, so it is not removed", folder);
    else if ((unlink(file) != 0 && errno != ENOENT) || rmdir(folder) != 0)
        tr_log(TR_LOG_WARNING, "cannot remove %s: %s", folder, strerror(errno));
    free(file);
}

/* Under its own name a checkpoint is whole: it loses the name before anything of it goes. */
static void remove_checkpoint(const char *dir, int64_t iteration, long tag)
{
    char *folder = tr_ckpt_folder(dir, iteration);
    char *old = tr_format("%s/" TR_CKPT_OLD, dir, (long long)iteration, tag);

    if (!is_ours(folder))
        tr_log(TR_LOG_WARNING, "%s holds more than a checkpoint, so it is not removed", folder);
    else if (rename(folder, old) != 0)
        tr_log(TR_LOG_WARNING, "cannot remove %s: %s", folder, strerror(errno));
    else
        tr_ckpt_remove(old);
    free(old);
    free(folder);
}

/* One step where the file system can exchange names.  Elsewhere there is a moment in which
   neither is there under the name; the loader then goes back to the checkpoint before. */
static int replace_folder(const char *temporary, const char *folder, const char *old)
{
    int error;

    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, folder, RENAME_EXCHANGE) == 0)
        return 0;
    if (rename(folder, old) != 0)
        return -1;
    if (rename(temporary, folder) == 0)
        return 0;
    error = errno;
    if (rename(old, folder) != 0)
        tr_log(TR_LOG_WARNING, "cannot give %s its name %s back: %s", old, folder, strerror(errno));
    errno = error;
    return -1;
}

static enum tr_status move_folder(const char *dir, int64_t iteration, long tag)
{
    char *temporary = tr_ckpt_temporary(dir, iteration, tag);
    char *folder = tr_ckpt_folder(dir, iteration);
    char *old = tr_format("%s/" TR_CKPT_OLD, dir, (long long)iteration, tag);
    enum tr_status s = tr_fsync_path(temporary);

    if (s == TR_OK) {
        int rc =
            is_folder(folder) ? replace_folder(temporary, folder, old) : rename(temporary, folder);

        if (rc != 0)
            s = TR_FAIL(TR_EIO, "cannot give the finished checkpoint its name %s: %s", folder,
                        strerror(errno));
    }
    free(old);
    free(folder);
    free(temporary);
    return s;
}

enum tr_status tr_ckpt_commit(const char *dir, int64_t iteration, long tag)
{
    char *tracker, *number;
    enum tr_status s;

    TR_TRY(move_folder(dir, iteration, tag));
    TR_TRY(tr_fsync_path(dir));
    tracker = tr_format("%s/" TR_CKPT_TRACKER, dir);
    number = tr_format("%lld", (long long)iteration);
    s = tr_file_replace(tracker, number, strlen(number));
    free(number);
    free(tracker);
    return s;
}

/* Everything in DIR that has one of the names under which something is prepared or removed. */
static void remove_leftovers(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char *path = tr_format("%s/%s", dir, e->d_name);

        if (begins(e->d_name, ".iter_") &&
            (strstr(e->d_name, ".tmp-") || strstr(e->d_name, ".old-")))
            tr_ckpt_remove(path);
        else if (begins(e->d_name, TR_CKPT_TRACKER ".tmp."))
            unlink(path);
        free(path);
    }
    if (d)
        closedir(d);
}

void tr_ckpt_tidy(const char *dir, int64_t iteration, int keep_last, long tag)
{
    int64_t at = iteration;

    remove_leftovers(dir);
    for (int kept = 1; keep_last > 0 && (at = tr_ckpt_older(dir, at)) >= 0; kept++)
        if (kept >= keep_last)
            remove_checkpoint(dir, at, tag);
}
