/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/layout.h"

#include <stdio.h>

#include "config/near.h"
#include "util/text.h"

/* Layers of the stages and what counts as one, divided among K chunks. */
struct slots {
    int64_t first, middle, last;
};

/* ---- the layers of virtual stages ---- */

bool tr_layout_add(struct tr_layout *l, int64_t stages, int64_t layers)
{
    struct tr_layout_run *last = l->runs > 0 ? &l->run[l->runs - 1] : NULL;

    TR_ASSERT(stages >= 0 && stages <= INT32_MAX && layers >= 0 && layers <= INT32_MAX);
    if (stages == 0)
        return true;
    if (last && last->layers == layers && last->stages <= INT32_MAX - stages) {
        last->stages += (int)stages;
        return true;
    }
    if (l->runs == TR_LAYOUT_RUNS)
        return false;
    l->run[l->runs++] = (struct tr_layout_run){(int)stages, (int)layers};
    return true;
}

void tr_layout_spread(struct tr_layout *l, int64_t stages, int64_t layers)
{
    const int64_t each = layers / stages, left = layers % stages;

    l->runs = 0;
    (void)tr_layout_add(l, stages - 1 - left, each);
    (void)tr_layout_add(l, left, each + 1);
    (void)tr_layout_add(l, 1, each);
}

/* The layers of virtual stage `at`, and of all before it. */
static int64_t layers_of(const struct tr_layout *l, int64_t at, int64_t *before)
{
    int64_t sum = 0;

    for (int i = 0;; i++) {
        const struct tr_layout_run *run = &l->run[i];

        TR_ASSERT(i < l->runs);
        if (at < run->stages) {
            *before = sum + at * run->layers;
            return run->layers;
        }
        at -= run->stages;
        sum += (int64_t)run->stages * run->layers;
    }
}

/* ---- where virtual stages are ---- */

struct tr_route tr_layout_route(const struct tr_layout *l)
{
    return (struct tr_route){.ranks = l->p, .chunks = l->k, .vee = l->vee};
}

bool tr_layout_is_first(const struct tr_layout *l, int stage, int chunk)
{
    return tr_route_is_first(tr_layout_route(l), (struct tr_vstage){stage, chunk});
}

bool tr_layout_is_last(const struct tr_layout *l, int stage, int chunk)
{
    return tr_route_is_last(tr_layout_route(l), (struct tr_vstage){stage, chunk});
}

bool tr_layout_has_embedding(const struct tr_layout *l, int stage)
{
    return stage == tr_route_at(tr_layout_route(l), 0).rank;
}

int tr_layout_head_stage(const struct tr_layout *l)
{
    return tr_route_at(tr_layout_route(l), l->p * l->k - 1).rank;
}

bool tr_layout_has_head(const struct tr_layout *l, int stage)
{
    return stage == tr_layout_head_stage(l);
}

bool tr_layout_ends_apart(const struct tr_layout *l)
{
    return !tr_layout_has_embedding(l, tr_layout_head_stage(l));
}

int tr_layout_links(const struct tr_layout *l)
{
    const struct tr_route route = tr_layout_route(l);
    int links = 0;

    for (int i = 0; i + 1 < l->p * l->k; i++)
        links += tr_route_at(route, i).rank != tr_route_at(route, i + 1).rank;
    return links;
}

static int number_of(const struct tr_layout *l, int stage, int chunk)
{
    TR_ASSERT(stage >= 0 && stage < l->p && chunk >= 0 && chunk < l->k);
    return tr_route_number(tr_layout_route(l), (struct tr_vstage){stage, chunk});
}

int64_t tr_layout_layers(const struct tr_layout *l, int stage, int chunk)
{
    int64_t before;

    return layers_of(l, number_of(l, stage, chunk), &before);
}

int64_t tr_layout_first_layer(const struct tr_layout *l, int stage, int chunk)
{
    int64_t before;

    (void)layers_of(l, number_of(l, stage, chunk), &before);
    return before;
}

int64_t tr_layout_stage_layers(const struct tr_layout *l, int stage)
{
    int64_t layers = 0;

    for (int chunk = 0; chunk < l->k; chunk++)
        layers += tr_layout_layers(l, stage, chunk);
    return layers;
}

