/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_DATA_H
#define TR_CMD_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "token/tokenizer.h"
#include "config/config.h"
#include "util/status.h"

/*
 * The inside of `trireme data`: its sub-verbs share one struct of options, and each has a table with
 * the rows that it takes.
 */
enum tr_invalid_utf8 { TR_INVALID_UTF8_KEEP, TR_INVALID_UTF8_REFUSE };
enum { TR_DATA_NO_TOKENIZER = -1 };
enum tr_input_format { TR_INPUT_AUTO, TR_INPUT_TEXT, TR_INPUT_JSONL };

struct tr_data_options {
    struct tr_words input;
    int input_format; /* enum tr_input_format */
    struct tr_words json_keys;
    int split_documents; /* enum tr_corpus_split */
    char *document_marker;
    int invalid_utf8; /* enum tr_invalid_utf8 */

    int tokenizer_type; /* config/enums.def, or TR_DATA_NO_TOKENIZER */
    char *vocab_file, *merge_file, *tokenizer_model;
    int64_t vocab_size;
    bool append_eod, add_special_tokens;

    char *output_prefix;
    int dataset_impl; /* there is one */
    bool overwrite;
    int64_t workers;
    double log_interval;

    int64_t document;
    bool tokens;
};

/* A sub-verb: `words` are the operands, never options. */
enum tr_status tr_data_build(const struct tr_data_options *o,
                             const struct tr_words *words) TR_MUST_CHECK;
enum tr_status tr_data_show(const struct tr_data_options *o,
                            const struct tr_words *words) TR_MUST_CHECK;
enum tr_status tr_data_verify(const struct tr_data_options *o,
                              const struct tr_words *words) TR_MUST_CHECK;
enum tr_status tr_data_merge(const struct tr_data_options *o,
                             const struct tr_words *words) TR_MUST_CHECK;

/* What --tokenizer-type and the files say. */
enum tr_status tr_data_tokenizer(const struct tr_data_options *o,
                                 struct tr_tokenizer **out) TR_MUST_CHECK;

/* TR_ECONFIG if PREFIX.bin or PREFIX.idx exists and --overwrite was not given, TR_EIO if its folder
   does not exist or takes no files. */
enum tr_status tr_data_may_write(const struct tr_data_options *o, const char *prefix) TR_MUST_CHECK;

/* The number of the signal that asked to stop, or 0.  Long loops ask, and end in tr_data_stopped(),
   after they have removed what they wrote. */
int tr_data_stop(void);
enum tr_status tr_data_stopped(void) TR_MUST_CHECK;

/* "u16", ... for a type of data/indexed.h. */
const char *tr_data_type_name(int type);

#endif
