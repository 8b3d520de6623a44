/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/layout.h"

#include <stdio.h>

#include "config/near.h"

static bool ends_given(const struct tr_config *c)
{
    return c->decoder_first_pipeline_num_layers != TR_UNSET_INT ||
           c->decoder_last_pipeline_num_layers != TR_UNSET_INT;
}

/* The first and the last stage as given, the others equal. */
static enum tr_status cut_ends(const struct tr_config *c, struct tr_layout *l)
{
    bool first = c->decoder_first_pipeline_num_layers != TR_UNSET_INT;
    bool last = c->decoder_last_pipeline_num_layers != TR_UNSET_INT;
    int64_t rest = c->num_layers, others = l->p - first - last, each;
    char near[64];

    if (l->embed_counts || l->loss_counts)
        return TR_FAIL(TR_ECONFIG,
                       "--decoder-%s-pipeline-num-layers says what --account-for-%s-in-pipeline-"
                       "split would work out: give one of them",
                       first ? "first" : "last", l->embed_counts ? "embedding" : "loss");
    if (l->p == 1)
        return TR_FAIL(TR_ECONFIG,
                       "--decoder-%s-pipeline-num-layers needs a pipeline: give "
                       "--pipeline-model-parallel-size 2 or more",
                       first ? "first" : "last");
    rest -= first ? c->decoder_first_pipeline_num_layers : 0;
    rest -= last ? c->decoder_last_pipeline_num_layers : 0;
    if (others == 0 ? rest != 0 : rest < others)
        return TR_FAIL(TR_ECONFIG,
                       "the first and the last stage as given leave %lld of --num-layers %lld "
                       "layers for %lld other stages: choose numbers that leave %s",
                       (long long)rest, (long long)c->num_layers, (long long)others,
                       others == 0 ? "none" : "one or more for each");
    if (others > 0 && rest % others)
        return TR_FAIL(TR_ECONFIG,
                       "the first and the last stage as given leave %lld of --num-layers %lld "
                       "layers, which %lld stages cannot share equally: leave %s",
                       (long long)rest, (long long)c->num_layers, (long long)others,
                       tr_multiples_near(others, rest, near));
    each = others > 0 ? rest / others : 0;
    l->first_slots = first ? c->decoder_first_pipeline_num_layers : each;
    l->middle_slots = each;
    l->last_slots = last ? c->decoder_last_pipeline_num_layers : each;
    return TR_OK;
}

/* Equal stages, of layers and of what counts as one. */
static enum tr_status cut_equally(const struct tr_config *c, struct tr_layout *l)
{
    int64_t more = l->embed_counts + l->loss_counts, slots = c->num_layers + more;
    char near[64];

    if (slots % l->p && more == 0)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers %lld cannot be divided into --pipeline-model-parallel-size %d equal "
            "stages: use %s layers, or %s stages",
            (long long)c->num_layers, l->p, tr_multiples_near(l->p, c->num_layers, near),
            tr_divisors_near(c->num_layers, l->p, (char[64]){0}));
    if (slots % l->p)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers %lld and %lld for --account-for-... are %lld, which "
            "--pipeline-model-parallel-size %d cannot divide into equal stages: together they "
            "must be %s",
            (long long)c->num_layers, (long long)more, (long long)slots, l->p,
            tr_multiples_near(l->p, slots, near));
    l->first_slots = l->middle_slots = l->last_slots = slots / l->p;
    return TR_OK;
}

/* K, from either of its two options. */
static enum tr_status count_chunks(const struct tr_config *c, struct tr_layout *l)
{
    int64_t size = c->num_layers_per_virtual_pipeline_stage, slots = l->first_slots;
    int64_t chunks = c->num_virtual_stages_per_pipeline_rank;
    char near[64];

    l->k = 1;
    if (size != TR_UNSET_INT && chunks != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers-per-virtual-pipeline-stage and "
                       "--num-virtual-stages-per-pipeline-rank say the same thing: give "
                       "one of them");
    if (size != TR_UNSET_INT && ends_given(c))
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers-per-virtual-pipeline-stage is for equal stages: use "
                       "--num-virtual-stages-per-pipeline-rank");
    if (size != TR_UNSET_INT && slots % size)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers-per-virtual-pipeline-stage %lld does not divide the %lld layers "
            "of a stage: the nearest that does is %s",
            (long long)size, (long long)slots, tr_divisors_near(slots, size, near));
    if (chunks == TR_UNSET_INT) {
        l->k = size == TR_UNSET_INT ? 1 : (int)(slots / size);
        return TR_OK;
    }
    for (int stage = 0; stage < l->p; stage++) {
        slots = stage == 0 ? l->first_slots : stage == l->p - 1 ? l->last_slots : l->middle_slots;
        if (slots % chunks)
            return TR_FAIL(
                TR_ECONFIG,
                "--num-virtual-stages-per-pipeline-rank %lld does not divide the %lld layers "
                "of a stage: the nearest that does is %s",
                (long long)chunks, (long long)slots, tr_divisors_near(slots, chunks, near));
    }
    l->k = (int)chunks;
    return TR_OK;
}

enum tr_status tr_layout_stages(const struct tr_config *c, struct tr_layout *l)
{
    l->embed_counts = c->account_for_embedding_in_pipeline_split;
    l->loss_counts = c->account_for_loss_in_pipeline_split;
    TR_TRY(ends_given(c) ? cut_ends(c, l) : cut_equally(c, l));
    return count_chunks(c, l);
}

int64_t tr_layout_layers(const struct tr_layout *l, int stage, int chunk)
{
    int64_t slots = stage == 0          ? l->first_slots
                    : stage == l->p - 1 ? l->last_slots
                                        : l->middle_slots;

    TR_ASSERT(stage >= 0 && stage < l->p && chunk >= 0 && chunk < l->k);
    slots /= l->k;
    if (l->embed_counts && stage == 0 && chunk == 0)
        slots--;
    if (l->loss_counts && stage == l->p - 1 && chunk == l->k - 1)
        slots--;
    return slots;
}

int64_t tr_layout_first_layer(const struct tr_layout *l, int stage, int chunk)
{
    int64_t first = 0;

    TR_ASSERT(stage >= 0 && stage < l->p && chunk >= 0 && chunk < l->k);
    for (int c = 0; c <= chunk; c++)
        for (int r = 0; r < (c < chunk ? l->p : stage); r++)
            first += tr_layout_layers(l, r, c);
    return first;
}

int64_t tr_layout_most_layers(const struct tr_layout *l)
{
    int64_t most = 0;

    for (int stage = 0; stage < l->p; stage++) {
        for (int chunk = 0; chunk < l->k; chunk++) {
            int64_t layers = tr_layout_layers(l, stage, chunk);

            most = layers > most ? layers : most;
        }
    }
    return most;
}

struct tr_layout tr_layout_single(int64_t layers)
{
    return (struct tr_layout){
        .world = 1,
        .w = 1,
        .p = 1,
        .d = 1,
        .k = 1,
        .schedule = TR_PIPE_1F1B,
        .group = 1,
        .first_slots = layers,
        .middle_slots = layers,
        .last_slots = layers,
    };
}
