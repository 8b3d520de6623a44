/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/lists.h"

#include "config/config.h"
#include "config/shape.h"
#include "model/packing.h"
#include "pipeline/residency.h"

/*
 * What is put into the lists of schedules about weights and gradients: the checker has nothing against it, for
 * all kinds of lists, and it sees what is wrong when an instruction is missing, doubled or misplaced.
 */
static struct tr_dims dims(int64_t layers)
{
    return (struct tr_dims){
        .family = *tr_family_find("gpt2"),
        .layers = layers,
        .hidden = 8,
        .heads = 1,
        .groups = 1,
        .head_dim = 8,
        .embed = 8,
        .ffn = 32,
        .vocab = 11,
        .vocab_padded = 11,
        .positions = 4,
    };
}

/* A stage of a pipeline, its list, and what is said in it. */
struct stage {
    struct tr_dims dims;
    struct tr_layout layout;
    struct tr_activations activations;
    struct tr_params params;
    struct tr_residency how;
    struct tr_sched list;
};

/* With chunks of `size` elements and room for the weights of `slots` more than a layer has. */
static void give_chunks(struct stage *s, int rank, int64_t size, int slots)
{
    struct tr_chunking *c = &s->layout.chunks;
    struct tr_packing p;

    *c = (struct tr_chunking){.size = size, .value_bytes = 4, .grad_bytes = 4};
    tr_packing_of(&s->dims, &s->layout, rank, size, &p);
    c->memory = tr_packing_least(&p, c) + slots * p.largest * c->value_bytes;
}

static void open_stage(struct stage *s, struct want w, int64_t layers, int weights, int grads,
                       int rank, int64_t size)
{
    s->dims = dims(layers);
    s->layout = tr_layout_equal(1, w.p, 2, w.k, layers);
    s->layout.weight_windows = weights;
    s->layout.gradient_windows = grads;
    s->layout.part_shards = weights + grads > 0;
    if (size > 0)
        give_chunks(s, rank, size, weights);
    tr_params_list(&s->dims, &s->layout, 0, rank, &s->params);
    s->how.params = &s->params;
    s->how.layout = &s->layout;
    s->how.activations = &s->activations;
    s->how.stage = rank;
    assert_ok(build(&s->list, w, rank));
}

static void close_stage(struct stage *s)
{
    tr_sched_release(&s->list);
    tr_params_release(&s->params);
}

static void print(const struct tr_sched *s, char *text, size_t bytes)
{
    FILE *f = fmemopen(text, bytes, "w");

    assert_non_null(f);
    tr_sched_print(s, f);
    fclose(f);
}

/* One stage, two layers, one micro-batch: parts are the final norm, layers 1 and 0, positions, words. */
static void one_step(void **state)
{
    static const char plain[] = "rank 0: F0 B0 module3 reduce0 module2 reduce1 module1 reduce2 "
                                "module0 reduce3 reduce4\n";
    static const char sharded[] =
        "rank 0: fetch2 F0 module0 acquire2 fetch1 module1 release2 acquire1 module2 release1 "
        "module3 B0 clear0 clear4 module3 reduce0 clear1 acquire1 module2 release1 reduce1 "
        "clear2 acquire2 module1 release2 reduce2 clear3 module0 reduce3 reduce4 "
        "settle0 settle1 settle2 settle3 settle4\n";
    const struct want w = {.kind = TR_SCHED_1F1B, .p = 1, .k = 1, .m = 1};
    struct stage s = {.how = {.reduce = TR_REDUCE_LAST, .in_order = true}};
    char text[1024];

    (void)state;
    open_stage(&s, w, 2, 0, 0, 0, 0);
    assert_ok(tr_residency_add(&s.how, &s.list));
    print(&s.list, text, sizeof text);
    assert_string_equal(text, plain);
    close_stage(&s);

    s = (struct stage){.how = {.reduce = TR_REDUCE_EACH, .ahead = 1}};
    open_stage(&s, w, 2, 2, 2, 0, 0);
    assert_ok(tr_residency_add(&s.how, &s.list));
    print(&s.list, text, sizeof text);
    assert_string_equal(text, sharded);
    close_stage(&s);
}

