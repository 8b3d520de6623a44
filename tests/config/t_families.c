/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/model_family.h"
#include "config/parsed.h"
#include "config/shape.h"
#include "device/device.h"
#include "util/file.h"

/* Enough for a shape, without what is about the model. */
static const char rest[] = " --seq-length 64 --vocab-size 1000 --tokenizer-type NullTokenizer "
                           "--micro-batch-size 1 --lr 1e-4 "
                           "--train-iters 10";

/* The shape of these options on `world` ranks, all of them tensor-parallel unless options say otherwise. */
static enum tr_status shape(const char *text, int world, struct tr_shape *s)
{
    char *all = tr_format("--tensor-model-parallel-size %d%s %s", world, rest, text);
    enum tr_status status = parse(all);

    free(all);
    return status == TR_OK ? tr_shape_of(&c, world, s) : status;
}

/* A row as text, one name and value for each field that is not 0; owned by the caller. */
static char *row_text(const struct tr_family *f)
{
    const struct tr_rotary_scaling *r = &f->rotary_scaling;

    return tr_format(
        "rms %d one %d eps %g place %d norms %d%d%d positions %d+%lld rotary %g %g %d "
        "%g:%g:%g:%lld "
        "window %lld groups %lld width %lld divisor %g biases %d%d%d%d act %d scale %d "
        "embed %lld tied %d",
        f->rms, f->one, f->eps, f->place, f->embed_norm, f->final_norm, f->head_norm, f->positions,
        (long long)f->position_offset, f->rotary_fraction, f->rotary_base, f->rotary_pairs,
        r->factor, r->low, r->high, (long long)r->original, (long long)f->window,
        (long long)f->groups, (long long)f->head_width, f->score_divisor, f->qkv_bias, f->proj_bias,
        f->mlp_bias, f->head_bias, f->act, f->scale_embedding, (long long)f->embed_width, f->tied);
}

