/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_WORDS_H
#define TR_CONFIG_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "util/status.h"

/*
 * The words of a command line, each with the place that it came from, so that a sentence about an
 * option in an argument file can name file and line.
 */
struct tr_arg {
    char *text;  /* owned */
    char *where; /* owned; " (FILE, line N)", or "" for the command line */
    /* From an option that stands for others: another word about the same option must say the same. */
    bool firm;
};

struct tr_args {
    int count, size;
    struct tr_arg *list;
};

enum { TR_ARGS_DEPTH = 8 }; /* how deep argument files may nest */

/* Append argv[0..argc-1], with @FILE replaced by its words, and behind an option that stands for others the
   words of these: a file of settings, --deepspeed_config (config/deepspeed.h), or a name, --strategy
   (config/strategy.h).  TR_EIO for a file that cannot be read, TR_ECONFIG for an open quote, nesting beyond
   TR_ARGS_DEPTH, or a name that will not do; what was appended then stays. */
enum tr_status tr_args_argv(struct tr_args *a, int argc, char **argv) TR_MUST_CHECK;

/* Append the words of an argument file's text. */
enum tr_status tr_args_text(struct tr_args *a, const char *text) TR_MUST_CHECK;

/* Append a copy of one word as it stands. */
void tr_args_add(struct tr_args *a, const char *text, const char *where, bool firm);

/* All of them as bytes, owned by the caller, and back: appends to *a. */
char *tr_args_pack(const struct tr_args *a, size_t *bytes);
void tr_args_unpack(struct tr_args *a, const char *packed, size_t bytes);

/* For a program that is called with these words and others that count over them: the words that others stand for stay, as
   if they had been typed, and those others go. */
void tr_args_settle(struct tr_args *a);

void tr_args_release(struct tr_args *a);

#endif
