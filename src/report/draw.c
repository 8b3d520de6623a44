/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/record.h"
#include "util/file.h"

void tr_plot_series(struct tr_plot *p, char *name, enum tr_look look)
{
    p->series = tr_grow(p->series, p->count, sizeof *p->series);
    p->series[p->count++] = (struct tr_series){.name = name, .look = look};
}

void tr_plot_below(struct tr_plot *p)
{
    const struct tr_series *above = &p->series[p->count - 1];

    tr_plot_series(p, tr_format("%s", above->name), above->look);
    p->series[p->count - 1].below = true;
}

void tr_plot_range(struct tr_plot *p, double x, double y, double low, double high)
{
    struct tr_series *s = &p->series[p->count - 1];

    if (!isfinite(x) || !isfinite(y) || (p->log_log && (x <= 0.0 || y <= 0.0)))
        return;
    s->x = tr_grow(s->x, s->count, sizeof *s->x);
    s->y = tr_grow(s->y, s->count, sizeof *s->y);
    s->label = tr_grow(s->label, s->count, sizeof *s->label);
    s->label[s->count] = NULL;
    s->low = tr_grow(s->low, s->count, sizeof *s->low);
    s->high = tr_grow(s->high, s->count, sizeof *s->high);
    s->x[s->count] = x;
    s->y[s->count] = y;
    s->low[s->count] = isfinite(low) ? low : y;
    s->high[s->count++] = isfinite(high) ? high : y;
}

void tr_plot_point(struct tr_plot *p, double x, double y)
{
    tr_plot_range(p, x, y, y, y);
}

void tr_plot_label(struct tr_plot *p, char *label)
{
    struct tr_series *s = &p->series[p->count - 1];

    if (s->count == 0) {
        free(label);
        return;
    }
    free(s->label[s->count - 1]);
    s->label[s->count - 1] = label;
}

/* Without a bias towards 0 at the beginning, as TensorBoard has it (Kingma and Ba, 2015). */
void tr_plot_smooth(struct tr_plot *p, double weight)
{
    for (int i = 0; i < p->count && weight > 0.0; i++) {
        struct tr_series *s = &p->series[i];
        double mean = 0.0, part = 0.0;

        if (s->look != TR_LOOK_LINE || s->count == 0 || s->raw)
            continue;
        s->raw = malloc((size_t)s->count * sizeof *s->raw);
        if (!s->raw)
            tr_die(TR_ERESOURCE, "no memory left for a plot");
        for (int64_t n = 0; n < s->count; n++) {
            s->raw[n] = s->y[n];
            mean = weight * mean + (1.0 - weight) * s->y[n];
            part = weight * part + (1.0 - weight);
            s->low[n] = s->high[n] = s->y[n] = mean / part;
        }
    }
}

void tr_plot_bar(struct tr_plot *p, char *name)
{
    p->bar = tr_grow(p->bar, p->bars, sizeof *p->bar);
    p->bar[p->bars++] = name;
}

void tr_plot_note(struct tr_plot *p, char *sentence)
{
    char *all = p->note ? tr_format("%s %s", p->note, sentence) : tr_format("%s", sentence);

    free(sentence);
    free(p->note);
    p->note = all;
}

void tr_plot_release(struct tr_plot *p)
{
    for (int i = 0; i < p->count; i++) {
        free(p->series[i].name);
        free(p->series[i].x);
        free(p->series[i].y);
        free(p->series[i].low);
        free(p->series[i].high);
        free(p->series[i].raw);
        for (int64_t n = 0; n < p->series[i].count; n++)
            free(p->series[i].label[n]);
        free(p->series[i].label);
    }
    for (int i = 0; i < p->bars; i++)
        free(p->bar[i]);
    free(p->series);
    free(p->bar);
    free(p->note);
    memset(p, 0, sizeof *p);
}

/* Where the letter ends that begins at s; a letter of UTF-8 may have several bytes. */
static const char *next_letter(const char *s)
{
    for (s++; ((unsigned char)*s & 0xc0U) == 0x80U; s++)
        ;
    return s;
}

int tr_plot_letters(const char *s)
{
    int n = 0;

    for (; *s; s = next_letter(s))
        n++;
    return n;
}

static const char *after_letters(const char *s, int n)
{
    for (; n > 0 && *s; n--)
        s = next_letter(s);
    return s;
}

char *tr_plot_clip(const char *name, int most)
{
    int letters = tr_plot_letters(name), head = (most - 2 + 1) / 2, tail = most - 2 - head;

    if (letters <= most || most < 4)
        return tr_format("%s", name);
    return tr_format("%.*s..%s", (int)(after_letters(name, head) - name), name,
                     after_letters(name, letters - tail));
}
