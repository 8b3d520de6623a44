/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/classify.h"
#include "config/vocab.h"
#include "data/batch.h"
#include "launch/launch.h"
#include "port/translate.h"
#include "util/clock.h"
#include "util/file.h"
#include "util/log.h"

/* `bytes` from rank 0 to all, in words; `data` has room for whole ones. */
static void tell(struct tr_comm *world, void *data, int64_t bytes)
{
    struct tr_tensor words = tr_i32_1(data, (bytes + 3) / 4);

    world->via->broadcast(world, NULL, &words, 0);
}

static void tell_words(struct tr_comm *world, struct tr_args *a)
{
    int64_t bytes = 0;
    size_t packed = 0;
    char *mine = NULL, *all;

    if (world->rank == 0) {
        mine = tr_args_pack(a, &packed);
        bytes = (int64_t)packed;
    }
    tell(world, &bytes, sizeof bytes);
    all = calloc(1, (size_t)bytes + 4);
    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the command line");
    if (mine)
        memcpy(all, mine, packed);
    tell(world, all, bytes);
    if (world->rank != 0)
        tr_args_unpack(a, all, (size_t)bytes);
    free(mine);
    free(all);
}

/* On rank 0: words of others as ours, and what became of each. */
static enum tr_status translate(struct tr_args *a, const struct tr_port_launch *launch)
{
    struct tr_list said = {0};
    enum tr_status s = tr_port_translate(a, launch, &said);

    for (int i = 0; i < said.count; i++)
        tr_print_rank0("> %s\n", said.item[i]);
    tr_list_release(&said);
    return s;
}

/* A command line of other programs has been given to each of their processes: the launch must be the one that it says. */
static enum tr_status look_at_launch(struct tr_comm *world, int argc, char **argv,
                                     struct tr_port_launch *out)
{
    struct tr_launch l;
    enum tr_status s;

    tr_launch_read(world, &l);
    out->nodes = l.nodes;
    s = tr_port_check_ids(argc, argv, world->rank, l.local_rank);
    tr_launch_release(&l);
    return tr_comm_agree(world, s);
}

enum tr_status tr_start_words(struct tr_comm *world, int argc, char **argv, struct tr_args *out)
{
    struct tr_port_launch launch = {.ranks = world->size};
    enum tr_status s = TR_OK;

    *out = (struct tr_args){0};
    if (world->rank == 0)
        s = tr_args_argv(out, argc, argv);
    TR_TRY(tr_comm_agree(world, s));
    if (tr_comm_max(world, world->rank == 0 && tr_port_is_theirs(out)) != 0)
        TR_TRY(look_at_launch(world, argc, argv, &launch));
    if (world->rank == 0)
        s = translate(out, &launch);
    TR_TRY(tr_comm_agree(world, s));
    tell_words(world, out);
    return TR_OK;
}

void tr_start_vocab(struct tr_comm *world, struct tr_config *c)
{
    struct tr_vocab_file known = {0};

    if (!c->vocab_file && !c->tokenizer_model)
        return;
    if (world->rank == 0 && tr_vocab_known(c, &known) != TR_OK)
        known = (struct tr_vocab_file){0};
    tell(world, &known, sizeof known);
    c->vocab_known = known;
}

enum tr_status tr_start_count(struct tr_config *c, bool must)
{
    const bool named = c->data_path.count > 0 || c->train_data_path.count > 0 || tr_classify_of(c);
    enum tr_status s;

    c->blocks_known = (struct tr_blocks_known){0};
    if (c->n_epochs == TR_UNSET_INT || c->mock_data || c->seq_length == TR_UNSET_INT ||
        !(must || named))
        return TR_OK;
    s = tr_data_count(c, &c->blocks_known);
    return s == TR_EIO && !must ? TR_OK : s;
}

enum tr_status tr_start_blocks(struct tr_comm *world, struct tr_config *c)
{
    enum tr_status s = TR_OK;

    if (world->rank == 0)
        s = tr_start_count(c, !c->dry_run);
    TR_TRY(tr_comm_agree(world, s));
    tell(world, &c->blocks_known, sizeof c->blocks_known);
    return TR_OK;
}

/* ---- the file of lines ---- */

static enum tr_status open_log_file(const char *pattern)
{
    const time_t now = time(NULL);
    char path[4096], *folder;
    enum tr_status s = TR_OK;
    struct tm local;
    int error;

    localtime_r(&now, &local);
    if (strftime(path, sizeof path, pattern, &local) == 0)
        return TR_FAIL(TR_ECONFIG, "--log-file %s is no name of a file", pattern);
    folder = tr_format("%s", path);
    if (strrchr(folder, '/') && strrchr(folder, '/') != folder) {
        *strrchr(folder, '/') = '\0';
        s = tr_make_dirs(folder);
    }
    free(folder);
    TR_TRY(s);
    error = tr_log_file(path);
    if (error != 0)
        return TR_FAIL(TR_EIO, "cannot write %s: %s, and --log-file wants the log there", path,
                       strerror(error));
    return TR_OK;
}

enum tr_status tr_start_log_file(struct tr_comm *world, const struct tr_config *c)
{
    if (!c->log_file)
        return TR_OK;
    return tr_comm_agree(world, world->rank == 0 ? open_log_file(c->log_file) : TR_OK);
}

/* ---- how long it takes ---- */

static struct {
    bool running;
    double began, last; /* on the clock of tr_now() */
    double part[TR_START_PARTS];
} watch;

/* Seconds since the system made this process; 0 where it does not say.  The 22nd word of its line, and
   the 2nd, a name in brackets, may hold anything. */
static double age(void)
{
    char line[1024] = "", *at;
    unsigned long long ticks = 0;
    struct timespec now;
    FILE *f = fopen("/proc/self/stat", "re");

    if (!f)
        return 0.0;
    at = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    for (int word = 2; at && word < 22; word++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, "%llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return 0.0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec -
           (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

void tr_start_begin(void)
{
    const double now = tr_now(), old = age();

    memset(&watch, 0, sizeof watch);
    watch.running = true;
    watch.began = watch.last = now - (old > 0.0 ? old : 0.0);
    tr_start_end(TR_START_PROGRAM);
}

void tr_start_end(enum tr_start_part part)
{
    const double now = tr_now();

    if (!watch.running)
        return;
    watch.part[part] += now - watch.last;
    watch.last = now;
}

double tr_start_seconds(void)
{
    return watch.running ? tr_now() - watch.began : -1.0;
}

const double *tr_start_parts(void)
{
    return watch.part;
}
