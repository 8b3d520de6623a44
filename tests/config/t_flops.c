/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/flops.h"
#include "config/theory.h"

static struct tr_shape gpt(int64_t layers, int64_t hidden, int64_t seq, int64_t vocab)
{
    return (struct tr_shape){.dims.family = *tr_family_find("gpt2"),
                             .dims.layers = layers,
                             .dims.hidden = hidden,
                             .dims.heads = hidden,
                             .dims.head_dim = 1,
                             .dims.groups = hidden,
                             .dims.embed = hidden,
                             .dims.ffn = 4 * hidden,
                             .dims.seq = seq,
                             .dims.vocab_padded = vocab};
}

/* TFLOP/s of a rank, rounded to hundredths, times 100. */
static int64_t per_rank(int formula, const struct tr_shape *s, int64_t batch, bool recompute,
                        double seconds, int ranks)
{
    return llround(tr_flops_count(formula, &s->dims, batch, recompute) / (seconds * ranks * 1e12) *
                   100);
}

/*
 * BigScience's runs on Jean Zay, May 2021, TP 4 (so 50257 words become 50688), batch of 4: 7.5B on 16
 * GPUs, 430.0 ms, and 30B on 64, 1439.3 ms.  They recomputed all activations.  Nobody recomputes the
 * logits, so the model's operations are a little more than three quarters of sc21's.
 */
static void jean_zay(void **state)
{
    struct tr_shape small = gpt(36, 4096, 512, 50688), large = gpt(48, 7168, 1024, 50688);

    (void)state;
    assert_int_equal(per_rank(TR_FLOPS_SC21, &small, 4, true, 0.4300, 16), 1799);
    assert_int_equal(per_rank(TR_FLOPS_SC21, &small, 4, false, 0.4300, 16), 1359);
    assert_int_equal(per_rank(TR_FLOPS_2023, &small, 4, true, 0.4300, 16), 1359);
    assert_int_equal(per_rank(TR_FLOPS_2024, &small, 4, true, 0.4300, 16), 1359);
    assert_int_equal(per_rank(TR_FLOPS_CORE, &small, 4, true, 0.4300, 16), 1345);
    assert_int_equal(per_rank(TR_FLOPS_SC21, &large, 4, true, 1.4393, 64), 1088);
    assert_int_equal(per_rank(TR_FLOPS_2023, &large, 4, true, 1.4393, 64), 818);
    assert_int_equal(per_rank(TR_FLOPS_2024, &large, 4, true, 1.4393, 64), 818);
    assert_int_equal(per_rank(TR_FLOPS_CORE, &large, 4, true, 1.4393, 64), 809);
}

/* What public logs and tables printed.  BLOOM, 176B on 384 A100: "elapsed time per iteration (s):
   105.22 ... TFLOPs: 149.02"; 145.31 in 215.82 s on half the nodes, 192 A100. */
static void published(void **state)
{
    struct tr_shape bloom = gpt(70, 14336, 2048, 250880);

    (void)state;
    assert_int_equal(per_rank(TR_FLOPS_SC21, &bloom, 2048, true, 105.22, 384), 14902);
    assert_int_equal(per_rank(TR_FLOPS_SC21, &bloom, 2048, true, 215.82, 192), 14531);
}

/* An MLP of another width: the parts of both formulas, counted by hand.  l = 1, h = 2, f = 3, s = 5,
   V = 7, B = 1: matrices 12 + 4 + 2 * 6 = 4 h^2 + 2 h f = 28, head 14, scores and values 2 s h = 20
   multiplications per token, each twice forward and four times backward. */
static void other_widths(void **state)
{
    struct tr_shape s = gpt(1, 2, 5, 7);

    (void)state;
    s.dims.ffn = 3;
    /* sc21 and 2023 take it for 4 h all the same: 12 h^2 = 48. */
    assert_true(fabs(tr_flops_count(TR_FLOPS_2023, &s.dims, 1, true) - 6.0 * 5 * (48 + 14 + 20)) <
                1e-9);
    assert_true(fabs(tr_flops_count(TR_FLOPS_SC21, &s.dims, 1, true) -
                     2.0 * 5 * (4 * (48 + 20) + 3 * 14)) < 1e-9);
    assert_true(tr_flops_count(TR_FLOPS_2024, &s.dims, 1, false) == 6.0 * 5 * (28 + 14 + 20));
    assert_true(tr_flops_count(TR_FLOPS_CORE, &s.dims, 1, false) == 6.0 * 5 * (28 + 14 + 10));
    assert_true(tr_flops_count(TR_FLOPS_CORE, &s.dims, 3, false) == 18.0 * 5 * (28 + 14 + 10));
}

