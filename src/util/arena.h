/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_ARENA_H
#define TR_UTIL_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/status.h"

/*
 * All memory that a training step uses comes from one arena, reserved before the first step.
 *
 * A module takes its memory in one function, and that function runs twice.  The first time the arena
 * is dry: tr_arena_take() counts bytes under a label and returns NULL.  Then tr_arena_open() gives
 * the arena the memory that was counted, and the second run hands it out in the same order.  So the
 * plan that is printed and the memory that is used are the same numbers by construction: the
 * planner is the trainer's allocator in dry mode.
 *
 * Blocks lie on 256-byte boundaries, live until tr_arena_release(), and are zero at first use.
 */
enum { TR_ARENA_ALIGN = 256 };

/* What memory is for: LABEL(symbol, "name"), as reports and plans name it and in their order. */
#define TR_LABELS_OF(LABEL)           \
    LABEL(WEIGHTS, "weights")         \
    LABEL(GRADIENTS, "gradients")     \
    LABEL(OPTIMIZER, "optimizer")     \
    LABEL(ACTIVATIONS, "activations") \
    LABEL(LOGITS, "logits")           \
    LABEL(MESSAGES, "messages")       \
    LABEL(COMPRESSION, "compression") \
    LABEL(SCRATCH, "scratch")         \
    LABEL(CACHE, "key-value cache")   \
    LABEL(SNAPSHOT, "snapshot")

enum tr_label {
#define LABEL(symbol, name) TR_LABEL_##symbol,
    TR_LABELS_OF(LABEL)
#undef LABEL
        TR_LABELS
};

/* Blocks in the order in which they were handed out; owned, released with tr_arena_list_release(). */
struct tr_arena_list {
    int count, size;
    struct tr_arena_block {
        enum tr_label label;
        size_t bytes; /* rounded up to the boundary of the next one */
    } * block;
};

struct tr_arena {
    unsigned char *base;   /* NULL while dry */
    size_t capacity_bytes; /* what open() was given */
    size_t used_bytes;
    size_t bytes[TR_LABELS];    /* of them under each label */
    struct tr_arena_list *list; /* borrowed: where each block is written down; NULL: nowhere */
};

/* A dry arena. */
void tr_arena_init(struct tr_arena *a);

/* `bytes` under `label`.  NULL when dry or when bytes is 0.  Asserts that the second run takes no more than
   the first. */
void *tr_arena_take(struct tr_arena *a, enum tr_label label, size_t bytes);

/* Floats of the same. */
float *tr_arena_floats(struct tr_arena *a, enum tr_label label, int64_t count);

/*
 * End the dry run: hand over `memory`, which holds at least a->used_bytes on a 256-byte boundary and
 * is borrowed until release.  The counts start again from zero.
 */
void tr_arena_open(struct tr_arena *a, void *memory);

void tr_arena_list_release(struct tr_arena_list *l);

/* The name of a label. */
const char *tr_label_name(enum tr_label label);

/* One line per label that has some, in their order, in MiB, and the total: "  activations  12.3 MiB". */
void tr_arena_report(const struct tr_arena *a, FILE *f);

#endif
