/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "plan/calibrate.h"
#include "plan/profiles.h"
#include "plan/published.h"

/*
 * published                     the planner's errors for each set of published times, as a table of
 *                               docs/plan.md
 * published --rows              the error of each row
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

static void print_set(const char *machine, const char *source, bool fitted)
{
    double error[PUBLISHED], sum = 0.0, size = 0.0;
    int n = 0;

    for (int i = 0; i < PUBLISHED; i++)
        if (published[i].fitted == fitted && strcmp(published[i].machine, machine) == 0 &&
            strcmp(published[i].source, source) == 0)
            error[n++] = 100.0 * published[i].error;
    if (n == 0)
        return;
    qsort(error, (size_t)n, sizeof *error, by_number);
    for (int i = 0; i < n; i++) {
        sum += error[i];
        size += fabs(error[i]);
    }
    printf("| %s | %s | %s | %d | %+.1f | %.1f | %+.1f | %+.1f |\n", machine, source,
           fitted ? "fitted" : "not fitted", n, sum / n, size / n, error[0], error[n - 1]);
}

static bool seen(int first, int i)
{
    for (int k = first; k < i; k++)
        if (strcmp(published[k].source, published[i].source) == 0)
            return true;
    return false;
}

static void table(void)
{
    printf("| profile | source | rows | number | mean | mean absolute | least | greatest |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (int first = 0, end; first < PUBLISHED; first = end) {
        end = published_end(first);
        for (int fitted = 1; fitted >= 0; fitted--)
            for (int i = first; i < end; i++)
                if (!seen(first, i))
                    print_set(published[i].machine, published[i].source, fitted);
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

/* Of a source's rows that were not fitted: how many lie in the interval of the others of their profile, how wide that
   is, and the errors of the plan and of SC21's formula. */
static void print_promise(int first, int end, const char *source)
{
    const double share = sc21_share(first, end);
    double wide[PUBLISHED], plan = 0.0, formula = 0.0;
    int n = 0, inside = 0;

    for (int i = first; i < end; i++) {
        double others[PUBLISHED], low, high;

        if (published[i].fitted || strcmp(published[i].source, source) != 0)
            continue;
        tr_calibrate_interval(others, ratios(first, end, i, others), &low, &high);
        inside += -log1p(published[i].error) >= low && -log1p(published[i].error) <= high;
        wide[n++] = 100.0 * (exp(high) - exp(low));
        plan += 100.0 * fabs(published[i].error);
        formula += 100.0 * fabs(expm1(share - published[i].log_sc21));
    }
    if (n == 0)
        return;
    qsort(wide, (size_t)n, sizeof *wide, by_number);
    printf("| %s | %s | %d | %.1f | %d | %.0f | %.1f |\n", published[first].machine, source, n,
           plan / n, inside, wide[n / 2], formula / n);
}

static void promises(void)
{
    printf("\n| profile | source | number | mean absolute | inside | width | SC21's formula |\n"
           "|---|---|---|---|---|---|---|\n");
    for (int first = 0, end; first < PUBLISHED; first = end) {
        end = published_end(first);
        for (int i = first; i < end; i++)
            if (!seen(first, i))
                print_promise(first, end, published[i].source);
    }
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

static bool try_factor(struct fit *f, int i, double factor, double *least)
{
    double *x = value_of(&f->machine, f->key[i]), before = *x, now;

    *x = before * factor;
    if (*x >= keys[f->key[i]].least && *x <= f->most[i]) {
        now = misfit(f);
        if (now < *least * (1.0 - 1e-6)) {
            *least = now;
            return true;
        }
    }
    *x = before;
    return false;
}

/* One constant after the other, in smaller and smaller steps, until none makes it better. */
static double descend(struct fit *f)
{
    static const double steps[] = {10.0, 3.0, 1.5, 1.2, 1.05, 1.02, 1.005};
    double least = misfit(f);

    for (size_t step = 0; step < sizeof steps / sizeof *steps; step++)
        for (bool moved = true; moved;) {
            moved = false;
            for (int i = 0; i < f->n; i++)
                moved |= try_factor(f, i, steps[step], &least) ||
                         try_factor(f, i, 1.0 / steps[step], &least);
        }
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
    else {
        table();
        promises();
    }
    return 0;
}
