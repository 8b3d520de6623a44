/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_TASK_PARTS_H
#define TR_DATA_TASK_PARTS_H

#include <jansson.h>

#include "data/task.h"
#include "util/file.h"
#include "util/rng.h"

/* Common parts of the files of data/task.h: a task as its format sees it. */

/* Each is a struct tr_task_format tr_task_NAME of a file of its own. */
#define TR_TASK_FORMATS(FORMAT) \
    FORMAT(TEXT, text)          \
    FORMAT(P3, p3)              \
    FORMAT(NI, ni)              \
    FORMAT(COT, cot)            \
    FORMAT(MMAP, mmap)

struct tr_task {
    char *name;       /* owned; as in --task-name */
    char *path;       /* owned; the file, folder or prefix */
    const char *list; /* of ni */
    int number;       /* in --task-name, from 0 */
    int64_t tokens, vocab;
    uint64_t seed;
    bool in_order;
    const struct tr_tokenizer *tokenizer;
    struct tr_tokenizer_thread *thread;
    const struct tr_task_format *format;
    void *own; /* of the format */
};

struct tr_task_format {
    enum tr_status (*open)(struct tr_task *t);
    void (*close)(
        struct tr_task *t); /* also after open() failed, with `own` NULL or as far as it got */
    /* Sequence j into out[t->tokens].  Calls come in order, from 0 on after open() and rewind(), unless there is no
       rewind(): then in any order. */
    enum tr_status (*make)(struct tr_task *t, int64_t j, int32_t *out);
    void (*rewind)(struct tr_task *t);
};
#define TR_TASK_DECLARE(symbol, name) extern const struct tr_task_format tr_task_##name;
TR_TASK_FORMATS(TR_TASK_DECLARE)
#undef TR_TASK_DECLARE

/* Draws for sequence j of a task. */
struct tr_task_draws {
    struct tr_rng rng;
    uint64_t next;
};
struct tr_task_draws tr_task_draws(const struct tr_task *t, int64_t sequence);
int64_t tr_task_below(struct tr_task_draws *d, int64_t count); /* count < 2^32 */
bool tr_task_chance(struct tr_task_draws *d, double probability);

/* One of a list of strings, each as often as it is in it. */
#define TR_TASK_ONE_OF(draws, list) \
    ((list)[tr_task_below(draws, (int64_t)(sizeof(list) / sizeof *(list)))])

/* Append the tokens of a text, and what the tokenizer puts around it.  TR_EDATA, in a sentence that begins with `where`,
   if the tokenizer cannot. */
enum tr_status tr_task_encode(struct tr_task *t, const char *where, const void *text, size_t bytes,
                              struct tr_tokens *out) TR_MUST_CHECK;

/* ---- prompts: text that grows by examples until it has more than enough tokens ---- */

struct tr_task_prompt {
    struct tr_bytes text;    /* owned */
    struct tr_tokens tokens; /* owned: of the text without white space at its ends */
    size_t enough;           /* bytes below which the text is not tokenized */
};
void tr_task_prompt_begin(struct tr_task_prompt *p, const struct tr_task *t);
void tr_task_prompt_add(struct tr_task_prompt *p, const char *text);
void tr_task_prompt_add_bytes(struct tr_task_prompt *p, const void *text, size_t bytes);

/* Whether there are more tokens than a sequence has; called after each example. */
enum tr_status tr_task_prompt_full(struct tr_task_prompt *p, struct tr_task *t, const char *where,
                                   bool *full) TR_MUST_CHECK;
void tr_task_prompt_release(struct tr_task_prompt *p);

/* ---- orders ---- */

/* 0 .. count - 1, in another order in each pass: a shuffle by draws of the task, or as they are. */
struct tr_task_order {
    int64_t count, at, pass; /* the next one is order[at] */
    uint32_t *order;         /* owned */
};
enum tr_status tr_task_order_open(struct tr_task_order *o, const struct tr_task *t,
                                  int64_t count) TR_MUST_CHECK;
void tr_task_order_rewind(struct tr_task_order *o, const struct tr_task *t);
int64_t tr_task_order_next(struct tr_task_order *o, const struct tr_task *t);
void tr_task_order_release(struct tr_task_order *o);

/* ---- JSON lines ---- */

struct tr_task_lines {
    struct tr_map *file; /* [files], owned */
    int files;
    struct tr_task_line {
        const unsigned char *text;
        int32_t bytes, number; /* in its file, from 1 */
    } * line;                  /* [count], owned: those that are not blank */
    size_t count, capacity;
};

/* Those of t->path, a file or a folder of .jsonl files in the order of their names. */
enum tr_status tr_task_lines_open(struct tr_task_lines *l, const struct tr_task *t) TR_MUST_CHECK;
void tr_task_lines_release(struct tr_task_lines *l);

/* A line as an object, owned by the caller; and a string in it, borrowed.  TR_EDATA with file and line. */
enum tr_status tr_task_line_object(const struct tr_task_lines *l, int64_t k,
                                   json_t **out) TR_MUST_CHECK;
enum tr_status tr_task_line_string(const struct tr_task_lines *l, int64_t k, const json_t *object,
                                   const char *key, const char **text, size_t *bytes) TR_MUST_CHECK;
/* "FILE:LINE", owned by the caller. */
char *tr_task_line_place(const struct tr_task_lines *l, int64_t k);

#endif
