/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_COMMAND_H
#define TR_SWEEP_COMMAND_H

#include <jansson.h>
#include <stdio.h>

#include "config/words.h"
#include "sweep/place.h"
#include "sweep/space.h"

/* The words that start a run of a shape, added to `a`: the launcher's, this program, "train" and its options.
   `name` is that of the run, as its log has it.  It leaves when its iterations take more than `most` seconds, if
   that is above 0; TR_SWEEP_ENOUGH of those that count have to be done by then. */
enum { TR_SWEEP_ENOUGH = 5 };
enum tr_status tr_sweep_run_words(const struct tr_sweep *w, const struct tr_sweep_place *place,
                                  const struct tr_sweep_space *space,
                                  const struct tr_sweep_shape *s, const char *name, double most,
                                  struct tr_args *a) TR_MUST_CHECK;

/* "train" and its options as an array of texts, for the record: what tells one sweep from another of the same
   shapes.  *out is a new reference, also after a failure; TR_ECONFIG for a word that is no UTF-8. */
enum tr_status tr_sweep_command(const struct tr_sweep *w, const struct tr_sweep_space *space,
                                const struct tr_sweep_shape *s, json_t **out) TR_MUST_CHECK;

/* How this very program is called, added to `a`. */
void tr_sweep_add_self(struct tr_args *a);

/* A word as a shell takes it. */
void tr_sweep_put_word(FILE *f, const char *word);

#endif
