/* SPDX-License-Identifier: BSD-3-Clause */
/* From arrays of numpy to datasets, a row at a time: the files may be larger than memory. */
#include "cmd/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/indexed.h"
#include "data/npz.h"
#include "util/file.h"
#include "util/meter.h"
#include "util/text.h"

struct npz_build {
    const struct tr_data_options *o;
    const struct tr_data_files *files;
    struct tr_index_writer *writer;
    char *prefix;
    struct tr_meter progress;
    int64_t largest; /* token */
};

static enum tr_status write_row(struct npz_build *b, const int32_t *row, int64_t columns)
{
    for (int64_t i = 0; i < columns; i++)
        b->largest = row[i] > b->largest ? row[i] : b->largest;
    if (b->o->vocab_size != TR_UNSET_INT && b->largest >= b->o->vocab_size)
        return TR_FAIL(TR_EDATA,
                       "document %" PRId64 " has the token %" PRId64
                       ", and --vocab-size is %" PRId64,
                       tr_index_writer_documents(b->writer), b->largest, b->o->vocab_size);
    return tr_index_writer_add(b->writer, row, columns);
}

static enum tr_status write_rows(struct npz_build *b, struct tr_npz *z,
                                 const struct tr_npz_array *a)
{
    int32_t *row = malloc((size_t)a->columns * sizeof *row);
    enum tr_status s = TR_OK;

    if (!row)
        tr_die(TR_ERESOURCE, "no memory left for a row of %" PRId64 " tokens", a->columns);
    for (int64_t i = 0; i < a->rows && s == TR_OK; i++) {
        struct tr_done done;

        s = tr_npz_row(z, row);
        if (s == TR_OK)
            s = write_row(b, row, a->columns);
        done =
            (struct tr_done){(i + 1) * a->columns * a->bytes, tr_index_writer_documents(b->writer),
                             tr_index_writer_tokens(b->writer)};
        tr_meter_show(&b->progress, &done);
        if (s == TR_OK && tr_data_stop())
            s = tr_data_stopped();
    }
    free(row);
    return s;
}

/* The type of the output follows from --vocab-size, or from the first file's numbers. */
static enum tr_status open_writer(struct npz_build *b, const struct tr_npz_array *a)
{
    const bool narrow = a->kind == 'u' && a->bytes <= 2;

    if (b->writer)
        return TR_OK;
    return tr_index_writer_open(b->prefix,
                                b->o->vocab_size != TR_UNSET_INT
                                    ? tr_index_type_for(b->o->vocab_size)
                                : narrow ? TR_INDEX_U16
                                         : TR_INDEX_I32,
                                &b->writer);
}

static enum tr_status add_file(struct npz_build *b, const char *path)
{
    struct tr_npz_array a;
    struct tr_npz *z;
    enum tr_status s;

    if (!tr_npz_named(path))
        return TR_FAIL(TR_ECONFIG,
                       "%s is no .npz file, and text and arrays of numpy cannot make one dataset: "
                       "build them apart, and join them by `trireme data merge`",
                       path);
    TR_TRY(tr_npz_open(path, &z));
    s = tr_npz_begin(z, b->o->npz_array, &a);
    if (s == TR_OK)
        s = open_writer(b, &a);
    if (s == TR_OK) {
        tr_meter_start(&b->progress, "read", a.rows * a.columns * a.bytes, b->o->log_interval);
        s = write_rows(b, z, &a);
        (void)tr_meter_end(&b->progress);
    }
    tr_npz_close(z);
    return s;
}

static enum tr_status finish(struct npz_build *b)
{
    const int64_t documents = tr_index_writer_documents(b->writer);
    const int64_t tokens = tr_index_writer_tokens(b->writer);
    struct tr_index_writer *w = b->writer;

    if (documents == 0)
        return TR_FAIL(TR_EDATA, "array %s of %s has no rows, so nothing was written",
                       b->o->npz_array, b->files->path[0]);
    b->writer = NULL;
    TR_TRY(tr_index_writer_close(w));
    printf("%s: %" PRId64 " document%s, the rows of array %s; %" PRId64
           " tokens, the largest %" PRId64 "\n",
           b->prefix, documents, tr_plural(documents), b->o->npz_array, tokens, b->largest);
    return TR_OK;
}

static enum tr_status build(struct npz_build *b)
{
    if (b->o->row_tokens != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG, "--row-tokens cuts and pads documents of text, and an array of "
                                   "numpy has rows of one length: leave it out");
    if (b->o->append_eod || b->o->add_special_tokens || b->o->tokenizer_model || b->o->part)
        return TR_FAIL(TR_ECONFIG,
                       "--append-eod, --add-special-tokens, --tokenizer-model and --part "
                       "are for text, and an array of numpy has tokens: leave them out");
    TR_TRY(tr_data_may_write(b->o, b->prefix));
    for (int i = 0; i < b->files->count; i++)
        TR_TRY(add_file(b, b->files->path[i]));
    return finish(b);
}

enum tr_status tr_data_build_npz(const struct tr_data_options *o, const struct tr_data_files *files)
{
    struct npz_build b = {.o = o, .files = files};
    enum tr_status s;

    b.prefix = tr_format("%s_%s_document", o->output_prefix, o->npz_array);
    s = strchr(o->npz_array, '/')
            ? TR_FAIL(TR_ECONFIG, "--npz-array: \"%s\" cannot be part of the name of a file",
                      o->npz_array)
            : build(&b);
    tr_index_writer_discard(b.writer);
    free(b.prefix);
    return s;
}
