/* SPDX-License-Identifier: BSD-3-Clause */
#include "family/family.h"

#include <stddef.h>
#include <string.h>

/* What most rows share. */
#define NORMS .eps = 1e-5, .final_norm = true
#define BIASES .qkv_bias = true, .proj_bias = true, .mlp_bias = true
#define MLP(activation, factor, multiple) \
    .act = TR_ACT_##activation, .ffn_factor = (factor), .ffn_multiple = (multiple)
#define ROTARY(base, fraction) \
    .positions = TR_POSITIONS_ROTARY, .rotary_base = (base), .rotary_fraction = (fraction)
#define RMS(epsilon) .rms = true, .eps = (epsilon), .final_norm = true
#define ENCODER                                                                                  \
    BIASES, MLP(GELU, 4.0, 1), .eps = 1e-7, .place = TR_NORM_AFTER, .embed_norm = true,          \
                               .positions = TR_POSITIONS_DISENTANGLED, .encoder = true,          \
                               .position_buckets = 256, .relative_longest = 512, .pooler = true, \
                               .dropout = true

static const struct tr_family families[] = {
    {.name = "gpt2",
     .about = "GPT-2 and GPT-3: norms before, learned positions, GELU (Radford et al. 2019)",
     NORMS,
     BIASES,
     MLP(GELU_TANH, 4.0, 1),
     .tied = true,
     .dropout = true},
    {.name = "opt",
     .about = "OPT: GPT-2 with ReLU; its table of positions begins at row 2 (Zhang et al. 2022)",
     NORMS,
     BIASES,
     MLP(RELU, 4.0, 1),
     .position_offset = 2,
     .tied = true,
     .dropout = true},
    {.name = "opt-350m",
     .about =
         "OPT 350M: norms after each sublayer, none at the end, embeddings 512 wide, projected",
     BIASES,
     MLP(RELU, 4.0, 1),
     .eps = 1e-5,
     .place = TR_NORM_AFTER,
     .position_offset = 2,
     .embed_width = 512,
     .tied = true,
     .dropout = true},
    {.name = "gptj",
     .about = "GPT-J: attention and MLP side by side behind one norm, rotary in pairs (Wang 2021)",
     NORMS,
     ROTARY(10000.0, 0.25),
     MLP(GELU_TANH, 4.0, 1),
     .rotary_pairs = true,
     .place = TR_NORM_SHARED,
     .mlp_bias = true,
     .head_bias = true},
    {.name = "gpt-neox",
     .about = "GPT-NeoX 20B: side by side with a norm each, a quarter rotary (Black et al. 2022)",
     NORMS,
     BIASES,
     ROTARY(10000.0, 0.25),
     MLP(GELU_TANH, 4.0, 1),
     .place = TR_NORM_PARALLEL},
    {.name = "pythia",
     .about = "Pythia: GPT-NeoX with the exact GELU (Biderman et al. 2023)",
     NORMS,
     BIASES,
     ROTARY(10000.0, 0.25),
     MLP(GELU, 4.0, 1),
     .place = TR_NORM_PARALLEL},
    {.name = "bloom",
     .about = "BLOOM: ALiBi, a norm behind the embedding (Le Scao et al. 2022)",
     NORMS,
     BIASES,
     MLP(GELU_TANH, 4.0, 1),
     .embed_norm = true,
     .positions = TR_POSITIONS_ALIBI,
     .tied = true},
    {.name = "llama2",
     .about = "Llama 2: RMS norms, SwiGLU, rotary, no biases (Touvron et al. 2023)",
     RMS(1e-5),
     ROTARY(10000.0, 1.0),
     MLP(SWIGLU, 8.0 / 3.0, 256)},
    {.name = "llama3",
     .about = "Llama 3: 8 key-value groups, a rotary base of 500000 (Dubey et al. 2024)",
     RMS(1e-5),
     ROTARY(500000.0, 1.0),
     MLP(SWIGLU, 3.5, 256),
     .groups = 8},
    {.name = "llama3.1",
     .about = "Llama 3.1 to 3.3: rotary positions scaled for 131072 tokens",
     RMS(1e-5),
     ROTARY(500000.0, 1.0),
     MLP(SWIGLU, 3.5, 256),
     .groups = 8,
     .rotary_scaling = {8.0, 1.0, 4.0, 8192}},
    {.name = "mistral",
     .about = "Mistral 7B: 8 key-value groups, a window of 4096 tokens (Jiang et al. 2023)",
     RMS(1e-5),
     ROTARY(10000.0, 1.0),
     MLP(SWIGLU, 3.5, 256),
     .groups = 8,
     .window = 4096},
    {.name = "qwen2",
     .about = "Qwen 2 and 2.5: Llama with biases of queries, keys and values (Yang et al. 2024)",
     RMS(1e-6),
     ROTARY(1000000.0, 1.0),
     MLP(SWIGLU, 8.0 / 3.0, 256),
     .qkv_bias = true},
    {.name = "qwen3",
     .about = "Qwen 3: norms of queries and keys, heads 128 wide (Yang et al. 2025)",
     RMS(1e-6),
     ROTARY(1000000.0, 1.0),
     MLP(SWIGLU, 3.0, 256),
     .groups = 8,
     .head_norm = true,
     .head_width = 128},
    {.name = "gemma",
     .about =
         "Gemma: gains of 1 + parameter, a GELU gate, heads 256 wide, scaled embeddings (2024)",
     RMS(1e-6),
     ROTARY(10000.0, 1.0),
     MLP(GEGLU_TANH, 8.0, 1),
     .one = true,
     .head_width = 256,
     .scale_embedding = true,
     .tied = true},
    {.name = "starcoder2",
     .about = "StarCoder 2: GPT-2's layer with rotary positions, 4 groups, a window (Lozhkov 2024)",
     NORMS,
     BIASES,
     ROTARY(1000000.0, 1.0),
     MLP(GELU_TANH, 4.0, 1),
     .groups = 4,
     .window = 4096,
     .tied = true,
     .dropout = true},
    {.name = "deberta-v2",
     .about = "DeBERTa v2: an encoder, disentangled attention, a convolution (He et al. 2021)",
     ENCODER,
     .convolution = 3},
    {.name = "deberta-v3",
     .about = "DeBERTa v3: DeBERTa v2 without its convolution (He et al. 2023)",
     ENCODER},
    {.name = "yuan",
     .about = "YuanGenerativeLM in GPT-2's form: GPT-2 with ReLU",
     NORMS,
     BIASES,
     MLP(RELU, 4.0, 1),
     .tied = true,
     .dropout = true},
    {.name = "yuan-native",
     .about = "YuanGenerativeLM's own form: fixed sine positions, ReLU, no norm at the end",
     BIASES,
     MLP(RELU, 4.0, 1),
     .eps = 1e-5,
     .positions = TR_POSITIONS_SINUSOIDAL,
     .dropout = true},
};

const struct tr_family *tr_family_row(int i)
{
    return i >= 0 && (size_t)i < sizeof families / sizeof families[0] ? &families[i] : NULL;
}

const struct tr_family *tr_family_find(const char *name)
{
    for (int i = 0; tr_family_row(i); i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    return NULL;
}