/* Two option lists that mean the same model. */
static void equal_models(void **state)
{
    static const struct {
        const char *a, *b;
    } pairs[] = {
        {"", "--model-family gpt2"},
        {"--normalization LayerNorm --position-embedding-type learned_absolute --openai-gelu "
         "--norm-epsilon 1e-5 --tie-embeddings-and-output-weights --norm-placement before",
         "--model-family gpt2"},
        {"--normalization RMSNorm --position-embedding-type rope --rotary-base 10000 --swiglu "
         "--disable-bias-linear --untie-embeddings-and-output-weights",
         "--model-family llama2"},
        {"--normalization RMSNorm --use-rotary-position-embeddings --rotary-base 500000 --swiglu "
         "--disable-bias-linear --untie-embeddings-and-output-weights --group-query-attention "
         "--num-query-groups 8 --no-position-embedding",
         "--model-family llama3"},
        {"--model-family llama3 --use-rope-scaling", "--model-family llama3.1"},
        {"--model-family llama3.1 --rope-scaling-factor 32 --rope-scaling-low-freq-factor 2 "
         "--rope-scaling-high-freq-factor 3 --rope-scaling-original-length 64",
         "--model-family llama3 --use-rope-scaling --rope-scaling-original-length 64 "
         "--rope-scaling-high-freq-factor 3 --rope-scaling-low-freq-factor 2 "
         "--rope-scaling-factor 32.0"},
        {"--model-family llama3 --rotary-base 10000 --window-size 4095,0",
         "--model-family mistral"},
        {"--model-family llama3 --rotary-base 10000 --window-size (4095,0)",
         "--model-family mistral --window-size 4096"},
        {"--model-family mistral --window-size 0 --rotary-base 500000", "--model-family llama3"},
        {"--model-family mistral --window-size -1,0 --rotary-base 500000", "--model-family llama3"},
        {"--model-family llama2 --add-qkv-bias --norm-epsilon 1e-6 --rotary-base 1000000",
         "--model-family qwen2"},
        {"--model-family llama3 --qk-layernorm --layernorm-epsilon 1e-6 --rotary-base 1e6 "
         "--kv-channels 128",
         "--model-family qwen3"},
        {"--model-family llama2 --apply-layernorm-1p --activation geglu-tanh --kv-channels 256 "
         "--scale-embedding --tie-embeddings-and-output-weights --norm-epsilon 1e-6",
         "--model-family gemma"},
        {"--position-embedding-type rope --rotary-percent 0.25 --norm-placement parallel "
         "--untie-embeddings-and-output-weights",
         "--model-family gpt-neox"},
        {"--model-family gpt-neox --activation gelu", "--model-family pythia"},
        {"--position-embedding-type rotary --rotary-percent 0.25 --rotary-interleaved "
         "--norm-placement shared --untie-embeddings-and-output-weights --add-output-layer-bias "
         "--model-family gptj",
         "--model-family gptj"},
        {"--position-embedding-type alibi --embedding-norm", "--model-family bloom"},
        {"--position-embedding-type alibi --embed-layernorm", "--model-family bloom"},
        {"--activation relu", "--model-family yuan"},
        {"--model-family opt --word-embed-proj-dim 512 --norm-placement after",
         "--model-family opt-350m"},
        {"--squared-relu --activation squared-relu", "--activation squared-relu"},
        {"--no-position-embedding", "--position-embedding-type none"},
        {"--model-family opt --no-position-embedding", "--activation relu --no-position-embedding"},
        {"--model-family opt-350m --norm-placement before --word-embed-proj-dim 1024",
         "--model-family opt --word-embed-proj-dim 1024"},
        {"--model-family llama3 --position-embedding-type learned_absolute",
         "--normalization RMSNorm --swiglu --disable-bias-linear --num-query-groups 8 "
         "--untie-embeddings-and-output-weights"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct tr_family a, b;

        assert_ok(parse(pairs[i].a));
        assert_ok(tr_family_of(&c, &a));
        assert_ok(parse(pairs[i].b));
        assert_ok(tr_family_of(&c, &b));
        char *x = row_text(&a), *y = row_text(&b);
        if (strcmp(x, y) != 0)
            fail_msg("%s\n  is   %s\n%s\n  is   %s", pairs[i].a, x, pairs[i].b, y);
        free(x);
        free(y);
    }
}

/* Each option alone moves a row, so that none is read and forgotten. */
static void each_counts(void **state)
{
    static const char *const options[] = {
        "--normalization RMSNorm",
        "--norm-epsilon 1e-6",
        "--apply-layernorm-1p",
        "--norm-placement after",
        "--norm-placement shared",
        "--norm-placement parallel",
        "--embedding-norm",
        "--normalization RMSNorm --qk-layernorm",
        "--activation gelu",
        "--activation none",
        "--activation relu",
        "--activation silu",
        "--activation swiglu",
        "--activation geglu",
        "--activation geglu-tanh",
        "--activation reglu",
        "--squared-relu",
        "--disable-bias-linear",
        "--disable-bias-linear --add-qkv-bias",
        "--add-output-layer-bias",
        "--position-embedding-type sinusoidal",
        "--position-embedding-type rope",
        "--position-embedding-type alibi",
        "--position-embedding-type none",
        "--use-rotary-position-embeddings --rotary-percent .5",
        "--use-rotary-position-embeddings --rotary-base 5",
        "--use-rotary-position-embeddings --rotary-interleaved",
        "--use-rotary-position-embeddings --use-rope-scaling",
        "--group-query-attention",
        "--num-query-groups 2",
        "--kv-channels 8",
        "--window-size 7",
        "--word-embed-proj-dim 3",
        "--scale-embedding",
        "--untie-embeddings-and-output-weights",
    };
    enum { N = sizeof options / sizeof options[0] };
    char *text[N + 1];
    struct tr_family f;

    (void)state;
    for (int i = 0; i <= N; i++) {
        assert_ok(parse(i < N ? options[i] : ""));
        assert_ok(tr_family_of(&c, &f));
        text[i] = row_text(&f);
        for (int k = 0; k < i; k++)
            if (strcmp(text[k], text[i]) == 0)
                fail_msg("'%s' and '%s' are one model", options[k], i < N ? options[i] : "");
    }
    for (int i = 0; i <= N; i++)
        free(text[i]);
}

/* Sizes of published models, from the config.json of each: head width, groups, inner width. */
static void published_sizes(void **state)
{
    static const struct {
        const char *options;
        int64_t heads, width, groups, ffn, embed;
    } models[] = {
        {"--model-family gpt2 --hidden-size 1600 --num-attention-heads 25", 25, 64, 25, 6400, 1600},
        {"--model-family opt-350m --hidden-size 1024 --num-attention-heads 16", 16, 64, 16, 4096,
         512},
        {"--model-family gptj --hidden-size 4096 --num-attention-heads 16", 16, 256, 16, 16384,
         4096},
        {"--model-family gpt-neox --hidden-size 6144 --num-attention-heads 64", 64, 96, 64, 24576,
         6144},
        {"--model-family bloom --hidden-size 14336 --num-attention-heads 112", 112, 128, 112, 57344,
         14336},
        {"--model-family llama2 --hidden-size 4096 --num-attention-heads 32", 32, 128, 32, 11008,
         4096},
        {"--model-family llama2 --hidden-size 5120 --num-attention-heads 40", 40, 128, 40, 13824,
         5120},
        {"--model-family llama3 --hidden-size 4096 --num-attention-heads 32", 32, 128, 8, 14336,
         4096},
        {"--model-family llama3 --hidden-size 8192 --num-attention-heads 64", 64, 128, 8, 28672,
         8192},
        {"--model-family mistral --hidden-size 4096 --num-attention-heads 32", 32, 128, 8, 14336,
         4096},
        {"--model-family qwen2 --hidden-size 896 --num-attention-heads 14 --num-query-groups 2 "
         "--ffn-hidden-size 4864 --tie-embeddings-and-output-weights",
         14, 64, 2, 4864, 896},
        {"--model-family qwen3 --hidden-size 1024 --num-attention-heads 16", 16, 128, 8, 3072,
         1024},
        {"--model-family gemma --hidden-size 2048 --num-attention-heads 8 --num-query-groups 1", 8,
         256, 1, 16384, 2048},
        /* Megatron-LM's rule for --swiglu: 2/3 of 4 times, down to a multiple of 64. */
        {"--swiglu --hidden-size 4096 --num-attention-heads 32", 32, 128, 32, 10880, 4096},
        {"--activation geglu --hidden-size 64 --num-attention-heads 4", 4, 16, 4, 128, 64},
        {"--swiglu --hidden-size 16 --num-attention-heads 4", 4, 4, 4, 64, 16},
        {"--model-family llama3 --activation gelu --hidden-size 64 --num-attention-heads 8", 8, 8,
         8, 256, 64},
        {"--model-family llama3 --hidden-size 100 --num-attention-heads 8 --kv-channels 320", 8,
         320, 8, 512, 100},
    };

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char *text =
            tr_format("--num-layers 2 --max-position-embeddings 2048 %s", models[i].options);
        struct tr_shape s;

        assert_ok(shape(text, 1, &s));
        free(text);
        if (s.dims.heads != models[i].heads || s.dims.head_dim != models[i].width ||
            s.dims.groups != models[i].groups || s.dims.ffn != models[i].ffn ||
            s.dims.embed != models[i].embed)
            fail_msg("%s: %lld heads of %lld, %lld groups, inner width %lld, embedding %lld",
                     models[i].options, (long long)s.dims.heads, (long long)s.dims.head_dim,
                     (long long)s.dims.groups, (long long)s.dims.ffn, (long long)s.dims.embed);
    }
}

