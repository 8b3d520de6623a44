/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <string.h>

#include "optim/stat.h"
#include "util/half.h"

/*
 * The norm of the parameters and the number of zeros in the gradients are of the whole model, so they
 * are the same in every layout: as a plain loop over the weights of a model in one piece has them.
 */
enum { LAYERS = 4, HIDDEN = 32, NORMS = (2 * LAYERS + 1) * HIDDEN };

static enum tr_status no_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    (void)r;
    (void)split;
    (void)position;
    (void)text;
    return TR_FAIL(TR_EDATA, "this test reads no data");
}

static const char *options(char text[1024], int w, int p, const char *more)
{
    snprintf(text, 1024,
             "--num-layers %d --hidden-size %d --num-attention-heads 8 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 90 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --global-batch-size 4 --train-iters 1 --lr 0.003 "
             "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s",
             LAYERS, HIDDEN, w, p, more);
    return text;
}

/* The model in one piece: how many parameters, and their norm. */
static int64_t whole(bool bf16, double *norm)
{
    char text[1024];
    struct tr_config c;
    struct tr_shape one;
    struct tr_params ps;
    int64_t number;
    float *value;
    double sum = 0.0;

    tr_config_init(&c);
    assert_all_ok(tr_config_parse_text(&c, options(text, 1, 1, "")));
    assert_all_ok(tr_shape_of(&c, 1, &one));
    one.dims.vocab_padded = one.dims.vocab;
    tr_params_list(&one.dims, &one.layout, 0, 0, &ps);
    value = calloc((size_t)ps.size, sizeof *value);
    assert_all(value != NULL);
    tr_params_draw(&ps, &one.dims, (uint64_t)c.seed, c.init_method_std, TR_WEIGHTS_SCALED, 1, 0,
                   ps.size, value);
    for (int64_t i = 0; i < ps.size; i++) {
        float x = bf16 ? tr_bf16_to_float(tr_bf16_from_float(value[i])) : value[i];

        sum += (double)x * (double)x;
    }
    free(value);
    tr_config_release(&c);
    number = tr_params_number(&ps);
    tr_params_release(&ps);
    *norm = sqrt(sum);
    return number;
}

/* Gradients: one in the weights of the layer norms, zero everywhere else. */
static void set_gradients(struct tr_run *r)
{
    const struct tr_params *ps = &r->model.params;

    r->queue.on->fill(&r->queue, &ps->grads, 0.0F);
    for (int i = 0; i < ps->count; i++) {
        struct tr_tensor g = tr_param_grad(ps, &ps->list[i]);

        if (strstr(ps->list[i].name, "layernorm.weight"))
            r->queue.on->fill(&r->queue, &g, 1.0F);
    }
    r->queue.on->wait(&r->queue);
}

static void check_layout(int w, int p, const char *more, bool bf16)
{
    char text[1024];
    struct tr_config c;
    struct tr_run r;
    double norm, wanted, zeros;
    int64_t number;

    tiny_open(&r, &c, options(text, w, p, more), no_sample);
    number = whole(bf16, &wanted);
    norm = tr_stat_params_norm(&r.optim, tr_dp_owners(&r.dp), &r.queue);
    set_gradients(&r);
    zeros = tr_stat_zeros(&r.optim, tr_dp_owners(&r.dp), &r.queue,
                          (r.shape.dims.vocab_padded - r.shape.dims.vocab) * HIDDEN);
    print_message("W=%d P=%d D=%d %s: norm %.9f, zeros %.0f\n", w, p, r.shape.layout.d, more, norm,
                  zeros);
    assert_all(fabs(norm / wanted - 1.0) < 1e-12);
    assert_all(zeros == (double)(number - NORMS));
    tiny_close(&r, &c);
}

static void every_layout(void **state)
{
    (void)state;
    for (int w = 1; w <= world.size; w++)
        for (int p = 1; w * p <= world.size && p <= LAYERS; p++)
            if (world.size % (w * p) == 0) {
                check_layout(w, p, "", false);
                check_layout(w, p, "--use-distributed-optimizer", false);
            }
    if (world.size == 4)
        check_layout(1, 2, "--num-virtual-stages-per-pipeline-rank 2", false);
    check_layout(1, 2, "--bf16", true);
    check_layout(1, 1, "--bf16 --use-distributed-optimizer", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
    };

    return run_mpi_tap(tests);
}
