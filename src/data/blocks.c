/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/blocks.h"

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
                              .tokens = tr_blocks_tokens(x, first, last),
                              .before = tr_index_before(x, first)};
    out->count = tr_blocks_of(out->tokens, seq);
    if (most >= 0 && most < out->count)
        out->count = most;
}

enum tr_status tr_blocks_get(const struct tr_blocks *b, const struct tr_index *x, int64_t k,
                             int64_t limit, int32_t *text)
{
    const int64_t begin = b->before + k * b->seq;
    int64_t sequence, offset;

    TR_ASSERT(k >= 0 && k < b->count);
    sequence = tr_index_sequence_of(x, begin);
    offset = begin - tr_index_before(x, sequence);
    for (int64_t need = b->seq + 1; need > 0; sequence++, offset = 0) {
        int64_t rest = tr_index_length(x, sequence) - offset;

        rest = rest < need ? rest : need;
        TR_TRY(tr_index_read(x, sequence, offset, rest, limit, text));
        text += rest;
        need -= rest;
    }
    return TR_OK;
}
