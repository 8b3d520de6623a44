/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz [--seconds S] [--cases N] [--seed N] [--out DIR] [TARGET...]
 * fuzz --one TARGET FILE...
 *
 * Runs targets one after the other, S seconds all together or N cases each, on valid inputs and then
 * on changed ones.  Case k of a target is always the same for a seed.  A process of its own runs the
 * cases; when it dies, what it was at is kept in DIR as TARGET-REASON-k, and another one goes on.
 * Exits with 1 if there was one.  --one gives files to a target in this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "fuzzing/mutate.h"

enum {
    CPU_SECONDS = 10,   /* of one case */
    STALL_SECONDS = 60, /* on the clock, for one that waits */
    CASES_OF_PROCESS = 5000,
    FINDINGS = 5 /* of a target, after which it is left */
};
#define MOST_MEMORY ((rlim_t)4 << 30)

/* Memory that is shared by parent and child. */
struct board {
    volatile uint64_t next; /* case under way */
    volatile size_t size;
    uint8_t data[FUZZ_MOST];
};

static struct {
    double seconds;
    uint64_t cases, seed;
    const char *out;
} how = {.out = "."};
static struct board *board;
/* Valid inputs of the target, in the child. */
enum { MOST_INPUTS = 256 };
static struct {
    uint8_t *data;
    size_t size;
} input[MOST_INPUTS];

/* Read by the sanitizer: one allocation above a gigabyte fails as it would on a small machine. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024";
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the child ---- */

static void limit_case(void)
{
    struct itimerval limit = {.it_value = {.tv_sec = CPU_SECONDS}};

    setitimer(ITIMER_PROF, &limit, NULL);
}

static int read_inputs(const struct fuzz_target *t)
{
    int n = 0;

    while (n < MOST_INPUTS && (input[n].size = fuzz_input(t, n, board->data, FUZZ_MOST)) > 0) {
        input[n].data = malloc(input[n].size);
        MUST(input[n].data);
        memcpy(input[n].data, board->data, input[n].size);
        n++;
    }
    MUST(n > 0);
    return n;
}

/* Where the numbers of case k begin. */
static uint64_t first_state(const struct fuzz_target *t, uint64_t k)
{
    uint64_t state = (how.seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (k + 1) << 20;

    for (const char *c = t->name; *c; c++)
        state = (state ^ (uint64_t)*c) * UINT64_C(0x100000001b3);
    state += state == 0;
    for (int i = 0; i < 4; i++)
        (void)fuzz_draw(&state);
    return state;
}

/* Case k into the board. */
static void make_case(const struct fuzz_target *t, uint64_t k, int inputs)
{
    uint64_t state = first_state(t, k);
    size_t n = k < (uint64_t)inputs ? (size_t)k : fuzz_below(&state, (size_t)inputs), changes = 0;

    memcpy(board->data, input[n].data, input[n].size);
    board->size = input[n].size;
    if (k >= (uint64_t)inputs)
        changes = 1 + fuzz_below(&state, fuzz_below(&state, 2) ? 3 : 24);
    for (size_t i = 0; i < changes; i++)
        board->size = fuzz_change(board->data, board->size, t->words, &state);
}

/* An exact copy, so that reading one byte too far is seen. */
static void run_exactly(const struct fuzz_target *t, const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    MUST(copy);
    memcpy(copy, data, size);
    t->run(copy, size);
    free(copy);
}

static void child(const struct fuzz_target *t, double until)
{
    const struct rlimit core = {0, 0}, memory = {MOST_MEMORY, MOST_MEMORY};
    uint64_t end = board->next + CASES_OF_PROCESS;
    int inputs;

    setrlimit(RLIMIT_CORE, &core);
#ifndef TR_SANITIZERS
    setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory;
#endif
    inputs = read_inputs(t);
    for (; board->next < end && board->next < how.cases; board->next++) {
        if (board->next >= (uint64_t)inputs && now() > until)
            break;
        make_case(t, board->next, inputs);
        limit_case();
        run_exactly(t, board->data, board->size);
    }
}

/* ---- the parent ---- */

static void quiet(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    MUST(fd >= 0 && nowhere >= 0);
    dup2(fd, 2);
    dup2(nowhere, 1);
}

/* Wait for it, and end it when it stands still: the reason of its death, or NULL if all is well. */
static const char *wait_for(pid_t pid)
{
    uint64_t at = board->next;
    double since = now();
    bool killed = false;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (board->next != at) {
            at = board->next;
            since = now();
        } else if (now() - since > STALL_SECONDS && !killed) {
            killed = kill(pid, SIGKILL) == 0;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status) == 0 ? NULL : "exit";
    return killed || WTERMSIG(status) == SIGPROF ? "timeout" : "crash";
}

static void keep(const struct fuzz_target *t, const char *reason, const char *errors)
{
    static char text[FUZZ_MOST];
    char path[1024];
    size_t n = fuzz_read(errors, (uint8_t *)text, sizeof text - 1);
    FILE *f;

    snprintf(path, sizeof path, "%s/%s-%s-%llu", how.out, t->name, reason,
             (unsigned long long)board->next);
    f = fopen(path, "wbe");
    if (!f || fwrite(board->data, 1, board->size, f) != board->size || fclose(f) != 0)
        perror(path);
    text[n] = '\0';
    fprintf(stderr, "%s: %s in case %llu of seed %llu, kept as %s\n%s", t->name, reason,
            (unsigned long long)board->next, (unsigned long long)how.seed, path,
            n > 4000 ? text + n - 4000 : text);
}

/* Findings of one target. */
static int run_target(const struct fuzz_target *t, double seconds)
{
    double began = now(), until = began + seconds;
    char errors[1024];
    int found = 0;

    snprintf(errors, sizeof errors, "%s", fuzz_path("errors"));
    board->next = 0;
    do {
        const char *reason;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0) {
            quiet(errors);
            child(t, until);
            _exit(0);
        }
        reason = pid > 0 ? wait_for(pid) : "fork";
        if (reason) {
            keep(t, reason, errors);
            found++;
            board->next++;
        }
    } while (found < FINDINGS && board->next < how.cases && now() < until);
    printf("%-14s %9llu cases %8.1f s %8.0f /s%s\n", t->name, (unsigned long long)board->next,
           now() - began, (double)board->next / (now() - began), found ? "  FOUND" : "");
    fflush(stdout);
    return found;
}

