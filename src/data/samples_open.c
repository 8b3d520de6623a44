/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/samples.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "data/numpy_rng.h"
#include "util/log.h"
#include "util/clock.h"

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
        tr_detail_rank0(" > only one epoch required, setting separate_last_epoch to False\n");
    else
        tr_detail_rank0(" > last epoch number of samples (%lld) is %s than 80%% of number of "
                        "samples per epoch (%lld), setting separate_last_epoch to %s\n",
                        (long long)(x->spec.wanted - before), separate ? "smaller" : "larger",
                        (long long)((x->tokens - 1) / x->spec.seq), separate ? "True" : "False");
}

static void print_before(const struct tr_samples *x, enum tr_samples_map which)
{
    if (which == TR_MAP_ROW)
        tr_detail_rank0("    using:\n"
                        "     number of documents:       %lld\n"
                        "     number of epochs:          %lld\n"
                        "     sequence length:           %lld\n"
                        "     total number of samples:   %lld\n",
                        (long long)(x->spec.last - x->spec.first), (long long)x->epochs,
                        (long long)x->spec.seq, (long long)x->count);
    if (which == TR_MAP_SHUFFLE)
        tr_detail_rank0(" > building shuffle index with split [0, %lld) and [%lld, %lld) ...\n",
                        (long long)x->early, (long long)x->early, (long long)x->count);
}

/* Whether all maps could be put in place; if not, tr_last_error() says why.  A meter is wiped before a
   line is printed. */
static bool build_and_store(struct tr_samples *x, const char *stem, bool show)
{
    struct tr_numpy_rng rng;
    struct tr_meter meter;
    bool stored = true;

    tr_numpy_seed(&rng, x->spec.seed);
    tr_meter_start_count(&meter, "building index maps:", "entries", tr_samples_work(x));
    for (int m = 0; m < TR_MAPS; m++) {
        double begin = tr_now();

        print_before(x, (enum tr_samples_map)m);
        tr_samples_build(x, (enum tr_samples_map)m, &rng, show ? &meter : NULL);
        (void)tr_meter_end(&meter);
        stored = stored && tr_samples_store(x, stem, (enum tr_samples_map)m) == TR_OK;
        tr_detail_rank0(" > elasped time to build and save %s-idx mapping (seconds): %4f\n",
                        map_names[m], tr_now() - begin);
    }
    return stored;
}

/* The same maps from the files, so that the ranks of a node share one copy in memory.  True if they
   are there. */
static bool take_files(struct tr_samples *x, const struct tr_samples *plan, const char *stem,
                       const struct tr_opener *by, uint64_t expected)
{
    struct tr_samples files = *plan;

    if (tr_samples_load_by(&files, stem, by) != TR_OK)
        return false;
    if (tr_samples_fingerprint(&files) != expected) {
        tr_samples_close(&files);
        return false;
    }
    tr_samples_close(x);
    *x = files;
    return true;
}

/* What rank 0 found, or did. */
struct word {
    uint64_t fingerprint;
    int64_t stored; /* there are new files */
};

/* New maps could not be put in place; tr_last_error() says why. */
static enum tr_status not_stored(bool *warned)
{
    if (!warned)
        return TR_FAIL(TR_EIO,
                       "%s; make room, or give --data-cache-path another folder, or none for one "
                       "next to the data",
                       tr_last_error());
    if (!*warned)
        tr_log(TR_LOG_WARNING,
               "%s. Index maps are kept in memory and built again at every start; give "
               "--data-cache-path a folder that can be written",
               tr_last_error());
    *warned = true;
    return TR_OK;
}

static enum tr_status verify(const struct tr_samples *x)
{
    struct tr_meter meter;
    enum tr_status s;

    tr_meter_start_count(&meter, "verifying index maps:", "entries", tr_samples_work(x));
    s = tr_samples_verify(x, &meter);
    (void)tr_meter_end(&meter);
    return s;
}

/* Rank 0, which has loaded what it found unless `s` says why not. */
static enum tr_status take_first(struct tr_samples *x, const struct tr_samples *plan,
                                 const char *stem, enum tr_status s, bool *warned, struct word *out)
{
    *out = (struct word){0};
    if (s == TR_OK) {
        s = verify(x);
        out->fingerprint = tr_samples_fingerprint(x);
        if (s == TR_OK)
            return TR_OK;
        drop_maps(x, plan);
    }
    if (some_missing(stem))
        tr_detail_rank0(
            " > WARNING: could not find index map files, building the indices on rank 0 "
            "...\n");
    else
        tr_log(TR_LOG_WARNING, "%s; it is built again", tr_last_error());
    print_epochs(x);
    out->stored = build_and_store(x, stem, true);
    out->fingerprint = tr_samples_fingerprint(x);
    return out->stored ? TR_OK : not_stored(warned);
}

/* Another rank, which sees none of those maps. */
static enum tr_status make_own(struct tr_samples *x, const struct tr_samples *plan,
                               const char *what, const char *stem, uint64_t expected, bool must)
{
    drop_maps(x, plan);
    if (build_and_store(x, stem, false))
        (void)take_files(x, plan, stem, NULL, expected);
    else if (must)
        return not_stored(NULL);
    if (tr_samples_fingerprint(x) != expected)
        return TR_FAIL(TR_EDATA,
                       "%s is not the same dataset here as on rank 0: the order of its samples "
                       "differs; copy it to this node again",
                       what);
    return TR_OK;
}

static struct word of_rank_0(struct tr_comm *world, struct word mine)
{
    struct word *all = malloc((size_t)world->size * sizeof *all), first;

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

        tr_detail_rank0(" > loading %s-idx mapping from %s\n", map_names[m], path);
        free(path);
    }
    tr_detail_rank0("    loaded indexed file in %3.3f seconds\n"
                    "    total number of samples: %lld\n"
                    "    total number of epochs: %lld\n",
                    seconds, (long long)x->count + 1, (long long)x->epochs);
}

enum tr_status tr_samples_open(const struct tr_samples_spec *spec, const char *what,
                               const char *stem, struct tr_comm *world, const struct tr_opener *by,
                               bool *warned, struct tr_samples *out)
{
    struct tr_samples plan;
    struct word word = {0};
    double begin, seconds;
    enum tr_status s, stored = TR_OK;
    bool have;

    TR_TRY(tr_comm_agree(world, tr_samples_plan(spec, what, out)));
    plan = *out;
    begin = tr_now();
    s = tr_samples_load_by(out, stem, by);
    have = s == TR_OK;
    if (!have)
        *out = plan;
    seconds = tr_now() - begin;
    if (world->rank == 0) {
        stored = take_first(out, &plan, stem, s, warned, &word);
        have = true;
    }
    stored = tr_comm_agree(world, stored);
    if (stored != TR_OK) {
        tr_samples_close(out);
        return stored;
    }
    word = of_rank_0(world, word);
    begin = tr_now();
    if (word.stored) {
        have |= take_files(out, &plan, stem, by, word.fingerprint);
        seconds = tr_now() - begin;
    }
    s = TR_OK;
    if (!have || tr_samples_fingerprint(out) != word.fingerprint)
        s = make_own(out, &plan, what, stem, word.fingerprint, !warned);
    s = tr_comm_agree(world, s);
    if (s == TR_OK)
        print_taken(out, stem, seconds);
    else
        tr_samples_close(out);
    return s;
}
