/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_STATUS_H
#define TR_UTIL_STATUS_H

#include "util/attributes.h"

/*
 * How a call says that it failed.
 *
 * A function that can fail for reasons of the user or the machine returns an enum tr_status and has
 * recorded, with TR_FAIL(), one sentence: what is wrong, why it matters, what to type.  The caller
 * passes it up with TR_TRY() and adds nothing; main() prints it once and exits with the code that
 * belongs to the status.  Between ranks, tr_comm_agree() (comm/comm.h) makes all of them fail
 * together with the sentence of one.
 *
 * A programming error is not a status: TR_ASSERT() ends the job.  Neither is a transport that breaks
 * after setup: tr_die() ends the job, because no rank can go on alone.
 */
enum tr_status {
#define STATUS(symbol, exit_code, meaning) symbol,
#include "util/status.def"
#undef STATUS
    TR_STATUSES
};

/* The exit code of the program for `s`, as sysexits.h counts: 0, 64..75. */
int tr_status_exit_code(enum tr_status s);

/* The meaning of `s` in a few words; static storage. */
const char *tr_status_text(enum tr_status s);

/*
 * Record the sentence of a failure and return `s`, so that `return TR_FAIL(TR_EDATA, "...")` reads as
 * one thing.  The sentence has no trailing newline and at most 1023 bytes; the last one wins.  Where
 * it was raised goes to the debug log, never into the sentence.
 */
enum tr_status tr_fail(enum tr_status s, const char *file, int line, const char *fmt, ...)
    TR_PRINTF(4, 5);
#define TR_FAIL(status, ...) tr_fail((status), __FILE__, __LINE__, __VA_ARGS__)

/* Failures of the calling thread are recorded in `sentence` from now on, and nowhere else; with NULL where others
   are.  For threads beside the one that trains, which hands the sentence on. */
enum { TR_SENTENCE = 1024 };
void tr_fail_into(char sentence[TR_SENTENCE]);

/* The sentence of the last failure of this process, or "" if there was none.  Borrowed until the
   next failure.  Set by tr_comm_agree() as well, to the sentence of the rank that failed. */
const char *tr_last_error(void);

/* Show that sentence as an error on stderr, from rank 0, once: nothing happens when it was shown or
   there is none.  main() calls it last; a verb on several ranks calls it before the ranks part,
   because the first to leave takes the others along. */
void tr_report_error(void);

/* Pass a failure up: return from the enclosing function if `call` is not TR_OK. */
#define TR_TRY(call)                            \
    do {                                        \
        enum tr_status tr_try_status_ = (call); \
        if (tr_try_status_ != TR_OK)            \
            return tr_try_status_;              \
    } while (0)

/*
 * End the whole job now: print the sentence on stderr with rank and host, run the hook set by
 * tr_on_die() (which is MPI_Abort once MPI is up), and exit with the code of `s`.  For broken
 * transports and for failures that leave the ranks unable to agree.
 */
TR_NORETURN void tr_die(enum tr_status s, const char *fmt, ...) TR_PRINTF(2, 3);

/* The hook that takes the other ranks along; called with the exit code and the sentence, may not
   return. */
void tr_on_die(void (*hook)(int exit_code, const char *sentence));

/* What tr_die() calls before that hook, with the exit code and the sentence; NULL for nothing.  It may
   fail, but must not come back here. */
void tr_on_last_words(void (*hook)(int exit_code, const char *sentence));

/* Call it, from elsewhere than tr_die(): by who is about to end the process. */
void tr_last_words(int exit_code, const char *sentence);

/* The host that the failure points at, which the next sentence of tr_die() or tr_fail() names: a job may
   be started again without it.  Several are separated by commas.  The last word wins; "" (at the
   start, too) points at none.  At most 255 bytes are kept. */
void tr_suspect(const char *host);
const char *tr_suspected(void);

/* A condition that only a bug of this program can break.  Always compiled in, outside kernels. */
#define TR_ASSERT(condition)                                                                    \
    ((condition) ? (void)0                                                                      \
                 : tr_die(TR_EINTERNAL, "%s:%d: this cannot be: %s is false; please report it", \
                          __FILE__, __LINE__, #condition))

#endif
