/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "comm/comm.h"
#include "data/batch_parts.h"
#include "data/npz_dataset.h"
#include "data/split.h"
#include "util/log.h"
#include "telemetry/timer.h"

static const char *const split_names[TR_SPLITS] = {"train", "valid", "test"};
const char *const tr_split_names[TR_SPLITS] = {"train", "validation", "test"};

static enum tr_status read_weight(const char *option, const char *word, double *out)
{
    char *end;

    *out = strtod(word, &end);
    if (end == word || *end != '\0' || !isfinite(*out) || *out <= 0.0)
        return TR_FAIL(TR_ECONFIG,
                       "--%s: %s is not a weight above 0; give one prefix, or "
                       "weights and prefixes in turn: 0.3 web 0.7 books",
                       option, word);
    return TR_OK;
}

/* PREFIX, or WEIGHT PREFIX WEIGHT PREFIX ..., into part[count]. */
static enum tr_status read_parts(const struct tr_config *c, const char *option,
                                 const struct tr_words *words, struct tr_data_part *part, int count)
{
    double sum = 0.0;

    for (int i = 0; i < count; i++) {
        part[i].weight = 1.0;
        if (words->count > 1)
            TR_TRY(read_weight(option, words->word[2 * i], &part[i].weight));
        part[i].prefix = tr_npz_prefix(c, words->word[words->count == 1 ? 0 : 2 * i + 1]);
        sum += part[i].weight;
    }
    for (int i = 0; i < count; i++)
        part[i].weight /= sum;
    return TR_OK;
}

/* How many datasets the words name. */
static enum tr_status count_parts(const char *option, const struct tr_words *words, int *count)
{
    *count = words->count == 1 ? 1 : words->count / 2;
    if (words->count > 1 && words->count % 2 != 0)
        return TR_FAIL(TR_ECONFIG,
                       "--%s has %d words: give one prefix, or weights and prefixes in turn: "
                       "0.3 web 0.7 books",
                       option, words->count);
    if (*count > TR_BLEND_PARTS)
        return TR_FAIL(TR_ECONFIG, "--%s names %d datasets, and at most %d can be blended", option,
                       *count, TR_BLEND_PARTS);
    return TR_OK;
}

/* --data-path, or --train-data-path and its like. */
enum tr_status tr_data_read_paths(const struct tr_config *c, struct tr_data *x)
{
    static const char *const names[] = {"train-data-path", "valid-data-path", "test-data-path",
                                        "data-path"};
    const struct tr_words *words[] = {&c->train_data_path, &c->valid_data_path, &c->test_data_path,
                                      &c->data_path};
    enum { LISTS = sizeof names / sizeof names[0] };
    int count[LISTS];
    struct tr_data_part *next;

    for (int i = 0; i < LISTS; i++) {
        TR_TRY(count_parts(names[i], words[i], &count[i]));
        x->parts += count[i];
    }
    if (x->parts == 0)
        return TR_FAIL(TR_ECONFIG, "--data-path is missing: give the prefix of a dataset, its .bin "
                                   "and .idx without that ending; `trireme data build` makes one");
    next = x->part = calloc((size_t)x->parts, sizeof *x->part);
    if (!x->part)
        tr_die(TR_ERESOURCE, "no memory left for %d datasets", x->parts);
    for (int i = 0; i < LISTS; i++) {
        TR_TRY(read_parts(c, names[i], words[i], next, count[i]));
        for (int k = 0; k < TR_SPLITS && count[i] > 0; k++) {
            if (i == k || i == TR_SPLITS) {
                x->of[k].part = next;
                x->of[k].parts = count[i];
            }
        }
        next += count[i];
    }
    return TR_OK;
}

/* Whether samples of this split are taken from that part. */
bool tr_data_takes_from(const struct tr_data *x, int split, const struct tr_data_part *p)
{
    const struct tr_data_mixture *m = &x->of[split];

    return p >= m->part && p < m->part + m->parts;
}

static const char *base_of(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');

    return slash ? slash + 1 : prefix;
}

