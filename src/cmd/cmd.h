/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_CMD_H
#define TR_CMD_CMD_H

#include "config/option.h"

/*
 * The verbs of the program, a row each in verbs.def; verb `foo` is the file foo.c with
 *
 *     int tr_cmd_foo(int argc, char **argv)
 *
 * argv[0] is "foo", what follows was typed after it; returns the exit code of the program
 * (tr_status_exit_code()).  When it is not 0, main() prints tr_last_error(), once and from rank 0
 * only.  "--help" never arrives here: main() answers it from the description
 *
 *     const struct tr_doc tr_doc_foo
 *
 * which is also the page trireme-foo(1).
 */
struct tr_doc {
    /* How it is called, one form a line, each begins with "trireme foo". */
    const char *synopsis;

    /* Paragraphs of plain text, an empty line between two.  A paragraph that begins with a blank
       is shown as it stands: examples, tables. */
    const char *about;

    /* The table of its options; NULL if it has none, or if `about` tells them. */
    const struct tr_options *(*options)(void);

    bool trains; /* it takes those of `trireme train` as well */
};

#define VERB(name, help)                      \
    int tr_cmd_##name(int argc, char **argv); \
    extern const struct tr_doc tr_doc_##name;
#include "cmd/verbs.def"
#undef VERB

struct tr_verb {
    const char *name, *help;
    int (*run)(int argc, char **argv);
    const struct tr_doc *doc;
};

extern const struct tr_verb tr_verbs[];
extern const int tr_verb_count;

/* The verb of that name; NULL, and a recorded sentence with the nearest name, if there is none. */
const struct tr_verb *tr_verb_find(const char *name);

/* "usage: ..." and the list of verbs. */
void tr_usage(FILE *f);

/* Answer `trireme foo --help`, or show one group of its options.  TR_ECONFIG if there is none. */
enum tr_status tr_help_verb(FILE *f, const struct tr_verb *v, const char *group) TR_MUST_CHECK;

#endif
