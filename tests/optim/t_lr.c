/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/lr.h"
#include "util/file.h"
#include "util/text.h"

static struct tr_lr_schedule schedule(int style, double lr, double min_lr, double warmup,
                                      double decay)
{
    return (struct tr_lr_schedule){
        .lr = lr,
        .min_lr = min_lr,
        .warmup_samples = warmup,
        .decay_samples = decay,
        .decay_style = style,
    };
}

/*
 * Every learning rate of two public runs of Megatron-LM of May 2021 (18B on 16 and 30B on 32 V100;
 * they agree), as printed: --lr 0.00015 --min-lr 1e-05 --lr-decay-style cosine --lr-decay-iters 800
 * --lr-warmup-fraction 0.01, 4 samples per iteration.  Skipped iterations do not move the schedule.
 */
static void public_logs(void **state)
{
    static const struct {
        int iteration, skipped;
        const char *lr;
    } line[] = {
        {10, 10, "0.000E+00"}, {20, 8, "3.750E-05"},  {30, 1, "1.500E-04"},  {40, 0, "1.499E-04"},
        {50, 0, "1.497E-04"},  {60, 0, "1.494E-04"},  {70, 0, "1.490E-04"},  {80, 0, "1.485E-04"},
        {90, 0, "1.478E-04"},  {100, 0, "1.471E-04"}, {110, 0, "1.462E-04"}, {120, 0, "1.453E-04"},
        {130, 0, "1.442E-04"}, {140, 0, "1.431E-04"}, {150, 0, "1.418E-04"}, {160, 0, "1.405E-04"},
        {170, 0, "1.390E-04"}, {180, 0, "1.375E-04"}, {190, 0, "1.359E-04"}, {200, 0, "1.342E-04"},
    };
    struct tr_lr_schedule s = schedule(TR_LR_COSINE, 0.00015, 1e-05, 0.01 * 800 * 4, 800 * 4);
    int skipped = 0;
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof line / sizeof line[0]; i++) {
        skipped += line[i].skipped;
        snprintf(text, sizeof text, "%.3E", tr_lr_at(&s, 4.0 * (line[i].iteration - skipped)));
        assert_string_equal(text, line[i].lr);
    }
}

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 4.0 * 0x1p-53 * fabs(wanted)))
        fail_msg("%.17g, wanted %.17g", value, wanted);
}

/* The numbers of Megatron's own test_optimizer_param_scheduler.py: from 0.01 in 100 samples to 0.1,
   then down to 0.001 at 1000. */
static void megatron_unit_test(void **state)
{
    struct tr_lr_schedule linear = schedule(TR_LR_LINEAR, 0.1, 0.001, 100, 1000);
    struct tr_lr_schedule cosine = schedule(TR_LR_COSINE, 0.1, 0.001, 100, 1000);

    (void)state;
    linear.warmup_init = cosine.warmup_init = 0.01;
    near(tr_lr_at(&linear, 0), 0.01);
    near(tr_lr_at(&linear, 50), 0.055);
    near(tr_lr_at(&linear, 100), 0.1);
    near(tr_lr_at(&linear, 500), 0.056);
    near(tr_lr_at(&linear, 1001), 0.001);
    near(tr_lr_at(&cosine, 500), 0.001 + 0.099 * 0.5 * (1.0 + cos(M_PI * 4.0 / 9.0)));
    near(tr_lr_at(&cosine, 1001), 0.001);
}

/* max sqrt(W / n): a quarter of the samples later it is half, and never below the smallest. */
static void inverse_root(void **state)
{
    struct tr_lr_schedule s = schedule(TR_LR_INVERSE_ROOT, 0.1, 0.001, 100, 1000);

    (void)state;
    near(tr_lr_at(&s, 50), 0.05);
    near(tr_lr_at(&s, 100), 0.1);
    near(tr_lr_at(&s, 400), 0.05);
    near(tr_lr_at(&s, 500), 0.1 * 10.0 / sqrt(500.0));
    near(tr_lr_at(&s, 1000), 0.1 * 10.0 / sqrt(1000.0));
    near(tr_lr_at(&s, 1001), 0.001);
    s.min_lr = 0.06;
    near(tr_lr_at(&s, 400), 0.06);
    s.warmup_samples = 0.0;
    near(tr_lr_at(&s, 0), 0.1);
    near(tr_lr_at(&s, 1), 0.1);
    near(tr_lr_at(&s, 2), 0.1 / sqrt(2.0));
}

/* The rate stays, and falls in the last 400 samples; worked out by hand at a quarter of them, where
   1 / sqrt(sqrt(2)) and sqrt(1 / 4) are known, and at the half. */
static void warmup_stable_decay(void **state)
{
    static const struct {
        int style;
        double quarter, half;
    } parts[] = {
        {TR_WSD_LINEAR, 0.75, 0.5},
        {TR_WSD_COSINE, 0.85355339059327373, 0.5},
        {TR_WSD_EXPONENTIAL, 0.68179283050742912, 0.41421356237309503},
        {TR_WSD_MINUS_ROOT, 0.5, 0.29289321881345243},
    };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct tr_lr_schedule s = schedule(TR_LR_WSD, 3.0, 1.0, 100, 1000);

        s.wsd_style = parts[i].style;
        s.wsd_samples = 400;
        near(tr_lr_at(&s, 50), 1.5);
        near(tr_lr_at(&s, 100), 3.0);
        near(tr_lr_at(&s, 600), 3.0);
        near(tr_lr_at(&s, 700), 1.0 + 2.0 * parts[i].quarter);
        near(tr_lr_at(&s, 800), 1.0 + 2.0 * parts[i].half);
        near(tr_lr_at(&s, 1000), 1.0);
        near(tr_lr_at(&s, 2000), 1.0);
    }
}