int tr_layout_longest_stage(const struct tr_layout *l)
{
    int longest = 0;

    for (int stage = 1; stage < l->p && !tr_layout_is_even(l); stage++)
        if (tr_layout_stage_layers(l, stage) > tr_layout_stage_layers(l, longest))
            longest = stage;
    return longest;
}

int64_t tr_layout_most_layers(const struct tr_layout *l)
{
    int64_t most = 0;

    for (int i = 0; i < l->runs; i++)
        most = l->run[i].layers > most ? l->run[i].layers : most;
    return most;
}

bool tr_layout_is_even(const struct tr_layout *l)
{
    return l->runs == 1;
}

const char *tr_layout_list(const struct tr_layout *l, char buf[TR_LAYOUT_TEXT])
{
    int n = 0;

    buf[0] = '\0';
    for (int i = 0; i < l->runs; i++) {
        n += snprintf(buf + n, (size_t)(TR_LAYOUT_TEXT - n), "%s%d", i > 0 ? "," : "",
                      l->run[i].layers);
        if (l->run[i].stages > 1)
            n += snprintf(buf + n, (size_t)(TR_LAYOUT_TEXT - n), "*%d", l->run[i].stages);
    }
    return buf;
}

struct tr_layout tr_layout_equal(int w, int p, int d, int k, int64_t layers)
{
    struct tr_layout l = {.world = w * p * d, .w = w, .p = p, .d = d, .k = k, .group = p};

    l.schedule = k > 1 ? TR_PIPE_INTERLEAVED : TR_PIPE_1F1B;
    TR_ASSERT(layers % ((int64_t)p * k) == 0);
    (void)tr_layout_add(&l, (int64_t)p * k, layers / p / k);
    return l;
}

struct tr_layout tr_layout_single(int64_t layers)
{
    return tr_layout_equal(1, 1, 1, 1, layers);
}

/* ---- the order of ranks ---- */

int tr_layout_pipeline_stride(const struct tr_layout *l)
{
    return l->tp_pp_dp ? l->w : l->w * l->d;
}

int tr_layout_data_stride(const struct tr_layout *l)
{
    return l->tp_pp_dp ? l->w * l->p : l->w;
}

/* ---- from the options ---- */

static bool ends_given(const struct tr_config *c)
{
    return c->decoder_first_pipeline_num_layers != TR_UNSET_INT ||
           c->decoder_last_pipeline_num_layers != TR_UNSET_INT;
}

/* The first and the last stage as given, the others equal. */
static enum tr_status cut_ends(const struct tr_config *c, const struct tr_layout *l,
                               struct slots *out)
{
    bool first = c->decoder_first_pipeline_num_layers != TR_UNSET_INT;
    bool last = c->decoder_last_pipeline_num_layers != TR_UNSET_INT;
    int64_t rest = c->num_layers, others = l->p - first - last, each;
    char near[64];

    if (c->account_for_embedding_in_pipeline_split || c->account_for_loss_in_pipeline_split)
        return TR_FAIL(TR_ECONFIG,
                       "--decoder-%s-pipeline-num-layers says what --account-for-%s-in-pipeline-"
                       "split would work out: give one of them",
                       first ? "first" : "last",
                       c->account_for_embedding_in_pipeline_split ? "embedding" : "loss");
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
    *out = (struct slots){
        .first = first ? c->decoder_first_pipeline_num_layers : each,
        .middle = each,
        .last = last ? c->decoder_last_pipeline_num_layers : each,
    };
    return TR_OK;
}

/* Equal stages, of layers and of what counts as one. */
static enum tr_status cut_equally(const struct tr_config *c, const struct tr_layout *l,
                                  struct slots *out)
{
    int64_t more =
        c->account_for_embedding_in_pipeline_split + c->account_for_loss_in_pipeline_split;
    int64_t slots = c->num_layers + more;
    char near[64];

    if (slots % l->p)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers %lld and %lld for --account-for-... are %lld, which "
            "--pipeline-model-parallel-size %d cannot divide into equal stages: together they "
            "must be %s",
            (long long)c->num_layers, (long long)more, (long long)slots, l->p,
            tr_multiples_near(l->p, slots, near));
    *out = (struct slots){slots / l->p, slots / l->p, slots / l->p};
    return TR_OK;
}

