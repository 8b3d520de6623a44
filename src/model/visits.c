/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/visits.h"

#include "config/config.h"

bool tr_recomputed(const struct tr_activations *a, int i)
{
    return a->recompute == TR_RECOMPUTE_UNIFORM ||
           (a->recompute == TR_RECOMPUTE_BLOCK && i < a->recompute_layers);
}

int tr_recomputed_from(const struct tr_activations *a, int i)
{
    return a->recompute == TR_RECOMPUTE_UNIFORM ? i - i % (int)a->recompute_layers : i;
}

static int forward(const struct tr_visits_of *of, struct tr_visit *out)
{
    int n = 0;

    if (of->embeds)
        out[n++] = (struct tr_visit){.module = 0};
    for (int i = 0; i < of->layers; i++)
        out[n++] = (struct tr_visit){.module = i + 1};
    if (of->heads)
        out[n++] = (struct tr_visit){.module = of->layers + 1};
    return n;
}

static int backward_layers(const struct tr_visits_of *of, bool writes, struct tr_visit *out)
{
    int n = 0;

    for (int last = of->layers - 1, first; last >= 0; last = first - 1) {
        first = tr_recomputed_from(of->activations, last);
        for (int i = first; tr_recomputed(of->activations, last) && i <= last; i++)
            out[n++] = (struct tr_visit){.module = i + 1};
        for (int i = last; i >= first; i--)
            out[n++] = (struct tr_visit){.module = i + 1, .writes = writes};
    }
    return n;
}

static int weights(const struct tr_visits_of *of, struct tr_visit *out)
{
    for (int i = 0; i < of->layers; i++)
        out[i] = (struct tr_visit){.module = of->layers - i, .writes = true};
    return of->layers;
}

int tr_visits(const struct tr_visits_of *of, enum tr_visits_pass pass, struct tr_visit *out)
{
    int n = 0;

    if (pass == TR_VISITS_FORWARD)
        return forward(of, out);
    if (pass == TR_VISITS_WEIGHTS)
        return weights(of, out);
    if (of->heads)
        out[n++] = (struct tr_visit){.module = of->layers + 1, .writes = true};
    n += backward_layers(of, pass == TR_VISITS_BACKWARD, out + n);
    if (of->embeds)
        out[n++] = (struct tr_visit){.module = 0, .writes = true};
    return n;
}