static int run_one(int argc, char **argv)
{
    const struct fuzz_target *t = argc > 0 ? fuzz_find(argv[0]) : NULL;
    static uint8_t data[FUZZ_MOST];

    if (!t || argc < 2)
        return 64;
    fuzz_begin();
    for (int i = 1; i < argc; i++)
        run_exactly(t, data, fuzz_read(argv[i], data, sizeof data));
    fuzz_end();
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "fuzz [--seconds S] [--cases N] [--seed N] [--out DIR] [TARGET...]\n"
                    "fuzz --one TARGET FILE...\ntargets:");
    for (int i = 0; fuzz_number(i); i++)
        fprintf(stderr, " %s", fuzz_number(i)->name);
    fprintf(stderr, "\n");
    return 64;
}

/* Options before targets; the number of words that they took, or -1. */
static int read_options(int argc, char **argv)
{
    int i = 1;

    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            how.seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--cases") == 0)
            how.cases = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            how.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--out") == 0)
            how.out = argv[i + 1];
        else
            return -1;
    }
    for (int k = i; k < argc; k++)
        if (!fuzz_find(argv[k]))
            return -1;
    return i;
}

int main(int argc, char **argv)
{
    int first, count, found = 0;
    double until;

    if (argc > 1 && strcmp(argv[1], "--one") == 0)
        return run_one(argc - 2, argv + 2);
    first = read_options(argc, argv);
    if (first < 0 || (how.seconds <= 0.0 && how.cases == 0))
        return usage();
    how.cases = how.cases ? how.cases : UINT64_MAX;
    how.seconds = how.seconds > 0.0 ? how.seconds : 1e9;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(board != MAP_FAILED);
    for (count = 0; fuzz_number(count) && first == argc; count++)
        ;
    count = first < argc ? argc - first : count;
    fuzz_begin();
    until = now() + how.seconds;
    /* Time that a target leaves over goes to those after it. */
    for (int i = 0; i < count; i++)
        found += run_target(first < argc ? fuzz_find(argv[first + i]) : fuzz_number(i),
                            (until - now()) / (count - i));
    fuzz_end();
    printf("%d findings\n", found);
    return found ? 1 : 0;
}
