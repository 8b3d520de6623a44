/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_SEARCH_H
#define TR_CMD_SEARCH_H

#include <stdio.h>

#include "util/status.h"

/*
 * `trireme help --search`: terms of the glossary, options of all verbs, verbs, headings of the
 * pages and folders of the sources, where all words occur, in any case.  The results are sorted:
 *     1. what is refused comes last;
 *     2. texts with the whole words, then those with beginnings of words, then other parts of
 * words;
 *     3. terms, options, verbs, pages, folders, options without effect;
 *     4. words in the name before words in the text.
 * Options that are refused for one reason are one result with their number.
 * Pages and folders are tables that were made of docs/ and CONTRIBUTING.md when the program was
 * built (build-aux/pages.awk), so that nothing is read.  TR_ECONFIG if there is nothing.
 */
enum tr_status tr_search(FILE *f, int n, char **words) TR_MUST_CHECK;

/* The headings below which an option, with its dashes, is named: "docs: bench.md, Heading";
   nothing where there are none. */
void tr_search_option(FILE *f, const char *option);

#endif
