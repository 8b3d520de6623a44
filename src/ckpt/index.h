/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_INDEX_H
#define TR_CKPT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/map.h"
#include "config/amounts.h"
#include "config/lr_schedule.h"
#include "family/family.h"

/*
 * The index of a checkpoint file: everything in it but the elements of the tensors.  One process
 * writes and reads it with HDF5.  The elements lie in one piece per tensor at a known place in the
 * file, so all ranks move them with pread() and pwrite(), in parallel and without HDF5.
 *
 * Why not HDF5's own parallel driver?  It was tried (HDF5 1.10.8, Open MPI 4.1.4).  Collective
 * transfer was four to ten times slower, and when the disk was full it said success with OMPIO and
 * never came back with ROMIO.  Independent transfer was as fast as pwrite() and reported the error,
 * but HDF5 cannot give up on a file whose last write fails: H5Fclose() fails, and the process then
 * crashes when it ends.  Therefore HDF5 writes the index into memory and never meets the disk, and
 * reads it from memory when its checksum is right (ckpt/seal.h).
 */

/* The attributes of the root. */
struct tr_ckpt_about {
    struct tr_ckpt_state state;
    /* The learning-rate schedule. A number that the file does not have, because it is older than
       that number, is TR_UNSET_REAL, or -1 for a choice. */
    struct tr_lr_schedule schedule;
    /* The order of the samples, of which a file has the rows of TR_EPOCH_ORDER_OF; what an older
       one does not have is 0, as it was. */
    struct tr_epoch_plan order;
    const char *source; /* borrowed, for writing: where imported weights come from, or NULL */
    int64_t files;      /* sidecar files of ranks; -1: an older file does not say */
#define MODEL(attribute, field) int64_t field;
    TR_CKPT_MODEL_OF(MODEL)
#undef MODEL
#define WIDTH(attribute, field, otherwise) int64_t field;
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
    int64_t classes;         /* of a head of classes; 0: of a language model */
    struct tr_family family; /* fields of TR_CKPT_FAMILY_OF; eps 0: an older file does not say */
#define LAYOUT(attribute, field) int64_t field; /* 0: the file does not say */
    TR_CKPT_LAYOUT_OF(LAYOUT)
#undef LAYOUT
};

/* One dataset. */
struct tr_ckpt_entry {
    int kind;
    char name[80];
    int ndim;
    int64_t dim[2], elems; /* dim[1] is 1 for ndim 1 */
    int64_t offset;        /* of the first element in the file, bytes */
    uint64_t sum;
};

struct tr_ckpt_index {
    struct tr_ckpt_about about;
    int minor;
    /* Owned; which program wrote the file, its options as JSON, and where imported weights come from; NULL
       where the file does not say. */
    char *program, *config, *source;
    bool optimizer; /* exp_avg or exp_avg_sq are there */
    int count;
    struct tr_ckpt_entry *list; /* owned; in the order of the file */
};

/*
 * Make a file at `path`, which must not exist, with the index of the tensors `whole` in the first
 * `kinds` kinds, as long as it will be, and flush it.  sums and offsets have
 * [kind * whole->count + tensor]; offsets are returned.  TR_EIO, TR_ERESOURCE; the file may then
 * be there, half written.
 */
enum tr_status tr_ckpt_index_write(const char *path, const struct tr_params *whole, int kinds,
                                   const struct tr_ckpt_about *about, const char *config_json,
                                   const uint64_t *sums, int64_t *offsets) TR_MUST_CHECK;

/* The same for a file that it made of the same tensors, whose elements stay and whose sums are others. */
enum tr_status tr_ckpt_index_again(const char *path, const struct tr_params *whole, int kinds,
                                   const struct tr_ckpt_about *about, const char *config_json,
                                   const uint64_t *sums, int64_t *offsets) TR_MUST_CHECK;

/* Not less than what that file will take on the disk, and not much more. */
int64_t tr_ckpt_index_bytes(const struct tr_params *whole, int kinds, const char *config_json);

/*
 * Read the index of the file at `path`.  TR_EIO if it cannot be opened, TR_EDATA if it is not a
 * checkpoint, of another major version, shorter than its tensors need, or not laid out as this
 * program lays it out (docs/formats.md).  Release also after a failure.
 */
enum tr_status tr_ckpt_index_read(const char *path, struct tr_ckpt_index *out) TR_MUST_CHECK;
/* The same of an open file, which stays open; `path` is for sentences. */
enum tr_status tr_ckpt_index_read_fd(int fd, const char *path,
                                     struct tr_ckpt_index *out) TR_MUST_CHECK;
void tr_ckpt_index_release(struct tr_ckpt_index *x);

/* The dataset of `p`, a parameter of the whole model.  `guess` is where it should stand in the
   list.  TR_EDATA if it is missing or has another shape. */
enum tr_status tr_ckpt_index_find(const struct tr_ckpt_index *x, int kind, const struct tr_param *p,
                                  int guess, const struct tr_ckpt_entry **out) TR_MUST_CHECK;

/*
 * The schedule of a run that resumes, `ours`, and that of its file, `theirs`.
 * compare(): TR_EDATA with a sentence that has each number that differs, both its values, what to
 * type to change it, and the options that say whose count.  follow(): *out gets what the file
 * has.
 */
enum tr_status tr_ckpt_schedule_compare(const char *file, const struct tr_lr_schedule *theirs,
                                        const struct tr_lr_schedule *ours) TR_MUST_CHECK;
void tr_ckpt_schedule_follow(const struct tr_lr_schedule *theirs, struct tr_lr_schedule *out);

/* Whether a run can go on with the samples of a file after `consumed` of them: TR_EDATA, in a
   sentence as above, if it stands within an epoch of another order, or only one of them goes by
   epochs. */
enum tr_status tr_ckpt_order_compare(const char *file, const struct tr_epoch_plan *order,
                                     int64_t consumed,
                                     const struct tr_epoch_plan *plan) TR_MUST_CHECK;

/* The spelling of a choice of the schedule, and the choice that is spelled so, or -1; `option` is
   its row's last column. */
const char *tr_ckpt_schedule_spelling(const char *option, int value);
int tr_ckpt_schedule_value(const char *option, const char *spelling);

/* Before a use of HDF5: it shall be quiet and its reasons be kept.  And the reason of the first
   of its calls that failed since, for our sentence; borrowed until the next begin. */
void tr_ckpt_hdf5_begin(void);
const char *tr_ckpt_hdf5_reason(void);

#endif
