/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "job/ctl.h"
#include "job/lock.h"
#include "job/state.h"
#include "util/text.h"
#include "util/clock.h"

struct options {
    double wait;
};

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "Options", .group = "ctl"},
    {.kind = TR_ROW_OPT,
     .group = "ctl",
     .type = TR_OPT_REAL,
     .offset = offsetof(struct options, wait),
     .name = "wait",
     .initial = "300",
     .check = TR_CHECK_NOT_NEGATIVE,
     .help = "seconds to wait for the answer; 0 does not wait"},
};

static const struct tr_options table = {"ctl", rows, sizeof rows / sizeof rows[0], NULL, 0, NULL};

static const struct tr_options *options(void)
{
    return &table;
}

const struct tr_doc tr_doc_ctl = {
    .synopsis = "trireme ctl RUN status\n"
                "trireme ctl RUN save [--wait SECONDS]\n"
                "trireme ctl RUN dump [--wait SECONDS]\n"
                "trireme ctl RUN stop [--wait SECONDS]\n"
                "trireme ctl RUN go",
    .about =
        "Send a request to a run from any machine that sees its run folder.  RUN is the folder of "
        "--save; who may write there may ask.  The run answers after the current iteration.\n"
        "\n"
        "status prints iteration and state, how old they are, and whether a process holds "
        "RUN/lock.  A run that could not record its end is called killed.\n"
        "\n"
        "save makes the run save a checkpoint and continue.  dump makes it write a diagnosis, "
        "RUN/dump-ITERATION.txt: for each rank its host, process, memory and timers.\n"
        "\n"
        "stop makes the run save and exit, with exit code 0.  It stays in force: each later job "
        "that starts the run exits at once, so a chain of jobs ends.  A stop between two jobs "
        "holds too.  go takes that back.\n"
        "\n"
        "The exit code is 0 when the run answered, and 69 when there is no such run or none that "
        "could answer.  It is 75 when the run did not answer in time; save and stop then stay "
        "asked for.",
    .options = options,
};

/* Seconds between two looks at the folder. */
static const double POLL = 0.2;

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = (long)(1e9 * POLL)};

    nanosleep(&pause, NULL);
}

static bool is_running(const struct tr_state *s)
{
    return strcmp(s->state, "running") == 0;
}

/* The status of a run, as far as the folder has it. */
struct view {
    struct tr_state state;
    bool known; /* there is a state */
    enum tr_lock_view lock;
    char by[512];
};

/* Was it on this host? */
static bool was_here(const struct tr_state *s)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    return strcmp(s->host, host) == 0;
}

