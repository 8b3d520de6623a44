/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/calibrate.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_parts.h"

enum way { SPEED, TIME, COUNT };

/* Constants with a spread come first. */
static const struct {
    size_t offset;
    enum way way;
    double spread, from;
} constants[] = {
#define CONSTANT(field, way, spread, from) {offsetof(struct tr_machine, field), way, spread, from},
#include "plan/calibrate.def"
};

static const struct {
    size_t offset;
    const char *key;
    double least, most;
} numbers[] = {
#define NUMBER(field, key, initial, least, most, help) \
    {offsetof(struct tr_machine, field), key, least, most},
#include "config/machine.def"
};

enum { MOST = TR_CALIBRATE_CONSTANTS, FOLDS = 10, FEWEST = 3, STEPS = 40 };
static const double ERROR = 0.05, PART_ERROR = 0.1, DETERMINED = 0.5, HUBER = 2.0;

static double *field_of(struct tr_machine *m, int constant)
{
    return (double *)(void *)((char *)m + constants[constant].offset);
}

static int number_of(int constant)
{
    int i = 0;

    while (numbers[i].offset != constants[constant].offset)
        i++;
    return i;
}

static double within(int constant, double x)
{
    const int n = number_of(constant);

    return fmin(fmax(x, numbers[n].least), numbers[n].most);
}

/* ---- helpers ---- */

