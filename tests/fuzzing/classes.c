/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of a task of classification: columns with and without a header, and JSON lines. */
#include "data/classes.h"

#include <string.h>

#include "config/config.h"
#include "fuzzing/fuzz.h"
#include "token/tokenizer.h"

enum { SEQ = 12, CLASSES = 3 };

static void use(const char *name, const char *task, const struct tr_tokenizer *t)
{
    struct tr_config c;
    struct tr_classes_how how = {.seq = SEQ, .classes = CLASSES, .tokenizer = t, .options = "-"};
    struct tr_classes *x;
    int32_t text[SEQ + 1];
    int64_t rows;

    tr_config_init(&c);
    MUST(tr_config_set(&c, "task-name", task) == TR_OK);
    how.task = tr_classify_of(&c);
    MUST(tr_classes_count(fuzz_path(name), how.task, &rows) == TR_OK);
    if (tr_classes_open(fuzz_path(name), &how, &x) == TR_OK) {
        MUST(tr_classes_rows(x) == rows);
        for (int64_t k = 0; k < rows; k++) {
            tr_classes_get(x, k, text);
            MUST(text[0] >= 0 && text[SEQ] >= 0 && text[SEQ] < CLASSES);
            for (int i = 0; i < SEQ; i++)
                MUST(text[i] >= -1 && text[i] < 257 && (i == 0 || text[i] < 0 || text[i - 1] >= 0));
        }
        tr_classes_close(x);
    }
    tr_config_release(&c);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_tokenizer *t;

    MUST(tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, NULL, &t) == TR_OK);
    fuzz_put("x.tsv", data, size);
    fuzz_put("x.jsonl", data, size);
    use("x.tsv", "cola", t);
    use("x.tsv", "qnli", t);
    use("x.jsonl", "cola", t);
    use("x.jsonl", "qnli", t);
    tr_tokenizer_close(t);
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    static const char *const texts[] = {
        "a\t1\t\tSome words.\nb\t0\t*\tWords some.\r\n",
        "index\tquestion\tsentence\tlabel\n0\twho\tthey\tentailment\n1\twhat\tit\tnot_entailment\n",
        "{\"sentence\": \"some words\", \"question\": \"which\", \"label\": 1}\n\n{\"sentence\": "
        "\"a\", "
        "\"question\": \"b\", \"label\": \"0\"}\n"};
    const size_t bytes = n < 3 ? strlen(texts[n]) : 0;

    if (bytes > most)
        return 0;
    memcpy(out, bytes ? texts[n] : "", bytes);
    return bytes;
}

static const char *const words[] = {"\"sentence\":",
                                    "\"question\":",
                                    "\"label\":",
                                    "entailment",
                                    "\t",
                                    "\n",
                                    "\r\n",
                                    "2",
                                    "}",
                                    "\\u0000",
                                    NULL};
const struct fuzz_target fuzz_classes = {
    .name = "classes", .run = run, .seed = seed, .words = words};