/* Datasets of one name from different folders must not take each other's maps in a common cache
   folder. */
static bool name_is_shared(const struct tr_data *x, const struct tr_data_part *p)
{
    for (int i = 0; i < x->parts; i++)
        if (strcmp(base_of(x->part[i].prefix), base_of(p->prefix)) == 0 &&
            strcmp(x->part[i].prefix, p->prefix) != 0)
            return true;
    return false;
}

/* Where the index maps of a split lie: Megatron's names, by the data or in the cache folder. */
static char *stem_of(const struct tr_config *c, const struct tr_data *x,
                     const struct tr_data_part *p, enum tr_split split, int64_t wanted)
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
    tr_detail_rank0("> building train, validation, and test datasets ...\n"
                    " > datasets target sizes (minimum size):\n"
                    "    train:      %lld\n"
                    "    validation: %lld\n"
                    "    test:       %lld\n"
                    "> building train, validation, and test datasets for GPT ...\n",
                    (long long)x->of[TR_SPLIT_TRAIN].wanted,
                    (long long)x->of[TR_SPLIT_VALID].wanted,
                    (long long)x->of[TR_SPLIT_TEST].wanted);
}

static void print_index(const struct tr_index *index, double seconds)
{
    tr_detail_rank0("    reading sizes...\n"
                    "    reading pointers...\n"
                    "    reading document index...\n"
                    "    creating numpy buffer of mmap...\n"
                    "    creating memory view of numpy buffer...\n"
                    " > finished creating indexed dataset in %4f seconds\n"
                    "    number of documents: %lld\n",
                    seconds, (long long)index->sequences);
}

static void print_split(const struct tr_data *x, const struct tr_data_part *p)
{
    const int64_t *bound = p->bound;

    tr_detail_rank0(" > dataset split:\n");
    for (int k = 0; k < TR_SPLITS; k++)
        if (tr_data_takes_from(x, k, p))
            tr_detail_rank0("    %s:\n"
                            "     document indices in [%lld, %lld) total of %lld documents\n",
                            tr_split_names[k], (long long)bound[k], (long long)bound[k + 1],
                            (long long)(bound[k + 1] - bound[k]));
}

/* All of a dataset that is named for one split goes to that split. */
enum tr_status tr_data_bound_part(const struct tr_config *c, const struct tr_data *x,
                                  struct tr_data_part *p)
{
    const int64_t count =
        c->data_documents != TR_UNSET_INT && c->data_documents < p->index.sequences
            ? c->data_documents
            : p->index.sequences;

    if (c->split_at_random)
        p->row = tr_blocks_shuffled((uint64_t)c->seed, count);
    if (c->data_path.count > 0)
        return tr_split_bounds(c->split, count, c->split_rounding, p->bound);
    p->bound[0] = 0;
    for (int k = 0; k < TR_SPLITS; k++)
        p->bound[k + 1] = p->bound[k] + (tr_data_takes_from(x, k, p) ? count : 0);
    return TR_OK;
}

enum tr_status tr_data_open_index(const struct tr_config *c, const struct tr_data *x,
                                  struct tr_data_part *p, const struct tr_opener *by)
{
    double begin = tr_now();

    tr_detail_rank0(" > building dataset index ...\n");
    TR_TRY(tr_index_open_by(p->prefix, by, &p->index));
    print_index(&p->index, tr_now() - begin);
    TR_TRY(tr_data_bound_part(c, x, p));
    print_split(x, p);
    return TR_OK;
}

/* Alone, a dataset may leave a split empty; in a blend its part would be missing. */
static enum tr_status check_share(const struct tr_config *c, const struct tr_data *x,
                                  const struct tr_data_part *p, int split)
{
    const struct tr_data_mixture *m = &x->of[split];

    if (!tr_data_takes_from(x, split, p) || m->parts == 1 || m->wanted == 0 ||
        p->bound[split] < p->bound[split + 1])
        return TR_OK;
    return TR_FAIL(TR_EDATA,
                   "%s has %lld sequences%s%s leaves none for %s, so it cannot give its part of "
                   "the blended dataset; take it out%s",
                   p->prefix, (long long)p->index.sequences,
                   c->data_path.count ? ", of which --split " : ", which",
                   c->data_path.count ? c->split : "", tr_split_names[split],
                   c->data_path.count ? " or change --split" : "");
}