/*
 * Llama 3 8B, 32 layers of 4096, 32 heads of 128 in 8 groups, an MLP of 14336 with a gate, 128256 words; by hand:
 *     queries and output 2 * 4096 * 4096, keys and values 2 * 4096 * 1024, MLP 3 * 4096 * 14336: 218103808 a layer
 *     32 layers 6979321856, head 525336576: 7504658432, which is all parameters but 525336576 of the embedding
 *     and 32 * 2 * 4096 + 4096 of norms
 *     scores and values of 8192 tokens 2 * 8192 * 4096 * 32: 2147483648, half of them if what is before counts
 * and each once forward and twice backward, as a multiplication and an addition.
 */
static void llama(void **state)
{
    struct tr_shape s = {.dims.family = *tr_family_find("llama3"),
                         .dims.layers = 32,
                         .dims.hidden = 4096,
                         .dims.heads = 32,
                         .dims.head_dim = 128,
                         .dims.groups = 8,
                         .dims.embed = 4096,
                         .dims.ffn = 14336,
                         .dims.seq = 8192,
                         .dims.vocab_padded = 128256};
    const double tokens = 8192.0, scores = 2147483648.0;

    (void)state;
    assert_true(tr_flops_count(TR_FLOPS_CORE, &s.dims, 1, true) ==
                6.0 * tokens * (7504658432.0 + scores / 2.0));
    assert_true(tr_flops_count(TR_FLOPS_2024, &s.dims, 1, true) ==
                6.0 * tokens * (7504658432.0 + scores));
    assert_true(tr_flops_count(TR_FLOPS_2023, &s.dims, 1, true) ==
                tr_flops_count(TR_FLOPS_2024, &s.dims, 1, true));
    assert_true(tr_flops_count(TR_FLOPS_SC21, &s.dims, 1, false) ==
                tr_flops_count(TR_FLOPS_2024, &s.dims, 1, false));
    assert_true(tr_flops_count(TR_FLOPS_SC21, &s.dims, 1, true) ==
                2.0 * tokens * (4.0 * (6979321856.0 + scores) + 3.0 * 525336576.0));
    /* Korthikanti's terms: two norms and two sums read h, and two masks of a byte; queries of 4096, keys and
       values of 1024 each, their result, and of the MLP gate, what it opens, and the product. */
    s.batches.micro_batch = 1;
    s.batches.micros = 8;
    s.layout.k = s.layout.w = 1;
    s.layout.p = 8;
    s.precision.half = s.precision.bf16 = s.activations.sequence = true;
    assert_true(
        tr_theory_activations(&s) ==
        8192.0 * (32 * (2.0 * (4 * 4096 + 6144 + 4096 + 3 * 14336) + 2 * 4096) + 8 * (8.0 + 4096)));
}

/* BLOOM as its paper has it, 70 layers of 14336: 12 h^2 + the output of 250880 words; what is like GPT-2's in
   width is counted by the closed forms.  By hand: 2466250752 a layer, 172637552640 and 3596615680 in all. */
static void bloom(void **state)
{
    struct tr_shape s = gpt(70, 14336, 2048, 250880);

    (void)state;
    s.dims.family = *tr_family_find("bloom");
    s.dims.heads = s.dims.groups = 112;
    s.dims.head_dim = 128;
    assert_true(tr_flops_count(TR_FLOPS_CORE, &s.dims, 1, true) ==
                6.0 * 2048 * (172637552640.0 + 3596615680.0 + 70.0 * 2048 * 14336));
    assert_int_equal(per_rank(TR_FLOPS_SC21, &s, 2048, true, 105.22, 384), 14902);
}

/* Narrow embeddings: the head and both projections, by hand for h = 8, e = 4, V = 16. */
static void projections(void **state)
{
    struct tr_shape s = gpt(1, 8, 2, 16), bare = s;

    (void)state;
    s.dims.family = *tr_family_find("opt-350m");
    s.dims.embed = 4;
    bare.dims.vocab_padded = 0;
    assert_true(tr_flops_count(TR_FLOPS_CORE, &s.dims, 1, false) -
                    tr_flops_count(TR_FLOPS_CORE, &bare.dims, 1, false) ==
                6.0 * 2 * (16 * 4 + 2 * 8 * 4));
}

