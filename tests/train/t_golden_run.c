/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/golden.h"
#include "train/tiny.h"

#include <math.h>

/*
 * PyTorch's numbers (tests/golden) from every layout that the number of ranks allows: ten losses, ten
 * norms, all gradients of the first step and all parameters after the last.  Each rank compares the
 * part of each tensor that it holds.  Tolerances: PyTorch's own float32 strays from the golden
 * numbers by 3e-7 in the losses and by up to 5e-6 in a final parameter, and these are four times
 * that.  Gradients are compared relative to the largest of their tensor, as in t_model.
 */
#define LOSS_TOLERANCE 1.2e-6
#define FINAL_TOLERANCE 2e-5
#define GRAD_TOLERANCE 1e-5

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

/* Index in the whole parameter of element `i` of the part held here, or -1 for padding. */
static int64_t whole_index(const struct tr_param *p, int64_t i)
{
    int64_t row = i / p->local[1], col = i % p->local[1];

    row += p->split == 0 ? p->first : 0;
    col += p->split == 1 ? p->first : 0;
    return row < p->full[0] ? row * p->full[1] + col : -1;
}

static void set_weights(struct tr_run *r)
{
    float *value = tr_f32(&r->model.params.values);

    for (int i = 0; i < r->model.params.count; i++) {
        const struct tr_param *p = &r->model.params.list[i];

        for (int64_t e = 0; e < p->elems; e++) {
            int64_t at = whole_index(p, e);

            value[p->offset + e] = at < 0 ? 0.0F : tr_golden_weight(p->name, at);
        }
    }
}

/* True if `flat` agrees with the golden tensors of that kind, within a tolerance that is relative to
   the largest element or absolute; padding must be zero. */
static bool agrees(const struct tr_run *r, const struct tr_tensor *flat, const char *kind,
                   double tolerance, bool relative)
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
            int64_t at = whole_index(p, e);
            double got = (double)tr_f32(flat)[p->offset + e];
            double error = fabs(got - (at < 0 ? 0.0 : (double)want[at]));

            worst = isfinite(error) ? fmax(worst, error) : INFINITY;
        }
        if (!(worst <= tolerance * (relative ? largest : 1.0))) {
            fprintf(stderr, "rank %d: %s of %s is off by %g of %g\n", world.rank, kind, p->name,
                    worst, largest);
            good = false;
        }
    }
    return good;
}

static void one_layout(int w, int p, int d, int k, const char *schedule, const char *extra)
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
             "--ddp-bucket-size 5000 %s %s",
             d == 1 && p < 4 ? GOLDEN_B : 1, w, p, schedule, extra);
    print_message("W=%d P=%d D=%d K=%d %s %s\n", w, p, d, k, schedule, extra);
    tiny_open(&r, &c, options, golden_sample);
    assert_all(r.shape.w == w && r.shape.p == p && r.shape.d == d && r.shape.k == k);
    set_weights(&r);

    double loss = tiny_loss(tr_step_gradients(&r));
    assert_all(fabs(loss - (double)losses[0]) <= LOSS_TOLERANCE * loss);
    assert_all(agrees(&r, &r.model.params.grads, "grad", GRAD_TOLERANCE, true));
    memset(r.model.params.grads.data, 0, (size_t)r.model.params.size * sizeof(float));

    for (int step = 0; step < GOLDEN_STEPS; step++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        loss = tiny_loss(result.loss);
        assert_all(fabs(loss - (double)losses[step]) <= LOSS_TOLERANCE * loss);
        assert_all(fabs(result.grad_norm - (double)norms[step]) <=
                   LOSS_TOLERANCE * result.grad_norm);
    }
    assert_all(agrees(&r, &r.model.params.values, "final", FINAL_TOLERANCE, false));
    tiny_close(&r, &c);
}

static void every_layout(void **state)
{
    (void)state;
    golden = tr_golden_open("gpt2_tiny");
    for (int w = 1; w <= GOLDEN_A && w <= world.size; w *= 2) {
        for (int p = 1; p <= GOLDEN_L && w * p <= world.size; p *= 2) {
            int d = world.size / (w * p);

            if (w * p * d != world.size || d > 4)
                continue;
            one_layout(w, p, d, 1, "--pipeline-schedule 1f1b", "");
            one_layout(w, p, d, 1, "--pipeline-schedule gpipe", "--no-overlap-grad-reduce");
            one_layout(w, p, d, 1, "--pipeline-schedule gpipe",
                       "--recompute-granularity full --distribute-checkpointed-activations");
            one_layout(w, p, d, 1, "--pipeline-schedule 1f1b",
                       "--sequence-parallel --recompute-method block");
            if (p == 2 && d <= 2)
                one_layout(w, p, d, 2, "--num-virtual-stages-per-pipeline-rank 2", "");
        }
    }
    tr_golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout)};

    return run_mpi_tap(tests);
}
