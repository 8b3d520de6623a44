/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report/table_parts.h"
#include "util/file.h"
#include "util/text.h"

/* ---- texts ---- */

/* What stands for a character that LaTeX would obey, or that its first fonts lack; NULL for others.  A bracket or star at
   the beginning of a row would belong to the \\ before it, and two hyphens would become a dash. */
static const char *replacement(const char *c)
{
    static const char *const of[UCHAR_MAX + 1] = {
        ['_'] = "\\_",
        ['%'] = "\\%",
        ['&'] = "\\&",
        ['#'] = "\\#",
        ['$'] = "\\$",
        ['{'] = "\\{",
        ['}'] = "\\}",
        ['~'] = "\\textasciitilde{}",
        ['^'] = "\\textasciicircum{}",
        ['\\'] = "\\textbackslash{}",
        ['<'] = "\\textless{}",
        ['>'] = "\\textgreater{}",
        ['|'] = "\\textbar{}",
        ['"'] = "{''}",
        ['['] = "{[}",
        [']'] = "{]}",
        ['*'] = "{*}",
    };

    if (c[0] == '-' && c[1] == '-')
        return "-{}";
    return of[(unsigned char)c[0]];
}

static void put_text(const char *s, FILE *f)
{
    char *text = tr_printable(tr_format("%s", s));

    for (const char *c = text; *c; c++) {
        if (replacement(c))
            fputs(replacement(c), f);
        else
            fputc(*c, f);
    }
    free(text);
}

static void put_comment(const char *s, FILE *f)
{
    char *text = tr_printable(tr_format("%s", s));

    fprintf(f, "%% %s\n", text);
    free(text);
}

/* ---- numbers, in two columns that meet at the point ---- */

/* What a number begins with: a sign, digits, a point; then an exponent, and letters of a unit. */
struct number {
    int sign, mantissa; /* bytes */
    long power;
    const char *unit;
};

static bool is_number(const char *s, struct number *n)
{
    const char *at = s + (s[0] == '-' || s[0] == '+');
    char *end;

    *n = (struct number){.sign = (int)(at - s), .mantissa = (int)strspn(at, "0123456789.")};
    at += n->mantissa;
    n->unit = at;
    if ((*at == 'E' || *at == 'e') && isdigit((unsigned char)at[1 + strspn(at + 1, "+-")])) {
        n->power = strtol(at + 1, &end, 10);
        n->unit = end;
    }
    for (at = n->unit; isalpha((unsigned char)*at); at++)
        ;
    return isdigit((unsigned char)s[n->sign]) && *at == '\0';
}

/* Has some number of the column a point?  Then it is two columns. */
static bool has_point(const struct tr_table_grid *g, int64_t column)
{
    if (g->left[column])
        return false;
    for (int64_t r = 1; r < g->rows; r++) {
        const char *s = g->text[r * g->columns + column];
        struct number n;

        if (is_number(s, &n) && memchr(s, '.', (size_t)(n.sign + n.mantissa)))
            return true;
    }
    return false;
}

/* "-1.5E-03" as $-$1.5$\cdot10^{-3}$, "1e-6" as $10^{-6}$, and a thin space before a unit. */
static void put_number(const char *s, const struct number *n, bool two, FILE *f)
{
    const char *digits = s + n->sign;
    const int whole = (int)strcspn(digits, "."),
              before = two && whole < n->mantissa ? whole : n->mantissa;
    const bool bare = n->power != 0 && n->mantissa == 1 && digits[0] == '1';

    fputs(n->sign && s[0] == '-' ? "$-$" : "", f);
    if (!bare)
        fprintf(f, "%.*s", before, digits);
    fputs(two ? " & " : "", f);
    if (!bare)
        fprintf(f, "%.*s", n->mantissa - before, digits + before);
    if (n->power != 0)
        fprintf(f, "$%s10^{%ld}$", bare ? "" : "\\cdot", n->power);
    fprintf(f, "%s%s", islower((unsigned char)n->unit[0]) ? "\\," : "", n->unit);
}

static void put_cell(const struct tr_table_grid *g, int64_t row, int64_t column, bool two, FILE *f)
{
    const char *s = g->text[row * g->columns + column];
    struct number n;

    if (row > 0 && is_number(s, &n) && (!g->left[column] || n.power != 0)) {
        put_number(s, &n, two, f);
        return;
    }
    fputs(two ? "\\multicolumn{2}{r}{" : "", f);
    put_text(s, f);
    fputs(two ? "}" : "", f);
}

/* ---- the table ---- */

static void put_head(const struct tr_table *t, const struct tr_table_grid *g, FILE *f)
{
    for (int i = 0; i < t->notes; i++)
        put_comment(t->note[i], f);
    fputs("\\begin{table}\n\\centering\n\\caption{", f);
    put_text(t->title, f);
    fprintf(f, "}\n\\label{tab:%s}\n\\begin{tabular}{", t->key);
    for (int64_t c = 0; c < g->columns; c++)
        fputs(g->left[c] ? "l" : has_point(g, c) ? "r@{}l" : "r", f);
    fputs("}\n\\toprule\n", f);
}

void tr_table_latex(const struct tr_table *t, FILE *f)
{
    struct tr_table_grid g = tr_table_grid_of(t);

    put_head(t, &g, f);
    for (int64_t r = 0; r < g.rows; r++) {
        for (int64_t c = 0; c < g.columns; c++) {
            fputs(c ? " & " : "", f);
            put_cell(&g, r, c, has_point(&g, c), f);
        }
        fputs(r == 0 ? " \\\\\n\\midrule\n" : " \\\\\n", f);
    }
    fputs("\\bottomrule\n\\end{tabular}\n\\end{table}\n", f);
    tr_table_grid_release(&g);
}