static bool is_gone(int64_t pid)
{
    return pid > 0 && pid <= INT_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* It had no time to write down its end.  A lock that is free says so, and where there is none, that this host
   has no such process. */
static bool was_killed(const struct view *v)
{
    if (!v->known || !is_running(&v->state))
        return false;
    return v->lock == TR_LOCK_FREE ||
           (v->lock == TR_LOCK_UNKNOWN && was_here(&v->state) && is_gone(v->state.pid));
}

/* "running", ..., or "killed", which no state says of itself. */
static const char *state_of(const struct view *v)
{
    return was_killed(v) ? "killed" : v->state.state;
}

static enum tr_status look(const char *run, struct view *v)
{
    enum tr_status s;

    v->lock = tr_lock_look(run, v->by, sizeof v->by);
    s = tr_state_read(run, &v->state, &v->known);
    tr_state_printable(&v->state);
    return s;
}

/* Held, or the state says so and nothing that this host can see contradicts: locks may not reach as far. */
static bool may_run(const struct view *v)
{
    if (v->lock == TR_LOCK_HELD)
        return true;
    return v->known && is_running(&v->state) && !(was_killed(v) && was_here(&v->state));
}

static void print_number(const char *name, int64_t n, const char *none)
{
    if (n >= 0)
        printf("%-14s%" PRId64 "\n", name, n);
    else
        printf("%-14s%s\n", name, none);
}

static void print_time(const char *name, int64_t seconds)
{
    double ago = difftime(time(NULL), (time_t)seconds);
    char text[TR_TIME_BYTES];

    if (seconds < 0)
        return;
    tr_time_local((time_t)seconds, text);
    if (ago >= 0.0)
        printf("%-14s%s (%.0f s ago)\n", name, text, ago);
    else
        printf("%-14s%s (in %.0f s)\n", name, text, -ago);
}

static void print_state(const struct view *v)
{
    const struct tr_state *s = &v->state;

    printf("%-14s%s%s%s\n", "state:", state_of(v), s->reason[0] ? ": " : "", s->reason);
    printf("%-14s%s\n", "next:", s->next);
    printf("%-14s%" PRId64 " of %" PRId64 "\n", "iteration:", s->iteration, s->train_iters);
    print_number("checkpoint:", s->checkpoint, "none");
    if (s->exit_code >= 0)
        print_number("exit code:", s->exit_code, "");
    printf("%-14s%" PRId64 ", %s%s, ranks: %" PRId64 ", nodes: %" PRId64 " (%s)\n",
           "start:", s->start, s->job[0] ? "job " : "no Slurm job", s->job, s->ranks, s->nodes,
           s->hosts);
    if (s->slow_ranks[0])
        printf("%-14s%s\n", "slow ranks:", s->slow_ranks);
    print_time("started:", s->started);
    print_time("updated:", s->updated);
    print_time("job ends:", s->job_ends);
}

static void print_process(const struct view *v)
{
    const char *why = "";

    if (was_killed(v))
        why = was_here(&v->state) ? ": it ended without recording why"
                                  : ": it ended without recording why, or the locks of this file "
                                    "system do not reach from node to node";
    if (v->lock == TR_LOCK_HELD)
        printf("%-14salive: %s\n", "process:", v->by);
    else if (v->lock == TR_LOCK_FREE || was_killed(v))
        printf("%-14snone%s\n", "process:", why);
    else
        printf("%-14sunknown: RUN/lock cannot be asked\n", "process:");
}

static enum tr_status no_state(const char *run)
{
    return TR_FAIL(
        TR_ERESOURCE,
        "there is no %s/state, so no run was ever started with --save %s; name the folder "
        "of --save",
        run, run);
}

static enum tr_status status(const char *run, double wait)
{
    static const enum tr_ask asks[] = {TR_ASK_STOP, TR_ASK_SAVE, TR_ASK_DUMP};
    unsigned asked = tr_ctl_look(run);
    struct view v;
    char who[256];

    (void)wait;
    TR_TRY(look(run, &v));
    if (!v.known)
        return no_state(run);
    print_state(&v);
    print_process(&v);
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        if (!(asked & asks[i]))
            continue;
        tr_ctl_who(run, asks[i], who, sizeof who);
        printf("%-14s%s, by %s\n", "asked for:", tr_ask_name(asks[i]), who);
    }
    return TR_OK;
}

static enum tr_status late(const char *run, enum tr_ask ask, double wait, const struct view *v)
{
    if (v->lock != TR_LOCK_HELD && ask != TR_ASK_STOP) {
        tr_ctl_remove(run, ask);
        return TR_FAIL(
            TR_ERESOURCE,
            "%s did not answer within %g s and no process holds its lock, so it is probably dead; "
            "the request is taken back",
            run, wait);
    }
    return TR_FAIL(TR_ETEMP,
                   "%s did not answer within %g s; the request stands, and `trireme ctl %s status` "
                   "tells when it is done",
                   run, wait, run);
}

/* save or dump: answered when the file is gone. */
static enum tr_status ask_and_go_on(const char *run, enum tr_ask ask, double wait)
{
    double until = tr_now() + wait;
    struct view v;

    TR_TRY(look(run, &v));
    if (!v.known)
        return no_state(run);
    if (!may_run(&v))
        return TR_FAIL(TR_ERESOURCE, "%s is not running (%s), so it cannot %s", run, state_of(&v),
                       tr_ask_name(ask));
    TR_TRY(tr_ctl_ask(run, ask));
    if (wait == 0.0) {
        printf("asked %s for %s\n", run, tr_ask_name(ask));
        return TR_OK;
    }
    while (tr_ctl_look(run) & ask) {
        if (tr_now() > until)
            return late(run, ask, wait, &v);
        rest();
        TR_TRY(look(run, &v));
        if (v.known && !(is_running(&v.state) && may_run(&v))) {
            tr_ctl_remove(run, ask);
            return TR_FAIL(TR_ERESOURCE, "%s ended before it could %s (%s)", run, tr_ask_name(ask),
                           state_of(&v));
        }
    }
    TR_TRY(look(run, &v));
    if (ask == TR_ASK_SAVE)
        printf("%s has saved iteration %" PRId64 " and goes on\n", run, v.state.checkpoint);
    else
        printf("%s has written what it is doing to the newest %s/dump-*.txt and goes on\n", run,
               run);
    return TR_OK;
}

