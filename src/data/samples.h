/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_SAMPLES_H
#define TR_DATA_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "data/indexed.h"
#include "data/npy.h"
#include "util/file.h"
#include "util/meter.h"
#include "util/status.h"

/*
 * The order in which the samples of one split of one dataset are seen, exactly Megatron's.
 *
 * With T tokens in the split, sequences of s tokens and n samples wanted, the split is passed
 * E = ceil((n s + 1) / T) times.  That gives N = floor((E T - 1) / s) samples of s + 1 tokens; each
 * begins with the last token of the one before.  Three maps say which:
 *
 *     document  the sequences of the split, E times, shuffled
 *     row       where each sample begins: entry of `document`, token in it; N + 1 rows
 *     shuffle   the order in which the N samples are taken
 *
 * When n needs less than 80 % of the last pass, that pass is shuffled separately and its samples
 * come last ("separate last epoch"), so that no document is seen E times before others are
 * seen E - 1 times.
 */

/* What an order follows from: nothing else. */
struct tr_samples_spec {
    const unsigned char *sizes; /* tokens of each sequence, i32, of any alignment; borrowed */
    int64_t first, last;        /* sequences first .. last - 1 are the split */
    int64_t seq;                /* s */
    int64_t wanted;             /* n, at least 1 */
    uint32_t seed;
};

enum tr_samples_map { TR_MAP_DOCUMENT, TR_MAP_ROW, TR_MAP_SHUFFLE, TR_MAPS };

struct tr_samples {
    struct tr_samples_spec spec;
    int64_t tokens;          /* T */
    int64_t epochs;          /* E */
    int64_t entries;         /* of document: E * (last - first) */
    int64_t count;           /* N */
    int64_t early;           /* samples before the separate last epoch; N without one */
    const int32_t *document; /* [entries] */
    const int32_t *row;      /* [count + 1][2] */
    const uint32_t *shuffle; /* [count]; NULL if there are 2^32 - 2 samples or more, and then */
    const int64_t *shuffle_wide;
    struct tr_npy array[TR_MAPS];
    struct {
        struct tr_map map;    /* when read from a file, */
        unsigned char *image; /* and when built: the bytes of that file */
    } part[TR_MAPS];
};

/*
 * The numbers of an order, without its maps.  TR_EDATA, in a sentence that begins with `what` (the
 * name of the dataset), if the split has no tokens or is passed so often that the entries of
 * `document` exceed 32 bits.
 */
enum tr_status tr_samples_plan(const struct tr_samples_spec *spec, const char *what,
                               struct tr_samples *out) TR_MUST_CHECK;

/* What building or verifying all maps counts on a meter. */
int64_t tr_samples_work(const struct tr_samples *x);

/* Build the maps of a planned order in memory; one at a time, in the order of the enum, because
   they use one generator that the caller seeds.  `meter` may be NULL. */
struct tr_numpy_rng;
void tr_samples_build(struct tr_samples *x, enum tr_samples_map which, struct tr_numpy_rng *rng,
                      struct tr_meter *meter);

/* Plan and build all three. */
enum tr_status tr_samples_make(const struct tr_samples_spec *spec, const char *what,
                               struct tr_samples *out) TR_MUST_CHECK;
void tr_samples_close(struct tr_samples *x);

/*
 * Maps on disk are numpy files under Megatron's names, STEM_doc_idx.npy, STEM_sample_idx.npy and
 * STEM_shuffle_idx.npy.  load() maps those of a planned order and checks types, shapes and sizes:
 * TR_EIO if one is missing, TR_EDATA if one cannot be of this order; load_by() has them opened by `by`,
 * which may be NULL.  store() puts one map in
 * place atomically, so that several ranks may do so at once.
 */
enum tr_status tr_samples_load(struct tr_samples *x, const char *stem) TR_MUST_CHECK;
enum tr_status tr_samples_load_by(struct tr_samples *x, const char *stem,
                                  const struct tr_opener *by) TR_MUST_CHECK;
enum tr_status tr_samples_store(const struct tr_samples *x, const char *stem,
                                enum tr_samples_map which) TR_MUST_CHECK;

/* PATH of one map, owned by the caller. */
char *tr_samples_path(const char *stem, enum tr_samples_map which);

/*
 * Whether loaded maps are of this order as far as can be checked without rebuilding them: the
 * sequences are those of the split, each as often as there are epochs; the rows follow from them;
 * the order is a permutation.  Reads all of the maps.  TR_EDATA names the file and what is wrong.
 * `meter` may be NULL.
 */
enum tr_status tr_samples_verify(const struct tr_samples *x, struct tr_meter *meter) TR_MUST_CHECK;

/*
 * Plan, then take the maps from the cache under `stem`, or build them, put them there and map them;
 * files are opened by `by`, once where all is well.  Collective over `world`; all ranks give the
 * same.  Rank 0 verifies what it finds and builds again what is stale or damaged, after which all
 * open what it left; those that do not see it (disks of their own) or see something else do the
 * same for themselves, which is safe because all write equal bytes under names of their own first.
 * Where nothing can be written the maps stay in memory, with one warning from rank 0 that sets
 * *warned; none is given if it was set.  With `warned` NULL they must be written: TR_EIO on all
 * ranks.  Rank 0 prints Megatron's lines, and shows progress on stderr where it verifies or
 * builds.  TR_EDATA on all ranks if a rank's copy of the dataset makes another order.
 */
struct tr_comm;
enum tr_status tr_samples_open(const struct tr_samples_spec *spec, const char *what,
                               const char *stem, struct tr_comm *world, const struct tr_opener *by,
                               bool *warned, struct tr_samples *out) TR_MUST_CHECK;

/* A hash of an order, of T and of a few hundred places of the maps. */
uint64_t tr_samples_fingerprint(const struct tr_samples *x);

/*
 * Sample k of the order, 0 <= k < x->count, into text[seq + 1].  TR_EDATA if a token is not below
 * `limit` or the maps do not fit the dataset.
 */
enum tr_status tr_samples_get(const struct tr_samples *x, const struct tr_index *index, int64_t k,
                              int64_t limit, int32_t *text) TR_MUST_CHECK;

#endif
