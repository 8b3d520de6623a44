/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/architecture.h"
#include "ckpt/index.h"
#include "ckpt/io.h"
#include "ckpt/path.h"
#include "util/file.h"
#include "util/log.h"

/* One load on one rank. */
struct load {
    struct tr_grid *grid;
    struct tr_comm *world, *once, *shards;
    const char *dir;
    const struct tr_ckpt_how *how;
    struct tr_ckpt_map map;
    int tensors; /* in the kinds that are wanted */
    struct place {
        uint64_t sum;
        int64_t offset;
    } * places;       /* of each tensor in the file */
    uint64_t *sums;   /* of what was read and this tensor rank and stage store */
    uint64_t *others; /* of what they hold as well, but do not store */
    int fd, error;    /* the file; -1, and why it could not be opened */
    char *config;     /* on rank 0: the options of the run that wrote it, as JSON, */
    char *source;     /*   and where the weights came from with which it began */
};

/* What rank 0 found out about one checkpoint; broadcast to all ranks. */
struct finding {
    int64_t iteration; /* -1: there is none left to try */
    int64_t final;     /* older ones would have the same fault */
    int64_t minor;
    struct tr_ckpt_state state;
    struct tr_lr_schedule schedule;
};
_Static_assert(sizeof(struct finding) % sizeof(int32_t) == 0, "a finding is sent in words");

static void begin(struct load *v, const struct tr_ckpt_tensors *tensors,
                  const struct tr_shape *shape)
{
    tr_ckpt_map_build(&shape->dims, tensors, v->grid->at.tp, &v->map);
    v->tensors = v->map.kinds * v->map.whole.count;
    v->places = calloc((size_t)v->tensors, sizeof *v->places);
    v->sums = calloc((size_t)v->tensors, sizeof *v->sums);
    v->others = calloc((size_t)v->tensors, sizeof *v->others);
    if (!v->places || !v->sums || !v->others)
        tr_die(TR_ERESOURCE, "no memory left for the index of a checkpoint");
}

static void end(struct load *v)
{
    free(v->places);
    free(v->sums);
    free(v->others);
    free(v->config);
    free(v->source);
    tr_ckpt_map_release(&v->map);
}

/* Rank 0: what the run asks for that the file does not have, nor do the ones before it. */
static enum tr_status compare(const struct load *v, const char *file, const struct tr_ckpt_index *x,
                              const struct tr_shape *shape)
{
    bool whole = v->map.kinds > 1;

    TR_TRY(tr_ckpt_model_compare(file, &x->about, &shape->dims, v->how->finetune));
    if (whole && !x->optimizer)
        return TR_FAIL(
            TR_EDATA,
            "%s holds weights only, as --no-save-optim saves them: give --no-load-optim "
            "to go on from its iteration with a new optimizer, or --finetune to begin at "
            "iteration 0",
            file);
    if (!v->how->finetune && !v->how->any_order)
        TR_TRY(tr_ckpt_order_compare(file, &x->about.order, x->about.state.consumed_train_samples,
                                     &shape->epochs));
    if (whole && v->how->schedule == TR_SCHEDULE_SAME)
        return tr_ckpt_schedule_compare(file, &x->about.schedule, &shape->lr_schedule);
    return TR_OK;
}

/* Rank 0: where each tensor that is wanted lies in the file. */
static enum tr_status find_places(struct load *v, const char *file, const struct tr_ckpt_index *x)
{
    const struct tr_params *whole = &v->map.whole;

    for (int n = 0; n < v->tensors; n++) {
        const struct tr_ckpt_entry *e;
        int kind = n / whole->count;

        if (tr_ckpt_index_find(x, kind, &whole->list[n % whole->count], n, &e) != TR_OK)
            return TR_FAIL(TR_EDATA, "%s: %s", file, tr_last_error());
        v->places[n] = (struct place){e->sum, e->offset};
    }
    return TR_OK;
}

