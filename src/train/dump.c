/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/file.h"
#include "util/log.h"
#include "telemetry/timer.h"

struct diagnosis {
    int64_t pid;
    int64_t planned, resident; /* bytes: of the arena, and the most that were resident */
    double seconds[TR_TIMERS];
};

static void write_rank(FILE *f, const struct tr_run *r, const struct tr_run_folder *k, int rank,
                       const struct diagnosis *d)
{
    struct tr_place at = tr_grid_place(&r->shape.layout, rank);

    fprintf(f, "rank %d | host: %s | pid: %" PRId64 " | tensor: %d | pipeline: %d | data: %d\n",
            rank, k->host[rank], d->pid, at.tp, at.pp, at.dp);
    fprintf(f, "  memory (MB) | planned: %.2f | max resident: %.2f\n",
            (double)d->planned / 1048576.0, (double)d->resident / 1048576.0);
    fprintf(f, "  time since the last line of the log (ms)");
    for (int t = 0; t < TR_TIMERS; t++)
        if (d->seconds[t] > 0.0)
            fprintf(f, " | %s: %.2f", tr_timer_name((enum tr_timer)t), 1e3 * d->seconds[t]);
    fprintf(f, "\n");
}

static void write_dump(const struct tr_run *r, const struct tr_run_folder *k,
                       const struct diagnosis *all)
{
    char *path = tr_format("%s/dump-%07" PRId64 ".txt", k->folder, r->iteration), *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        tr_die(TR_ERESOURCE, "no memory left for the diagnosis of %d ranks", r->world->size);
    fprintf(f, "iteration %" PRId64 " of %" PRId64 " | consumed samples: %" PRId64 "\n",
            r->iteration, r->shape.amounts.train_iters, r->consumed_train);
    for (int rank = 0; rank < r->world->size; rank++)
        write_rank(f, r, k, rank, &all[rank]);
    fclose(f);
    if (tr_file_replace(path, text, size) == TR_OK)
        tr_notice("> what each rank is doing stands in %s\n", path);
    else
        tr_log(TR_LOG_WARNING, "there is no diagnosis: %s", tr_last_error());
    free(text);
    free(path);
}

void tr_dump(struct tr_run *r, const struct tr_run_folder *k)
{
    struct diagnosis mine = {.pid = (int64_t)getpid()};
    struct diagnosis *all = calloc((size_t)r->world->size, sizeof *all);
    struct rusage usage;

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the diagnosis of %d ranks", r->world->size);
    getrusage(RUSAGE_SELF, &usage);
    mine.planned = (int64_t)r->arena.capacity_bytes;
    mine.resident = (int64_t)usage.ru_maxrss * 1024;
    tr_timers_read(mine.seconds);
    r->world->via->gather_all(r->world, &mine, sizeof mine, all);
    if (r->world->rank == 0)
        write_dump(r, k, all);
    free(all);
}
