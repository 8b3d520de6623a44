/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_SEARCH_H
#define TR_CMD_SEARCH_H

#include <stdio.h>

#include "util/status.h"

/*
 * `trireme help --search`: options of all verbs, verbs, terms of the glossary, folders of the
 * sources and headings of the pages, where all words occur, in any case and also inside other words.
 * Pages and folders are tables that were made of docs/ and CONTRIBUTING.md when the program was
 * built (build-aux/pages.awk), so that nothing is read.  TR_ECONFIG if there is nothing.
 */
enum tr_status tr_search(FILE *f, int n, char **words) TR_MUST_CHECK;

/* The headings below which an option, with its dashes, is named: "docs: bench.md, Heading";
   nothing where there are none. */
void tr_search_option(FILE *f, const char *option);

#endif
