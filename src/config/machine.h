/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_MACHINE_H
#define TR_CONFIG_MACHINE_H

#include <stdio.h>

#include "config/processor.h"
#include "util/status.h"

/*
 * A machine profile: what a plan must know of nodes, GPUs and network.  A text file, edited by hand
 * or written by a measurement, of lines
 *
 *     key = value     # where the number comes from, and when
 *
 * config/machine.def is the list of keys; docs/machines.md shows a whole one.  Empty lines and lines
 * of a comment alone are ignored.
 */
enum { TR_MACHINE_TEXT = 128 };

struct tr_machine {
    char name[TR_MACHINE_TEXT]; /* the file's, without folder and ".conf" */
#define TEXT(field, key, help) char field[TR_MACHINE_TEXT];
#define KIND(field, key, initial, help) enum tr_processor field;
#define COUNT(field, key, least, most, help) int field;
#define NUMBER(field, key, initial, least, most, help) double field;
#include "config/machine.def"
};

/*
 * The profile called `name`: a file if `name` has a '/' or ends with ".conf", otherwise NAME.conf in
 * the folder of the environment variable TRIREME_MACHINES, or else in the one that was installed with
 * the program or is next to its build.
 *
 * TR_ECONFIG names the profiles that there are, or file and line of what is wrong: an unknown key
 * with the nearest known one, a value that is no number or out of range, a key twice or missing.
 * TR_EIO if a file cannot be read.
 */
enum tr_status tr_machine_find(const char *name, struct tr_machine *out) TR_MUST_CHECK;

/* The same from the text of a file; `path` is for sentences and for the name. */
enum tr_status tr_machine_parse(const char *path, const char *text,
                                struct tr_machine *out) TR_MUST_CHECK;

/* A file that says the same, each key with its meaning as a comment. */
void tr_machine_write(const struct tr_machine *m, FILE *f);

#endif
