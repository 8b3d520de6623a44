/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into ranks that mpiexec starts on this machine.
 *
 *   TR_OPENS=PREFIX     every file that is opened once MPI has started is a line of PREFIX.RANK
 *   TR_PRETEND_NODE=N   once MPI has started, N ranks at a time are on hosts of their own: n0, n1, ...
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *given);

static bool started;

static const char *rank(void)
{
    const char *r = getenv("OMPI_COMM_WORLD_RANK");

    return r ? r : "0";
}

/* The function that this one stands before. */
#define REAL(type, name, ...)         \
    static type (*real)(__VA_ARGS__); \
    if (!real)                        \
    *(void **)&real = dlsym(RTLD_NEXT, name)

static void note(const char *path)
{
    REAL(int, "open", const char *, int, ...);
    const char *prefix = getenv("TR_OPENS");
    char log[4096], line[4200];
    int fd, n;

    if (!started || !prefix)
        return;
    snprintf(log, sizeof log, "%s.%s", prefix, rank());
    fd = real(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    n = snprintf(line, sizeof line, "%s\n", path);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

/* A mode is there only with these flags. */
#define MODE(flags, last, mode)                                          \
    do {                                                                 \
        va_list ap;                                                      \
        va_start(ap, last);                                              \
        mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0; \
        va_end(ap);                                                      \
    } while (0)

#define OPEN(name)                                \
    int name(const char *path, int flags, ...)    \
    {                                             \
        REAL(int, #name, const char *, int, ...); \
        mode_t mode;                              \
        MODE(flags, flags, mode);                 \
        note(path);                               \
        return real(path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                   \
    int name(int at, const char *path, int flags, ...) \
    {                                                  \
        REAL(int, #name, int, const char *, int, ...); \
        mode_t mode;                                   \
        MODE(flags, flags, mode);                      \
        note(path);                                    \
        return real(at, path, flags, mode);            \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                      \
    FILE *name(const char *path, const char *mode)       \
    {                                                    \
        REAL(FILE *, #name, const char *, const char *); \
        note(path);                                      \
        return real(path, mode);                         \
    }
FOPEN(fopen)
FOPEN(fopen64)

int gethostname(char *name, size_t size)
{
    REAL(int, "gethostname", char *, size_t);
    const char *ranks = getenv("TR_PRETEND_NODE");

    if (!started || !ranks)
        return real(name, size);
    snprintf(name, size, "n%d", atoi(rank()) / atoi(ranks));
    return 0;
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *given)
{
    REAL(int, "MPI_Init_thread", int *, char ***, int, int *);
    int rc = real(argc, argv, wanted, given);

    started = true;
    return rc;
}
