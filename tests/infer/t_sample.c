/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/detokenize.h"
#include "infer/sample.h"
#include "infer/score.h"
#include "util/rng.h"

/* How tokens are chosen, which windows a text has, and plain text of WikiText's rows. */
enum { WORDS = 12, MOST = 3000 };

/* Two equal ones, and padding of a hundred that nobody draws. */
static const float scores[WORDS] = {0.3F,  -1.0F, 2.0F, 0.5F, 2.0F,  -3.0F,
                                    -0.2F, 1.1F,  0.0F, 0.9F, -0.7F, 1.5F};

static void probabilities(const struct tr_sampling *how, double p[WORDS])
{
    int order[WORDS];
    double all = 0.0, kept = 0.0;
    int most = how->top_k > 0 && how->top_k < WORDS ? (int)how->top_k : WORDS, count = 0;

    for (int i = 0; i < WORDS; i++)
        order[i] = i;
    for (int i = 0; i < WORDS; i++)
        for (int j = i + 1; j < WORDS; j++)
            if (scores[order[j]] > scores[order[i]] ||
                (!(scores[order[j]] < scores[order[i]]) && order[j] < order[i])) {
                int keep = order[i];

                order[i] = order[j];
                order[j] = keep;
            }
    for (int i = 0; i < WORDS; i++)
        p[i] = 0.0;
    for (int i = 0; i < most; i++)
        all += exp((double)scores[order[i]] / how->temperature);
    while (count < most && (count == 0 || kept < how->top_p)) {
        p[order[count]] = exp((double)scores[order[count]] / how->temperature) / all;
        kept += p[order[count++]];
    }
    for (int i = 0; i < WORDS; i++)
        p[i] /= kept;
}

/* Draws are a function of the seed, so a statistic that is in its bounds once always is: those of one in a thousand
   for 1 to 11 degrees of freedom. */
static void distribution(void **state)
{
    static const double bound[WORDS] = {0.0,   10.83, 13.82, 16.27, 18.47, 20.52,
                                        22.46, 24.32, 26.12, 27.88, 29.59, 31.26};
    static const struct tr_sampling hows[] = {
        {1.0, 0, 1.0, 1234}, {0.7, 0, 1.0, 5},   {2.5, 0, 1.0, 77},  {1.0, 5, 1.0, 9},
        {1.0, 0, 0.8, 11},   {1.3, 6, 0.7, 100}, {1.0, 40, 0.95, 3},
    };
    enum { DRAWS = 20000 };

    (void)state;
    for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
        double p[WORDS], statistic = 0.0;
        int64_t seen[WORDS] = {0};
        struct tr_sampler s;
        int freedom = -1;
        float logprob;

        tr_sampler_open(&s, WORDS);
        for (int i = 0; i < DRAWS; i++)
            seen[tr_sample(&s, scores, &hows[h], i % 100, 3 + i / 100, &logprob)]++;
        tr_sampler_close(&s);
        probabilities(&hows[h], p);
        for (int i = 0; i < WORDS; i++) {
            if (p[i] == 0.0)
                assert_int_equal(seen[i], 0);
            if (p[i] == 0.0)
                continue;
            freedom++;
            statistic += pow((double)seen[i] - DRAWS * p[i], 2.0) / (DRAWS * p[i]);
        }
        assert_true(freedom > 0 && statistic < bound[freedom]);
        /* And not the same draw over and over. */
        assert_true(statistic > 0.01);
    }
}

static void pure(void **state)
{
    const struct tr_sampling how = {1.0, 0, 1.0, 42}, other = {1.0, 0, 1.0, 43};
    int same_seed = 0, same_prompt = 0, same_position = 0;
    struct tr_sampler s;
    float logprob, sum = 0.0F;

    (void)state;
    tr_sampler_open(&s, WORDS);
    for (int i = 0; i < 200; i++) {
        int32_t token = tr_sample(&s, scores, &how, 7, i, &logprob);

        assert_int_equal(tr_sample(&s, scores, &how, 7, i, &logprob), token);
        same_seed += tr_sample(&s, scores, &other, 7, i, &logprob) == token;
        same_prompt += tr_sample(&s, scores, &how, 8, i, &logprob) == token;
        same_position += tr_sample(&s, scores, &how, 7, i + 1, &logprob) == token;
    }
    assert_true(same_seed < 100 && same_prompt < 100 && same_position < 100);
    for (int i = 0; i < WORDS; i++)
        sum += expf(scores[i]);
    tr_sample(&s, scores, &(struct tr_sampling){0.0, 0, 1.0, 0}, 0, 0, &logprob);
    assert_true(fabsf(logprob - (2.0F - logf(sum))) < 1e-6F);
    tr_sampler_close(&s);
}

static void greedy(void **state)
{
    const struct tr_sampling how = {0.0, 0, 1.0, 1}, one = {1.0, 1, 1.0, 1},
                             tiny = {1.0, 0, 0.0, 1};
    struct tr_sampler s;
    float logprob;

    (void)state;
    tr_sampler_open(&s, WORDS);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(tr_sample(&s, scores, &how, i, i, &logprob), 2);
        assert_int_equal(tr_sample(&s, scores, &one, i, i, &logprob), 2);
        assert_int_equal(tr_sample(&s, scores, &tiny, i, i, &logprob), 2);
    }
    tr_sampler_close(&s);
}

