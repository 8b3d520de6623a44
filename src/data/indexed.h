/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_INDEXED_H
#define TR_DATA_INDEXED_H

#include <stdint.h>

#include "util/file.h"
#include "util/status.h"

/*
 * Indexed datasets in Megatron's "mmap" format: PREFIX.bin is the tokens of all sequences one
 * after the other; PREFIX.idx says where each begins.  All numbers are little endian, no array is
 * aligned:
 *
 *     offset  type     content
 *          0  9 bytes  "MMIDIDX" 0 0
 *          9  u64      version, 1
 *         17  u8       type of a token, enum tr_index_type
 *         18  u64      S, sequences
 *         26  u64      D, documents + 1
 *         34  i32[S]   tokens of each sequence
 *          .  i64[S]   byte in .bin where each sequence begins
 *          .  i64[D]   sequence where each document begins: first 0, last S
 *
 * A document is usually one sequence.
 */
enum tr_index_type {
    TR_INDEX_U8 = 1,
    TR_INDEX_I8,
    TR_INDEX_I16,
    TR_INDEX_I32,
    TR_INDEX_I64,
    TR_INDEX_F64,   /* 6 and 7 are known, but are not tokens */
    TR_INDEX_FLOAT, /* 8 bytes in files before October 2023, 4 since */
    TR_INDEX_U16
};

/* Bytes of one token of this type; 0 for what is no type of tokens. */
int tr_index_type_bytes(int type);

/* The type that holds the tokens of a vocabulary: U16 below 65500 tokens, else I32, as Megatron
   has it (GPT-2: U16). */
enum tr_index_type tr_index_type_for(int64_t vocab);

/* An open dataset.  Read the fields freely; the arrays only through the functions below. */
struct tr_index {
    char *prefix; /* owned */
    struct tr_map idx, bin;
    int type, type_bytes;
    int64_t sequences, documents, tokens;
    const unsigned char *sizes, *pointers, *starts; /* into idx */
};

/*
 * Map PREFIX.idx and PREFIX.bin and check every number in the former against the others and against
 * the size of the latter, so that later reads cannot leave the files.  TR_EIO if a file cannot be
 * opened (with the name of a likely one where there is one); TR_EDATA, naming the file, what was
 * expected and what was found: another format (the older TNTIDX, with what to do), version, type,
 * sizes that disagree, truncated or longer files, pointers that do not follow from the sizes.  On
 * failure *out holds nothing to close.
 */
enum tr_status tr_index_open(const char *prefix, struct tr_index *out) TR_MUST_CHECK;

/*
 * The same with files opened by `by`.  Ranks that open them together map the same two files, so
 * only the first of them reads all numbers; the others may use the dataset when they know that it
 * found them right.
 */
enum tr_status tr_index_open_by(const char *prefix, const struct tr_opener *by,
                                struct tr_index *out) TR_MUST_CHECK;

void tr_index_close(struct tr_index *x);

/* Tokens of sequence `sequence`, 0 <= sequence < x->sequences. */
int32_t tr_index_length(const struct tr_index *x, int64_t sequence);

/* Tokens before sequence `sequence`, 0 <= sequence <= x->sequences; and the sequence that token
   `token` of the dataset is in, 0 <= token < all of them. */
int64_t tr_index_before(const struct tr_index *x, int64_t sequence);
int64_t tr_index_sequence_of(const struct tr_index *x, int64_t token);

/* First sequence of document `document`, 0 <= document <= x->documents; the last gives
   x->sequences. */
int64_t tr_index_document(const struct tr_index *x, int64_t document);

/* The document that sequence `sequence` belongs to. */
int64_t tr_index_document_of(const struct tr_index *x, int64_t sequence);

/*
 * Tokens first .. first + count - 1 of a sequence into out; asserts that they exist.  TR_EDATA if
 * a token is not in 0 .. limit - 1, with file, document, place and value.
 */
enum tr_status tr_index_read(const struct tr_index *x, int64_t sequence, int64_t first,
                             int64_t count, int64_t limit, int32_t *out) TR_MUST_CHECK;

/*
 * Writing.  Everything streams to temporary names next to the final ones (PREFIX.bin.tmp.PID, ...),
 * in constant memory; close() puts both files in place, .bin first, so that a reader sees the old
 * dataset or the new one, or notices the mix.  The bytes equal those of Megatron's own tool.  Not
 * to be shared by threads; to build in parallel, let each worker hand over arrays of tokens, or let
 * each write its own dataset and append them.
 */
struct tr_index_writer;

/* TR_EIO if the temporary files cannot be made; TR_EDATA if `type` is no type of tokens. */
enum tr_status tr_index_writer_open(const char *prefix, enum tr_index_type type,
                                    struct tr_index_writer **out) TR_MUST_CHECK;

/*
 * Add a document of one sequence; `tokens` is borrowed for the call; count may be 0.  TR_EDATA if
 * a token does not fit the type or the document has more than 2^31 - 1 tokens; TR_EIO if the disk
 * is full.  After a failure of these calls only discard() makes sense.
 */
enum tr_status tr_index_writer_add(struct tr_index_writer *w, const int32_t *tokens,
                                   int64_t count) TR_MUST_CHECK;

/*
 * The same in parts, for a document that is larger than memory: tokens that go on it, then its end.
 * extend() with a count of 0 does nothing.
 */
enum tr_status tr_index_writer_extend(struct tr_index_writer *w, const int32_t *tokens,
                                      int64_t count) TR_MUST_CHECK;
enum tr_status tr_index_writer_end(struct tr_index_writer *w) TR_MUST_CHECK;

/* Add all sequences and documents of another dataset, of any type whose tokens fit. */
enum tr_status tr_index_writer_append(struct tr_index_writer *w,
                                      const struct tr_index *part) TR_MUST_CHECK;

/* The same for documents first .. first + count - 1 of it; asserts that they exist. */
enum tr_status tr_index_writer_append_documents(struct tr_index_writer *w,
                                                const struct tr_index *part, int64_t first,
                                                int64_t count) TR_MUST_CHECK;

/* What has been added so far. */
int64_t tr_index_writer_documents(const struct tr_index_writer *w);
int64_t tr_index_writer_tokens(const struct tr_index_writer *w);

/* Finish, flush to the disk, put in place, and free w, also when it fails.  TR_EIO if the disk is
   full or a name cannot be replaced; unless the sentence says that a rename failed, whatever had
   the names before is still there. */
enum tr_status tr_index_writer_close(struct tr_index_writer *w) TR_MUST_CHECK;

/* Give up: remove the temporary files and free w, which may be NULL. */
void tr_index_writer_discard(struct tr_index_writer *w);

#endif
