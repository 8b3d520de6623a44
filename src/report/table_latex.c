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

/* With nothing else behind it than letters of a unit. */
static bool is_number(const char *s)
{
    const char *rest = s + strspn(s, "0123456789.+-E");

    while (isalpha((unsigned char)*rest))
        rest++;
    return isdigit((unsigned char)s[s[0] == '-']) && *rest == '\0';
}

/* Has some number of the column a point?  Then it is two columns. */
static bool has_point(const struct tr_table_grid *g, int64_t column)
{
    if (g->left[column])
        return false;
    for (int64_t r = 1; r < g->rows; r++) {
        const char *s = g->text[r * g->columns + column];

        if (is_number(s) && strchr(s, '.'))
            return true;
    }
    return false;
}

static void put_number(const char *s, bool two, FILE *f)
{
    const int whole = (int)strcspn(s, two ? "." : "");

    if (s[0] == '-')
        fprintf(f, "$-$%.*s", whole - 1, s + 1);
    else
        fprintf(f, "%.*s", whole, s);
    if (two)
        fprintf(f, " & %s", s + whole);
}

static void put_cell(const struct tr_table_grid *g, int64_t row, int64_t column, bool two, FILE *f)
{
    const char *s = g->text[row * g->columns + column];

    if (row > 0 && !g->left[column] && is_number(s)) {
        put_number(s, two, f);
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
