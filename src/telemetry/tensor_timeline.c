/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/tensor_timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/file.h"
#include "util/log.h"

static const char CLOSING[] = "\n]\n";

struct tr_tensor_timeline {
    int fd;
    char *path;
    off_t at;   /* where the closing bracket begins, */
    FILE *more; /* and what will stand there, in `text` */
    char *text;
    size_t bytes;
    double start; /* by tr_now() */
};

static double micros(const struct tr_tensor_timeline *t, double at)
{
    return 1e6 * (at - t->start);
}

static void give_up(struct tr_tensor_timeline *t)
{
    tr_output_lost("the timeline ends here: cannot write %s: %s", t->path, strerror(errno));
    close(t->fd);
    t->fd = -1;
}

static bool write_all(const struct tr_tensor_timeline *t)
{
    size_t done = 0;

    while (done < t->bytes) {
        const ssize_t n = pwrite(t->fd, t->text + done, t->bytes - done, t->at + (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static void renew(struct tr_tensor_timeline *t)
{
    t->text = NULL;
    t->more = open_memstream(&t->text, &t->bytes);
    if (!t->more)
        tr_die(TR_ERESOURCE, "no memory left for the events of a timeline");
}

void tr_tensor_timeline_flush(struct tr_tensor_timeline *t)
{
    fputs(CLOSING, t->more);
    fclose(t->more);
    if (t->fd >= 0 && !write_all(t))
        give_up(t);
    t->at += (off_t)(t->bytes - strlen(CLOSING));
    free(t->text);
    renew(t);
}

static void put_head(struct tr_tensor_timeline *t)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(t->more,
            "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": "
            "{\"start_time_since_epoch_in_micros\": %lld}}",
            (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

enum tr_status tr_tensor_timeline_open(const char *path, struct tr_tensor_timeline **out)
{
    struct tr_tensor_timeline *t = calloc(1, sizeof *t);

    *out = NULL;
    if (!t)
        return TR_FAIL(TR_ERESOURCE, "no memory left for a timeline");
    t->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (t->fd < 0) {
        free(t);
        return TR_FAIL(TR_EIO,
                       "cannot write %s: %s, and --timeline-filename wants the timeline there: "
                       "give a file in a folder that exists",
                       path, strerror(errno));
    }
    t->path = tr_format("%s", path);
    t->start = tr_now();
    renew(t);
    put_head(t);
    tr_tensor_timeline_flush(t);
    *out = t;
    return TR_OK;
}

void tr_tensor_timeline_close(struct tr_tensor_timeline *t)
{
    if (!t)
        return;
    tr_tensor_timeline_flush(t);
    fclose(t->more);
    free(t->text);
    if (t->fd >= 0)
        close(t->fd);
    free(t->path);
    free(t);
}

void tr_tensor_timeline_process(struct tr_tensor_timeline *t, int pid, const char *name)
{
    fprintf(t->more,
            ",\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": "
            "{\"name\": \"%s\"}},\n{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": "
            "%d, \"args\": {\"sort_index\": %d}}",
            pid, name, pid, pid);
}

void tr_tensor_timeline_begin(struct tr_tensor_timeline *t, int pid, const char *name, double at)
{
    fprintf(t->more, ",\n{\"ph\": \"B\", \"name\": \"%s\", \"ts\": %.0f, \"pid\": %d}", name,
            micros(t, at), pid);
}

void tr_tensor_timeline_end(struct tr_tensor_timeline *t, int pid, double at)
{
    fprintf(t->more, ",\n{\"ph\": \"E\", \"ts\": %.0f, \"pid\": %d}", micros(t, at), pid);
}

void tr_tensor_timeline_mark(struct tr_tensor_timeline *t, int pid, const char *name, double at)
{
    fprintf(t->more, ",\n{\"ph\": \"X\", \"name\": \"%s\", \"ts\": %.0f, \"pid\": %d, \"dur\": 0}",
            name, micros(t, at), pid);
}

void tr_tensor_timeline_cycle(struct tr_tensor_timeline *t, double at)
{
    fprintf(t->more,
            ",\n{\"ph\": \"i\", \"name\": \"CYCLE_START\", \"ts\": %.0f, \"s\": \"g\", \"pid\": 0}",
            micros(t, at));
}