static enum tr_status open_samples(const struct tr_config *c, struct tr_data *x,
                                   struct tr_data_part *p, enum tr_split split,
                                   struct tr_comm *world, const struct tr_opener *by)
{
    const struct tr_data_mixture *m = &x->of[split];
    struct tr_samples_spec spec = {
        .sizes = p->index.sizes,
        .first = p->bound[split],
        .last = p->bound[split + 1],
        .seq = c->seq_length,
        .wanted = m->parts > 1 ? tr_blend_part_samples(m->wanted, p->weight) : m->wanted,
        .seed = (uint32_t)c->seed,
    };
    char *stem;
    enum tr_status s;

    if (!tr_data_takes_from(x, (int)split, p) || spec.wanted == 0 || spec.first == spec.last)
        return TR_OK;
    stem = stem_of(c, x, p, split, spec.wanted);
    /* A folder that was asked for must take them. */
    s = tr_samples_open(&spec, p->prefix, stem, world, by, c->data_cache_path ? NULL : &x->warned,
                        &p->samples[split]);
    free(stem);
    return s;
}

/* Ranks whose data differ in size would not even make the same collective calls. */
static enum tr_status same_everywhere(struct tr_comm *world, const struct tr_data_part *p)
{
    int64_t mine = p->index.sequences, most = tr_comm_max(world, mine);

    if (mine < most)
        return TR_FAIL(TR_EDATA,
                       "%s has %lld sequences here and %lld on another rank; copy it to this node "
                       "again",
                       p->prefix, (long long)mine, (long long)most);
    return TR_OK;
}

static enum tr_status open_part(const struct tr_config *c, struct tr_data *x,
                                struct tr_data_part *p, struct tr_comm *world,
                                const struct tr_opener *by)
{
    enum tr_status s = tr_data_open_index(c, x, p, by);

    for (int k = 0; k < TR_SPLITS && s == TR_OK; k++)
        s = check_share(c, x, p, k);
    TR_TRY(tr_comm_agree(world, s));
    TR_TRY(tr_comm_agree(world, same_everywhere(world, p)));
    for (int k = 0; k < TR_SPLITS; k++)
        TR_TRY(open_samples(c, x, p, (enum tr_split)k, world, by));
    return TR_OK;
}

/* With progress on the rank that shows it. */
static void mix(struct tr_data_mixture *m, enum tr_split split, bool show)
{
    struct tr_meter meter;
    double begin = tr_now(), *weight = malloc((size_t)m->parts * sizeof *weight);
    int64_t *size = malloc((size_t)m->parts * sizeof *size);
    struct tr_blend *b = &m->blend;

    if (!weight || !size)
        tr_die(TR_ERESOURCE, "no memory left for %d datasets", m->parts);
    for (int i = 0; i < m->parts; i++) {
        weight[i] = m->part[i].weight;
        size[i] = m->part[i].samples[split].count;
    }
    tr_detail_rank0("> building indices for blendable datasets ...\n > sample ratios:\n");
    tr_meter_start_count(&meter, "blending datasets:", "samples", m->wanted);
    tr_blend_build(b, weight, size, m->parts, m->wanted, show ? &meter : NULL);
    (void)tr_meter_end(&meter);
    for (int i = 0; i < m->parts; i++)
        tr_detail_rank0("   dataset %d, input: %g, achieved: %g\n", i, weight[i],
                        (double)b->taken[i] / (double)b->count);
    tr_detail_rank0("> elapsed time for building blendable dataset indices: %.2f (sec)\n",
                    tr_now() - begin);
    free(weight);
    free(size);
}

