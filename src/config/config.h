/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_CONFIG_H
#define TR_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/option.h"
#include "family/family.h"
#include "util/status.h"

/* The values of CHOICE options: TR_LR_COSINE, TR_PIPE_1F1B, ...; enums.def is the list. */
enum {
#define VALUE(set, symbol, value, spelling) symbol = value,
#include "config/enums.def"
};

/*
 * The options of a run: one field for each OPT row of options.def, named as the option with '_'
 * for '-'.  What was not given is its default, or TR_UNSET_INT, TR_UNSET_REAL, NULL or no words
 * where it has none.  Numbers that follow from several options are in struct tr_shape.
 *
 * Texts are owned by the struct.  Set fields of a number, flag or choice as you like; texts and
 * words only with tr_config_set().
 */
struct tr_config {
#define TR_FIELD_INT int64_t
#define TR_FIELD_REAL double
#define TR_FIELD_MINUTES double
#define TR_FIELD_FLAG bool
#define TR_FIELD_TEXT char *
#define TR_FIELD_WORDS struct tr_words
#define TR_FIELD_CHOICE(set) int
#define OPT(group, type, field, name, initial, check, help) TR_FIELD_##type field;
#include "config/options.def"
#undef TR_FIELD_INT
#undef TR_FIELD_REAL
#undef TR_FIELD_MINUTES
#undef TR_FIELD_FLAG
#undef TR_FIELD_TEXT
#undef TR_FIELD_WORDS
#undef TR_FIELD_CHOICE
    /* No option: what is in --vocab-file, where it was read before; size 0: it was not. */
    struct tr_vocab_file {
        int64_t size, eod;
    } vocab_known;
    /* No option: samples of training, validation and test in the data with --n-epochs, where they
       were counted before (data/batch.h). */
    struct tr_blocks_known {
        bool counted;
        int64_t of[3];
    } blocks_known;
};
struct tr_args;

/* Every option at its default. */
void tr_config_init(struct tr_config *c);
void tr_config_release(struct tr_config *c);

/*
 * Take options from the words argv[0..argc-1] (no program name), after what was set before; of two
 * values for one option the later counts.  TR_ECONFIG with a sentence for an unknown name (with
 * the nearest known one), a value of the wrong kind or out of range, an option that this version
 * refuses.  Warnings go to tr_log_rank0(), so call tr_log_init() first.  See tr_options_parse()
 * for the syntax, @FILE included.
 */
enum tr_status tr_config_parse(struct tr_config *c, int argc, char **argv) TR_MUST_CHECK;

/* The same from words whose argument files have been opened up (config/words.h). */
enum tr_status tr_config_parse_args(struct tr_config *c, const struct tr_args *words) TR_MUST_CHECK;

/* The same from a text, written as an argument file is: for tests and golden cases. */
enum tr_status tr_config_parse_text(struct tr_config *c, const char *text) TR_MUST_CHECK;

/* One option by its name, with or without "--".  `value` is what would be typed after it; words
   are separated by blanks; a flag takes "on" or "off".  NULL unsets what has no default. */
enum tr_status tr_config_set(struct tr_config *c, const char *name,
                             const char *value) TR_MUST_CHECK;

/* True if an option, named without "--", has another value than its default.  What was given its
   default counts as not given. */
bool tr_config_changed(const struct tr_config *c, const char *name);

/* Whether an option, a row of tr_config_options(), must be given and was not: those without a
   default, and
   --max-position-embeddings where positions are learned. */
bool tr_config_lacks(const struct tr_config *c, const struct tr_opt *o);

/* The name, without "--", of the first such option, or NULL. */
const char *tr_config_missing(const struct tr_config *c);

/* The spelling of a CHOICE field: tr_config_spelling("backend", c->backend). */
const char *tr_config_spelling(const char *name, int value);

/* All options as one JSON object of field names, sorted; unset is null, a choice its spelling. With
   `kernels`, that comes last under TR_CONFIG_KERNELS: what computed, which is no option.  Owned by
   the caller. */
#define TR_CONFIG_KERNELS "kernels"
char *tr_config_get_json(const struct tr_config *c, const char *kernels);

/* That text of what tr_config_get_json() made, and that of an option with words, without dashes in
   front; owned by the caller; NULL where it has none. */
char *tr_config_kernels(const char *json);
char *tr_config_stored(const char *json, const char *name);

/* The reverse.  Names that the table lacks are an error, options that `json` lacks keep their
   value.  TR_EDATA for what is not such an object. */
enum tr_status tr_config_load_json(struct tr_config *c, const char *json) TR_MUST_CHECK;

/*
 * The same for the options that describe the model and no others: those of the group "Model", the
 * length of a sample and the tokenizer.  Names that the table lacks are ignored.
 */
enum tr_status tr_config_load_model(struct tr_config *c, const char *json) TR_MUST_CHECK;

/*
 * Megatron's arguments block: "  name .... value" for every option, sorted without regard to case,
 * values as Python prints them, between the two rulers.
 *
 * With `given`, from which *c follows by tr_dims_tell() (config/dims.h), it is short: what has
 * another value than its default in `given`, or in *c where `given` names a family.  And
 * what reports and plans read of a log (facts.def, model_args.def, run_args.def): they make the
 * same of both.  Of more than TR_SHORT_ARGUMENTS such lines those that nothing reads are put
 * together in one, below the block.
 */
enum { TR_SHORT_ARGUMENTS = 24 };
void tr_config_print(const struct tr_config *c, const struct tr_config *given, FILE *f);

/* The default of an option, named with '-' or '_', as that block has it; static storage.  NULL if
   there is no such option. */
const char *tr_config_initial(const char *name);

/* The table itself: for help, manual and completion. */
const struct tr_options *tr_config_options(void);

/* Help on the options that a first run needs (first.def). */
void tr_config_help_first(FILE *f);

/* `trireme help train [group]`: the options in groups, or one group (NULL: all) as
   tr_options_group() takes it.  TR_ECONFIG names the groups if there is no such one. */
enum tr_status tr_config_help(FILE *f, const char *group) TR_MUST_CHECK;

#endif
