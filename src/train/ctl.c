/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/ctl.h"

#include <ctype.h>
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

static char *path_of(const char *folder, enum tr_ask ask)
{
    return tr_format("%s/ctl/%s", folder, tr_ask_name(ask));
}

unsigned tr_ctl_look(const char *folder)
{
    char *path = tr_format("%s/ctl", folder);
    DIR *d = opendir(path);
    unsigned found = 0;

    free(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
            if (strcmp(e->d_name, tr_ask_name(asks[i])) == 0)
                found |= asks[i];
    if (d)
        closedir(d);
    return found;
}

void tr_ctl_who(const char *folder, enum tr_ask ask, char *who, size_t size)
{
    char *path = path_of(folder, ask);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, who, size - 1) : 0;

    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\r\n")] = '\0';
    for (char *c = who; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
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
    char *path = path_of(folder, ask), *who = signature();
    enum tr_status s = tr_ctl_open(folder);

    if (s == TR_OK)
        s = tr_file_replace(path, who, strlen(who));
    free(who);
    free(path);
    return s;
}

bool tr_ctl_remove(const char *folder, enum tr_ask ask)
{
    char *path = path_of(folder, ask);
    bool gone = unlink(path) == 0 || errno == ENOENT;

    free(path);
    return gone;
}

enum tr_status tr_ctl_open(const char *folder)
{
    char *path = tr_format("%s/ctl", folder);
    enum tr_status s = tr_make_dirs(path);

    free(path);
    return s;
}
