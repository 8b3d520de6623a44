/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_MEASURE_H
#define TR_INFER_MEASURE_H

#include "infer/infer.h"

/* What `trireme eval` measures: options of its own. */
struct tr_measure {
    char *text, *dataset, *lambada; /* one of them */
    int64_t stride;
    int detokenizer; /* enum tr_detokenizer, infer/row_text.h */
    bool special_tokens;
    char *merge_file; /* of gpt2-bpe */
    char *json;
};

/*
 * Perplexity of a text or a dataset, or LAMBADA's final words: a table on stdout of rank 0, and one line of JSON to
 * m->json.  Collective over `world`; TR_ECONFIG, TR_EIO or TR_EDATA, the same on all ranks.
 */
enum tr_status tr_measure(const struct tr_measure *m, const struct tr_config *c,
                          const struct tr_shape *shape, struct tr_comm *world) TR_MUST_CHECK;

#endif
