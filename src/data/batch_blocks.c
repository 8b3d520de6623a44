/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/batch_parts.h"
#include "data/npz_dataset.h"

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
                "--n-epochs and --document-samples take every sample once in each pass, and %d "
                "datasets with "
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

/* The samples of a split of an open dataset. */
static enum tr_status open_blocks(const struct tr_config *c, struct tr_data_part *p, int split,
                                  int64_t seq)
{
    const int64_t first = p->bound[split], last = p->bound[split + 1];
    const struct tr_blocks_how how = {seq, most_blocks(c, split), c->loss_within_samples, p->row};

    if (c->document_samples)
        return tr_blocks_open_documents(&p->index, first, last, &how, &p->blocks[split]);
    tr_blocks_open(&p->index, first, last, seq, most_blocks(c, split), &p->blocks[split]);
    return TR_OK;
}

/* As many as there are, whatever --data-blocks says. */
static enum tr_status count_blocks(const struct tr_config *c, struct tr_data_part *p, int split,
                                   int64_t *out)
{
    const int64_t first = p->bound[split], last = p->bound[split + 1];
    const struct tr_blocks_how how = {c->seq_length, -1, c->loss_within_samples, p->row};

    *out = tr_blocks_of(tr_blocks_tokens(&p->index, first, last), c->seq_length);
    if (!c->document_samples)
        return TR_OK;
    TR_TRY(tr_blocks_open_documents(&p->index, first, last, &how, &p->blocks[split]));
    *out = p->blocks[split].count;
    return TR_OK;
}

static void print_blocks(const struct tr_blocks *b, int split)
{
    tr_print_rank0(
        " > %s: %lld samples of %lld tokens, each once in an epoch; of %lld tokens %lld at "
        "the end are left over\n",
        tr_split_names[split], (long long)b->count, (long long)b->seq, (long long)b->tokens,
        (long long)(b->count > 0 ? b->tokens - (b->count - 1) * b->stride - b->reads : b->tokens));
}

/* tr_shape_of() has them from rank 0, or from the options. */
static enum tr_status check_counted(const struct tr_data *x, const struct tr_epoch_plan *epochs)
{
    const struct tr_data_mixture *m = &x->of[TR_SPLIT_TRAIN];

    if (x->by_documents || m->size == epochs->blocks)
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
    tr_detail_rank0("> building train, validation, and test datasets for GPT ...\n");
    for (int i = 0; i < x->parts; i++) {
        struct tr_data_part *p = &x->part[i];

        TR_TRY(tr_comm_agree(world, tr_data_open_index(c, x, p, by)));
        for (int k = 0; k < TR_SPLITS; k++) {
            if (!tr_data_takes_from(x, k, p))
                continue;
            TR_TRY(tr_comm_agree(world, open_blocks(c, p, k, c->seq_length)));
            print_blocks(&p->blocks[k], k);
            x->of[k].size = p->blocks[k].count;
            if (x->by_documents && x->of[k].size > 0)
                x->of[k].size = x->of[k].wanted;
        }
    }
    TR_TRY(tr_comm_agree(world, check_counted(x, epochs)));
    tr_detail_rank0("> finished creating GPT datasets ...\n");
    return TR_OK;
}

static enum tr_status count_part(const struct tr_config *c, const struct tr_data *x,
                                 struct tr_data_part *p, struct tr_blocks_known *out)
{
    TR_TRY(tr_index_open(p->prefix, &p->index));
    TR_TRY(tr_data_bound_part(c, x, p));
    for (int k = 0; k < TR_SPLITS; k++)
        if (tr_data_takes_from(x, k, p))
            TR_TRY(count_blocks(c, p, k, &out->of[k]));
    return TR_OK;
}

static enum tr_status limit_blocks(const struct tr_config *c, const char *where,
                                   struct tr_blocks_known *out)
{
    const int64_t most = most_blocks(c, TR_SPLIT_TRAIN);

    if (most > out->of[TR_SPLIT_TRAIN])
        return TR_FAIL(
            TR_ECONFIG,
            "--data-blocks %lld are more samples of --seq-length %lld tokens than %s has for "
            "training, %lld: leave it out to use all",
            (long long)most, (long long)c->seq_length, where, (long long)out->of[TR_SPLIT_TRAIN]);
    if (most >= 0)
        out->of[TR_SPLIT_TRAIN] = most;
    out->counted = true;
    return TR_OK;
}

static enum tr_status count_all(const struct tr_config *c, struct tr_data *x,
                                struct tr_blocks_known *out)
{
    TR_TRY(tr_npz_make_mine(c));
    TR_TRY(tr_data_read_paths(c, x));
    TR_TRY(check_single(x));
    for (int i = 0; i < x->parts; i++)
        TR_TRY(count_part(c, x, &x->part[i], out));
    return limit_blocks(c, x->of[TR_SPLIT_TRAIN].part->prefix, out);
}

enum tr_status tr_data_count(const struct tr_config *c, struct tr_blocks_known *out)
{
    struct tr_data *x = calloc(1, sizeof *x);
    enum tr_status s;

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the datasets");
    *out = (struct tr_blocks_known){0};
    if (tr_classify_of(c)) {
        s = tr_data_count_classes(c, out);
        if (s == TR_OK)
            s = limit_blocks(c, c->task_dir, out);
    } else {
        s = count_all(c, x, out);
    }
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
    x->labels = dims->classes;
    x->seq = dims->seq;
    if (tr_classify_of(c) && !c->mock_data) {
        TR_TRY(tr_data_open_tokenizer(c, dims->vocab, &x->tokenizer));
        return tr_data_read_classes(c, dims, epochs, TR_SPLIT_TRAIN, x);
    }
    if (c->mock_data) {
        x->mock = tr_mock_open((uint64_t)c->seed, dims->vocab, dims->eod, dims->seq,
                               c->mock_distribution);
        return TR_OK;
    }
    TR_TRY(tr_data_read_paths(c, x));
    TR_TRY(check_single(x));
    p = m->part;
    TR_TRY(tr_index_open(p->prefix, &p->index));
    TR_TRY(tr_data_bound_part(c, x, p));
    TR_TRY(open_blocks(c, p, TR_SPLIT_TRAIN, dims->seq));
    m->size = p->blocks[TR_SPLIT_TRAIN].count;
    return check_counted(x, epochs);
}

/* The sum of one number for each sample, which depends on its index: so the work is divided among
   ranks. */
static enum tr_status sum_samples(struct tr_data *x, int64_t seq, int64_t blocks,
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
            tr_data_mock(x, TR_SPLIT_TRAIN, k, text);
        else if (x->classes[TR_SPLIT_TRAIN])
            tr_classes_get(x->classes[TR_SPLIT_TRAIN], k, text);
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
    if (!c->mock_data && c->data_path.count == 0 && c->train_data_path.count == 0 &&
        !tr_classify_of(c))
        return TR_OK;
    x = calloc(1, sizeof *x);
    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the datasets");
    status = tr_npz_make_all(c, world);
    if (status == TR_OK)
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
