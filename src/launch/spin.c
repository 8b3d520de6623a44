/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/spin.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#ifdef _OPENMP

/* Turns of libgomp: 30 to 100 µs, as long as waking a thread takes.  Training of width 64 on two
   threads took 1.0 times as long with 1000 to 3000 turns as with none on busy cores, and twice as
   long with 10000. */
#define TURNS "2000"
/* Milliseconds, whole ones, of libomp. */
enum { BLOCKTIME = 0 };

extern void kmp_set_blocktime(int milliseconds) __attribute__((weak));

static bool user_said(void)
{
    return getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME");
}

/* As main() got them; NULL where the system does not say. */
static char **arguments(void)
{
    FILE *f = fopen("/proc/self/cmdline", "re");
    char **argv = NULL, *word = NULL;
    size_t count = 0, size = 0;

    while (f && getdelim(&word, &size, '\0', f) > 0) {
        char **more = realloc(argv, (count + 2) * sizeof *argv);

        if (!more)
            break;
        argv = more;
        argv[count++] = word;
        argv[count] = NULL;
        word = NULL;
    }
    if (f)
        fclose(f);
    return argv;
}

static void execute_again(void)
{
    char path[4096], **argv = arguments();
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    /* Without a base the loader was started, with this program as an argument. */
    if (!argv || n <= 0 || getauxval(AT_BASE) == 0 || setenv("GOMP_SPINCOUNT", TURNS, 1) != 0)
        return;
    path[n] = '\0';
    fflush(NULL);
    execv(path, argv);
}

void tr_spin_briefly(void)
{
    if (user_said())
        return;
    if (kmp_set_blocktime)
        kmp_set_blocktime(BLOCKTIME);
    else if (omp_get_num_procs() > 1)
        execute_again();
}

#else

void tr_spin_briefly(void) {}

#endif
