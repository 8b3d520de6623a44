/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_CATEGORIES_H
#define TR_TOKEN_CATEGORIES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What characters are to the normalizers and pre-tokenizers of Hugging Face's tokenizers, whose tables are those of
 * Unicode 8 and 9: utf8proc's categories, without the characters that are newer (newer.def), and with those whose
 * category has changed.
 */
bool tr_is_mark(uint32_t c);              /* of StripAccents: M of Unicode 9 */
bool tr_is_nonspacing_mark(uint32_t c);   /* of BertNormalizer: Mn of Unicode 8 */
bool tr_is_format_or_private(uint32_t c); /* of BertNormalizer: Cf and Co of Unicode 8 */
bool tr_is_punctuation(uint32_t c);       /* P of Unicode 8, and what ispunct() has of ASCII */

/* Whether it came after Unicode 9, and has a decomposition or moves among marks since then: the four normal forms
   leave it as it is, and nothing moves across it. */
bool tr_is_newer(uint32_t c);

#endif
