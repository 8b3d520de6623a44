/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of classification: pairs of texts as DeBERTa's tokenizer has them (tests/golden/pairs.py), GLUE's files, and
   files that are not right. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "data/classes.h"
#include "data/folder.h"

static struct {
    char *folder;
    struct tr_tokenizer *bytes, *pieces;
} at;

static char *in_golden(const char *name)
{
    const char *srcdir = getenv("srcdir");

    return tr_format("%s/tests/golden/%s", srcdir ? srcdir : ".", name);
}

static int setup(void **state)
{
    char *model = in_golden("pairs.model");
    enum tr_status s;

    (void)state;
    at.folder = folder_make();
    s = tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, NULL, &at.bytes);
    if (s == TR_OK)
        s = tr_tokenizer_open(TR_TOKENIZER_SENTENCEPIECE, NULL, NULL, model, &at.pieces);
    if (s != TR_OK)
        print_error("%s\n", tr_last_error());
    free(model);
    return s != TR_OK;
}

static int teardown(void **state)
{
    (void)state;
    tr_tokenizer_close(at.bytes);
    tr_tokenizer_close(at.pieces);
    folder_remove(at.folder);
    return 0;
}

/* A file of the test folder; the caller frees its path. */
static char *put(const char *name, const char *text)
{
    char *path = tr_format("%s/%s", at.folder, name);

    file_put(path, text, strlen(text));
    return path;
}

static const struct tr_classify *task(const char *name)
{
    struct tr_config c;
    const struct tr_classify *row;

    tr_config_init(&c);
    assert_ok(tr_config_set(&c, "task-name", name));
    row = tr_classify_of(&c);
    tr_config_release(&c);
    assert_non_null(row);
    return row;
}

static struct tr_classes_how how_of(const char *name, int64_t seq)
{
    return (struct tr_classes_how){.task = task(name),
                                   .seq = seq,
                                   .classes = 2,
                                   .tokenizer = at.bytes,
                                   .options = "--text-field"};
}

/* Row k is this text in bytes, padded, and this class. */
static void check_row(const struct tr_classes *x, int64_t k, int64_t seq, const char *text,
                      int32_t label)
{
    int32_t row[64];

    tr_classes_get(x, k, row);
    for (int64_t t = 0; t < seq; t++)
        assert_int_equal(row[t], t < (int64_t)strlen(text) ? text[t] : -1);
    assert_int_equal(row[seq], label);
}

static void check_pair(const char *length, const char *first, const char *second, char *ids)
{
    const bool pair = strcmp(second, "null") != 0;
    const int64_t seq = strtol(length, NULL, 10);
    struct tr_classes_how how = how_of("classification", seq);
    char *text, *path, *save = NULL;
    struct tr_classes *x;
    int32_t row[65];
    int64_t t = 0;

    text = tr_format("{\"sentence\": %s, \"other\": %s, \"label\": 1}\n", first, second);
    path = put("row.jsonl", text);
    how.tokenizer = at.pieces;
    how.second = pair ? "other" : NULL;
    assert_ok(tr_classes_open(path, &how, &x));
    assert_int_equal(tr_classes_rows(x), 1);
    tr_classes_get(x, 0, row);
    for (const char *id = strtok_r(ids, " ", &save); id; id = strtok_r(NULL, " ", &save), t++)
        if (row[t] != strtol(id, NULL, 10))
            fail_msg("length %s, %s, %s: token %d is %d instead of %s", length, first, second,
                     (int)t, row[t], id);
    for (; t < seq; t++)
        assert_int_equal(row[t], -1);
    assert_int_equal(row[seq], 1);
    tr_classes_close(x);
    free(path);
    free(text);
}

static void as_deberta(void **state)
{
    char *path = in_golden("pairs.txt"), line[4096], *save;
    FILE *f = fopen(path, "r");
    int lines = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char *word[4];

        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < 4; i++)
            word[i] = strtok_r(i ? NULL : line, "\t", &save);
        check_pair(word[0], word[1], word[2], word[3]);
        lines++;
    }
    assert_int_equal(lines, 120);
    fclose(f);
    free(path);
}

