/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_CONTINUE_H
#define TR_INFER_CONTINUE_H

#include "config/option.h"
#include "config/words.h"
#include "infer/infer.h"

/* What `trireme generate` does: options of its own. */
struct tr_continue {
    char *prompt, *prompts; /* one of them */
    char *output;           /* or stdout */
    char *merge_file;       /* of gpt2-bpe */
    struct tr_words stop;
    int64_t most, top_k, block;
    double temperature, top_p;
    bool cache, logprobs, special_tokens, ignore_end;
};

/*
 * Read prompts, continue them, write the texts from rank 0, and say on its stderr how fast that was.  `words` are the
 * options of train.  Collective over `world`; TR_ECONFIG, TR_EIO or TR_EDATA, the same on all ranks.
 */
enum tr_status tr_continue(const struct tr_continue *o, const struct tr_args *words,
                           struct tr_comm *world) TR_MUST_CHECK;

#endif
