/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_FAMILY_H
#define TR_MODEL_FAMILY_H

#include "device/device.h"

/*
 * The properties in which architectures differ.  The parts of the model read these fields; no code
 * asks for a family by name.  A field is here once two rows differ in it or a part must know it.
 */
struct tr_family {
    const char *name; /* a value of --model-family */
    enum tr_act act;  /* inside the MLP */
};

/* The row of that name, or NULL.  Rows: gpt2 (norm before each sublayer, learned positions, biases
   everywhere, output matrix tied to the word embedding). */
const struct tr_family *tr_family_find(const char *name);

#endif
