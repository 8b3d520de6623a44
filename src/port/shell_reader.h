/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_SHELL_READER_H
#define TR_PORT_SHELL_READER_H

#include "port/script.h"

/* Common parts of the script reader. */
enum tr_truth { TR_NO, TR_YES, TR_MAYBE };

enum {
    TR_READER_DEPTH = 8,       /* of texts in texts: eval, bash -c, ${A:-${B}} */
    TR_READER_BYTES = 2 << 20, /* of all that is read and expanded, texts in texts included */
    TR_READER_FRAMES = 64      /* of if and loops in one another */
};

/* An `if`, loop or case: `active` where its commands count, `taken` whether a branch held
   already. */
struct tr_frame {
    bool active;
    enum tr_truth taken;
};

/* A function of the shell, which is read where it is called. */
struct tr_function {
    char *name, *body;
    int line;
};

struct tr_shell_reader {
    struct tr_script *script;
    struct tr_function *function;
    int functions;
    const struct tr_list
        *arguments; /* words of the function that is read, its name first, or NULL */
    struct tr_script_variable argument; /* one or all of them, as tr_variable() gave them last */
    char *item;
    const struct tr_list *defined;
    struct tr_frame frame[TR_READER_FRAMES];
    int frames, line, depth;
    size_t bytes; /* read and expanded so far */
    enum tr_truth last;
    bool full; /* a bound was met: nothing more is read */
};

/* Count bytes that were read or expanded; false when they are too many. */
bool tr_spend(struct tr_shell_reader *r, size_t bytes);

/* Words of a raw word, with the rules of the shell, at the end of `out`; one word if `split` is
   false. */
void tr_expand(struct tr_shell_reader *r, const char *raw, bool split, struct tr_list *out);

/* The same as a text between double quotes; owned by the caller. */
char *tr_expand_quoted(struct tr_shell_reader *r, const char *text, size_t n);

void tr_assign(struct tr_shell_reader *r, const char *name, size_t n, struct tr_list *value,
               bool append);
/* A variable, or a word of the function that is read ($1, $@, $#), until the next call; NULL if
   there is none. */
const struct tr_script_variable *tr_variable(struct tr_shell_reader *r, const char *name, size_t n);
void tr_note(struct tr_shell_reader *r, const char *sentence);

/* Past a word of the source; the length of "NAME" at the start of a text, and past what nests. */
const char *tr_past_word(const char *s, bool test);
const char *tr_past_nested(const char *s, char open, char close);
size_t tr_name_length(const char *s);

/* Does "[ a = b ]" hold, given its words without the brackets? */
enum tr_truth tr_test(const struct tr_list *words);

void tr_read_text(struct tr_shell_reader *r, const char *text);

#endif