static enum tr_status open_sets(const struct tr_config *c, struct tr_data *x, struct tr_comm *world,
                                const struct tr_opener *by)
{
    enum tr_status s = tr_data_read_paths(c, x);

    /* A folder that cannot be made shows when the first map cannot be written to it. */
    if (s == TR_OK && c->data_cache_path && tr_make_dirs(c->data_cache_path) != TR_OK)
        tr_log(TR_LOG_DEBUG, "%s", tr_last_error());
    TR_TRY(tr_comm_agree(world, s));
    print_targets(x);
    for (int i = 0; i < x->parts; i++)
        TR_TRY(open_part(c, x, &x->part[i], world, by));
    for (int k = 0; k < TR_SPLITS; k++) {
        struct tr_data_mixture *m = &x->of[k];

        if (m->parts > 1 && m->wanted > 0)
            mix(m, (enum tr_split)k, world->rank == 0);
        if (m->parts > 0)
            m->size = m->parts > 1 ? m->blend.count : m->part[0].samples[k].count;
    }
    tr_detail_rank0("> finished creating GPT datasets ...\n");
    return TR_OK;
}

static void open_mock(const struct tr_config *c, const struct tr_dims *dims,
                      const struct tr_epoch_plan *epochs, struct tr_data *x)
{
    x->seq = c->seq_length;
    x->mock = tr_mock_open((uint64_t)c->seed, dims->vocab, dims->eod, c->seq_length,
                           c->mock_distribution);
    for (int k = 0; k < TR_SPLITS; k++)
        x->of[k].size = x->of[k].wanted;
    x->mock_again = c->mock_validation == TR_MOCK_VALID_TRAIN;
    if (x->by_epochs)
        x->of[TR_SPLIT_TRAIN].size = epochs->blocks;
    if (x->by_epochs && x->mock_again)
        x->of[TR_SPLIT_VALID].size = epochs->blocks;
    tr_notice_rank0(
        "> mock data: tokens are drawn from --seed and read from nowhere, so losses and "
        "weights of this run mean nothing\n");
}

/* The sizes are the same on all ranks, so all fail or none. */
static enum tr_status open_cyclic(int64_t micro_batch, int replicas, struct tr_data *x)
{
    for (int k = 0; k < TR_SPLITS; k++) {
        char what[64];

        if (x->of[k].size == 0)
            continue;
        snprintf(what, sizeof what, "the data for %s", tr_split_names[k]);
        TR_TRY(tr_cyclic_open(&x->of[k].cyclic, what, x->of[k].size, micro_batch, replicas));
    }
    return TR_OK;
}

static enum tr_status open_all(const struct tr_config *c, const struct tr_shape *s,
                               struct tr_data *x, struct tr_comm *world, const struct tr_opener *by)
{
    TR_TRY(tr_npz_make_all(c, world));
    if (c->mock_data)
        open_mock(c, &s->dims, &s->epochs, x);
    else if (tr_classify_of(c))
        TR_TRY(tr_data_open_classes(c, &s->dims, &s->epochs, x, world));
    else if (c->task_name)
        TR_TRY(tr_data_open_tasks(c, s, x, world));
    else if (x->by_epochs || x->by_documents)
        TR_TRY(tr_data_open_blocks(c, &s->epochs, x, world, by));
    else
        TR_TRY(open_sets(c, x, world, by));
    if (x->by_epochs) {
        tr_data_print_epochs(&s->epochs);
        tr_epochs_open(&x->epochs, &s->epochs, s->batches.micro_batch);
    }
    if (c->dataloader_type == TR_LOADER_CYCLIC)
        TR_TRY(open_cyclic(s->batches.micro_batch, s->layout.d, x));
    return TR_OK;
}

