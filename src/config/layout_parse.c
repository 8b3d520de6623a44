/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/layout.h"
#include "config/near.h"
#include "util/text.h"

#define OPTION "--pipeline-model-parallel-layout"

/* Symbols and repeats of one text: longer ones are typing errors.  Of a list that a sentence proposes:
   stages, and runs of them. */
enum { MOST_STEPS = 1 << 22, MOST_DEPTH = 16, MOST_NEAR = 4096, MOST_RUNS = 20 };

struct reader {
    const char *text;
    int64_t num_layers;
    struct tr_layout *l;
    bool list;         /* of numbers, not of letters */
    int64_t steps;     /* symbols and repeats so far */
    int depth;         /* of parentheses */
    int64_t stages;    /* that are complete */
    int64_t layers;    /* of the stage under way */
    int64_t all;       /* layers so far */
    bool embeds, head; /* E, L were there */
};

/* ---- from symbols to stages ---- */

static enum tr_status step(struct reader *r)
{
    if (++r->steps <= MOST_STEPS)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   OPTION " '%s' repeats more than %d times, and --num-layers is %lld: make its "
                          "numbers smaller",
                   r->text, MOST_STEPS, (long long)r->num_layers);
}

static enum tr_status add_stages(struct reader *r, int64_t stages, int64_t layers)
{
    if (stages > MOST_STEPS || layers > MOST_STEPS || r->stages + stages > MOST_STEPS ||
        r->all + stages * layers > MOST_STEPS)
        return TR_FAIL(TR_ECONFIG,
                       OPTION " '%s' has more than %d layers or stages, and --num-layers is %lld: "
                              "make its numbers smaller",
                       r->text, MOST_STEPS, (long long)r->num_layers);
    r->stages += stages;
    r->all += stages * layers;
    if (tr_layout_add(r->l, stages, layers))
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   OPTION " '%s' has a stage of another size than the one before it more than %d "
                          "times, and as many are kept: make more neighbours equal",
                   r->text, TR_LAYOUT_RUNS);
}

static enum tr_status end_stage(struct reader *r)
{
    const bool first = r->stages == 0, empty = r->layers == 0 && !(first && r->embeds) && !r->head;
    const int64_t layers = r->layers;

    r->layers = 0;
    if (empty)
        return TR_FAIL(TR_ECONFIG,
                       OPTION " '%s': stage %lld (from 0) holds nothing, and every stage of the "
                              "schedule needs some work: write t there, or remove its |",
                       r->text, (long long)r->stages);
    return add_stages(r, 1, layers);
}

static enum tr_status misplaced(const struct reader *r, const char *what, const char *instead)
{
    return TR_FAIL(TR_ECONFIG, OPTION " '%s' %s: %s", r->text, what, instead);
}

static enum tr_status take_symbol(struct reader *r, char c)
{
    TR_TRY(step(r));
    if (r->head)
        return c == 'L' ? misplaced(r, "has L twice", "the loss is computed once; remove one L")
                        : misplaced(r, "goes on after L", "the loss comes last; move L to the end");
    if (c == 'E') {
        if (r->embeds)
            return misplaced(r, "has E twice", "the embedding is there once; remove one E");
        r->embeds = true;
        return TR_OK;
    }
    if (!r->embeds)
        return misplaced(r, "does not begin with E",
                         "the embedding comes first; write E at the beginning");
    if (c == '|')
        return end_stage(r);
    if (c == 'L')
        r->head = true;
    else
        r->layers++;
    return TR_OK;
}

/* ---- the text ---- */

/* A number of at most seven digits, or -1; *s is moved behind it. */
static int64_t number(const char **s)
{
    int64_t n = 0;
    int digits = 0;

    for (; isdigit((unsigned char)**s) && digits < 8; digits++)
        n = 10 * n + (*(*s)++ - '0');
    return digits > 0 && digits < 8 ? n : -1;
}

static bool is_filler(char c)
{
    return c == ' ' || c == '\t';
}

/* "*n" behind what is repeated: n, or 1 where there is none. */
static enum tr_status repeats(const struct reader *r, const char **s, int64_t *n)
{
    *n = 1;
    if (**s != '*')
        return TR_OK;
    (*s)++;
    *n = number(s);
    if (*n >= 0)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   OPTION " '%s' has a * without a number of at most seven digits behind it: "
                          "write %s, which is %s",
                   r->text, r->list ? "6*3" : "t*3", r->list ? "6,6,6" : "ttt");
}