#define SMALL "--num-layers 2 --hidden-size 64 --num-attention-heads 8 "

/* What cannot be: the sentence has the nearest value that would do. */
#define ENCODER "--model-family deberta-v2 --num-labels 2 --mock-data "
static void contradictions(void **state)
{
    static const struct {
        const char *options;
        int ranks;
        const char *sentence;
    } cases[] = {
        {"--model-family lama3", 1, "--model-family: 'lama3' is none of gpt2, opt, "},
        {"--model-family lama3", 1, "did you mean llama3?"},
        {"--model-family llama", 1, "did you mean llama2?"},
        {"--model-family llama-3", 1, "did you mean llama3?"},
        {"--model-family gptneox", 1, "did you mean gpt-neox?"},
        {"--model-family zebra", 1, "gemma, starcoder2, deberta-v2, deberta-v3, yuan, yuan-native"},
        {"--model-family mixtral", 1, "--model-family mixtral: it is a mixture of experts"},
        {"--model-family Mixtral-8x7B", 1, "it is a mixture of experts"},
        {"--model-family deepseek-v3", 1, "it is a mixture of experts"},
        {"--model-family gpt-oss-20b", 1, "it is a mixture of experts"},
        {"--model-family llava", 1, "it reads images"},
        {"--model-family t5-11b", 1, "it has an encoder"},
        {"--model-family gemma2", 1, "caps scores"},
        {"--model-family google/gemma-2-9b", 1, "caps scores"},
        {"--model-family gemma-2-9b", 1, "caps scores"},
        {"--model-family gpt-neo", 1, "gpt-neox is"},
        {"--model-family Qwen3-30B-A3B", 1, "it is a mixture of experts"},
        {"--model-family OLMoE-1B", 1, "it is a mixture of experts"},
        {"--model-family qwen2_moe", 1, "it is a mixture of experts"},
        {"--model-family llama-4-scout", 1, "it is a mixture of experts"},
        {"--model-family Qwen2.5-VL-7B", 1, "it reads images"},
        {"--model-family Llama-3.2-11B-Vision", 1, "it reads images"},
        {"--model-family mistralai/Mistral-7B-v0.1", 1, "did you mean mistral?"},
        {"--model-family Meta-Llama-3-8B", 1, "did you mean llama3?"},
        {"--model-family Llama-3.1-70B", 1, "did you mean llama3.1?"},
        {"--model-family gpt-j-6b", 1, "did you mean gptj?"},
        {"--model-family opt-30b", 1, "did you mean opt?"},
        {"--model-family gemma-2b", 1, "did you mean gemma?"},
        {"--normalization layernorm", 1, "did you mean LayerNorm?"},
        {"--position-embedding-type learned", 1, "did you mean learned_absolute?"},
        {"--activation SwiGLU", 1, "did you mean swiglu?"},
        {"--position-embedding-type relative", 1, "use rope or alibi"},
        {"--position-embedding-type yarn", 1, "use rope, with --use-rope-scaling"},
        {"--use-rope-scaling --position-embedding-type alibi", 1, "this model has ALiBi"},
        {"--rotary-interleaved --position-embedding-type none", 1, "this model has no positions"},
        {"--num-experts 8", 1, "mixture of experts is not supported"},
        {"--moe-router-topk 2", 1, "mixture of experts is not supported"},
        {"--vision-pretraining", 1, "only text is trained on"},
        {"--rotary-seq-len-interpolation-factor 2", 1, "use --use-rope-scaling"},
        {"--multi-latent-attention", 1, "multi-latent attention is not supported"},
        {"--window-attn-skip-freq 2", 1, "every layer has the same window"},
        {"--num-query-groups 3", 1, "is 2 or 4"},
        {"--num-query-groups 16", 1,
         "does not divide --num-attention-heads 8: the nearest that does is 8"},
        {"--model-family llama3 --num-attention-heads 4", 1,
         "--num-query-groups 8, by --model-family, does not divide --num-attention-heads 4: the "
         "nearest that does is 4"},
        {"--model-family llama3 --num-query-groups 2 --hidden-size 72 --num-attention-heads 12", 3,
         "--tensor-model-parallel-size 3 cannot shard the 2 key-value groups of 12 heads: use "
         "2 or 4 ranks"},
        {"--num-query-groups 6 --hidden-size 96 --num-attention-heads 24", 4, "use 3 or 6 ranks"},
        {"--num-query-groups 1 --hidden-size 8 --kv-channels 1 --max-position-embeddings 64", 4,
         "use 2 ranks"},
        {"--kv-channels 321", 1, "--kv-channels 321 is wider than attention takes: give 320"},
        {"--kv-channels 12 --model-family gpt-neox", 1,
         "--rotary-percent 0.25 of heads of 12 is 3 numbers, and they turn in pairs: the nearest "
         "that does is 0.166666667 or 0.333333333; or give --kv-channels 11 or 16"},
        {"--kv-channels 7 --model-family llama2", 1,
         "the nearest that does is 0.857142857; or give --kv-channels 6 or 8"},
        {"--kv-channels 319 --model-family llama2", 1, "; or give --kv-channels 318 or 320"},
        {"--kv-channels 7 --model-family gpt-neox", 1, "0.285714286; or give --kv-channels 8"},
        {"--kv-channels 8 --model-family llama2 --rotary-percent 0", 1, "that does is 0.25"},
        {"--kv-channels 6 --model-family llama2 --rotary-percent 0.1", 1, "is 0.333333333"},
        {"--kv-channels 1 --model-family llama2", 1, "heads are 1 wide"},
        {"--model-family bloom --window-size 9", 1, "give --window-size 0, or another"},
        {"--model-family mistral --position-embedding-type alibi", 1, "a window of 4096 tokens"},
        {"--window-size 4,1", 1,
         "lets a token see 1 after it, and a decoder predicts those: give 4,0"},
        {"--window-size x", 1, "--window-size: 'x' will not do: give how many tokens"},
        {"--window-size 1,2,3", 1, "will not do"},
        {"--window-size (4,0", 1, "will not do"},
        {"--window-size (4)", 1, "will not do"},
        {"--window-size -1", 1, "will not do"},
        {"--window-size 4,", 1, "will not do"},
        {"--window-size -2,0", 1, "will not do"},
        {"--window-size 3000000000", 1, "will not do"},
        {"--model-family deberta-v2", 1,
         "an encoder sees the token that a language model is to predict"},
        {"--model-family deberta", 1, "give deberta-v2 or deberta-v3"},
        {"--position-buckets 8", 1, "--position-buckets is about DeBERTa's encoder"},
        {"--conv-kernel-size 3", 1, "--conv-kernel-size is about DeBERTa's encoder"},
        {"--position-embedding-type disentangled", 1, "leave --position-embedding-type to"},
        {ENCODER "--position-embedding-type rope", 1, "leave --position-embedding-type to"},
        {ENCODER "--position-buckets 7", 1, "give an even number from 4 on"},
        {ENCODER "--position-buckets 256 --max-relative-positions 300", 1,
         "twice as many positions"},
        {ENCODER "--conv-kernel-size 4", 1, "has no token in its middle: give 3 or 5"},
        {ENCODER "--norm-placement before", 1, "remove --norm-placement"},
        {ENCODER "--window-size 5", 1, "remove --window-size"},
        {ENCODER "--num-query-groups 2", 1, "a key and a value for each query"},
        {ENCODER "--sequence-parallel", 2, "--sequence-parallel takes a model for layers alone"},
        {"--qk-layernorm", 1, "give --normalization RMSNorm, or remove it"},
        {"--model-family qwen3 --normalization LayerNorm", 1, "give --normalization RMSNorm"},
        {"--swiglu --activation relu", 1,
         "--swiglu and --activation relu ask for two activations of the MLP: give one of them"},
        {"--swiglu --squared-relu", 1, "--swiglu and --squared-relu ask for two"},
        {"--openai-gelu --activation gelu", 1, "--openai-gelu and --activation gelu ask"},
        {"--tie-embeddings-and-output-weights --untie-embeddings-and-output-weights", 1,
         "contradict one another"},
        {"--use-rotary-position-embeddings --position-embedding-type alibi", 1,
         "ask for two kinds of positions"},
        {"--no-position-embedding --position-embedding-type learned_absolute", 1,
         "adds a table of positions"},
        {"--rotary-base 5", 1,
         "--rotary-base is about rotary embeddings, and this model has learned positions: add "
         "--position-embedding-type rope, or remove it"},
        {"--model-family bloom --rotary-percent .5", 1, "this model has ALiBi"},
        {"--use-rope-scaling", 1, "this model has learned positions"},
        {"--model-family llama3 --rope-scaling-factor 8", 1,
         "add --use-rope-scaling, or remove it"},
        {"--rope-scaling-original-length 8", 1, "add --use-rope-scaling, or remove it"},
        {"--model-family llama3.1 --rope-scaling-factor 0.5", 1, "give 1 or more"},
        {"--model-family llama3.1 --rope-scaling-low-freq-factor 4", 1, "is not below"},
        {"--model-family opt-350m --word-embed-proj-dim 32 --fp32-residual-connection --bf16", 1,
         "--fp32-residual-connection keeps the bits of sums"},
        {"--word-embed-proj-dim 65", 1, "--word-embed-proj-dim 65 is more than --hidden-size 64"},
        {"--model-family opt-350m", 1, "--word-embed-proj-dim 512, by --model-family, is more"},
        {"--hidden-size 65", 1, "or give the width of a head as --kv-channels"},
        {"", 1, "--max-position-embeddings is required: "},
        {"--model-family opt", 1, "--max-position-embeddings is required: "},
        {"--model-family llama2 --max-position-embeddings 63", 1, "raise the latter to 64"},
        {"--model-family llama2 --swiglu --ffn-hidden-size 9 --num-attention-heads 8", 2,
         "is 8 or 10"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = tr_format(SMALL "%s%s", cases[i].options,
                               strstr(cases[i].options, "--max-position") ||
                                       strstr(cases[i].sentence, "is required")
                                   ? ""
                                   : " --max-position-embeddings 64");
        struct tr_shape s;
        const enum tr_status status = shape(text, cases[i].ranks, &s);

        if (status != TR_ECONFIG || !strstr(tr_last_error(), cases[i].sentence))
            fail_msg("%s\n  said  %s\n  and not  %s", text, status ? tr_last_error() : "nothing",
                     cases[i].sentence);
        free(text);
    }
}

/* Over replicas and stages. */
static void encoders(void **state)
{
    static const struct {
        const char *options, *sentence; /* NULL: it is right */
    } cases[] = {
        {"--zero-stage 2", "--zero-stage 2 or 3 takes a model for layers alone"},
        {"--zero-stage 3", "--zero-stage 2 or 3 takes a model for layers alone"},
        {"--use-distributed-optimizer", NULL},
        {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout E|ttL",
         "the first stage has no layer"},
        {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout E|ttL "
         "--conv-kernel-size 0",
         NULL},
        {"--pipeline-model-parallel-size 2 --cpu-offloading --cpu-offloading-num-layers 1",
         "--cpu-offloading takes a model for layers alone"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text =
            tr_format(SMALL ENCODER "--max-position-embeddings 64%s %s", rest, cases[i].options);
        struct tr_shape s;
        const enum tr_status parsed = parse(text);
        const enum tr_status status = parsed == TR_OK ? tr_shape_of(&c, 2, &s) : parsed;

        if ((status == TR_OK) == (cases[i].sentence != NULL) ||
            (cases[i].sentence && !strstr(tr_last_error(), cases[i].sentence)))
            fail_msg("%s: %s", text, status == TR_OK ? "right" : tr_last_error());
        free(text);
    }
}

/* What looks alike and is right. */
static void allowed(void **state)
{
    static const struct {
        const char *options;
        int ranks;
    } cases[] = {
        {"--model-family llama3 --num-query-groups 2", 4}, /* two ranks to a group */
        {"--model-family llama3 --num-query-groups 1", 8},
        {"--model-family llama2 --hidden-size 65 --kv-channels 8", 1},
        {"--model-family llama3 --position-embedding-type sinusoidal", 1},
        {"--model-family bloom", 4},
        {"--model-family llama2 --max-position-embeddings 4096", 1},
        {"--model-family mistral --window-size 1", 1},
        {"--model-family yuan-native", 1},
        {"--model-family gpt-neox --kv-channels 8", 1},
        {"--model-family opt-350m --word-embed-proj-dim 64 --untie-embeddings-and-output-weights "
         "--max-position-embeddings 64",
         2},
        {"--max-position-embeddings 64 --context-parallel-size 1 --expert-model-parallel-size 1",
         1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = tr_format(SMALL "%s", cases[i].options);
        struct tr_shape s;

        if (shape(text, cases[i].ranks, &s) != TR_OK)
            fail_msg("%s: %s", text, tr_last_error());
        assert_int_equal(s.dims.positions, c.max_position_embeddings == TR_UNSET_INT
                                               ? s.dims.seq
                                               : c.max_position_embeddings);
        free(text);
    }
    assert_int_equal(TR_WIDEST_HEAD, TR_MAX_HEAD_DIM);
}

/* Every row by itself is a model, is one of the help, and is no name that is refused. */
static void rows(void **state)
{
    char *help = NULL;
    size_t size;
    FILE *f = open_memstream(&help, &size);

    (void)state;
    assert_ok(tr_config_help(f, "model"));
    fclose(f);
    for (int i = 0; tr_family_row(i); i++) {
        const struct tr_family *row = tr_family_row(i);
        char *text = tr_format("--num-layers 2 --hidden-size 1024 --num-attention-heads 16 "
                               "--max-position-embeddings 64 --model-family %s%s",
                               row->name, row->encoder ? " --num-labels 2 --mock-data" : ""),
             *said = tr_format("%s: %.20s", row->name, row->about);
        struct tr_shape s;

        assert_ok(shape(text, 1, &s));
        assert_string_equal(s.dims.family.name, row->name);
        char *is = row_text(&s.dims.family), *was = row_text(row);
        assert_string_equal(is, was);
        assert_non_null(strstr(help, said));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(row->name, tr_family_row(k)->name);
        free(text);
        free(said);
        free(is);
        free(was);
    }
    free(help);
}

/* Rates that are not given are those of the family, and 0 that is given is 0. */
static void dropout(void **state)
{
    static const struct {
        const char *options;
        double attention, hidden;
    } cases[] = {
        {"", 0.1, 0.1},
        {"--hidden-dropout 0", 0.1, 0.0},
        {"--attention-dropout 0.3", 0.3, 0.1},
        {"--model-family llama3", 0.0, 0.0},
        {"--model-family llama3 --hidden-dropout 0.2", 0.0, 0.2},
        {"--model-family opt", 0.1, 0.1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = tr_format(SMALL "--max-position-embeddings 64 %s", cases[i].options);
        struct tr_shape s;

        assert_ok(shape(text, 1, &s));
        assert_true(s.dropout.attention == cases[i].attention);
        assert_true(s.dropout.hidden == cases[i].hidden);
        free(text);
    }
    /* cuDNN's attention has no dropout: allowed where the family has none. */
    struct tr_shape s;
    assert_fails(
        TR_ECONFIG, "--attention-dropout 0",
        shape(SMALL "--bf16 --attention-backend fused --max-position-embeddings 64", 1, &s));
    assert_ok(shape(SMALL "--bf16 --attention-backend fused --model-family llama3", 1, &s));
}

/* cuDNN's attention by name, where the graph that it is given cannot say the model. */
static void fused(void **state)
{
    static const struct {
        const char *options;
        int ranks;
        const char *needs; /* NULL: nothing */
    } cases[] = {
        {"--model-family llama3", 1, NULL},
        {"--model-family llama3 --num-query-groups 2", 1,
         "which needs as many --num-query-groups as --num-attention-heads: give that, or use auto"},
        {"--model-family llama3 --num-query-groups 2", 4, "which needs as many --num-query-groups"},
        {"--model-family llama3 --num-query-groups 2", 8, NULL}, /* a head and its keys each */
        {"--model-family llama3 --num-query-groups 2", 2, "which needs as many --num-query-groups"},
        {"--model-family mistral", 1, NULL},
        {"--model-family mistral --window-size 64", 1, NULL},
        {"--model-family mistral --window-size 63", 1, "which needs --window-size 0: "},
        {"--model-family bloom", 1, "which needs a --position-embedding-type other than alibi: "},
        {"--model-family llama2 --kv-channels 12", 1,
         "which needs heads whose width is a multiple of 8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int way = 0; way < 2; way++) {
            char *text = tr_format(SMALL "--bf16 %s %s", cases[i].options,
                                   way ? "--no-deterministic-mode" : "--attention-backend fused");
            struct tr_shape s;

            if (!cases[i].needs)
                assert_ok(shape(text, cases[i].ranks, &s));
            else if (way)
                assert_fails(TR_ECONFIG, "is about cuDNN's attention, which needs ",
                             shape(text, cases[i].ranks, &s));
            else
                assert_fails(TR_ECONFIG, cases[i].needs, shape(text, cases[i].ranks, &s));
            free(text);
        }
}

/* What is told of a model makes the same model, and tells itself again: of every row, of rows with parts changed, and
   with as many ranks. */
static void told(void **state)
{
    static const char *const models[] = {"",
                                         "--num-query-groups 2",
                                         "--num-query-groups 8",
                                         "--window-size 5",
                                         "--window-size 0",
                                         "--disable-bias-linear",
                                         "--add-qkv-bias",
                                         "--swiglu",
                                         "--activation reglu",
                                         "--kv-channels 8",
                                         "--squared-relu",
                                         "--tie-embeddings-and-output-weights",
                                         "--untie-embeddings-and-output-weights",
                                         "--norm-placement after",
                                         "--norm-placement before",
                                         "--position-embedding-type none",
                                         "--position-embedding-type sinusoidal",
                                         "--use-rotary-position-embeddings --use-rope-scaling",
                                         "--word-embed-proj-dim 64",
                                         "--disable-bias-linear --add-output-layer-bias",
                                         "--attention-dropout 0.3",
                                         "--hidden-dropout 0"};
    const struct tr_config *o;
    size_t good = 0;

    (void)state;
    for (int i = 0; tr_family_row(i); i++)
        for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
            const char *family = tr_family_row(i)->name;
            const bool narrow = tr_family_row(i)->embed_width > 0;
            char *text = tr_format(SMALL "--max-position-embeddings 64 --model-family %s %s %s",
                                   family, narrow ? "--word-embed-proj-dim 32" : "", models[k]),
                 *is, *was;
            struct tr_told first, again;
            struct tr_shape s;
            struct tr_dims d;

            if (shape(text, 1, &s) == TR_OK) {
                tr_dims_tell(&c, &s.dims, &first);
                o = &first.options;
                assert_ok(tr_dims_of(o, 1, &d));
                /* Numbers that a family leaves to the sizes; dims have them below. */
                d.family.groups = s.dims.family.groups;
                d.family.head_width = s.dims.family.head_width;
                is = row_text(&d.family);
                was = row_text(&s.dims.family);
                if (strcmp(is, was) != 0)
                    fail_msg("%s\n  is   %s\n  told %s", text, was, is);
                assert_true(d.groups == s.dims.groups && d.head_dim == s.dims.head_dim &&
                            d.ffn == s.dims.ffn && d.embed == s.dims.embed &&
                            d.positions == s.dims.positions);
                assert_true(tr_family_attention_dropout(o, &d.family) == s.dropout.attention &&
                            tr_family_hidden_dropout(o, &d.family) == s.dropout.hidden);
                tr_dims_tell(o, &d, &again);
                free(is);
                free(was);
                is = tr_config_get_json(o, NULL);
                was = tr_config_get_json(&again.options, NULL);
                assert_string_equal(is, was);
                free(is);
                free(was);
                good++;
                assert_true(o->activation != TR_ACTIVATION_FAMILY &&
                            o->normalization != TR_NORMALIZATION_FAMILY &&
                            o->norm_placement != TR_PLACEMENT_FAMILY &&
                            o->position_embedding_type != TR_POSITION_FAMILY &&
                            o->num_query_groups != TR_UNSET_INT && o->kv_channels != TR_UNSET_INT &&
                            o->ffn_hidden_size != TR_UNSET_INT && o->norm_epsilon > 0.0);
            }
            free(text);
        }
    assert_true(good > 300); /* few contradict their family */
}

/* The options of a run describe the same model when a checkpoint gives them back. */
static void stored(void **state)
{
    struct tr_config d;
    struct tr_family a, b;
    char *json, *x, *y;

    (void)state;
    assert_ok(
        parse("--model-family qwen2 --num-query-groups 2 --tie-embeddings-and-output-weights "
              "--window-size 7,0 --use-rope-scaling --activation reglu --norm-placement shared "
              "--normalization LayerNorm --rotary-percent 0.5 --norm-epsilon 1e-4"));
    assert_ok(tr_family_of(&c, &a));
    json = tr_config_get_json(&c, NULL);
    tr_config_init(&d);
    assert_ok(tr_config_load_model(&d, json));
    assert_ok(tr_family_of(&d, &b));
    x = row_text(&a);
    y = row_text(&b);
    assert_string_equal(x, y);
    /* Options as older versions stored them. */
    assert_ok(tr_config_load_model(&d, "{\"layernorm_epsilon\": 0.5, \"hidden_dropout\": 0.1}"));
    assert_true(d.norm_epsilon == 0.5 && d.hidden_dropout == 0.1);
    tr_config_release(&d);
    free(json);
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_models, start, end),
        cmocka_unit_test_setup_teardown(each_counts, start, end),
        cmocka_unit_test_setup_teardown(published_sizes, start, end),
        cmocka_unit_test_setup_teardown(contradictions, start, end),
        cmocka_unit_test_setup_teardown(encoders, start, end),
        cmocka_unit_test_setup_teardown(allowed, start, end),
        cmocka_unit_test_setup_teardown(rows, start, end),
        cmocka_unit_test_setup_teardown(dropout, start, end),
        cmocka_unit_test_setup_teardown(fused, start, end),
        cmocka_unit_test_setup_teardown(told, start, end),
        cmocka_unit_test_setup_teardown(stored, start, end),
    };
    return run_tap(tests);
}
