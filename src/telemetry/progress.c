/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

enum { LARGEST = 1 << 26, LINE = 1024 };

/* What one line of an earlier job says of the chain of jobs that this one continues. */
static void read_line(struct tr_progress *p, const char *line)
{
    struct tm tm = {.tm_isdst = -1};
    const char *ranks = strstr(line, "\t# GPUs: "), *flops = strstr(line, "operations: ");

    if (!ranks || !strptime(line, "%Y-%m-%d %H:%M:%S", &tm))
        return;
    if (strtol(ranks + strlen("\t# GPUs: "), NULL, 10) != p->ranks) {
        p->first = 0;
        if (flops)
            p->first_flops = strtod(flops + strlen("operations: "), NULL);
    } else if (p->first == 0 && strstr(line, "\tStarting job")) {
        p->first = mktime(&tm);
    }
}

static void read_history(struct tr_progress *p)
{
    char *text, *line, *end;
    struct stat st;

    if (lstat(p->path, &st) != 0)
        return;
    if (tr_regular_text(p->path, LARGEST, &text) != TR_OK) {
        tr_log(TR_LOG_WARNING, "what earlier jobs did is not known: %s", tr_last_error());
        return;
    }
    for (line = text; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        read_line(p, line);
    }
    free(text);
}

static void lose(const struct tr_progress *p)
{
    tr_output_lost("a line of %s cannot be written: %s", p->path, tr_open_why(errno));
}

static void append(const struct tr_progress *p, time_t now, const char *event)
{
    const char *job = getenv("SLURM_JOB_ID");
    char when[TR_TIME_BYTES], line[LINE];
    int fd, n;

    n = snprintf(line, sizeof line, "%s\tJob ID: %s\t# GPUs: %d\t%s\n", tr_time_local(now, when),
                 job ? job : "", p->ranks, event);
    TR_ASSERT(n > 0 && n < LINE);
    fd = tr_open_regular(p->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW);
    if (fd < 0 || tr_write_all(fd, line, (size_t)n) != 0)
        lose(p);
    if (fd >= 0 && close(fd) != 0)
        lose(p);
}

void tr_progress_open(struct tr_progress *p, const char *folder, int ranks, int64_t seq,
                      double flops, int64_t consumed, time_t now)
{
    *p = (struct tr_progress){
        .path = tr_format("%s/progress.txt", folder),
        .ranks = ranks,
        .seq = seq,
        .flops = flops,
        .began = now,
        .begin_flops = flops * (double)consumed,
    };
    if (tr_make_dirs(folder) != TR_OK)
        tr_output_lost("no progress.txt: %s", tr_last_error());
    read_history(p);
    if (p->first == 0)
        p->first = now;
    append(p, now, "Starting job");
}

void tr_progress_close(struct tr_progress *p)
{
    free(p->path);
    memset(p, 0, sizeof *p);
}

void tr_progress_saved(const struct tr_progress *p, int64_t iteration, int64_t consumed, time_t now)
{
    double done = p->flops * (double)consumed, unit = 1e12 * p->ranks;
    double job = fmax(difftime(now, p->began), 1.0), all = fmax(difftime(now, p->first), 1.0);
    char event[LINE];

    if (!p->path)
        return;
    snprintf(event, sizeof event,
             "Saved checkpoint\tIteration: %" PRId64 "\tJob throughput: %.1f TFLOP/s/GPU\t"
             "Cumulative throughput: %.1f TFLOP/s/GPU\tFloating-point operations: %.2e\t"
             "Tokens (in billions): %.2f",
             iteration, (done - p->begin_flops) / (job * unit),
             (done - p->first_flops) / (all * unit), done, (double)(consumed * p->seq) * 1e-9);
    append(p, now, event);
}
