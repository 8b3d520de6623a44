/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_DATA_H
#define TR_CMD_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "token/corpus.h"
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
    bool join_rows;
    int detokenizer;  /* enum tr_detokenizer, infer/row_text.h */
    int invalid_utf8; /* enum tr_invalid_utf8 */

    int tokenizer_type; /* config/enums.def, or TR_DATA_NO_TOKENIZER */
    char *vocab_file, *merge_file, *tokenizer_model;
    int64_t vocab_size;
    bool append_eod, add_special_tokens;
    int64_t row_tokens, pad_id;
    char *npz_array, *part;
    char *task_name, *task_dir;
    int64_t task_samples, seq_length, seed;

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

/*
 * The input files of build: what the words name, a folder standing for all files under it whose names do not begin
 * with a dot, in the order of their names.  *list is owned by the caller.  TR_EIO if a folder cannot be read.
 */
struct tr_data_files {
    char **path; /* [count], owned */
    int count;
};
enum tr_status tr_data_files(const struct tr_words *input, const struct tr_words *words,
                             struct tr_data_files *list) TR_MUST_CHECK;
void tr_data_files_release(struct tr_data_files *list);

/* build of .npz files: the rows of their arrays are the documents. */
enum tr_status tr_data_build_npz(const struct tr_data_options *o,
                                 const struct tr_data_files *files) TR_MUST_CHECK;

/* build of --task-name: the sequences of weighted tasks. */
enum tr_status tr_data_build_tasks(const struct tr_data_options *o) TR_MUST_CHECK;

/* build --join-rows: the text of all files' rows, in a file of its own next to the output; *path is owned by the caller,
   who removes the file, also after a failure. */
enum tr_status tr_data_join_rows(const struct tr_data_options *o,
                                 const struct tr_corpus_file *files, int count,
                                 char **path) TR_MUST_CHECK;

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