static enum tr_status cannot_open(const struct load *v, const char *file, int64_t iteration)
{
    if (v->how->step >= 0 && v->error == ENOENT)
        return tr_ckpt_missing(v->dir, iteration);
    return TR_FAIL(TR_EIO, "cannot open %s: %s", file, tr_open_why(v->error));
}

/* Rank 0: everything about one checkpoint but its elements. */
static enum tr_status examine(struct load *v, const char *file, const struct tr_shape *shape,
                              struct finding *f)
{
    struct tr_ckpt_index x = {.count = 0};
    enum tr_status s =
        v->fd < 0 ? cannot_open(v, file, f->iteration) : tr_ckpt_index_read_fd(v->fd, file, &x);

    f->final = v->how->step >= 0;
    if (s == TR_OK) {
        s = compare(v, file, &x, shape);
        f->final |= s != TR_OK;
    }
    if (s == TR_OK && x.about.state.iteration != f->iteration)
        s = TR_FAIL(TR_EDATA, "%s says that it is of iteration %lld", file,
                    (long long)x.about.state.iteration);
    if (s == TR_OK)
        s = find_places(v, file, &x);
    f->minor = x.minor;
    f->state = x.about.state;
    f->schedule = x.about.schedule;
    free(v->config);
    free(v->source);
    v->config = x.config;
    v->source = x.source;
    x.config = x.source = NULL;
    tr_ckpt_index_release(&x);
    return s;
}

static enum tr_status read_piece(struct load *v, int kind, const struct tr_ckpt_piece *piece)
{
    const struct tr_param *p = piece->param;
    int number = tr_ckpt_number(&v->map, kind, piece);
    uint64_t *sums = tr_ckpt_stores(&v->map, piece) ? v->sums : v->others;

    for (int64_t lo = piece->lo, hi; lo < piece->hi; lo = hi) {
        float *x = tr_ckpt_room(&v->map, kind, piece, lo);

        hi = tr_ckpt_upto(&v->map, lo, piece->hi);
        if (tr_ckpt_read_elems(v->fd, v->places[number].offset, p, x, lo, hi) != 0)
            return TR_FAIL(TR_EIO, "%s/%s cannot be read: %s", tr_ckpt_group(kind), p->name,
                           strerror(errno));
        sums[number] += tr_ckpt_sum_elems(p, x, lo, hi);
        tr_ckpt_put(&v->map, kind, piece, lo, hi);
    }
    tr_ckpt_pad(&v->map, kind, piece);
    return TR_OK;
}

static enum tr_status read_elements(struct load *v, const char *file)
{
    enum tr_status s = TR_OK;

    if (v->fd < 0)
        return TR_FAIL(TR_EIO,
                       "cannot open %s: %s; every rank reads it, so it must lie on a file system "
                       "that all nodes share",
                       file, tr_open_why(v->error));
    memset(v->sums, 0, (size_t)v->tensors * sizeof *v->sums);
    memset(v->others, 0, (size_t)v->tensors * sizeof *v->others);
    for (int k = 0; s == TR_OK && k < v->map.kinds; k++)
        for (int i = 0; s == TR_OK && i < v->map.count; i++)
            s = read_piece(v, k, &v->map.list[i]);
    if (s != TR_OK)
        s = TR_FAIL(s, "%s: %s", file, tr_last_error());
    return s;
}

/* Who have together read each stored element once: a model-parallel group where every replica reads
   all it needs, and all ranks where each replica reads a part. */
static enum tr_status check_sums(struct load *v, const char *file)
{
    tr_ckpt_add(v->map.sharded ? v->once : &v->grid->mp, v->sums, v->tensors);
    for (int n = 0; n < v->tensors; n++) {
        const struct tr_params *whole = &v->map.whole;

        if (v->sums[n] != v->places[n].sum)
            return TR_FAIL(TR_EDATA, "%s: %s/%s does not have its checksum", file,
                           tr_ckpt_group(n / whole->count), whole->list[n % whole->count].name);
    }
    return TR_OK;
}

