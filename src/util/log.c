/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/file.h"

static struct {
    int rank, world;
    enum tr_level shown;
} who = {0, 1, TR_LOG_WARNING};

void tr_log_init(int rank, int world)
{
    who.rank = rank;
    who.world = world;
}

void tr_log_level(enum tr_level level)
{
    who.shown = level;
}

static void diagnose(enum tr_level level, const char *fmt, va_list ap)
{
    static const char *const words[] = {"error: ", "warning: ", "", "debug: "};
    char line[2048];
    int n;

    if (level > who.shown)
        return;
    if (who.world > 1)
        n = snprintf(line, sizeof line, "trireme[%d]: %s", who.rank, words[level]);
    else
        n = snprintf(line, sizeof line, "trireme: %s", words[level]);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    /* A diagnostic that cannot be written has nowhere else to go. */
    if (tr_write_all(STDERR_FILENO, line, (size_t)n) != 0)
        return;
}

void tr_log(enum tr_level level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    diagnose(level, fmt, ap);
    va_end(ap);
}

void tr_log_rank0(enum tr_level level, const char *fmt, ...)
{
    va_list ap;

    if (who.rank != 0)
        return;
    va_start(ap, fmt);
    diagnose(level, fmt, ap);
    va_end(ap);
}

static void print(const char *fmt, va_list ap)
{
    char small[4096], *text = small;
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(small, sizeof small, fmt, ap);
    if (n >= (int)sizeof small) {
        text = malloc((size_t)n + 1);
        if (!text)
            tr_die(TR_ERESOURCE, "no memory left for a line of the log");
        vsnprintf(text, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    fflush(stdout);
    /* A log that cannot be written must not end the training that it describes. */
    if (n > 0 && tr_write_all(STDOUT_FILENO, text, (size_t)n) != 0)
        tr_log(TR_LOG_DEBUG, "a line of the log could not be written");
    if (text != small)
        free(text);
}

void tr_print(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    print(fmt, ap);
    va_end(ap);
}

void tr_print_rank0(const char *fmt, ...)
{
    va_list ap;

    if (who.rank != 0)
        return;
    va_start(ap, fmt);
    print(fmt, ap);
    va_end(ap);
}
