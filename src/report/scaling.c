/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/scaling.h"

#include <math.h>

#include "config/flops.h"

const char *tr_scaling_text(enum tr_scaling_kind k)
{
    static const char *const texts[] = {
        [TR_SCALING_BASE] = "smallest",
        [TR_SCALING_STRONG] = "strong",
        [TR_SCALING_WEAK] = "weak",
        [TR_SCALING_OTHER] = "other",
    };

    return texts[k];
}

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-9 * fabs(y);
}

static bool same_model(const struct tr_record *a, const struct tr_record *b)
{
    static const enum tr_fact model[] = {TR_FACT_LAYERS, TR_FACT_HIDDEN, TR_FACT_FFN, TR_FACT_SEQ};

    return tr_record_alike(a, b, model, sizeof model / sizeof model[0], true);
}

static enum tr_scaling_kind kind_of(const struct tr_record *r, const struct tr_record *base)
{
    double batch = tr_record_fact(r, TR_FACT_BATCH), first = tr_record_fact(base, TR_FACT_BATCH);
    double gpus = tr_record_fact(r, TR_FACT_WORLD), fewest = tr_record_fact(base, TR_FACT_WORLD);

    if (r == base)
        return TR_SCALING_BASE;
    if (same_model(r, base) && near(batch, first))
        return TR_SCALING_STRONG;
    if (same_model(r, base) && near(batch * fewest, first * gpus))
        return TR_SCALING_WEAK;
    return TR_SCALING_OTHER;
}

/* Part of all operations that a last stage's GPU does, over the mean of all GPUs. */
static double counted_balance(const struct tr_record *r)
{
    double stages = tr_record_fact(r, TR_FACT_PP), head, all;
    struct tr_dims whole, bare;

    if (!tr_record_dims(r, &whole))
        return NAN;
    bare = whole;
    bare.vocab_padded = 0;
    all = tr_flops_count(TR_FLOPS_SC21, &whole, 1, r->recompute);
    head = all - tr_flops_count(TR_FLOPS_SC21, &bare, 1, r->recompute);
    return all / stages / ((all - head) / stages + head);
}

static void find_factors(const struct tr_record *r, int64_t warmup, const struct tr_summary *s,
                         struct tr_scaling *out)
{
    struct tr_breakdown b;
    double filled, moved;

    out->busy = out->hidden = out->step = out->balance = out->gemm = NAN;
    out->total = s->hardware_tflops;
    out->has_factors = tr_break_down(r, warmup, &b) == TR_OK && !isnan(out->total);
    if (!out->has_factors)
        return;
    filled = b.ms - tr_breakdown_bubble(&b);
    moved =
        filled - b.part[TR_PART_TRANSFER] - b.part[TR_PART_REPLICAS] - b.part[TR_PART_GRADIENTS];
    out->busy = filled / b.ms;
    out->hidden = moved / filled;
    out->step = (b.part[TR_PART_COMPUTE] + b.part[TR_PART_TENSOR]) / moved;
    out->balance = isnan(b.balance) ? counted_balance(r) : b.balance;
    out->gemm = out->total / (out->busy * out->hidden * out->step * out->balance);
}

void tr_scale(const struct tr_record *r, const struct tr_record *smallest, int64_t warmup,
              struct tr_scaling *out)
{
    struct tr_summary mine, base;
    double fewest = tr_record_fact(smallest, TR_FACT_WORLD);

    /* Model operations, so that recomputation is no work done; any formula would do. */
    tr_summarize(r, warmup, TR_FLOPS_2024, NAN, &mine);
    tr_summarize(smallest, warmup, TR_FLOPS_2024, NAN, &base);
    *out =
        (struct tr_scaling){.kind = kind_of(r, smallest), .gpus = tr_record_fact(r, TR_FACT_WORLD)};
    if (out->kind == TR_SCALING_OTHER)
        out->speed_up = mine.model_tflops * out->gpus / (base.model_tflops * fewest);
    else
        out->speed_up = mine.samples_per_second / base.samples_per_second;
    out->efficiency = out->speed_up * fewest / out->gpus;
    out->speed_up_low = out->speed_up * mine.rate.low / mine.rate.median;
    out->speed_up_high = out->speed_up * mine.rate.high / mine.rate.median;
    out->sure = mine.rate.sure;
    find_factors(r, warmup, &mine, out);
}

/* On as many GPUs as `base`, with the same model, and faster. */
static bool is_better(const struct tr_record *r, const struct tr_record *base, int64_t warmup)
{
    struct tr_summary mine, its;

    if (!near(tr_record_fact(r, TR_FACT_WORLD), tr_record_fact(base, TR_FACT_WORLD)) ||
        !same_model(r, base))
        return false;
    tr_summarize(r, warmup, TR_FLOPS_2024, NAN, &mine);
    tr_summarize(base, warmup, TR_FLOPS_2024, NAN, &its);
    return mine.samples_per_second > its.samples_per_second;
}

const struct tr_record *tr_scale_base(const struct tr_record *r, int count,
                                      enum tr_run_origin origin, int64_t warmup)
{
    const struct tr_record *base = NULL;

    for (int i = 0; i < count; i++) {
        struct tr_selection s = tr_select_rows(&r[i], warmup);
        double gpus = tr_record_fact(&r[i], TR_FACT_WORLD);

        if (r[i].origin == origin && s.count > 0 && gpus > 0.0 &&
            (!base || gpus < tr_record_fact(base, TR_FACT_WORLD) || is_better(&r[i], base, warmup)))
            base = &r[i];
        tr_selection_release(&s);
    }
    return base;
}
