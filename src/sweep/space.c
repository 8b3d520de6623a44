/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/space.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/flops.h"
#include "plan/plan.h"
#include "util/file.h"

static const struct {
    const char *list, *option; /* names of the options */
    size_t field;              /* of struct tr_config */
} dims[TR_SWEEP_DIMS] = {
#define DIM(symbol, name, option, field, help) {name, option, offsetof(struct tr_config, field)},
#include "sweep/dims.def"
};

enum { NUMBERS = 64 };

/* The values of all dimensions. */
struct lists {
    int count[TR_SWEEP_DIMS];
    int64_t value[TR_SWEEP_DIMS][NUMBERS];
};

/* ---- lists ---- */

/* A whole number of at most nine digits, or -1; *s is moved behind it. */
static int64_t take(const char **s)
{
    int64_t n = 0;
    int digits = 0;

    for (; isdigit((unsigned char)**s) && digits < 10; digits++)
        n = 10 * n + (*(*s)++ - '0');
    return digits > 0 && digits < 10 && n > 0 ? n : -1;
}

int tr_sweep_numbers(const char *list, int64_t *value, int most)
{
    int count = 0;

    for (const char *s = list;; s++) {
        int64_t first = take(&s), last = first;

        if (first > 0 && *s == '-') {
            s++;
            last = take(&s);
        }
        if (first < 0 || last < first || (*s != ',' && *s != '\0'))
            return 0;
        for (int64_t n = first; n <= last; n *= 2) {
            if (count == most)
                return 0;
            value[count++] = n;
        }
        if (*s == '\0')
            return count;
    }
}

/* Dimensions of a few values, from CHOSEN on, and of these such as are no numbers. */
enum { CHOSEN = TR_SWEEP_ZERO, WORDS = TR_SWEEP_RECOMPUTE, MOST_WORDS = 4 };
static const struct {
    const char *word[MOST_WORDS]; /* NULL behind the last */
    int64_t value[MOST_WORDS];
} choices[TR_SWEEP_DIMS - CHOSEN] = {
    [TR_SWEEP_ZERO - CHOSEN] = {{"0", "1", "2", "3"}, {0, 1, 2, 3}},
    [TR_SWEEP_RECOMPUTE - CHOSEN] = {{"none", "full"}, {TR_GRANULARITY_NONE, TR_GRANULARITY_FULL}},
    [TR_SWEEP_OFFLOAD - CHOSEN] = {{"none", "optimizer"}, {false, true}},
    [TR_SWEEP_ORDER - CHOSEN] = {{"tp-dp-pp", "tp-pp-dp"}, {false, true}},
    [TR_SWEEP_SPLIT - CHOSEN] = {{"even", "balanced"}, {false, true}},
};

static bool has_words(int dim)
{
    return dim >= CHOSEN && dim < TR_SWEEP_DIMS;
}

static int words_of(int dim)
{
    int n = 0;

    while (n < MOST_WORDS && choices[dim - CHOSEN].word[n])
        n++;
    return n;
}

/* Some of the words of a dimension, with commas between. */
static int words(const char *list, int dim, int64_t *value)
{
    int count = 0;

    for (const char *s = list;; s++) {
        const size_t n = strcspn(s, ",");
        int i = 0;

        while (i < words_of(dim) && (strlen(choices[dim - CHOSEN].word[i]) != n ||
                                     strncmp(s, choices[dim - CHOSEN].word[i], n) != 0))
            i++;
        if (count == words_of(dim) || i == words_of(dim))
            return 0;
        value[count++] = choices[dim - CHOSEN].value[i];
        s += n;
        if (*s == '\0')
            return count;
    }
}

/* All of them as a list; false where the values are numbers of any size. */
static bool words_of_list(int dim, char all[64])
{
    size_t n = 0;

    for (int i = 0; has_words(dim) && i < words_of(dim); i++)
        n += (size_t)snprintf(all + n, 64 - n, "%s%s", i ? "," : "", choices[dim - CHOSEN].word[i]);
    return n > 0;
}

static enum tr_status read_list(const char *list, int dim, struct lists *l)
{
    char all[64];

