/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/flops.h"
#include "config/theory.h"

static struct tr_shape gpt(int64_t layers, int64_t hidden, int64_t seq, int64_t vocab)
{
    return (struct tr_shape){.dims.layers = layers,
                             .dims.hidden = hidden,
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
    assert_true(tr_flops_count(TR_FLOPS_2024, &s.dims, 1, false) == 6.0 * 5 * (28 + 14 + 20));
    assert_true(tr_flops_count(TR_FLOPS_CORE, &s.dims, 1, false) == 6.0 * 5 * (28 + 14 + 10));
    assert_true(tr_flops_count(TR_FLOPS_CORE, &s.dims, 3, false) == 18.0 * 5 * (28 + 14 + 10));
}

static void names(void **state)
{
    struct tr_config c;

    (void)state;
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

        assert_memory_equal(tr_flops_text(f, true), name, strlen(name));
        assert_memory_equal(tr_flops_text(f, false), name, strlen(name));
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
        cmocka_unit_test(jean_zay),          cmocka_unit_test(published),
        cmocka_unit_test(other_widths),      cmocka_unit_test(names),
        cmocka_unit_test(memory_of_weights), cmocka_unit_test(memory_of_activations),
    };

    return run_tap(tests);
}
