/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_TORCH_H
#define TR_WEIGHTS_TORCH_H

#include "weights/pickle.h"
#include "weights/tensors.h"
#include "util/zip.h"

/*
 * A file of torch.save(): a zip archive NAME/data.pkl, which says what there is, and NAME/data/KEY, the numbers of
 * storage KEY.
 */
struct tr_torch {
    const char *path; /* of the file of the table */
    int file;         /* its number */
    char *root;       /* owned; NAME */
    struct tr_zip zip;
    unsigned char *data; /* owned; data.pkl */
    struct tr_pickle pickle;
};

/* Open file `name` in the folder of the table, and read what it says.  TR_EIO; TR_EDATA with a sentence if it is
   damaged, older than PyTorch 1.6, or names something that weights do not need.  Close also after a failure. */
enum tr_status tr_torch_open(struct tr_weights_table *t, const char *name,
                             struct tr_torch *out) TR_MUST_CHECK;
void tr_torch_close(struct tr_torch *f);

/* Add the tensors in a value, which are in dictionaries: their keys, with dots between them, behind `under`, are the
   names.  TR_EDATA if one has numbers that do not follow one another, or that are not in the file. */
enum tr_status tr_torch_tensors(const struct tr_torch *f, int value, const char *under,
                                struct tr_weights_table *t) TR_MUST_CHECK;

/* Both, of a file that has a model and no more: pytorch_model.bin.  And with names behind `under`. */
enum tr_status tr_torch_read(struct tr_weights_table *t, const char *name) TR_MUST_CHECK;
enum tr_status tr_torch_read_under(struct tr_weights_table *t, const char *name,
                                   const char *under) TR_MUST_CHECK;

#endif