    l->count[dim] = has_words(dim) ? words(list, dim, l->value[dim])
                                   : tr_sweep_numbers(list, l->value[dim], NUMBERS);
    if (l->count[dim] > 0)
        return TR_OK;
    if (words_of_list(dim, all))
        return TR_FAIL(TR_ECONFIG, "--%s '%s' is no list of some of %s", dims[dim].list, list, all);
    return TR_FAIL(TR_ECONFIG,
                   "--%s '%s' is no list of whole numbers from 1: say 1,2,4, or 1-8, which is "
                   "1,2,4,8",
                   dims[dim].list, list);
}

static int64_t shapes_of(const struct lists *l)
{
    int64_t all = 1;

    for (int d = 0; d < TR_SWEEP_DIMS; d++)
        all *= l->count[d];
    return all;
}

static enum tr_status read_lists(const struct tr_sweep *w, const struct tr_sweep_place *place,
                                 struct lists *l)
{
    int64_t all;

    for (int d = 0; d < TR_SWEEP_DIMS; d++) {
        l->count[d] = 1;
        l->value[d][0] = TR_UNSET_INT;
        if (w->list[d])
            TR_TRY(read_list(w->list[d], d, l));
    }
    all = shapes_of(l);
    if (all > TR_SWEEP_MOST)
        return TR_FAIL(TR_ECONFIG,
                       "the lists make %lld shapes, and a sweep takes at most %d: "
                       "shorten one of them",
                       (long long)all, TR_SWEEP_MOST);
    if (w->list[TR_SWEEP_RANKS])
        return TR_OK;
    if (place->tasks <= 0)
        return TR_FAIL(TR_ECONFIG,
                       "how many ranks a run has is not known%s: use --ranks, as in --ranks 16",
                       place->job ? ", since the job has no --ntasks or --ntasks-per-node" : "");
    l->value[TR_SWEEP_RANKS][0] = place->tasks;
    return TR_OK;
}

/* Options that a later word cannot undo. */
static enum tr_status check_base(const struct tr_sweep *w, const struct tr_config *c,
                                 const struct tr_machine *m)
{
    if (w->list[TR_SWEEP_ORDER] && c->use_tp_pp_dp_mapping)
        return TR_FAIL(TR_ECONFIG, "--sweep-rank-order says in which order ranks are: leave out "
                                   "--use-tp-pp-dp-mapping");
    if (w->list[TR_SWEEP_SPLIT] && c->pipeline_model_parallel_layout)
        return TR_FAIL(TR_ECONFIG, "--sweep-split says how layers are split: leave out "
                                   "--pipeline-model-parallel-layout");
    if (w->list[TR_SWEEP_SPLIT] && !m && strstr(w->list[TR_SWEEP_SPLIT], "balanced"))
        return TR_FAIL(TR_ECONFIG,
                       "--sweep-split balanced goes by the times of layers and head on a "
                       "machine: give its profile with --machine");

    if (w->list[TR_SWEEP_ZERO] && c->use_distributed_optimizer)
        return TR_FAIL(TR_ECONFIG, "--sweep-zero-stage says what is sharded: leave out "
                                   "--use-distributed-optimizer, which is stage 1");
    if (w->list[TR_SWEEP_OFFLOAD] && (c->offload_optimizer || c->optimizer_cpu_offload))
        return TR_FAIL(TR_ECONFIG, "--sweep-offload says what is offloaded: leave out --%s",
                       c->offload_optimizer ? "offload-optimizer" : "optimizer-cpu-offload");
    if (w->list[TR_SWEEP_RECOMPUTE] && (c->checkpoint_activations || c->recompute_activations))
        return TR_FAIL(TR_ECONFIG, "--sweep-recompute says what is recomputed: leave out --%s",
                       c->checkpoint_activations ? "checkpoint-activations"
                                                 : "recompute-activations");
    if (w->list[TR_SWEEP_VIRTUAL] && c->num_layers_per_virtual_pipeline_stage != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG, "--sweep-virtual says how many chunks a stage has: leave out "
                                   "--num-layers-per-virtual-pipeline-stage");
    if (w->list[TR_SWEEP_VIRTUAL] && c->num_virtual_stages_per_pipeline_rank != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG, "--sweep-virtual says how many chunks a stage has: leave out "
                                   "--num-virtual-stages-per-pipeline-rank");
    return TR_OK;
}

/* ---- a shape ---- */

