/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/model_family.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/text.h"

/* Megatron's own: the inner width of a plain MLP, and of a gated one, which is rounded down. */
static const double PLAIN = 4.0, GATED = 8.0 / 3.0;
enum { GATED_MULTIPLE = -64 };

/* What GPT-2 and Megatron have for rotary positions of a family that has none. */
static const double BASE = 10000.0, FRACTION = 1.0;
static const struct tr_rotary_scaling LLAMA31 = {8.0, 1.0, 4.0, 8192};

static const struct {
    const char *name, *why;
} others[] = {
#define OTHER(name, why) {name, why},
#include "config/other_families.def"
};

/* Where `part` ends in `name` if that begins with it in small or large letters and goes on with none. */
static const char *behind(const char *name, const char *part)
{
    const size_t n = strlen(part);

    return strncasecmp(name, part, n) == 0 && !isalpha((unsigned char)name[n]) ? name + n : NULL;
}

/* Of a model that is known by name and is no family here. */
static const char *why_not(const char *name)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const bool anywhere = others[i].name[0] == '*';

        for (const char *at = name; *at; at++)
            if ((at == name || anywhere) && behind(at, others[i].name + anywhere))
                return others[i].why;
    }
    return NULL;
}

/* Letters and digits alone, so that Llama-2 is llama2. */
static void letters_of(const char *name, char *out, size_t size)
{
    size_t n = 0;

    for (; *name && n + 1 < size; name++)
        if (isalnum((unsigned char)*name))
            out[n++] = *name;
    out[n] = '\0';
}

/* The family with the longest name that one of the words of `name` begins with, as Mistral-7B does. */
static const char *family_within(const char *name)
{
    const char *found = NULL;

    for (const char *at = name; *at; at++) {
        char rest[64];

        if (at > name && !strchr("-_", at[-1]))
            continue;
        letters_of(at, rest, sizeof rest);
        for (int i = 0; tr_family_row(i); i++) {
            const char *family = tr_family_row(i)->name;
            char letters[64];

            letters_of(family, letters, sizeof letters);
            if (behind(rest, letters) && (!found || strlen(family) > strlen(found)))
                found = family;
        }
    }
    return found;
}

static enum tr_status unknown(const char *name)
{
    const char *slash = strrchr(name, '/'); /* OWNER/NAME */
    const char *known[64], *bare = slash ? slash + 1 : name, *why = why_not(bare), *near;
    char list[512] = "";
    size_t used = 0;
    int n = 0;

