/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/golden.h"
#include "train/tiny.h"

#include <math.h>

/*
 * Packed documents, against PyTorch's numbers (tests/golden, masks): loss, norm and
 * gradients with each of the three masks and with all, in every layout that the number of ranks
 * allows.  Tolerances are those of t_golden_run; gradients are compared relative to the largest of
 * the elements that are kept, which can be a quarter of the largest there is.
 */
#define LOSS_TOLERANCE 1.2e-6
#define GRAD_TOLERANCE 4e-5

enum { EOD = 60, PLACES = 64, STRIDE = 1009 };

static struct tr_golden *golden;

static enum tr_status documents(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    (void)r;
    (void)split;
    for (int t = 0; t <= GOLDEN_S; t++) {
        text[t] = tr_golden_token(position, t);
        if (text[t] % 8 == 0 || (position == 3 && t < GOLDEN_S))
            text[t] = EOD;
    }
    return TR_OK;
}

/* Where element `at` of the whole parameter lies in the part held here, or -1 if it does not. */
static int64_t place_of(const struct tr_param *p, int64_t at)
{
    int64_t row = at / p->full[1], col = at % p->full[1];

    row -= p->split == 0 ? p->first : 0;
    col -= p->split == 1 ? p->first : 0;
    if (row < 0 || row >= p->local[0] || col < 0 || col >= p->local[1])
        return -1;
    return p->offset + row * p->local[1] + col;
}

static void set_weights(struct tr_run *r)
{
    float *value = tr_f32(&r->model.params.values);

    for (int i = 0; i < r->model.params.count; i++) {
        const struct tr_param *p = &r->model.params.list[i];

        for (int64_t e = 0; e < p->elems; e++)
            value[p->offset + e] = 0.0F;
        for (int64_t at = 0; at < p->full[0] * p->full[1]; at++)
            if (place_of(p, at) >= 0)
                value[place_of(p, at)] = tr_golden_weight(p->name, at);
    }
}

static bool same_gradient(const struct tr_run *r, const char *name, const struct tr_param *p)
{
    char whole[160];
    const float *want;
    double largest = 0.0, worst = 0.0;

    snprintf(whole, sizeof whole, "%s/grad/%s", name, p->name);
    want = tr_golden_get(golden, whole, PLACES);
    for (int64_t j = 0; j < PLACES; j++) {
        int64_t place = place_of(p, STRIDE * j % (p->full[0] * p->full[1]));

        largest = fmax(largest, fabs((double)want[j]));
        if (place >= 0)
            worst =
                fmax(worst, fabs((double)tr_f32(&r->model.params.grads)[place] - (double)want[j]));
    }
    if (worst <= GRAD_TOLERANCE * largest)
        return true;
    fprintf(stderr, "rank %d: %s is off by %g of %g\n", world.rank, whole, worst, largest);
    return false;
}

static bool same_gradients(const struct tr_run *r, const char *name)
{
    bool good = true;

    for (int i = 0; i < r->model.params.count; i++)
        good = same_gradient(r, name, &r->model.params.list[i]) && good;
    return good;
}

static void open_case(struct tr_run *r, struct tr_config *c, const char *masks, int w, int p,
                      int batch, const char *extra)
{
    char options[2048];

    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 16 --tokenizer-type NullTokenizer --vocab-size 60 "
             "--make-vocab-size-divisible-by 1 --micro-batch-size %d --global-batch-size 4 "
             "--train-iters 10 --lr 0.01 --attention-dropout 0 --hidden-dropout 0 "
             "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s %s",
             batch, w, p, masks, extra);
    tiny_open(r, c, options, documents);
    set_weights(r);
}

static void one_case(const char *name, const char *masks, int w, int p, int batch,
                     const char *extra)
{
    char entry[64];
    struct tr_config c;
    struct tr_run r;
    struct tr_step_result result;
    double loss, want, norm;

    print_message("%s: W=%d P=%d D=%d %s\n", name, w, p, world.size / (w * p), extra);
    snprintf(entry, sizeof entry, "%s/loss", name);
    want = (double)*tr_golden_get(golden, entry, 1);
    snprintf(entry, sizeof entry, "%s/norm", name);
    norm = (double)*tr_golden_get(golden, entry, 1);

    open_case(&r, &c, masks, w, p, batch, extra);
    loss = tiny_loss(tr_eval(&r, TR_SPLIT_TRAIN, 0, 1));
    assert_all(fabs(loss - want) <= LOSS_TOLERANCE * want);
    tr_step_gradients(&r);
    loss = tiny_loss(tr_step_loss(&r));
    assert_all(fabs(loss - want) <= LOSS_TOLERANCE * want);
    assert_all(same_gradients(&r, name));
    tiny_close(&r, &c);

    open_case(&r, &c, masks, w, p, batch, extra);
    tr_step(&r, &result);
    assert_all(fabs(result.grad_norm - norm) <= LOSS_TOLERANCE * norm);
    tiny_close(&r, &c);
}

static void cases_of(int w, int p)
{
    static const char all[] = "--eod-mask-loss --reset-position-ids --reset-attention-mask";
    static const struct {
        const char *name, *masks;
    } cases[] = {
        {"loss", "--eod-mask-loss"},
        {"positions", "--reset-position-ids"},
        {"attention", "--reset-attention-mask"},
        {"all", all},
    };
    int d = world.size / (w * p);

    if (d > 4)
        return;
    one_case("single", all, w, p, 1, "--pipeline-schedule gpipe");
    one_case("single", all, w, p, 1, "--sequence-parallel");
    if (p == 2)
        one_case("single", all, w, p, 1,
                 d <= 2 ? "--num-virtual-stages-per-pipeline-rank 2" : "--backend ref");
    for (size_t i = 0; d <= 2 && i < sizeof cases / sizeof cases[0]; i++)
        one_case(cases[i].name, cases[i].masks, w, p, 2,
                 i % 2 ? "" : "--recompute-granularity full --recompute-method uniform");
}

static void every_layout(void **state)
{
    (void)state;
    golden = tr_golden_open("masks");
    for (int w = 1; w <= GOLDEN_A && w <= world.size; w *= 2)
        for (int p = 1; p <= GOLDEN_L && w * p <= world.size; p *= 2)
            if (world.size % (w * p) == 0)
                cases_of(w, p);
    tr_golden_close(golden);
}

static enum tr_status only_ends(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    (void)r;
    (void)split;
    (void)position;
    for (int t = 0; t <= GOLDEN_S; t++)
        text[t] = EOD;
    return TR_OK;
}

/* No token counts: the loss is 0 and so is every gradient; nothing is divided by 0. */
static void nothing_counts(void **state)
{
    struct tr_config c;
    struct tr_run r;
    double loss, sum = 0.0;

    (void)state;
    open_case(&r, &c, "--eod-mask-loss", 1, 1, 1, "");
    r.sample = only_ends;
    tr_step_gradients(&r);
    loss = tiny_loss(tr_step_loss(&r));
    assert_all(loss == 0.0);
    for (int64_t i = 0; i < r.model.params.size; i++)
        sum += fabs((double)tr_f32(&r.model.params.grads)[i]);
    assert_all(sum == 0.0);
    tiny_close(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
        cmocka_unit_test(nothing_counts),
    };

    return run_mpi_tap(tests);
}