/* One chunk is the schedule without chunks, which has no option. */
static bool is_said(int dim, int64_t value)
{
    return value != TR_UNSET_INT && dim != TR_SWEEP_RANKS &&
           !(dim == TR_SWEEP_VIRTUAL && value == 1);
}

bool tr_sweep_says_length(const struct tr_sweep *w)
{
    const struct tr_config *c = w->base;

    return c->train_samples == TR_UNSET_INT && c->n_epochs == TR_UNSET_INT &&
           c->train_iters < w->iters; /* unset is less */
}

/* The options of training, which `c` borrows, with the values of the shape. */
static struct tr_config config_of(const struct tr_sweep *w, const struct tr_sweep_shape *s)
{
    struct tr_config c = *s->base;
    const int64_t granularity = s->value[TR_SWEEP_RECOMPUTE];

    for (int d = 0; d < WORDS; d++)
        if (is_said(d, s->value[d]))
            memcpy((char *)&c + dims[d].field, &s->value[d], sizeof s->value[d]);
    c.world_size = s->value[TR_SWEEP_RANKS];
    if (s->growth > 0.0)
        c.global_batch_size = (int64_t)llround(s->growth * (double)c.global_batch_size);
    if (s->value[TR_SWEEP_ORDER] != TR_UNSET_INT)
        c.use_tp_pp_dp_mapping = s->value[TR_SWEEP_ORDER];
    if (s->value[TR_SWEEP_OFFLOAD] != TR_UNSET_INT)
        c.optimizer_cpu_offload = s->value[TR_SWEEP_OFFLOAD];
    if (s->layers[0])
        c.pipeline_model_parallel_layout = (char *)(uintptr_t)s->layers;
    if (tr_sweep_says_length(w))
        c.train_iters = w->iters;
    if (granularity != TR_UNSET_INT) {
        c.recompute_granularity = (int)granularity;
        if (granularity == TR_GRANULARITY_NONE)
            c.recompute_method = TR_RECOMPUTE_NONE;
        else if (c.recompute_method == TR_RECOMPUTE_NONE)
            c.recompute_method = TR_RECOMPUTE_UNIFORM;
    }
    return c;
}

enum tr_status tr_sweep_shape_words(const struct tr_sweep *w, const struct tr_sweep_space *space,
                                    const struct tr_sweep_shape *s, struct tr_args *a)
{
    const struct tr_config c = config_of(w, s);
    enum tr_status status = tr_sweep_variants_words(&space->variants, s->variant, a);

    for (int d = 0; d < WORDS && status == TR_OK; d++) {
        char *text;

        if (!is_said(d, s->value[d]) && !(d == TR_SWEEP_GLOBAL && s->growth > 0.0))
            continue;
        text = tr_format("--%s %lld", dims[d].option,
                         (long long)(d == TR_SWEEP_GLOBAL ? c.global_batch_size : s->value[d]));
        status = tr_args_text(a, text);
        free(text);
    }
    if (status == TR_OK && s->value[TR_SWEEP_RECOMPUTE] != TR_UNSET_INT) {
        char *text = tr_format("--recompute-granularity %s --recompute-method %s",
                               tr_config_spelling("recompute-granularity", c.recompute_granularity),
                               tr_config_spelling("recompute-method", c.recompute_method));

        status = tr_args_text(a, text);
        free(text);
    }
    if (status == TR_OK && s->value[TR_SWEEP_OFFLOAD] == true)
        status = tr_args_text(a, "--optimizer-cpu-offload");
    if (status == TR_OK && s->value[TR_SWEEP_ORDER] == true)
        status = tr_args_text(a, "--use-tp-pp-dp-mapping");
    if (status == TR_OK && s->layers[0]) {
        char *text = tr_format("--pipeline-model-parallel-layout %s", s->layers);

        status = tr_args_text(a, text);
        free(text);
    }
    return status;
}

