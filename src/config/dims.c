/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/dims.h"

#include <stdio.h>

#include "config/classify.h"
#include "config/model_family.h"
#include "config/near.h"
#include "config/vocab.h"

enum { WIDEST_HEAD = TR_WIDEST_HEAD };

static enum tr_status set_embed(const struct tr_config *c, struct tr_dims *m)
{
    m->embed = m->family.embed_width > 0 ? m->family.embed_width : m->hidden;
    if (m->embed > m->hidden)
        return TR_FAIL(TR_ECONFIG,
                       "--word-embed-proj-dim %lld%s is more than --hidden-size %lld, and a word "
                       "embedding is projected to what is wider: give %lld or less",
                       (long long)m->embed,
                       c->word_embed_proj_dim != TR_UNSET_INT ? "" : ", by --model-family,",
                       (long long)m->hidden, (long long)m->hidden);
    return TR_OK;
}

static enum tr_status set_heads(const struct tr_config *c, int w, struct tr_dims *m)
{
    char near[64];

    m->heads = c->num_attention_heads;
    if (m->family.head_width == 0 && m->hidden % m->heads)
        return TR_FAIL(TR_ECONFIG,
                       "--hidden-size %lld does not divide into --num-attention-heads %lld: the "
                       "nearest hidden size that does is %s; or give the width of a head as "
                       "--kv-channels",
                       (long long)m->hidden, (long long)m->heads,
                       tr_multiples_near(m->heads, m->hidden, near));
    m->head_dim = m->family.head_width > 0 ? m->family.head_width : m->hidden / m->heads;
    if (c->kv_channels != TR_UNSET_INT && m->head_dim > WIDEST_HEAD)
        return TR_FAIL(TR_ECONFIG,
                       "--kv-channels %lld is wider than attention takes: give %d or less",
                       (long long)m->head_dim, WIDEST_HEAD);
    if (m->heads % w)
        return TR_FAIL(TR_ECONFIG,
                       "--num-attention-heads %lld is not a multiple of "
                       "--tensor-model-parallel-size %d: use %s ranks, or %s heads",
                       (long long)m->heads, w, tr_divisors_near(m->heads, w, near),
                       tr_multiples_near(w, m->heads, (char[64]){0}));
    return TR_OK;
}

/* Whether tensor ranks can divide the groups: whole groups each, or, where ranks are more, equal numbers of
   ranks to a group and of rows of the weight to a rank. */
static bool groups_fit(const struct tr_dims *m, int64_t w)
{
    if (m->heads % w)
        return false;
    if (m->groups >= w)
        return m->groups % w == 0;
    return w % m->groups == 0 && (m->heads + 2 * m->groups) * m->head_dim % w == 0;
}

static enum tr_status set_groups(const struct tr_config *c, int w, struct tr_dims *m)
{
    const char *from = c->num_query_groups != TR_UNSET_INT ? "" : ", by --model-family,";
    int64_t below = w, above = w;
    char near[64];

    m->groups = m->family.groups > 0 ? m->family.groups : m->heads;
    if (m->heads % m->groups)
        return TR_FAIL(TR_ECONFIG,
                       "--num-query-groups %lld%s does not divide --num-attention-heads %lld: the "
                       "nearest that does is %s",
                       (long long)m->groups, from, (long long)m->heads,
                       tr_divisors_near(m->heads, m->groups, near));
    if (groups_fit(m, w))
        return TR_OK;
    while (!groups_fit(m, below))
        below--;
    while (above < m->heads && !groups_fit(m, above))
        above++;
    if (above < m->heads || groups_fit(m, above))
        snprintf(near, sizeof near, "%lld or %lld", (long long)below, (long long)above);
    else
        snprintf(near, sizeof near, "%lld", (long long)below);
    return TR_FAIL(TR_ECONFIG,
                   "--tensor-model-parallel-size %d cannot shard the %lld key-value groups of "
                   "%lld heads%s: use %s ranks, or other --num-query-groups",
                   w, (long long)m->groups, (long long)m->heads, from, near);
}

static bool turns_in_pairs(const struct tr_family *f, int64_t head_dim)
{
    const int64_t width = tr_family_rotary(f, head_dim);

    return width > 0 && width % 2 == 0;
}

