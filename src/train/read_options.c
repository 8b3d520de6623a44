/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/read_options.h"

#include <stdio.h>
#include <stdlib.h>

#include "ckpt/ckpt.h"
#include "train/start.h"
#include "util/log.h"

/* What describes the model from the JSON of a checkpoint, and over it the command line once more,
   so that what is given there counts.  Its warnings have been heard. */
static enum tr_status set_again(struct tr_config *c, const char *json, int64_t vocab,
                                const struct tr_args *words)
{
    char number[32];

    tr_config_release(c);
    tr_config_init(c);
    TR_TRY(tr_config_load_model(c, json));
    snprintf(number, sizeof number, "%lld", (long long)vocab);
    TR_TRY(tr_config_set(c, "vocab-size", number));
    tr_log_level(TR_LOG_ERROR);
    return tr_config_parse_args(c, words);
}

/* --use-checkpoint-args.  Without --load it is for tr_shape_of() to complain. */
static enum tr_status take_options(struct tr_config *c, const struct tr_args *words,
                                   struct tr_comm *world)
{
    int64_t step = c->ckpt_step == TR_UNSET_INT ? -1 : c->ckpt_step, vocab;
    enum tr_status s;
    char *json;

    if (!c->use_checkpoint_args || !c->load)
        return TR_OK;
    TR_TRY(tr_ckpt_options(world, c->load, step, &json, &vocab));
    if (!json) {
        tr_log_rank0(
            TR_LOG_WARNING,
            "--use-checkpoint-args finds no options in %s, where there is no checkpoint or one "
            "without a `config`: those of the command line must do",
            c->load);
        return TR_OK;
    }
    s = set_again(c, json, vocab, words);
    free(json);
    return tr_comm_agree(world, s);
}

/* Before --save is made, since only its folder may be missing. */
static enum tr_status locate(const struct tr_config *c, struct tr_comm *world,
                             struct tr_ckpt_where *out)
{
    const int64_t step = c->ckpt_step == TR_UNSET_INT ? -1 : c->ckpt_step;

    out->dir[0] = '\0';
    if (!c->load || (c->dry_run && !c->use_checkpoint_args))
        return TR_OK;
    return tr_ckpt_locate(world, c->load, c->save, step, out);
}

/* --load and --ckpt-step as they were found. */
static enum tr_status follow(struct tr_config *c, const struct tr_ckpt_where *where)
{
    char step[32];

    if (!where->dir[0])
        return TR_OK;
    TR_TRY(tr_config_set(c, "load", where->dir));
    if (where->step < 0)
        return TR_OK;
    snprintf(step, sizeof step, "%lld", (long long)where->step);
    return tr_config_set(c, "ckpt-step", step);
}

/* All that follows from where --load leads. */
static enum tr_status look_at_load(struct tr_config *c, const struct tr_args *words,
                                   struct tr_comm *world)
{
    struct tr_ckpt_where where;

    TR_TRY(locate(c, world, &where));
    TR_TRY(follow(c, &where));
    TR_TRY(take_options(c, words, world));
    return follow(c, &where);
}

/* What is in the vocabulary and the data. */
static enum tr_status look_at_data(struct tr_config *c, struct tr_comm *world)
{
    tr_start_vocab(world, c);
    return tr_start_blocks(world, c);
}

enum tr_status tr_read_options(struct tr_config *c, const struct tr_args *words,
                               struct tr_comm *world)
{
    TR_TRY(tr_comm_agree(world, tr_config_parse_args(c, words)));
    TR_TRY(look_at_load(c, words, world));
    return look_at_data(c, world);
}

enum tr_status tr_read_model(struct tr_config *c, const struct tr_args *words,
                             struct tr_comm *world)
{
    TR_TRY(tr_comm_agree(world, tr_config_parse_args(c, words)));
    if (!c->load)
        return TR_FAIL(TR_ECONFIG,
                       "there are no weights to read: give --load FOLDER, a checkpoint of "
                       "`trireme train --save`");
    c->use_checkpoint_args = true;
    c->exit_on_missing_checkpoint = true;
    TR_TRY(look_at_load(c, words, world));
    return look_at_data(c, world);
}
