/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/path.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ckpt.h"
#include "ckpt/schema.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

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

int64_t tr_ckpt_iteration(const char *name)
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
        int64_t number = tr_ckpt_iteration(e->d_name);

        if (number < below && number > best)
            best = number;
    }
    if (d)
        closedir(d);
    return best;
}

bool tr_ckpt_holds(const char *folder)
{
    char *file = tr_ckpt_file_in(folder);
    bool holds = access(file, F_OK) == 0;

    free(file);
    return holds;
}

static bool has_file(const char *dir, int64_t iteration)
{
    char *folder = tr_ckpt_folder(dir, iteration);
    bool has = tr_ckpt_holds(folder);

    free(folder);
    return has;
}

bool tr_ckpt_any(const char *dir)
{
    bool any = tr_ckpt_holds(dir);

    for (int64_t at = INT64_MAX; !any && (at = tr_ckpt_older(dir, at)) >= 0;)
        any = has_file(dir, at);
    return any;
}

char *tr_ckpt_iterations(const char *dir)
{
    enum { MOST = 8 };
    int64_t newest[MOST], older = 0;
    char *text = tr_format("%s", "");
    int n = 0;

    for (int64_t at = INT64_MAX; (at = tr_ckpt_older(dir, at)) >= 0;) {
        if (!has_file(dir, at))
            continue;
        if (n < MOST)
            newest[n++] = at;
        else
            older++;
    }
    for (int i = n - 1; i >= 0; i--) {
        const char *before = i == n - 1 ? "" : i == 0 && older == 0 ? " and " : ", ";
        char *more = tr_format("%s%s%lld", text, before, (long long)newest[i]);

        free(text);
        text = more;
    }
    if (older > 0) {
        char *more = tr_format("%s, and %lld older ones", text, (long long)older);

        free(text);
        text = more;
    }
    return text;
}

enum tr_status tr_ckpt_missing(const char *dir, int64_t iteration)
{
    char *folder = tr_ckpt_folder(dir, iteration), *there = tr_ckpt_iterations(dir);

    (void)TR_FAIL(TR_EIO,
                  "there is no checkpoint of iteration %lld in %s (no %s/" TR_CKPT_FILE
                  "): the folder has %s",
                  (long long)iteration, dir, folder, *there ? there : "none");
    free(there);
    free(folder);
    return TR_EIO;
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
    s = tr_regular_text(path, 64, &text);
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

enum tr_status tr_ckpt_newest(const char *dir, int64_t *iteration)
{
    enum tr_status s = tr_ckpt_latest(dir, iteration);
    int64_t newest = s == TR_EDATA ? tr_ckpt_older(dir, INT64_MAX) : -1;

