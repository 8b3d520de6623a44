/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_JOB_CTL_H
#define TR_JOB_CTL_H

#include <stdbool.h>
#include <stddef.h>

#include "util/status.h"

/*
 * External requests to a run: files in SAVE/ctl that `trireme ctl`, or anyone who may write there,
 * creates.  Their presence counts; the line in them says who asks.
 *
 *   stop    save and exit.  It stays in force: every later start exits at once, until it is removed
 *           (`trireme ctl SAVE go`), so that a chain of jobs can be stopped.
 *   save    save now and go on; removed once that is done
 *   dump    write down what each rank is doing and go on; removed once that is done
 *
 * Nothing here is collective; rank 0 alone looks.  A link in place of SAVE/ctl is not followed: then
 * nothing is asked for.
 */
enum tr_ask { TR_ASK_STOP = 1, TR_ASK_SAVE = 2, TR_ASK_DUMP = 4 };

/* "stop", ...: the name of the file. */
const char *tr_ask_name(enum tr_ask ask);

/* What is asked for, as bits.  Opens the folder, since a file server answers that question anew. */
unsigned tr_ctl_look(const char *folder);

/* Who asks: the first line of the file, as tr_printable() has it; "somebody" if it is empty. */
void tr_ctl_who(const char *folder, enum tr_ask ask, char *who, size_t size);

/* Ask.  TR_EIO if the file cannot be made. */
enum tr_status tr_ctl_ask(const char *folder, enum tr_ask ask) TR_MUST_CHECK;

/* Take back, or answer.  True if the file is gone; false with errno. */
bool tr_ctl_remove(const char *folder, enum tr_ask ask);

/* Make the folder.  TR_EIO, also if it is a link. */
enum tr_status tr_ctl_open(const char *folder) TR_MUST_CHECK;

#endif