static double *room(int n)
{
    double *x = calloc(n > 0 ? (size_t)n : 1, sizeof *x);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the runs of a calibration");
    return x;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* ---- runs ---- */

enum tr_status tr_measured_open(const struct tr_config *c, const struct tr_machine *m,
                                const char *name, double seconds, struct tr_measured *out)
{
    struct tr_plan p = {.stage = NULL};
    const enum tr_status s = tr_plan_itself(c, m, &p);

    *out = (struct tr_measured){.name = name,
                                .config = p.config,
                                .shape = p.shape,
                                .params = p.most_params,
                                .seconds = seconds,
                                .compute = NAN,
                                .optimizer = NAN,
                                .was = p.time.total,
                                .now = NAN,
                                .held = NAN};
    tr_plan_release(&p);
    return s;
}

static struct tr_plan_time time_of(const struct tr_measured *r, const struct tr_machine *m)
{
    return tr_plan_time_of(&r->config, &r->shape, m, r->params, true);
}

/* Runs are of one shape if all parts of their plans are the same. */
static bool same_plan(const struct tr_plan_time *a, const struct tr_plan_time *b)
{
#define PART(field, name, what)                     \
    if (a->field < b->field || a->field > b->field) \
        return false;
    TR_PLAN_TIMES_OF(PART)
#undef PART
    return true;
}

static int group(const struct tr_machine *m, struct tr_measured *run, int runs)
{
    struct tr_plan_time *first = calloc((size_t)runs, sizeof *first);
    int groups = 0;

    if (!first)
        tr_die(TR_ERESOURCE, "no memory left for the runs of a calibration");
    for (int i = 0; i < runs; i++) {
        const struct tr_plan_time t = time_of(&run[i], m);
        int g = 0;

        while (g < groups && !same_plan(&t, &first[g]))
            g++;
        if (g == groups)
            first[groups++] = t;
        run[i].group = g;
        run[i].was = t.total;
    }
    free(first);
    return groups;
}

/* ---- one fit ---- */

/* Residuals and what they depend on: constants `which`, moved by theta from the profile. */
struct fit {
    const struct tr_machine *from;
    const struct tr_measured *run;
    int runs, groups;
    int fold, folds; /* the groups of a fold are left out; -1: none */
    double
        scatter; /* of residuals, 1 or more: by so much plans are more off than is thought at first */
    int n, which[MOST];
    double theta[MOST];
    double *residual, *moved; /* [3 * runs], owned: of theta, and of another one */
    double *near;             /* [3 * runs], owned: in closed form */
    double *slope;            /* [n][3 * runs], owned: of residuals by theta */
    double normal[MOST][MOST], gradient[MOST];
};

static bool used(const struct fit *f, int run)
{
    return f->fold < 0 || f->run[run].group % f->folds != f->fold;
}

static struct tr_machine machine_of(const struct fit *f)
{
    struct tr_machine m = *f->from;

    for (int k = 0; k < f->n; k++) {
        const int c = f->which[k];
        double *x = field_of(&m, c);

        *x = within(c, (*x + constants[c].from) * exp(f->theta[k]) - constants[c].from);
    }
    return m;
}

static double residual(const struct fit *f, double planned, double measured, double error)
{
    return planned > 0.0 && measured > 0.0 ? log(planned / measured) / error / f->scatter : 0.0;
}

static void residuals(const struct fit *f, bool exact, double *out)
{
    const struct tr_machine m = machine_of(f);

    for (int i = 0; i < f->runs; i++) {
        const struct tr_measured *r = &f->run[i];
        struct tr_plan_time t;

        memset(&out[3 * (size_t)i], 0, 3 * sizeof *out);
        if (!used(f, i))
            continue;
        t = tr_plan_time_of(&r->config, &r->shape, &m, r->params, exact);
        out[3 * i] = residual(f, t.total, r->seconds, ERROR);
        out[3 * i + 1] = residual(f, t.compute + t.tensor, r->compute, PART_ERROR);
        out[3 * i + 2] = residual(f, t.optimizer, r->optimizer, PART_ERROR);
    }
}

static double cost_of(const struct fit *f, const double *r)
{
    double sum = 0.0;

    for (int i = 0; i < 3 * f->runs; i++)
        sum += fabs(r[i]) < HUBER ? r[i] * r[i] : HUBER * (2.0 * fabs(r[i]) - HUBER);
    for (int k = 0; k < f->n; k++)
        sum += pow(f->theta[k] / constants[f->which[k]].spread, 2.0);
    return sum;
}

/* The normal equations at theta, whose residuals are there; one beyond HUBER weighs less.  Slopes are those of the
   closed form of the schedule, which takes a fraction of the time. */
static void linearize(struct fit *f)
{
    static const double small = 1e-4;
    const int rows = 3 * f->runs;

    residuals(f, false, f->near);
    for (int k = 0; k < f->n; k++) {
        f->theta[k] += small;
        residuals(f, false, f->moved);
        f->theta[k] -= small;
        for (int i = 0; i < rows; i++)
            f->slope[k * rows + i] = (f->moved[i] - f->near[i]) / small;
    }
    for (int k = 0; k < f->n; k++) {
        const double spread = constants[f->which[k]].spread;

        f->gradient[k] = f->theta[k] / spread / spread;
        for (int l = 0; l < f->n; l++)
            f->normal[k][l] = k == l ? 1.0 / spread / spread : 0.0;
        for (int i = 0; i < rows; i++) {
            const double size = fabs(f->residual[i]), weight = size < HUBER ? 1.0 : HUBER / size;

            f->gradient[k] += weight * f->slope[k * rows + i] * f->residual[i];
            for (int l = 0; l < f->n; l++)
                f->normal[k][l] += weight * f->slope[k * rows + i] * f->slope[l * rows + i];
        }
    }
}

/* x of (normal + damping * its diagonal) x = y, by Cholesky; the spreads make it positive. */
static void solve(const struct fit *f, double damping, const double *y, double *x)
{
    double l[MOST][MOST];

    for (int i = 0; i < f->n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = f->normal[i][j] * (i == j ? 1.0 + damping : 1.0);

            for (int k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            l[i][j] = i == j ? sqrt(fmax(sum, DBL_MIN)) : sum / l[j][j];
        }
    }
    for (int i = 0; i < f->n; i++) {
        x[i] = y[i];
        for (int k = 0; k < i; k++)
            x[i] -= l[i][k] * x[k];
        x[i] /= l[i][i];
    }
    for (int i = f->n - 1; i >= 0; i--) {
        for (int k = i + 1; k < f->n; k++)
            x[i] -= l[k][i] * x[k];
        x[i] /= l[i][i];
    }
}

/* Is theta, less that step, better?  Then go there. */
static bool go(struct fit *f, const double *step, double *least)
{
    double before[MOST], now;

    memcpy(before, f->theta, sizeof before);
    for (int k = 0; k < f->n; k++)
        f->theta[k] -= step[k];
    residuals(f, true, f->moved);
    now = cost_of(f, f->moved);
    if (now < *least) {
        double *other = f->residual;

        f->residual = f->moved;
        f->moved = other;
        *least = now;
        return true;
    }
    memcpy(f->theta, before, sizeof before);
    return false;
}

static void minimize(struct fit *f)
{
    double least, damping = 1e-3;

    residuals(f, true, f->residual);
    least = cost_of(f, f->residual);
    for (int i = 0; i < STEPS; i++) {
        double step[MOST], before = least;
        bool better = false;

        linearize(f);
        for (; !better && damping < 1e6; damping *= better ? 0.01 : 10.0) {
            solve(f, damping, f->gradient, step);
            better = go(f, step, &least);
        }
        if (!better || before - least < 1e-5 * before)
            break;
    }
    linearize(f);
}

/* The standard deviation of the k-th of them, by the normal equations at the minimum. */
static double deviation(const struct fit *f, int k)
{
    double unit[MOST] = {0.0}, column[MOST];

    unit[k] = 1.0;
    solve(f, 0.0, unit, column);
    return sqrt(fmax(column[k], 0.0));
}

/* Of the constants that are fitted the one of which the runs say least, or -1 if they determine all. */
static int loosest(const struct fit *f)
{
    double most = DETERMINED;
    int found = -1;

    for (int k = 0; k < f->n; k++) {
        const double share = deviation(f, k) / constants[f->which[k]].spread;

        if (share > most) {
            most = share;
            found = k;
        }
    }
    return found;
}

/* By how much residuals are larger than they should be, by the middle one of them: 0.6745 of a normal distribution;
   1 if they are smaller. */
static double scatter_of(const struct fit *f)
{
    double *size = room(3 * f->runs), x = 1.0;
    int n = 0;

    for (int i = 0; i < 3 * f->runs; i++)
        if (fabs(f->residual[i]) > 0.0)
            size[n++] = fabs(f->residual[i]);
    qsort(size, (size_t)n, sizeof *size, ascending);
    if (n > f->n)
        x = size[n / 2] / 0.6745 * sqrt((double)n / (n - f->n));
    free(size);
    return fmax(x, 1.0);
}

/* Those that the runs determine, and how well: deviation[c] of each that was tried. */
static void choose(struct fit *f, double deviations[MOST])
{
    f->n = 0;
    memset(f->theta, 0, sizeof f->theta);
    for (int c = 0; c < MOST; c++)
        if (constants[c].spread > 0.0)
            f->which[f->n++] = c;
    for (int k = 0;; f->n--) {
        minimize(f);
        for (int i = 0; i < f->n; i++)
            deviations[f->which[i]] = deviation(f, i);
        k = loosest(f);
        if (k < 0)
            return;
        memmove(&f->which[k], &f->which[k + 1], (size_t)(f->n - 1 - k) * sizeof f->which[0]);
        memmove(&f->theta[k], &f->theta[k + 1], (size_t)(f->n - 1 - k) * sizeof f->theta[0]);
    }
}

/* ---- means over shapes ---- */

/* A number of a run; NAN where it does not count. */
typedef double number_fn(const struct fit *f, int run);

/* The mean over the runs of each group, into mean[f->groups]; how many groups have one. */
static int by_group(const struct fit *f, number_fn *of, double *mean)
{
    int groups = 0;

    for (int g = 0; g < f->groups; g++) {
        double sum = 0.0;
        int n = 0;

        for (int i = 0; i < f->runs; i++) {
            const double x = f->run[i].group == g ? of(f, i) : NAN;

            sum += isnan(x) ? 0.0 : x;
            n += !isnan(x);
        }
        if (n > 0)
            mean[groups++] = sum / n;
    }
    return groups;
}

/* NAN if no run counts. */
static double mean_of(const struct fit *f, number_fn *of)
{
    double *mean = room(f->groups), sum = 0.0;
    const int n = by_group(f, of, mean);

    for (int g = 0; g < n; g++)
        sum += mean[g];
    free(mean);
    return sum / n;
}

static double log_ratio(const struct fit *f, int i)
{
    return used(f, i) ? log(f->run[i].seconds / f->run[i].was) : NAN;
}

static double error_was(const struct fit *f, int i)
{
    return fabs(f->run[i].was / f->run[i].seconds - 1.0);
}

static double error_now(const struct fit *f, int i)
{
    return fabs(f->run[i].now / f->run[i].seconds - 1.0);
}

static double error_held(const struct fit *f, int i)
{
    return fabs(f->run[i].held / f->run[i].seconds - 1.0);
}

static double log_held(const struct fit *f, int i)
{
    return log(f->run[i].seconds / f->run[i].held);
}

/* ---- all of it ---- */

/* No run says more than four digits. */
static struct tr_machine rounded(struct tr_machine m, const struct tr_machine *from)
{
    struct tr_machine was = *from;

    for (int c = 0; c < MOST; c++) {
        double *x = field_of(&m, c);
        char digits[32];

        snprintf(digits, sizeof digits, "%.4g", *x);
        if (*x < *field_of(&was, c) || *x > *field_of(&was, c))
            *x = within(c, strtod(digits, NULL));
    }
    return m;
}

/* All times by one factor, unless more than the peak would be reached. */
static struct tr_machine scaled(const struct fit *f, double *factor)
{
    struct tr_machine m = *f->from;

    *factor = fmax(exp(mean_of(f, log_ratio)), m.gemm / within(TR_CALIBRATE_gemm, HUGE_VAL));
    for (int c = 0; c < MOST; c++) {
        double *x = field_of(&m, c);

        *x = within(c, constants[c].way == SPEED  ? *x / *factor
                       : constants[c].way == TIME ? *x * *factor
                                                  : *x);
    }
    return m;
}

static int shapes_used(const struct fit *f)
{
    double *mean = room(f->groups);
    const int n = by_group(f, log_ratio, mean);

    free(mean);
    return n;
}

/* The profile by the runs that are used; *factor is 0 where constants were fitted. */
static struct tr_machine procedure(struct fit *f, double deviations[MOST], double *factor)
{
    *factor = 0.0;
    f->scatter = 1.0;
    f->n = 0;
    if (shapes_used(f) >= FEWEST) {
        choose(f, deviations);
        f->scatter = scatter_of(f);
    }
    if (f->scatter > 1.0)
        choose(f, deviations);
    return f->n > 0 ? machine_of(f) : scaled(f, factor);
}

static void hold_out(struct fit *f, struct tr_measured *run)
{
    double deviations[MOST], factor;

    f->folds = f->groups < FOLDS ? f->groups : FOLDS;
    for (f->fold = 0; f->fold < f->folds; f->fold++) {
        const struct tr_machine m = procedure(f, deviations, &factor);

        for (int i = 0; i < f->runs; i++)
            if (!used(f, i))
                run[i].held = time_of(&run[i], &m).total;
    }
    f->fold = -1;
}

/* Of logarithms of measured over planned times. */
static void promise(const struct fit *f, struct tr_machine *m)
{
    double *held = room(f->groups), low, high;
    const int n = by_group(f, log_held, held);

    tr_calibrate_interval(held, n, &low, &high);
    m->time_low = fmin(exp(low), 100.0);
    m->time_high = fmin(exp(high), 100.0);
    free(held);
}

static void list_constants(const struct fit *f, const double deviations[MOST],
                           struct tr_calibration *out)
{
    struct tr_machine was = *f->from;

    out->constants = 0;
    for (int c = 0; c < MOST && constants[c].spread > 0.0; c++) {
        struct tr_calibrated *x = &out->constant[out->constants++];

        *x = (struct tr_calibrated){.key = numbers[number_of(c)].key,
                                    .was = *field_of(&was, c),
                                    .now = *field_of(&out->machine, c),
                                    .error = deviations[c]};
        for (int k = 0; k < f->n; k++)
            x->fitted = x->fitted || f->which[k] == c;
    }
}

static enum tr_status check(const struct tr_machine *m, int runs, int shapes)
{
    if (runs == 0)
        return TR_FAIL(TR_EDATA, "there is no run to fit the profile of %s to", m->name);
    if (runs > 1 && shapes == 1)
        return TR_FAIL(
            TR_EDATA,
            "all %d runs have one shape, so they say no more than one of them, and nothing "
            "of what other shapes would take: give runs of several layouts or sizes, or "
            "one of these, by which all times are scaled",
            runs);
    return TR_OK;
}

static struct fit opened(const struct tr_machine *m, const struct tr_measured *run, int runs,
                         int groups)
{
    const int rows = 3 * runs;

    return (struct fit){.from = m,
                        .run = run,
                        .runs = runs,
                        .groups = groups,
                        .fold = -1,
                        .folds = 1,
                        .residual = room(rows),
                        .moved = room(rows),
                        .near = room(rows),
                        .slope = room(MOST * rows)};
}

enum tr_status tr_calibrate(const struct tr_machine *m, struct tr_measured *run, int runs,
                            struct tr_calibration *out)
{
    const int groups = runs > 0 ? group(m, run, runs) : 0;
    double deviations[MOST] = {0.0};
    struct fit f;

    TR_TRY(check(m, runs, groups));
    f = opened(m, run, runs, groups);
    *out = (struct tr_calibration){.runs = runs, .shapes = groups, .error_held = NAN};
    out->machine = rounded(procedure(&f, deviations, &out->factor), m);
    out->scaled = out->factor > 0.0;
    out->factor = out->scaled ? out->factor : 1.0;
    list_constants(&f, deviations, out);
    for (int i = 0; i < runs; i++)
        run[i].now = time_of(&run[i], &out->machine).total;
    out->machine.time_low = out->machine.time_high = 0.0;
    if (groups >= FEWEST) {
        hold_out(&f, run);
        promise(&f, &out->machine);
        out->error_held = mean_of(&f, error_held);
    }
    out->error_was = mean_of(&f, error_was);
    out->error_now = mean_of(&f, error_now);
    free(f.residual);
    free(f.moved);
    free(f.near);
    free(f.slope);
    return TR_OK;
}

/* ---- intervals ---- */

/* The 90th percentile of Student's distribution of 1 to 7 degrees of freedom (Fisher and Yates, table III). */
static const double student[] = {3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415};

void tr_calibrate_interval(double *x, int n, double *low, double *high)
{
    const int k = (n + 1) / 10;
    double mean = 0.0, square = 0.0, wide;

    qsort(x, (size_t)n, sizeof *x, ascending);
    *low = x[k > 0 ? k - 1 : 0];
    *high = x[k > 0 ? n - k : n - 1];
    if (k > 0)
        return;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    wide = student[n - 2] * sqrt(square / (n - 1) * (1.0 + 1.0 / n));
    *low = fmin(*low, mean - wide);
    *high = fmax(*high, mean + wide);
}
