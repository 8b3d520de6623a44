/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_FOREIGN_H
#define TR_WEIGHTS_FOREIGN_H

#include "weights/tensors.h"

/*
 * All tensors of a folder with weights of others, sorted by name, and its config.json as text (NULL where it
 * has none; owned by the caller).  *format says what was recognised, as in "safetensors, 3 files".  TR_EIO if
 * there is no such folder or something is missing; TR_EDATA if a file is damaged or not what it must be.
 * Release the table also after a failure.
 */
enum { TR_WEIGHTS_FORMAT = 80 };
enum tr_status tr_weights_read_folder(const char *folder, struct tr_weights_table *out,
                                      char **config, char format[TR_WEIGHTS_FORMAT]) TR_MUST_CHECK;

/* Whether `folder` looks like one with weights of others: for sentences. */
bool tr_weights_is_folder(const char *folder);

#endif
