/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/read_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "config/classify.h"
#include "token/folder.h"
#include "train/start.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "weights/load.h"

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

/* Where --load leads: to checkpoints, or to weights of others. */
struct lead {
    struct tr_ckpt_where where; /* of checkpoints; dir "": none are looked for */
    bool weights;
    bool options; /* those of the model come from there, or from --load-config */
    bool drawn;   /* a model of --load-config whose weights are random, or those of a checkpoint */
};

static int64_t step_of(const struct tr_config *c)
{
    return c->ckpt_step == TR_UNSET_INT ? -1 : c->ckpt_step;
}

static enum tr_status read_json(const struct tr_config *c, const struct lead *l,
                                struct tr_comm *world, char **json, int64_t *vocab)
{
    if (l->drawn)
        return tr_weights_model_options(world, c->load_config, json, vocab);
    if (!l->weights)
        return tr_ckpt_options(world, c->load, step_of(c), json, vocab);
    return tr_weights_options(world, c->load, c->load_config,
                              c->vocab_size == TR_UNSET_INT ? 0 : c->vocab_size,
                              tr_classify_labels(c), json, vocab);
}

/* --use-checkpoint-args.  Without --load it is for tr_shape_of() to complain. */
static enum tr_status take_options(struct tr_config *c, const struct lead *l,
                                   const struct tr_args *words, struct tr_comm *world)
{
    int64_t vocab;
    enum tr_status s;
    char *json;

    if (!l->options || !(c->load || l->drawn))
        return TR_OK;
    TR_TRY(read_json(c, l, world, &json, &vocab));
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

/* On rank 0: that the newest checkpoint of --save is of a run that began with the weights in --load. */
static enum tr_status began_here(const struct tr_config *c)
{
    char *source, *load = tr_printable(tr_format("%s", c->load));
    enum tr_status s = tr_ckpt_source(c->save, &source);
    size_t n = strlen(load);

    while (n > 1 && load[n - 1] == '/')
        n--;
    if (s == TR_OK && !(source && strncmp(source, load, n) == 0 && strchr(" /", source[n])))
        s = TR_FAIL(TR_ECONFIG,
                    "--save %s has checkpoints of a run that did not begin with the weights in "
                    "--load %s: give "
                    "another --save, or --load %s to go on with that run",
                    c->save, c->load, c->save);
    free(source);
    free(load);
    return s;
}

/*
 * Weights of others are the beginning of a run: --finetune is implied, since there is nothing else in them.  A start
 * that finds checkpoints of this run in --save, as the later ones of a chain do, goes on from there unless
 * --finetune is given.
 */
static enum tr_status begin_or_go_on(struct tr_config *c, struct tr_comm *world, struct lead *l)
{
    l->options = true;
    if (c->ckpt_step != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--load %s has weights of others, which are of no iteration, so --ckpt-step "
                       "has no effect: remove it",
                       c->load);
    l->weights = c->finetune || !c->save ||
                 tr_comm_max(world, world->rank == 0 && tr_ckpt_any(c->save)) == 0;
    if (l->weights)
        return TR_OK;
    TR_TRY(tr_comm_agree(world, world->rank == 0 ? began_here(c) : TR_OK));
    tr_print_rank0("> --save %s has checkpoints of the run that began with --load %s: it goes on\n",
                   c->save, c->load);
    return tr_ckpt_locate(world, c->save, c->save, -1, &l->where);
}

/* Before --save is made, since only its folder may be missing. */
static enum tr_status locate(struct tr_config *c, struct tr_comm *world, struct lead *l)
{
    *l = (struct lead){.options = c->use_checkpoint_args};
    if (c->load && tr_weights_lead(world, c->load))
        return begin_or_go_on(c, world, l);
    if (c->load_config && c->use_checkpoint_args)
        return TR_FAIL(TR_ECONFIG,
                       "--use-checkpoint-args takes the model from --load %s, and --load-config "
                       "names another place: give one of them",
                       c->load ? c->load : "FOLDER");
    l->drawn = c->load_config != NULL;
    l->options = l->options || l->drawn;
    if (!c->load)
        return TR_OK;
    if (c->dry_run && !c->use_checkpoint_args)
        return TR_OK;
    return tr_ckpt_locate(world, c->load, c->save, step_of(c), &l->where);
}

/* --load and --ckpt-step as they were found, and --finetune as it is implied. */
static enum tr_status follow(struct tr_config *c, const struct lead *l)
{
    char step[32];

    if (l->weights)
        return tr_config_set(c, "finetune", "on");
    if (!l->where.dir[0])
        return TR_OK;
    TR_TRY(tr_config_set(c, "load", l->where.dir));
    if (l->where.step < 0)
        return TR_OK;
    snprintf(step, sizeof step, "%lld", (long long)l->where.step);
    return tr_config_set(c, "ckpt-step", step);
}

/* All that follows from where --load leads. */
static enum tr_status look_at_load(struct tr_config *c, const struct tr_args *words,
                                   struct tr_comm *world)
{
    struct lead l;

    TR_TRY(locate(c, world, &l));
    TR_TRY(follow(c, &l));
    TR_TRY(take_options(c, &l, words, world));
    return follow(c, &l);
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

/* The tokenizer beside the weights, unless one was asked for. */
static enum tr_status find_tokenizer(struct tr_config *c, struct tr_comm *world)
{
    if (c->tokenizer_type != TR_TOKENIZER_GPT2_BPE || c->vocab_file)
        return TR_OK;
    if (tr_comm_max(world, world->rank == 0 && tr_folder_has(c->load)) == 0)
        return TR_OK;
    TR_TRY(tr_config_set(c, "tokenizer-type", "HuggingFaceTokenizer"));
    return tr_config_set(c, "tokenizer-model", c->load);
}

enum tr_status tr_read_model(struct tr_config *c, const struct tr_args *words,
                             struct tr_comm *world)
{
    TR_TRY(tr_comm_agree(world, tr_config_parse_args(c, words)));
    if (!c->load)
        return TR_FAIL(TR_ECONFIG,
                       "there are no weights to read: give --load FOLDER, a checkpoint of "
                       "`trireme train --save` or the folder of a model");
    c->use_checkpoint_args = true;
    c->exit_on_missing_checkpoint = true;
    c->finetune = true;
    TR_TRY(look_at_load(c, words, world));
    TR_TRY(find_tokenizer(c, world));
    return look_at_data(c, world);
}
