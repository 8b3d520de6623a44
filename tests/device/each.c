/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/each.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child has come to, for the parent to read when it is gone. */
static struct {
    int at; /* the case under way; -1: it is opening the device */
    int failed;
    char name[1024];
} * seen;

static void run_from(const struct each *e, int first, unsigned seconds)
{
    alarm(2 * seconds); /* to open a device takes long where the driver sleeps */
    e->open(e->ctx);
    for (int i = first; i < e->count; i++) {
        const char *wrong;

        seen->name[0] = '\0';
        seen->at = i;
        alarm(seconds);
        wrong = e->run(e->ctx, i, seen->name, sizeof seen->name);
        printf("%s %d - %s\n", wrong ? "not ok" : "ok", i + 1, seen->name);
        if (wrong)
            printf("# %s\n", wrong);
        fflush(stdout);
        seen->failed += wrong != NULL;
    }
    alarm(2 * seconds);
    e->close(e->ctx);
    alarm(0);
    fflush(NULL);
}

static void say_how(int how, unsigned seconds)
{
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM)
        printf("# it took more than %u s\n", seconds);
    else if (WIFSIGNALED(how))
        printf("# the process was ended by signal %d (%s)\n", WTERMSIG(how),
               strsignal(WTERMSIG(how)));
    else
        printf("# the process ended with exit code %d\n", WEXITSTATUS(how));
}

/* A child from case *next on; false when it is of no use to start another. */
static bool go_on(const struct each *e, int *next, unsigned seconds)
{
    int how;
    pid_t pid;

    seen->at = -1;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        run_from(e, *next, seconds);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &how, 0) != pid) {
        printf("Bail out! no process can be started\n");
        seen->failed++;
        return false;
    }
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return false;
    seen->failed++;
    if (seen->at < 0 || seen->at >= e->count) {
        say_how(how, 2 * seconds);
        printf("Bail out! the device cannot be opened\n");
        return false;
    }
    printf("not ok %d - %s\n", seen->at + 1, seen->name);
    say_how(how, seconds);
    *next = seen->at + 1;
    return *next < e->count;
}

int run_each(const struct each *e, unsigned seconds, bool here)
{
    int next = 0, deaths = 0;

    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED) {
        printf("Bail out! no memory\n");
        return 1;
    }
    printf("1..%d\n", e->count);
    if (here)
        run_from(e, 0, seconds);
    while (!here && go_on(e, &next, seconds))
        if (++deaths == EACH_DEATHS) {
            printf("Bail out! %d processes have died, and %d cases are left\n", deaths,
                   e->count - next);
            break;
        }
    fflush(stdout);
    return seen->failed > 0;
}