    if (why)
        return TR_FAIL(TR_ECONFIG, "--model-family %s: %s", name, why);
    for (const struct tr_family *f; (f = tr_family_row(n)); n++) {
        TR_ASSERT(n < 64 && used < sizeof list);
        known[n] = f->name;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n ? ", " : "", f->name);
    }
    near = tr_nearest_name(name, known, n);
    near = near ? near : family_within(bare);
    return TR_FAIL(TR_ECONFIG, "--model-family: '%s' is none of %s%s%s%s", name, list,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* The options that are given of a list of them, the first by name; "" ends the list. */
struct asked {
    bool given;
    const char *name;
};

static const char *first_of(const struct asked *list)
{
    for (; list->name; list++)
        if (list->given)
            return list->name;
    return NULL;
}

static void set_norms(const struct tr_config *c, struct tr_family *f)
{
    if (c->normalization != TR_NORMALIZATION_FAMILY)
        f->rms = c->normalization == TR_NORMALIZATION_RMS;
    if (c->norm_epsilon > TR_UNSET_REAL)
        f->eps = c->norm_epsilon;
    f->one = f->one || c->apply_layernorm_1p;
    f->head_norm = f->head_norm || c->qk_layernorm;
    f->embed_norm = f->embed_norm || c->embedding_norm;
    if (c->norm_placement != TR_PLACEMENT_FAMILY &&
        (int)f->place != c->norm_placement - TR_PLACEMENT_BEFORE) {
        f->place = (enum tr_norm_place)(c->norm_placement - TR_PLACEMENT_BEFORE);
        /* Behind the last addition there is one already. */
        f->final_norm = f->place != TR_NORM_AFTER;
    }
}

/* Which kind of positions, by three options. */
static enum tr_status set_positions(const struct tr_config *c, struct tr_family *f)
{
    const int type = c->position_embedding_type;
    const bool rotary = c->use_rotary_position_embeddings;
    const char *spelling = tr_config_spelling("position-embedding-type", type);

    if (rotary && type != TR_POSITION_FAMILY && type != TR_POSITION_ROTARY)
        return TR_FAIL(TR_ECONFIG,
                       "--use-rotary-position-embeddings and --position-embedding-type %s ask for "
                       "two kinds of positions: give one of them",
                       spelling);
    if (rotary || type != TR_POSITION_FAMILY)
        f->positions =
            rotary ? TR_POSITIONS_ROTARY : (enum tr_positions)(type - TR_POSITION_LEARNED);
    if (c->no_position_embedding &&
        (f->positions == TR_POSITIONS_LEARNED || f->positions == TR_POSITIONS_SINUSOIDAL)) {
        if (type != TR_POSITION_FAMILY)
            return TR_FAIL(TR_ECONFIG,
                           "--position-embedding-type %s adds a table of positions, and "
                           "--no-position-embedding asks for none: give one of them",
                           spelling);
        f->positions = TR_POSITIONS_NONE;
    }
    if (f->positions != TR_POSITIONS_LEARNED)
        f->position_offset = 0;
    return TR_OK;
}

static enum tr_status set_scaling(const struct tr_config *c, struct tr_rotary_scaling *s)
{
    const char *tunes = first_of((const struct asked[]){
        {c->rope_scaling_factor > TR_UNSET_REAL, "rope-scaling-factor"},
        {c->rope_scaling_low_freq_factor > TR_UNSET_REAL, "rope-scaling-low-freq-factor"},
        {c->rope_scaling_high_freq_factor > TR_UNSET_REAL, "rope-scaling-high-freq-factor"},
        {c->rope_scaling_original_length != TR_UNSET_INT, "rope-scaling-original-length"},
        {false, NULL}});

    if (c->use_rope_scaling && s->factor <= 0.0)
        *s = LLAMA31;
    if (s->factor <= 0.0 && tunes)
        return TR_FAIL(TR_ECONFIG,
                       "--%s is about scaled rotary embeddings, and these are not: add "
                       "--use-rope-scaling, or remove it",
                       tunes);
    if (c->rope_scaling_factor > TR_UNSET_REAL)
        s->factor = c->rope_scaling_factor;
    if (c->rope_scaling_low_freq_factor > TR_UNSET_REAL)
        s->low = c->rope_scaling_low_freq_factor;
    if (c->rope_scaling_high_freq_factor > TR_UNSET_REAL)
        s->high = c->rope_scaling_high_freq_factor;
    if (c->rope_scaling_original_length != TR_UNSET_INT)
        s->original = c->rope_scaling_original_length;
    if (s->factor > 0.0 && s->factor < 1.0)
        return TR_FAIL(TR_ECONFIG,
                       "--rope-scaling-factor %g would let long waves turn faster, for shorter "
                       "sequences: give 1 or more",
                       s->factor);
    if (s->factor > 0.0 && s->low >= s->high)
        return TR_FAIL(TR_ECONFIG,
                       "--rope-scaling-low-freq-factor %g is not below "
                       "--rope-scaling-high-freq-factor %g, so no waves are between: give 1 and 4, "
                       "as Llama 3.1 has",
                       s->low, s->high);
    return TR_OK;
}

static const char *name_of(enum tr_positions positions)
{
    static const char *const names[] = {
        [TR_POSITIONS_LEARNED] = "learned positions",
        [TR_POSITIONS_SINUSOIDAL] = "sine positions",
        [TR_POSITIONS_ROTARY] = "rotary embeddings",
        [TR_POSITIONS_ALIBI] = "ALiBi",
        [TR_POSITIONS_NONE] = "no positions",
        [TR_POSITIONS_DISENTANGLED] = "relative positions",
    };

    return names[positions];
}

static enum tr_status set_rotary(const struct tr_config *c, struct tr_family *f)
{
    const char *about =
        first_of((const struct asked[]){{c->rotary_percent > TR_UNSET_REAL, "rotary-percent"},
                                        {c->rotary_base > TR_UNSET_REAL, "rotary-base"},
                                        {c->rotary_interleaved, "rotary-interleaved"},
                                        {c->use_rope_scaling, "use-rope-scaling"},
                                        {false, NULL}});

    if (f->positions != TR_POSITIONS_ROTARY) {
        f->rotary_base = f->rotary_fraction = 0.0;
        f->rotary_pairs = false;
        f->rotary_scaling = (struct tr_rotary_scaling){0};
        if (about)
            return TR_FAIL(TR_ECONFIG,
                           "--%s is about rotary embeddings, and this model has %s: add "
                           "--position-embedding-type rope, or remove it",
                           about, name_of(f->positions));
        return set_scaling(c, &f->rotary_scaling);
    }
    if (f->rotary_base <= 0.0) {
        f->rotary_base = BASE;
        f->rotary_fraction = FRACTION;
    }
    if (c->rotary_percent > TR_UNSET_REAL)
        f->rotary_fraction = c->rotary_percent;
    if (c->rotary_base > TR_UNSET_REAL)
        f->rotary_base = c->rotary_base;
    f->rotary_pairs = f->rotary_pairs || c->rotary_interleaved;
    return set_scaling(c, &f->rotary_scaling);
}

/* "N", "LEFT,RIGHT" or "(LEFT, RIGHT)": numbers from -1 on.  Returns how many there are, 0 if it is something
   else. */
static int window_numbers(const char *text, long long number[2])
{
    const bool open = *text == '(';
    int n = 0;

    for (text += open; n < 2; n++) {
        char *end;

        number[n] = strtoll(text, &end, 10);
        if (end == text || number[n] < -1 || number[n] >= INT32_MAX)
            return 0;
        text = end + strspn(end, " ");
        if (*text != ',')
            break;
        text++;
    }
    if (open != (*text == ')') || text[open] || (open && n == 0))
        return 0;
    return n < 2 ? n + 1 : 0;
}

static enum tr_status set_window(const struct tr_config *c, struct tr_family *f)
{
    long long number[2] = {0, 0};
    int n;

    if (!c->window_size)
        return TR_OK;
    n = window_numbers(c->window_size, number);
    if (n == 0 || (n == 1 && number[0] < 0))
        return TR_FAIL(TR_ECONFIG,
                       "--window-size: '%s' will not do: give how many tokens a token sees with "
                       "itself, such as 4096, or LEFT,0, such as 4095,0",
                       c->window_size);
    if (n == 2 && number[1] > 0)
        return TR_FAIL(TR_ECONFIG,
                       "--window-size %s lets a token see %lld after it, and a decoder predicts "
                       "those: give %lld,0",
                       c->window_size, number[1], number[0]);
    f->window = n == 2 ? number[0] + 1 : number[0];
    return TR_OK;
}

/* With buckets b and positions p a distance of r > b / 2 has bucket b / 2 + (b / 2 - 1) ln(2 r / b) / ln(2 (p - 1) / b),
   which ascends by less than 1 from one distance to the next where p - 1 >= e b / 2. */
#define BUCKET_REACH (M_E / 2.0)

/* What of DeBERTa other models lack. */
static enum tr_status set_encoder(const struct tr_config *c, struct tr_family *f)
{
    const char *about = first_of((const struct asked[]){
        {c->position_buckets != TR_UNSET_INT, "position-buckets"},
        {c->max_relative_positions != TR_UNSET_INT, "max-relative-positions"},
        {c->conv_kernel_size != TR_UNSET_INT && c->conv_kernel_size > 0, "conv-kernel-size"},
        {false, NULL}});

    if (about && !f->encoder)
        return TR_FAIL(TR_ECONFIG,
                       "--%s is about DeBERTa's encoder, and this model is a decoder: give "
                       "--model-family deberta-v2, or remove it",
                       about);
    if (f->encoder != (f->positions == TR_POSITIONS_DISENTANGLED))
        return TR_FAIL(TR_ECONFIG,
                       "an encoder has the positions \"disentangled\" here, a decoder any others, "
                       "and this model has %s: leave --position-embedding-type to --model-family",
                       name_of(f->positions));
    if (c->position_buckets != TR_UNSET_INT)
        f->position_buckets = c->position_buckets;
    if (c->max_relative_positions != TR_UNSET_INT)
        f->relative_longest = c->max_relative_positions;
    if (c->conv_kernel_size != TR_UNSET_INT)
        f->convolution = c->conv_kernel_size;
    if (f->encoder &&
        (f->position_buckets < 4 || f->position_buckets % 2 != 0 ||
         (double)f->relative_longest - 1.0 < BUCKET_REACH * (double)f->position_buckets))
        return TR_FAIL(
            TR_ECONFIG,
            "--position-buckets %lld with --max-relative-positions %lld: half of the buckets "
            "are for short distances, a bucket each; the others are for longer ones by their "
            "logarithm, and none may be left out: give an even number from 4 on, and "
            "twice as many positions",
            (long long)f->position_buckets, (long long)f->relative_longest);
    if (f->convolution > 0 && f->convolution % 2 == 0)
        return TR_FAIL(TR_ECONFIG,
                       "--conv-kernel-size %lld has no token in its middle: give %lld or %lld",
                       (long long)f->convolution, (long long)f->convolution - 1,
                       (long long)f->convolution + 1);
    if (f->encoder && f->place != TR_NORM_AFTER)
        return TR_FAIL(TR_ECONFIG, "DeBERTa's layers have norms after each sublayer: remove "
                                   "--norm-placement");
    return TR_OK;
}

static enum tr_status set_attention(const struct tr_config *c, struct tr_family *f)
{
    if (c->num_query_groups != TR_UNSET_INT)
        f->groups = c->num_query_groups;
    else if (c->group_query_attention && f->groups == 0)
        f->groups = 1;
    if (c->kv_channels != TR_UNSET_INT)
        f->head_width = c->kv_channels;
    return set_window(c, f);
}

/* Of the activations that options ask for the one that they agree on. */
static enum tr_status set_activation(const struct tr_config *c, struct tr_family *f)
{
    const char *spelling = tr_config_spelling("activation", c->activation);
    const struct {
        bool given;
        int act;
        const char *option, *value;
    } asked[] = {
        {c->swiglu, TR_ACT_SWIGLU, "swiglu", ""},
        {c->squared_relu, TR_ACT_RELU2, "squared-relu", ""},
        {c->openai_gelu, TR_ACT_GELU_TANH, "openai-gelu", ""},
        {c->activation != TR_ACTIVATION_FAMILY, c->activation - 1, "activation ", spelling},
    };
    enum tr_act act = f->act;
    int by = -1;

    for (int i = 0; i < (int)(sizeof asked / sizeof asked[0]); i++) {
        if (!asked[i].given)
            continue;
        if (by >= 0 && (int)act != asked[i].act)
            return TR_FAIL(TR_ECONFIG,
                           "--%s and --%s%s ask for two activations of the MLP: give one of them",
                           asked[by].option, asked[i].option, asked[i].value);
        act = (enum tr_act)asked[i].act;
        by = i;
    }
    if (tr_act_gated(act) != tr_act_gated(f->act)) {
        f->ffn_factor = tr_act_gated(act) ? GATED : PLAIN;
        f->ffn_multiple = tr_act_gated(act) ? GATED_MULTIPLE : 1;
    }
    f->act = act;
    return TR_OK;
}

static enum tr_status set_linear(const struct tr_config *c, struct tr_family *f)
{
    if (c->disable_bias_linear)
        f->qkv_bias = f->proj_bias = f->mlp_bias = f->head_bias = false;
    f->qkv_bias = f->qkv_bias || c->add_qkv_bias;
    f->head_bias = f->head_bias || c->add_output_layer_bias;
    f->scale_embedding = f->scale_embedding || c->scale_embedding;
    if (c->word_embed_proj_dim != TR_UNSET_INT)
        f->embed_width = c->word_embed_proj_dim;
    if (c->tie_embeddings_and_output_weights && c->untie_embeddings_and_output_weights)
        return TR_FAIL(TR_ECONFIG, "--tie-embeddings-and-output-weights and "
                                   "--untie-embeddings-and-output-weights contradict one another: "
                                   "give one of them");
    if (c->tie_embeddings_and_output_weights || c->untie_embeddings_and_output_weights)
        f->tied = c->tie_embeddings_and_output_weights;
    return TR_OK;
}

static enum tr_status check(const struct tr_family *f)
{
    if (f->head_norm && !f->rms)
        return TR_FAIL(TR_ECONFIG, "--qk-layernorm takes the root mean square of queries and keys, "
                                   "and the other norms are LayerNorm: give --normalization "
                                   "RMSNorm, or remove it");
    if (f->encoder && (f->window > 0 || f->rms))
        return TR_FAIL(TR_ECONFIG,
                       "DeBERTa's attention has no window, and its norms are LayerNorm: "
                       "remove --window-size and --normalization");
    if (f->window > 0 && f->positions == TR_POSITIONS_ALIBI)
        return TR_FAIL(TR_ECONFIG,
                       "a window of %lld tokens cuts off what ALiBi fades out with the distance: "
                       "give --window-size 0, or another --position-embedding-type",
                       (long long)f->window);
    return TR_OK;
}

enum tr_status tr_family_of(const struct tr_config *c, struct tr_family *out)
{
    const struct tr_family *row = tr_family_find(c->model_family);

    if (!row)
        return unknown(c->model_family);
    *out = *row;
    set_norms(c, out);
    TR_TRY(set_positions(c, out));
    TR_TRY(set_rotary(c, out));
    TR_TRY(set_attention(c, out));
    TR_TRY(set_encoder(c, out));
    TR_TRY(set_activation(c, out));
    TR_TRY(set_linear(c, out));
    return check(out);
}

int64_t tr_family_ffn(const struct tr_family *f, int64_t hidden)
{
    const int64_t width = (int64_t)floor(f->ffn_factor * (double)hidden + 1e-6);
    const bool down = f->ffn_multiple < 0;
    const int64_t given = down ? -f->ffn_multiple : f->ffn_multiple,
                  multiple = given > 0 ? given : 1;

    if (down && width >= multiple)
        return width / multiple * multiple;
    return (width + multiple - 1) / multiple * multiple;
}

int64_t tr_family_rotary(const struct tr_family *f, int64_t head_dim)
{
    return (int64_t)floor(f->rotary_fraction * (double)head_dim + 1e-6);
}

/* Megatron's rate, for those that were trained with dropout. */
static double dropout(double given, const struct tr_family *f)
{
    return given > TR_UNSET_REAL ? given : f->dropout ? 0.1 : 0.0;
}

double tr_family_attention_dropout(const struct tr_config *c, const struct tr_family *f)
{
    return dropout(c->attention_dropout, f);
}

double tr_family_hidden_dropout(const struct tr_config *c, const struct tr_family *f)
{
    return dropout(c->hidden_dropout, f);
}