static void names(void **state)
{
    const struct tr_dims plain = gpt(1, 8, 8, 8).dims;
    struct tr_dims gated = plain;
    struct tr_config c;

    (void)state;
    gated.family = *tr_family_find("llama2");
    tr_config_init(&c);
    assert_int_equal(tr_flops_formula(&c), TR_FLOPS_SC21);
    assert_ok(tr_config_parse_text(&c, "--log-format megatron-core"));
    assert_int_equal(tr_flops_formula(&c), TR_FLOPS_CORE);
    assert_ok(tr_config_parse_text(&c, "--log-format megatron-deepspeed"));
    assert_int_equal(tr_flops_formula(&c), TR_FLOPS_SC21);
    assert_ok(tr_config_parse_text(&c, "--flops-formula 2024"));
    assert_int_equal(tr_flops_formula(&c), TR_FLOPS_2024);
    tr_config_release(&c);
    for (int f = TR_FLOPS_SC21; f <= TR_FLOPS_CORE; f++) {
        const char *name = tr_config_spelling("flops-formula", f);

        assert_memory_equal(tr_flops_text(f, NULL, true), name, strlen(name));
        assert_memory_equal(tr_flops_text(f, NULL, false), name, strlen(name));
        assert_memory_equal(tr_flops_text(f, &gated, true), name, strlen(name));
        assert_string_equal(tr_flops_text(f, &plain, true), tr_flops_text(f, NULL, true));
        assert_string_not_equal(tr_flops_text(f, &gated, true), tr_flops_text(f, NULL, true));
    }
}

/* Bytes per parameter as Megatron's documentation of its distributed optimizer lists them: fp32 16 or
   8 + 8/d, bf16 with fp32 gradients 18 or 6 + 12/d, fp16 4 + 12/d. */
static void memory_of_weights(void **state)
{
    struct tr_shape s = {.precision.half = false};

    (void)state;
    assert_true(tr_theory_weights(&s.precision, 1000, 1) == 16000.0);
    assert_true(tr_theory_weights(&s.precision, 1000, 4) == 10000.0);
    s.precision.half = s.precision.bf16 = s.precision.grads_fp32 = true;
    assert_true(tr_theory_weights(&s.precision, 1000, 1) == 18000.0);
    assert_true(tr_theory_weights(&s.precision, 1000, 4) == 9000.0);
    s.precision.bf16 = s.precision.grads_fp32 = false;
    assert_true(tr_theory_weights(&s.precision, 1000, 1) == 16000.0);
    assert_true(tr_theory_weights(&s.precision, 1000, 4) == 7000.0);
}

/* The paper's 34 s b h / t per layer, for f = 4 h; one stage keeps as much as all its layers. */
static void memory_of_activations(void **state)
{
    struct tr_shape s = gpt(24, 1024, 512, 2048);
    double unit = 512.0 * 2 * 1024, layers = 34.0 * unit * 24;

    (void)state;
    s.batches.micro_batch = 2;
    s.layout.k = 1;
    s.batches.micros = 8;
    s.layout.w = 4;
    s.layout.p = 1;
    assert_true(tr_theory_activations(&s) < 0.0);
    s.precision.half = s.activations.sequence = true;
    /* 8 bytes of tokens, a mask of the embedding's dropout, the last norm and the logits in fp32. */
    assert_true(tr_theory_activations(&s) ==
                (layers + 8.0 * 1024 + unit + 4.0 * unit * (1.0 + 2.0)) / 4);
    s.layout.p = 4;
    assert_true(tr_theory_activations(&s) == (layers + 4.0 * (8.0 * 1024 + unit)) / 4);
    s.batches.micros = 2;
    assert_true(tr_theory_activations(&s) == (layers + 4.0 * (8.0 * 1024 + unit)) / 8);
    s.batches.micros = 8;
    s.layout.k = 3;
    assert_true(tr_theory_activations(&s) == (layers + 4.0 * (8.0 * 1024 + unit)) * 1.25 / 4);
    s.activations.recompute = TR_RECOMPUTE_UNIFORM;
    assert_true(tr_theory_activations(&s) < 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jean_zay),
        cmocka_unit_test(published),
        cmocka_unit_test(other_widths),
        cmocka_unit_test(llama),
        cmocka_unit_test(bloom),
        cmocka_unit_test(projections),
        cmocka_unit_test(names),
        cmocka_unit_test(memory_of_weights),
        cmocka_unit_test(memory_of_activations),
    };

    return run_tap(tests);
}
