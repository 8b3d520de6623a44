/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_OPTIONS_PARTS_H
#define TR_PORT_OPTIONS_PARTS_H

#include "port/options.h"

/* What options.c, folders.c and habits.c share. */

/* Whose rows they are, as bits. */
enum {
    TR_PORT_MEGATRON = 1,
    TR_PORT_COCKTAIL = 2,
    TR_PORT_ACSGD = 4,
    TR_PORT_DEEPSPEED = 8,
    TR_PORT_TEXT = 16,    /* AC-SGD's language models, in ADDED */
    TR_PORT_CLASSES = 32, /* its classifier, in ADDED */
    TR_PORT_ANY = 64,     /* of any of them, in VARIABLE */
    TR_PORT_SLOW = TR_PORT_COCKTAIL | TR_PORT_ACSGD
};
int tr_port_bits(enum tr_dialect d);

/* The conversions of dialects.def. */
enum tr_port_conversion {
    SAME,
    FLAG,
    PER_STAGE,
    PER_REPLICA,
    MICRO_STEPS,
    EVAL_STEPS,
    EVAL_BATCHES,
    SAVE_STEPS,
    TOKENS,
    UNLESS_TOKENS,
    ONLY_1,
    EXPERTS,
    LOAD,
    NOTHING,
    UNLESS_TRUE,
    EVALUATE,
    IF_GROUPED,
    IF_ROTARY,
    IF_SCALED,
    FAMILY,
    PUT,
    UNLESS_PUT,
    MODEL,
    WEIGHTS,
    RESUME,
    RESUME_FROM,
    TOKENIZER,
    BARE,
    RANKS,
    REPLICAS,
    DATASET
};

struct tr_port_row {
    int dialects;
    const char *name;
    enum tr_port_conversion how;
    const char *ours, *why;
};

/* The row of that name for these dialects, or NULL. */
const struct tr_port_row *tr_port_row(int dialects, const char *name);

/* An option of theirs: its name, its n values, which are borrowed, and its words at .. end - 1 of p->words. */
struct tr_port_option {
    char *name; /* owned */
    const char **value;
    int n, at, end;
};

/* What becomes of one; takes the texts `ours` and `why`, which may be NULL. */
void tr_port_add_item(struct tr_port *p, enum tr_port_kind kind, const struct tr_port_option *o,
                      char *ours, char *why);

/* Our option with these values: done if the parser takes it, open if a value is not known, else refused. */
void tr_port_add_ours(struct tr_port *p, const struct tr_port_option *o, const char *name,
                      const char *const *value, int n, const char *why);

/* A line that no option of theirs asks for, unless there is one of that name. */
void tr_port_add_line(struct tr_port *p, const char *name, const char *value);

/* Whether an option of ours is among the lines that were made. */
bool tr_port_made(const struct tr_port *p, const char *name);

/* The last value of an option of theirs: "" of one without, NULL if it is not given. */
const char *tr_port_value(const struct tr_port *p, const char *name);

/* The number behind an option of theirs, or `otherwise`; -1 if it is not known. */
long tr_port_number(const struct tr_port *p, const char *name, long otherwise);

/* Whether a line of AC-SGD is of its classifier, by the program or the task. */
bool tr_port_classifies(const struct tr_port *p);

/* Their replicas: --data-group-size, or as many as the ranks allow; 0 if that is not known. */
long tr_port_replicas(const struct tr_port *p);

/* "true" means true, and anything else false; an option that is not given is `otherwise`. */
bool tr_port_true(const struct tr_port *p, const char *name, bool otherwise);

/* Fill p->started from p->launcher (launcher.c). */
void tr_port_explain_launcher(struct tr_port *p);

/* Whose options the program and the words are (port.c). */
enum tr_dialect tr_port_guess(const struct tr_port *p);

/* The conversions from MODEL on (folders.c). */
void tr_port_convert_folder(struct tr_port *p, const struct tr_port_option *o,
                            const struct tr_port_row *row);

/* With a folder of a model: that its depth is what --num-layers of one GPU says (folders.c). */
void tr_port_convert_depth(struct tr_port *p, const struct tr_port_option *o,
                           const struct tr_port_row *row);

/* What they do without an option, and what they read from variables (habits.c). */
void tr_port_add_habits(struct tr_port *p);
void tr_port_add_variables(struct tr_port *p);

#endif