static enum tr_status refuse_stages(const struct tr_config *c, const struct tr_layout *l)
{
    const long long layers = c->num_layers;
    const char *alone =
        layers + 2 == l->p ? ", or add --account-for-embedding-in-pipeline-split and "
                             "--account-for-loss-in-pipeline-split, which give the embedding and "
                             "the head a stage each"
        : layers + 1 == l->p
            ? ", or add --account-for-loss-in-pipeline-split, which gives the head a stage"
            : "";

    return TR_FAIL(TR_ECONFIG,
                   "--num-layers %lld are too few for --pipeline-model-parallel-size %d: a stage "
                   "without a layer would have no work; use %lld stage%s or fewer%s",
                   layers, l->p, layers, tr_plural(layers), alone);
}

/* K, from either of its two options. */
static enum tr_status count_chunks(const struct tr_config *c, const struct slots *of,
                                   struct tr_layout *l)
{
    const int64_t size = c->num_layers_per_virtual_pipeline_stage;
    const int64_t chunks = c->num_virtual_stages_per_pipeline_rank;
    const int64_t slots[] = {of->first, of->middle, of->last};
    char near[64];

    l->k = l->vee ? 2 : 1;
    if (size != TR_UNSET_INT && chunks != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers-per-virtual-pipeline-stage and "
                       "--num-virtual-stages-per-pipeline-rank say the same thing: give "
                       "one of them");
    if (size != TR_UNSET_INT && ends_given(c))
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers-per-virtual-pipeline-stage is for equal stages: use "
                       "--num-virtual-stages-per-pipeline-rank");
    if (size != TR_UNSET_INT && of->first % size)
        return TR_FAIL(
            TR_ECONFIG,
            "--num-layers-per-virtual-pipeline-stage %lld does not divide the %lld layers "
            "of a stage: the nearest that does is %s",
            (long long)size, (long long)of->first, tr_divisors_near(of->first, size, near));
    for (int i = 0; chunks != TR_UNSET_INT && i < 3; i++)
        if (slots[i] % chunks && (i != 1 || l->p > 2))
            return TR_FAIL(
                TR_ECONFIG,
                "--num-virtual-stages-per-pipeline-rank %lld does not divide the %lld layers "
                "of a stage: the nearest that does is %s",
                (long long)chunks, (long long)slots[i], tr_divisors_near(slots[i], chunks, near));
    if (chunks != TR_UNSET_INT)
        l->k = (int)chunks;
    else if (size != TR_UNSET_INT)
        l->k = (int)(of->first / size);
    return TR_OK;
}

/* The slots of the stages are K chunks each, of which the embedding and the head may take a layer. */
static enum tr_status fill(const struct tr_config *c, const struct slots *of, struct tr_layout *l)
{
    bool room = true;

    for (int chunk = 0; chunk < l->k && room; chunk++) {
        int64_t first = of->first / l->k, last = of->last / l->k;

        first -= c->account_for_embedding_in_pipeline_split && chunk == 0;
        *(l->p > 1 ? &last : &first) -= c->account_for_loss_in_pipeline_split && chunk == l->k - 1;
        room = tr_layout_add(l, 1, first) &&
               (l->p == 1 ||
                (tr_layout_add(l, l->p - 2, of->middle / l->k) && tr_layout_add(l, 1, last)));
    }
    if (room)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "%d chunks of stages of several sizes change their size more than %d times on "
                   "the way through the model: use --num-virtual-stages-per-pipeline-rank %d or "
                   "fewer",
                   l->k, TR_LAYOUT_RUNS, TR_LAYOUT_RUNS / 3);
}

/* The layers that P does not divide, with chunks only by a layout. */
static enum tr_status cut_unevenly(const struct tr_config *c, struct tr_layout *l)
{
    const bool chunks = c->num_layers_per_virtual_pipeline_stage != TR_UNSET_INT ||
                        c->num_virtual_stages_per_pipeline_rank != TR_UNSET_INT;
    char near[64];

