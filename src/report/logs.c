/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/logs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/plan_file.h"
#include "report/run_log.h"
#include "util/file.h"
#include "util/log.h"

/* ---- the files of a folder ---- */

struct found {
    const char *root;
    char **path; /* [paths], owned */
    int64_t paths, seen;
    bool plans; /* those of JSON, too */
};

static bool is_log_name(const char *name)
{
    static const char *const ends[] = {".log", ".out", ".txt"};
    const char *end = strrchr(name, '.');

    for (size_t i = 0; end && i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(end, ends[i]) == 0)
            return true;
    return false;
}

static bool is_plan_name(const char *name)
{
    const char *end = strrchr(name, '.');

    return end && strcmp(end, ".json") == 0;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static enum tr_status look_into(struct found *f, const char *folder, int depth);

/* Takes the path over. */
static enum tr_status look_at(struct found *f, char *path, int depth)
{
    enum tr_status s = TR_OK;
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        s = look_into(f, path, depth + 1);
    } else if ((is_log_name(path) || (f->plans && is_plan_name(path))) && stat(path, &st) == 0 &&
               S_ISREG(st.st_mode)) {
        f->path = tr_grow(f->path, f->paths, sizeof *f->path);
        f->path[f->paths++] = path;
        return TR_OK;
    }
    free(path);
    return s;
}

static enum tr_status look_into(struct found *f, const char *folder, int depth)
{
    struct dirent **entry;
    enum tr_status s = TR_OK;
    int n;

    if (depth > TR_LOGS_DEPTH)
        return TR_FAIL(TR_ECONFIG,
                       "%s is more than %d folders below %s, where no log is looked for: give a "
                       "folder that is closer to the logs",
                       folder, TR_LOGS_DEPTH, f->root);
    n = scandir(folder, &entry, is_shown, versionsort);
    if (n < 0)
        return TR_FAIL(TR_EIO, "cannot read the folder %s: %s", folder, strerror(errno));
    f->seen += n;
    if (f->seen > TR_LOGS_MOST)
        s = TR_FAIL(TR_ECONFIG,
                    "the folder %s has more than %d files, too many to look for logs in: give a "
                    "folder that is closer to the logs",
                    f->root, TR_LOGS_MOST);
    for (int i = 0; i < n; i++) {
        if (s == TR_OK)
            s = look_at(f, tr_format("%s/%s", folder, entry[i]->d_name), depth);
        free(entry[i]);
    }
    free(entry);
    return s;
}

/* ---- reading ---- */

/* What a log has that is not as it should be, once it has been read. */
static void tell_odd(struct tr_records *runs, const char *log)
{
    for (int o = 0; o < TR_ODDITIES; o++) {
        if (runs->odd[o].count > 0)
            tr_log(TR_LOG_WARNING, "%s, line %" PRId64 "%s: %" PRId64 " %s", log, runs->odd[o].line,
                   runs->odd[o].count > 1 ? " and later" : "", runs->odd[o].count,
                   tr_oddity_text((enum tr_oddity)o));
        runs->odd[o].count = 0;
    }
}

static enum tr_status read_log(const char *path, bool join, struct tr_records *out)
{
    const bool goes_on =
        join && out->count > 0 && out->list[out->count - 1].origin == TR_ORIGIN_MEASURED;

    TR_TRY(tr_log_read(path, goes_on ? TR_LOG_GOES_ON : TR_LOG_APART, out));
    tell_odd(out, path);
    return TR_OK;
}

/* JSON that was cut may have been a plan. */
static bool is_plan(const char *path)
{
    const enum tr_plan_file kind = tr_plan_file_kind(path);

    if (kind == TR_PLAN_FILE_BROKEN)
        tr_log(TR_LOG_WARNING, "left out: %s", tr_last_error());
    return kind == TR_PLAN_FILE_RUN;
}

/* Files that only look like logs have nothing of training in them; JSON may be anything. */
static enum tr_status read_found(const struct found *f, bool join, struct tr_records *out)
{
    int64_t read = 0, logs = 0, named = 0;

    for (int64_t i = 0; i < f->paths; i++) {
        const bool plan = is_plan_name(f->path[i]);
        enum tr_status s;

        if (plan && !is_plan(f->path[i]))
            continue;
        s = plan ? tr_plan_file_read(f->path[i], out) : read_log(f->path[i], join, out);
        memset(out->odd, 0, sizeof out->odd);
        if (s != TR_OK && (plan || s != TR_EDATA))
            return s;
        read += s == TR_OK;
        named += !plan;
        logs += !plan && s == TR_OK;
    }
    if (read == 0)
        return TR_FAIL(TR_EDATA,
                       "the folder %s has no log of a training (%" PRId64
                       " files below it end in .log, .out or .txt)%s, so there is nothing to "
                       "report: give the folder that the output of the runs is in",
                       f->root, named,
                       f->plans ? " and no plan or simulation in JSON (.json)" : "");
    if (logs < named)
        tr_log(TR_LOG_INFO, "%s: %" PRId64 " of %" PRId64 " files are logs of a training", f->root,
               logs, named);
    return TR_OK;
}

