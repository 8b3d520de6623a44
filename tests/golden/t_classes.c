/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/facts.h"

#include <stdlib.h>

/*
 * Decoders with a head of classes against transformers' GPT2-, OPT- and LlamaForSequenceClassification
 * (tests/golden, classes): logits of padded samples, loss, the gradient of every parameter, and losses of
 * AdamW, on as many ranks as there are.  Bounds are those of t_families.c, and classes.py says how far PyTorch's
 * float32 strays: 1.6e-6 at most.
 */
enum { GLOBAL = 4, BATCHES = 2, STEPS = 10, CLASSES = 3, MODELS = 3 };

static struct tr_golden *golden;
static char description[MODELS][512];

static enum tr_status sample_of(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    const struct tr_dims *m = &r->shape.dims;
    const int64_t s = position % (BATCHES * GLOBAL), n = 2 + (7 * s + 3) % (m->seq - 1);

    (void)split;
    for (int t = 0; t < m->seq; t++)
        text[t] = t < n ? tr_golden_token_of(s, t, m->seq, m->vocab - 1) : -1;
    text[m->seq] = (int32_t)((5 * s + 1) % CLASSES);
    return TR_OK;
}

static const float *entry(const struct tr_run *r, const char *kind, const char *name, int64_t count)
{
    char whole[128];

    snprintf(whole, sizeof whole, "%s/%s%s", r->config->model_family, kind, name);
    return tr_golden_get(golden, whole, count);
}

/* Of the last micro-batch of the last replica: the last samples. */
static bool good_logits(const struct tr_run *r, double tolerance)
{
    const int64_t batch = r->shape.batches.micro_batch;
    const float *want = entry(r, "logits", "", GLOBAL * CLASSES);
    double largest = 0.0, worst = 0.0;
    struct tr_tensor logits;

    if (!tr_chunk_has_loss(r->chunk[r->shape.layout.k - 1]) ||
        r->grid.at.dp != r->shape.layout.d - 1)
        return true;
    logits = tr_chunk_logits(r->chunk[r->shape.layout.k - 1]);
    for (int64_t i = 0; i < GLOBAL * CLASSES; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < batch * CLASSES; i++) {
        const double error =
            fabs(weights_element(&logits, i) - (double)want[(GLOBAL - batch) * CLASSES + i]);

        worst = isfinite(error) ? fmax(worst, error) : INFINITY;
    }
    return near("worst error of a logit", worst, 0.0, tolerance, largest);
}

enum { COUNT = sizeof(struct facts) / sizeof(float) };

static bool good_gradients(const struct tr_run *r, double tolerance)
{
    struct tr_params whole;
    bool good = true;

    tr_params_list_whole(&r->shape.dims, &whole);
    for (int i = 0; i < whole.count; i++)
        good = facts_of_gradient(
                   r, &whole.list[i],
                   (const struct facts *)(const void *)entry(r, "grad/", whole.list[i].name, COUNT),
                   tolerance, 1.0) &&
               good;
    tr_params_release(&whole);
    return good;
}

static void one_layout(const char *model, const char *backend, int w, int p, const char *more)
{
    const float *losses;
    char options[2048];
    struct tr_config c;
    struct tr_run r;
    double loss, first;

    snprintf(
        options, sizeof options,
        "%s --mock-data --backend %s --micro-batch-size %d --global-batch-size 4 --train-iters "
        "10 --lr 0.003 --lr-decay-style constant --adam-eps 1e-5 --weight-decay 0.1 "
        "--clip-grad 0 --attention-dropout 0 --hidden-dropout 0 --tensor-model-parallel-size "
        "%d --pipeline-model-parallel-size %d --ddp-bucket-size 5000 %s",
        model, backend, world.size / w / p > 2 ? 1 : 2, w, p, more);
    print_message("%s W=%d P=%d %s\n", backend, w, p, more);
    tiny_open(&r, &c, options, sample_of);
    weights_set(&r, tr_golden_weight);
    losses = entry(&r, "losses", "", STEPS);
    first = (double)losses[0];

    loss = tiny_loss(tr_eval(&r, TR_SPLIT_TRAIN, 0, 1));
    assert_all(near("loss", loss, first, 1e-6, first));
    assert_all(good_logits(&r, 1e-5));

    tr_step_gradients(&r);
    loss = tiny_loss(tr_step_loss(&r));
    assert_all(near("loss before backward", loss, first, 1e-6, first));
    assert_all(good_gradients(&r, 1e-4));
    memset(r.model.params.grads.data, 0, (size_t)tr_tensor_bytes(&r.model.params.grads));
    for (int step = 0; step < STEPS; step++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        loss = tiny_loss(result.loss);
        assert_all(near("a loss of AdamW", loss, (double)losses[step], 1e-5, (double)losses[step]));
    }
    tiny_close(&r, &c);
}

static void as_transformers(void **state)
{
    const char *model = *state;

    if (world.size == 1) {
        one_layout(model, "ref", 1, 1, "");
        one_layout(model, "cpu", 1, 1, "");
        one_layout(model, "cpu", 1, 1, "--recompute-granularity full --recompute-method uniform");
    }
    if (world.size == 2) {
        one_layout(model, "cpu", 2, 1, "");
        one_layout(model, "cpu", 2, 1, "--sequence-parallel");
        one_layout(model, "cpu", 1, 2, "");
        one_layout(model, "cpu", 1, 1, "--use-distributed-optimizer");
    }
    if (world.size == 4) {
        one_layout(model, "cpu", 2, 2, "--sequence-parallel --pipeline-schedule gpipe");
        one_layout(model, "cpu", 1, 4, "--pipeline-model-parallel-layout E|t|t|L");
    }
}

static void read_descriptions(void)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/tests/golden/classes.txt", srcdir ? srcdir : ".");
    f = fopen(path, "r");
    for (int i = 0; i < MODELS; i++) {
        if (!f || !fgets(description[i], sizeof description[i], f)) {
            printf("Bail out! %s has no %d lines\n", path, MODELS);
            exit(1);
        }
        description[i][strcspn(description[i], "\n")] = '\0';
    }
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(as_transformers, description[0]),
        cmocka_unit_test_prestate(as_transformers, description[1]),
        cmocka_unit_test_prestate(as_transformers, description[2]),
    };
    int failed;

    read_descriptions();
    golden = tr_golden_open("classes");
    failed = run_mpi_tap(tests);
    tr_golden_close(golden);
    return failed;
}
