/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/golden.h"
#include "train/tiny.h"
#include "train/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * PyTorch's numbers (tests/golden) from every layout that the number of ranks allows: ten losses,
 * ten norms, all gradients of the first step and all parameters after the last.  Each rank compares
 * the part of each tensor that it holds, and of gradients what it owns.
 *
 * Tolerances of fp32: PyTorch's own float32 strays from the golden numbers, which are double, by
 * 3e-7 in the losses and by up to 5e-6 in a final parameter, and these are four times that.
 * Gradients are compared relative to the largest of their tensor, as in t_model. Of halves: a
 * number is rounded by up to 2^-12 (fp16) or 2^-9 (bf16) of itself at each of the some thirty
 * places that it goes through on its way, and errors add up as their squares do: six roundings for
 * a loss or a norm, and thirty for the worst of the thousands of elements of a gradient.  Adam
 * divides a gradient by its own size, so where one is mostly rounding its parameter strays: by one
 * or two of ten steps of 0.01 in fp16, by six in bf16.
 */
struct bounds {
    const char *options;
    double loss, gradient, final;
    double scale; /* of the loss */
};

static const struct bounds fp32 = {"", 1.2e-6, 1e-5, 2e-5, 1.0};
static const struct bounds fp16 = {"--fp16 --loss-scale 1024", 6.0 / 4096, 30.0 / 4096, 0.02,
                                   1024.0};
static const struct bounds bf16 = {"--bf16", 6.0 / 512, 30.0 / 512, 0.06, 1.0};

static struct tr_golden *golden;

static enum tr_status golden_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                    int32_t *text)
{
    (void)r;
    (void)split;
    for (int t = 0; t <= GOLDEN_S; t++)
        text[t] = tr_golden_token(position, t);
    return TR_OK;
}

/* True if `flat` agrees with the golden tensors of that kind, within a tolerance that is relative
   to the largest element or absolute; padding must be zero. */
static bool agrees(const struct tr_run *r, const struct tr_tensor *flat, const char *kind,
                   double tolerance, double scale, bool gradient)
{
    bool good = true;

    for (int i = 0; i < r->model.params.count; i++) {
        const struct tr_param *p = &r->model.params.list[i];
        int64_t count = p->full[0] * p->full[1];
        const float *want = tr_golden_get_of(golden, kind, p->name, count);
        double largest = 0.0, worst = 0.0;

        for (int64_t e = 0; e < count; e++)
            largest = fmax(largest, fabs((double)want[e]));
        for (int64_t e = 0; e < p->elems; e++) {
            int64_t at = weights_whole_index(p, e);
            double got = weights_element(flat, p->offset + e) / scale;
            double error = fabs(got - (at < 0 ? 0.0 : (double)want[at]));

            if (gradient && !weights_owned(r, p->offset + e))
                continue;
            worst = isfinite(error) ? fmax(worst, error) : INFINITY;
        }
        if (!(worst <= tolerance * (gradient ? largest : 1.0))) {
            fprintf(stderr, "rank %d: %s of %s is off by %g of %g\n", world.rank, kind, p->name,
                    worst, largest);
            good = false;
        }
    }
    return good;
}

static bool near(double value, double want, double tolerance)
{
    if (fabs(value - want) <= tolerance * want)
        return true;
    fprintf(stderr, "rank %d: %.9g instead of %.9g\n", world.rank, value, want);
    return false;
}

static void one_layout(int w, int p, int d, int k, const struct bounds *type, const char *schedule,
                       const char *extra)
{
    char options[2048];
    struct tr_config c;
    struct tr_run r;
    const float *losses = tr_golden_get(golden, "losses", GOLDEN_STEPS);
    const float *norms = tr_golden_get(golden, "norms", GOLDEN_STEPS);

    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 16 --vocab-size 61 --make-vocab-size-divisible-by 1 "
             "--micro-batch-size %d --global-batch-size 4 --train-iters 10 --lr 0.01 "
             "--lr-decay-style constant --adam-eps 1e-5 --attention-dropout 0 --hidden-dropout 0 "
             "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d "
             "--ddp-bucket-size 5000 %s %s %s",
             d == 1 && p < 4 ? GOLDEN_B : 1, w, p, type->options, schedule, extra);
    print_message("W=%d P=%d D=%d K=%d %s %s %s\n", w, p, d, k, type->options, schedule, extra);
    tiny_open(&r, &c, options, golden_sample);
    assert_all(r.shape.layout.w == w && r.shape.layout.p == p && r.shape.layout.d == d &&
               r.shape.layout.k == k);
    weights_set(&r, tr_golden_weight);

    tr_step_gradients(&r);
    double loss = tiny_loss(tr_step_loss(&r));
    assert_all(near(loss, (double)losses[0], type->loss));
    assert_all(agrees(&r, &r.model.params.grads, "grad", type->gradient, type->scale, true));
    memset(r.model.params.grads.data, 0, (size_t)tr_tensor_bytes(&r.model.params.grads));

    for (int step = 0; step < GOLDEN_STEPS; step++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        loss = tiny_loss(result.loss);
        assert_all(near(loss, (double)losses[step], type->loss));
        assert_all(near(result.grad_norm, (double)norms[step], type->loss));
    }
    assert_all(agrees(&r, &r.model.params.values, "final", type->final, 1.0, false));
    tiny_close(&r, &c);
}

static const struct way {
    const struct bounds *type;
    const char *schedule, *extra;
} ways[] = {
    {&fp32, "--pipeline-schedule 1f1b", ""},
    {&fp32, "--pipeline-schedule gpipe", "--no-overlap-grad-reduce"},
    {&fp32, "--pipeline-schedule gpipe",
     "--recompute-granularity full --distribute-checkpointed-activations"},
    {&fp32, "--pipeline-schedule 1f1b", "--sequence-parallel --recompute-method block"},
    {&fp16, "", ""},
    {&bf16, "", "--sequence-parallel --checkpoint-activations"},
};

/* On eight ranks each layout goes every other way, its neighbours the others; with TR_TEST_ALL each
   goes all. */
static bool is_chosen(int layout, int way)
{
    return world.size < 8 || (layout + way) % 2 == 0 || getenv("TR_TEST_ALL");
}

static void every_layout(void **state)
{
    int layouts = 0;

    (void)state;
    golden = tr_golden_open("gpt2_tiny");
    for (int w = 1; w <= GOLDEN_A && w <= world.size; w *= 2) {
        for (int p = 1; p <= GOLDEN_L && w * p <= world.size; p *= 2) {
            int d = world.size / (w * p);

            if (w * p * d != world.size || d > 4)
                continue;
            for (int i = 0; i < (int)(sizeof ways / sizeof *ways); i++)
                if (is_chosen(layouts, i))
                    one_layout(w, p, d, 1, ways[i].type, ways[i].schedule, ways[i].extra);
            layouts++;
            if (p == 2 && d <= 2)
                one_layout(w, p, d, 2, &fp32, "--num-virtual-stages-per-pipeline-rank 2", "");
        }
    }
    tr_golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout)};

    return run_mpi_tap(tests);
}
