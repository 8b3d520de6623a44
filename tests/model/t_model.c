/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/shape.h"
#include "golden/golden.h"
#include "model/chunk.h"
#include "model/visits.h"

/*
 * The whole model on one rank against PyTorch's numbers (tests/golden): logits, loss and every
 * gradient, for each backend.  Tolerances are relative to the largest element of a tensor: fp32 sums
 * over the few hundred terms here lose about 1e-6, and the golden numbers are exact.
 */
struct fixture {
    struct tr_shape shape;
    struct tr_comm self;
    struct tr_queue q;
    struct tr_model model;
    struct tr_chunk *chunk;
    struct tr_arena arena;
};

static void take(struct fixture *f)
{
    tr_params_plan(&f->model.params, &f->arena, TR_F32, TR_F32, true);
    tr_model_plan_tables(&f->model, &f->arena);
    tr_model_plan(&f->model, &f->arena);
    tr_chunk_plan(f->chunk, &f->arena);
}

/* The numbers of a tensor, in host memory that the caller frees. */
static float *numbers(struct tr_queue *q, const struct tr_tensor *t)
{
    float *x = malloc((size_t)tr_tensor_bytes(t));

    q->on->download(q, x, t);
    return x;
}

static void set_weights(struct tr_queue *q, struct tr_params *ps)
{
    for (int i = 0; i < ps->count; i++) {
        struct tr_tensor t = tr_param_value(ps, &ps->list[i]);
        int64_t real = ps->list[i].full[0] * ps->list[i].full[1];
        float *weight = malloc((size_t)real * sizeof *weight);

        /* Padding stays zero. */
        for (int64_t e = 0; e < real; e++)
            weight[e] = tr_golden_weight(ps->list[i].name, e);
        t = tr_tensor_span(&t, 0, real);
        q->on->upload(q, &t, weight);
        free(weight);
    }
}

static struct tr_shape golden_shape(int64_t padded)
{
    return (struct tr_shape){
        .layout = tr_layout_single(GOLDEN_L),
        .dims.family = *tr_family_find("gpt2"),
        .dims.layers = GOLDEN_L,
        .dims.hidden = GOLDEN_H,
        .dims.heads = GOLDEN_A,
        .dims.groups = GOLDEN_A,
        .dims.embed = GOLDEN_H,
        .dims.head_dim = GOLDEN_H / GOLDEN_A,
        .dims.ffn = GOLDEN_F,
        .dims.seq = GOLDEN_S,
        .dims.positions = GOLDEN_S,
        .dims.vocab = GOLDEN_V,
        .dims.vocab_padded = padded,
        .batches.micro_batch = GOLDEN_B,
        .batches.micros = GOLDEN_M,
    };
}

/* A chunk with memory for `slots` micro-batches, and the golden weights. */
static struct fixture *open_model(const struct tr_backend *backend, const struct tr_shape *shape,
                                  int slots)
{
    struct fixture *f = calloc(1, sizeof *f);
    void *memory;

    f->shape = *shape;
    tr_comm_self(&f->self);
    assert_ok(backend->open(&(struct tr_device_how){.threads = 1}, &f->q.device));
    f->q.on = backend;
    f->model = (struct tr_model){
        .dims = &f->shape.dims,
        .layout = &f->shape.layout,
        .activations = &f->shape.activations,
        .micro_batch = f->shape.batches.micro_batch,
        .tokens = f->shape.dims.seq,
        .tp = {.comm = &f->self},
        .q = &f->q,
        .norm = {.eps = 1e-5F},
        .training = true,
    };
    tr_params_list(&f->shape.dims, &f->shape.layout, 0, 0, &f->model.params);
    tr_model_open(&f->model);
    f->chunk = tr_chunk_open(
        &f->model, 0, 0,
        (struct tr_chunk_room){.slots = slots, .outputs = 1, .dinputs = 1, .doutputs = 1}, NULL);
    tr_arena_init(&f->arena);
    take(f);
    assert_ok(backend->reserve(f->q.device, f->arena.used_bytes, &memory));
    tr_arena_open(&f->arena, memory);
    take(f);
    tr_model_prepare(&f->model);
    set_weights(&f->q, &f->model.params);
    return f;
}

static struct fixture *open_fixture(const struct tr_backend *backend, int64_t padded)
{
    struct tr_shape shape = golden_shape(padded);