/* What stands behind the numbers of a name. */
static int name_words(bool recompute, struct tr_sweep_shape *s, int n)
{
    if (s->zero > 0 && s->value[TR_SWEEP_ZERO] != TR_UNSET_INT)
        n += snprintf(s->name + n, sizeof s->name - (size_t)n, "-zero%d", s->zero);
    if (s->bucket > 0)
        n += snprintf(s->name + n, sizeof s->name - (size_t)n, "-bucket%lld", (long long)s->bucket);
    return n + snprintf(s->name + n, sizeof s->name - (size_t)n, "%s%s%s%s",
                        recompute ? "-recompute" : "",
                        s->value[TR_SWEEP_OFFLOAD] == true ? "-offload" : "",
                        s->value[TR_SWEEP_ORDER] == true ? "-tp-pp-dp" : "",
                        s->layers[0] ? "-balanced" : "");
}

static void name_of(struct tr_sweep_shape *s)
{
    int n = snprintf(s->name, sizeof s->name, "tp%d-pp%d-dp%d-mbs%lld-gbs%lld", s->w, s->p, s->d,
                     (long long)s->micro_batch, (long long)s->global_batch);

    if (s->k > 1)
        n += snprintf(s->name + n, sizeof s->name - (size_t)n, "-vp%d", s->k);
    (void)name_words(s->recompute, s, n);
}

/* Of an impossible shape only the requested values are known. */
static void name_dropped(const struct tr_config *c, struct tr_sweep_shape *s)
{
    int n;

    s->ranks = (int)c->world_size;
    s->w = (int)c->tensor_model_parallel_size;
    s->p = (int)c->pipeline_model_parallel_size;
    s->zero = s->value[TR_SWEEP_ZERO] == TR_UNSET_INT ? 0 : (int)s->value[TR_SWEEP_ZERO];
    s->bucket = is_said(TR_SWEEP_BUCKET, s->value[TR_SWEEP_BUCKET]) ? c->ddp_bucket_size : 0;
    n = snprintf(s->name, sizeof s->name, "tp%d-pp%d", s->w, s->p);
    if (c->micro_batch_size != TR_UNSET_INT)
        n += snprintf(s->name + n, sizeof s->name - (size_t)n, "-mbs%lld",
                      (long long)c->micro_batch_size);
    if (c->global_batch_size != TR_UNSET_INT)
        n += snprintf(s->name + n, sizeof s->name - (size_t)n, "-gbs%lld",
                      (long long)c->global_batch_size);
    if (is_said(TR_SWEEP_VIRTUAL, s->value[TR_SWEEP_VIRTUAL]))
        n += snprintf(s->name + n, sizeof s->name - (size_t)n, "-vp%lld",
                      (long long)s->value[TR_SWEEP_VIRTUAL]);
    n = name_words(s->value[TR_SWEEP_RECOMPUTE] == TR_GRANULARITY_FULL, s, n);
    snprintf(s->name + n, sizeof s->name - (size_t)n, "-ranks%d", s->ranks);
}

static void take_plan(const struct tr_plan *p, struct tr_sweep_shape *s)
{
    const struct tr_shape *x = &p->shape;

    s->ranks = x->layout.world;
    s->w = x->layout.w;
    s->p = x->layout.p;
    s->d = x->layout.d;
    s->k = x->layout.k;
    s->micros = x->batches.micros;
    s->micro_batch = x->batches.micro_batch;
    s->global_batch = x->batches.global_batch;
    s->seq = x->dims.seq;
    s->tp_pp_dp = x->layout.tp_pp_dp;
    s->recompute = x->activations.recompute != TR_RECOMPUTE_NONE;
    s->offloads = x->offload.hosted > 0.0;
    s->zero = x->dp.weight_shards > 1      ? 3
              : x->dp.gradient_shards > 1  ? 2
              : x->dp.optimizer_shards > 1 ? 1
                                           : 0;
    /* One replica has no buckets. */
    s->bucket = s->d > 1 && is_said(TR_SWEEP_BUCKET, s->value[TR_SWEEP_BUCKET])
                    ? s->value[TR_SWEEP_BUCKET]
                    : 0;
    s->gradient =
        tr_data_parallel_wire(&x->dp, x->precision.half && !x->precision.grads_fp32 ? 2.0 : 4.0);
    s->parameters = p->params;
    s->hardware = tr_flops_count(TR_FLOPS_SC21, &x->dims, x->batches.global_batch, s->recompute);
    s->model = tr_flops_count(TR_FLOPS_2024, &x->dims, x->batches.global_batch, false);
    s->seconds = p->time.total;
    s->low = p->time.low;
    s->high = p->time.high;
    s->mib = p->stage[p->worst].memory.total / 1048576.0;
    s->bubble = (x->layout.p - 1.0) / (1.0 * x->layout.k * x->batches.micros + x->layout.p - 1.0);
    name_of(s);
}

