/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_TASK_H
#define TR_DATA_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "token/tokenizer.h"
#include "util/status.h"

/*
 * Weighted tasks, CocktailSGD's --task-name "name[:weight],name[:weight]...": an endless order of sequences of N
 * tokens, each of one task, made of text while the run goes on.
 *
 *     text   JSON lines with "text" (pile, rp_sample, PATH.jsonl).  Each is tokenized by itself, and their
 *            tokens form one stream that is cut every N.
 *     p3     JSON lines with "inputs" and "targets" (p3, PATH.jsonl where the path has "p3" in it): examples
 *            behind each other until there are more than N tokens, of which the first N are taken.
 *     ni     Natural Instructions: a definition and examples of one of its tasks, in the same way.
 *     cot    mmlu-cot.json, an object of texts: their tokens until there are N; what is left of the last is dropped.
 *     mmap   PREFIX of .bin and .idx: the tokens of its documents form one stream that is cut every N.
 *
 * Lines, texts and documents are taken in a new order each time all were seen.  What the tokenizer puts around a
 * text (tr_tokenizer_special()) is around each text here.  docs/tasks.md has the prompts of p3 and ni.
 *
 * Every draw is a function of --seed (util/rng.h): position k is of the first task whose cumulative weight is above
 * draw k of the stream TR_STREAM_TASK_CHOICE, and is the next sequence of that task; sequence j of task i follows
 * from seed, i and j.  So position k is the same for every layout, and for a run that resumes; for text, p3,
 * cot and mmap what lies before is made again then, because where a sequence begins depends on it.
 *
 * Each task has a thread that makes sequences ahead of those asked for.
 */
struct tr_tasks;

struct tr_tasks_how {
    const char *spec, *folder;            /* --task-name, --task-dir; borrowed for the call */
    const struct tr_tokenizer *tokenizer; /* borrowed until close */
    int64_t tokens;                       /* N */
    int64_t vocab;                        /* mmap: what a token must be below */
    uint64_t seed;
    int64_t ahead; /* sequences that are made ahead, of each task */
    bool in_order; /* lines, texts and documents in the order of the files, for evaluation */
};

enum { TR_TASKS_MOST = 1024 };

/* Finds and opens the files of all tasks.  TR_ECONFIG, TR_EIO or TR_EDATA in a sentence with the task, the file
   and the place in it.  Not collective. */
enum tr_status tr_tasks_open(const struct tr_tasks_how *how, struct tr_tasks **out) TR_MUST_CHECK;
void tr_tasks_close(struct tr_tasks *x);

/* Tasks, their names, borrowed, and their weights, which sum to 1. */
int tr_tasks_count(const struct tr_tasks *x);
const char *tr_tasks_name(const struct tr_tasks *x, int task);
double tr_tasks_weight(const struct tr_tasks *x, int task);

/* The task of a position of the order, any from 0 on. */
int tr_tasks_choose(const struct tr_tasks *x, int64_t position);

/* The same, with the draw, and the cumulative weight that it is below. */
int tr_tasks_draw(const struct tr_tasks *x, int64_t position, double *p, double *below);

/* The sequence at a position into text[N]; waits for its thread.  One thread at a time.  TR_EIO or TR_EDATA, with file
   and line, if its text cannot be read. */
enum tr_status tr_tasks_sample(struct tr_tasks *x, int64_t position, int32_t *text) TR_MUST_CHECK;

/* How often tr_tasks_sample() had to wait for a thread, of how many calls. */
void tr_tasks_waits(const struct tr_tasks *x, int64_t *waits, int64_t *calls);

#endif
