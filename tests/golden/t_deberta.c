/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/facts.h"
#include "golden/golden.h"
#include "config/relative.h"

/*
 * DeBERTa for sequence classification against transformers (make_deberta.py): the logits of the classes and the loss
 * of padded samples, and the gradient of every parameter that is trained, on one rank and cut by heads and by layers.
 * PyTorch's own float32 strays by 2e-7 of the largest logit and 1.3e-6 of the largest element of a gradient.
 */
enum { MODELS = 2, SAMPLES = 4, LABELS = 3 };
static const double LOGITS = 1e-5, LOSS = 1e-6, GRADIENT = 1e-4;

static const int length_of[SAMPLES] = {16, 5, 11, 1};
static char description[MODELS][512];
static struct tr_golden *golden;

static enum tr_status sample_of(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    const struct tr_dims *m = &r->shape.dims;

    (void)split;
    for (int t = 0; t < m->seq; t++)
        text[t] = t < length_of[position % SAMPLES]
                      ? tr_golden_token_of(position % SAMPLES, t, m->seq, m->vocab)
                      : -1;
    text[m->seq] = (int32_t)(position % SAMPLES % LABELS);
    return TR_OK;
}

static const float *entry(const struct tr_run *r, const char *kind, const char *name, int64_t count)
{
    char whole[128];

    snprintf(whole, sizeof whole, "%s/%s%s", r->config->model_family, kind, name);
    return tr_golden_get(golden, whole, count);
}

/* Of the last micro-batch of the last replica, which has the last samples. */
static bool good_logits(struct tr_run *r)
{
    const float *want = entry(r, "logits", "", SAMPLES * LABELS);
    const int64_t count = r->shape.batches.micro_batch, first = SAMPLES - count;
    double largest = 0.0, worst = 0.0;
    struct tr_tensor logits;

    if (!tr_chunk_has_loss(r->chunk[r->shape.layout.k - 1]) ||
        r->grid.at.dp != r->shape.layout.d - 1)
        return true;
    logits = tr_chunk_logits(r->chunk[r->shape.layout.k - 1]);
    for (int64_t i = 0; i < SAMPLES * LABELS; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < count * LABELS; i++) {
        const double error = fabs(weights_element(&logits, i) - (double)want[first * LABELS + i]);

        worst = isfinite(error) ? fmax(worst, error) : INFINITY;
    }
    return near("worst error of a logit", worst, 0.0, LOGITS, largest);
}

static bool is_frozen(const struct tr_param *p)
{
    return p->row == TR_PARAM_RELATIVE_TABLE || p->row == TR_PARAM_RELATIVE_GAIN ||
           p->row == TR_PARAM_RELATIVE_BIAS;
}

static bool good_gradients(const struct tr_run *r)
{
    enum { COUNT = sizeof(struct facts) / sizeof(float) };
    static const struct facts none;
    struct tr_params whole;
    bool good = true;

    tr_params_list_whole(&r->shape.dims, &whole);
    for (int i = 0; i < whole.count; i++) {
        const struct tr_param *p = &whole.list[i];
        struct facts nothing = none;
        const struct facts *want = &nothing;

        nothing.count = (float)(p->full[0] * p->full[1]);
        if (!is_frozen(p))
            want = (const struct facts *)(const void *)entry(r, "grad/", p->name, COUNT);
        good = facts_of_gradient(r, p, want, is_frozen(p) ? 0.0 : GRADIENT, 1.0) && good;
    }
    tr_params_release(&whole);
    return good;
}

struct layout {
    int w, p, micro;
    const char *options;
};

static void one_layout(const char *family, const char *backend, struct layout at)
{
    const int d = world.size / (at.w * at.p);
    char options[2048];
    struct tr_config c;
    struct tr_run r;
    double loss, want;

    snprintf(options, sizeof options,
             "%s --mock-data --backend %s --make-vocab-size-divisible-by 4 --micro-batch-size %d "
             "--global-batch-size 4 --train-iters 2 --lr 0.003 --weight-decay 0.1 "
             "--attention-dropout 0 --hidden-dropout 0 --tensor-model-parallel-size %d "
             "--pipeline-model-parallel-size %d --ddp-bucket-size 5000 %s",
             family, backend, at.micro, at.w, at.p, at.options);
    print_message("%s W=%d P=%d D=%d micro %d %s\n", backend, at.w, at.p, d, at.micro, at.options);
    tiny_open(&r, &c, options, sample_of);
    weights_set(&r, tr_golden_weight);
    want = (double)entry(&r, "loss", "", 1)[0];

    loss = tiny_loss(tr_eval(&r, TR_SPLIT_TRAIN, 0, 1));
    assert_all(near("loss", loss, want, LOSS, want));
    assert_all(good_logits(&r));

    tr_step_gradients(&r);
    loss = tiny_loss(tr_step_loss(&r));
    assert_all(near("loss before backward", loss, want, LOSS, want));
    assert_all(good_gradients(&r));
    tiny_close(&r, &c);
}

