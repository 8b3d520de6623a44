/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "comm/comm.h"
#include "data/blend.h"
#include "data/index.h"
#include "data/samples.h"
#include "data/split.h"
#include "util/log.h"
#include "util/timer.h"

/* One data set of the mixture. */
struct part {
    char *prefix;
    double weight; /* of a sum of 1 */
    struct tr_index index;
    int64_t bound[TR_SPLITS + 1];
    struct tr_samples samples[TR_SPLITS];
};

struct tr_data {
    int parts;
    struct part *part;
    int64_t wanted[TR_SPLITS], size[TR_SPLITS], vocab;
    struct tr_blend blend[TR_SPLITS]; /* of more than one part */
    bool warned;                      /* that index maps cannot be saved */
};

static const char *const split_names[TR_SPLITS] = {"train", "valid", "test"};
static const char *const long_names[TR_SPLITS] = {"train", "validation", "test"};

static enum tr_status read_weight(const char *word, double *out)
{
    char *end;

    *out = strtod(word, &end);
    if (end == word || *end != '\0' || !isfinite(*out) || *out <= 0.0)
        return TR_FAIL(TR_ECONFIG,
                       "--data-path: %s stands where a weight above 0 should; give one prefix, or "
                       "weights and prefixes in turn: 0.3 web 0.7 books",
                       word);
    return TR_OK;
}

/* --data-path: PREFIX, or WEIGHT PREFIX WEIGHT PREFIX ... */
static enum tr_status read_paths(const struct tr_words *words, struct tr_data *x)
{
    double sum = 0.0;

    if (words->count == 0)
        return TR_FAIL(TR_ECONFIG,
                       "--data-path is missing: give the prefix of a data set, its .bin "
                       "and .idx without that ending; `trireme data build` makes one");
    if (words->count > 1 && words->count % 2 != 0)
        return TR_FAIL(
            TR_ECONFIG,
            "--data-path has %d words: give one prefix, or weights and prefixes in turn: "
            "0.3 web 0.7 books",
            words->count);
    x->parts = words->count == 1 ? 1 : words->count / 2;
    if (x->parts > TR_BLEND_PARTS)
        return TR_FAIL(TR_ECONFIG, "--data-path names %d data sets, and at most %d can be mixed",
                       x->parts, TR_BLEND_PARTS);
    x->part = calloc((size_t)x->parts, sizeof *x->part);
    if (!x->part)
        tr_die(TR_ERESOURCE, "no memory left for %d data sets", x->parts);
    for (int i = 0; i < x->parts; i++) {
        x->part[i].weight = 1.0;
        if (words->count > 1)
            TR_TRY(read_weight(words->word[2 * i], &x->part[i].weight));
        x->part[i].prefix = tr_format("%s", words->word[words->count == 1 ? 0 : 2 * i + 1]);
        sum += x->part[i].weight;
    }
    for (int i = 0; i < x->parts; i++)
        x->part[i].weight /= sum;
    return TR_OK;
}

static const char *base_of(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');

    return slash ? slash + 1 : prefix;
}

/* Data sets of one name from different folders must not take each other's maps for their own in a
   cache folder that they share. */
static bool name_is_shared(const struct tr_data *x, const struct part *p)
{
    for (int i = 0; i < x->parts; i++)
        if (strcmp(base_of(x->part[i].prefix), base_of(p->prefix)) == 0 &&
            strcmp(x->part[i].prefix, p->prefix) != 0)
            return true;
    return false;
}

/* Where the index maps of a split lie: Megatron's names, by the data or in the cache folder. */
static char *stem_of(const struct tr_config *c, const struct tr_data *x, const struct part *p,
                     enum tr_split split, int64_t wanted)
{
    char *where, *stem;

    if (!c->data_cache_path)
        where = tr_format("%s", p->prefix);
    else if (name_is_shared(x, p))
        where = tr_format("%s/%s-%08x", c->data_cache_path, base_of(p->prefix),
                          XXH32(p->prefix, strlen(p->prefix), 0));
    else
        where = tr_format("%s/%s", c->data_cache_path, base_of(p->prefix));
    stem = tr_format("%s_%s_indexmap_%lldns_%lldsl_%llds", where, split_names[split],
                     (long long)wanted, (long long)c->seq_length, (long long)c->seed);
    free(where);
    return stem;
}