    return open_model(backend, &shape, 1);
}

static void close_fixture(struct fixture *f)
{
    tr_chunk_close(f->chunk);
    tr_model_close(&f->model);
    f->q.on->close(f->q.device);
    free(f);
}

static void forward(struct fixture *f, int micro)
{
    int32_t *text;
    int64_t *sample;

    tr_chunk_batch(f->chunk, &text, &sample);
    for (int b = 0; b < GOLDEN_B; b++) {
        sample[b] = micro * GOLDEN_B + b;
        for (int t = 0; t <= GOLDEN_S; t++)
            text[b * (GOLDEN_S + 1) + t] = tr_golden_token(sample[b], t);
    }
    tr_chunk_forward(f->chunk, micro, true);
}

static void compare(const char *what, const float *got, const float *want, int64_t count,
                    int64_t got_stride, int64_t width, double tolerance)
{
    double largest = 0.0, worst = 0.0;

    for (int64_t i = 0; i < count; i++) {
        double g = (double)got[i / width * got_stride + i % width];

        largest = fmax(largest, fabs((double)want[i]));
        worst = fmax(worst, fabs(g - (double)want[i]));
        if (!isfinite(g))
            worst = INFINITY;
    }
    if (!(worst <= tolerance * largest))
        fail_msg("%s is off by %g of %g", what, worst, largest);
}

static void against_golden(const struct tr_backend *backend, int64_t padded)
{
    struct fixture *f = open_fixture(backend, padded);
    struct tr_golden *g = tr_golden_open("gpt2_tiny");
    const float *losses = tr_golden_get(g, "micro_losses", GOLDEN_M);

    for (int micro = 0; micro < GOLDEN_M; micro++) {
        double loss;

        forward(f, micro);
        if (micro == 0) {
            struct tr_tensor logits = tr_chunk_logits(f->chunk);
            float *got = numbers(&f->q, &logits);

            compare("logits", got, tr_golden_get(g, "logits", (int64_t)GOLDEN_S * GOLDEN_V),
                    (int64_t)GOLDEN_S * GOLDEN_V, padded, GOLDEN_V, 2e-6);
            free(got);
        }
        loss = tr_chunk_take_loss(f->chunk);
        assert_true(fabs(loss - (double)losses[micro]) < 1e-6 * loss);
        tr_chunk_backward(f->chunk, micro, 1.0 / GOLDEN_M, true);
    }
    for (int i = 0; i < f->model.params.count; i++) {
        const struct tr_param *p = &f->model.params.list[i];
        struct tr_tensor grad = tr_param_grad(&f->model.params, p);
        int64_t count = p->full[0] * p->full[1];
        float *got = numbers(&f->q, &grad);

        compare(p->name, got, tr_golden_get_of(g, "grad", p->name, count), count, count, count,
                1e-5);
        free(got);
    }
    tr_golden_close(g);
    close_fixture(f);
}

/* A machine may lack the device of a backend. */
static bool is_there(const struct tr_backend *b)
{
    struct tr_device *d;

    if (b->open(&(struct tr_device_how){.threads = 1}, &d) != TR_OK)
        return false;
    b->close(d);
    return true;
}

static void golden(void **state)
{
    (void)state;
    for (const struct tr_backend *const *b = tr_backends(); *b; b++)
        if (is_there(*b))
            against_golden(*b, GOLDEN_V);
}

/* Padding of the vocabulary takes no part: the same numbers, and no gradient there. */
static void padding(void **state)
{
    (void)state;
    against_golden(tr_backend_find("auto"), 64);
}

/* Forward of all micro-batches, then backward of all: gradients that the caller frees. */
static float *gradients(const struct tr_shape *shape, size_t *arena_bytes)
{
    struct fixture *f = open_model(tr_backend_find("auto"), shape, GOLDEN_M);
    float *grads;

    f->model.attention_dropout = f->model.hidden_dropout = 0.1;
    for (int micro = 0; micro < GOLDEN_M; micro++)
        forward(f, micro);
    for (int micro = 0; micro < GOLDEN_M; micro++)
        tr_chunk_backward(f->chunk, micro, 1.0, true);
    grads = numbers(&f->q, &f->model.params.grads);
    *arena_bytes = f->arena.used_bytes;
    close_fixture(f);
    return grads;
}

