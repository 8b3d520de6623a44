/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/run_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/ckpt.h"
#include "ckpt/path.h"
#include "comm/flight.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/clock.h"

/* Seconds. */
static const double SQUEUE_PATIENCE = 8.0, LOOK_EVERY = 1.0, WRITE_EVERY = 1.0;

/* The part of the time that may go into writing the state between saves. */
static const double WRITE_PART = 0.02;

/* For the handler of tr_on_last_words(), which has no argument: the folder whose state says
   "running". */
static const char *running_folder;

static void last_words(int exit_code, const char *sentence)
{
    const char *folder = running_folder;

    /* Whatever fails in here must not come here again. */
    running_folder = NULL;
    if (folder)
        tr_state_fail(folder, exit_code, sentence);
}

static void gather_hosts(struct tr_run_folder *k)
{
    char mine[256] = "";

    k->host = calloc((size_t)k->world->size, sizeof *k->host);
    if (!k->host)
        tr_die(TR_ERESOURCE, "no memory left for the names of %d hosts", k->world->size);
    gethostname(mine, sizeof mine - 1);
    mine[TR_HOST_BYTES - 1] = '\0';
    k->world->via->gather_all(k->world, mine, TR_HOST_BYTES, k->host);
}

/* How many hosts there are, their names with commas between, as many as fit. */
static int name_hosts(const struct tr_run_folder *k, char *text, size_t size)
{
    size_t used = 0;
    int nodes = 0;

    text[0] = '\0';
    for (int rank = 0; rank < k->world->size; rank++) {
        bool known = false;

        /* Ranks of a host mostly follow one another. */
        for (int other = rank - 1; other >= 0 && !known; other--)
            known = strcmp(k->host[rank], k->host[other]) == 0;
        if (known)
            continue;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", nodes > 0 ? "," : "",
                                     k->host[rank]);
        nodes++;
    }
    return nodes;
}

/* Remove temporary files of starts and requests that were killed: a file is complete under its own
   name or was never there. */
static void tidy(const char *folder)
{
    char *ctl = tr_format("%s/ctl", folder);

    tr_file_tidy(folder, "state");
    tr_file_tidy(folder, "dump-*.txt");
    tr_file_tidy(ctl, "*");
    tr_ckpt_tidy(folder, 0, 0, 0);
    free(ctl);
}

static enum tr_status take_folder(struct tr_run_folder *k)
{
    bool found;

    if (tr_make_dirs(k->folder) != TR_OK)
        return TR_FAIL(TR_EIO, "no checkpoint could be saved to --save %s: %s", k->folder,
                       tr_last_error());
    TR_TRY(tr_lock_take(k->folder, &k->job, &k->lock));
    tidy(k->folder);
    if (tr_ctl_open(k->folder) != TR_OK)
        tr_log(TR_LOG_WARNING, "`trireme ctl` cannot reach this run: %s", tr_last_error());
    /* A state that cannot be read is no reason not to train. */
    if (tr_state_read(k->folder, &k->state, &found) != TR_OK)
        tr_log(TR_LOG_WARNING, "what the last start did is not known: %s", tr_last_error());
    k->was_finished = strcmp(k->state.state, "finished") == 0;
    k->was_iters = k->state.train_iters;
    return TR_OK;
}

