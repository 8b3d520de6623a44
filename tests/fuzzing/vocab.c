/* SPDX-License-Identifier: BSD-3-Clause */
/* vocab.json and merges.txt of a tokenizer, each with the right other one. */
#include <string.h>

#include "token/bpe.h"
#include "fuzzing/fuzz.h"

static void use(struct tr_bpe *b)
{
    static const char text[] = "They've rowed 16 triremes, \xe4\xb8\x89\xe6\xae\xb5 \xff  'll!\n";
    struct tr_bpe_thread *thread = tr_bpe_thread_open();
    int32_t ids[sizeof text];
    struct tr_bad_utf8 bad;
    size_t n = tr_bpe_encode(b, thread, (const unsigned char *)text, sizeof text, ids, &bad), bytes;

    MUST(n <= sizeof text);
    for (size_t i = 0; i < n; i++)
        MUST(ids[i] >= 0 && ids[i] < tr_bpe_vocab_size(b) && tr_bpe_token(b, ids[i], &bytes));
    MUST(tr_bpe_eod(b) < tr_bpe_vocab_size(b));
    tr_bpe_thread_close(thread);
}

static const char *golden(const char *name)
{
    static char path[800];
    const char *top = getenv("srcdir");

    snprintf(path, sizeof path, "%s/tests/golden/%s", top ? top : ".", name);
    return path;
}

static void open_both(const char *vocab, const char *merges)
{
    struct tr_bpe *b;

    if (tr_bpe_open(vocab, merges, &b) == TR_OK)
        use(b);
    tr_bpe_close(b);
}

static void run_vocab(const uint8_t *data, size_t size)
{
    fuzz_put("vocab.json", data, size);
    open_both(fuzz_path("vocab.json"), golden("bpe_merges.txt"));
    fuzz_put("none.txt", "", 0);
    open_both(fuzz_path("vocab.json"), fuzz_path("none.txt"));
}

static void run_merges(const uint8_t *data, size_t size)
{
    fuzz_put("merges.txt", data, size);
    open_both(golden("bpe_vocab.json"), fuzz_path("merges.txt"));
}

static const char *const json[] = {
    "\"\\u0120\": ",       "\"a\": ", ", ", "{", "}", "[", "null", "\"\": 0,",
    "\"<|endoftext|>\": ", "\\u0000", NULL};
const struct fuzz_target fuzz_vocab = {
    .name = "vocab", .run = run_vocab, .words = json, .files = "tests/golden/bpe_vocab.json"};
static const char *const lines[] = {"#version: 0.2\n", " ",     "\n",       "\r\n",
                                    "e r\n",           "t h\n", "\xc4\xa0", NULL};
const struct fuzz_target fuzz_merges = {
    .name = "merges", .run = run_merges, .words = lines, .files = "tests/golden/bpe_merges.txt"};
