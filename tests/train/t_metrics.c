/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Against scikit-learn 1.9 (tests/golden/metrics.txt), degenerate cases too. */
static void as_scikit_learn(void **state)
{
    const char *srcdir = getenv("srcdir");
    static char truth[512], guess[512];
    int classes, lines = 0;
    double want[TR_METRICS];
    char path[4096];
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/metrics.txt", srcdir ? srcdir : ".");
    f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%d %511s %511s %lf %lf %lf %lf %lf", &classes, truth, guess, &want[0],
                  &want[1], &want[2], &want[3], &want[4]) == 8) {
        struct tr_scores s;

        tr_scores_open(&s, classes);
        assert_int_equal(strlen(truth), strlen(guess));
        for (size_t i = 0; truth[i]; i++)
            tr_scores_add(&s, truth[i] - '0', guess[i] - '0');
        for (int k = 0; k < TR_METRICS; k++) {
            const double got = tr_metric_of(&s, (enum tr_metric)k);

            if (fabs(got - want[k]) > 1e-12)
                fail_msg("line %d: %s is %.17g, and should be %.17g", lines + 1,
                         tr_metric_name((enum tr_metric)k), got, want[k]);
        }
        tr_scores_close(&s);
        lines++;
    }
    fclose(f);
    assert_int_equal(lines, 33);
}

static void in_one_line(void **state)
{
    struct tr_scores s;
    char text[256];

    (void)state;
    tr_scores_open(&s, 2);
    for (int i = 0; i < 4; i++)
        tr_scores_add(&s, i % 2, i > 0);
    tr_metrics_line(text, sizeof text, &s, 1U << TR_METRIC_ACCURACY | 1U << TR_METRIC_F1);
    assert_string_equal(text, "{\"accuracy\": {\"accuracy\": 0.75}, \"f1\": {\"f1\": 0.8}}");
    tr_scores_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_scikit_learn),
        cmocka_unit_test(in_one_line),
    };

    return run_tap(tests);
}
