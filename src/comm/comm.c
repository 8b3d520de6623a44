/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Room for a sentence of status.c, a rank and a host. */
enum { SENTENCE_WORDS = 320 };

static double maximum(struct tr_comm *c, double mine)
{
    struct tr_tensor t = tr_f64_1(&mine, 1);

    c->via->allreduce(c, NULL, &t, TR_MAX);
    return mine;
}

int64_t tr_comm_max(struct tr_comm *c, int64_t mine)
{
    const int64_t exact = (int64_t)1 << 53;

    TR_ASSERT(mine > -exact && mine < exact);
    return (int64_t)maximum(c, (double)mine);
}

/* What a rank says about its failure; it was recorded before the ranks met. */
static void describe(const struct tr_comm *c, enum tr_status s, char *text, size_t size)
{
    const char *why = tr_last_error()[0] ? tr_last_error() : tr_status_text(s);
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    if (c->size > 1)
        snprintf(text, size, "%.950s (rank %d on %s)", why, c->rank, host);
    else
        snprintf(text, size, "%s", why);
}

enum tr_status tr_comm_agree(struct tr_comm *c, enum tr_status mine)
{
    /* One number that orders by status first and then by rank, the lowest first. */
    int64_t key = (int64_t)mine * c->size + (c->size - 1 - c->rank);
    int64_t worst = tr_comm_max(c, key);
    enum tr_status status = (enum tr_status)(worst / c->size);
    int32_t words[SENTENCE_WORDS] = {0};
    struct tr_tensor sentence = tr_i32_1(words, SENTENCE_WORDS);

    if (status == TR_OK)
        return TR_OK;
    if (key == worst)
        describe(c, mine, (char *)words, sizeof words);
    c->via->broadcast(c, NULL, &sentence, c->size - 1 - (int)(worst % c->size));
    return TR_FAIL(status, "%s", (const char *)words);
}
