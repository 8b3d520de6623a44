/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_ROW_TEXT_H
#define TR_INFER_ROW_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "util/status.h"

/* What is done to each row of a text before rows are joined. */
enum tr_detokenizer {
    TR_DETOKENIZER_NONE,
    TR_DETOKENIZER_WIKITEXT, /* infer/detokenize.h */
    TR_DETOKENIZER_STRIP     /* no white space at both ends, as Python's str.strip() */
};

/*
 * One stream of text made of rows with a blank line ("\n\n") between two of them, as language models are trained and
 * measured on WikiText and on abstracts.  A row is a line of plain text with its newline, and empty if there is nothing
 * but blanks in it, as the dataset of Hugging Face has WikiText's; or of JSON lines the text under a key.
 */
struct tr_rows {
    const char *key; /* of JSON lines; NULL: plain text */
    enum tr_detokenizer detokenizer;
    int64_t count; /* rows so far, also of files before */
};

/* The rows of a file ("-": the standard input) into `out`, whose errors are the caller's to look for.  TR_EIO if it
   cannot be read; TR_EDATA, with the number of the line, for a line that is no object with a text under the key. */
enum tr_status tr_rows_join(struct tr_rows *x, const char *path, FILE *out) TR_MUST_CHECK;

#endif
