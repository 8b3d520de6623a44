/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/page_figure.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/table_parts.h"
#include "util/file.h"

enum { PICTURE_MOST = 64 << 20 };

/* ---- SVG inside of HTML ---- */

/* Behind the attribute that begins here. */
static const char *behind_attribute(const char *s)
{
    const size_t name = strcspn(s, "'\"");
    const char *end = s[name] ? strchr(s + name + 1, s[name]) : NULL;

    return end ? end + 1 : s + strlen(s);
}

/* What begins with the name of an element, which is told from those of other figures here; its length, or 0. */
static size_t name_follows(const char *s, bool quoted)
{
    static const char *const outside[] = {"id='", "id=\"", "href='#", "href=\"#"};

    if (quoted)
        return strncmp(s, "url(#", 5) == 0 ? 5 : 0;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        if (strncmp(s, outside[i], strlen(outside[i])) == 0)
            return strlen(outside[i]);
    return 0;
}

/* From a "<" to its ">", without prefixes, which HTML does not have. */
static const char *put_tag(const char *s, int number, FILE *f)
{
    char quote = '\0';

    while (*s && (quote || *s != '>')) {
        size_t n = name_follows(s, quote != '\0');

        if (!quote && strncmp(s, "xmlns", 5) == 0) {
            s = behind_attribute(s);
            continue;
        }
        if (!quote && strncmp(s, "xlink:", 6) == 0) {
            s += 6;
            continue;
        }
        if (n > 0)
            fprintf(f, "%.*sfigure%d-", (int)n, s, number);
        else
            fputc(*s, f);
        for (n = n > 0 ? n : 1; n > 0; n--, s++)
            if ((*s == '\'' || *s == '"') && (!quote || quote == *s))
                quote = quote ? '\0' : *s;
    }
    return s;
}

/* Of a file of SVG the picture, without the head of a document of its own. */
static void put_picture(const char *svg, int number, FILE *f)
{
    const char *s = strstr(svg, "<svg");

    while (s && *s) {
        if (*s == '<')
            s = put_tag(s, number, f);
        if (*s)
            fputc(*s++, f);
    }
}

/* ---- drawing ---- */

/* Its title is the caption of the page. */
static enum tr_status draw(const struct tr_plot *plot, const char *folder, char **svg)
{
    struct tr_plot bare = *plot;
    char *path = tr_format("%s/figure.svg", folder);
    enum tr_status s;

    bare.title = "";
    s = tr_draw_file(&bare, path);

    if (s == TR_OK)
        s = tr_file_text(path, PICTURE_MOST, svg);
    unlink(path);
    free(path);
    return s;
}

static enum tr_status draw_aside(const struct tr_plot *plot, char **svg)
{
    const char *place = getenv("TMPDIR");
    char *folder = tr_format("%s/trireme-report.XXXXXX", place && *place ? place : "/tmp");
    enum tr_status s;

    if (mkdtemp(folder)) {
        s = draw(plot, folder, svg);
        rmdir(folder);
    } else {
        s = TR_FAIL(TR_EIO, "cannot make the folder %s for a figure: %s", folder, strerror(errno));
    }
    free(folder);
    return s;
}

/* Line by line: an end of a line is no character of a text. */
static void put_as_text(const struct tr_plot *plot, FILE *f)
{
    char *text = NULL, *rest;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    TR_ASSERT(to);
    tr_draw_text(plot, to);
    fclose(to);
    rest = text;
    fputs("<pre>", f);
    while (rest) {
        tr_html_text(strsep(&rest, "\n"), f);
        fputc('\n', f);
    }
    fputs("</pre>\n", f);
    free(text);
}

void tr_page_figure(const struct tr_plot *plot, int number, FILE *f)
{
    char *svg = NULL;
    const enum tr_status s = draw_aside(plot, &svg);

    fputs("<figure>\n", f);
    if (s == TR_OK) {
        put_picture(svg, number, f);
    } else {
        fprintf(f, "<p>%s  The figure as text:</p>\n",
                s == TR_ERESOURCE
                    ? "gnuplot was not found: where it is installed (gnuplot-nox), the same "
                      "command draws this figure."
                    : "gnuplot could not draw this figure.");
        put_as_text(plot, f);
    }
    fputs("<figcaption>", f);
    tr_html_text(plot->title, f);
    fputs("</figcaption>\n</figure>\n", f);
    free(svg);
}
