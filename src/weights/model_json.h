/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_MODEL_JSON_H
#define TR_WEIGHTS_MODEL_JSON_H

#include "config/config.h"
#include "config/dims.h"
#include "util/status.h"
#include "weights/names.h"

/*
 * config.json of transformers and a model here.  Pure but for what tr_dims_of() may read.
 */

/* A row of models.def. */
struct tr_weights_model {
    const char *type, *architecture, *classifier, *families;
    enum tr_weights_style style;
    unsigned bit;
};

/* What transformers calls this model, by its head. */
const char *tr_weights_architecture(const struct tr_weights_model *model,
                                    const struct tr_dims *dims);

/*
 * Read `text`, which is the file `path`: *model is its row, and the options of the model are set in `c`, which
 * was at its defaults, so that tr_dims_of() gives the model; --seq-length is the longest sequence, but at
 * most `seq`.  With `untied` the output layer has weights of its own, whatever the file says.  TR_EDATA with a
 * sentence that has the file and the key if something is missing, of the wrong kind, or not supported.
 */
enum tr_status tr_weights_model_read(const char *path, const char *text, int64_t seq, bool untied,
                                     struct tr_config *c,
                                     const struct tr_weights_model **model) TR_MUST_CHECK;

/*
 * The reverse: of the rows that this model can be the one of `family` (a name of family/family.c, or NULL) if it
 * is among them, else the first; and its config.json, owned by the caller.  `type` is that of the weights.
 * TR_ECONFIG if transformers has no model that computes this.
 */
enum tr_status tr_weights_model_write(const struct tr_dims *dims, const char *family,
                                      enum tr_weights_type type,
                                      const struct tr_weights_model **model,
                                      char **text) TR_MUST_CHECK;

#endif
