/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/samples.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "data/numpy_rng.h"
#include "util/log.h"
#include "util/timer.h"

static const char *const map_names[] = {"doc", "sample", "shuffle"};

/* Back to a plan. */
static void drop_maps(struct tr_samples *x, const struct tr_samples *plan)
{
    tr_samples_close(x);
    *x = *plan;
}

static bool some_missing(const char *stem)
{
    bool missing = false;

    for (int m = 0; m < TR_MAPS; m++) {
        char *path = tr_samples_path(stem, (enum tr_samples_map)m);

        missing = missing || access(path, F_OK) != 0;
        free(path);
    }
    return missing;
}

static void print_epochs(const struct tr_samples *x)
{
    int64_t before = ((x->epochs - 1) * x->tokens - 1) / x->spec.seq;
    bool separate = x->early < x->count;

    if (x->epochs == 1)
        tr_print_rank0(" > only one epoch required, setting separate_last_epoch to False\n");
    else
        tr_print_rank0(" > last epoch number of samples (%lld) is %s than 80%% of number of "
                       "samples per epoch (%lld), setting separate_last_epoch to %s\n",
                       (long long)(x->spec.wanted - before), separate ? "smaller" : "larger",
                       (long long)((x->tokens - 1) / x->spec.seq), separate ? "True" : "False");
}

static void print_before(const struct tr_samples *x, enum tr_samples_map which)
{
    if (which == TR_MAP_ROW)
        tr_print_rank0("    using:\n"
                       "     number of documents:       %lld\n"
                       "     number of epochs:          %lld\n"
                       "     sequence length:           %lld\n"
                       "     total number of samples:   %lld\n",
                       (long long)(x->spec.last - x->spec.first), (long long)x->epochs,
                       (long long)x->spec.seq, (long long)x->count);
    if (which == TR_MAP_SHUFFLE)
        tr_print_rank0(" > building shuffle index with split [0, %lld) and [%lld, %lld) ...\n",
                       (long long)x->early, (long long)x->early, (long long)x->count);
}

/* Whether all maps could be put in place; if not, tr_last_error() says why. */
static bool build_and_store(struct tr_samples *x, const char *stem)
{
    struct tr_numpy_rng rng;
    bool stored = true;

    tr_numpy_seed(&rng, x->spec.seed);
    for (int m = 0; m < TR_MAPS; m++) {
        double begin = tr_now();

        print_before(x, (enum tr_samples_map)m);
        tr_samples_build(x, (enum tr_samples_map)m, &rng);
        stored = stored && tr_samples_store(x, stem, (enum tr_samples_map)m) == TR_OK;
        tr_print_rank0(" > elasped time to build and save %s-idx mapping (seconds): %4f\n",
                       map_names[m], tr_now() - begin);
    }
    return stored;
}

/* The same maps from the files, so that the ranks of a node share one copy in memory. */
static void map_what_was_built(struct tr_samples *x, const struct tr_samples *plan,
                               const char *stem)
{
    struct tr_samples files = *plan;

    if (tr_samples_load(&files, stem) != TR_OK)
        return;
    if (tr_samples_fingerprint(&files) != tr_samples_fingerprint(x)) {
        tr_samples_close(&files);
        return;
    }
    tr_samples_close(x);
    *x = files;
}

/* Gives the seconds of opening the files, without those of building them. */
static double take_first(struct tr_samples *x, const char *stem, bool *warned)
{
    const struct tr_samples plan = *x;
    double begin = tr_now();

    if (some_missing(stem)) {
        tr_print_rank0(" > WARNING: could not find index map files, building the indices on rank 0 "
                       "...\n");
    } else if (tr_samples_load(x, stem) == TR_OK && tr_samples_verify(x) == TR_OK) {
        return tr_now() - begin;
    } else {
        tr_log(TR_LOG_WARNING, "%s; it is built again", tr_last_error());
        drop_maps(x, &plan);
    }
    print_epochs(x);
    if (build_and_store(x, stem)) {
        begin = tr_now();
        map_what_was_built(x, &plan, stem);
        return tr_now() - begin;
    }
    if (!*warned) {
        tr_log(TR_LOG_WARNING,
               "%s. Index maps are kept in memory and built again at every start; give "
               "--data-cache-path a folder that can be written",
               tr_last_error());
        *warned = true;
    }
    return 0.0;
}

static enum tr_status take_after(struct tr_samples *x, const char *what, const char *stem,
                                 uint64_t expected)
{
    const struct tr_samples plan = *x;

    if (tr_samples_load(x, stem) == TR_OK) {
        if (tr_samples_fingerprint(x) == expected)
            return TR_OK;
        drop_maps(x, &plan);
    }
    if (build_and_store(x, stem))
        map_what_was_built(x, &plan, stem);
    if (tr_samples_fingerprint(x) != expected)
        return TR_FAIL(TR_EDATA,
                       "%s is not the same data set here as on rank 0: the order of its samples "
                       "differs; copy it to this node again",
                       what);
    return TR_OK;
}

static uint64_t of_rank_0(struct tr_comm *world, uint64_t mine)
{
    uint64_t *all = malloc((size_t)world->size * sizeof *all), first;

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left to compare index maps");
    world->via->gather_all(world, &mine, sizeof mine, all);
    first = all[0];
    free(all);
    return first;
}

static void print_taken(const struct tr_samples *x, const char *stem, double seconds)
{
    for (int m = 0; m < TR_MAPS && x->part[m].map.path; m++) {
        char *path = tr_samples_path(stem, (enum tr_samples_map)m);

        tr_print_rank0(" > loading %s-idx mapping from %s\n", map_names[m], path);
        free(path);
    }
    tr_print_rank0("    loaded indexed file in %3.3f seconds\n"
                   "    total number of samples: %lld\n"
                   "    total number of epochs: %lld\n",
                   seconds, (long long)x->count + 1, (long long)x->epochs);
}

enum tr_status tr_samples_open(const struct tr_samples_spec *spec, const char *what,
                               const char *stem, struct tr_comm *world, bool *warned,
                               struct tr_samples *out)
{
    uint64_t expected = 0;
    double seconds = 0.0;
    enum tr_status s;

    TR_TRY(tr_comm_agree(world, tr_samples_plan(spec, what, out)));
    if (world->rank == 0) {
        seconds = take_first(out, stem, warned);
        expected = tr_samples_fingerprint(out);
    }
    expected = of_rank_0(world, expected);
    s = world->rank == 0 ? TR_OK : take_after(out, what, stem, expected);
    s = tr_comm_agree(world, s);
    if (s == TR_OK)
        print_taken(out, stem, seconds);
    else
        tr_samples_close(out);
    return s;
}
