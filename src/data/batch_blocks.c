/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/batch_parts.h"

#include <stdlib.h>
#include <xxhash.h>

#include "util/log.h"
#include "util/text.h"

/* The blocks of a split begin anew with each pass, so weights would mean nothing. */
static enum tr_status check_single(const struct tr_data *x)
{
    for (int k = 0; k < TR_SPLITS; k++)
        if (x->of[k].parts > 1)
            return TR_FAIL(
                TR_ECONFIG,
                "--n-epochs takes every sample once in each pass, and %d datasets with "
                "weights would each end at another time: give one prefix, made of all of "
                "them (`trireme data merge`)",
                x->of[k].parts);
    return TR_OK;
}

/* --data-blocks, of training. */
static int64_t most_blocks(const struct tr_config *c, int split)
{
    return split == TR_SPLIT_TRAIN && c->data_blocks != TR_UNSET_INT ? c->data_blocks : -1;
}

static void print_blocks(const struct tr_blocks *b, int split)
{
    tr_print_rank0(
        " > %s: %lld samples of %lld tokens, each once in an epoch; of %lld tokens %lld at "
        "the end are left over\n",
        tr_split_names[split], (long long)b->count, (long long)b->seq, (long long)b->tokens,
        (long long)(b->count > 0 ? b->tokens - b->count * b->seq - 1 : b->tokens));
}

/* tr_shape_of() has them from rank 0, or from the options. */
static enum tr_status check_counted(const struct tr_data *x, const struct tr_epoch_plan *epochs)
{
    const struct tr_data_mixture *m = &x->of[TR_SPLIT_TRAIN];

    if (m->size == epochs->blocks)
        return TR_OK;
    return TR_FAIL(
        TR_EDATA,
        "%s has %lld samples for training here, and the run was started for %lld: copy it to "
        "this node again",
        m->part->prefix, (long long)m->size, (long long)epochs->blocks);
}

enum tr_status tr_data_open_blocks(const struct tr_config *c, const struct tr_epoch_plan *epochs,
                                   struct tr_data *x, struct tr_comm *world,
                                   const struct tr_opener *by)
{
    enum tr_status status = tr_data_read_paths(c, x);

    if (status == TR_OK)
        status = check_single(x);
    TR_TRY(tr_comm_agree(world, status));
    tr_print_rank0("> building train, validation, and test datasets for GPT ...\n");
    for (int i = 0; i < x->parts; i++) {
        struct tr_data_part *p = &x->part[i];

        TR_TRY(tr_comm_agree(world, tr_data_open_index(c, x, p, by)));
        for (int k = 0; k < TR_SPLITS; k++) {
            if (!tr_data_takes_from(x, k, p))
                continue;
            tr_blocks_open(&p->index, p->bound[k], p->bound[k + 1], c->seq_length,
                           most_blocks(c, k), &p->blocks[k]);
            print_blocks(&p->blocks[k], k);
            x->of[k].size = p->blocks[k].count;
        }
    }
    TR_TRY(tr_comm_agree(world, check_counted(x, epochs)));
    tr_print_rank0("> finished creating GPT datasets ...\n");
    return TR_OK;
}

static enum tr_status count_part(const struct tr_config *c, const struct tr_data *x,
                                 struct tr_data_part *p, struct tr_blocks_known *out)
{
    TR_TRY(tr_index_open(p->prefix, &p->index));
    TR_TRY(tr_data_bound_part(c, x, p));
    for (int k = 0; k < TR_SPLITS; k++)
        if (tr_data_takes_from(x, k, p))
            out->of[k] = tr_blocks_of(tr_blocks_tokens(&p->index, p->bound[k], p->bound[k + 1]),
                                      c->seq_length);
    return TR_OK;
}

static enum tr_status count_all(const struct tr_config *c, struct tr_data *x,
                                struct tr_blocks_known *out)
{
    const int64_t most = most_blocks(c, TR_SPLIT_TRAIN);

    TR_TRY(tr_data_read_paths(c, x));
    TR_TRY(check_single(x));
    for (int i = 0; i < x->parts; i++)
        TR_TRY(count_part(c, x, &x->part[i], out));
    if (most > out->of[TR_SPLIT_TRAIN])
        return TR_FAIL(
            TR_ECONFIG,
            "--data-blocks %lld are more samples of --seq-length %lld tokens than %s has for "
            "training, %lld: leave it out to use all",
            (long long)most, (long long)c->seq_length, x->of[TR_SPLIT_TRAIN].part->prefix,
            (long long)out->of[TR_SPLIT_TRAIN]);
    if (most >= 0)
        out->of[TR_SPLIT_TRAIN] = most;
    out->counted = true;
    return TR_OK;
}

