/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_ARCHITECTURE_H
#define TR_CKPT_ARCHITECTURE_H

#include "ckpt/index.h"
#include "config/dims.h"
#include "util/status.h"

/* The model of a file, as its attributes say. */
struct tr_dims tr_ckpt_model(const struct tr_ckpt_about *a);

/* The reverse: what a file of this model has. */
void tr_ckpt_model_about(const struct tr_dims *dims, struct tr_ckpt_about *a);

/* TR_EDATA with a sentence about `file` that names all in which it is another model than that of the run.  With
   `finetune` what a longer context changes may differ. */
enum tr_status tr_ckpt_model_compare(const char *file, const struct tr_ckpt_about *a,
                                     const struct tr_dims *dims, bool finetune) TR_MUST_CHECK;

/* The spelling of an enumerator of a CHOICE of TR_CKPT_FAMILY_OF, and the reverse: -1 for none. */
const char *tr_ckpt_family_spelling(const char *attribute, int value);
int tr_ckpt_family_value(const char *attribute, const char *spelling);

#endif