/* Tensor-parallel groups are neighbours, so they stay inside nodes whose ranks they divide. */
static bool crosses_nodes(const struct tr_sweep_place *place, const struct tr_sweep_shape *s)
{
    return place->per_node > 0 && s->ranks > place->per_node && place->per_node % s->w != 0 &&
           !s->base->allow_tensor_parallel_across_nodes;
}

/* Iterations at the begin of a run in which what is to be timed is not on yet, and the option that says
   so. */
static int64_t plain_iterations(const struct tr_config *c, const struct tr_shape *s,
                                const char **option)
{
    const int64_t replicas = s->dp.warms_up ? c->train_warmup_steps : 0;
    const int64_t links = s->links.whole_samples / s->batches.global_batch;

    *option = replicas > links ? "train-warmup-steps" : "warmup-epochs";
    return replicas > links ? replicas : links;
}

/* Where another last stage is better than the one that there is. */
static void balance(const struct tr_sweep *w, const struct tr_machine *m, struct tr_sweep_shape *s)
{
    const struct tr_config c = config_of(w, s);
    char list[TR_LAYOUT_TEXT];
    struct tr_shape even;
    int64_t last;

    if (s->value[TR_SWEEP_SPLIT] != true || tr_shape_of(&c, (int)c.world_size, &even) != TR_OK)
        return;
    last = tr_plan_balanced(&even, m);
    if (last != TR_PLAN_EVEN)
        snprintf(s->layers, sizeof s->layers, "%s",
                 tr_plan_layout(even.dims.layers, even.layout.p, last, list));
}

/* What --sweep adds to its name. */
static void name_variant(const struct tr_sweep_space *space, struct tr_sweep_shape *s)
{
    char more[TR_SWEEP_NAME_MOST];
    const size_t n = strlen(s->name);

    tr_sweep_variants_name(&space->variants, s->variant, more);
    snprintf(s->name + n, sizeof s->name - n, "%s", more);
}

static void judge(const struct tr_sweep *w, const struct tr_sweep_place *place,
                  const struct tr_machine *m, struct tr_sweep_shape *s)
{
    struct tr_plan p = {0};
    struct tr_config c;
    const char *option;
    int64_t plain;

    balance(w, m, s);
    c = config_of(w, s);
    if (tr_plan_alone(&c, m, &p) != TR_OK) {
        name_dropped(&c, s);
        s->dropped = tr_format("%s", tr_last_error());
    } else {
        take_plan(&p, s);
        if (p.ours == TR_PLAN_TOO_MUCH)
            s->dropped = tr_format("does not fit: %.0f MiB of the %.0f of a %s", s->mib, m->memory,
                                   tr_processor_noun(tr_plan_processor(&p), 1));
        else if (crosses_nodes(place, s))
            s->dropped = tr_format("tensor-parallel groups of %d ranks would not be inside nodes "
                                   "of %d; --allow-tensor-parallel-across-nodes lets them",
                                   s->w, place->per_node);
        else if ((plain = plain_iterations(&c, &p.shape, &option)) > w->warmup)
            s->dropped = tr_format(
                "nothing is compressed in its first %lld iterations (--%s), and times begin to "
                "count after %lld: give --sweep-warmup %lld and more --sweep-iters, or --%s 0",
                (long long)plain, option, (long long)w->warmup, (long long)plain, option);
    }
    tr_plan_release(&p);
}

/* ---- all shapes ---- */

static bool is_there(const struct tr_sweep_space *space, const char *name)
{
    for (int i = 0; i < space->count; i++)
        if (strcmp(space->shape[i].name, name) == 0)
            return true;
    return false;
}

static int by_number(double a, double b)
{
    return a < b ? -1 : a > b;
}

static int order(const void *a, const void *b)
{
    const struct tr_sweep_shape *x = a, *y = b;
    int c = (x->dropped != NULL) - (y->dropped != NULL);

    if (c == 0 && !x->dropped)
        c = by_number(x->seconds / (double)x->global_batch, y->seconds / (double)y->global_batch);
    if (c == 0)
        c = by_number(x->bubble, y->bubble);
    return c ? c : strcmp(x->name, y->name);
}

