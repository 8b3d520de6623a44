/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of weighted tasks: JSON lines as text and as P3, chain of thought, and a task of Natural Instructions. */
#include "data/task.h"

#include <string.h>

#include "config/config.h"
#include "fuzzing/fuzz.h"
#include "token/tokenizer.h"
#include "util/file.h"

enum { TOKENS = 40, SEQUENCES = 3 };

static void use(const char *spec, const struct tr_tokenizer *t)
{
    const struct tr_tasks_how how = {.spec = spec,
                                     .folder = fuzz_path("."),
                                     .tokenizer = t,
                                     .tokens = TOKENS,
                                     .vocab = 257,
                                     .seed = 1,
                                     .ahead = 2};
    struct tr_tasks *x;
    int32_t text[TOKENS];

    if (tr_tasks_open(&how, &x) != TR_OK)
        return;
    for (int64_t k = 0; k < SEQUENCES && tr_tasks_sample(x, k, text) == TR_OK; k++)
        for (int i = 0; i < TOKENS; i++)
            MUST(text[i] >= 0 && text[i] < 257);
    tr_tasks_close(x);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_tokenizer *t;

    MUST(tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, NULL, &t) == TR_OK);
    fuzz_put("x.jsonl", data, size);
    fuzz_put("x-p3.jsonl", data, size);
    fuzz_put("mmlu-cot.json", data, size);
    use("x.jsonl", t);
    use("x-p3.jsonl", t);
    use("cot", t);
    MUST(tr_make_dirs(fuzz_path("natural-instructions/tasks")) == TR_OK);
    MUST(tr_make_dirs(fuzz_path("natural-instructions/splits/default")) == TR_OK);
    fuzz_put("natural-instructions/tasks/t.json", data, size);
    fuzz_put("natural-instructions/splits/default/train_tasks.txt", "t\n", 2);
    use("ni", t);
    tr_tokenizer_close(t);
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    static const char *const texts[] = {
        "{\"text\": \"some words\", \"inputs\": \"ask:\", \"targets\": \"say\"}\n\n{\"text\": "
        "\"\", "
        "\"inputs\": \"and \", \"targets\": \"\"}\n",
        "{\"a\": \"some words that are long\", \"b\": \"and others, that are as long\"}",
        "{\"Definition\": [\"Say.\"], \"Instances\": [{\"input\": \"a\", \"output\": [\"b\", "
        "\"c\"]}, "
        "{\"input\": \"\", \"output\": \"d\"}]}"};
    const size_t bytes = n < 3 ? strlen(texts[n]) : 0;

    if (bytes > most)
        return 0;
    memcpy(out, bytes ? texts[n] : "", bytes);
    return bytes;
}

static const char *const words[] = {
    "\"text\":", "\"inputs\":", "\"targets\":", "\"\"", "\\n", "\\u0000", "null",
    "[",         "}",           "\n",           ":",    NULL};
const struct fuzz_target fuzz_tasks = {.name = "tasks", .run = run, .seed = seed, .words = words};
