/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_CHINESE_H
#define TR_TOKEN_CHINESE_H

#include "token/pipeline.h"
#include "util/status.h"

/*
 * ChineseWordPiece, the tokenizer of Yuan.  Its file, vocab.txt, has a token on each line: white space at the end
 * of a line is no part of it, its number is that of the line, counted from 0, and of equal lines the last one
 * counts.
 *
 * A text is split at white space, and each punctuation character (those of ASCII, and Unicode's category P) is a
 * word of its own; nothing is normalized.  A word of more than 100 characters is the unknown token.  Of any other
 * the longest entry with which it begins is taken, then the longest with which the rest begins, and so on:
 *
 *     an entry with a character of U+4E00 to U+9FFF stands for itself anywhere in a word;
 *     one without stands for itself where a word begins; behind that it needs the prefix "##".
 *
 * Where there is none, one character becomes the unknown token; WordPiece would drop the word.
 */

/* The unknown token is "<unk>" or else "[UNK]", and "<eod>", "[EOD]" or none ends a document.  TR_EIO if `path`
   cannot be read; TR_EDATA, naming file and line, for a text that is not UTF-8, a token of a zero byte, no unknown token, or more than
   64 MiB. */
enum tr_status tr_chinese_open(const char *path, struct tr_pipeline **out) TR_MUST_CHECK;

/* For subword.c: what of its tries TR_SUBWORD_CHINESE needs, and the tokens of a word. */
void tr_chinese_prepare(struct tr_subword *m);
void tr_chinese_encode(const struct tr_subword *m, const unsigned char *word, size_t bytes,
                       struct tr_tokens *out);

#endif
