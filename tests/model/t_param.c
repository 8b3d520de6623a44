/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "config/shape.h"
#include "model/param.h"

static struct tr_shape shape(int64_t layers, int64_t hidden, int64_t vocab, int64_t positions)
{
    return (struct tr_shape){
        .layout = tr_layout_single(layers),
        .dims.family = *tr_family_find("gpt2"),
        .dims.layers = layers,
        .dims.hidden = hidden,
        .dims.heads = 1,
        .dims.groups = 1,
        .dims.head_dim = hidden,
        .dims.embed = hidden,
        .dims.ffn = 4 * hidden,
        .dims.vocab = vocab,
        .dims.vocab_padded = vocab,
        .dims.positions = positions,
    };
}

static void layout(struct tr_shape *s, int w, int p, int k, int64_t vocab_padded)
{
    s->layout = tr_layout_equal(w, p, 1, k, s->dims.layers);
    s->dims.vocab_padded = vocab_padded;
}

/* What Megatron-LM printed for a GPT of 18B on 16 GPUs in May 2021 (TP 4, PP 4, 40 layers of 6144,
   sequence 1024), and the number that the GPT-2 paper's smallest model is known for. */
static void published_numbers(void **state)
{
    static const int64_t megatron[] = {1217086464, 1132938240, 1132938240, 1210807296};
    struct tr_shape s = shape(40, 6144, 50257, 1024);
    struct tr_params ps;

    (void)state;
    layout(&s, 4, 4, 1, 50688);
    for (int tp = 0; tp < 4; tp++) {
        for (int pp = 0; pp < 4; pp++) {
            tr_params_list(&s.dims, &s.layout, tp, pp, &ps);
            assert_int_equal(tr_params_number(&ps), megatron[pp]);
            tr_params_release(&ps);
        }
    }
    s = shape(12, 768, 50257, 1024);
    tr_params_list(&s.dims, &s.layout, 0, 0, &ps);
    assert_int_equal(tr_params_number(&ps), 124439808);
    tr_params_release(&ps);
}

/* Where element `i` of the local part stands in the whole parameter; -1 for padding. */
static int64_t place(const struct tr_param *p, int64_t i)
{
    int64_t row = i / p->local[1], col = i % p->local[1];

    if (p->split == 0)
        row += p->first;
    if (p->split == 1)
        col += p->first;
    return row < p->full[0] ? row * p->full[1] + col : -1;
}

/*
 * Every layout draws the same weights: each element of the model is found in the one-rank model by
 * name and place, each is held by as many ranks as it should be, and padding is zero.
 */
static void same_weights(void **state)
{
    static const struct {
        int w, p, k;
        const char *stages; /* their layers, unless equal */
    } layouts[] = {
        {.w = 2, .p = 1, .k = 1},
        {.w = 4, .p = 2, .k = 1},
        {.w = 1, .p = 4, .k = 1},
        {.w = 2, .p = 2, .k = 2},
        {.w = 1, .p = 3, .k = 1, .stages = "1,2,1"},
        {.w = 1, .p = 2, .k = 1, .stages = "1,3"},
        {.w = 2, .p = 4, .k = 1, .stages = "0,2,2,0"},
        {.w = 2, .p = 2, .k = 3, .stages = "0,1,1*2,1,0"},
    };
    enum { INITS = 3 }; /* values of --init-weights */
    struct tr_shape whole = shape(4, 8, 13, 6);
    struct tr_params all, part;
    float memory[8192], other[8192];

    (void)state;
    tr_params_list(&whole.dims, &whole.layout, 0, 0, &all);
    assert_true(all.size <= 8192);
    for (size_t l = 0; l < INITS * sizeof layouts / sizeof layouts[0]; l++) {
        const int init = (int)(l % INITS);
        struct tr_shape s = whole;
        int64_t counted = 0;

        tr_params_draw(&all, &whole.dims, 99, 0.02, init, 1, 0, all.size, memory);

        if (layouts[l / INITS].stages)
            s.layout =
                (struct tr_layout){.w = layouts[l / INITS].w, .p = layouts[l / INITS].p, .d = 1};
        else
            layout(&s, layouts[l / INITS].w, layouts[l / INITS].p, layouts[l / INITS].k, 16);
        s.dims.vocab_padded = 16;
        if (layouts[l / INITS].stages)
            assert_ok(tr_layout_parse(layouts[l / INITS].stages, 4, &s.layout));
        for (int pp = 0; pp < s.layout.p; pp++) {
            for (int tp = 0; tp < s.layout.w; tp++) {
                tr_params_list(&s.dims, &s.layout, tp, pp, &part);
                /* In two pieces, as an owner of some of them would draw them. */
                assert_true(part.size <= 8192);
                tr_params_draw(&part, &s.dims, 99, 0.02, init, 2, 0, 333, other);
                tr_params_draw(&part, &s.dims, 99, 0.02, init, 2, 333, part.size - 333,
                               other + 333);
                for (int i = 0; i < part.count; i++) {
                    const struct tr_param *p = &part.list[i];
                    const struct tr_param *q = tr_param_find(&all, p->row, p->layer);

                    assert_string_equal(p->name, q->name);
                    for (int64_t e = 0; e < p->elems; e++) {
                        int64_t at = place(p, e);
                        float want = at < 0 ? 0.0F : memory[q->offset + at];

                        counted += at >= 0 && tr_param_counts(p, tp);
                        assert_memory_equal(&other[p->offset + e], &want, sizeof want);
                    }
                }
                tr_params_release(&part);
            }
        }
        assert_int_equal(counted, all.elems);
    }
    tr_params_release(&all);
}

