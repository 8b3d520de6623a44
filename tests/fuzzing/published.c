/* SPDX-License-Identifier: BSD-3-Clause */
/* tokenizer.json, and SentencePiece's .model: what they make of a text, and back. */
#include <string.h>

#include "config/config.h"
#include "fuzzing/fuzz.h"
#include "token/tokenizer.h"
#include "token/utf8.h"

static void decode(const struct tr_tokenizer *t, const struct tr_tokens *ids)
{
    struct tr_bytes out = {0};

    for (unsigned flags = 0; flags < 4; flags++) {
        struct tr_decoder *d = tr_decoder_open(t, flags);

        out.count = 0;
        for (size_t i = 0; i < ids->count; i++)
            MUST(tr_decoder_add(d, ids->id[i], &out));
        tr_decoder_end(d, &out);
        MUST((flags & TR_DECODE_RAW) || tr_utf8_valid(out.data, out.count) == out.count);
        tr_decoder_close(d);
    }
    free(out.data);
}

static void use(const struct tr_tokenizer *t)
{
    static const char text[] =
        "They've rowed 16 triremes,  \xe4\xb8\x89\xe6\xae\xb5 \xff  'll!\n\xef\xbd\xb6\xef\xbe\x9e "
        "<sep> e\xcc\x81\t<0x41>\xe2\x96\x81 <|endoftext|> \xf0\x9f\x91\xa9\xe2\x80\x8d";
    struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);
    const struct tr_tokens *around[2];
    struct tr_tokens ids = {0};
    struct tr_bad_utf8 bad;
    size_t bytes;

    if (tr_tokenizer_encode(t, thread, (const unsigned char *)text, sizeof text, &ids, &bad))
        for (size_t i = 0; i < ids.count; i++)
            MUST(ids.id[i] >= 0 && ids.id[i] < tr_tokenizer_vocab_size(t) &&
                 tr_tokenizer_text(t, ids.id[i], &bytes));
    decode(t, &ids);
    tr_tokenizer_special(t, &around[0], &around[1]);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < around[k]->count; i++)
            MUST(around[k]->id[i] >= 0 && around[k]->id[i] < tr_tokenizer_vocab_size(t));
    MUST(tr_tokenizer_cut(t, (const unsigned char *)text, sizeof text) < sizeof text);
    MUST(tr_tokenizer_eod(t) < tr_tokenizer_vocab_size(t));
    free(tr_tokenizer_describe(t));
    free(ids.id);
    tr_tokenizer_thread_close(thread);
}

static void run_type(int type, const char *name, const uint8_t *data, size_t size)
{
    struct tr_tokenizer *t;

    fuzz_put(name, data, size);
    if (tr_tokenizer_open(type, NULL, NULL, fuzz_path(name), &t) == TR_OK)
        use(t);
    tr_tokenizer_close(t);
}

static void run_json(const uint8_t *data, size_t size)
{
    run_type(TR_TOKENIZER_HUGGINGFACE, "tokenizer.json", data, size);
}

static void run_model(const uint8_t *data, size_t size)
{
    run_type(TR_TOKENIZER_SENTENCEPIECE, "tokenizer.model", data, size);
}

static const char *const json[] = {"\"type\":",
                                   "\"Sequence\"",
                                   "\"Regex\":",
                                   "\"String\":",
                                   "\"Split\"",
                                   "\"Replace\"",
                                   "\"Strip\"",
                                   "\"Metaspace\"",
                                   "\"NFKC\"",
                                   "\"ids\":[1]",
                                   "\"lstrip\":true",
                                   "\"normalized\":true",
                                   "\"\\u0000\"",
                                   "\"\"",
                                   "null",
                                   "-1",
                                   "16777215",
                                   "1e300",
                                   "[",
                                   "}",
                                   "(a+)+",
                                   "\\\\p{L}",
                                   "{1,3}+",
                                   NULL};
const struct fuzz_target fuzz_tokenizer = {
    .name = "tokenizer", .run = run_json, .words = json, .files = "tests/golden/tok_*.json"};

static const char *const model[] = {"\x0a\x05\x0a\x01"
                                    "a\x18\x02",
                                    "\x18\x03",
                                    "\x18\x04",
                                    "\x18\x06",
                                    "\x12\x02\x18\x02",
                                    "\xff\xff\xff\xff\xff",
                                    "\xe2\x96\x81",
                                    NULL};
const struct fuzz_target fuzz_sentencepiece = {
    .name = "sentencepiece", .run = run_model, .words = model, .files = "tests/golden/tok_*.model"};

static void run_chinese(const uint8_t *data, size_t size)
{
    run_type(TR_TOKENIZER_CHINESE, "vocab.txt", data, size);
}

static size_t seed_chinese(int n, uint8_t *out, size_t most)
{
    static const char text[] =
        "<unk>\n\xe4\xb8\x89\n##r\n16\n\n[EOD]\n<unk>\nt\xe4\xb8\x89 \n'\nrow\n##ed";

    if (n > 0 || sizeof text > most)
        return 0;
    memcpy(out, text, sizeof text - 1);
    return sizeof text - 1;
}

static const char *const chinese[] = {"##", "[UNK]", "\n", "\xe9\xbf\xbf", "\xe3\x80\x80", NULL};
const struct fuzz_target fuzz_chinese = {
    .name = "chinese", .run = run_chinese, .seed = seed_chinese, .words = chinese};
