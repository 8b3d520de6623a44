/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

static const struct {
    int exit_code;
    const char *text;
} statuses[] = {
#define STATUS(symbol, exit_code, meaning) {exit_code, meaning},
#include "util/status.def"
#undef STATUS
};

static char last_error[TR_SENTENCE];
static _Thread_local char *own_error;
static char suspected[256];
static int reported = 1;
static void (*die_hook)(int exit_code, const char *sentence);
static void (*words_hook)(int exit_code, const char *sentence);

int tr_status_exit_code(enum tr_status s)
{
    return statuses[s].exit_code;
}

const char *tr_status_text(enum tr_status s)
{
    return statuses[s].text;
}

enum tr_status tr_fail(enum tr_status s, const char *file, int line, const char *fmt, ...)
{
    /* Through a second buffer, so that a sentence may quote the one before it. */
    char sentence[sizeof last_error];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    if (own_error) {
        memcpy(own_error, sentence, sizeof sentence);
        return s;
    }
    memcpy(last_error, sentence, sizeof last_error);
    reported = 0;
    tr_log(TR_LOG_DEBUG, "%s:%d: %s", file, line, last_error);
    return s;
}

void tr_fail_into(char sentence[TR_SENTENCE])
{
    own_error = sentence;
}

void tr_suspect(const char *host)
{
    snprintf(suspected, sizeof suspected, "%s", host);
}

const char *tr_suspected(void)
{
    return suspected;
}

const char *tr_last_error(void)
{
    return last_error;
}

void tr_report_error(void)
{
    if (!reported)
        tr_log_rank0(TR_LOG_ERROR, "%s", last_error);
    reported = 1;
}

void tr_die(enum tr_status s, const char *fmt, ...)
{
    char sentence[sizeof last_error], host[256] = "";
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    gethostname(host, sizeof host - 1);
    tr_log(TR_LOG_ERROR, "%s (on %s)", sentence, host);
    fflush(stdout);
    tr_last_words(statuses[s].exit_code, sentence);
    if (die_hook)
        die_hook(statuses[s].exit_code, sentence);
    _exit(statuses[s].exit_code);
}

void tr_on_die(void (*hook)(int exit_code, const char *sentence))
{
    die_hook = hook;
}

void tr_last_words(int exit_code, const char *sentence)
{
    if (words_hook)
        words_hook(exit_code, sentence);
}

void tr_on_last_words(void (*hook)(int exit_code, const char *sentence))
{
    words_hook = hook;
}