/* Standard deviation and largest of a parameter's weights. */
static void measure(const struct tr_params *ps, const float *value, enum tr_param_row row,
                    double *deviation, double *most)
{
    const struct tr_param *p = tr_param_find(ps, row, row < TR_PARAM_LN1_GAIN ? -1 : 1);
    double sum = 0.0;

    *most = 0.0;
    for (int64_t i = 0; i < p->elems; i++) {
        const double x = (double)value[p->offset + i];

        sum += x * x;
        *most = fmax(*most, fabs(x));
    }
    *deviation = sqrt(sum / (double)p->elems);
}

/* A normal distribution of that deviation goes beyond twice of it; a uniform one ends at its bound, which is sqrt(3)
   times its deviation. */
static void is_normal(const struct tr_params *ps, const float *value, enum tr_param_row row,
                      double expected)
{
    double deviation, most;

    measure(ps, value, row, &deviation, &most);
    assert_true(fabs(deviation / expected - 1.0) < 0.1 && most > 2.0 * expected);
}

static void is_uniform(const struct tr_params *ps, const float *value, enum tr_param_row row,
                       double bound)
{
    double deviation, most;

    measure(ps, value, row, &deviation, &most);
    assert_true(most <= bound && most > 0.9 * bound);
    assert_true(fabs(sqrt(3.0) * deviation / bound - 1.0) < 0.15);
}

static void is_alike(const struct tr_params *ps, const float *value, enum tr_param_row row,
                     double expected)
{
    double deviation, most;

    measure(ps, value, row, &deviation, &most);
    assert_true(fabs(deviation - expected) < 1e-9 && fabs(most - expected) < 1e-9);
}