struct kind {
    struct want want;
    int recompute;
    int64_t group;
};

static const struct kind kinds[] = {
    {{TR_SCHED_1F1B, 1, 1, 3, 0, false}, TR_RECOMPUTE_NONE, 0},
    {{TR_SCHED_1F1B, 2, 1, 4, 0, false}, TR_RECOMPUTE_UNIFORM, 2},
    {{TR_SCHED_1F1B, 4, 1, 6, 0, false}, TR_RECOMPUTE_BLOCK, 1},
    {{TR_SCHED_GPIPE, 2, 1, 3, 0, false}, TR_RECOMPUTE_UNIFORM, 1},
    {{TR_SCHED_INTERLEAVED, 2, 2, 4, 0, false}, TR_RECOMPUTE_NONE, 0},
    {{TR_SCHED_INTERLEAVED, 4, 2, 8, 0, true}, TR_RECOMPUTE_UNIFORM, 2},
    {{TR_SCHED_EVAL, 2, 2, 4, 0, false}, TR_RECOMPUTE_NONE, 0},
    {{TR_SCHED_ZB_H1, 1, 1, 3, 0, false}, TR_RECOMPUTE_NONE, 0},
    {{TR_SCHED_ZB_H1, 4, 1, 6, 0, false}, TR_RECOMPUTE_NONE, 0},
};

/* The ways of modes: all-reduce, sharded with gathers under way, sharded gradients, sharded weights with more or
   fewer windows, and gradients that are whole while weights are sharded. */
static const struct way {
    struct tr_residency how;
    int weights, grads;
    int64_t size; /* of chunks; `weights` are the slots that no layer needs */
} ways[] = {
    {{.reduce = TR_REDUCE_LAST, .in_order = true}, 0, 0, 0},
    {{.reduce = TR_REDUCE_LAST, .in_order = true, .arrives = true}, 0, 0, 0},
    {{.reduce = TR_REDUCE_EACH, .arrives = true}, 0, 2, 0},
    {{.reduce = TR_REDUCE_EACH, .at_once = true}, 0, 1, 0},
    {{.reduce = TR_REDUCE_EACH}, 1, 1, 0},
    {{.reduce = TR_REDUCE_EACH, .ahead = 1}, 2, 2, 0},
    {{.reduce = TR_REDUCE_EACH, .ahead = 3}, 4, 3, 0},
    {{.reduce = TR_REDUCE_EACH, .ahead = 2}, 64, 2, 0},
    {{.reduce = TR_REDUCE_LAST, .ahead = 1}, 2, 0, 0},
    {{.reduce = TR_REDUCE_EACH}, 0, 2, 300},
    {{.reduce = TR_REDUCE_EACH}, 1, 2, 300},
    {{.reduce = TR_REDUCE_EACH}, 3, 2, 400},
    {{.reduce = TR_REDUCE_EACH}, 1, 2, 1000},
    {{.reduce = TR_REDUCE_EACH}, 0, 2, 2500},
    {{.reduce = TR_REDUCE_EACH}, 1, 2, 2500},
    {{.reduce = TR_REDUCE_EACH}, 64, 2, 1500},
};

static void with_each(void (*work)(struct stage *s))
{
    enum { LAYERS = 16 };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++)
            for (int rank = 0; rank < kinds[i].want.p; rank++) {
                struct stage s = {.how = ways[k].how,
                                  .activations = {.recompute = kinds[i].recompute,
                                                  .recompute_layers = kinds[i].group}};

                /* Where the backward pass is split all weights and gradients are always there. */
                if (tr_sched_splits(kinds[i].want.kind) && ways[k].weights + ways[k].grads > 0)
                    continue;
                if (tr_sched_splits(kinds[i].want.kind) && ways[k].size > 0)
                    continue;
                open_stage(&s, kinds[i].want, LAYERS, ways[k].weights, ways[k].grads, rank,
                           ways[k].size);
                assert_ok(tr_residency_add(&s.how, &s.list));
                work(&s);
                close_stage(&s);
            }
}

