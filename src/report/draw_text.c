/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <string.h>

#include "report/draw.h"

enum { ROWS = 20, COLUMNS = 72 };

/* Marks of series, the first on top where they meet. */
static const char marks[] = "*o+x#@%&=~";

/* Series of the lower panel have those of the upper one. */
static char mark_of(const struct tr_plot *p, int series)
{
    int n = 0;

    for (int i = 1; i <= series; i++)
        n += !p->series[i].below && p->series[i].count > 0;
    return marks[n % (int)(sizeof marks - 1)];
}

/* What an axis shows, as logarithms if it is logarithmic. */
struct axis {
    double low, high;
    bool is_log;
};

static double on_axis(const struct axis *a, double x)
{
    return a->is_log ? log10(x) : x;
}

static double off_axis(const struct axis *a, double at)
{
    return a->is_log ? pow(10.0, at) : at;
}

static struct axis axis_of(const struct tr_plot *p, bool is_y, bool below)
{
    struct axis a = {INFINITY, -INFINITY, p->log_log && !(is_y && below)};

    for (int i = 0; i < p->count; i++) {
        const double *x = is_y ? p->series[i].y : p->series[i].x;

        for (int64_t n = 0; n < p->series[i].count && p->series[i].below == below; n++) {
            a.low = fmin(a.low, on_axis(&a, x[n]));
            a.high = fmax(a.high, on_axis(&a, x[n]));
        }
    }
    if (a.low >= a.high) {
        a.low -= 0.5;
        a.high += 0.5;
    }
    return a;
}

/* The cell of a value among n. */
static int cell(const struct axis *a, double x, int n)
{
    double part = (on_axis(a, x) - a->low) / (a->high - a->low);

    return (int)fmin(fmax(rint(part * (n - 1)), 0.0), n - 1);
}

/* Without the blanks at its end. */
static int used(const char *row)
{
    int n = COLUMNS;

    while (n > 0 && row[n - 1] == ' ')
        n--;
    return n;
}

static void draw_points(const struct tr_plot *p, bool below, FILE *f)
{
    struct axis x = axis_of(p, false, below), y = axis_of(p, true, below);
    char grid[ROWS][COLUMNS + 1];

    memset(grid, ' ', sizeof grid);
    for (int r = 0; r < ROWS; r++)
        grid[r][COLUMNS] = '\0';
    for (int i = p->count - 1; i >= 0; i--)
        for (int64_t n = 0; n < p->series[i].count && p->series[i].below == below; n++)
            grid[ROWS - 1 - cell(&y, p->series[i].y[n], ROWS)]
                [cell(&x, p->series[i].x[n], COLUMNS)] = mark_of(p, i);
    for (int r = 0; r < ROWS; r++) {
        if (r % 5 == 0 || r == ROWS - 1)
            fprintf(f, "%11.5g", off_axis(&y, y.high - (y.high - y.low) * r / (ROWS - 1)));
        else
            fprintf(f, "%11s", "");
        fprintf(f, " |%.*s\n", used(grid[r]), grid[r]);
    }
    fprintf(f, "%11s +", "");
    for (int c = 0; c < COLUMNS; c++)
        fputc('-', f);
    fprintf(f, "\n%13s%-36.6g%36.6g\n", "", off_axis(&x, x.low), off_axis(&x, x.high));
}

/* The height of a bar, or what series gives to it. */
static double height(const struct tr_plot *p, int bar, int series)
{
    double sum = 0.0;

    for (int i = 0; i < p->count; i++)
        if ((series < 0 || i == series) && p->series[i].look != TR_LOOK_IDEAL)
            for (int64_t n = 0; n < p->series[i].count; n++)
                if ((int)p->series[i].x[n] == bar && p->series[i].y[n] > 0.0)
                    sum += p->series[i].y[n];
    return sum;
}

static void draw_bars(const struct tr_plot *p, FILE *f)
{
    double most = 0.0;

    for (int b = 0; b < p->bars; b++)
        most = fmax(most, height(p, b, -1));
    for (int b = 0; b < p->bars; b++) {
        double sum = 0.0;
        int drawn = 0;

        fprintf(f, "%s\n%11.5g |", p->bar[b], height(p, b, -1));
        for (int i = 0; i < p->count; i++) {
            sum += height(p, b, i);
            for (; drawn < (int)rint(sum / most * COLUMNS); drawn++)
                fputc(mark_of(p, i), f);
        }
        fputc('\n', f);
    }
}

static void draw_lines(const struct tr_plot *p, FILE *f)
{
    draw_points(p, false, f);
    if (!p->below_label)
        return;
    fprintf(f, "\n%s against %s\n\n", p->below_label, p->x_label);
    draw_points(p, true, f);
}

void tr_draw_text(const struct tr_plot *p, FILE *f)
{
    int64_t points = 0;

    for (int i = 0; i < p->count; i++)
        points += p->series[i].count;
    fprintf(f, "%s\n%s against %s\n\n", p->title, p->y_label, p->x_label);
    if (points == 0)
        fputs("(there is nothing to plot)\n", f);
    else if (p->stacked)
        draw_bars(p, f);
    else
        draw_lines(p, f);
    fputc('\n', f);
    for (int i = 0; i < p->count; i++)
        if (p->series[i].count > 0 && !p->series[i].below &&
            !(p->stacked && p->series[i].look == TR_LOOK_IDEAL))
            fprintf(f, "  %c %s\n", mark_of(p, i), p->series[i].name);
    if (p->note)
        fprintf(f, "\n%s\n", p->note);
}
