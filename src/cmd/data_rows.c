/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/data.h"
#include "infer/row_text.h"
#include "util/file.h"

static enum tr_status check(const struct tr_data_options *o)
{
    if (o->json_keys.count != 1)
        return TR_FAIL(TR_ECONFIG,
                       "--join-rows makes one text of rows, and --json-keys names %d: "
                       "give one",
                       o->json_keys.count);
    if (o->split_documents != TR_CORPUS_FILE || o->row_tokens != TR_UNSET_INT || o->part)
        return TR_FAIL(TR_ECONFIG,
                       "--join-rows makes one document of all rows, so there is nothing for "
                       "--split-documents, --row-tokens and --part to divide: leave them out");
    return TR_OK;
}

static enum tr_status join(const struct tr_data_options *o, const struct tr_corpus_file *files,
                           int count, FILE *f)
{
    struct tr_rows rows = {.detokenizer = (enum tr_detokenizer)o->detokenizer};

    for (int i = 0; i < count; i++) {
        rows.key = files[i].format == TR_CORPUS_JSONL ? o->json_keys.word[0] : NULL;
        TR_TRY(tr_rows_join(&rows, files[i].path, f));
    }
    return TR_OK;
}

enum tr_status tr_data_join_rows(const struct tr_data_options *o,
                                 const struct tr_corpus_file *files, int count, char **path)
{
    enum tr_status s;
    FILE *f;

    TR_TRY(check(o));
    *path = tr_format("%s.rows.part", o->output_prefix);
    f = fopen(*path, "we");
    if (!f)
        return TR_FAIL(TR_EIO, "cannot write %s: %s, and --join-rows puts the text there first",
                       *path, strerror(errno));
    s = join(o, files, count, f);
    if ((ferror(f) | fclose(f)) != 0 && s == TR_OK)
        s = TR_FAIL(TR_EIO, "cannot write %s: %s", *path, strerror(errno));
    return s;
}