static void is_right(struct stage *s)
{
    const char *fault = tr_residency_check(&s->how, &s->list);

    if (fault) {
        char text[4096] = "";

        print(&s->list, text, sizeof text - 1);
        fail_msg("%s in %s", fault, text);
    }
}

static void all_right(void **state)
{
    (void)state;
    with_each(is_right);
}

static void assert_wrong(const struct stage *s, const char *what, int at, struct tr_instr kept)
{
    char text[8192] = "";

    if (tr_residency_check(&s->how, &s->list))
        return;
    print(&s->list, text, sizeof text - 1);
    fail_msg("%s instruction %d, %d of %d, is not seen in %s", what, at, (int)kept.kind, kept.item,
             text);
}

/* Nothing can be left out, but: what is waited for early may be waited for, and a release that is not followed by
   a fetch into that window only says so. */
static void nothing_is_missing(struct stage *s)
{
    for (int i = 0; i < s->list.n; i++) {
        const struct tr_instr kept = s->list.list[i];

        if (kept.kind < TR_FETCH || kept.kind == TR_RELEASE)
            continue;
        s->list.list[i].kind = TR_WAIT;
        s->list.list[i].legs = 0;
        assert_wrong(s, "without", i, kept);
        s->list.list[i] = kept;
    }
}

static void left_out(void **state)
{
    (void)state;
    with_each(nothing_is_missing);
}

/* Of another part, each instruction is wrong. */
static void no_part_is_another(struct stage *s)
{
    for (int i = 0; i < s->list.n; i++) {
        const struct tr_instr kept = s->list.list[i];

        if (kept.kind < TR_FETCH || kept.kind == TR_MODULE)
            continue;
        s->list.list[i].item = (kept.item + 1) % s->params.parts;
        assert_wrong(s, "with another part,", i, kept);
        s->list.list[i] = kept;
    }
}

static void of_another_part(void **state)
{
    (void)state;
    with_each(no_part_is_another);
}

static int count_of(const struct tr_sched *s, enum tr_instr_kind kind)
{
    int n = 0;

    for (int i = 0; i < s->n; i++)
        n += s->list[i].kind == kind;
    return n;
}

/* In another window than the list says, a chunk is not free to come, or what is there goes too early. */
static void no_window_is_another(struct stage *s)
{
    for (int i = 0; i < s->list.n && s->layout.chunks.memory > 0; i++) {
        const struct tr_instr kept = s->list.list[i];

        if (kept.kind != TR_FETCH)
            continue;
        s->list.list[i].window = s->params.slots;
        assert_wrong(s, "in no window,", i, kept);
        s->list.list[i] = kept;
    }
}

static void of_another_window(void **state)
{
    (void)state;
    with_each(no_window_is_another);
}

/* Chunks that are a layer each are fetched as layers are, with as many slots as these have windows. */
/* Gradients of a layer are reduced behind the last TR_WGT, and no sooner. */
static void after_weights(void **state)
{
    struct stage s = {.how = {.reduce = TR_REDUCE_LAST, .in_order = true}};
    struct tr_instr early;
    const char *fault;
    int weights = 0, i, to;

    (void)state;
    open_stage(&s, (struct want){TR_SCHED_ZB_H1, 2, 1, 3, 0, false}, 4, 0, 0, 1, 0);
    assert_ok(tr_residency_add(&s.how, &s.list));
    assert_null(tr_residency_check(&s.how, &s.list));
    for (i = s.list.n - 1; s.list.list[i].kind != TR_REDUCE;)
        i--;
    for (int k = 0; k < i; k++)
        weights += s.list.list[k].kind == TR_WGT;
    assert_int_equal(weights, 3);
    for (to = i; s.list.list[to].kind != TR_BWD;)
        to--;
    assert_int_equal(s.list.list[to].at[0].micro, 2);
    early = s.list.list[i];
    memmove(&s.list.list[to + 2], &s.list.list[to + 1], (size_t)(i - to - 1) * sizeof *s.list.list);
    s.list.list[to + 1] = early;
    fault = tr_residency_check(&s.how, &s.list);
    assert_non_null(fault);
    assert_non_null(strstr(fault, "its gradients are not complete"));
    close_stage(&s);
}