/* "; or give --kv-channels 6 or 8", the widths next to this one that would do with the same fraction, or "". */
static const char *near_width(const struct tr_dims *m, char *buf, size_t size)
{
    int64_t below = m->head_dim - 1, above = m->head_dim + 1;

    while (below > 0 && !turns_in_pairs(&m->family, below))
        below--;
    while (above <= WIDEST_HEAD && !turns_in_pairs(&m->family, above))
        above++;
    if (below > 0 && above <= WIDEST_HEAD)
        snprintf(buf, size, "; or give --kv-channels %lld or %lld", (long long)below,
                 (long long)above);
    else if (below > 0 || above <= WIDEST_HEAD)
        snprintf(buf, size, "; or give --kv-channels %lld", (long long)(below > 0 ? below : above));
    else
        buf[0] = '\0';
    return buf;
}

static enum tr_status check_rotary(const struct tr_dims *m)
{
    const int64_t width = tr_family_rotary(&m->family, m->head_dim), even = width / 2 * 2;
    char near[80], widths[80];

    if (m->family.positions != TR_POSITIONS_ROTARY || turns_in_pairs(&m->family, m->head_dim))
        return TR_OK;
    if (m->head_dim < 2)
        return TR_FAIL(TR_ECONFIG, "rotary embeddings turn pairs of numbers, and heads are 1 wide: "
                                   "give --kv-channels 2 or more");
    if (even == 0)
        snprintf(near, sizeof near, "%.9g", 2.0 / (double)m->head_dim);
    else if (even + 2 > m->head_dim)
        snprintf(near, sizeof near, "%.9g", (double)even / (double)m->head_dim);
    else
        snprintf(near, sizeof near, "%.9g or %.9g", (double)even / (double)m->head_dim,
                 (double)(even + 2) / (double)m->head_dim);
    return TR_FAIL(TR_ECONFIG,
                   "--rotary-percent %g of heads of %lld is %lld numbers, and they turn in pairs: "
                   "the nearest that does is %s%s",
                   m->family.rotary_fraction, (long long)m->head_dim, (long long)width, near,
                   near_width(m, widths, sizeof widths));
}

static enum tr_status set_mlp(const struct tr_config *c, int w, struct tr_dims *m)
{
    char near[64];

    m->ffn = c->ffn_hidden_size == TR_UNSET_INT ? tr_family_ffn(&m->family, m->hidden)
                                                : c->ffn_hidden_size;
    if (m->ffn % w)
        return TR_FAIL(TR_ECONFIG,
                       "--ffn-hidden-size %lld is not a multiple of --tensor-model-parallel-size "
                       "%d: the nearest that is %s",
                       (long long)m->ffn, w, tr_multiples_near(w, m->ffn, near));
    return TR_OK;
}

static enum tr_status set_length(const struct tr_config *c, struct tr_dims *m)
{
    m->seq = c->seq_length;
    m->positions = c->max_position_embeddings != TR_UNSET_INT ? c->max_position_embeddings : m->seq;
    if (m->seq > m->positions)
        return TR_FAIL(
            TR_ECONFIG,
            "--seq-length %lld is longer than --max-position-embeddings %lld: a token at "
            "the end would have no position; raise the latter to %lld",
            (long long)m->seq, (long long)m->positions, (long long)m->seq);
    return TR_OK;
}

static enum tr_status set_vocab(const struct tr_config *c, int w, struct tr_dims *m)
{
    int64_t unit = c->make_vocab_size_divisible_by * w;

    TR_TRY(tr_vocab_of(c, &m->vocab, &m->eod));
    m->vocab_padded = (m->vocab + unit - 1) / unit * unit;
    return TR_OK;
}

/* An encoder's token has seen the next one. */
static enum tr_status check_encoder(const struct tr_dims *m)
{
    if (!m->family.encoder)
        return TR_OK;
    if (m->groups != m->heads)
        return TR_FAIL(TR_ECONFIG,
                       "DeBERTa's attention has a key and a value for each query: remove "
                       "--num-query-groups and --group-query-attention");
    if (m->head == TR_HEAD_CLASSES)
        return TR_OK;
    return TR_FAIL(
        TR_ECONFIG,
        "an encoder sees the token that a language model is to predict: give --task-name "
        "classification, cola or qnli, or the --num-labels of another task of classes");
}

/* A head of classes has a matrix of its own. */
static void set_head(const struct tr_config *c, struct tr_dims *m)
{
    m->freeze = c->freeze.count > 0 ? &c->freeze : NULL;
    m->classes = tr_classify_labels(c);
    if (m->classes == 0)
        return;
    m->head = TR_HEAD_CLASSES;
    m->family.tied = false;
}