static enum tr_status unknown(const struct reader *r, char c)
{
    if (c == 'm')
        return TR_FAIL(TR_ECONFIG,
                       OPTION " '%s' has m, a layer of multi-token prediction, which no model here "
                              "has: remove it",
                       r->text);
    if (c == ')')
        return TR_FAIL(TR_ECONFIG,
                       OPTION " '%s' has a ) without its (: write (...)*n, as in E|(tt|)*3L",
                       r->text);
    return TR_FAIL(TR_ECONFIG,
                   OPTION " '%s' has '%c', which is none of its symbols: E is the embedding, t a "
                          "layer, L the loss, | lies between stages, and t*3 or (tt|)*3 repeats",
                   r->text, c);
}

/* The end of the group that begins at `s`, or NULL. */
static const char *group_end(const char *s, const char *end)
{
    int depth = 0;

    for (; s < end; s++) {
        depth += *s == '(';
        depth -= *s == ')';
        if (depth == 0)
            return s;
    }
    return NULL;
}

static enum tr_status read_text(struct reader *r, const char *s, const char *end);

/* "(...)*n"; *s stands on the parenthesis, and is moved behind the number. */
static enum tr_status read_group(struct reader *r, const char **s, const char *end)
{
    const char *first = *s + 1, *last = group_end(*s, end);
    enum tr_status status = TR_OK;
    int64_t n;

    if (!last || last[1] != '*')
        return TR_FAIL(TR_ECONFIG,
                       OPTION " '%s' has a ( without its )*n: write (...)*n, as in E|(tt|)*3L",
                       r->text);
    if (++r->depth > MOST_DEPTH)
        return TR_FAIL(TR_ECONFIG,
                       OPTION " '%s' has more than %d parentheses inside one another: use fewer",
                       r->text, MOST_DEPTH);
    *s = last + 1;
    TR_TRY(repeats(r, s, &n));
    for (int64_t i = 0; i < n && status == TR_OK; i++) {
        status = step(r);
        if (status == TR_OK)
            status = read_text(r, first, last);
    }
    r->depth--;
    return status;
}

/* Letters, bars and groups up to `end`. */
static enum tr_status read_text(struct reader *r, const char *s, const char *end)
{
    while (s < end) {
        const char c = *s;
        int64_t n;

        if (is_filler(c) || c == ',') {
            s++;
        } else if (c == '(') {
            TR_TRY(read_group(r, &s, end));
        } else if (strchr("EtL|", c)) {
            s++;
            TR_TRY(repeats(r, &s, &n));
            for (int64_t i = 0; i < n; i++)
                TR_TRY(take_symbol(r, c));
        } else {
            return unknown(r, c);
        }
    }
    return TR_OK;
}

static enum tr_status read_letters(struct reader *r)
{
    TR_TRY(read_text(r, r->text, r->text + strlen(r->text)));
    if (!r->embeds)
        return misplaced(r, "does not begin with E",
                         "the embedding comes first; write E at the beginning");
    if (!r->head)
        return misplaced(r, "does not end with L", "the loss comes last; write L at the end");
    return end_stage(r);
}

static enum tr_status read_list(struct reader *r)
{
    for (const char *s = r->text;; s++) {
        int64_t layers, n;

        s += strspn(s, " \t");
        layers = number(&s);
        if (layers < 0)
            return TR_FAIL(TR_ECONFIG,
                           OPTION
                           " '%s' is no list of layers of stages: write 6,6,6,7 or 6*3,7, or "
                           "letters as in Et*6|(t*6|)*2t*7L",
                           r->text);
        TR_TRY(repeats(r, &s, &n));
        s += strspn(s, " \t");
        TR_TRY(add_stages(r, n, layers));
        if (*s == '\0')
            return TR_OK;
        if (*s != ',')
            return TR_FAIL(TR_ECONFIG,
                           OPTION " '%s' has '%c' in a list of numbers: write commas between them, "
                                  "and 6*3 for 6,6,6",
                           r->text, *s);
    }
}

