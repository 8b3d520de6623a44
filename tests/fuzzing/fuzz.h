/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_FUZZING_FUZZ_H
#define TR_TESTS_FUZZING_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/status.h"

/*
 * Parsers on input that nobody wrote.  A target is a file of this folder and a row of targets.def.
 * One program has all of them: driver.c gives it changed inputs of a number that can be had again,
 * or libfuzzer.c those that clang's libFuzzer thinks of.  `tests/fuzz` builds and runs both.
 *
 * A run is bad if the parser crashes, ends the program (tr_die, TR_ASSERT), takes more than seconds
 * or gigabytes, or breaks what its header says, which run() checks with MUST.
 */
enum { FUZZ_MOST = 1 << 18 }; /* bytes of an input */

struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
    /* Valid input number `n` as the program writes it: its length, 0 if there is none.  NULL: only
       files are. */
    size_t (*seed)(int n, uint8_t *out, size_t most);
    const char *const *words; /* what such a file is made of, NULL at the end; NULL: nothing */
    const char *files;        /* pattern of valid inputs below the source folder, or NULL */
};

#define TARGET(name) extern const struct fuzz_target fuzz_##name;
#include "fuzzing/targets.def"
#undef TARGET

/* The target of that name, and number n of all, or NULL. */
const struct fuzz_target *fuzz_find(const char *name);
const struct fuzz_target *fuzz_number(int n);

/* Make the folder of this process, under $TMPDIR, and have tr_die() abort.  The folder and what is in
   it go with fuzz_end(). */
void fuzz_begin(void);
void fuzz_end(void);

/* A path in that folder, valid until the eighth call after; and a file there, whole. */
const char *fuzz_path(const char *name);
void fuzz_put(const char *name, const void *data, size_t size);
size_t fuzz_get(const char *name, uint8_t *out, size_t most);

/* Like fuzz_get() with any path; 0 if it cannot be read. */
size_t fuzz_read(const char *path, uint8_t *out, size_t most);

/* Input n of a target: seeds, files that match, files of corpus/NAME.  Its length, 0 if there is none. */
size_t fuzz_input(const struct fuzz_target *t, int n, uint8_t *out, size_t most);

/* Where what is printed about inputs goes. */
FILE *fuzz_nowhere(void);

/* Well or refused, both are right. */
static inline void fuzz_any(enum tr_status status)
{
    (void)status;
}

#define MUST(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

#endif