    if (c->num_layers < l->p)
        return refuse_stages(c, l);
    if (chunks)
        return TR_FAIL(TR_ECONFIG,
                       "--num-layers %lld cannot be divided into --pipeline-model-parallel-size %d "
                       "equal stages of several chunks each: use %s layers, or %s stages, or give "
                       "--pipeline-model-parallel-layout in place of the number of chunks",
                       (long long)c->num_layers, l->p, tr_multiples_near(l->p, c->num_layers, near),
                       tr_divisors_near(c->num_layers, l->p, (char[64]){0}));
    l->k = 1;
    l->spread = true;
    tr_layout_spread(l, l->p, c->num_layers);
    return TR_OK;
}

static enum tr_status refuse_with_layout(const struct tr_config *c)
{
    const char *other =
        c->decoder_first_pipeline_num_layers != TR_UNSET_INT  ? "decoder-first-pipeline-num-layers"
        : c->decoder_last_pipeline_num_layers != TR_UNSET_INT ? "decoder-last-pipeline-num-layers"
        : c->account_for_embedding_in_pipeline_split ? "account-for-embedding-in-pipeline-split"
        : c->account_for_loss_in_pipeline_split      ? "account-for-loss-in-pipeline-split"
        : c->num_layers_per_virtual_pipeline_stage != TR_UNSET_INT
            ? "num-layers-per-virtual-pipeline-stage"
        : c->num_virtual_stages_per_pipeline_rank != TR_UNSET_INT
            ? "num-virtual-stages-per-pipeline-rank"
            : NULL;

    if (!other)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--pipeline-model-parallel-layout says what every stage holds, and how many "
                   "chunks: remove --%s",
                   other);
}

/* On a vee a rank has a stage of the way there and one of the way back, as large as all others. */
static enum tr_status check_vee(const struct tr_config *c, const struct tr_layout *l)
{
    const int64_t stages = 2 * (int64_t)l->p;
    const int64_t more =
        c->account_for_embedding_in_pipeline_split + c->account_for_loss_in_pipeline_split;
    char near[64];

    if (!l->vee || c->pipeline_model_parallel_layout)
        return TR_OK;
    if (ends_given(c))
        return TR_FAIL(TR_ECONFIG,
                       "--decoder-%s-pipeline-num-layers is about a stage with one end of the "
                       "model, and with --pipeline-schedule %s the first stage has both: give "
                       "--pipeline-model-parallel-layout, which lists all virtual stages",
                       c->decoder_first_pipeline_num_layers != TR_UNSET_INT ? "first" : "last",
                       tr_config_spelling("pipeline-schedule", c->pipeline_schedule));
    if ((c->num_layers + more) % stages == 0)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "--pipeline-schedule %s cuts the model into %lld equal parts, two for each "
                   "stage, and --num-layers %lld with %lld for --account-for-... cannot be "
                   "divided so: together they must be %s, or give "
                   "--pipeline-model-parallel-layout",
                   tr_config_spelling("pipeline-schedule", c->pipeline_schedule), (long long)stages,
                   (long long)c->num_layers, (long long)more,
                   tr_multiples_near(stages, c->num_layers + more, near));
}

enum tr_status tr_layout_stages(const struct tr_config *c, struct tr_layout *l)
{
    const bool counts =
        c->account_for_embedding_in_pipeline_split || c->account_for_loss_in_pipeline_split;
    struct slots slots = {0};

    l->runs = 0;
    l->spread = false;
    l->vee = c->pipeline_schedule == TR_PIPE_ZB_V && l->p > 1;
    TR_TRY(check_vee(c, l));
    if (c->pipeline_model_parallel_layout) {
        TR_TRY(refuse_with_layout(c));
        return tr_layout_parse(c->pipeline_model_parallel_layout, c->num_layers, l);
    }
    if (!ends_given(c) && !counts && c->num_layers % l->p)
        return cut_unevenly(c, l);
    TR_TRY(ends_given(c) ? cut_ends(c, l, &slots) : cut_equally(c, l, &slots));
    TR_TRY(count_chunks(c, &slots, l));
    return fill(c, &slots, l);
}
