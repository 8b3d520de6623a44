/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/agree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tr_loss *tr_record_losses(const struct tr_record *r, int64_t *count)
{
    struct tr_loss *out = calloc((size_t)r->rows + 1, sizeof *out);

    if (!out)
        tr_die(TR_ERESOURCE, "no memory left for the losses of a run");
    for (int64_t i = 0; i < r->rows && r->origin == TR_ORIGIN_MEASURED; i++)
        out[i] = (struct tr_loss){i > 0 ? r->row[i - 1].iteration : 0, r->row[i].iteration,
                                  r->row[i].field[TR_FIELD_LOSS]};
    *count = r->origin == TR_ORIGIN_MEASURED ? r->rows : 0;
    return out;
}

static double differ(double a, double b)
{
    if (isnan(a) && isnan(b))
        return NAN;
    if (isnan(a) || isnan(b))
        return INFINITY;
    if (!(a < b) && !(a > b))
        return 0.0;
    return fabs(a - b) / fabs(b);
}

double tr_losses_differ(const struct tr_loss *a, int64_t na, const struct tr_loss *b, int64_t nb)
{
    double most = NAN;

    for (int64_t i = 0, k = 0; i < na && k < nb;) {
        if (a[i].iteration == b[k].iteration && a[i].after == b[k].after)
            most = fmax(most, differ(a[i].loss, b[k].loss));
        if (a[i].iteration <= b[k].iteration)
            i++;
        else
            k++;
    }
    return most;
}

const char *tr_agree_text(double difference, char text[TR_AGREE_BYTES])
{
    if (isnan(difference))
        text[0] = '\0';
    else if (isinf(difference))
        snprintf(text, TR_AGREE_BYTES, "no");
    else if (difference > 0.0)
        snprintf(text, TR_AGREE_BYTES, "1e%.0f", ceil(log10(difference)));
    else
        snprintf(text, TR_AGREE_BYTES, "equal");
    return text;
}

/* ---- the run to compare with ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Vocabularies are padded to the layout, so that the data has to say which it is. */
static bool same_training(const struct tr_record *a, const struct tr_record *b)
{
    static const enum tr_fact facts[] = {
        TR_FACT_LAYERS, TR_FACT_HIDDEN, TR_FACT_HEADS, TR_FACT_GROUPS, TR_FACT_HEAD_WIDTH,
        TR_FACT_FFN,    TR_FACT_EMBED,  TR_FACT_SEQ,   TR_FACT_BATCH,
    };
    static const char *const arguments[] = {
#define DATA(option) option,
#include "config/run_args.def"
    };

    if (!tr_record_alike(a, b, facts, sizeof facts / sizeof facts[0], false))
        return false;
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++)
        if (!same_text(tr_record_argument(a, arguments[i]), tr_record_argument(b, arguments[i])))
            return false;
    return a->family == b->family && a->says == b->says;
}

static bool is_known(const struct tr_record *r)
{
    return r->rows > 0 && tr_record_fact(r, TR_FACT_LAYERS) > 0.0 &&
           tr_record_fact(r, TR_FACT_HIDDEN) > 0.0 && tr_record_fact(r, TR_FACT_BATCH) > 0.0;
}

double tr_agree(const struct tr_records *all, const struct tr_record *r)
{
    const struct tr_record *first = all->list;
    struct tr_loss *a, *b;
    int64_t na, nb;
    double most;

    while (first < r && !(is_known(first) && same_training(first, r)))
        first++;
    if (first >= r || !is_known(r))
        return NAN;
    a = tr_record_losses(r, &na);
    b = tr_record_losses(first, &nb);
    most = tr_losses_differ(a, na, b, nb);
    free(a);
    free(b);
    return most;
}
