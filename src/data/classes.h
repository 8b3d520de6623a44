/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_CLASSES_H
#define TR_DATA_CLASSES_H

#include <stdint.h>

#include "config/classify.h"
#include "token/tokenizer.h"
#include "util/status.h"

/*
 * Texts, or pairs of texts, and their classes, for the tasks of config/classify.def: GLUE's files and others like them.
 *
 *     FILE.tsv    a row in each line, columns between tabs, nothing quoted; the first line names the columns unless
 *                 the task does
 *     FILE.jsonl  an object in each line; the class is an integer or a string
 *
 * Blank lines are no rows.  The class is its number, or one of the task's names.  Rows are tokenized when the file is
 * opened and kept, 4 bytes for a token.  What the tokenizer puts around a text (tr_tokenizer_special()) is around the
 * first one; behind the second is what is behind the first:
 *
 *     [CLS] A [SEP]      [CLS] A [SEP] B [SEP]
 *
 * Where that is more than T tokens, the longer of A and B loses its last one, B where they are as long, until it is
 * not.
 */
struct tr_classes;

struct tr_classes_how {
    const struct tr_classify *task;
    const char *first, *second, *label;   /* columns or fields in place of the task's, or NULL */
    int64_t seq, classes;                 /* T; a class is below the second */
    const struct tr_tokenizer *tokenizer; /* borrowed for the call */
    const char *options;                  /* what gives the columns, for messages */
};

/* The file of a split (0 training, 1 validation) in folder FOLDER/CoLA, FOLDER/glue_cola or FOLDER, owned by
   the caller: train.tsv or .jsonl; dev, validation or valid.  NULL if there is none. */
char *tr_classes_find(const struct tr_classify *task, const char *folder, int split);

/* How many rows a file has.  TR_EIO. */
enum tr_status tr_classes_count(const char *path, const struct tr_classify *task,
                                int64_t *rows) TR_MUST_CHECK;

/* Read and tokenize it.  TR_EIO, or TR_EDATA with file and line. */
enum tr_status tr_classes_open(const char *path, const struct tr_classes_how *how,
                               struct tr_classes **out) TR_MUST_CHECK;
void tr_classes_close(struct tr_classes *x);
int64_t tr_classes_rows(const struct tr_classes *x);

/* Row k into text[T + 1]: its tokens, -1 for padding up to T, and its class. */
void tr_classes_get(const struct tr_classes *x, int64_t k, int32_t *text);

#endif
