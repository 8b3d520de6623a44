/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_COUNT_H
#define TR_MODEL_COUNT_H

#include <stdbool.h>

#include "config/dims.h"

/* Parameters of the whole model, from the rows of model/param.def; the tied embedding counts once.  `padded`: with
   the words that padding adds to the vocabulary (dims.h), which no checkpoint has. */
double tr_count_parameters(const struct tr_dims *dims, bool padded);

#endif
