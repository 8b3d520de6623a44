/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_DEEPSPEED_H
#define TR_CONFIG_DEEPSPEED_H

#include "util/status.h"

/*
 * The options that a configuration file of DeepSpeed stands for: `put` gets each as one word, "--name" or
 * "--name=value", with the place that it comes from, " (FILE, KEY)"; it copies both.  deepspeed.def says what becomes
 * of each key; keys without effect are warnings, also those that nobody knows.  Values that are "auto" are left
 * to the options.  TR_EIO if the file cannot be read; TR_ECONFIG, with all that is wrong, if it is no JSON
 * object or has what is refused.  Not collective.
 */
typedef void tr_deepspeed_put(void *ctx, const char *word, const char *where);
enum tr_status tr_deepspeed_read(const char *path, tr_deepspeed_put *put, void *ctx) TR_MUST_CHECK;

/* The same from the text of a file that is called `path`. */
enum tr_status tr_deepspeed_text(const char *path, const char *text, tr_deepspeed_put *put,
                                 void *ctx) TR_MUST_CHECK;

#endif