/* --init-weights, by the formulas of GPT-2, transformers' modules and torch.nn: h 24, 4 h inside the MLP, 2 layers. */
static void initial(void **state)
{
    enum { H = 24, I = 4 * H };
    struct tr_shape s = shape(2, H, 61, 32);
    struct tr_params ps;
    static float value[32768];

    (void)state;
    tr_params_list(&s.dims, &s.layout, 0, 0, &ps);
    assert_true(ps.size <= 32768);
    tr_params_draw(&ps, &s.dims, 5, 0.02, TR_WEIGHTS_SCALED, 1, 0, ps.size, value);
    is_normal(&ps, value, TR_PARAM_WORD_EMBED, 0.02);
    is_normal(&ps, value, TR_PARAM_QKV_WEIGHT, 0.02);
    is_normal(&ps, value, TR_PARAM_FC2_WEIGHT, 0.01);
    is_alike(&ps, value, TR_PARAM_FC1_BIAS, 0.0);
    is_alike(&ps, value, TR_PARAM_LN1_GAIN, 1.0);
    tr_params_draw(&ps, &s.dims, 5, 0.02, TR_WEIGHTS_MODULES, 1, 0, ps.size, value);
    is_normal(&ps, value, TR_PARAM_WORD_EMBED, 1.0);
    is_normal(&ps, value, TR_PARAM_POS_EMBED, 1.0);
    is_normal(&ps, value, TR_PARAM_QKV_WEIGHT, 0.02);
    is_normal(&ps, value, TR_PARAM_FC2_WEIGHT, 0.02);
    is_alike(&ps, value, TR_PARAM_FC1_BIAS, 0.0);
    tr_params_draw(&ps, &s.dims, 5, 0.02, TR_WEIGHTS_TORCH, 1, 0, ps.size, value);
    is_normal(&ps, value, TR_PARAM_WORD_EMBED, 1.0);
    is_uniform(&ps, value, TR_PARAM_QKV_WEIGHT, sqrt(6.0 / (3 * H + H)));
    is_uniform(&ps, value, TR_PARAM_PROJ_WEIGHT, 1.0 / sqrt(H));
    is_uniform(&ps, value, TR_PARAM_FC1_WEIGHT, 1.0 / sqrt(H));
    is_uniform(&ps, value, TR_PARAM_FC2_WEIGHT, 1.0 / sqrt(I));
    is_uniform(&ps, value, TR_PARAM_FC1_BIAS, 1.0 / sqrt(H));
    is_uniform(&ps, value, TR_PARAM_FC2_BIAS, 1.0 / sqrt(I));
    is_alike(&ps, value, TR_PARAM_QKV_BIAS, 0.0);
    is_alike(&ps, value, TR_PARAM_PROJ_BIAS, 0.0);
    is_alike(&ps, value, TR_PARAM_LN2_GAIN, 1.0);
    is_alike(&ps, value, TR_PARAM_LN2_BIAS, 0.0);
    tr_params_release(&ps);
}

/* The order of the flat buffer is the order in which backward completes gradients. */
static void order(void **state)
{
    struct tr_shape s = shape(8, 8, 16, 4);
    struct tr_params ps;

    (void)state;
    layout(&s, 1, 2, 2, 16);
    tr_params_list(&s.dims, &s.layout, 0, 1, &ps);
    /* Stage 1 of 2 with 2 chunks of 2 layers: layers 2, 3 and 6, 7, and the head with chunk 1. */
    assert_int_equal(ps.list[0].row, TR_PARAM_FINAL_BIAS);
    assert_true(tr_param_find(&ps, TR_PARAM_WORD_EMBED, -1)->copy);
    assert_null(tr_param_find(&ps, TR_PARAM_POS_EMBED, -1));
    int64_t last = tr_param_find(&ps, TR_PARAM_FINAL_GAIN, -1)->offset;
    static const int layers[] = {7, 6, 3, 2};
    for (int i = 0; i < 4; i++) {
        int64_t offset = tr_param_find(&ps, TR_PARAM_QKV_WEIGHT, layers[i])->offset;

        assert_true(offset > last);
        assert_int_equal(tr_param_find(&ps, TR_PARAM_QKV_WEIGHT, layers[i])->chunk, i < 2);
        last = offset;
    }
    tr_params_release(&ps);
}

/* With a buffer that is sharded evenly over replicas, both copies of the tied embedding must be
   split at the same elements: it has a region of its own, of one size, on both stages. */
static void tied_region(void **state)
{
    struct tr_shape s = shape(4, 24, 100, 6);

    (void)state;
    layout(&s, 2, 2, 1, 128);
    s.layout.d = 3;
    for (int pp = 0; pp < 2; pp++) {
        struct tr_params ps;
        const struct tr_param *p;

        tr_params_list(&s.dims, &s.layout, 1, pp, &ps);
        p = tr_param_find(&ps, TR_PARAM_WORD_EMBED, -1);
        assert_int_equal(p->offset, tr_params_tied(&ps));
        assert_int_equal(tr_params_tied(&ps) % (TR_PARAM_UNIT * 3), 0);
        assert_int_equal(ps.size - tr_params_tied(&ps), 64 * 24);
        assert_true(p == &ps.list[ps.count - 1]);
        tr_params_release(&ps);
    }
}

/* The region of element `at`. */
static const struct tr_region *region_at(const struct tr_params *ps, int64_t at)
{
    const struct tr_region *r = &ps->region[tr_regions_from(ps, at)];

    assert_true(r->first <= at && at < r->first + r->count);
    return r;
}

