/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/text.h"
#include "util/write.h"

static struct {
    int rank, world;
    enum tr_level shown;
} who = {0, 1, TR_LOG_WARNING};

void tr_log_init(int rank, int world)
{
    who.rank = rank;
    who.world = world;
}

enum tr_level tr_log_level(enum tr_level level)
{
    const enum tr_level before = who.shown;

    who.shown = level;
    return before;
}

/* ---- the file of records ---- */

static struct {
    FILE *f;
    bool lost;
} records;

int tr_log_file(const char *path)
{
    FILE *f = fopen(path, "ae");

    if (!f)
        return errno;
    if (records.f)
        fclose(records.f);
    records.f = f;
    return 0;
}

static void put_record(const char *level, const char *line, size_t bytes)
{
    struct timespec now;
    struct tm local;
    char when[32];

    if (!records.f || bytes == 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    fprintf(records.f, "%s,%03ld - trireme - %s - %.*s\n", when, now.tv_nsec / 1000000, level,
            (int)bytes, line);
}

static void put_records(const char *level, const char *text)
{
    for (const char *end; records.f && *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        put_record(level, text, (size_t)(end - text));
    }
    if (!records.f || fflush(records.f) == 0 || records.lost)
        return;
    records.lost = true;
    tr_output_lost("cannot write the file of --log-file: %s", strerror(errno));
}

/* Names of files, and what is in them, are in diagnostics; lines stay lines. */
static void make_printable(char *text)
{
    char *end;

    for (; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        tr_printable(text);
        *end = '\n';
    }
    tr_printable(text);
}

static void diagnose(enum tr_level level, const char *fmt, va_list ap)
{
    static const char *const words[] = {"error: ", "warning: ", "", "debug: "};
    static const char *const levels[] = {"ERROR", "WARNING", "INFO", "DEBUG"};
    char line[2048];
    int n, words_at;

    if (level > who.shown)
        return;
    if (who.world > 1)
        words_at = snprintf(line, sizeof line, "trireme[%d]: ", who.rank);
    else
        words_at = snprintf(line, sizeof line, "trireme: ");
    n = words_at + snprintf(line + words_at, sizeof line - (size_t)words_at, "%s", words[level]);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    make_printable(line);
    put_records(levels[level], line + words_at);
    line[n++] = '\n';
    /* Both may go to one file: what stdout holds back stands before it.  Its loss shows at the end.
     */
    (void)fflush(stdout);
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

/* ---- output that could not be written ---- */

static struct {
    char sentence[1024];
    bool no_stdout;
} lost;

void tr_output_lost(const char *fmt, ...)
{
    char sentence[sizeof lost.sentence];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    if (lost.sentence[0] == '\0')
        memcpy(lost.sentence, sentence, sizeof sentence);
    tr_log(TR_LOG_WARNING, "%s", sentence);
}

const char *tr_output_missing(void)
{
    static const char words[] = "cannot write to the standard output";

    if (fflush(stdout) != 0 && lost.sentence[0] == '\0')
        snprintf(lost.sentence, sizeof lost.sentence, "%s: %s", words, strerror(errno));
    if (ferror(stdout) && lost.sentence[0] == '\0')
        snprintf(lost.sentence, sizeof lost.sentence, "%s; is its disk full?", words);
    return lost.sentence[0] == '\0' ? NULL : lost.sentence;
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
        if (text) {
            vsnprintf(text, (size_t)n + 1, fmt, again);
        } else {
            tr_output_lost("no memory left for a line of the log");
            text = small;
            n = (int)sizeof small - 1;
        }
    }
    va_end(again);
    /* The run continues until it has saved. */
    if ((fflush(stdout) != 0 || (n > 0 && tr_write_all(STDOUT_FILENO, text, (size_t)n) != 0)) &&
        !lost.no_stdout) {
        lost.no_stdout = true;
        tr_output_lost("cannot write to the standard output: %s", strerror(errno));
    }
    put_records("INFO", text);
    if (text != small)
        free(text);
}

static bool is_brief;

void tr_print_brief(bool brief)
{
    is_brief = brief;
}

bool tr_print_is_brief(void)
{
    return is_brief;
}

void tr_print(const char *fmt, ...)
{
    va_list ap;

    if (is_brief)
        return;
    va_start(ap, fmt);
    print(fmt, ap);
    va_end(ap);
}

void tr_print_rank0(const char *fmt, ...)
{
    va_list ap;

    if (is_brief || who.rank != 0)
        return;
    va_start(ap, fmt);
    print(fmt, ap);
    va_end(ap);
}

static bool has_details;

void tr_print_details(bool wanted)
{
    has_details = wanted;
}

void tr_detail_rank0(const char *fmt, ...)
{
    va_list ap;

    if (is_brief || !has_details || who.rank != 0)
        return;
    va_start(ap, fmt);
    print(fmt, ap);
    va_end(ap);
}

void tr_notice(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    print(fmt, ap);
    va_end(ap);
}

void tr_notice_rank0(const char *fmt, ...)
{
    va_list ap;

    if (who.rank != 0)
        return;
    va_start(ap, fmt);
    print(fmt, ap);
    va_end(ap);
}