enum tr_status tr_dims_of(const struct tr_config *c, int w, struct tr_dims *m)
{
    *m = (struct tr_dims){.layers = c->num_layers, .hidden = c->hidden_size};
    TR_TRY(tr_family_of(c, &m->family));
    TR_TRY(set_embed(c, m));
    TR_TRY(set_heads(c, w, m));
    TR_TRY(set_groups(c, w, m));
    TR_TRY(check_rotary(m));
    TR_TRY(set_mlp(c, w, m));
    TR_TRY(set_length(c, m));
    set_head(c, m);
    TR_TRY(check_encoder(m));
    return set_vocab(c, w, m);
}

const char *tr_dims_fused_needs(const struct tr_dims *m, int w)
{
    const struct tr_family *f = &m->family;

    if (m->heads / w != (m->groups > w ? m->groups / w : 1))
        return "as many --num-query-groups as --num-attention-heads";
    if (f->window > 0 && f->window < m->seq)
        return "--window-size 0";
    if (f->positions == TR_POSITIONS_ALIBI)
        return "a --position-embedding-type other than alibi";
    if (f->encoder)
        return "a decoder";
    return m->head_dim % 8 != 0 ? "heads whose width is a multiple of 8" : NULL;
}

/* ---- what they say of options that are not given ---- */

static void tell_norms(const struct tr_family *f, struct tr_config *o)
{
    o->normalization = f->rms ? TR_NORMALIZATION_RMS : TR_NORMALIZATION_LAYER;
    o->norm_epsilon = f->eps;
    o->norm_placement = TR_PLACEMENT_BEFORE + (int)f->place;
    o->apply_layernorm_1p = f->one;
    o->embedding_norm = f->embed_norm;
    o->qk_layernorm = f->head_norm;
}

static void tell_positions(const struct tr_family *f, struct tr_config *o)
{
    const struct tr_rotary_scaling *s = &f->rotary_scaling;

    o->position_embedding_type = TR_POSITION_LEARNED + (int)f->positions;
    if (f->positions != TR_POSITIONS_ROTARY)
        return;
    o->rotary_percent = f->rotary_fraction;
    o->rotary_base = f->rotary_base;
    o->rotary_interleaved = f->rotary_pairs;
    o->use_rope_scaling = s->factor > 0.0;
    if (!o->use_rope_scaling)
        return;
    o->rope_scaling_factor = s->factor;
    o->rope_scaling_low_freq_factor = s->low;
    o->rope_scaling_high_freq_factor = s->high;
    o->rope_scaling_original_length = s->original;
}

/* Biases that are not all there or all gone are those of the family. */
static void tell_mlp(const struct tr_family *f, struct tr_config *o)
{
    o->activation = (int)f->act + 1;
    o->swiglu = f->act == TR_ACT_SWIGLU;
    o->squared_relu = f->act == TR_ACT_RELU2;
    o->disable_bias_linear = !f->proj_bias && !f->mlp_bias;
    o->add_qkv_bias = o->add_qkv_bias || (o->disable_bias_linear && f->qkv_bias);
    o->add_output_layer_bias = f->head_bias;
}

void tr_dims_tell(const struct tr_config *c, const struct tr_dims *m, struct tr_told *told)
{
    const struct tr_family *f = &m->family;
    struct tr_config *o = &told->options;

    *o = *c;
    tell_norms(f, o);
    tell_positions(f, o);
    tell_mlp(f, o);
    o->group_query_attention = m->groups < m->heads;
    o->num_query_groups = m->groups;
    o->kv_channels = m->head_dim;
    o->ffn_hidden_size = m->ffn;
    o->max_position_embeddings = m->positions;
    if (f->encoder) {
        o->position_buckets = f->position_buckets;
        o->max_relative_positions = f->relative_longest;
        o->conv_kernel_size = f->convolution;
    }
    if (f->embed_width > 0)
        o->word_embed_proj_dim = m->embed;
    o->scale_embedding = f->scale_embedding;
    o->tie_embeddings_and_output_weights = f->tied;
    o->untie_embeddings_and_output_weights = !f->tied;
    o->attention_dropout = tr_family_attention_dropout(c, f);
    o->hidden_dropout = tr_family_hidden_dropout(c, f);
    if (f->window > 0) {
        snprintf(told->window, sizeof told->window, "%lld,0", (long long)f->window - 1);
        o->window_size = told->window;
    }
}
