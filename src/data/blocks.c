/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/blocks.h"

#include <stdlib.h>

#include "util/rng.h"

int64_t tr_blocks_tokens(const struct tr_index *x, int64_t first, int64_t last)
{
    int64_t tokens = 0;

    TR_ASSERT(first >= 0 && last <= x->sequences);
    for (int64_t i = first; i < last; i++)
        tokens += tr_index_length(x, i);
    return tokens;
}

int64_t tr_blocks_of(int64_t tokens, int64_t seq)
{
    return tokens > 0 ? (tokens - 1) / seq : 0;
}

void tr_blocks_open(const struct tr_index *x, int64_t first, int64_t last, int64_t seq,
                    int64_t most, struct tr_blocks *out)
{
    *out = (struct tr_blocks){.seq = seq,
                              .stride = seq,
                              .reads = seq + 1,
                              .tokens = tr_blocks_tokens(x, first, last),
                              .before = tr_index_before(x, first)};
    out->count = tr_blocks_of(out->tokens, seq);
    if (most >= 0 && most < out->count)
        out->count = most;
}

enum tr_status tr_blocks_open_documents(const struct tr_index *x, int64_t first, int64_t last,
                                        const struct tr_blocks_how *how, struct tr_blocks *out)
{
    const int64_t reads = how->within ? how->seq : how->seq + 1;

    for (int64_t i = first; i < last; i++) {
        const int64_t k = how->row ? how->row[i] : i;

        if (tr_index_length(x, k) != reads)
            return TR_FAIL(TR_EDATA,
                           "--document-samples: document %lld of %s has %d tokens, and a sample of "
                           "--seq-length %lld has %lld%s: give "
                           "--seq-length %lld, or build rows of one length (trireme data build "
                           "--row-tokens)",
                           (long long)k, x->prefix, tr_index_length(x, k), (long long)how->seq,
                           (long long)reads, how->within ? "" : ", one more for the last label",
                           (long long)tr_index_length(x, k) - (reads - how->seq));
    }
    tr_blocks_open(x, first, last, how->seq, -1, out);
    out->stride = out->reads = reads;
    out->row = how->row ? how->row + first : NULL;
    out->count = how->most >= 0 && how->most < last - first ? how->most : last - first;
    return TR_OK;
}

int32_t *tr_blocks_shuffled(uint64_t seed, int64_t count)
{
    const struct tr_rng rng = tr_rng_key(seed, TR_STREAM_SPLIT, 0, 0);
    int32_t *order = malloc((size_t)(count > 0 ? count : 1) * sizeof *order);

    if (!order)
        tr_die(TR_ERESOURCE, "no memory left for the order of %lld documents", (long long)count);
    for (int64_t i = 0; i < count; i++)
        order[i] = (int32_t)i;
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j =
            (int64_t)((uint64_t)tr_rng_u32(rng, (uint64_t)i) * (uint64_t)(i + 1) >> 32);
        const int32_t was = order[i];

        order[i] = order[j];
        order[j] = was;
    }
    return order;
}

enum tr_status tr_blocks_get(const struct tr_blocks *b, const struct tr_index *x, int64_t k,
                             int64_t limit, int32_t *text)
{
    const int64_t begin = b->row ? tr_index_before(x, b->row[k]) : b->before + k * b->stride;
    int64_t sequence, offset;

    TR_ASSERT(k >= 0 && k < b->count);
    sequence = tr_index_sequence_of(x, begin);
    offset = begin - tr_index_before(x, sequence);
    text[b->seq] = 0;
    for (int64_t need = b->reads; need > 0; sequence++, offset = 0) {
        int64_t rest = tr_index_length(x, sequence) - offset;

        rest = rest < need ? rest : need;
        TR_TRY(tr_index_read(x, sequence, offset, rest, limit, text));
        text += rest;
        need -= rest;
    }
    return TR_OK;
}
