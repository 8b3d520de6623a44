/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CODEC_STORE_H
#define TR_CODEC_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/*
 * The activation cache: what a codec caches of every sample, one record of so many bytes each, in
 * host memory or in a file.  Samples are named by any numbers >= 0; there is room for `capacity`
 * different ones.
 *
 * In host memory a page takes room when it is first written.  In a file, of which the same is true,
 * a thread moves records between the file and a pool of buffers: what was changed is written some
 * time later, what is announced with tr_store_prefetch() is read before it is asked for, and a
 * record that still waits to be written is served from its buffer.  A buffer belongs to one record
 * at a time, so that what is being written is never read into.  The pool has two sets of buffers
 * for the samples of a step: those at work and those of the step to come.
 *
 * The file has no name: it is unlinked as soon as it is open, because what a killed run leaves
 * there fits no checkpoint.  It is read and written by calls and not mapped: writing to a mapped
 * page for which the disk has no room kills the process silently.  What lasts is what
 * tr_store_save() writes.
 *
 * All functions are called by one thread, and none is collective.
 */
struct tr_store;

/* Samples at most, so that their numbers fit 32 bits with room to spare; tr_shape_of() refuses more. */
enum { TR_STORE_SAMPLES = 1 << 30 };

struct tr_store_how {
    int64_t capacity;   /* samples */
    int64_t bytes;      /* of a record */
    const char *folder; /* of the file; NULL: host memory.  Borrowed until open returns */
    int64_t ahead;      /* samples of a step, of which the file's buffers hold two sets */
};

/* Bytes that a sample takes: those of a record, rounded up to 64. */
int64_t tr_store_stride(int64_t bytes);

/* Bytes of host memory when there is a record of every sample: of the records, or the buffers, and
   of the tables, which take 15 to 21 bytes for each sample of the capacity, and 12 more with a file. */
int64_t tr_store_host_bytes(const struct tr_store_how *how);

/* TR_EIO if the folder does not take a file, TR_ERESOURCE if there is no memory or no thread. */
enum tr_status tr_store_open(const struct tr_store_how *how, struct tr_store **out) TR_MUST_CHECK;
void tr_store_close(struct tr_store *s); /* NULL is fine */

/* Whether there is a record of `sample`; and of how many samples. */
bool tr_store_has(const struct tr_store *s, int64_t sample);
int64_t tr_store_count(const struct tr_store *s);

/*
 * The record of `sample`, on a 64-byte boundary: what is in it, or with `anew` any bytes, to be
 * overwritten.  The caller has it, and no other record, until tr_store_give().  With `anew` a
 * sample that is not known gets its place; without, asking for a record that is not there is a bug.
 * TR_ECONFIG when there is no place left; TR_EIO when the file could not be read or written, now or
 * since the last call; TR_EDATA when the file does not hold what was written.
 */
enum tr_status tr_store_take(struct tr_store *s, int64_t sample, bool anew,
                             void **record) TR_MUST_CHECK;

/* What the caller did with the record. */
enum tr_store_fate {
    TR_STORE_SAME, /* it was only read */
    TR_STORE_NEW,  /* it is what is to be cached */
    TR_STORE_GONE  /* it is worth nothing: as if the sample had never been seen */
};
void tr_store_give(struct tr_store *s, enum tr_store_fate fate);

/* These samples will be asked for next, in this order: a hint, and only the latest one counts.
   Samples without a record are skipped.  TR_EIO as above. */
enum tr_status tr_store_prefetch(struct tr_store *s, const int64_t *sample,
                                 int64_t count) TR_MUST_CHECK;

/* Records that were read ahead, and those that had to be read when asked for; since open. */
struct tr_store_reads {
    int64_t ahead, late;
};
struct tr_store_reads tr_store_reads(struct tr_store *s);

/* Wait until everything is in the file. */
enum tr_status tr_store_flush(struct tr_store *s) TR_MUST_CHECK;

/*
 * All records as a file of their own, with `title` (at most 255 bytes) that says whose they are and
 * two words for the caller.  It is written under a temporary name, sealed when everything is on
 * disk, and then renamed; so there is a complete one or none.  TR_EIO otherwise.
 *
 * load() puts the records of such a file into a store that has none.  TR_EIO if it cannot be read;
 * TR_EDATA if it is not whole or not such a file, or of another title, size of record, or byte
 * order; TR_ECONFIG if it has more samples than there is room for.  After a failure the store has
 * none again.
 *
 * Numbers are as the machine has them:
 *     0     "trireme memory", version, the sizes, title and words: struct head in store_file.c,
 *           whose last word is a checksum of the others; all zero until the file is sealed
 *     4096  for each sample its number and the checksum of its record, 16 bytes
 *     then, from the next multiple of 4096 on, the records at multiples of tr_store_stride()
 */
enum tr_status tr_store_save(struct tr_store *s, const char *path, const char *title,
                             const uint64_t word[2]) TR_MUST_CHECK;
enum tr_status tr_store_load(struct tr_store *s, const char *path, const char *title,
                             uint64_t word[2]) TR_MUST_CHECK;

/*
 * What such a file says of itself, whosever it is; and whether all of it is what was written, of
 * which `more` (may be NULL) hears the bytes as they are read.  TR_EIO and TR_EDATA as above.
 */
enum { TR_STORE_TITLE = 256 };
struct tr_store_file {
    char title[TR_STORE_TITLE];
    int64_t samples, record_bytes;
};
enum tr_status tr_store_look(const char *path, struct tr_store_file *out) TR_MUST_CHECK;
enum tr_status tr_store_verify(const char *path, void (*more)(void *arg, int64_t bytes),
                               void *arg) TR_MUST_CHECK;

#endif