static void windows(void **state)
{
    static const struct {
        int64_t tokens, length, stride, windows, counted;
    } cases[] = {
        {100, 10, 10, 10, 90}, {100, 10, 1, 91, 99}, {101, 10, 10, 10, 90},
        {102, 10, 10, 11, 91}, {5, 10, 10, 1, 4},    {5, 10, 3, 1, 4},
        {1, 10, 10, 0, 0},     {0, 10, 10, 0, 0},    {17, 10, 4, 3, 16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_window *w;
        int64_t n = tr_score_slide(cases[i].tokens, cases[i].length, cases[i].stride, &w);
        int64_t counted = 0, last = 0;

        assert_int_equal(n, cases[i].windows);
        for (int64_t k = 0; k < n; k++) {
            assert_true(w[k].begin < w[k].first && w[k].first < w[k].end);
            assert_true(w[k].end - w[k].begin <= cases[i].length && w[k].first >= last);
            last = w[k].end;
            counted += w[k].end - w[k].first;
        }
        assert_int_equal(counted, cases[i].counted);
        free(w);
    }
}

/* The token by sorting the whole vocabulary and adding in that order. */
static const float *sorted_by;

static int more_likely(const void *a, const void *b)
{
    const int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;

    if (sorted_by[i] > sorted_by[j] || sorted_by[i] < sorted_by[j])
        return sorted_by[i] > sorted_by[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

static int64_t order[MOST];
static double weight[MOST];

static void sort_all(const float *x, int64_t n, const struct tr_sampling *how)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    sorted_by = x;
    qsort(order, (size_t)n, sizeof *order, more_likely);
    for (int64_t i = 0; i < n; i++)
        weight[i] = exp(((double)x[order[i]] - (double)x[order[0]]) / how->temperature);
}

static double sum_of(int64_t count)
{
    double all = 0.0;

    for (int64_t i = 0; i < count; i++)
        all += weight[i];
    return all;
}

static int64_t plainly(int64_t n, const struct tr_sampling *how, int64_t prompt, int64_t position)
{
    const int64_t most = how->top_k > 0 && how->top_k < n ? how->top_k : n;
    const double all = sum_of(most);
    double kept = 0.0, left;
    int64_t count = 0;
    uint32_t bits[4];

    while (count < most && (count == 0 || kept < how->top_p * all))
        kept += weight[count++];
    tr_rng_block(tr_rng_key(how->seed, TR_STREAM_TOKEN, 0, prompt), (uint64_t)position, bits);
    left = ((double)bits[0] + ((double)bits[1] + 0.5) / 4294967296.0) / 4294967296.0 * kept;
    for (int64_t i = 0; i < count - 1; i++) {
        left -= weight[i];
        if (left < 0.0)
            return order[i];
    }
    return order[count - 1];
}

/* Whatever is put in order, the token is the same: of scores that are far apart, close together, in few values, and all the
   same; and where top-p is what the weights of some tokens sum up to, so that a sum in another order would take one
   token more or less. */
static void same_as_sorted(void **state)
{
    static float x[MOST];
    const struct tr_rng rng = tr_rng_key(19, TR_STREAM_INIT, 0, 0);

    (void)state;
    for (int trial = 0; trial < 1000; trial++) {
        static const double shares[] = {1.0, 0.5, 0.9, 0.0, 0.0};
        const int64_t n = trial % 3 == 0 ? MOST : trial % 3 == 1 ? 1 + trial % 17 : 64;
        struct tr_sampling how = {.temperature = trial % 4 == 0 ? 0.2 : 1.5,
                                  .top_k = trial % 7 == 0 ? 20 : 0,
                                  .top_p = shares[trial % 5],
                                  .seed = (uint64_t)trial};
        struct tr_sampler s;

        tr_rng_normal(rng, (uint64_t)trial * MOST, n, x);
        for (int64_t i = 0; i < n; i++)
            x[i] = trial % 6 < 3    ? 4.0F * x[i]
                   : trial % 6 == 3 ? x[i] / 64.0F
                   : trial % 6 == 4 ? roundf(x[i])
                                    : 3.0F;
        sort_all(x, n, &how);
        if (!(how.top_p > 0.0))
            how.top_p =
                sum_of(n < 6 ? 1 : 6) / sum_of(how.top_k > 0 && how.top_k < n ? how.top_k : n);
        tr_sampler_open(&s, n);
        for (int position = 0; position < 20; position++) {
            float logprob;

            assert_int_equal(tr_sample(&s, x, &how, trial, position, &logprob),
                             plainly(n, &how, trial, position));
        }
        tr_sampler_close(&s);
    }
}

/* What the rules in their published form, expressions of Python, make of these. */
static void wikitext(void **state)
{
    static const char *const cases[][2] = {
        {" = Valkyria Chronicles III = \n", " = Valkyria Chronicles III =\n"},
        {" = = Gameplay = = \n", " == Gameplay ==\n"},
        {" = = = Sub = = = \n", " === Sub ===\n"},
        {" the game 's first , 3 @,@ 000 @.@ 5 @-@ year , ( Japanese : x ) . \n",
         " the game's first, 3,000.5-year, (Japanese: x).\n"},
        {" \" a quote \" and ' b ' ; c ! d ? e \n", " \"a quote\" and 'b'; c! d? e\n"},
        {" players ' [ 3 ] { x } 40 \xc2\xb0 N \n", " players' [3] {x} 40\xc2\xb0N\n"},
        {"( a ( b ) c ) /' 5/ s ' (", "(a ( b) c ) /'[0-9]/ s' ("},
        {"( ) \" \"", "() \"\""},
        {"", ""},
        {"x N y\n z", "x 1 y\nz"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_bytes out = {0};

        tr_detokenize_wikitext(cases[i][0], strlen(cases[i][0]), &out);
        tr_bytes_add(&out, "", 1);
        assert_string_equal((const char *)out.data, cases[i][1]);
        free(out.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distribution), cmocka_unit_test(pure),
        cmocka_unit_test(greedy),       cmocka_unit_test(windows),
        cmocka_unit_test(wikitext),     cmocka_unit_test(same_as_sorted),
    };

    return run_tap(tests);
}