enum tr_status tr_data_count(const struct tr_config *c, struct tr_blocks_known *out)
{
    struct tr_data *x = calloc(1, sizeof *x);
    enum tr_status s;

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the datasets");
    *out = (struct tr_blocks_known){0};
    s = count_all(c, x, out);
    if (s != TR_OK)
        *out = (struct tr_blocks_known){0};
    tr_data_close(x);
    return s;
}

/* ---- what the text is ---- */

static enum tr_status open_training(const struct tr_config *c, const struct tr_dims *dims,
                                    const struct tr_epoch_plan *epochs, struct tr_data *x)
{
    struct tr_data_mixture *m = &x->of[TR_SPLIT_TRAIN];
    struct tr_data_part *p;

    x->vocab = dims->vocab;
    if (c->mock_data) {
        x->mock = tr_mock_open((uint64_t)c->seed, dims->vocab, dims->eod, dims->seq);
        return TR_OK;
    }
    TR_TRY(tr_data_read_paths(c, x));
    TR_TRY(check_single(x));
    p = m->part;
    TR_TRY(tr_index_open(p->prefix, &p->index));
    TR_TRY(tr_data_bound_part(c, x, p));
    tr_blocks_open(&p->index, p->bound[0], p->bound[1], dims->seq, most_blocks(c, TR_SPLIT_TRAIN),
                   &p->blocks[TR_SPLIT_TRAIN]);
    m->size = p->blocks[TR_SPLIT_TRAIN].count;
    return check_counted(x, epochs);
}

/* The sum of one number for each sample, which depends on its index: so the work is divided among
   ranks. */
static enum tr_status sum_samples(const struct tr_data *x, int64_t seq, int64_t blocks,
                                  const struct tr_comm *world, uint64_t *sum)
{
    const struct tr_data_part *p = x->of[TR_SPLIT_TRAIN].part;
    const int64_t last = blocks * (world->rank + 1) / world->size;
    const size_t bytes = ((size_t)seq + 1) * sizeof(int32_t);
    enum tr_status status = TR_OK;
    int32_t *text = malloc(bytes);

    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for a sample of %lld tokens", (long long)seq);
    for (int64_t k = blocks * world->rank / world->size; k < last && status == TR_OK; k++) {
        if (x->mock)
            tr_mock_sample(x->mock, TR_SPLIT_TRAIN, k, text);
        else
            status = tr_blocks_get(&p->blocks[TR_SPLIT_TRAIN], &p->index, k, x->vocab, text);
        if (status == TR_OK)
            *sum += XXH3_64bits_withSeed(text, bytes, (XXH64_hash_t)k);
    }
    free(text);
    return status;
}

static uint64_t sum_ranks(struct tr_comm *world, uint64_t mine)
{
    uint64_t *all = calloc((size_t)world->size, sizeof *all), sum = 0;

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the sums of ranks");
    world->via->gather_all(world, &mine, sizeof mine, all);
    for (int i = 0; i < world->size; i++)
        sum += all[i];
    free(all);
    return sum;
}

enum tr_status tr_data_print(const struct tr_config *c, const struct tr_dims *dims,
                             const struct tr_epoch_plan *epochs, struct tr_comm *world,
                             uint64_t *out)
{
    struct tr_data *x;
    enum tr_status status;

    *out = 0;
    if (!c->mock_data && c->data_path.count == 0 && c->train_data_path.count == 0)
        return TR_OK;
    x = calloc(1, sizeof *x);
    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the datasets");
    status = open_training(c, dims, epochs, x);
    if (status == TR_OK)
        status = sum_samples(x, dims->seq, epochs->blocks, world, out);
    tr_data_close(x);
    TR_TRY(tr_comm_agree(world, status));
    *out = sum_ranks(world, *out);
    return TR_OK;
}

void tr_data_print_epochs(const struct tr_epoch_plan *e)
{
    tr_print_rank0(
        "> %lld epoch%s of %lld iteration%s: of %lld samples each takes %lld, in shares of %lld "
        "replica%s\n",
        (long long)e->count, tr_plural(e->count), (long long)e->iters, tr_plural(e->iters),
        (long long)e->blocks, (long long)e->samples, (long long)e->replicas,
        tr_plural(e->replicas));
}
