/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_SAFETENSORS_H
#define TR_WEIGHTS_SAFETENSORS_H

#include "weights/tensors.h"

/*
 * The format of safetensors: 8 bytes with the length of a header, little-endian, at most 100 MB; the header, a
 * JSON object of {"dtype", "shape", "data_offsets"}; then the tensors, end to end without holes.
 */
#define TR_SAFETENSORS_HEADER_MOST 100000000

/* Add the tensors of file `name` in the folder of the table.  TR_EIO; TR_EDATA, with the file and the tensor,
   if it is cut short or not such a file. */
enum tr_status tr_safetensors_read(struct tr_weights_table *t, const char *name) TR_MUST_CHECK;

/*
 * The header of file number `file`, of the tensors of the table that are in it, in the order of the list, whose
 * offsets it sets; and the length that the file will have.  Owned by the caller, *bytes long.
 */
char *tr_safetensors_header(struct tr_weights_table *t, int file, int64_t *bytes);

#endif