    if (newest < 0)
        return s;
    tr_log(TR_LOG_WARNING,
           "%s; going on from the newest checkpoint that is there, of iteration %lld",
           tr_last_error(), (long long)newest);
    *iteration = newest;
    return TR_OK;
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

/* ---- removing ---- */

/* A folder of `at`, through no link. */
static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static DIR *list(int folder)
{
    int fd = open_folder(folder, ".");
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d && fd >= 0)
        close(fd);
    return d;
}

/* The next name but "." and ".."; NULL after the last. */
static const char *next_name(DIR *d)
{
    struct dirent *e;

    while ((e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return e->d_name;
    return NULL;
}

/* The type of the file of that name: S_IFLNK for a link, whatever its target, and 0 for none. */
static mode_t kind_of(int at, const char *name)
{
    struct stat st;

    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & S_IFMT : 0;
}

/* True if the folder holds the files of a checkpoint, or nothing, and no more: what someone else
   put there, links too, is not ours to remove. */
static bool is_ours(int folder)
{
    DIR *d = list(folder);
    bool ours = d != NULL;

    for (const char *name; ours && (name = next_name(d)) != NULL;)
        ours = (strcmp(name, TR_CKPT_FILE) == 0 || tr_text_begins(name, TR_CKPT_SIDECAR)) &&
               kind_of(folder, name) == S_IFREG;
    if (d)
        closedir(d);
    return ours;
}

static int empty_folder(int folder)
{
    DIR *d = list(folder);
    int failed = d ? 0 : -1;

    for (const char *name; failed == 0 && (name = next_name(d)) != NULL;)
        failed = unlinkat(folder, name, 0);
    if (d) {
        int error = errno;

        closedir(d);
        errno = error;
    }
    return failed;
}

/* Nothing outside the folder is reached: it is opened through no link and emptied by its descriptor. */
static void remove_folder(int at, const char *dir, const char *name)
{
    int folder = open_folder(at, name);

    if (folder >= 0 && !is_ours(folder))
        tr_log(TR_LOG_WARNING, "%s/%s holds more than a checkpoint, so it is not removed", dir,
               name);
    else if (folder < 0 || empty_folder(folder) != 0 || unlinkat(at, name, AT_REMOVEDIR) != 0)
        tr_log(TR_LOG_WARNING, "cannot remove %s/%s: %s", dir, name, strerror(errno));
    if (folder >= 0)
        close(folder);
}

/* What has a name under which something is prepared or removed, and may be a link of that name. */
static void remove_leftover(int at, const char *dir, const char *name)
{
    switch (kind_of(at, name)) {
    case 0:
        break;
    case S_IFLNK:
        tr_log(
            TR_LOG_WARNING,
            "%s/%s is a symbolic link where a save left a folder behind: the link is removed, and "
            "what it leads to is untouched",
            dir, name);
        if (unlinkat(at, name, 0) != 0)
            tr_log(TR_LOG_WARNING, "cannot remove %s/%s: %s", dir, name, strerror(errno));
        break;
    default:
        remove_folder(at, dir, name);
    }
}

void tr_ckpt_remove(const char *folder)
{
    char *path = tr_format("%s", folder), *copy = tr_format("%s", folder);
    const char *dir = dirname(path), *name = basename(copy);
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (at >= 0) {
        remove_leftover(at, dir, name);
        close(at);
    } else if (errno != ENOENT) {
        tr_log(TR_LOG_WARNING, "cannot remove %s: %s", folder, strerror(errno));
    }
    free(copy);
    free(path);
}

/* False, with a warning, unless it is a folder that holds nothing but a checkpoint. */
static bool may_go(int at, const char *dir, const char *name)
{
    mode_t kind = kind_of(at, name);
    int folder = kind == S_IFDIR ? open_folder(at, name) : -1;
    bool ours = folder >= 0 && is_ours(folder);

    if (kind == S_IFLNK)
        tr_log(
            TR_LOG_WARNING,
            "%s/%s is a symbolic link, so --keep-last removes neither the link nor the checkpoint "
            "that it leads to",
            dir, name);
    else if (!ours)
        tr_log(TR_LOG_WARNING, "%s/%s holds more than a checkpoint, so it is not removed", dir,
               name);
    if (folder >= 0)
        close(folder);
    return ours;
}

/* Under its own name a checkpoint is complete: it is renamed before any of it is removed. */
static void remove_checkpoint(int at, const char *dir, int64_t iteration, long tag)
{
    char *name = tr_format(TR_CKPT_ITER, (long long)iteration);
    char *old = tr_format(TR_CKPT_OLD, (long long)iteration, tag);

    if (may_go(at, dir, name)) {
        if (renameat(at, name, at, old) != 0)
            tr_log(TR_LOG_WARNING, "cannot remove %s/%s: %s", dir, name, strerror(errno));
        else
            remove_folder(at, dir, old);
    }
    free(old);
    free(name);
}

/* ---- giving a checkpoint its name ---- */

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

/* A link of that name has to go, but nothing is written to where it leads. */
static int take_name(const char *temporary, const char *folder, const char *old)
{
    switch (kind_of(AT_FDCWD, folder)) {
    case S_IFDIR:
        return replace_folder(temporary, folder, old);
    case S_IFLNK:
        tr_log(TR_LOG_WARNING,
               "%s was a symbolic link: the checkpoint of this run takes its place, and what the "
               "link led to is untouched",
               folder);
        if (unlink(folder) != 0)
            return -1;
        return rename(temporary, folder);
    default:
        return rename(temporary, folder);
    }
}

static enum tr_status move_folder(const char *dir, int64_t iteration, long tag)
{
    char *temporary = tr_ckpt_temporary(dir, iteration, tag);
    char *folder = tr_ckpt_folder(dir, iteration);
    char *old = tr_format("%s/" TR_CKPT_OLD, dir, (long long)iteration, tag);
    enum tr_status s = tr_fsync_path(temporary);

    if (s == TR_OK && take_name(temporary, folder, old) != 0)
        s = TR_FAIL(TR_EIO, "cannot give the finished checkpoint its name %s: %s", folder,
                    strerror(errno));
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

void tr_ckpt_withdraw(const char *dir, int64_t iteration, bool tracker)
{
    char *folder = tr_ckpt_folder(dir, iteration);
    char *file = tr_format("%s/" TR_CKPT_TRACKER, dir);

    tr_ckpt_remove(folder);
    if (tracker && unlink(file) != 0 && errno != ENOENT)
        tr_log(TR_LOG_WARNING, "cannot remove %s: %s", file, strerror(errno));
    free(file);
    free(folder);
}

/* ---- removing what killed saves left ---- */

/* True for a name that a save gives what it prepares or removes, exactly as it writes it. */
static bool is_leftover(const char *name)
{
    char again[96];
    long long iteration;
    long tag;

    if (sscanf(name, ".iter_%lld.tmp-%ld", &iteration, &tag) == 2)
        snprintf(again, sizeof again, TR_CKPT_TMP, iteration, tag);
    else if (sscanf(name, ".iter_%lld.old-%ld", &iteration, &tag) == 2)
        snprintf(again, sizeof again, TR_CKPT_OLD, iteration, tag);
    else
        return false;
    return strcmp(again, name) == 0;
}

static void remove_leftovers(int at, const char *dir)
{
    DIR *d = list(at);

    for (const char *name; d && (name = next_name(d)) != NULL;)
        if (is_leftover(name))
            remove_leftover(at, dir, name);
    if (d)
        closedir(d);
    tr_file_tidy(dir, TR_CKPT_TRACKER);
}

void tr_ckpt_tell_leftovers(const char *dir)
{
    DIR *d = opendir(dir);

    for (const char *name; d && (name = next_name(d)) != NULL;)
        if (is_leftover(name))
            tr_log(TR_LOG_WARNING,
                   "%s/%s is left of one that was killed, or another is at work there: remove it, "
                   "unless it is; the next save of a run there does",
                   dir, name);
    if (d)
        closedir(d);
}

void tr_ckpt_tidy(const char *dir, int64_t iteration, int keep_last, long tag)
{
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t number = iteration;

    if (at < 0) {
        tr_log(TR_LOG_WARNING, "cannot tidy up in %s: %s", dir, strerror(errno));
        return;
    }
    remove_leftovers(at, dir);
    for (int kept = 1; keep_last > 0 && (number = tr_ckpt_older(dir, number)) >= 0; kept++)
        if (kept >= keep_last)
            remove_checkpoint(at, dir, number, tag);
    close(at);
}
