/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/batch_parts.h"

#include <stdlib.h>

#include "util/log.h"

/* The file of a split, owned by the caller: for validation also --evaluation-data.  NULL where there is none, which is
   an error for training. */
static enum tr_status find(const struct tr_config *c, int split, char **path)
{
    const struct tr_classify *task = tr_classify_of(c);

    if (split == TR_SPLIT_VALID && c->evaluation_data)
        *path = tr_format("%s", c->evaluation_data);
    else
        *path = tr_classes_find(task, c->task_dir, split);
    if (!*path && split == TR_SPLIT_TRAIN)
        return TR_FAIL(TR_EIO,
                       "--task-name %s: there is no train.tsv and no train.jsonl in %s, in "
                       "%s/%s or in %s/glue_%s: give their folder as --task-dir",
                       task->name, c->task_dir, c->task_dir, task->folder, c->task_dir, task->name);
    return TR_OK;
}

enum tr_status tr_data_count_classes(const struct tr_config *c, struct tr_blocks_known *out)
{
    for (int k = 0; k < TR_SPLITS; k++) {
        enum tr_status s;
        char *path;

        TR_TRY(find(c, k, &path));
        s = path ? tr_classes_count(path, tr_classify_of(c), &out->of[k]) : TR_OK;
        free(path);
        TR_TRY(s);
    }
    return TR_OK;
}

enum tr_status tr_data_read_classes(const struct tr_config *c, const struct tr_dims *dims,
                                    const struct tr_epoch_plan *epochs, int split,
                                    struct tr_data *x)
{
    const struct tr_classes_how how = {
        .task = tr_classify_of(c),
        .first = c->text_field,
        .second = c->pair_field,
        .label = c->label_field,
        .seq = dims->seq,
        .classes = dims->classes,
        .tokenizer = x->tokenizer,
        .options = "--text-field, --pair-field or --label-field",
    };
    enum tr_status s;
    char *path;

    TR_TRY(find(c, split, &path));
    s = path ? tr_classes_open(path, &how, &x->classes[split]) : TR_OK;
    if (s == TR_OK && path)
        x->of[split].size = tr_classes_rows(x->classes[split]);
    if (s == TR_OK && split == TR_SPLIT_TRAIN && x->of[split].size < epochs->blocks)
        s = TR_FAIL(TR_EDATA,
                    "%s has %lld rows here, and the run was started for %lld: copy it to this "
                    "node again",
                    path, (long long)x->of[split].size, (long long)epochs->blocks);
    if (s == TR_OK && split == TR_SPLIT_TRAIN)
        x->of[split].size = epochs->blocks;
    free(path);
    return s;
}

enum tr_status tr_data_open_classes(const struct tr_config *c, const struct tr_dims *dims,
                                    const struct tr_epoch_plan *epochs, struct tr_data *x,
                                    struct tr_comm *world)
{
    enum tr_status s = tr_data_open_tokenizer(c, dims->vocab, &x->tokenizer);

    for (int k = 0; k < TR_SPLITS && s == TR_OK; k++)
        s = tr_data_read_classes(c, dims, epochs, k, x);
    TR_TRY(tr_comm_agree(world, s));
    for (int k = 0; k < TR_SPLITS; k++)
        if (x->of[k].size > 0)
            tr_print_rank0(" > %s: %lld rows of %s, of at most %lld tokens and one of %lld "
                           "classes\n",
                           tr_split_names[k], (long long)x->of[k].size, tr_classify_of(c)->name,
                           (long long)dims->seq, (long long)dims->classes);
    return TR_OK;
}
