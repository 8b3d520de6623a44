/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_LINES_H
#define TR_INFER_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "util/status.h"

/* The lines of a small file of texts: each line is one, or of JSON lines ("*.jsonl", "*.json") the text under a
   key of each object. */
struct tr_lines {
    size_t count, capacity;
    struct tr_line {
        char *text; /* owned; of plain lines without the newline */
        size_t bytes;
    } * line; /* owned */
};

enum { TR_LINES_MOST = 1 << 30 }; /* bytes of a file */

/* Whether the name of a file says that it is JSON lines. */
bool tr_lines_json(const char *path);

/* Read them; blank lines of JSON lines are none.  TR_EIO if the file cannot be read; TR_EDATA, with the number of
   the line, if a line is no object with a text under `key`, or the file is longer than TR_LINES_MOST.  Release
   also after a failure. */
enum tr_status tr_lines_read(const char *path, const char *key, struct tr_lines *out) TR_MUST_CHECK;
void tr_lines_add(struct tr_lines *x, const char *text, size_t bytes);
void tr_lines_release(struct tr_lines *x);

#endif