static void chunk_traffic(void **state)
{
    enum { L = 8, M = 4 };
    const struct want w = {.kind = TR_SCHED_1F1B, .p = 1, .k = 1, .m = M};
    const int64_t layer = 12 * 8 * 8 + 13 * 8;

    (void)state;
    for (int slots = 1; slots <= L; slots++) {
        struct stage s = {.how = {.reduce = TR_REDUCE_EACH}};

        open_stage(&s, w, L, slots - 1, 2, 0, layer);
        assert_ok(tr_residency_add(&s.how, &s.list));
        is_right(&s);
        assert_int_equal(s.params.slots, slots);
        assert_int_equal(count_of(&s.list, TR_FETCH), L + (2 * M - 1) * (L - slots));
        assert_int_equal(tr_residency_count(&s.params, &s.list, 0).reductions, M * L);
        close_stage(&s);
    }
}

/* With as many windows as layers each is fetched once in a step; with two, in M micro-batches of L layers, forward
   and backward, a pass finds two of them there. */
static void traffic(void **state)
{
    enum { L = 8, M = 4 };
    const struct want w = {.kind = TR_SCHED_1F1B, .p = 1, .k = 1, .m = M};

    (void)state;
    for (int windows = 2; windows <= L; windows++) {
        struct stage s = {.how = {.reduce = TR_REDUCE_EACH, .ahead = windows - 1}};

        open_stage(&s, w, L, windows, 2, 0, 0);
        assert_ok(tr_residency_add(&s.how, &s.list));
        is_right(&s);
        assert_int_equal(count_of(&s.list, TR_FETCH), L + (2 * M - 1) * (L - windows));
        assert_int_equal(count_of(&s.list, TR_REDUCE), M * s.params.parts);
        close_stage(&s);
    }
}

/* With two windows and one layer ahead nothing but the first is waited for before it was fetched one module
   earlier: a fetch stands before the module that computes meanwhile. */
static void ahead_of_use(void **state)
{
    enum { L = 8 };
    const struct want w = {.kind = TR_SCHED_1F1B, .p = 1, .k = 1, .m = 2};
    struct stage s = {.how = {.reduce = TR_REDUCE_EACH, .ahead = 1}};
    bool fetched = false;

    (void)state;
    open_stage(&s, w, L, 2, 2, 0, 0);
    assert_ok(tr_residency_add(&s.how, &s.list));
    for (int i = 0; i < s.list.n; i++) {
        const struct tr_instr *in = &s.list.list[i];

        if (in->kind == TR_FETCH)
            fetched = true;
        else if (in->kind == TR_MODULE)
            fetched = false;
        else if (in->kind == TR_ACQUIRE)
            assert_false(fetched && i > 1 && s.list.list[i - 1].kind == TR_FETCH);
    }
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step),          cmocka_unit_test(all_right),
        cmocka_unit_test(left_out),          cmocka_unit_test(of_another_part),
        cmocka_unit_test(traffic),           cmocka_unit_test(ahead_of_use),
        cmocka_unit_test(of_another_window), cmocka_unit_test(chunk_traffic),
        cmocka_unit_test(after_weights),
    };
    return run_tap(tests);
}
