/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_DATA_FOLDER_H
#define TR_TESTS_DATA_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/file.h"

/* A fresh folder for a test; the path is owned by the caller. */
static inline char *folder_make(void)
{
    const char *where = getenv("TMPDIR");
    char *path = tr_format("%s/trireme-XXXXXX", where && *where ? where : "/tmp");

    if (!mkdtemp(path))
        tr_die(TR_EIO, "cannot make a temporary folder %s", path);
    return path;
}

/* Files in a folder, not counting . and .. */
static inline int folder_count(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* Remove it with the files and folders in it, and free the path. */
static inline void folder_remove(char *path)
{
    DIR *d;

    chmod(path, 0700);
    d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *name = tr_format("%s/%s", path, e->d_name);

        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlink(name) != 0)
            folder_remove(tr_format("%s", name));
        free(name);
    }
    if (d)
        closedir(d);
    rmdir(path);
    free(path);
}

/* Write a file anew; any failure fails the program. */
static inline void file_put(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "w");

    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        tr_die(TR_EIO, "cannot write %s", path);
}

#endif