/* A line of tests/golden/lr.txt, which Megatron's OptimizerParamScheduler made. */
static void check_line(const char *line)
{
    static const int styles[][2] = {{TR_LR_CONSTANT, 0},
                                    {TR_LR_LINEAR, 0},
                                    {TR_LR_COSINE, 0},
                                    {TR_LR_INVERSE_ROOT, 0},
                                    {TR_LR_WSD, TR_WSD_LINEAR},
                                    {TR_LR_WSD, TR_WSD_COSINE},
                                    {TR_LR_WSD, TR_WSD_EXPONENTIAL},
                                    {TR_LR_WSD, TR_WSD_MINUS_ROOT}};
    struct tr_lr_schedule s = {.wd_style = TR_WD_COSINE, .wd_start = 0.01, .wd_end = 0.1};
    double v[10], lr;
    char *end = NULL;

    for (int i = 0; i < 10; i++, line = end)
        v[i] = strtod(line, &end);
    assert_true(*end == '\n');
    s.decay_style = styles[(int)v[0]][0];
    s.wsd_style = styles[(int)v[0]][1];
    s.warmup_samples = v[1];
    s.decay_samples = s.wd_samples = v[2];
    s.wsd_samples = v[3];
    s.warmup_init = v[4];
    s.lr = v[5];
    s.min_lr = v[6];
    lr = tr_lr_at(&s, v[7]);
    /* Near its end a rate is the small difference of two numbers of the size of the largest. */
    if (!(fabs(lr - v[8]) <= 4.0 * 0x1p-53 * v[5]))
        fail_msg("style %g of %g, %g, %g at %g: %.17g, not %.17g", v[0], v[1], v[2], v[3], v[7], lr,
                 v[8]);
    near(tr_wd_at(&s, v[7]), v[9]);
}

/* Also with a last part of WSD that is longer than what the warm-up leaves, or than the decay. */
static void as_megatron(void **state)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/golden/lr.txt", srcdir ? srcdir : "."), *text;
    int lines = 0;

    (void)state;
    assert_ok(tr_file_text(path, 1 << 20, &text));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        check_line(line);
        lines++;
    }
    assert_int_equal(lines, 1260);
    free(text);
    free(path);
}

/* From 0 to 0.1 in 1000 samples. */
static void weight_decay(void **state)
{
    struct tr_lr_schedule s = {.wd_start = 0.0, .wd_end = 0.1, .wd_samples = 1000};

    (void)state;
    s.wd_style = TR_WD_LINEAR;
    assert_true(tr_wd_at(&s, 0) == 0.0);
    near(tr_wd_at(&s, 500), 0.05);
    near(tr_wd_at(&s, 1000), 0.1);
    near(tr_wd_at(&s, 5000), 0.1);
    s.wd_style = TR_WD_COSINE;
    assert_true(tr_wd_at(&s, 0) == 0.0);
    near(tr_wd_at(&s, 500), 0.05);
    near(tr_wd_at(&s, 750), 0.085355339059327373);
    near(tr_wd_at(&s, 1001), 0.1);
    s = (struct tr_lr_schedule){.wd_start = 0.03, .wd_end = 0.03, .wd_style = TR_WD_CONSTANT};
    near(tr_wd_at(&s, 0), 0.03);
    near(tr_wd_at(&s, 1e9), 0.03);
}

/* Closed forms at the corners. */
static void corners(void **state)
{
    static const int styles[] = {TR_LR_CONSTANT, TR_LR_LINEAR, TR_LR_COSINE};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct tr_lr_schedule s = schedule(styles[i], 8.0, 2.0, 25.6, 125.6);
        double end = styles[i] == TR_LR_CONSTANT ? 8.0 : 2.0;

        near(tr_lr_at(&s, 0), 0.0);
        near(tr_lr_at(&s, 12.8), 4.0);
        near(tr_lr_at(&s, 25.6), 8.0);
        near(tr_lr_at(&s, 75.6), styles[i] == TR_LR_CONSTANT ? 8.0 : 5.0);
        near(tr_lr_at(&s, 125.6), end);
        near(tr_lr_at(&s, 1e12), end);
        /* Without a warm-up the first step has the whole rate. */
        s.warmup_samples = 0.0;
        near(tr_lr_at(&s, 0), 8.0);
        /* A warm-up as long as the decay leaves nothing between them. */
        s.warmup_samples = s.decay_samples;
        near(tr_lr_at(&s, 125.6), 8.0);
        near(tr_lr_at(&s, 126), end);
    }
}

/* Between warm-up and end the rate never rises. */
static void falls(void **state)
{
    (void)state;
    for (int style = TR_LR_LINEAR; style <= TR_LR_COSINE; style++) {
        struct tr_lr_schedule s = schedule(style, 3e-4, 3e-5, 1000, 20000);
        double before = tr_lr_at(&s, 1000);

        near(before, 3e-4);
        for (int n = 1001; n <= 20001; n++) {
            double now = tr_lr_at(&s, n);

            assert_true(now <= before && now >= 3e-5 * (1.0 - 1e-12));
            before = now;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_logs),  cmocka_unit_test(megatron_unit_test),
        cmocka_unit_test(inverse_root), cmocka_unit_test(warmup_stable_decay),
        cmocka_unit_test(weight_decay), cmocka_unit_test(corners),
        cmocka_unit_test(falls),        cmocka_unit_test(as_megatron),
    };

    return run_tap(tests);
}