/* What pads the last sample is zero behind the embedding, which is the input of the first layer, and the rest is not. */
static bool pads_with_zeros(struct tr_run *r)
{
    const struct tr_tensor x = tr_chunk_input(r->chunk[0], SAMPLES - 1);
    double real = 0.0, padding = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(&x); i++)
        *(i / x.dim[1] < length_of[SAMPLES - 1] ? &real : &padding) += fabs(weights_element(&x, i));
    return real > 0.0 && padding <= 0.0;
}

/* The table and its norm stay what they were, and all else changes. */
static void frozen(const char *family, const char *options)
{
    char whole[1024];
    struct tr_config c;
    struct tr_run r;
    struct tr_step_result result;
    bool good = true;

    snprintf(whole, sizeof whole,
             "%s --mock-data --backend cpu --make-vocab-size-divisible-by 4 --micro-batch-size 1 "
             "--global-batch-size 4 --train-iters 2 --lr 0.003 --weight-decay 0.1 %s",
             family, options);
    tiny_open(&r, &c, whole, sample_of);
    weights_set(&r, tr_golden_weight);
    for (int step = 0; step < 2; step++)
        tr_step(&r, &result);
    for (int i = 0; i < r.model.params.count; i++) {
        const struct tr_param *p = &r.model.params.list[i];
        bool same = true;

        for (int64_t e = 0; e < p->elems; e++) {
            const int64_t at = weights_whole_index(p, e);

            if (at >= 0)
                same = same && (float)weights_element(&r.model.params.values, p->offset + e) ==
                                   tr_golden_weight(p->name, at);
        }
        if (same != is_frozen(p))
            fprintf(stderr, "rank %d: %s %s\n", world.rank, p->name, same ? "stays" : "changes");
        good = good && same == is_frozen(p);
    }
    assert_all(good);
    assert_all(r.grid.at.pp > 0 || pads_with_zeros(&r));
    tiny_close(&r, &c);
}

static void as_transformers(void **state)
{
    const char *family = description[*(const int *)*state];
    const int n = world.size;

    for (int w = 1; w <= 4 && w <= n; w *= 2)
        for (int p = 1; p <= 2 && w * p <= n; p *= 2) {
            const int d = n / (w * p);

            for (int micro = 1; micro * d <= SAMPLES; micro *= 2) {
                one_layout(family, "cpu", (struct layout){w, p, micro, ""});
                if (micro == 1)
                    one_layout(family, "ref", (struct layout){w, p, micro, ""});
            }
            if (p == 1)
                one_layout(family, "cpu",
                           (struct layout){w, p, 1,
                                           "--recompute-granularity full "
                                           "--recompute-method uniform "
                                           "--recompute-num-layers 2"});
            one_layout(family, "cpu",
                       (struct layout){w, p, 1,
                                       "--recompute-granularity full --recompute-method "
                                       "uniform --pipeline-schedule gpipe"});
        }
    if (n == 1)
        frozen(family, "");
    if (n == 2)
        frozen(family, "--pipeline-model-parallel-size 2");
}

static void the_buckets(void **state)
{
    const float *want = tr_golden_get(golden, "buckets", 1023);
    const float *few = tr_golden_get(golden, "few", 31);

    (void)state;
    for (int r = -511; r <= 511; r++)
        assert_int_equal(tr_relative_bucket(r, 256, 512), (int64_t)want[r + 511]);
    for (int r = -15; r <= 15; r++)
        assert_int_equal(tr_relative_bucket(r, 8, 16), (int64_t)few[r + 15]);
}

int main(void)
{
    static int row[MODELS];
    struct CMUnitTest tests[MODELS + 1] = {
        {"the buckets of distances", the_buckets, NULL, NULL, NULL}};
    const char *srcdir = getenv("srcdir");
    char path[4096];
    int failed;
    FILE *f;

    snprintf(path, sizeof path, "%s/tests/golden/deberta.txt", srcdir ? srcdir : ".");
    f = fopen(path, "r");
    for (int i = 0; i < MODELS; i++) {
        if (!f || !fgets(description[i], sizeof description[i], f)) {
            printf("Bail out! %s has no %d lines\n", path, MODELS);
            return 1;
        }
        description[i][strcspn(description[i], "\n")] = '\0';
        row[i] = i;
        tests[i + 1] = (struct CMUnitTest){description[i], as_transformers, NULL, NULL, &row[i]};
    }
    fclose(f);
    golden = tr_golden_open("deberta");
    failed = run_mpi_tap_of(tests, MODELS + 1);
    tr_golden_close(golden);
    return failed;
}