static void print_targets(const struct tr_data *x)
{
    tr_print_rank0("> building train, validation, and test datasets ...\n"
                   " > datasets target sizes (minimum size):\n"
                   "    train:      %lld\n"
                   "    validation: %lld\n"
                   "    test:       %lld\n"
                   "> building train, validation, and test datasets for GPT ...\n",
                   (long long)x->wanted[TR_SPLIT_TRAIN], (long long)x->wanted[TR_SPLIT_VALID],
                   (long long)x->wanted[TR_SPLIT_TEST]);
}

static void print_index(const struct tr_index *index, double seconds)
{
    tr_print_rank0("    reading sizes...\n"
                   "    reading pointers...\n"
                   "    reading document index...\n"
                   "    creating numpy buffer of mmap...\n"
                   "    creating memory view of numpy buffer...\n"
                   " > finished creating indexed dataset in %4f seconds\n"
                   "    number of documents: %lld\n",
                   seconds, (long long)index->sequences);
}

static void print_split(const int64_t *bound)
{
    tr_print_rank0(" > dataset split:\n");
    for (int k = 0; k < TR_SPLITS; k++)
        tr_print_rank0("    %s:\n"
                       "     document indices in [%lld, %lld) total of %lld documents\n",
                       long_names[k], (long long)bound[k], (long long)bound[k + 1],
                       (long long)(bound[k + 1] - bound[k]));
}

static enum tr_status open_index(const struct tr_config *c, struct part *p)
{
    double begin = tr_now();

    tr_print_rank0(" > building dataset index ...\n");
    TR_TRY(tr_index_open(p->prefix, &p->index));
    print_index(&p->index, tr_now() - begin);
    TR_TRY(tr_split_bounds(c->split, p->index.sequences, c->split_rounding, p->bound));
    print_split(p->bound);
    return TR_OK;
}

static int64_t part_wanted(const struct tr_data *x, const struct part *p, enum tr_split split)
{
    return x->parts == 1 ? x->wanted[split] : tr_blend_part_samples(x->wanted[split], p->weight);
}

/* Alone, a data set may leave a split empty; in a mixture its share of it would be missing. */
static enum tr_status check_share(const struct tr_config *c, const struct tr_data *x,
                                  const struct part *p, int split)
{
    if (x->parts > 1 && x->wanted[split] > 0 && p->bound[split] == p->bound[split + 1])
        return TR_FAIL(
            TR_EDATA,
            "%s has %lld sequences, of which --split %s leaves none for %s, so it cannot "
            "give its share of that mixture; change --split or take it out",
            p->prefix, (long long)p->index.sequences, c->split, long_names[split]);
    return TR_OK;
}

static enum tr_status open_samples(const struct tr_config *c, struct tr_data *x, struct part *p,
                                   enum tr_split split, struct tr_comm *world)
{
    struct tr_samples_spec spec = {
        .sizes = p->index.sizes,
        .first = p->bound[split],
        .last = p->bound[split + 1],
        .seq = c->seq_length,
        .wanted = part_wanted(x, p, split),
        .seed = (uint32_t)c->seed,
    };
    char *stem;
    enum tr_status s;

    if (spec.wanted == 0 || spec.first == spec.last)
        return TR_OK;
    stem = stem_of(c, x, p, split, spec.wanted);
    s = tr_samples_open(&spec, p->prefix, stem, world, &x->warned, &p->samples[split]);
    free(stem);
    return s;
}

/* Ranks whose data differ in size would not even make the same collective calls. */
static enum tr_status same_everywhere(struct tr_comm *world, const struct part *p)
{
    int64_t mine = p->index.sequences, most = tr_comm_max(world, mine);

    if (mine < most)
        return TR_FAIL(TR_EDATA,
                       "%s has %lld sequences here and %lld on another rank; copy it to this node "
                       "again",
                       p->prefix, (long long)mine, (long long)most);
    return TR_OK;
}

static enum tr_status open_part(const struct tr_config *c, struct tr_data *x, struct part *p,
                                struct tr_comm *world)
{
    enum tr_status s = open_index(c, p);

