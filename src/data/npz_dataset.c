/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/npz_dataset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/indexed.h"
#include "data/npz.h"
#include "util/file.h"
#include "util/log.h"
#include "util/meter.h"
#include "util/text.h"

char *tr_npz_prefix(const struct tr_config *c, const char *word)
{
    const char *slash = strrchr(word, '/'), *name = word;
    const int length = (int)strlen(word) - (int)strlen(".npz");

    if (!tr_npz_named(word))
        return tr_format("%s", word);
    if (!c->data_cache_path)
        return tr_format("%.*s_%s_document", length, word, c->npz_array);
    name = slash ? slash + 1 : word;
    return tr_format("%s/%.*s_%s_document", c->data_cache_path, length - (int)(name - word), name,
                     c->npz_array);
}

/* Is the dataset there, and not older than what it was made of? */
static bool is_made(const char *word, const char *prefix)
{
    char *index = tr_format("%s.idx", prefix);
    struct stat source, made;
    const bool good = stat(word, &source) == 0 && stat(index, &made) == 0 &&
                      (made.st_mtim.tv_sec > source.st_mtim.tv_sec ||
                       (made.st_mtim.tv_sec == source.st_mtim.tv_sec &&
                        made.st_mtim.tv_nsec >= source.st_mtim.tv_nsec));

    free(index);
    return good;
}

static enum tr_status write_rows(struct tr_npz *z, const struct tr_npz_array *a,
                                 struct tr_index_writer *w)
{
    int32_t *row = malloc((size_t)a->columns * sizeof *row);
    struct tr_meter meter;
    enum tr_status s = TR_OK;

    if (!row)
        tr_die(TR_ERESOURCE, "no memory left for a row of %lld tokens", (long long)a->columns);
    tr_meter_start_count(&meter, "reading rows:", "rows", a->rows);
    for (int64_t i = 0; i < a->rows && s == TR_OK; i++) {
        s = tr_npz_row(z, row);
        if (s == TR_OK)
            s = tr_index_writer_add(w, row, a->columns);
        tr_meter_add(&meter, 1);
    }
    (void)tr_meter_end(&meter);
    free(row);
    return s;
}

static enum tr_status convert(const struct tr_config *c, const char *word, const char *prefix)
{
    struct tr_npz_array a;
    struct tr_index_writer *w = NULL;
    struct tr_npz *z;
    enum tr_status s;

    TR_TRY(tr_npz_open(word, &z));
    s = tr_npz_begin(z, c->npz_array, &a);
    if (s == TR_OK)
        s = tr_index_writer_open(prefix,
                                 a.kind == 'u' && a.bytes <= 2 ? TR_INDEX_U16 : TR_INDEX_I32, &w);
    if (s == TR_OK)
        s = write_rows(z, &a, w);
    if (s == TR_OK) {
        s = tr_index_writer_close(w);
        w = NULL;
    }
    tr_index_writer_discard(w);
    tr_npz_close(z);
    if (s == TR_OK)
        tr_print("> %s: %lld row%s of %lld tokens are now the documents of %s\n", word,
                 (long long)a.rows, tr_plural(a.rows), (long long)a.columns, prefix);
    return s;
}

static enum tr_status make_one(const struct tr_config *c, const char *word)
{
    char *prefix;
    enum tr_status s = TR_OK;

    if (!tr_npz_named(word))
        return TR_OK;
    prefix = tr_npz_prefix(c, word);
    if (c->data_cache_path)
        s = tr_make_dirs(c->data_cache_path);
    if (s == TR_OK && !is_made(word, prefix))
        s = convert(c, word, prefix);
    free(prefix);
    return s;
}

static enum tr_status make_words(const struct tr_config *c, const struct tr_words *w)
{
    for (int i = 0; i < w->count; i++)
        TR_TRY(make_one(c, w->word[i]));
    return TR_OK;
}

enum tr_status tr_npz_make_mine(const struct tr_config *c)
{
    TR_TRY(make_words(c, &c->data_path));
    TR_TRY(make_words(c, &c->train_data_path));
    TR_TRY(make_words(c, &c->valid_data_path));
    return make_words(c, &c->test_data_path);
}

static bool names_one(const struct tr_words *w)
{
    for (int i = 0; i < w->count; i++)
        if (tr_npz_named(w->word[i]))
            return true;
    return false;
}

enum tr_status tr_npz_make_all(const struct tr_config *c, struct tr_comm *world)
{
    if (!names_one(&c->data_path) && !names_one(&c->train_data_path) &&
        !names_one(&c->valid_data_path) && !names_one(&c->test_data_path))
        return TR_OK;
    TR_TRY(tr_comm_agree(world, world->rank == 0 ? tr_npz_make_mine(c) : TR_OK));
    return tr_comm_agree(world, tr_npz_make_mine(c));
}