static void check_regions(const struct tr_params *ps, int w, int pp, int p_all)
{
    int64_t at = 0, real = 0;

    for (int i = 0; i < ps->regions; at += ps->region[i++].count) {
        const struct tr_region *r = &ps->region[i], *next = r + 1;

        assert_true(r->first == at && r->count > 0);
        real += r->padding ? 0 : r->count;
        if (i + 1 < ps->regions)
            assert_true(r->padding != next->padding || r->alike != next->alike ||
                        r->by_heads != next->by_heads || r->tied != next->tied ||
                        r->copy != next->copy || r->decay != next->decay || r->adds != next->adds);
    }
    assert_true(at == ps->size && real == ps->elems);
    for (int i = 0; i < ps->count; i++) {
        const struct tr_param *p = &ps->list[i];
        const bool tied = p->row == TR_PARAM_WORD_EMBED && p_all > 1;

        for (int end = 0; end < 2; end++) {
            const struct tr_region *r = region_at(ps, p->offset + (end ? p->elems - 1 : 0));

            assert_true(!r->padding && r->decay == p->decay && r->adds == p->adds);
            assert_true(r->alike == (w > 1 && p->split < 0) && r->tied == tied);
            assert_true(r->copy == (tied && pp == p_all - 1));
            for (int tp = 0; tp < w; tp++)
                assert_true(tr_region_counts(r, tp) == tr_param_counts(p, tp));
        }
    }
}

/* Every element is in one region, which says of it what its parameter says. */
static void regions(void **state)
{
    static const int layouts[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 3}, {1, 4, 5}};
    struct tr_shape s = shape(4, 24, 100, 6);

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        for (int pp = 0; pp < layouts[i][1]; pp++) {
            struct tr_params ps;

            layout(&s, layouts[i][0], layouts[i][1], 1, 128);
            s.layout.d = layouts[i][2];
            tr_params_list(&s.dims, &s.layout, 0, pp, &ps);
            check_regions(&ps, layouts[i][0], pp, layouts[i][1]);
            tr_params_release(&ps);
        }
}

/* The names of its draws are what they were when GPT-2 was all there was, in this order and sixteen more in
   the next layer, whatever rows have come; and no two are alike. */
static void draws(void **state)
{
    enum { ROWS = 40, LAYERS = 50 };
    static const enum tr_param_row gpt2[] = {
        TR_PARAM_WORD_EMBED, TR_PARAM_POS_EMBED, TR_PARAM_LN1_GAIN,    TR_PARAM_LN1_BIAS,
        TR_PARAM_QKV_WEIGHT, TR_PARAM_QKV_BIAS,  TR_PARAM_PROJ_WEIGHT, TR_PARAM_PROJ_BIAS,
        TR_PARAM_LN2_GAIN,   TR_PARAM_LN2_BIAS,  TR_PARAM_FC1_WEIGHT,  TR_PARAM_FC1_BIAS,
        TR_PARAM_FC2_WEIGHT, TR_PARAM_FC2_BIAS,  TR_PARAM_FINAL_GAIN,  TR_PARAM_FINAL_BIAS,
    };
    struct tr_shape s = shape(2, 8, 13, 6);
    struct tr_params ps;
    int64_t items[ROWS * LAYERS];
    int n = 0;

    (void)state;
    tr_params_list(&s.dims, &s.layout, 0, 0, &ps);
    for (int row = 0; row < 16; row++)
        for (int layer = -1; layer < 2; layer++) {
            const struct tr_param *p = tr_param_find(&ps, gpt2[row], layer);

            if (p)
                assert_int_equal(tr_param_item(p->draw, layer), row + 16 * (layer + 1));
        }
    tr_params_release(&ps);
    for (int draw = 0; draw < ROWS; draw++)
        for (int layer = -1; layer < LAYERS - 1; layer++) {
            items[n] = tr_param_item(draw, layer);
            for (int i = 0; i < n; i++)
                assert_true(items[i] != items[n]);
            n++;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_numbers),
        cmocka_unit_test(same_weights),
        cmocka_unit_test(initial),
        cmocka_unit_test(draws),
        cmocka_unit_test(order),
        cmocka_unit_test(tied_region),
        cmocka_unit_test(regions),
    };
    return run_tap(tests);
}