/* The folder of --log-file, whose name may have the time in it; or the one that the run was started in. */
static void beside_log(const struct tr_config *c, const struct tm *now, char *text, size_t size)
{
    char *slash;

    if (!c->log_file || strftime(text, size, c->log_file, now) == 0)
        text[0] = '\0';
    slash = strrchr(text, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(text, size, ".");
}

/* Where flight records of this start go, should it hang or crash: into the folder, or beside the log. */
static void keep_flight_records(const struct tr_run_folder *k, const struct tr_config *c)
{
    int64_t now = (int64_t)time(NULL);
    struct tr_tensor t = tr_i64_1(&now, 1);
    char beside[2048], started[32], *where;
    struct tm local;
    time_t when;

    k->world->via->broadcast(k->world, NULL, &t, 0);
    when = (time_t)now;
    localtime_r(&when, &local);
    strftime(started, sizeof started, "%Y%m%dT%H%M%S", &local);
    beside_log(c, &local, beside, sizeof beside);
    where = tr_format("%s/flight-%s", k->folder ? k->folder : beside, started);
    tr_flight_open(where, k->world->rank, k->world->size);
    free(where);
}

enum tr_status tr_run_folder_open(struct tr_run_folder *k, const struct tr_config *c,
                                  struct tr_comm *world)
{
    enum tr_status s = TR_OK;

    *k = (struct tr_run_folder){.world = world, .lock = {.fd = -1}, .from = -1};
    if (!c->skip_train)
        k->folder = c->save;
    tr_job_find(&k->job);
    gather_hosts(k);
    if (k->folder && world->rank == 0)
        s = take_folder(k);
    TR_TRY(tr_comm_agree(world, s));
    k->owns = k->folder != NULL;
    keep_flight_records(k, c);
    return TR_OK;
}

/* Everything about this start that does not change. */
static void fill(struct tr_run_folder *k, int64_t train_iters)
{
    struct tr_state *s = &k->state;

    s->exit_code = -1;
    s->reason[0] = '\0';
    s->suspect[0] = '\0';
    s->slow_ranks[0] = '\0';
    s->start = s->start > 0 ? s->start + 1 : 1;
    s->train_iters = train_iters;
    s->ranks = k->world->size;
    s->pid = (int64_t)getpid();
    s->started = (int64_t)time(NULL);
    s->restart = k->job.restart;
    s->job_ends = TR_JOB_NO_END;
    s->nodes = name_hosts(k, s->hosts, sizeof s->hosts);
    if (k->job.nodes)
        snprintf(s->hosts, sizeof s->hosts, "%s", k->job.nodes);
    snprintf(s->host, sizeof s->host, "%s", k->host[0]);
    snprintf(s->job, sizeof s->job, "%s", k->job.id ? k->job.id : "");
    snprintf(s->array, sizeof s->array, "%s", k->job.array);
    snprintf(s->state, sizeof s->state, "running");
    snprintf(s->next, sizeof s->next, "go-on");
}

/* Unless another run may have the folder by now: the state is its own then. */
static void write_state(struct tr_run_folder *k)
{
    enum tr_status s = tr_lock_check(&k->lock, k->folder);

    if (s == TR_OK)
        s = tr_state_write(k->folder, &k->state);
    if (s == TR_OK || k->warned)
        return;
    k->warned = true;
    tr_log(TR_LOG_WARNING, "%s/state is not up to date: %s", k->folder, tr_last_error());
}

static void finish_state(struct tr_run_folder *k, const char *state, const char *reason,
                         const char *next, int exit_code)
{
    struct tr_state *s = &k->state;

    snprintf(s->state, sizeof s->state, "%s", state);
    snprintf(s->reason, sizeof s->reason, "%s", reason);
    snprintf(s->next, sizeof s->next, "%s", next);
    s->exit_code = exit_code;
}

/* The iteration of the newest checkpoint in `folder`; -1 if there is none that is known of. */
static int64_t newest(const char *folder)
{
    int64_t iteration;

    return tr_ckpt_latest(folder, &iteration) == TR_OK ? iteration : -1;
}

static bool is_finished(const struct tr_run_folder *k, const struct tr_config *c,
                        int64_t train_iters)
{
    if (!k->was_finished || k->was_iters != train_iters || !c->load || c->finetune ||
        c->no_load_optim || c->ckpt_step != TR_UNSET_INT || !tr_same_place(c->load, c->save))
        return false;
    return newest(c->load) >= train_iters;
}

/* Rank 0; prints why. */
static bool nothing_to_do(struct tr_run_folder *k, const struct tr_config *c, int64_t train_iters)
{
    char who[256];

    if (is_finished(k, c, train_iters)) {
        tr_notice("the run in %s is finished: all of its %" PRId64 " iterations are done\n",
                  k->folder, train_iters);
        return true;
    }
    if (!(tr_ctl_look(k->folder) & TR_ASK_STOP))
        return false;
    tr_ctl_who(k->folder, TR_ASK_STOP, who, sizeof who);
    tr_notice(
        "this run was asked to stop by %s, so it does not start: `trireme ctl %s go` lets it\n",
        who, k->folder);
    fill(k, train_iters);
    k->state.checkpoint = newest(k->folder);
    k->state.iteration = k->state.checkpoint < 0 ? 0 : k->state.checkpoint;
    finish_state(k, "stopped", "ctl", "look", 0);
    return true;
}

bool tr_run_folder_over(struct tr_run_folder *k, const struct tr_config *c, int64_t train_iters)
{
    bool over = k->folder && k->world->rank == 0 && nothing_to_do(k, c, train_iters);

    return k->folder && tr_comm_max(k->world, over) != 0;
}

/* The iteration from which training will resume, as far as is known before loading; -1: from
   none. */
static int64_t from_where(const struct tr_config *c)
{
    if (!c->load)
        return -1;
    return c->ckpt_step != TR_UNSET_INT ? c->ckpt_step : newest(c->load);
}

static void describe_start(const struct tr_run_folder *k, const struct tr_config *c, FILE *f)
{
    const struct tr_state *s = &k->state;
    int64_t from = k->from;

    if (k->job.id)
        fprintf(f, "| job: %s ", k->job.id);
    if (s->array[0])
        fprintf(f, "| array: %s ", s->array);
    if (s->restart > 0)
        fprintf(f, "| requeued: %" PRId64 " ", s->restart);
    fprintf(f, "| ranks: %" PRId64 " | nodes: %" PRId64 " (%.200s) ", s->ranks, s->nodes, s->hosts);
    if (from >= 0)
        fprintf(f, "| from: iteration %" PRId64 " in %s", from, c->load);
    else
        fprintf(f, "| from: the beginning");
}

/* One line that separates the starts in a log. */
static void print_header(const struct tr_run_folder *k, const struct tr_config *c)
{
    char text[TR_REPORT_BYTES], event[64], *rest = NULL;
    size_t size;
    FILE *f = open_memstream(&rest, &size);

    if (!f)
        tr_die(TR_ERESOURCE, "no memory left for the header of the log");
    describe_start(k, c, f);
    fclose(f);
    if (k->folder)
        snprintf(event, sizeof event, "start %" PRId64 " of this run", k->state.start);
    else
        snprintf(event, sizeof event, "start of a run");
    tr_lines_datetime(text, sizeof text, event, tr_moment_now(c->log_format));
    tr_print("%s%s\n", text, rest);
    free(rest);
}

/* How the start before this one ended, for readers of the log of a chain of jobs. */
static void print_before(const struct tr_state *last)
{
    char by[80] = "", how[1024];

    if (last->start < 1)
        return;
    if (last->job[0])
        snprintf(by, sizeof by, ", job %.64s", last->array[0] ? last->array : last->job);
    if (strcmp(last->state, "running") == 0)
        snprintf(how, sizeof how,
                 "was killed, or lost its nodes, after iteration %" PRId64 " or later",
                 last->iteration);
    else if (strcmp(last->state, "failed") == 0)
        snprintf(how, sizeof how,
                 "failed with exit code %" PRId64 " after iteration %" PRId64 ": %.700s",
                 last->exit_code, last->iteration, last->reason);
    else
        snprintf(how, sizeof how, "%s at iteration %" PRId64 ": %.200s", last->state,
                 last->iteration, last->reason);
    tr_notice("> start %" PRId64 "%s on %.200s, %s\n", last->start, by,
              last->hosts[0] ? last->hosts : "hosts unknown", how);
}

static void print_job_end(const struct tr_run_folder *k, const char *how, time_t now)
{
    time_t end = (time_t)k->state.job_ends;
    char when[TR_TIME_BYTES];

    if (k->state.job_ends < 0) {
        if (k->job.id)
            tr_print("> when the job ends is not known: %s\n", how);
        return;
    }
    tr_notice("> the job ends at %s, in %.1f minutes (%s)\n", tr_time_local(end, when),
              difftime(end, now) / 60.0, how);
}

static void find_job_end(struct tr_run_folder *k, const struct tr_config *c, struct tr_stop *stop)
{
    time_t now = time(NULL);
    const char *how;

    if (!c->exit_at_job_end)
        return;
    k->state.job_ends = tr_job_end(&k->job, now, SQUEUE_PATIENCE, &how);
    print_job_end(k, how, now);
    if (k->state.job_ends >= 0)
        stop->job_end = tr_now() + difftime((time_t)k->state.job_ends, time(NULL));
}

/* Rank 0. */
static void begin(struct tr_run_folder *k, const struct tr_config *c, int64_t train_iters,
                  struct tr_stop *stop)
{
    struct tr_state last = k->state;

    tr_state_printable(&last);
    k->from = from_where(c);
    fill(k, train_iters);
    print_header(k, c);
    if (!k->folder)
        return;
    print_before(&last);
    k->state.iteration = c->finetune || k->from < 0 ? 0 : k->from;
    k->state.checkpoint = newest(k->folder);
    write_state(k);
    find_job_end(k, c, stop);
    tr_stop_took(stop, TR_PART_SAVE, k->state.save_seconds);
    k->state.iteration_seconds = 0.0;
    write_state(k);
}

void tr_run_folder_begin(struct tr_run_folder *k, const struct tr_config *c, int64_t train_iters,
                         struct tr_stop *stop)
{
    if (k->world->rank == 0)
        begin(k, c, train_iters, stop);
    running_folder = k->folder;
    if (k->folder)
        tr_on_last_words(last_words);
}

unsigned tr_run_folder_asked(struct tr_run_folder *k, double now)
{
    if (!k->folder || k->world->rank != 0 || now < k->look_at)
        return 0;
    k->look_at = now + LOOK_EVERY;
    return tr_ctl_look(k->folder) & ~k->deaf;
}

void tr_run_folder_acknowledge(struct tr_run_folder *k, enum tr_ask ask, int64_t iteration)
{
    char who[256];

    if (k->world->rank != 0)
        return;
    tr_ctl_who(k->folder, ask, who, sizeof who);
    tr_notice("> %s asked for %s; heard after iteration %" PRId64 "\n", who, tr_ask_name(ask),
              iteration);
}

void tr_run_folder_done(struct tr_run_folder *k, enum tr_ask ask)
{
    if (k->world->rank != 0 || tr_ctl_remove(k->folder, ask))
        return;
    k->deaf |= ask;
    tr_log(
        TR_LOG_WARNING,
        "%s/ctl/%s cannot be removed (%s), so this run will not hear that request again; make the "
        "folder ctl writable for the user who runs it",
        k->folder, tr_ask_name(ask), strerror(errno));
}

void tr_run_folder_heard(const struct tr_run_folder *k, const struct tr_answer *a,
                         int64_t iteration)
{
    const char *name = tr_stop_word(a) + strlen("signal ");

    if (k->world->rank != 0)
        return;
    if (a->why == TR_STOP_LAUNCHER)
        tr_notice("> what started rank %d on %s is gone; noticed after iteration %" PRId64 "\n",
                  a->rank, k->host[a->rank], iteration);
    else
        tr_notice("> rank %d on %s received %s; heard after iteration %" PRId64 "\n", a->rank,
                  k->host[a->rank], name, iteration);
}

void tr_run_folder_note(struct tr_run_folder *k, const struct tr_stop *stop, int64_t iteration,
                        bool now_or_never)
{
    double began = tr_now(), took;

    if (!k->folder || k->world->rank != 0)
        return;
    k->state.iteration = iteration;
    k->state.iteration_seconds = stop->longest[TR_PART_ITERATION];
    if (!now_or_never && began < k->write_at)
        return;
    write_state(k);
    took = tr_now() - began;
    k->write_at = began + fmax(WRITE_EVERY, took / WRITE_PART);
}

void tr_run_folder_slow(struct tr_run_folder *k, const char *text)
{
    if (k->folder && k->world->rank == 0)
        snprintf(k->state.slow_ranks, sizeof k->state.slow_ranks, "%s", text);
}

enum tr_status tr_run_folder_may_save(struct tr_run_folder *k)
{
    enum tr_status s = TR_OK;

    if (!k->folder)
        return TR_OK;
    if (k->world->rank == 0)
        s = tr_lock_check(&k->lock, k->folder);
    s = tr_comm_agree(k->world, s);
    if (s != TR_OK) {
        k->owns = false;
        running_folder = NULL;
    }
    return s;
}

void tr_run_folder_loaded(struct tr_run_folder *k, int64_t iteration)
{
    if (k->world->rank != 0 || k->from < 0 || iteration == k->from)
        return;
    tr_notice("> this start goes on from iteration %" PRId64 " and not from %" PRId64
              ", whose checkpoint cannot be used\n",
              iteration, k->from);
    k->state.iteration = iteration;
}

void tr_run_folder_saved(struct tr_run_folder *k, int64_t iteration, const struct tr_stop *stop)
{
    k->state.checkpoint = iteration;
    k->state.save_seconds = stop->longest[TR_PART_SAVE];
}

void tr_run_folder_leave(struct tr_run_folder *k, const struct tr_answer *a)
{
    const char *state = a->why == TR_STOP_DONE ? "finished" : "stopped";
    const char *next = a->why == TR_STOP_DONE ? "done" : a->why == TR_STOP_CTL ? "look" : "go-on";

    if (k->folder && k->world->rank == 0)
        finish_state(k, state, tr_stop_word(a), next, 0);
}

void tr_run_folder_fail(struct tr_run_folder *k, enum tr_status s)
{
    int code = tr_status_exit_code(s);

    if (!k->owns || k->world->rank != 0)
        return;
    snprintf(k->state.suspect, sizeof k->state.suspect, "%s", tr_suspected());
    finish_state(k, "failed", tr_last_error(), tr_state_next(code), code);
}

void tr_run_folder_close(struct tr_run_folder *k)
{
    tr_flight_close();
    running_folder = NULL;
    tr_on_last_words(NULL);
    if (k->owns && k->world->rank == 0 && tr_lock_check(&k->lock, k->folder) == TR_OK) {
        write_state(k);
        tr_ctl_remove(k->folder, TR_ASK_SAVE);
        tr_ctl_remove(k->folder, TR_ASK_DUMP);
    }
    tr_lock_release(&k->lock);
    free(k->host);
    memset(k, 0, sizeof *k);
    k->lock.fd = -1;
}
