/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_SCRIPT_H
#define TR_PORT_SCRIPT_H

#include "port/marks.h"
#include "util/status.h"

/*
 * A job script as it is written: which commands it has, with what is in their variables.  Nothing
 * is executed and no other file is read.  Variables, arrays, arithmetic, quotes, continued lines,
 * functions, `eval` and `bash -c` are followed; of an `if` whose condition compares known values
 * only the branch that holds is taken.  What only a running shell knows, from $1 to $(hostname),
 * stays as a part that is not known (port/marks.h).
 */
struct tr_script_command {
    struct tr_list words;
    int line;
};

struct tr_script_variable {
    char *name;
    struct tr_list value; /* several of an array */
};

struct tr_script {
    struct tr_script_command
        *command; /* those that a script starts, in its order, without assignments */
    int commands;
    struct tr_script_variable *variable; /* as they are at the end */
    int variables;
    struct tr_list directives; /* what stands behind #SBATCH */
    struct tr_list sourced;    /* files that the script reads, which were not followed */
    struct tr_list notes;      /* sentences about what was taken for granted, each once */
};

/* Read the text of a script; `defined` (may be NULL) has words NAME=VALUE, which count as if
   they stood first and nothing in the script changed them.  TR_ECONFIG for what grows beyond all
   bounds. */
enum tr_status tr_script_read(const char *text, const struct tr_list *defined,
                              struct tr_script *out) TR_MUST_CHECK;
void tr_script_release(struct tr_script *s);

/* The first value of a variable, with marks, or NULL. */
const char *tr_script_value(const struct tr_script *s, const char *name);

#endif