static enum tr_status check_left(const struct tr_sweep_space *space)
{
    if (space->runs > 0)
        return TR_OK;
    if (space->count == 1)
        return TR_FAIL(TR_ECONFIG, "the only shape cannot be run: %s", space->shape[0].dropped);
    return TR_FAIL(TR_ECONFIG, "none of the %d shapes can be run; of %s: %s", space->count,
                   space->shape[0].name, space->shape[0].dropped);
}

/* The next combination, the last dimension first; false after the last one. */
static bool next(const struct lists *l, int *at)
{
    for (int d = TR_SWEEP_DIMS - 1; d >= 0; d--) {
        if (++at[d] < l->count[d])
            return true;
        at[d] = 0;
    }
    return false;
}

/* All shapes of a variant of --sweep. */
static void add_variant(const struct tr_sweep *w, const struct tr_sweep_place *place,
                        const struct tr_machine *m, const struct lists *l, int variant,
                        struct tr_sweep_space *out)
{
    int at[TR_SWEEP_DIMS] = {0};

    do {
        struct tr_sweep_shape *s = &out->shape[out->count];

        *s = (struct tr_sweep_shape){0};
        for (int d = 0; d < TR_SWEEP_DIMS; d++)
            s->value[d] = l->value[d][at[d]];
        s->variant = variant;
        s->base = &out->variants.config[variant];
        if (w->weak)
            s->growth = (double)s->value[TR_SWEEP_RANKS] / (double)l->value[TR_SWEEP_RANKS][0];
        judge(w, place, m, s);
        name_variant(out, s);
        if (is_there(out, s->name)) {
            free(s->dropped);
            continue;
        }
        out->runs += !s->dropped;
        out->count++;
    } while (next(l, at));
}

/* What grows must be said. */
static enum tr_status check_weak(const struct tr_sweep *w)
{
    if (!w->list[TR_SWEEP_GLOBAL] && w->base->global_batch_size == TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--sweep-weak-scaling takes the global batch size of the first of "
                       "--ranks and lets it grow: give --global-batch-size");
    return TR_OK;
}

enum tr_status tr_sweep_space_make(const struct tr_sweep *w, const struct tr_sweep_place *place,
                                   const struct tr_machine *m, struct tr_sweep_space *out)
{
    static struct lists l; /* too large for the stack */

    *out = (struct tr_sweep_space){0};
    TR_TRY(read_lists(w, place, &l));
    TR_TRY(tr_sweep_variants_read(w, TR_SWEEP_MOST / (int)shapes_of(&l), &out->variants));
    for (int i = 0; i < out->variants.number; i++)
        TR_TRY(check_base(w, &out->variants.config[i], m));
    if (w->weak)
        TR_TRY(check_weak(w));
    out->shape = calloc(TR_SWEEP_MOST, sizeof *out->shape);
    if (!out->shape)
        tr_die(TR_ERESOURCE, "no memory left for the shapes of a sweep");
    for (int variant = 0; variant < out->variants.number; variant++)
        add_variant(w, place, m, &l, variant, out);
    qsort(out->shape, (size_t)out->count, sizeof *out->shape, order);
    return check_left(out);
}

enum tr_status tr_sweep_space_only(struct tr_sweep_space *s, const char *name)
{
    int found = 0;

    while (found < s->count && strcmp(s->shape[found].name, name) != 0)
        found++;
    if (found == s->count)
        return TR_FAIL(TR_ECONFIG,
                       "--sweep-only %s: the lists have no such shape; --dry-run names those there "
                       "are",
                       name);
    if (s->shape[found].dropped)
        return TR_FAIL(TR_ECONFIG, "--sweep-only %s: it cannot be run: %s", name,
                       s->shape[found].dropped);
    for (int i = s->runs; i < s->count; i++)
        free(s->shape[i].dropped);
    s->shape[0] = s->shape[found];
    s->count = s->runs = 1;
    return TR_OK;
}

void tr_sweep_space_release(struct tr_sweep_space *s)
{
    for (int i = 0; i < s->count; i++)
        free(s->shape[i].dropped);
    free(s->shape);
    tr_sweep_variants_release(&s->variants);
    *s = (struct tr_sweep_space){0};
}
