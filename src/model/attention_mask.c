/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/attention_mask.h"

#include <stddef.h>

/* Where the document of each token begins. */
static void mark_documents(const int32_t *text, int64_t seq, int32_t eod, int32_t *position,
                           int32_t *from)
{
    int32_t begin = 0;

    for (int32_t t = 0; t < seq; t++) {
        if (position)
            position[t] = t - begin;
        if (from)
            from[t] = begin;
        if (text[t] == eod)
            begin = t + 1;
    }
}

void tr_mask_weigh(const int32_t *text, int64_t batch, int64_t seq, int32_t eod, bool within,
                   float *weight)
{
    int64_t count = 0;

    for (int64_t n = 0; n < batch * seq; n++) {
        const bool last = within && n % seq == seq - 1;

        weight[n] = !last && text[n / seq * (seq + 1) + n % seq] != eod ? 1.0F : 0.0F;
        count += weight[n] > 0.0F;
    }
    for (int64_t n = 0; n < batch * seq; n++)
        weight[n] = weight[n] > 0.0F ? (float)(1.0 / (double)count) : 0.0F;
}

void tr_mask_of(const int32_t *text, int64_t batch, int64_t seq, int32_t eod, int32_t *position,
                int32_t *from, float *weight)
{
    for (int64_t b = 0; b < batch; b++)
        mark_documents(text + b * (seq + 1), seq, eod, position ? position + b * seq : NULL,
                       from ? from + b * seq : NULL);
    if (weight)
        tr_mask_weigh(text, batch, seq, eod, false, weight);
}