static enum tr_status ask_save(const char *run, double wait)
{
    return ask_and_go_on(run, TR_ASK_SAVE, wait);
}

static enum tr_status ask_dump(const char *run, double wait)
{
    return ask_and_go_on(run, TR_ASK_DUMP, wait);
}

static enum tr_status ask_stop(const char *run, double wait)
{
    double until = tr_now() + wait;
    struct view v;

    TR_TRY(look(run, &v));
    if (!v.known)
        return no_state(run);
    TR_TRY(tr_ctl_ask(run, TR_ASK_STOP));
    if (!may_run(&v)) {
        printf("%s is not running (%s); later starts leave at once, until `trireme ctl %s go`\n",
               run, state_of(&v), run);
        return TR_OK;
    }
    if (wait == 0.0) {
        printf("asked %s to stop; it stays stopped until `trireme ctl %s go`\n", run, run);
        return TR_OK;
    }
    /* Until it has let go of the folder, so that what comes next may begin. */
    while (may_run(&v)) {
        if (tr_now() > until)
            return late(run, TR_ASK_STOP, wait, &v);
        rest();
        TR_TRY(look(run, &v));
    }
    printf("%s is %s at iteration %" PRId64 " and stays stopped until `trireme ctl %s go`\n", run,
           state_of(&v), v.state.iteration, run);
    return TR_OK;
}

static enum tr_status go(const char *run, double wait)
{
    bool stopped = tr_ctl_look(run) & TR_ASK_STOP;

    (void)wait;
    if (!tr_ctl_remove(run, TR_ASK_STOP))
        return TR_FAIL(TR_EIO, "cannot remove %s/ctl/stop, so the run still may not start: %s", run,
                       strerror(errno));
    printf("%s %s\n", run, stopped ? "may start again" : "was not asked to stop");
    return TR_OK;
}

static const struct {
    const char *name;
    enum tr_status (*run)(const char *run, double wait);
} subverbs[] = {
    {"status", status}, {"save", ask_save}, {"dump", ask_dump}, {"stop", ask_stop}, {"go", go},
};
enum { SUBVERBS = sizeof subverbs / sizeof subverbs[0] };

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static enum tr_status dispatch(const struct options *o, const struct tr_words *words)
{
    const char *names[SUBVERBS], *near;

    if (words->count != 2)
        return TR_FAIL(TR_ECONFIG,
                       "trireme ctl takes the folder of a run, that of --save, and one of "
                       "status, save, dump, stop and go");
    for (int i = 0; i < SUBVERBS; i++) {
        names[i] = subverbs[i].name;
        if (strcmp(words->word[1], subverbs[i].name) != 0)
            continue;
        if (!is_folder(words->word[0]))
            return TR_FAIL(TR_ERESOURCE, "there is no folder %s; name that of --save",
                           words->word[0]);
        return subverbs[i].run(words->word[0], o->wait);
    }
    near = tr_nearest_name(words->word[1], names, SUBVERBS);
    return TR_FAIL(TR_ECONFIG, "trireme ctl knows no '%s'; %s%s%s", words->word[1],
                   near ? "did you mean " : "there are status, save, dump, stop and go",
                   near ? near : "", near ? "?" : "");
}

int tr_cmd_ctl(int argc, char **argv)
{
    struct tr_words words = {0};
    struct options o;
    enum tr_status s;

    memset(&o, 0, sizeof o);
    tr_options_init(&table, &o);
    s = tr_options_parse(&table, &o, argc - 1, argv + 1, &words);
    if (s == TR_OK)
        s = dispatch(&o, &words);
    for (int i = 0; i < words.count; i++)
        free(words.word[i]);
    free(words.word);
    tr_options_release(&table, &o);
    return tr_status_exit_code(s);
}
