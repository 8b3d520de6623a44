/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_FAMILY_FAMILY_H
#define TR_FAMILY_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

/* The activation inside an MLP: a row of family/acts.def.  Those from TR_ACT_FIRST_GATED on take two columns of
   the product for one of the result. */
enum tr_act {
#define ACT(symbol, name) TR_ACT_##symbol,
#include "family/acts.def"
    TR_ACT_FIRST_GATED,
    TR_ACT_LAST_PLAIN = TR_ACT_FIRST_GATED - 1,
#define GATED(symbol, name, of) TR_ACT_##symbol,
#include "family/acts.def"
    TR_ACTS
};

static inline bool tr_act_gated(enum tr_act act)
{
    return act >= TR_ACT_FIRST_GATED;
}

/* Where the norms of a layer are, with n1 and n2 its norms:
   BEFORE    s = x + attention(n1(x)), y = s + mlp(n2(s))
   AFTER     s = n1(x + attention(x)), y = n2(s + mlp(s))
   SHARED    y = x + attention(n1(x)) + mlp(n1(x))
   PARALLEL  y = x + attention(n1(x)) + mlp(n2(x)) */
enum tr_norm_place { TR_NORM_BEFORE, TR_NORM_AFTER, TR_NORM_SHARED, TR_NORM_PARALLEL };

/* How a token knows its position:
   LEARNED     a table of parameters, added to the embedding
   SINUSOIDAL  a fixed table (Vaswani et al. 2017), added to the embedding
   ROTARY      queries and keys turn by the position (Su et al. 2021)
   ALIBI       scores fall with the distance (Press et al. 2022)
   NONE        by the causal mask alone
   DISENTANGLED  scores know of the distance, by its bucket: queries and keys of a table of relative positions
               meet those of tokens (He et al. 2021) */
enum tr_positions {
    TR_POSITIONS_LEARNED,
    TR_POSITIONS_SINUSOIDAL,
    TR_POSITIONS_ROTARY,
    TR_POSITIONS_ALIBI,
    TR_POSITIONS_NONE,
    TR_POSITIONS_DISENTANGLED
};

/* Rotary positions for texts longer than those trained on, as Llama 3.1 scales them: wave lengths above
   original / low turn `factor` times as slowly, those below original / high as they were, and between both the
   two are mixed.  factor 0: not scaled. */
struct tr_rotary_scaling {
    double factor, low, high;
    int64_t original;
};

/*
 * The architecture of a decoder or an encoder, as data.  A row of the table (family/family.c) is what its authors published;
 * options set single fields of a copy (config/model_family.h).  Sizes are in config/dims.h.  No code asks
 * for a family by its name: it reads these fields.
 */
struct tr_family {
    const char *name;  /* a value of --model-family */
    const char *about; /* for the help */

    bool rms;                 /* norms by the root mean square, without mean and bias */
    bool one;                 /* the gain of a norm is 1 + the parameter */
    double eps;               /* of the norms */
    enum tr_norm_place place; /* of the norms of a layer */
    bool embed_norm;          /* another norm behind the embedding */
    bool final_norm;          /* one before the output layer */
    bool head_norm;           /* of each query and key, by the root mean square */

    enum tr_positions positions;
    int64_t position_offset; /* rows of the learned table before that of position 0 */
    double rotary_fraction;  /* of a head's width that turns */
    double rotary_base;
    bool rotary_pairs; /* neighbours turn together: (2 i, 2 i + 1), not (i, i + half) */
    struct tr_rotary_scaling rotary_scaling;
    bool
        encoder; /* a token sees all of its sample, and what pads it is zero behind the embedding */
    int64_t position_buckets; /* of relative positions: the table has twice as many rows */
    int64_t
        relative_longest; /* the distance that has the last bucket, plus 1; 0: the longest sequence */
    int64_t convolution; /* taps of a convolution beside the first layer; 0: none */
    int64_t window;      /* tokens that a token sees, itself included; 0: all before it */

    int64_t groups;       /* key-value groups; 0: as many as heads */
    int64_t head_width;   /* 0: hidden / heads */
    double score_divisor; /* scores are divided by its root; 0: the head's width */
    bool qkv_bias, proj_bias, mlp_bias, head_bias;

    enum tr_act act;
    double ffn_factor; /* inner width of the MLP unless given: times the hidden size */
    int64_t
        ffn_multiple; /* and rounded up to a multiple of this; down to one of -this, if negative */
    bool scale_embedding; /* by the root of the hidden size */
    int64_t
        embed_width; /* of the embedding, with a projection to the hidden size; 0: the hidden size */
    bool
        pooler; /* a head of classes reads the first token, through a dense layer and GELU, and has a bias; without
                        it the last token, alone */
    const char
        *frozen;  /* names of parameters that are not trained, as --freeze has them; NULL: none */
    bool tied;    /* the output layer has the word embedding's matrix */
    bool dropout; /* trained with dropout, so that Megatron's rates are the default */
};

/* The row of that name, or NULL; row i, or NULL behind the last. */
const struct tr_family *tr_family_find(const char *name);
const struct tr_family *tr_family_row(int i);

#endif
