/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tracker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/logging.h"
#include "util/file.h"
#include "util/log.h"

static const double MIB = 1048576.0;

/* What is in use between steps, too; the rest is written and read in each anew. */
static const bool stays[TR_LABELS] = {
    [TR_LABEL_WEIGHTS] = true,
    [TR_LABEL_OPTIMIZER] = true,
    [TR_LABEL_COMPRESSION] = true,
    [TR_LABEL_SNAPSHOT] = true,
};

static void lost(const struct tr_tracker *t)
{
    tr_output_lost("--memory-tracker %s cannot be written: %s", t->path, strerror(errno));
}

static size_t used_bytes(const struct tr_run *r, bool step)
{
    size_t sum = 0;

    for (int i = 0; i < TR_LABELS; i++)
        sum += step || stays[i] ? r->arena.bytes[i] : 0;
    return sum;
}

static void print_totals(const struct tr_tracker *t, const struct tr_run *r, bool step)
{
    const struct tr_memory_line now = tr_logging_memory_now(r);

    fprintf(t->file,
            "Total Tensor Used Memory:%8.1f Mb Total Allocated Memory:%8.1f Mb Resident:%8.1f Mb\n",
            (double)used_bytes(r, step) / MIB, (double)r->arena.used_bytes / MIB,
            (double)(step ? now.max_reserved : now.reserved) / MIB);
}

static void print_head(const struct tr_tracker *t, const struct tr_run *r)
{
    const time_t now = time(NULL);
    struct tm local;
    char date[40];

    localtime_r(&now, &local);
    strftime(date, sizeof date, "%d-%b-%y-%H:%M:%S", &local);
    fprintf(t->file, "Memory Track of rank %d | %s | ", r->world->rank, date);
}

static int by_size(const void *a, const void *b)
{
    const struct tr_arena_block *x = a, *y = b;

    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* Buffers of a kind that stays or not, equal ones in one line. */
static void print_buffers(const struct tr_tracker *t, const struct tr_run *r, char sign, bool stay)
{
    const struct tr_arena_list *all = &r->buffers;
    struct tr_arena_block *list = malloc((size_t)(all->count + 1) * sizeof *list);

    if (!list)
        tr_die(TR_ERESOURCE, "no memory left for the list of buffers");
    memcpy(list, all->block, (size_t)all->count * sizeof *list);
    qsort(list, (size_t)all->count, sizeof *list, by_size);
    for (int i = 0, n; i < all->count; i += n) {
        for (n = 1; i + n < all->count && by_size(&list[i], &list[i + n]) == 0;)
            n++;
        if (stays[list[i].label] == stay)
            fprintf(t->file, "%c | %4d * Size:(%zu bytes) | Memory: %.3f M | %s | %s\n", sign, n,
                    list[i].bytes, (double)n * (double)list[i].bytes / MIB,
                    tr_label_name(list[i].label), r->queue.on->name);
    }
    free(list);
}

static void print_mark(const struct tr_tracker *t, const struct tr_run *r, const char *name,
                       bool step)
{
    fprintf(t->file, "\nAt %s   ", name);
    print_totals(t, r, step);
}

void tr_tracker_open(struct tr_tracker *t, const struct tr_run *r)
{
    const char *path = r->config->memory_tracker;

    *t = (struct tr_tracker){NULL, NULL};
    if (!path)
        return;
    t->path = r->world->size > 1 ? tr_format("%s.%d", path, r->world->rank) : tr_format("%s", path);
    t->file = fopen(t->path, "we");
    if (!t->file) {
        lost(t);
        return;
    }
    print_head(t, r);
    print_totals(t, r, false);
    fputc('\n', t->file);
    print_buffers(t, r, '+', true);
    print_mark(t, r, "the start, before the first step", false);
}

void tr_tracker_step(struct tr_tracker *t, const struct tr_run *r)
{
    if (!t->file)
        return;
    fputc('\n', t->file);
    print_buffers(t, r, '+', false);
    print_mark(t, r, "the peak of a step", true);
    fputc('\n', t->file);
    print_buffers(t, r, '-', false);
    print_mark(t, r, "the end of a step", false);
    tr_tracker_close(t);
}

void tr_tracker_close(struct tr_tracker *t)
{
    if (t->file && (ferror(t->file) + fclose(t->file)) != 0)
        lost(t);
    free(t->path);
    *t = (struct tr_tracker){NULL, NULL};
}
