/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "config/shape_parts.h"

static bool ends_given(const struct tr_config *c)
{
    return c->decoder_first_pipeline_num_layers != TR_UNSET_INT ||
           c->decoder_last_pipeline_num_layers != TR_UNSET_INT;
}

/* The first and the last stage as told, the others equal. */
static enum tr_status cut_ends(const struct tr_config *c, struct tr_shape *s)
{
    bool first = c->decoder_first_pipeline_num_layers != TR_UNSET_INT;
    bool last = c->decoder_last_pipeline_num_layers != TR_UNSET_INT;
    int64_t rest = s->layers, others = s->p - first - last, each;
    char near[64];

    if (s->embed_counts || s->loss_counts)
        return TR_FAIL(TR_ECONFIG,
                       "--decoder-%s-pipeline-num-layers says what --account-for-%s-in-pipeline-"
                       "split would work out: give one of them",
                       first ? "first" : "last", s->embed_counts ? "embedding" : "loss");
    if (s->p == 1)
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
                       (long long)rest, (long long)s->layers, (long long)others,
                       others == 0 ? "none" : "one or more for each");
    if (others > 0 && rest % others)
        return TR_FAIL(TR_ECONFIG,
                       "the first and the last stage as given leave %lld of --num-layers %lld "
                       "layers, which %lld stages cannot share equally: leave %s",
                       (long long)rest, (long long)s->layers, (long long)others,
                       tr_multiples_near(others, rest, near));
    each = others > 0 ? rest / others : 0;
    s->first_slots = first ? c->decoder_first_pipeline_num_layers : each;
    s->middle_slots = each;
    s->last_slots = last ? c->decoder_last_pipeline_num_layers : each;
    return TR_OK;
}

/* Equal stages, of layers and of what counts as one. */
static enum tr_status cut_equally(struct tr_shape *s)
{
    int64_t more = s->embed_counts + s->loss_counts, slots = s->layers + more;
    char near[64];

    if (slots % s->p && more == 0)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers %lld cannot be divided into --pipeline-model-parallel-size %d equal "
            "stages: use %s layers, or %s stages",
            (long long)s->layers, s->p, tr_multiples_near(s->p, s->layers, near),
            tr_divisors_near(s->layers, s->p, (char[64]){0}));
    if (slots % s->p)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers %lld and %lld for --account-for-... are %lld, which "
            "--pipeline-model-parallel-size %d cannot divide into equal stages: together they "
            "must be %s",
            (long long)s->layers, (long long)more, (long long)slots, s->p,
            tr_multiples_near(s->p, slots, near));
    s->first_slots = s->middle_slots = s->last_slots = slots / s->p;
    return TR_OK;
}

/* K, from either of the options that say it. */
static enum tr_status count_chunks(const struct tr_config *c, struct tr_shape *s)
{
    int64_t size = c->num_layers_per_virtual_pipeline_stage, slots = s->first_slots;
    int64_t chunks = c->num_virtual_stages_per_pipeline_rank;
    char near[64];

    s->k = 1;
    if (size != TR_UNSET_INT && chunks != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers-per-virtual-pipeline-stage and "
                       "--num-virtual-stages-per-pipeline-rank say the same thing: give "
                       "one of them");
    if (size != TR_UNSET_INT && ends_given(c))
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers-per-virtual-pipeline-stage is for equal stages: say "
                       "--num-virtual-stages-per-pipeline-rank");
    if (size != TR_UNSET_INT && slots % size)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers-per-virtual-pipeline-stage %lld does not divide the %lld layers "
            "of a stage: the nearest that does is %s",
            (long long)size, (long long)slots, tr_divisors_near(slots, size, near));
    if (chunks == TR_UNSET_INT) {
        s->k = size == TR_UNSET_INT ? 1 : (int)(slots / size);
        return TR_OK;
    }
    for (int stage = 0; stage < s->p; stage++) {
        slots = stage == 0 ? s->first_slots : stage == s->p - 1 ? s->last_slots : s->middle_slots;
        if (slots % chunks)
            return TR_FAIL(
                TR_ECONFIG,
                "--num-virtual-stages-per-pipeline-rank %lld does not divide the %lld layers "
                "of a stage: the nearest that does is %s",
                (long long)chunks, (long long)slots, tr_divisors_near(slots, chunks, near));
    }
    s->k = (int)chunks;
    return TR_OK;
}

enum tr_status tr_shape_stages(const struct tr_config *c, struct tr_shape *s)
{
    s->embed_counts = c->account_for_embedding_in_pipeline_split;
    s->loss_counts = c->account_for_loss_in_pipeline_split;
    TR_TRY(ends_given(c) ? cut_ends(c, s) : cut_equally(s));
    return count_chunks(c, s);
}

int64_t tr_shape_layers(const struct tr_shape *s, int stage, int chunk)
{
    int64_t slots = stage == 0          ? s->first_slots
                    : stage == s->p - 1 ? s->last_slots
                                        : s->middle_slots;

    TR_ASSERT(stage >= 0 && stage < s->p && chunk >= 0 && chunk < s->k);
    slots /= s->k;
    if (s->embed_counts && stage == 0 && chunk == 0)
        slots--;
    if (s->loss_counts && stage == s->p - 1 && chunk == s->k - 1)
        slots--;
    return slots;
}

int64_t tr_shape_first_layer(const struct tr_shape *s, int stage, int chunk)
{
    int64_t first = 0;

    TR_ASSERT(stage >= 0 && stage < s->p && chunk >= 0 && chunk < s->k);
    for (int c = 0; c <= chunk; c++)
        for (int r = 0; r < (c < chunk ? s->p : stage); r++)
            first += tr_shape_layers(s, r, c);
    return first;
}

int64_t tr_shape_most_layers(const struct tr_shape *s)
{
    int64_t most = 0;

    for (int stage = 0; stage < s->p; stage++) {
        for (int chunk = 0; chunk < s->k; chunk++) {
            int64_t layers = tr_shape_layers(s, stage, chunk);

            most = layers > most ? layers : most;
        }
    }
    return most;
}

struct tr_shape tr_shape_whole(const struct tr_shape *s)
{
    struct tr_shape one = *s;

    one.world = one.w = one.p = one.d = one.k = 1;
    one.vocab_padded = one.vocab;
    one.first_slots = one.middle_slots = one.last_slots = one.layers;
    one.embed_counts = one.loss_counts = false;
    return one;
}
