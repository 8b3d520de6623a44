/* SPDX-License-Identifier: BSD-3-Clause */
/* Text to tokens: JSON lines, and plain text split in each way. */
#include "token/corpus.h"

#include <string.h>

#include "token/encode.h"
#include "config/config.h"
#include "fuzzing/fuzz.h"

static char key_text[] = "text", key_title[] = "title";
static char *const keys[] = {key_text, key_title};

static void encode_all(const struct tr_encode_rules *rules, const struct tr_corpus_file *file)
{
    struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(rules->corpus.tokenizer);
    struct tr_corpus *c = tr_corpus_open(file, 1, &rules->corpus);
    struct tr_corpus_chunk chunk = {0};
    struct tr_encoded out;

    tr_encoded_init(&out, rules->key_count);
    while (tr_corpus_next(c, &chunk) == TR_OK && chunk.file) {
        tr_encode_chunk(rules, thread, &chunk, &out);
        for (int k = 0; k < rules->key_count && out.status == TR_OK; k++)
            MUST(out.coded[k].documents >= 0 && out.coded[k].count >= 0);
    }
    tr_encoded_release(&out, rules->key_count);
    tr_corpus_chunk_release(&chunk);
    tr_corpus_close(c);
    tr_tokenizer_thread_close(thread);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_tokenizer *t;

    MUST(tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, NULL, &t) == TR_OK);
    fuzz_put("x.jsonl", data, size);
    for (int how = 0; how < 5; how++) {
        const struct tr_corpus_file file = {fuzz_path("x.jsonl"),
                                            how == 4 ? TR_CORPUS_JSONL : TR_CORPUS_TEXT};
        const struct tr_encode_rules rules = {
            .corpus = {how == 4 ? TR_CORPUS_FILE : (enum tr_corpus_split)how, "---", t},
            .keys = keys,
            .key_count = how == 4 ? 2 : 1,
            .append_eod = true,
            .refuse_bad_utf8 = how == 1};

        encode_all(&rules, &file);
    }
    tr_tokenizer_close(t);
}

static const char *const words[] = {
    "\"text\": ", "\"title\": ",  "{",    "}",    "\n",   "\r\n", "---\n", "\\u0000",
    "\\ud800",    "\xef\xbb\xbf", "[[[[", "null", "\n\n", NULL};
const struct fuzz_target fuzz_corpus = {.name = "corpus", .run = run, .words = words};
