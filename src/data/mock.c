/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/mock.h"

#include <stdbool.h>
#include <stdlib.h>

#include "config/config.h"
#include "util/rng.h"
#include "util/status.h"

enum { EOD_EVERY = 256 };

struct tr_mock {
    uint64_t seed;
    int64_t vocab, eod, seq;
    bool uniform;
};

struct tr_mock *tr_mock_open(uint64_t seed, int64_t vocab, int64_t eod, int64_t seq,
                             int distribution)
{
    struct tr_mock *m = malloc(sizeof *m);

    if (!m)
        tr_die(TR_ERESOURCE, "no memory left for mock data");
    *m = (struct tr_mock){seed, vocab, eod, seq, distribution == TR_MOCK_UNIFORM};
    return m;
}

void tr_mock_close(struct tr_mock *m)
{
    free(m);
}

/* The low bits of a draw, which hardly move u, say where a document ends. */
static int32_t token_of(const struct tr_mock *m, uint32_t draw)
{
    double u = (double)draw * 0x1p-32;

    if (m->uniform)
        return (int32_t)((double)m->vocab * u);
    if (m->eod >= 0 && draw % EOD_EVERY == 0)
        return (int32_t)m->eod;
    return (int32_t)((double)m->vocab * u * u);
}

void tr_mock_sample(const struct tr_mock *m, int split, int64_t sample, int32_t *text)
{
    struct tr_rng rng = tr_rng_key(m->seed, TR_STREAM_MOCK, split, sample);
    uint32_t draw[4];

    for (int64_t t = 0; t <= m->seq; t++) {
        if (t % 4 == 0)
            tr_rng_block(rng, (uint64_t)t / 4, draw);
        text[t] = token_of(m, draw[t % 4]);
    }
}
