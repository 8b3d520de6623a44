/* SPDX-License-Identifier: BSD-3-Clause */
/* PREFIX.idx of a dataset, with a .bin of 4096 bytes. */
#include "data/indexed.h"
#include "fuzzing/fuzz.h"

enum { BYTES = 4096, LIMIT = 65536 };

static size_t seed(int n, uint8_t *out, size_t most)
{
    static const enum tr_index_type types[] = {TR_INDEX_U16, TR_INDEX_I32, TR_INDEX_U8};
    struct tr_index_writer *w;
    int32_t tokens[BYTES] = {0};
    int64_t left;

    if (n >= 3)
        return 0;
    left = BYTES / tr_index_type_bytes((int)types[n]);
    MUST(tr_index_writer_open(fuzz_path("seed"), types[n], &w) == TR_OK);
    for (int64_t i = 0; left > 0; i++) {
        int64_t count = i % 5 * 37 < left ? i % 5 * 37 : left;

        MUST(tr_index_writer_add(w, tokens, count) == TR_OK);
        left -= count;
    }
    MUST(tr_index_writer_close(w) == TR_OK);
    return fuzz_get("seed.idx", out, most);
}

static void read_all(const struct tr_index *x)
{
    static int32_t tokens[BYTES];
    int64_t before = 0;

    MUST(x->tokens * x->type_bytes == BYTES && x->sequences >= 0 && x->documents >= 0);
    for (int64_t i = 0; i < x->sequences; i++) {
        int32_t length = tr_index_length(x, i);

        MUST(length >= 0 && tr_index_before(x, i) == before && before + length <= BYTES);
        if (tr_index_read(x, i, 0, length, LIMIT, tokens) == TR_OK)
            for (int32_t t = 0; t < length; t++)
                MUST(tokens[t] >= 0 && tokens[t] < LIMIT);
        (void)tr_index_document_of(x, i);
        before += length;
    }
    for (int64_t t = 0; t < x->tokens; t += 97)
        MUST(tr_index_sequence_of(x, t) < x->sequences);
    for (int64_t d = 0; d <= x->documents; d++)
        MUST(tr_index_document(x, d) <= x->sequences);
}

static void run(const uint8_t *data, size_t size)
{
    static const uint8_t bin[BYTES];
    struct tr_index x;

    fuzz_put("x.bin", bin, sizeof bin);
    fuzz_put("x.idx", data, size);
    if (tr_index_open(fuzz_path("x"), &x) != TR_OK)
        return;
    read_all(&x);
    tr_index_close(&x);
}

static const char *const words[] = {"MMIDIDX", "TNTIDX", NULL};
const struct fuzz_target fuzz_idx = {.name = "idx", .run = run, .seed = seed, .words = words};
