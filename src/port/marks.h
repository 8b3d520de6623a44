/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_MARKS_H
#define TR_PORT_MARKS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Text in which some parts are not known: what a shell would only know when it runs.  Such a part
 * is the source that stands for it, "$HOME" or "$(hostname)", between two marks.
 */
enum { TR_MARK_OPEN = '\1', TR_MARK_CLOSE = '\2' };

struct tr_list {
    int count;
    char **item; /* owned */
};

/* Append a copy of n bytes, or take over a text. */
void tr_list_add(struct tr_list *l, const char *text, size_t n);
void tr_list_take(struct tr_list *l, char *text);
void tr_list_release(struct tr_list *l);

/* Text that grows; `any` is true once something, even nothing in quotes, was added. */
struct tr_gathering {
    char *text;
    size_t n, size;
    bool any;
};
void tr_gather(struct tr_gathering *g, const char *text, size_t n);
void tr_gather_unknown(struct tr_gathering *g, const char *source, size_t n);
/* What was gathered, owned by the caller; empty again. */
char *tr_gathered(struct tr_gathering *g);

/* True if a part is not known. */
bool tr_marked(const char *text);

/* A copy without marks, for people. */
char *tr_unmarked(const char *text);

/* Quotes where `trireme train @FILE` needs them; owned by the caller. */
char *tr_quoted(const char *text);

/* The file name behind the last slash. */
const char *tr_basename(const char *path);

#endif
