/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/flops.h"
#include "config/model_family.h"
#include "model/count.h"

/* The last iteration of a start that is warming up, given the lines that it has. */
static int64_t warm_until(const struct tr_record *r, int64_t start, int64_t warmup)
{
    int64_t lines = 0, skipped = 0, last = 0, skip;

    if (r->origin != TR_ORIGIN_MEASURED)
        return 0;
    if (warmup != TR_WARMUP_AUTO)
        return r->start[start].resumed + warmup;
    for (int64_t i = 0; i < r->rows; i++)
        lines += r->row[i].start == start && !r->row[i].extra;
    skip = lines / 4 < 2 ? lines / 4 : 2;
    for (int64_t i = 0; i < r->rows && skipped < skip; i++) {
        if (r->row[i].start != start || r->row[i].extra)
            continue;
        last = r->row[i].iteration;
        skipped++;
    }
    return last;
}

struct tr_selection tr_select_rows(const struct tr_record *r, int64_t warmup)
{
    struct tr_selection s = {.row = calloc((size_t)r->rows + 1, sizeof *s.row)};
    int64_t until = 0, start = -1, whole = 0;

    if (!s.row)
        tr_die(TR_ERESOURCE, "no memory left for a selection of lines");
    for (int64_t i = 0; i < r->rows; i++) {
        const struct tr_row *row = &r->row[i];

        if (row->start != start)
            until = warm_until(r, row->start, warmup);
        start = row->start;
        if (row->iteration <= until || row->extra)
            s.warm++;
        else
            s.row[s.count++] = i;
    }
    for (int64_t i = 0; i < s.count; i++)
        whole += !r->row[s.row[i]].interrupted;
    if (whole == 0 || whole == s.count)
        return s;
    s.interrupted = s.count - whole;
    s.count = 0;
    for (int64_t i = 0, n = whole + s.interrupted; i < n; i++)
        if (!r->row[s.row[i]].interrupted)
            s.row[s.count++] = s.row[i];
    return s;
}

void tr_selection_release(struct tr_selection *s)
{
    free(s->row);
    memset(s, 0, sizeof *s);
}

static double *room(int64_t n)
{
    double *x = calloc((size_t)n + 1, sizeof *x);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the numbers of a run");
    return x;
}

struct tr_order tr_selection_order(const struct tr_record *r, const struct tr_selection *s,
                                   enum tr_field f)
{
    double *x = room(s->count);
    struct tr_order o;

    for (int64_t i = 0; i < s->count; i++)
        x[i] = r->row[s->row[i]].field[f];
    o = tr_order_of(x, s->count);
    free(x);
    return o;
}

/* The batch may grow, so each line is divided by its own time. */
static struct tr_order sample_rate(const struct tr_record *r, const struct tr_selection *s)
{
    double *x = room(s->count), batch = tr_record_fact(r, TR_FACT_BATCH);
    struct tr_order rate;

    for (int64_t i = 0; i < s->count; i++) {
        const double *field = r->row[s->row[i]].field;

        x[i] = 1e3 * (isnan(field[TR_FIELD_BATCH]) ? batch : field[TR_FIELD_BATCH]) /
               field[TR_FIELD_ELAPSED];
    }
    rate = tr_order_of(x, s->count);
    free(x);
    return rate;
}

/* The architecture: of the family that the log names, else of the first row, GPT-2's, and what its arguments
   change.  Megatron's number of groups counts where it says so, that of a log with a family always. */
static struct tr_family family_of(const struct tr_record *r, int64_t groups)
{
    struct tr_family of = r->family ? *r->family : *tr_family_row(0), *f = &of;
    int row = 0;

    if (r->family && r->fact[TR_FACT_GROUPS] >= 1.0)
        f->groups = groups;

#define SAYS(name, value, change) \
    if (r->says >> row++ & 1U)    \
        change;
#include "config/model_args.def"
#undef SAYS
    return of;
}

/* A fact that is a width or a number of heads, or `instead` where the log does not say it, or says less than one. */
static int64_t count_of(const struct tr_record *r, enum tr_fact f, int64_t instead)
{
    return r->fact[f] >= 1.0 ? (int64_t)r->fact[f] : instead;
}

/* More is a misprint, and would overflow. */
static const double MOST_WIDTH = 0x1p20, MOST_WORDS = 0x1p28;

static bool is_size(double x, double most)
{
    return x >= 1.0 && x <= most;
}

