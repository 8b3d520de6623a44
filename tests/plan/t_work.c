/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "config/work.h"
#include "model/count.h"
#include "model/param.h"
#include "plan/plan.h"

/* What the lists of config/work.c say, against published numbers, the table of parameters, and the memory that
   the model itself plans. */

static void shape_of(const char *options, int world, struct tr_shape *s)
{
    struct tr_config c;

    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, options));
    assert_ok(tr_shape_of(&c, world, s));
    tr_config_release(&c);
}

/* Parameters as their authors count them: transformers' models of these names. */
static void parameters(void **state)
{
    static const struct {
        const char *options;
        double number;
        double wide; /* numbers of a word: in the embedding, in an output layer of its own */
    } list[] = {
        {"--model-family gpt2 --num-layers 48 --hidden-size 1600 --num-attention-heads 25 "
         "--max-position-embeddings 1024 --vocab-size 50257",
         1557611200.0, 1600},
        {"--model-family gptj --num-layers 28 --hidden-size 4096 --num-attention-heads 16 "
         "--max-position-embeddings 2048 --vocab-size 50400",
         6050882784.0, 2 * 4096 + 1},
        {"--model-family gpt-neox --num-layers 44 --hidden-size 6144 --num-attention-heads 64 "
         "--max-position-embeddings 2048 --vocab-size 50432",
         20554567680.0, 2 * 6144},
        {"--model-family llama3 --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
         "--max-position-embeddings 8192 --vocab-size 128256",
         8030261248.0, 2 * 4096},
        {"--model-family llama3 --num-layers 80 --hidden-size 8192 --num-attention-heads 64 "
         "--max-position-embeddings 8192 --vocab-size 128256",
         70553706496.0, 2 * 8192},
        {"--model-family bloom --num-layers 70 --hidden-size 14336 --num-attention-heads 112 "
         "--max-position-embeddings 2048 --vocab-size 250880",
         176247271424.0, 14336},
        {"--model-family deberta-v2 --num-layers 48 --hidden-size 1536 --num-attention-heads 24 "
         "--max-position-embeddings 512 --num-labels 2 --mock-data --vocab-size 128100",
         1566913538.0, 1536},
        {"--model-family deberta-v3 --num-layers 12 --hidden-size 768 --num-attention-heads 12 "
         "--max-position-embeddings 512 --num-labels 2 --mock-data --vocab-size 128100",
         184423682.0, 768},
    };

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct tr_shape s;
        char text[512];
        double words;

        snprintf(text, sizeof text,
                 "%s --seq-length 512 --micro-batch-size 1 --lr 1e-4 --train-iters 1 "
                 "--make-vocab-size-divisible-by 100",
                 list[i].options);
        shape_of(text, 1, &s);
        print_message("# %s: %.0f\n", s.dims.family.name, tr_count_parameters(&s.dims, false));
        assert_true(tr_count_parameters(&s.dims, false) == list[i].number);
        words = (double)(s.dims.vocab_padded - s.dims.vocab);
        assert_true(tr_count_parameters(&s.dims, true) == list[i].number + words * list[i].wide);
    }
}

/* ---- every family, on one rank, on two, and on more than there are groups ---- */