    for (int k = 0; k < TR_SPLITS && s == TR_OK; k++)
        s = check_share(c, x, p, k);
    TR_TRY(tr_comm_agree(world, s));
    TR_TRY(tr_comm_agree(world, same_everywhere(world, p)));
    for (int k = 0; k < TR_SPLITS; k++)
        TR_TRY(open_samples(c, x, p, (enum tr_split)k, world));
    return TR_OK;
}

static void mix(struct tr_data *x, enum tr_split split)
{
    double begin = tr_now(), *weight = malloc((size_t)x->parts * sizeof *weight);
    int64_t *size = malloc((size_t)x->parts * sizeof *size);
    struct tr_blend *b = &x->blend[split];

    if (!weight || !size)
        tr_die(TR_ERESOURCE, "no memory left for %d data sets", x->parts);
    for (int i = 0; i < x->parts; i++) {
        weight[i] = x->part[i].weight;
        size[i] = x->part[i].samples[split].count;
    }
    tr_print_rank0("> building indices for blendable datasets ...\n > sample ratios:\n");
    tr_blend_build(b, weight, size, x->parts, x->wanted[split]);
    for (int i = 0; i < x->parts; i++)
        tr_print_rank0("   dataset %d, input: %g, achieved: %g\n", i, weight[i],
                       (double)b->taken[i] / (double)b->count);
    tr_print_rank0("> elapsed time for building blendable dataset indices: %.2f (sec)\n",
                   tr_now() - begin);
    free(weight);
    free(size);
}

static enum tr_status open_all(const struct tr_config *c, struct tr_data *x, struct tr_comm *world)
{
    enum tr_status s = read_paths(&c->data_path, x);

    /* A folder that cannot be made shows when the first map cannot be written to it. */
    if (s == TR_OK && c->data_cache_path && tr_make_dirs(c->data_cache_path) != TR_OK)
        tr_log(TR_LOG_DEBUG, "%s", tr_last_error());
    TR_TRY(tr_comm_agree(world, s));
    print_targets(x);
    for (int i = 0; i < x->parts; i++)
        TR_TRY(open_part(c, x, &x->part[i], world));
    for (int k = 0; k < TR_SPLITS; k++) {
        if (x->parts > 1 && x->wanted[k] > 0)
            mix(x, (enum tr_split)k);
        x->size[k] = x->parts > 1 ? x->blend[k].count : x->part[0].samples[k].count;
    }
    tr_print_rank0("> finished creating GPT datasets ...\n");
    return TR_OK;
}

enum tr_status tr_data_open(const struct tr_config *c, const struct tr_shape *s,
                            struct tr_comm *world, struct tr_data **out)
{
    struct tr_data *x = calloc(1, sizeof *x);
    enum tr_status status;

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the data sets");
    x->vocab = s->vocab;
    x->wanted[TR_SPLIT_TRAIN] = s->train_samples;
    x->wanted[TR_SPLIT_VALID] = s->valid_samples;
    x->wanted[TR_SPLIT_TEST] = s->test_samples;
    status = open_all(c, x, world);
    *out = status == TR_OK ? x : NULL;
    if (status != TR_OK)
        tr_data_close(x);
    return status;
}

void tr_data_close(struct tr_data *x)
{
    if (!x)
        return;
    for (int k = 0; k < TR_SPLITS; k++)
        tr_blend_release(&x->blend[k]);
    for (int i = 0; x->part && i < x->parts; i++) {
        for (int k = 0; k < TR_SPLITS; k++)
            tr_samples_close(&x->part[i].samples[k]);
        tr_index_close(&x->part[i].index);
        free(x->part[i].prefix);
    }
    free(x->part);
    free(x);
}

int64_t tr_data_size(const struct tr_data *x, enum tr_split split)
{
    return x->size[split];
}

enum tr_status tr_data_sample(const struct tr_data *x, enum tr_split split, int64_t position,
                              int32_t *text)
{
    const struct part *p = x->part;

    if (position < 0 || position >= x->size[split])
        return TR_FAIL(TR_EDATA,
                       "no samples left to consume: position %lld of the %s order was asked for, "
                       "and it has %lld samples; give the same --train-iters or --train-samples as "
                       "when the run began, or more data",
                       (long long)position, long_names[split], (long long)x->size[split]);
    if (x->parts > 1)
        p += tr_blend_get(&x->blend[split], position, &position);
    return tr_samples_get(&p->samples[split], &p->index, position, x->vocab, text);
}
