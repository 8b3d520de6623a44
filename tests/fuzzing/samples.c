/* SPDX-License-Identifier: BSD-3-Clause */
/* One of the three maps of an order of samples; the first byte says which. */
#include "data/samples.h"

#include <string.h>

#include "data/indexed.h"
#include "fuzzing/fuzz.h"

enum { SEQUENCES = 9, SEQ = 7, LIMIT = 65536 };
static const int32_t sizes[SEQUENCES] = {5, 0, 40, 1, 1, 3, 0, 22, 8};

static struct tr_samples_spec spec_of(const struct tr_index *index)
{
    return (struct tr_samples_spec){index->sizes, 0, SEQUENCES, SEQ, 25, 99};
}

/* The dataset, and the order as it is right. */
static void make(struct tr_index *index, struct tr_samples *right)
{
    struct tr_index_writer *w;
    struct tr_samples_spec spec;
    int32_t tokens[64] = {0};

    MUST(tr_index_writer_open(fuzz_path("set"), TR_INDEX_I32, &w) == TR_OK);
    for (int i = 0; i < SEQUENCES; i++)
        MUST(tr_index_writer_add(w, tokens, sizes[i]) == TR_OK);
    MUST(tr_index_writer_close(w) == TR_OK && tr_index_open(fuzz_path("set"), index) == TR_OK);
    spec = spec_of(index);
    MUST(tr_samples_make(&spec, "set", right) == TR_OK);
}

static struct tr_samples *right_one(struct tr_index **out)
{
    static struct tr_index index;
    static struct tr_samples right;

    if (!index.prefix)
        make(&index, &right);
    *out = &index;
    return &right;
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    struct tr_index *index;
    const struct tr_samples *right = right_one(&index);
    size_t bytes = n < TR_MAPS ? (size_t)tr_npy_bytes(&right->array[n]) : 0;

    if (bytes == 0 || bytes >= most)
        return 0;
    out[0] = (uint8_t)n;
    memcpy(out + 1, right->part[n].image, bytes);
    return bytes + 1;
}

static void run(const uint8_t *data, size_t size)
{
    static const char *const names[TR_MAPS] = {"m_doc_idx.npy", "m_sample_idx.npy",
                                               "m_shuffle_idx.npy"};
    struct tr_index *index;
    struct tr_samples *right = right_one(&index), x;
    struct tr_samples_spec spec = spec_of(index);
    int32_t text[SEQ + 1];

    if (size == 0)
        return;
    for (int m = 0; m < TR_MAPS; m++)
        fuzz_put(names[m], right->part[m].image, (size_t)tr_npy_bytes(&right->array[m]));
    fuzz_put(names[data[0] % TR_MAPS], data + 1, size - 1);
    MUST(tr_samples_plan(&spec, "set", &x) == TR_OK);
    if (tr_samples_load(&x, fuzz_path("m")) != TR_OK)
        return;
    /* What rank 0 has not verified is read as well: another rank sees its copy of the files. */
    (void)tr_samples_fingerprint(&x);
    fuzz_any(tr_samples_verify(&x, NULL));
    for (int64_t k = 0; k < x.count; k++)
        fuzz_any(tr_samples_get(&x, index, k, LIMIT, text));
    tr_samples_close(&x);
}

const struct fuzz_target fuzz_samples = {.name = "samples", .run = run, .seed = seed};