static const struct {
    int w;
    const char *more;
} layouts[] = {{1, "--bf16 --fp32-residual-connection"},
               {2, "--fp16"},
               {2, "--sequence-parallel --bf16"},
               {16, "--sequence-parallel"}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* Norms after each sublayer leave no residual stream that could be kept in fp32. */
static const char *more_of(const struct tr_family *f, int layout)
{
    if (f->encoder && layout > 1)
        return "--bf16";
    return f->place == TR_NORM_AFTER && layout == 0 ? "--bf16" : layouts[layout].more;
}

/* So wide that every tensor ends where one of the arena may (256 bytes), on 16 ranks, too. */
static void options_of(char text[768], const struct tr_family *f, int layout, int layers)
{
    snprintf(
        text, 768,
        "--model-family %s --num-layers %d --hidden-size 256 --num-attention-heads 16 "
        "--ffn-hidden-size 768 --seq-length 128 --max-position-embeddings 128 --vocab-size 4000 "
        "--micro-batch-size 8 --global-batch-size 8 --lr 1e-4 --train-iters 1 --backend cpu "
        "--tensor-model-parallel-size %d %s %s",
        f->name, layers, layouts[layout].w, more_of(f, layout),
        f->embed_width > 0 ? "--word-embed-proj-dim 128"
        : f->encoder
            ? "--num-labels 64 --mock-data --position-buckets 64 --max-relative-positions 128"
            : "");
}

static double planned(const struct tr_family *f, int layout, int layers, enum tr_label part)
{
    struct tr_config c;
    struct tr_plan p;
    char text[768];
    double bytes;

    options_of(text, f, layout, layers);
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, text));
    c.world_size = layouts[layout].w;
    assert_ok(tr_plan_alone(&c, NULL, &p));
    bytes = p.stage[0].memory.part[part];
    tr_plan_release(&p);
    tr_config_release(&c);
    return bytes;
}

/* What a layer keeps is what the arena has more where there is one layer more; what is left are the ends, and the
   places of 8 samples in the order of samples. */
static void memory(void **state)
{
    (void)state;
    for (int i = 0; tr_family_row(i); i++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            const struct tr_family *f = tr_family_row(i);
            const double one = planned(f, layout, 1, TR_LABEL_ACTIVATIONS);
            const double layer = planned(f, layout, 2, TR_LABEL_ACTIVATIONS) - one;
            struct tr_work_how how;
            struct tr_work work[3];
            struct tr_shape s;
            char text[768];
            double kept[3];

            options_of(text, f, layout, 1);
            shape_of(text, layouts[layout].w, &s);
            how = tr_work_how_of(&s);
            for (int part = TR_WORK_EMBED; part <= TR_WORK_HEAD; part++) {
                tr_work_of(&how, (enum tr_work_part)part, &work[part]);
                kept[part] = tr_work_kept_bytes(&work[part], &how);
            }
            print_message("# %s on %d: a layer keeps %.0f, planned %.0f; the ends %.0f, %.0f\n",
                          f->name, layouts[layout].w, kept[TR_WORK_LAYER], layer,
                          kept[TR_WORK_EMBED] + kept[TR_WORK_HEAD], one - layer);
            /* A table of relative positions has an odd number of rows. */
            assert_true(fabs(kept[TR_WORK_LAYER] - layer) < (f->encoder ? TR_ARENA_ALIGN : 1.0));
            if (s.dims.head == TR_HEAD_LANGUAGE)
                assert_true(kept[TR_WORK_EMBED] + kept[TR_WORK_HEAD] + TR_ARENA_ALIGN ==
                            one - layer);
            else /* a few numbers of each sample, each with an end of its own */
                assert_true(fabs(kept[TR_WORK_EMBED] + kept[TR_WORK_HEAD] - (one - layer)) <=
                            8.0 * TR_ARENA_ALIGN);
        }
}

/* Elements of the matrices of one kind of place, as the table of parameters has them. */
static double matrices(const struct tr_params *ps, bool layer)
{
    double sum = 0.0;

    for (int i = 0; i < ps->count; i++) {
        const struct tr_param *p = &ps->list[i];
        const bool table = p->row == TR_PARAM_POS_EMBED || p->row == TR_PARAM_WORD_EMBED ||
                           p->row == TR_PARAM_RELATIVE_TABLE;

        if (p->ndim == 2 && !table && (p->layer >= 0) == layer)
            sum += (double)p->elems;
    }
    return sum;
}

