/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_CORPUS_H
#define TR_TOKEN_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "token/tokenizer.h"
#include "util/status.h"

/*
 * Text files, read in chunks that can be tokenized separately, so that files may be larger than
 * memory and threads can work in parallel.
 *
 * A chunk of jsonl holds whole lines; a chunk of text holds whole documents, except where a file is
 * one document: then it is split where the tokenizer says that this changes no token.
 */
enum tr_corpus_format { TR_CORPUS_TEXT, TR_CORPUS_JSONL };

/*
 * What a document of plain text is.
 *     FILE          all of a file, byte for byte
 *     LINES         each line, without its end
 *     BLANK_LINES   lines up to a blank one (nothing in it but blanks), without the end of the last
 *     MARKER        lines up to one that is the marker and nothing else, without the end of the last
 * A line ends in "\n" or "\r\n".
 */
enum tr_corpus_split { TR_CORPUS_FILE, TR_CORPUS_LINES, TR_CORPUS_BLANK_LINES, TR_CORPUS_MARKER };

struct tr_corpus_file {
    const char *path; /* borrowed; "-" is the standard input */
    enum tr_corpus_format format;
};

struct tr_corpus_rules {
    enum tr_corpus_split split; /* of TEXT */
    const char *marker;         /* borrowed */
    const struct tr_tokenizer *tokenizer;
};

/* Part of a file, and where in it: `offset` in bytes, `line` counted from 1. */
struct tr_corpus_chunk {
    const struct tr_corpus_file *file;
    unsigned char *text; /* owned */
    size_t bytes, capacity;
    int64_t offset, line;
    bool last; /* of its file */
};

struct tr_corpus_span {
    const unsigned char *text;
    size_t bytes;
    int64_t offset, line; /* of its first byte, in the file */
};

struct tr_corpus;

/* The job ends when memory does.  `files` and `rules` are borrowed until close. */
struct tr_corpus *tr_corpus_open(const struct tr_corpus_file *files, int count,
                                 const struct tr_corpus_rules *rules);
void tr_corpus_close(struct tr_corpus *c);

/* Bytes of all files together, or -1 if one of them has no size (a pipe).  TR_EIO if one does not
   exist or cannot be read, so that this shows at once and not after hours. */
enum tr_status tr_corpus_bytes(const struct tr_corpus *c, int64_t *out) TR_MUST_CHECK;

/*
 * The next chunk, into memory that *chunk keeps from call to call (all zero at first; release it with
 * tr_corpus_chunk_release).  chunk->file is NULL after the last one.  Each file ends in a chunk with `last`,
 * which may be empty.  TR_EIO if a file cannot be read, or a signal is caught meanwhile; TR_EDATA,
 * naming file and place, if more than 1 GiB would have to stay together.
 */
enum tr_status tr_corpus_next(struct tr_corpus *c, struct tr_corpus_chunk *chunk) TR_MUST_CHECK;
void tr_corpus_chunk_release(struct tr_corpus_chunk *chunk);

/*
 * Walk over the documents (of jsonl: the lines, without their ends) in a chunk.  *at is where to go
 * on: all zero before the first call.  False when there are no more.  Documents may be empty.
 */
bool tr_corpus_chunk_document(const struct tr_corpus_chunk *chunk,
                              const struct tr_corpus_rules *rules, struct tr_corpus_span *at,
                              struct tr_corpus_span *out);

#endif
