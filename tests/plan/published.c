/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "plan/calibrate.h"
#include "plan/profiles.h"
#include "plan/published.h"

/*
 * published                     the planner's errors for each set of published times, as a table of
 *                               docs/plan.md
 * published --rows              the error of each row
 * published --options           name, profile, seconds and options of each row, for other planners
 * published --fit A[,B] KEY[=MOST]...
 *                               those constants, as the rows of the profiles A, B that are for fitting
 *                               have them
 */

/* ---- the table ---- */

static int by_number(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void print_set(const char *machine, const char *set, bool fitted)
{
    double error[PUBLISHED], sum = 0.0, size = 0.0;
    int n = 0;

    for (int i = 0; i < PUBLISHED; i++)
        if (published[i].fitted == fitted && strcmp(published[i].machine, machine) == 0 &&
            strcmp(published[i].set, set) == 0)
            error[n++] = 100.0 * published[i].error;
    if (n == 0)
        return;
    qsort(error, (size_t)n, sizeof *error, by_number);
    for (int i = 0; i < n; i++) {
        sum += error[i];
        size += fabs(error[i]);
    }
    printf("| %s | %s | %s | %d | %+.1f | %.1f | %+.1f | %+.1f |\n", machine, set,
           fitted ? "fitted" : "not fitted", n, sum / n, size / n, error[0], error[n - 1]);
}

static bool seen(int first, int i)
{
    for (int k = first; k < i; k++)
        if (strcmp(published[k].set, published[i].set) == 0)
            return true;
    return false;
}

static void table(void)
{
    printf("| profile | set | rows | number | mean | mean absolute | least | greatest |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (int first = 0, end; first < PUBLISHED; first = end) {
        end = published_end(first);
        for (int fitted = 1; fitted >= 0; fitted--)
            for (int i = first; i < end; i++)
                if (!seen(first, i))
                    print_set(published[i].machine, published[i].set, fitted);
    }
    printf("\n| profile | a measured time over the planned one, of rows that were not fitted |\n"
           "|---|---|\n");
    for (int first = 0, end; first < PUBLISHED; first = end) {
        double low, high;

        end = published_end(first);
        published_range(first, end, &low, &high);
        printf("| %s | %.2f to %.2f |\n", published[first].machine, low, high);
    }
}

/* The logarithms of published over planned times of the rows [first, end) that were not fitted, but for row `but`. */
static int ratios(int first, int end, int but, double *out)
{
    int n = 0;

    for (int i = first; i < end; i++)
        if (!published[i].fitted && i != but)
            out[n++] = -log1p(published[i].error);
    return n;
}

/* The rate of SC21's formula that the rows which are for fitting have, as a share of the peak: their middle one. */
static double sc21_share(int first, int end)
{
    double x[PUBLISHED];
    int n = 0;

    for (int i = first; i < end; i++)
        if (published[i].fitted)
            x[n++] = published[i].log_sc21;
    qsort(x, (size_t)n, sizeof *x, by_number);
    return x[n / 2];
}

/* Sums of the errors of planners, in percent, and how many rows they are of. */
struct promise {
    int n, inside, calculons; /* rows; of them in the interval; of them with a time of Calculon's */
    double wide[PUBLISHED];   /* of each interval */
    double plan, formula;
    double calculon, beside; /* Calculon's, and the plan's where Calculon has a time */
};

static void add_row(struct promise *p, const struct published *r, double share)
{
    p->n++;
    p->plan += 100.0 * fabs(r->error);
    p->formula += 100.0 * fabs(expm1(share - r->log_sc21));
    if (isnan(r->calculon))
        return;
    p->calculons++;
    p->calculon += 100.0 * fabs(r->calculon);
    p->beside += 100.0 * fabs(r->error);
}

static void add_interval(struct promise *p, int first, int end, int i)
{
    const double ratio = -log1p(published[i].error);
    double others[PUBLISHED], low, high;

    tr_calibrate_interval(others, ratios(first, end, i, others), &low, &high);
    p->inside += ratio >= low && ratio <= high;
    p->wide[p->n] = 100.0 * (exp(high) - exp(low));
}

/* A planner's error on the rows that both have, or nothing. */
static void print_beside(const struct promise *p)
{
    if (p->calculons == 0)
        printf(" 0 | | |\n");
    else
        printf(" %d | %.1f | %.1f |\n", p->calculons, p->beside / p->calculons,
               p->calculon / p->calculons);
}

static void print_promise(const char *machine, const char *set, struct promise *p)
{
    qsort(p->wide, (size_t)p->n, sizeof *p->wide, by_number);
    printf("| %s | %s | %d | %.1f | %d | %.0f | %.1f |", machine, set, p->n, p->plan / p->n,
           p->inside, p->wide[p->n / 2], p->formula / p->n);
    print_beside(p);
}

/* Of a set's rows that were not fitted: how many lie in the interval of the others of their profile, how wide that
   is, and the errors of the plan and of others; all of them are added to `sum`, too. */
static void promise_of(int first, int end, const char *set, struct promise *sum)
{
    const double share = sc21_share(first, end);
    struct promise p = {.n = 0};

    for (int i = first; i < end; i++) {
        if (published[i].fitted || strcmp(published[i].set, set) != 0)
            continue;
        add_interval(&p, first, end, i);
        add_interval(sum, first, end, i);
        add_row(&p, &published[i], share);
        add_row(sum, &published[i], share);
    }
    if (p.n > 0)
        print_promise(published[first].machine, set, &p);
}

static void promises(void)
{
    struct promise sum = {.n = 0};

    printf("\n| profile | set | number | plan | inside | width | SC21's formula | also Calculon's "
           "| plan | Calculon |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n");
    for (int first = 0, end; first < PUBLISHED; first = end) {
        end = published_end(first);
        for (int i = first; i < end; i++)
            if (!seen(first, i))
                promise_of(first, end, published[i].set, &sum);
    }
    print_promise("all", "", &sum);
}

/* Planners whose authors have published one mean of a whole set: all of its rows, the fitted ones, too. */
static void means(void)
{
    printf("\n| profile | set, all rows | number | plan | SC21's formula | Calculon | vTrain |\n"
           "|---|---|---|---|---|---|---|\n");
    for (int m = 0; m < PUBLISHED_MEANS; m++) {
        struct promise p = {.n = 0};
        const char *machine = "";

        for (int first = 0, end; first < PUBLISHED; first = end) {
            end = published_end(first);
            for (int i = first; i < end; i++)
                if (strcmp(published[i].set, published_means[m].set) == 0) {
                    add_row(&p, &published[i], sc21_share(first, end));
                    machine = published[i].machine;
                }
        }
        printf("| %s | %s | %d | %.1f | %.1f | %.1f | %.1f |\n", machine, published_means[m].set,
               p.n, p.plan / p.n, p.formula / p.n, p.calculon / p.calculons,
               published_means[m].percent);
    }
}

static void print_options(void)
{
    for (int i = 0; i < PUBLISHED; i++)
        printf("%s\t%s\t%.6g\t%s\n", published[i].name, published[i].machine, published[i].seconds,
               published[i].options);
}

static void print_rows(void)
{
    for (int i = 0; i < PUBLISHED; i++)
        printf("%-18s %-10s %+7.1f %%  %s\n", published[i].machine,
               published[i].fitted ? "fitted" : "not fitted", 100.0 * published[i].error,
               published[i].name);
}

/* ---- the fit ---- */

static const struct {
    const char *key;
    size_t offset;
    double least, most;
} keys[] = {
#define NUMBER(field, key, initial, least, most, help) \
    {key, offsetof(struct tr_machine, field), least, most},
#include "config/machine.def"
};

static double *value_of(struct tr_machine *m, int key)
{
    return (double *)((char *)m + keys[key].offset);
}

struct fit {
    int n, key[16]; /* constants that are fitted, of keys[] */
    double most[16];
    int rows;
    const struct published *row[PUBLISHED];
    struct published_run run[PUBLISHED];
    struct tr_machine machine;
};

/* The mean of |log(planned / published)|: a slow day weighs no more than it is long. */
static double misfit(const struct fit *f)
{
    double sum = 0.0;

    for (int i = 0; i < f->rows; i++)
        sum += fabs(log1p(published_error(f->row[i], &f->run[i], &f->machine)));
    return sum / f->rows;
}

static bool may_be(const struct fit *f, int i, double x)
{
    return x >= keys[f->key[i]].least && x <= f->most[i];
}

/* Constant `i` times a factor, and constant `k`, unless it is the same, times another. */
static bool try_factors(struct fit *f, int i, double by, int k, double by_k, double *least)
{
    double *x = value_of(&f->machine, f->key[i]), *y = value_of(&f->machine, f->key[k]);
    const double x0 = *x, y0 = *y;
    double now;

    *x *= by;
    if (i != k)
        *y *= by_k;
    if (may_be(f, i, *x) && may_be(f, k, *y)) {
        now = misfit(f);
        if (now < *least * (1.0 - 1e-6)) {
            *least = now;
            return true;
        }
    }
    *x = x0;
    *y = y0;
    return false;
}

static bool move(struct fit *f, double step, double *least)
{
    bool moved = false;

    for (int i = 0; i < f->n; i++)
        moved |=
            try_factors(f, i, step, i, 1.0, least) || try_factors(f, i, 1.0 / step, i, 1.0, least);
    for (int i = 0; i < f->n && !moved; i++)
        for (int k = 0; k < i; k++)
            moved |= try_factors(f, i, step, k, step, least) ||
                     try_factors(f, i, step, k, 1.0 / step, least) ||
                     try_factors(f, i, 1.0 / step, k, step, least) ||
                     try_factors(f, i, 1.0 / step, k, 1.0 / step, least);
    return moved;
}

/* One constant after the other, and two at once where one stands for the other, in smaller and smaller steps, until
   none makes it better. */
static double descend(struct fit *f)
{
    static const double steps[] = {10.0, 3.0, 1.5, 1.2, 1.05, 1.02, 1.005};
    double least = misfit(f);

    for (size_t step = 0; step < sizeof steps / sizeof *steps; step++)
        while (move(f, steps[step], &least))
            continue;
    return least;
}

/* KEY, or KEY=MOST where the data sheet ends. */
static void add_key(struct fit *f, const char *word)
{
    const size_t n = strcspn(word, "=");

    for (int i = 0; i < (int)(sizeof keys / sizeof *keys); i++)
        if (strlen(keys[i].key) == n && strncmp(keys[i].key, word, n) == 0) {
            f->key[f->n] = i;
            f->most[f->n++] = word[n] == '=' ? strtod(word + n + 1, NULL) : keys[i].most;
            return;
        }
    fprintf(stderr, "a profile has no number '%s'\n", word);
    exit(1);
}

static bool named(const char *list, const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

static int fit(const char *machines, char **words, int count)
{
    static struct fit f;
    double least;

    for (int i = 0; i < count && i < 16; i++)
        add_key(&f, words[i]);
    for (int i = 0; i < PUBLISHED; i++)
        if (published[i].fitted && named(machines, published[i].machine)) {
            f.row[f.rows] = &published[i];
            published_open(&published[i], &f.run[f.rows++]);
        }
    if (f.rows == 0) {
        fprintf(stderr, "no published time is of %s\n", machines);
        return 1;
    }
    published_must(tr_machine_find(f.row[0]->machine, &f.machine), machines);
    least = descend(&f);
    for (int i = 0; i < f.n; i++) {
        const double x = *value_of(&f.machine, f.key[i]);

        /* Less than a microsecond is nothing. */
        printf("%s = %.3g\n", keys[f.key[i]].key, keys[f.key[i]].least <= 0.0 && x < 1.0 ? 0.0 : x);
    }
    printf("# on %d rows, which are off by %.1f %%\n", f.rows, 100.0 * expm1(least));
    return 0;
}

int main(int argc, char **argv)
{
    profiles();
    published_split();
    if (argc > 3 && strcmp(argv[1], "--fit") == 0)
        return fit(argv[2], argv + 3, argc - 3);
    published_all();
    if (argc > 1 && strcmp(argv[1], "--rows") == 0)
        print_rows();
    else if (argc > 1 && strcmp(argv[1], "--options") == 0)
        print_options();
    else {
        table();
        promises();
        means();
    }
    return 0;
}