/* Products are with the matrices that are parameters, and with all of them. */
static void products(void **state)
{
    (void)state;
    for (int i = 0; tr_family_row(i); i++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            struct tr_work embed, layer, head;
            struct tr_params params;
            struct tr_work_how how;
            struct tr_shape s;
            char text[768];

            options_of(text, tr_family_row(i), layout, 1);
            shape_of(text, layouts[layout].w, &s);
            how = tr_work_how_of(&s);
            tr_work_of(&how, TR_WORK_EMBED, &embed);
            tr_work_of(&how, TR_WORK_LAYER, &layer);
            tr_work_of(&how, TR_WORK_HEAD, &head);
            tr_params_list(&s.dims, &s.layout, 0, 0, &params);
            assert_true(tr_work_weights(&layer) == matrices(&params, true));
            assert_true(tr_work_weights(&embed) + tr_work_weights(&head) ==
                        matrices(&params, false) +
                            (s.dims.family.tied
                                 ? (double)tr_param_find(&params, TR_PARAM_WORD_EMBED, -1)->elems
                                 : 0.0));
            tr_params_release(&params);
        }
}

/* Pairs that a window leaves, counted one by one. */
static void pairs(void **state)
{
    (void)state;
    for (int64_t window = 0; window <= 12; window++) {
        struct tr_shape s;
        struct tr_work_how how;
        struct tr_work work;
        char text[768];
        double seen = 0.0, all = 0.0;

        options_of(text, tr_family_find("mistral"), 0, 1);
        shape_of(text, 1, &s);
        s.dims.seq = 10;
        s.dims.family.window = window;
        s.batches.micro_batch = 3;
        how = tr_work_how_of(&s);
        tr_work_of(&how, TR_WORK_LAYER, &work);
        for (int64_t query = 0; query < 10; query++)
            for (int64_t key = 0; key <= query; key++) {
                all += 3.0;
                seen += window == 0 || query - key < window ? 3.0 : 0.0;
            }
        assert_true(work.attention.pairs == seen && work.attention.square == 300.0);
        assert_true(fabs(work.attention.share - seen / all) < 1e-12);
    }
}

/* Megatron-LM's layer sums up twice forward and twice backward (Shoeybi et al., 2019); with sequence parallelism
   each sum is a reduce-scatter and an all-gather, and both inputs are gathered again (Korthikanti et al., 2022).
   More ranks than groups gather the products of queries, keys and values. */
static void messages(void **state)
{
    static const struct {
        const char *family;
        int layout, forward, backward;
    } list[] = {{"gpt2", 0, 0, 0},   {"gpt2", 1, 4, 4}, {"gpt2", 2, 4, 6}, {"llama3", 2, 4, 6},
                {"llama3", 3, 4, 6}, {"gptj", 1, 4, 4}, {"gptj", 2, 3, 6}, {"gpt-neox", 2, 4, 6}};

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct tr_work_how how;
        struct tr_work work;
        struct tr_shape s;
        char text[768];
        double moved[2] = {0.0, 0.0}, extra = 0.0, bytes;

        options_of(text, tr_family_find(list[i].family), list[i].layout, 1);
        shape_of(text, layouts[list[i].layout].w, &s);
        how = tr_work_how_of(&s);
        tr_work_of(&how, TR_WORK_LAYER, &work);
        bytes = how.elem * 1024.0 * 256.0;
        for (int k = 0; k < work.collectives; k++)
            moved[work.collective[k].backward] +=
                work.collective[k].bytes *
                (work.collective[k].kind == TR_WORK_ALL_REDUCE ? 2.0 : 1.0);
        /* 16 heads and 8 groups, of 16 columns each. */
        if (layouts[list[i].layout].w > 8)
            extra = how.elem * 1024.0 * (16 + 2 * 8) * 16;
        assert_true(moved[0] == list[i].forward * bytes + extra);
        assert_true(moved[1] == list[i].backward * bytes + extra);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters), cmocka_unit_test(memory),   cmocka_unit_test(products),
        cmocka_unit_test(pairs),      cmocka_unit_test(messages),
    };

    return run_tap(tests);
}