/* What a tensor rank and stage hold but do not store: parameters that are not sharded are
   replicated over tensor ranks, and the last stage has the copies of the tied embedding. */
static enum tr_status check_others(struct load *v, const struct tr_params *params, const char *file)
{
    enum tr_status s = TR_OK;

    if (v->map.sharded)
        tr_ckpt_add(v->shards, v->others, v->tensors);
    for (int i = 0; i < params->count; i++) {
        const struct tr_param *p = &params->list[i];

        for (int k = 0; k < v->map.kinds && !tr_param_counts(p, v->map.tp); k++) {
            int n = k * v->map.whole.count + tr_ckpt_find_tensor(&v->map, p);

            if (p->copy && p->split >= 0)
                tr_ckpt_add(&v->grid->tp, &v->others[n], 1);
            if (v->others[n] != v->places[n].sum)
                s = TR_FAIL(TR_EDATA, "%s: the copy of %s/%s does not have its checksum", file,
                            tr_ckpt_group(k), p->name);
        }
    }
    return s;
}

/* The sidecar files of the checkpoint.  A checkpoint that this run cannot use is not reported as
   damaged. */
static enum tr_status load_also(struct load *v, const char *folder, struct finding *f)
{
    const struct tr_ckpt_state state = v->how->finetune ? (struct tr_ckpt_state){0} : f->state;
    enum tr_status s = v->how->also ? v->how->also(v->how->ctx, folder, &state) : TR_OK;

    f->final |= s != TR_OK && s != TR_EDATA && s != TR_EIO;
    return s;
}

/* Try the checkpoint that `f` names; collective, and the same outcome on all ranks. */
static enum tr_status load_one(struct load *v, const struct tr_shape *shape,
                               const struct tr_params *params, struct finding *f)
{
    char *folder = tr_ckpt_folder(v->dir, f->iteration), *file = tr_ckpt_file_in(folder);
    enum tr_status s = TR_OK;

    v->fd = tr_open_by(v->how->by, file);
    v->error = errno;
    if (v->world->rank == 0)
        s = examine(v, file, shape, f);
    tr_ckpt_tell(v->world, f, sizeof *f);
    s = tr_comm_agree(v->world, s);
    if (s == TR_OK) {
        tr_ckpt_tell(v->world, v->places, (size_t)v->tensors * sizeof *v->places);
        s = tr_comm_agree(v->world, read_elements(v, file));
    }
    if (s == TR_OK)
        s = tr_comm_agree(v->world, check_sums(v, file));
    if (s == TR_OK)
        s = tr_comm_agree(v->world, check_others(v, params, file));
    if (s == TR_OK)
        s = load_also(v, folder, f);
    if (v->fd >= 0)
        close(v->fd);
    free(file);
    free(folder);
    return s;
}

/* Rank 0 says which one comes after the damaged one; -1 when that was the last. */
static void go_back(struct load *v, struct finding *f)
{
    int64_t damaged = f->iteration;

    if (v->world->rank == 0) {
        f->iteration = tr_ckpt_older(v->dir, damaged);
        if (f->iteration >= 0)
            tr_log(TR_LOG_WARNING,
                   "the checkpoint of iteration %lld cannot be used (%s); going back to that of "
                   "iteration %lld",
                   (long long)damaged, tr_last_error(), (long long)f->iteration);
    }
    tr_ckpt_tell(v->world, f, sizeof *f);
}

