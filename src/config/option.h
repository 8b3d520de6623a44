/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_OPTION_H
#define TR_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/value.h"
#include "util/status.h"

/*
 * A table of options and what is made from it: defaults, parser, help, manual, completion.  It
 * knows nothing of training: config.c fills one from options.def, and a verb with options of its
 * own fills another, a few rows long.
 */
enum tr_opt_type {
    TR_OPT_INT,
    TR_OPT_REAL,
    TR_OPT_MINUTES,
    TR_OPT_FLAG,
    TR_OPT_TEXT,
    TR_OPT_WORDS,
    TR_OPT_CHOICE
};

/* What a row of the table is: options.def explains them. */
enum tr_opt_kind {
    TR_ROW_GROUP,
    TR_ROW_OPT,
    TR_ROW_ALIAS,
    TR_ROW_OFF,
    TR_ROW_IGNORED,
    TR_ROW_GIVEN,
    TR_ROW_REFUSED
};

enum tr_opt_check {
    TR_CHECK_ANY,
    TR_CHECK_COUNT,      /* 1 to 2^31 - 1 */
    TR_CHECK_COUNT_OR_0, /* 0 to 2^31 - 1 */
    TR_CHECK_NOT_NEGATIVE,
    TR_CHECK_ABOVE_ZERO,
    TR_CHECK_FRACTION,     /* 0 to 1 */
    TR_CHECK_PROBABILITY,  /* 0 to below 1 */
    TR_CHECK_TIMING_LEVEL, /* 0 to 2 */
    TR_CHECK_SEED          /* 0 to 2^32 - 1 */
};

#define TR_UNSET_INT INT64_MIN
#define TR_UNSET_REAL (-1e300)

struct tr_words {
    int count;
    char **word; /* owned */
};
/* Then it has none. */
void tr_words_release(struct tr_words *w);

/* A spelling of a choice: `set` ties it to an option; `why` is a note or the reason of a refusal.
 */
struct tr_spelling {
    const char *set, *spelling;
    int value;
    enum { TR_SPELLING_MAIN, TR_SPELLING_SAME, TR_SPELLING_REFUSED } kind;
    const char *why;
};

struct tr_opt {
    enum tr_opt_kind kind;
    const char *name;  /* without "--"; of a group: its title */
    const char *group; /* symbol of its group */
    enum tr_opt_type type;
    size_t offset;       /* of the field in the struct */
    const char *initial; /* as typed; NULL unset; tr_required; of GIVEN: the values it may have */
    enum tr_opt_check check;
    const char *set;  /* of spellings, for a choice */
    const char *help; /* or the reason of an IGNORED, GIVEN or REFUSED row */
    int values;       /* words after an IGNORED option */
};

enum { TR_ANY_VALUES = -1 }; /* as many as stand before the next option */

/* The default of an option that must be given. */
extern const char tr_required[];

struct tr_options {
    const char *verb; /* whose they are, for sentences: "train" */
    const struct tr_opt *row;
    int rows;
    const struct tr_spelling *spelling;
    int spellings;
    /* Row i of the values that a TEXT takes and what it means, or false behind the last; NULL: no
       TEXT has a list of values. */
    bool (*listed)(const struct tr_opt *o, int i, const char **value, const char **about);
};

/* The same for any option of the table. */
bool tr_options_listed(const struct tr_options *t, const struct tr_opt *o, int i,
                       const char **value, const char **about);

void tr_options_init(const struct tr_options *t, void *base);
void tr_options_release(const struct tr_options *t, void *base);

/*
 * Set fields of *base from words.
 *     --name value    --name=value    --flag
 *     --words a b c   until the next word that begins with "--"
 *     @FILE           the words of that file: blanks and newlines separate, # begins a comment,
 *                     quotes and backslashes work as in a shell; @FILE in it, from the folder of
 *                     that file, at most 8 deep
 * Words that belong to no option are added to `rest` (copies, owned by the caller), or are an error
 * if it is NULL; "--" ends the options.
 *
 * An option that is given, and that another one stands for (--deepspeed_config, --strategy), must
 * have one value. All words are read, whatever is wrong with some.  One wrong option is the
 * sentence of the failure; of several, each has its line of the log, from rank 0, and the sentence
 * is how many they are.
 */
enum tr_status tr_options_parse(const struct tr_options *t, void *base, int argc, char **argv,
                                struct tr_words *rest) TR_MUST_CHECK;

