/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_MEGATRON_H
#define TR_WEIGHTS_MEGATRON_H

#include "config/config.h"
#include "weights/names.h"
#include "weights/torch_write.h"

/*
 * Checkpoints of Megatron-LM of 2021, of GPT models: ITER/mp_rank_TT/model_optim_rng.pt for each tensor-parallel rank, or
 * mp_rank_TT_PPP with pipeline stages.  Layers have their numbers within the stage; the vocabulary is padded; the order of
 * queries, keys and values goes by `checkpoint_version`.
 */
struct tr_megatron {
    char *folder; /* owned; ITER */
    int ranks, stages;
    int *first;              /* owned; [stages + 1]: number of the first layer of each stage */
    int64_t padded;          /* rows of the vocabulary on all ranks */
    enum tr_arrangement qkv; /* of queries, keys and values, by `checkpoint_version` */
};

/* Whether a folder, or that which its tracker names, is one of these. */
bool tr_megatron_is(const char *folder);

/*
 * Read all files of it: tensors of the table are called "TT_PPP/" and their names there, as of a newer version; options of
 * the model are set in `c` from the arguments of the run.  `vocab` is the true size of the vocabulary, 0: what the file says, which may be
 * the padded one.  TR_EIO, TR_EDATA.  Release also after a failure.
 */
enum tr_status tr_megatron_read(const char *folder, int64_t vocab, struct tr_weights_table *t,
                                struct tr_config *c, struct tr_megatron *out) TR_MUST_CHECK;
void tr_megatron_release(struct tr_megatron *m);

/* As tr_weights_match(). */
enum tr_status tr_megatron_match(const struct tr_megatron *m, const struct tr_dims *dims,
                                 const struct tr_params *whole, struct tr_weights_table *t,
                                 struct tr_weights_map *out) TR_MUST_CHECK;

/*
 * The reverse: the files of a layout of `ranks` x `stages` for that model, in a folder for `iteration`, with their
 * tensors, whose names are nested by '/', behind "TT_PPP/"; the items; and in *more what the pickles say besides the
 * model.  The vocabulary is padded to a multiple of 128 ranks.  TR_ECONFIG if Megatron-LM of 2021 has no such model or the layout
 * does not fit.
 */
enum { TR_MEGATRON_SKIP = 7 };
enum tr_status tr_megatron_plan(const struct tr_dims *dims, const struct tr_params *whole,
                                int64_t iteration, int ranks, int stages, enum tr_weights_type type,
                                struct tr_weights_table *t, struct tr_weights_map *map,
                                struct tr_pickler *more) TR_MUST_CHECK;

#endif
