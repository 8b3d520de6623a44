/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_PORT_H
#define TR_PORT_PORT_H

#include <stdio.h>

#include <jansson.h>

#include "port/script.h"

/* Whose options a script has.  TR_DIALECT_AUTO lets the script tell. */
enum tr_dialect {
    TR_DIALECT_AUTO,
    TR_DIALECT_MEGATRON,
    TR_DIALECT_DEEPSPEED,
    TR_DIALECT_COCKTAIL,
    TR_DIALECT_ACSGD,
    TR_DIALECT_YUAN /* programs with their settings in themselves: programs.def */
};

/* What becomes of an option of theirs; the names are tr_port_kind_name()'s. */
enum tr_port_kind {
    TR_PORT_DONE,    /* it is ours, or has been converted */
    TR_PORT_GIVEN,   /* it says what is done anyway */
    TR_PORT_IGNORED, /* nothing follows from it */
    TR_PORT_REFUSED,
    TR_PORT_UNKNOWN, /* no known program has such an option */
    TR_PORT_OPEN,    /* it would be done, but its value is not known before the script runs */
    TR_PORT_KINDS
};

struct tr_port_item {
    enum tr_port_kind kind;
    char *theirs; /* "--name value" */
    char *ours;   /* lines of an argument file, or NULL */
    char *why;    /* or NULL */
    int at, end;  /* theirs are the words at .. end - 1 of tr_port.words */
    bool other;   /* ours has another name or other values than theirs */
};

/* What is known besides the words where they are run, and not only read (port/translate.h). */
struct tr_port_known {
    bool runs;
    int ranks;       /* of the launch */
    int64_t layers;  /* in config.json of the model's folder; 0: there is none */
    char *type;      /* its model_type, or NULL; owned */
    char *tokenizer; /* a folder in place of --tokenizer-name, or NULL; owned */
};

struct tr_port {
    enum tr_dialect dialect;
    struct tr_script script;
    int line;      /* of the command that trains; 0 for a list of arguments */
    char *program; /* its program, or NULL */
    int others;    /* commands of the script that train as well, and were not looked at */
    struct tr_list launcher, words; /* before and behind the program, with marks */
    struct tr_list started;         /* what becomes of each word of the launcher, launchers.def */
    struct tr_port_item *item;
    int items;
    struct tr_list
        added; /* lines of an argument file for what they do without an option, and at last for variables */
    int habits; /* how many of them are not for variables */
    struct tr_list
        taken; /* what became of each variable of the environment, or of the script, that is set */
    struct tr_list missing; /* names of options that `trireme train` needs and nobody gave */
    int count[TR_PORT_KINDS];
    struct tr_port_known known;
};

const char *tr_port_kind_name(enum tr_port_kind kind);

/*
 * Read a job script or a list of arguments and say what becomes of each option; of a program that is run without
 * any, of those that programs.def has for it.  `defined` as
 * tr_script_read() takes it.  TR_ECONFIG if no command trains; release it in any case.
 */
enum tr_status tr_port_read(const char *text, enum tr_dialect dialect,
                            const struct tr_list *defined, struct tr_port *out) TR_MUST_CHECK;
void tr_port_release(struct tr_port *p);

/* True if nothing is left to do by hand: nothing refused, unknown, open or missing. */
bool tr_port_whole(const struct tr_port *p);

/* For people; as one JSON object, owned by the caller. */
void tr_port_print(const struct tr_port *p, const char *file, FILE *f);
json_t *tr_port_json(const struct tr_port *p, const char *file);

/* An argument file for `trireme train @FILE`; what has no value yet stands in comments.  Owned
   by the caller. */
char *tr_port_args(const struct tr_port *p, const char *file);

/*
 * A job file in the manner of jobs/ that trains with the argument file `args`: the directives of
 * the script with a task for each GPU.  TR_ECONFIG, with what to type, if nothing says how many
 * GPUs there are; `ranks` above 0 says it.
 */
enum tr_status tr_port_job(const struct tr_port *p, const char *file, const char *args, int ranks,
                           char **out) TR_MUST_CHECK;

#endif