static enum tr_status load_newest(struct load *v, const struct tr_shape *shape,
                                  const struct tr_params *params, struct finding *f)
{
    int64_t wanted = f->iteration;

    for (;;) {
        enum tr_status s;

        tr_print_rank0(" loading checkpoint from %s at iteration %lld\n", v->dir,
                       (long long)f->iteration);
        s = load_one(v, shape, params, f);
        if (s == TR_OK || f->final)
            return s;
        go_back(v, f);
        if (f->iteration < 0)
            return TR_FAIL(TR_EDATA,
                           "no checkpoint in %s can be used; the tracker names iteration %lld, and "
                           "the last one tried failed: %s",
                           v->dir, (long long)wanted, tr_last_error());
    }
}

/* Rank 0 reads the tracker for all. */
static enum tr_status choose(struct load *v, struct finding *f)
{
    enum tr_status s = TR_OK;

    f->iteration = v->how->step;
    if (v->world->rank == 0 && f->iteration < 0)
        s = tr_ckpt_newest(v->dir, &f->iteration);
    TR_TRY(tr_comm_agree(v->world, s));
    tr_ckpt_tell(v->world, f, sizeof *f);
    return TR_OK;
}

/* The line in the log is Megatron's; --log-format terminal prints this one. */
static void warn_of_nothing(const struct load *v)
{
    char *there = v->world->rank == 0 ? tr_ckpt_iterations(v->dir) : tr_format("%s", "");

    if (*there)
        tr_log_rank0(TR_LOG_WARNING,
                     "no checkpoint found in %s, starting from random weights: there are those of "
                     "iterations %s, but no " TR_CKPT_TRACKER
                     " that names one; to go on from one of "
                     "them, stop and give --ckpt-step",
                     v->dir, there);
    else if (!v->how->begins)
        tr_log_rank0(TR_LOG_WARNING, "no checkpoint found in %s, starting from random weights",
                     v->dir);
    free(there);
}

static enum tr_status nothing_there(const struct load *v)
{
    if (v->how->must)
        return TR_FAIL(TR_EIO,
                       "there is no checkpoint in %s (no " TR_CKPT_TRACKER
                       "), and --exit-on-missing-checkpoint says that there must be one",
                       v->dir);
    warn_of_nothing(v);
    tr_print_rank0("WARNING: could not find the metadata file %s/" TR_CKPT_TRACKER " \n"
                   "    will not load any checkpoints and will start from random\n",
                   v->dir);
    return TR_OK;
}

enum tr_status tr_ckpt_load(struct tr_grid *grid, const char *dir, const struct tr_ckpt_how *how,
                            struct tr_shape *shape, const struct tr_ckpt_tensors *tensors,
                            struct tr_ckpt_state *state, bool *found)
{
    struct load v = {
        .grid = grid,
        .world = grid->world,
        .once = tensors->once ? tensors->once : grid->world,
        .shards = tensors->shards ? tensors->shards : &grid->dp,
        .dir = dir,
        .how = how,
    };
    struct finding f = {.iteration = -1};
    enum tr_status s;

    TR_ASSERT((tensors->value.data || tensors->access) &&
              !(how->finetune && tr_ckpt_has_states(tensors)));
    *found = false;
    TR_TRY(choose(&v, &f));
    if (f.iteration < 0)
        return nothing_there(&v);
    begin(&v, tensors, shape);
    s = load_newest(&v, shape, tensors->params, &f);
    if (s == TR_OK) {
        *found = true;
        if (how->loaded)
            *how->loaded = f.iteration;
        if (how->config) {
            *how->config = v.config;
            v.config = NULL;
        }
        if (how->source) {
            *how->source = v.source;
            v.source = NULL;
        }
        *state = how->finetune ? (struct tr_ckpt_state){0} : f.state;
        if (tr_ckpt_has_states(tensors) && how->schedule == TR_SCHEDULE_STORED)
            tr_ckpt_schedule_follow(&f.schedule, &shape->lr_schedule);
        tr_print_rank0(" checkpoint version %d.%lld\n"
                       "  successfully loaded checkpoint from %s at iteration %lld\n",
                       TR_CKPT_MAJOR, (long long)f.minor, dir, (long long)state->iteration);
    }
    end(&v);
    return s;
}
