/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "report/table_parts.h"
#include "util/file.h"
#include "util/text.h"

void tr_html_begin(const char *title, FILE *f)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>", f);
    tr_html_text(title, f);
    fputs("</title>\n<style>body { font-family: sans-serif } table { border-collapse: collapse }\n"
          "th, td { border: 1px solid #999; padding: 2px 8px; text-align: left }\n"
          ".n { text-align: right }</style></head><body>\n",
          f);
}

static const char *entity(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    default:
        return NULL;
    }
}

/* What comes out of a log may have characters that no page can have. */
void tr_html_text(const char *s, FILE *f)
{
    char *text = tr_printable(tr_format("%s", s));

    for (const char *c = text; *c; c++) {
        if (entity(*c))
            fputs(entity(*c), f);
        else
            fputc(*c, f);
    }
    free(text);
}

void tr_html_end(FILE *f)
{
    fputs("</body></html>\n", f);
}

void tr_table_html(const struct tr_table *t, FILE *f)
{
    struct tr_table_grid g = tr_table_grid_of(t);

    fprintf(f, "<h2>%s</h2>\n<table id=\"%s\">\n", t->title, t->key);
    for (int64_t r = 0; r < g.rows; r++) {
        fputs("<tr>", f);
        for (int64_t c = 0; c < g.columns; c++) {
            const char *tag = r == 0 || (t->across && c == 0) ? "th" : "td";

            fprintf(f, "<%s%s>", tag, g.left[c] ? "" : " class=\"n\"");
            tr_html_text(g.text[r * g.columns + c], f);
            fprintf(f, "</%s>", tag);
        }
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
    for (int i = 0; i < t->notes; i++) {
        fputs("<p>", f);
        tr_html_text(t->note[i], f);
        fputs("</p>\n", f);
    }
    tr_table_grid_release(&g);
}