bool tr_logs_is_folder(const char *path)
{
    struct stat st;

    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Without the slashes at its end, which the root has one of; owned by the caller. */
static char *bare(const char *folder)
{
    size_t n = strlen(folder);

    while (n > 1 && folder[n - 1] == '/')
        n--;
    return tr_format("%.*s", (int)n, folder);
}

static void release(struct found *f)
{
    for (int64_t i = 0; i < f->paths; i++)
        free(f->path[i]);
    free(f->path);
}

static enum tr_status read_folder(const char *word, bool join, bool plans, struct tr_records *out)
{
    char *root = bare(word);
    struct found f = {.root = root, .plans = plans};
    enum tr_status s = look_into(&f, root, 0);

    if (s == TR_OK)
        s = read_found(&f, join, out);
    release(&f);
    free(root);
    return s;
}

/* ---- searches ---- */

static void add_word(struct tr_words *to, const char *path)
{
    to->word = tr_grow(to->word, to->count, sizeof *to->word);
    to->word[to->count++] = tr_format("%s", path);
}

static enum tr_status add_searches(const char *word, struct tr_words *out)
{
    char *root = bare(word);
    struct found f = {.root = root, .plans = true};
    enum tr_status s = look_into(&f, root, 0);
    const int before = out->count;

    for (int64_t i = 0; i < f.paths && s == TR_OK; i++)
        if (is_plan_name(f.path[i]) && tr_plan_file_kind(f.path[i]) == TR_PLAN_FILE_SEARCH)
            add_word(out, f.path[i]);
    if (s == TR_OK && out->count == before)
        s = TR_FAIL(TR_EDATA,
                    "the folder %s has no file NAME.json that `trireme plan --search --json` "
                    "printed: keep one there, or give it by its name",
                    root);
    release(&f);
    free(root);
    return s;
}

enum tr_status tr_logs_searches(const struct tr_words *words, struct tr_words *out)
{
    for (int i = 0; i < words->count; i++)
        if (tr_logs_is_folder(words->word[i]))
            TR_TRY(add_searches(words->word[i], out));
        else
            add_word(out, words->word[i]);
    return TR_OK;
}

/* ---- names ---- */

/* The folder that the word is, or that its file is in, with a slash at its end; owned by the caller. */
static char *folder_of(const char *word)
{
    const char *slash = strrchr(word, '/');
    char *root = bare(word), *folder;

    if (tr_logs_is_folder(word))
        folder = tr_format("%s/", strcmp(root, "/") == 0 ? "" : root);
    else
        folder = tr_format("%.*s", slash ? (int)(slash - word) + 1 : 0, word);
    free(root);
    return folder;
}

/* Bytes that the folders of all words begin with, up to a slash: they say nothing in a table. */
static size_t shared(const struct tr_words *words)
{
    char *first = folder_of(words->word[0]);
    size_t same = strlen(first);

    for (int i = 1; i < words->count; i++) {
        char *other = folder_of(words->word[i]);

        while (same > 0 && strncmp(first, other, same) != 0)
            same--;
        free(other);
    }
    while (same > 0 && first[same - 1] != '/')
        same--;
    free(first);
    return same;
}

static void shorten_names(const struct tr_words *words, struct tr_records *runs)
{
    const size_t same = shared(words);

    for (int i = 0; i < runs->count; i++) {
        char *name = runs->list[i].name;

        if (strlen(name) >= same)
            memmove(name, name + same, strlen(name + same) + 1);
    }
}

enum tr_status tr_logs_read(const struct tr_words *words, bool join, bool plans,
                            struct tr_records *out)
{
    for (int i = 0; i < words->count; i++) {
        if (tr_logs_is_folder(words->word[i]))
            TR_TRY(read_folder(words->word[i], join, plans, out));
        else if (plans && tr_plan_file_is(words->word[i]))
            TR_TRY(tr_plan_file_read(words->word[i], out));
        else
            TR_TRY(read_log(words->word[i], join, out));
    }
    if (words->count > 0)
        shorten_names(words, out);
    return TR_OK;
}
