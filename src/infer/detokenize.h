/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_DETOKENIZE_H
#define TR_INFER_DETOKENIZE_H

#include "token/grow.h"

/*
 * WikiText's rows are words with blanks between all of them; models are measured on text without these blanks.
 * The rules are those that language modelling tasks have for it, applied to a row one after the other:
 *
 *     "s '" becomes "s'"; "/' 5/", for any digit, the text "/'[0-9]/"
 *     " @-@ " "-", " @,@ " ",", " @.@ " "."
 *     " : " ": ", and so ; . ! ? and comma
 *     in ( ) [ ] { } " " ' ', up to the next character that closes, no white space at both ends
 *     "= = = =" "====", "= = =" "===", "= =" "=="; the sign of degrees between blanks loses these
 *     " \n" and "\n " "\n"; " N " " 1 "; " 's" "'s"
 *
 * White space is ASCII's here.  *out is overwritten.
 */
void tr_detokenize_wikitext(const char *row, size_t bytes, struct tr_bytes *out);

#endif