/* Recomputed layers (activation checkpointing) give gradients with the same bits, and take less
   memory; uniform groups take less the longer they are, until one group's own memory outweighs
   it. */
static void recomputation(void **state)
{
    static const struct {
        int how;
        int64_t layers;
    } cases[] = {
        {TR_RECOMPUTE_UNIFORM, 1}, {TR_RECOMPUTE_UNIFORM, 2}, {TR_RECOMPUTE_UNIFORM, 3},
        {TR_RECOMPUTE_BLOCK, 2},   {TR_RECOMPUTE_BLOCK, 4},
    };
    struct tr_shape shape = golden_shape(GOLDEN_V);
    size_t kept_bytes, bytes;
    float *kept = gradients(&shape, &kept_bytes);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tr_shape s = shape;
        struct tr_params ps;
        float *again;

        s.activations.recompute = cases[i].how;
        s.activations.recompute_layers = cases[i].layers;
        again = gradients(&s, &bytes);
        tr_params_list(&s.dims, &s.layout, 0, 0, &ps);
        assert_memory_equal(kept, again, (size_t)ps.size * sizeof(float));
        assert_true(bytes < kept_bytes);
        tr_params_release(&ps);
        free(again);
    }
    free(kept);
}

/* With a second micro-batch between forward and backward the logits are made again, to the bit.  The
   second run also starts from the gradients that the first one left: what is set, not added to,
   overwrites them. */
static void logits_again(void **state)
{
    struct tr_shape shape = golden_shape(GOLDEN_V);
    struct fixture *f = open_model(tr_backend_find("auto"), &shape, 2);
    struct tr_params *ps = &f->model.params;
    size_t bytes = (size_t)ps->size * sizeof(float);
    float *once, *twice;

    (void)state;
    for (int micro = 0; micro < GOLDEN_M; micro++) {
        forward(f, micro);
        tr_chunk_backward(f->chunk, micro, 1.0, true);
    }
    once = numbers(&f->q, &ps->grads);
    for (int i = 0; i < ps->count; i++) {
        struct tr_tensor g = tr_param_grad(ps, &ps->list[i]);

        if (ps->list[i].adds)
            f->q.on->fill(&f->q, &g, 0.0F);
    }
    forward(f, 0);
    forward(f, 1);
    tr_chunk_backward(f->chunk, 0, 1.0, true);
    tr_chunk_backward(f->chunk, 1, 1.0, true);
    twice = numbers(&f->q, &ps->grads);
    assert_memory_equal(once, twice, bytes);
    free(once);
    free(twice);
    close_fixture(f);
}

/* What a pass comes to, and that it leaves each module before it comes to the next. */
struct seen {
    int n, inside, module[64];
};

static void note_enter(void *ctx, int module)
{
    struct seen *seen = ctx;

    assert_int_equal(seen->inside++, 0);
    seen->module[seen->n++] = module;
}

static void note_leave(void *ctx, int module)
{
    struct seen *seen = ctx;

    assert_int_equal(--seen->inside, 0);
    assert_int_equal(seen->module[seen->n - 1], module);
}

static void assert_visits(struct seen *seen, const struct fixture *f, bool backward)
{
    const struct tr_visits_of of = {f->model.activations, GOLDEN_L, true, true};
    struct tr_visit v[2 * GOLDEN_L + 2];
    const int n = tr_visits(&of, backward ? TR_VISITS_BACKWARD : TR_VISITS_FORWARD, v);

    assert_int_equal(seen->n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(seen->module[i], v[i].module);
    seen->n = 0;
}

/* Passes come to their modules in the order of model/visits.h. */
static void order(void **state)
{
    struct fixture *f = open_fixture(tr_backend_find("auto"), GOLDEN_V);
    struct seen seen = {0};

    (void)state;
    f->model.ctx = &seen;
    f->model.enter = note_enter;
    f->model.leave = note_leave;
    forward(f, 0);
    assert_visits(&seen, f, false);
    tr_chunk_backward(f->chunk, 0, 1.0, true);
    assert_visits(&seen, f, true);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),        cmocka_unit_test(padding), cmocka_unit_test(logits_again),
        cmocka_unit_test(recomputation), cmocka_unit_test(order),
    };
    return run_tap(tests);
}
