/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "report/table_parts.h"
#include "util/file.h"
#include "util/text.h"

/* No page is wider than its window: names break, pictures shrink, and in a narrow window each row
   of a table becomes a list of "column: value". */
static const char style[] =
    "body { font-family: sans-serif; max-width: 75em; margin: auto; padding: 0 1em; "
    "overflow-wrap: anywhere }\n"
    "table { border-collapse: collapse; font-size: 90% }\n"
    "th, td { border: 1px solid #999; padding: 2px 6px; text-align: left }\n"
    ".n { text-align: right; font-variant-numeric: tabular-nums }\n"
    "svg { max-width: 100%; height: auto }\n"
    "figure { margin: 1em 0 }\n"
    "pre { white-space: pre-wrap }\n"
    "@media (max-width: 50em) {\n"
    ".wide, .wide tbody, .wide tr { display: block }\n"
    ".wide td, .wide th { display: inline-block; border: 0; padding: 0 1em 0 0 }\n"
    ".wide tr { border-bottom: 1px solid #999 }\n"
    ".wide tr:first-child { display: none }\n"
    ".wide [data-name]::before { content: attr(data-name) \": \" } }\n";

void tr_html_begin(const char *title, FILE *f)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>", f);
    tr_html_text(title, f);
    fputs("</title>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n<style>", f);
    fputs(style, f);
    fputs("</style></head><body>\n", f);
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

void tr_html_sentence(const char *s, FILE *f)
{
    char *copy = tr_format("%s", s), *rest = copy;
    bool code = false;

    fputs("<p>", f);
    while (rest) {
        char *piece = strsep(&rest, "`");
        const bool quoted = code && rest;

        fputs(quoted ? "<code>" : code ? "`" : "", f);
        tr_html_text(piece, f);
        fputs(quoted ? "</code>" : "", f);
        code = !code;
    }
    fputs("</p>\n", f);
    free(copy);
}

void tr_html_end(FILE *f)
{
    fputs("</body></html>\n", f);
}

void tr_table_html(const struct tr_table *t, FILE *f)
{
    struct tr_table_grid g = tr_table_grid_of(t);

    fprintf(f, "<h2>%s</h2>\n<table id=\"%s\" class=\"wide\">\n", t->title, t->key);
    for (int64_t r = 0; r < g.rows; r++) {
        fputs("<tr>", f);
        for (int64_t c = 0; c < g.columns; c++) {
            const char *tag = r == 0 || (t->across && c == 0) ? "th" : "td";

            fprintf(f, "<%s%s", tag, g.left[c] ? "" : " class=\"n\"");
            if (r > 0 && g.text[c][0]) {
                fputs(" data-name=\"", f);
                tr_html_text(g.text[c], f);
                fputc('"', f);
            }
            fputc('>', f);
            tr_html_text(g.text[r * g.columns + c], f);
            fprintf(f, "</%s>", tag);
        }
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
    for (int i = 0; i < t->notes; i++)
        tr_html_sentence(t->note[i], f);
    tr_table_grid_release(&g);
}