enum tr_status tr_data_open(const struct tr_config *c, const struct tr_shape *s,
                            struct tr_comm *world, const struct tr_opener *by, struct tr_data **out)
{
    struct tr_data *x = calloc(1, sizeof *x);
    enum tr_status status;

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the datasets");
    x->vocab = s->dims.vocab;
    x->labels = s->dims.classes;
    x->by_epochs = s->epochs.count > 0;
    x->by_documents = c->document_samples && !x->by_epochs;
    if (c->merge_file && !c->task_name)
        tr_log_rank0(TR_LOG_WARNING,
                     "--merge-file has no effect: datasets have been tokenized already; "
                     "only --task-name and `trireme data build` need the merges");
    x->of[TR_SPLIT_TRAIN].wanted = s->amounts.train_samples;
    x->of[TR_SPLIT_VALID].wanted = s->amounts.valid_samples;
    x->of[TR_SPLIT_TEST].wanted = s->amounts.test_samples;
    status = open_all(c, s, x, world, by);
    *out = status == TR_OK ? x : NULL;
    if (status != TR_OK)
        tr_data_close(x);
    return status;
}

void tr_data_close(struct tr_data *x)
{
    if (!x)
        return;
    for (int k = 0; k < TR_SPLITS; k++) {
        tr_blend_release(&x->of[k].blend);
        tr_cyclic_close(&x->of[k].cyclic);
    }
    for (int i = 0; x->part && i < x->parts; i++) {
        for (int k = 0; k < TR_SPLITS; k++)
            tr_samples_close(&x->part[i].samples[k]);
        tr_index_close(&x->part[i].index);
        free(x->part[i].row);
        free(x->part[i].prefix);
    }
    free(x->part);
    for (int k = 0; k < TR_SPLITS; k++)
        tr_data_close_tasks(x, k);
    for (int k = 0; k < TR_SPLITS; k++)
        tr_classes_close(x->classes[k]);
    tr_tokenizer_close(x->tokenizer);
    tr_mock_close(x->mock);
    tr_epochs_close(&x->epochs);
    free(x);
}

int64_t tr_data_size(const struct tr_data *x, enum tr_split split)
{
    return x->of[split].size;
}

static int64_t block_at(struct tr_data *x, enum tr_split split, int64_t position)
{
    if (split == TR_SPLIT_TRAIN)
        return tr_epochs_at(&x->epochs, position);
    return position < x->of[split].size ? position : 0;
}

int64_t tr_data_sample_id(struct tr_data *x, enum tr_split split, int64_t position)
{
    return x->by_epochs && split == TR_SPLIT_TRAIN ? tr_epochs_at(&x->epochs, position) : -1;
}

void tr_data_mock(struct tr_data *x, int split, int64_t position, int32_t *text)
{
    tr_mock_sample(x->mock, split, position, text);
    if (x->labels > 0)
        text[x->seq] = (int32_t)(text[x->seq] % x->labels);
}

enum tr_status tr_data_sample(struct tr_data *x, enum tr_split split, int64_t position,
                              int32_t *text)
{
    struct tr_data_mixture *m = &x->of[split];
    const struct tr_data_part *p = m->part;

    if (position >= 0 && m->size > 0 && x->by_epochs)
        position = block_at(x, split, position);
    if (position >= 0 && m->cyclic.active > 0)
        position = tr_cyclic_at(&m->cyclic, position);
    if (position < 0 || position >= m->size)
        return TR_FAIL(TR_EDATA,
                       "no samples left to consume: position %lld of the %s order was asked for, "
                       "and it has %lld samples; give the same --train-iters or --train-samples as "
                       "when the run began, or more data",
                       (long long)position, tr_split_names[split], (long long)m->size);
    if (x->mock) {
        tr_data_mock(x, x->mock_again && split == TR_SPLIT_VALID ? TR_SPLIT_TRAIN : (int)split,
                     position, text);
        return TR_OK;
    }
    if (x->classes[split]) {
        tr_classes_get(x->classes[split], position, text);
        return TR_OK;
    }
    if (x->tasks[split])
        return tr_tasks_sample(x->tasks[split],
                               split == TR_SPLIT_TRAIN ? position : position % x->evaluated, text);
    if (x->by_documents)
        position %= p->blocks[split].count;
    if (x->by_epochs || x->by_documents)
        return tr_blocks_get(&p->blocks[split], &p->index, position, x->vocab, text);
    if (m->parts > 1)
        p += tr_blend_get(&m->blend, position, &position);
    return tr_samples_get(&p->samples[split], &p->index, position, x->vocab, text);
}
