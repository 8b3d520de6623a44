/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_SEAL_H
#define TR_CKPT_SEAL_H

#include "ckpt/sparse_file.h"
#include "util/status.h"

/*
 * The index lies at the start of the file in one piece, and the page before it, which HDF5 calls
 * the user block, seals it: text that says how long the index is and what its checksum is.  HDF5
 * itself is not safe against damage: of all flips of one bit in an index, one in six made HDF5
 * 1.10.8 crash.  So it is only shown an index whose seal is right.
 */
enum { TR_CKPT_SEAL_BYTES = TR_CKPT_PAGE };

/* Bytes of an index at most, seal included: of a model of 58,000 layers. */
enum { TR_CKPT_INDEX_MOST = 1 << 30 };

/* Seal the first `bytes` of a file, which are at `image`: fills the first
   TR_CKPT_SEAL_BYTES of them. */
void tr_ckpt_seal(unsigned char *image, int64_t bytes);

/* Read what is sealed into *out, as a file of the length of this one.  TR_EDATA, and a sentence
   that begins with "it", if the seal is not right, and TR_EIO; then nothing is in *out. */
enum tr_status tr_ckpt_unseal(int fd, struct tr_ckpt_sparse *out, int *minor) TR_MUST_CHECK;

#endif
