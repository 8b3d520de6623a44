/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_VARIANTS_H
#define TR_SWEEP_VARIANTS_H

#include "config/config.h"
#include "config/words.h"
#include "sweep/sweep.h"

/*
 * Dimensions that are options of training by name, --sweep OPTION=V1,V2,...: what dims.def has no row for.  A variant
 * is one value of each; without such dimensions there is one variant, which is what the options of training say.
 */
enum { TR_SWEEP_NAME_MOST = 120 };

struct tr_sweep_variants {
    int count; /* dimensions */
    struct tr_sweep_option {
        char *name; /* owned, as its value's are */
        bool flag;
        int values;
        char **value;
    } * option;
    int number;               /* variants */
    struct tr_config *config; /* [number], owned: the options of training of each */
};

/*
 * Read w->sweep and parse the options of each variant.  TR_ECONFIG names what is no option or no value of one, an option
 * that has a list of its own or that a sweep sets, a flag that is on in the options of training and to be off, and
 * values that are too long for names of files; at most `most` variants.  Release also after a failure.
 */
enum tr_status tr_sweep_variants_read(const struct tr_sweep *w, int most,
                                      struct tr_sweep_variants *out) TR_MUST_CHECK;
void tr_sweep_variants_release(struct tr_sweep_variants *o);

/* The value of dimension i in a variant; borrowed. */
const char *tr_sweep_variants_value(const struct tr_sweep_variants *o, int variant, int i);

/* What a variant adds to the name of a shape, "-seq-length_2048", or "". */
void tr_sweep_variants_name(const struct tr_sweep_variants *o, int variant,
                            char name[TR_SWEEP_NAME_MOST]);

/* Its words, added to `a`. */
enum tr_status tr_sweep_variants_words(const struct tr_sweep_variants *o, int variant,
                                       struct tr_args *a) TR_MUST_CHECK;

#endif
