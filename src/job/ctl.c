/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/ctl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/text.h"

static const enum tr_ask asks[] = {TR_ASK_STOP, TR_ASK_SAVE, TR_ASK_DUMP};

const char *tr_ask_name(enum tr_ask ask)
{
    return ask == TR_ASK_STOP ? "stop" : ask == TR_ASK_SAVE ? "save" : "dump";
}

/* RUN/ctl, or -1 with errno.  A link there could lead to a folder whose files are none of ours. */
static int open_folder(const char *run)
{
    char *path = tr_format("%s/ctl", run);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    free(path);
    return fd;
}

unsigned tr_ctl_look(const char *folder)
{
    int fd = open_folder(folder);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    unsigned found = 0;

    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
            if (strcmp(e->d_name, tr_ask_name(asks[i])) == 0)
                found |= asks[i];
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return found;
}

void tr_ctl_who(const char *folder, enum tr_ask ask, char *who, size_t size)
{
    char *path = tr_format("%s/ctl/%s", folder, tr_ask_name(ask));
    int fd = tr_open_regular(path, O_RDONLY | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, who, size - 1) : 0;

    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\r\n")] = '\0';
    tr_printable(who);
    if (!who[0])
        snprintf(who, size, "somebody");
    if (fd >= 0)
        close(fd);
    free(path);
}

static char *signature(void)
{
    const struct passwd *user = getpwuid(getuid());
    char host[256] = "", when[TR_TIME_BYTES];

    gethostname(host, sizeof host - 1);
    tr_time_local(time(NULL), when);
    if (user)
        return tr_format("%s on %s at %s\n", user->pw_name, host, when);
    return tr_format("user %ld on %s at %s\n", (long)getuid(), host, when);
}

enum tr_status tr_ctl_ask(const char *folder, enum tr_ask ask)
{
    char *path = tr_format("%s/ctl/%s", folder, tr_ask_name(ask)), *who = signature();
    enum tr_status s = tr_ctl_open(folder);

    if (s == TR_OK)
        s = tr_file_replace(path, who, strlen(who));
    free(who);
    free(path);
    return s;
}

bool tr_ctl_remove(const char *folder, enum tr_ask ask)
{
    int fd = open_folder(folder), error = 0;

    if (fd < 0)
        return errno == ENOENT;
    if (unlinkat(fd, tr_ask_name(ask), 0) != 0)
        error = errno;
    close(fd);
    errno = error;
    return error == 0 || error == ENOENT;
}

enum tr_status tr_ctl_open(const char *folder)
{
    char *path = tr_format("%s/ctl", folder);
    enum tr_status s = tr_make_dirs(path);
    int fd = s == TR_OK ? open_folder(folder) : -1;

    if (s == TR_OK && fd < 0)
        s = TR_FAIL(TR_EIO,
                    "%s is a link or no folder, so nothing is read or written there: remove it",
                    path);
    if (fd >= 0)
        close(fd);
    free(path);
    return s;
}