/* ---- what it must be ---- */

/* One layer after the other is taken from the largest stages, or added to the smallest. */
static void mend(int *layers, int64_t stages, int64_t lacks)
{
    for (; lacks != 0; lacks += lacks < 0 ? 1 : -1) {
        int64_t at = 0;

        for (int64_t i = 1; i < stages; i++)
            if (lacks < 0 ? layers[i] > layers[at] : layers[i] < layers[at] && i < stages - 1)
                at = i;
        layers[at] += lacks < 0 ? -1 : 1;
    }
}

/* The nearest list with as many stages: "", or ", for example 6,6,7". */
static const char *near_list(const struct reader *r, char *text, size_t size)
{
    const int64_t lacks = r->num_layers - r->all;
    struct tr_layout near = *r->l;
    char list[TR_LAYOUT_TEXT];
    int *layers = NULL, n = 0;

    text[0] = '\0';
    if (r->stages > r->num_layers)
        return text;
    if (r->stages > MOST_NEAR || lacks > r->stages || -lacks > r->stages) {
        tr_layout_spread(&near, r->stages, r->num_layers);
    } else {
        layers = calloc((size_t)r->stages, sizeof *layers);
        if (!layers)
            tr_die(TR_ERESOURCE, "no memory left for a list of stages");
        for (int i = 0; i < r->l->runs; i++)
            for (int j = 0; j < r->l->run[i].stages; j++)
                layers[n++] = r->l->run[i].layers;
        mend(layers, r->stages, lacks);
        near.runs = 0;
        for (int i = 0; i < n && near.runs < MOST_RUNS; i++)
            (void)tr_layout_add(&near, 1, layers[i]);
        if (near.runs == MOST_RUNS)
            tr_layout_spread(&near, r->stages, r->num_layers);
        free(layers);
    }
    snprintf(text, size, ", or for example " OPTION " %s", tr_layout_list(&near, list));
    return text;
}

static enum tr_status check_layers(const struct reader *r)
{
    const struct tr_layout *l = r->l;
    char near[300];
    int64_t at = 0;

    if (r->all != r->num_layers)
        return TR_FAIL(TR_ECONFIG,
                       OPTION " '%s' has %lld layer%s, and --num-layers is %lld: use --num-layers "
                              "%lld%s",
                       r->text, (long long)r->all, tr_plural(r->all), (long long)r->num_layers,
                       (long long)r->all, near_list(r, near, sizeof near));
    for (int i = 0; i < l->runs; at += l->run[i++].stages) {
        const int64_t end = at + l->run[i].stages, first = at > 0 ? at : 1;

        if (l->run[i].layers == 0 && first < (end < r->stages ? end : r->stages - 1))
            return TR_FAIL(TR_ECONFIG,
                           OPTION
                           " '%s': stage %lld (from 0) holds nothing, and every stage of the "
                           "schedule needs some work: give it 1 layer or more; only the first "
                           "and the last, with the embedding and the head, may have 0",
                           r->text, (long long)first);
    }
    return TR_OK;
}

static enum tr_status check_stages(const struct reader *r)
{
    const int64_t p = r->l->p;
    char near[64];

    if (r->stages > 0 && r->stages % p == 0)
        return TR_OK;
    return TR_FAIL(
        TR_ECONFIG,
        OPTION " '%s' has %lld stage%s, and --pipeline-model-parallel-size is %lld: say "
               "what %s stages hold%s",
        r->text, (long long)r->stages, tr_plural(r->stages), (long long)p,
        tr_multiples_near(p, r->stages, near),
        r->stages > p ? "; more than the ranks are virtual stages, first those of chunk 0" : "");
}

enum tr_status tr_layout_parse(const char *text, int64_t layers, struct tr_layout *l)
{
    struct reader r = {.text = text, .num_layers = layers, .l = l};

    l->runs = 0;
    r.list = isdigit((unsigned char)text[strspn(text, " \t")]) && !strpbrk(text, "EtLm|()");
    TR_TRY(r.list ? read_list(&r) : read_letters(&r));
    TR_TRY(check_stages(&r));
    TR_TRY(check_layers(&r));
    l->k = (int)(r.stages / l->p);
    return TR_OK;
}