/* The same from words whose argument files have been opened up (config/words.h). */
struct tr_args;
enum tr_status tr_options_parse_args(const struct tr_options *t, void *base,
                                     const struct tr_args *words,
                                     struct tr_words *rest) TR_MUST_CHECK;

/*
 * For a verb that takes options of a table of its own and of another one together: words that are
 * options of `own`, with the values behind them (one each, of WORDS all up to the next option;
 * --name=value is one word), set fields of
 * *own_base, and all others in their order, which are added to *others, set fields of *base.
 * Errors of both tables are reported together.
 */
enum tr_status tr_options_parse_both(const struct tr_options *own, void *own_base,
                                     const struct tr_options *t, void *base, int argc, char **argv,
                                     struct tr_args *others) TR_MUST_CHECK;

/* The same from the text of an argument file. */
enum tr_status tr_options_parse_text(const struct tr_options *t, void *base,
                                     const char *text) TR_MUST_CHECK;

/* One option by name; see tr_config_set(). */
enum tr_status tr_options_set(const struct tr_options *t, void *base, const char *name,
                              const char *value) TR_MUST_CHECK;

/* Name of the first required option that is unset, or NULL. */
const char *tr_options_missing(const struct tr_options *t, const void *base);

/* The row of that name (aliases give the row of the option), or NULL. */
const struct tr_opt *tr_options_find(const struct tr_options *t, const char *name);

/* The row of that name as it stands, of any kind but a group, or NULL. */
const struct tr_opt *tr_options_row(const struct tr_options *t, const char *name);

/* TR_ECONFIG, with the sentence that there is no such option and which is near; `where` ends it. */
enum tr_status tr_options_unknown(const struct tr_options *t, const char *name, const char *where);

/* True if the field of an option without default was not given. */
bool tr_options_unset(const struct tr_opt *o, const void *base);

/* The main spelling of a choice. */
const char *tr_options_spelling(const struct tr_options *t, const char *set, int value);

/*
 * The name that `word` most likely means among names[n], or NULL: one with at most one letter in
 * five wrong, missing, too many or in the place of its neighbour; else one that it begins; else one
 * that has all its words, two or more, in their order, and at most two others.  '_' is '-'.
 */
const char *tr_nearest_name(const char *word, const char *const *names, int n);

/* The range of an option of numbers, as it stands in sentences: " from 1 to 2147483647", or "". */
const char *tr_options_range(const struct tr_opt *o);

/* One option, by any name that the table knows: what it takes, its range, default, other names
   and group, and what it does; or why it is refused or has no effect.  TR_ECONFIG, with the
   nearest name, if there is none. */
enum tr_status tr_options_about(const struct tr_options *t, FILE *f,
                                const char *name) TR_MUST_CHECK;

/* What the table says about a row in one sentence: its help, or the reason of one that is
   refused or has no effect, with that word before it; owned by the caller. */
char *tr_options_says(const struct tr_options *t, const struct tr_opt *o);

/* The symbol of the group that `text` means: its symbol, its title or the beginning of a word of
   these, in any case.  NULL, and a recorded sentence with all titles, if it means none or
   several. */
const char *tr_options_group(const struct tr_options *t, const char *text);

/* What is typed after the name, "" for a flag: N, TEXT, A|B; owned by the caller. */
char *tr_options_value(const struct tr_options *t, const struct tr_opt *o);

/* The options with their values, defaults and help, in groups: as plain text (one group if `group`
   is its symbol in any case, all if NULL; false if there is none) and as mdoc lists. */
bool tr_options_help(const struct tr_options *t, FILE *f, const char *group);

/* The options of n fields, given by their offsets: value, first clause of the help, default.  A
   heading with their number and what the marks mean stand above them. */
void tr_options_help_first(const struct tr_options *t, FILE *f, const size_t *field, int n);
void tr_options_man(const struct tr_options *t, FILE *f);

/* Words of `text`, broken before the margin; `f` is at column `indent`, where each further line
   begins. */
void tr_options_wrap(FILE *f, int indent, const char *text);

/* `length` bytes of text as mdoc in which nothing is a macro or an escape: line by line as it
   stands, or filled to short lines, with sentences on lines of their own as mdoc wants them. */
void tr_man_literal(FILE *f, const char *s, int length);
void tr_man_filled(FILE *f, const char *s, int length);

/* Bash: the branches of a case statement that say what may follow each option, the last of which
   makes `values` all names.  `others` (may be NULL) is a function that does the same for a second
   table. */
void tr_options_complete(const struct tr_options *t, const char *others, FILE *f);

#endif