static void files_of_glue(void **state)
{
    struct tr_classes_how how = how_of("cola", 8);
    struct tr_classes *x;
    int64_t rows;
    char *path;

    (void)state;
    /* Quotes are text; an end of line may be Windows'; the last line may have none. */
    path = put("cola.tsv", "gj04\t1\t\tA \"cat.\r\n\nks08\t0\t*\tSlept the dog long");
    assert_ok(tr_classes_count(path, how.task, &rows));
    assert_int_equal(rows, 2);
    assert_ok(tr_classes_open(path, &how, &x));
    assert_int_equal(tr_classes_rows(x), 2);
    check_row(x, 0, 8, "A \"cat.", 1);
    check_row(x, 1, 8, "Slept th", 0);
    tr_classes_close(x);
    free(path);

    how = how_of("qnli", 8);
    path = put("qnli.tsv", "index\tquestion\tsentence\tlabel\n0\twho\tI\tentailment\n"
                           "1\twhere is it\tthere it is\tnot_entailment\n");
    assert_ok(tr_classes_count(path, how.task, &rows));
    assert_int_equal(rows, 2);
    assert_ok(tr_classes_open(path, &how, &x));
    check_row(x, 0, 8, "whoI", 0);
    check_row(x, 1, 8, "wherther", 1);
    tr_classes_close(x);
    free(path);

    path =
        put("qnli.jsonl", "{\"question\": \"q\", \"sentence\": \"s\", \"label\": 1, \"idx\": 7}\n");
    assert_ok(tr_classes_open(path, &how, &x));
    check_row(x, 0, 8, "qs", 1);
    tr_classes_close(x);
    free(path);
}

static void not_right(void **state)
{
    static const struct {
        const char *task, *file, *text, *says;
    } bad[] = {
        {"cola", "a.tsv", "a\t2\t\tb\n", "a.tsv:1: \"2\" is no class: there are 0 to 1"},
        {"cola", "a.tsv", "a\t1\t\tb\n\na\t\t\tb\n", "a.tsv:3: \"\" is no class"},
        {"cola", "a.tsv", "a\t1\n", "a.tsv:1 has 2 columns, and \"sentence\" is column 4"},
        {"cola", "a.tsv", "a\t1\t\t\n", "a.tsv:1: the text has no token"},
        {"qnli", "a.tsv", "index\tq\tsentence\tlabel\n",
         "no column \"question\" in its first line"},
        {"qnli", "a.tsv", "", "is empty"},
        {"qnli", "a.tsv", "question\tsentence\tlabel\na\tb\tmaybe\n", "entailment,not_entailment"},
        {"cola", "a.jsonl", "{\"sentence\": \"a\", \"label\": -1}\n", "\"-1\" is no class"},
        {"cola", "a.jsonl", "{\"sentence\": \"a\"}\n", "a.jsonl:1 has no class \"label\""},
        {"cola", "a.jsonl", "{\"sentence\": 7, \"label\": 1}\n",
         "a.jsonl:1 has no text \"sentence\""},
        {"cola", "a.jsonl", "[1]\n", "is no JSON object"},
        {"cola", "a.jsonl", "{\"sentence\"\n", "is no JSON object"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct tr_classes_how how = how_of(bad[i].task, 8);
        char *path = put(bad[i].file, bad[i].text);
        struct tr_classes *x;

        assert_fails(TR_EDATA, bad[i].says, tr_classes_open(path, &how, &x));
        assert_null(x);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_deberta),
        cmocka_unit_test(files_of_glue),
        cmocka_unit_test(not_right),
    };
    int failed;

    if (setup(NULL))
        return 1;
    failed = run_tap(tests);
    teardown(NULL);
    return failed;
}