bool tr_record_dims(const struct tr_record *r, struct tr_dims *out)
{
    const double layers = tr_record_fact(r, TR_FACT_LAYERS), vocab = r->fact[TR_FACT_VOCAB],
                 hidden = r->fact[TR_FACT_HIDDEN], seq = r->fact[TR_FACT_SEQ];
    struct tr_dims m = {.layers = 0};

    if (!(is_size(layers, MOST_WORDS) && is_size(hidden, MOST_WIDTH) && is_size(seq, MOST_WORDS) &&
          is_size(vocab, MOST_WORDS)))
        return false;
    m.layers = (int64_t)layers;
    m.hidden = (int64_t)hidden;
    m.seq = m.positions = (int64_t)seq;
    m.vocab = m.vocab_padded = (int64_t)vocab;
    m.heads = count_of(r, TR_FACT_HEADS, 1);
    m.family = family_of(r, count_of(r, TR_FACT_GROUPS, m.heads));
    m.groups = m.family.groups > 0 ? m.family.groups : m.heads;
    m.head_dim = count_of(r, TR_FACT_HEAD_WIDTH,
                          m.family.head_width > 0 ? m.family.head_width : m.hidden / m.heads);
    m.ffn = count_of(r, TR_FACT_FFN, tr_family_ffn(&m.family, m.hidden));
    m.embed =
        count_of(r, TR_FACT_EMBED, m.family.embed_width > 0 ? m.family.embed_width : m.hidden);
    *out = m;
    return is_size((double)m.ffn, MOST_WIDTH) && is_size((double)m.heads, MOST_WIDTH) &&
           is_size((double)m.head_dim, MOST_WIDTH) && m.groups <= m.heads;
}

void tr_model_size(double parameters, char *buf)
{
    buf[0] = '\0';
    if (parameters >= 9.95e9)
        snprintf(buf, 16, "%.0fB", parameters / 1e9);
    else if (parameters >= 9.995e8)
        snprintf(buf, 16, "%.1fB", parameters / 1e9);
    else if (parameters > 0.0)
        snprintf(buf, 16, "%.*fM", parameters < 9.95e6 ? 1 : 0, parameters / 1e6);
}

static void count_operations(const struct tr_record *r, int formula, double peak,
                             struct tr_summary *s)
{
    double world = tr_record_fact(r, TR_FACT_WORLD);
    struct tr_dims dims;

    if (!tr_record_dims(r, &dims))
        return;
    s->parameters = tr_count_parameters(&dims, true);
    s->tokens_per_second = s->samples_per_second * (double)dims.seq;
    s->hardware_tflops = tr_flops_count(TR_FLOPS_SC21, &dims, 1, r->recompute) *
                         s->samples_per_second / (world * 1e12);
    s->model_tflops =
        tr_flops_count(formula, &dims, 1, false) * s->samples_per_second / (world * 1e12);
    s->hfu = s->hardware_tflops / peak;
    s->mfu = s->model_tflops / peak;
}

static void look_at_memory(const struct tr_record *r, struct tr_summary *s)
{
    s->allocated_rank = -1;
    for (int i = 0; i < r->memories; i++) {
        const struct tr_rank_memory *m = &r->memory[i];

        if (isnan(m->allocated))
            continue;
        s->reserved = fmax(s->reserved, m->max_reserved); /* fmax() passes NAN over */
        if (s->allocated_rank >= 0 && !(m->max_allocated > s->allocated))
            continue;
        s->allocated = m->max_allocated;
        s->allocated_rank = i;
    }
}

static void look_at_losses(const struct tr_record *r, struct tr_summary *s)
{
    for (int64_t i = 0; i < r->rows; i++) {
        double loss = r->row[i].field[TR_FIELD_LOSS];
        double skipped = r->row[i].field[TR_FIELD_SKIPPED], nans = r->row[i].field[TR_FIELD_NANS];

        s->skipped += skipped > 0.0 && skipped < 0x1p53 && !r->row[i].extra ? (int64_t)skipped : 0;
        s->nan += nans > 0.0 && nans < 0x1p53 && !r->row[i].extra ? (int64_t)nans : 0;
        if (isnan(loss))
            continue;
        if (isnan(s->loss_first))
            s->loss_first = loss;
        s->loss_last = loss;
        s->loss_least = fmin(s->loss_least, loss);
    }
}

void tr_summarize(const struct tr_record *r, int64_t warmup, int formula, double peak,
                  struct tr_summary *out)
{
    struct tr_selection chosen = tr_select_rows(r, warmup);
    double p = tr_record_fact(r, TR_FACT_PP);
    double m = tr_record_fact(r, TR_FACT_MICROS) * tr_record_fact(r, TR_FACT_CHUNKS);

    *out = (struct tr_summary){
        .ms = tr_selection_order(r, &chosen, TR_FIELD_ELAPSED),
        .lines = r->rows,
        .counted = chosen.count,
        .warm = chosen.warm,
        .interrupted = chosen.interrupted,
        .first = r->rows > 0 ? r->row[0].iteration : 0,
        .last = r->rows > 0 ? r->row[r->rows - 1].iteration : 0,
        .rate = sample_rate(r, &chosen),
        .logged_tflops = tr_selection_order(r, &chosen, TR_FIELD_TFLOPS).median,
        .bubble = (p - 1.0) / (m + p - 1.0),
    };
    out->samples_per_second = out->rate.median;
    out->tokens_per_second = out->parameters = out->hardware_tflops = out->model_tflops = NAN;
    out->hfu = out->mfu = out->allocated = out->reserved = NAN;
    out->loss_first = out->loss_last = out->loss_least = NAN;
    count_operations(r, formula, peak, out);
    look_at_memory(r, out);
    look_at_losses(r, out);
    tr_selection_release(&chosen);
}
