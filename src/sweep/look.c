/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/results.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "report/run_log.h"
#include "report/summary.h"
#include "util/file.h"

enum { SENTENCE = 400 };

/* What a log says of a failure: the first line that names a cause, and its last line. */
struct failure {
    char error[SENTENCE], killed[SENTENCE], last[SENTENCE];
};

static void keep(char *to, const char *from)
{
    while (isspace((unsigned char)*from))
        from++;
    snprintf(to, SENTENCE, "%.*s", SENTENCE - 1, from);
    to[strcspn(to, "\r\n")] = '\0';
}

static void hear(struct failure *t, const char *line)
{
    const char *own = strstr(line, "trireme: error: "), *rank = strstr(line, "]: error: ");

    if (!t->error[0] && own)
        keep(t->error, own + strlen("trireme: error: "));
    else if (!t->error[0] && rank && strstr(line, "trireme["))
        keep(t->error, rank + strlen("]: error: "));
    else if (!t->error[0] && strstr(line, "CUDA out of memory"))
        keep(t->error, line);
    if (!t->killed[0] && (strstr(line, "exited on signal") || strstr(line, "oom-kill") ||
                          strstr(line, "oom_kill") || strstr(line, "Out Of Memory")))
        keep(t->killed, line);
    if (line[strspn(line, " \t\r\n-=*")])
        keep(t->last, line);
}

static void read_failure(const char *log, struct failure *t)
{
    FILE *f = fopen(log, "re");
    char line[4096];

    memset(t, 0, sizeof *t);
    if (!f)
        return;
    while (fgets(line, sizeof line, f))
        hear(t, line);
    fclose(f);
}

static int signal_of(int status)
{
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) > 128 ? WEXITSTATUS(status) - 128 : 0;
}

/* Why a run that ended by itself did not end well; owned by the caller. */
static char *cause(const struct failure *t, int status)
{
    const int signal = signal_of(status);

    if (t->error[0])
        return tr_format("%s", t->error);
    if (t->killed[0])
        return tr_format("%s", t->killed);
    if (signal == 9)
        return tr_format("killed by signal 9, as the kernel does where memory runs out");
    if (signal > 0)
        return tr_format("ended by signal %d (%s)", signal, strsignal(signal));
    if (t->last[0])
        return tr_format("exit code %d; its last line: %s", WEXITSTATUS(status), t->last);
    return tr_format("exit code %d, without output", WEXITSTATUS(status));
}

static void judge(const struct tr_sweep *w, const char *log, double limit, const char *end,
                  struct tr_sweep_seen *out)
{
    const bool well = WIFEXITED(out->end.status) && WEXITSTATUS(out->end.status) == 0;
    struct failure failure;

    read_failure(log, &failure);
    if (out->end.end == TR_GUARD_LATE)
        out->why = tr_format("no end within %.0f s, in which %lld of %lld iterations were done",
                             limit, (long long)out->last, (long long)w->iters);
    else if (out->end.end == TR_GUARD_LOST)
        out->why = tr_format("its supervisor was killed");
    else if (!well)
        out->why = cause(&failure, out->end.status);
    else if (strcmp(end, "exited before the end of the job") == 0)
        out->left = true;
    else if (strcmp(end, "was slower than --exit-slower-than") == 0)
        out->early = true;
    else if (out->last < w->iters)
        out->why = tr_format("it ended well after %lld of %lld iterations: %s",
                             (long long)out->last, (long long)w->iters, end);
    else if (out->count == 0)
        out->why = tr_format("no line of its log has the time of an iteration that counts");
    else
        out->whole = true;
}

/* Times and memory of the run that the log has last. */
static const char *read_run(const struct tr_sweep *w, const char *log, struct tr_records *runs,
                            struct tr_sweep_seen *out)
{
    const struct tr_record *r;
    struct tr_selection chosen;
    struct tr_summary s;

    if (tr_log_read(log, TR_LOG_APART, runs) != TR_OK || runs->count == 0)
        return "";
    r = &runs->list[runs->count - 1];
    tr_summarize(r, w->warmup, TR_FLOPS_2024, NAN, &s);
    out->last = s.last;
    out->mib = isnan(s.reserved) ? s.allocated : s.reserved;
    chosen = tr_select_rows(r, w->warmup);
    out->seconds = calloc((size_t)chosen.count + 1, sizeof *out->seconds);
    TR_ASSERT(out->seconds);
    for (int64_t i = 0; i < chosen.count; i++) {
        const double ms = r->row[chosen.row[i]].field[TR_FIELD_ELAPSED];

        if (!isnan(ms))
            out->seconds[out->count++] = ms / 1e3;
    }
    tr_selection_release(&chosen);
    out->loss = tr_record_losses(r, &out->losses);
    return r->starts > 0 ? tr_end_text(r->start[r->starts - 1].end) : "";
}

void tr_sweep_look(const struct tr_sweep *w, const char *log, const struct tr_guard_result *end,
                   double limit, struct tr_sweep_seen *out)
{
    const char *name = strrchr(log, '/');
    struct tr_records runs = {0};

    *out = (struct tr_sweep_seen){
        .log = tr_format("%s", name ? name + 1 : log), .end = *end, .mib = NAN};
    judge(w, log, limit, read_run(w, log, &runs, out), out);
    tr_records_release(&runs);
}

void tr_sweep_seen_release(struct tr_sweep_seen *s)
{
    free(s->log);
    free(s->why);
    free(s->seconds);
    free(s->loss);
    *s = (struct tr_sweep_seen){0};
}
