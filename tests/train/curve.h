/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_TRAIN_CURVE_H
#define TR_TESTS_TRAIN_CURVE_H

#include "train/tiny.h"

#include <ftw.h>
#include <math.h>

/*
 * The losses of a tiny GPT with dropout and a schedule of its learning rate, under options that must not change
 * them.  All functions are collective over the world.
 */
enum { CURVE_MOST = 50 };

struct curve {
    int steps;
    double loss[CURVE_MOST]; /* of each step, [steps] */
    double evaluated;        /* between the second step and the third, as an evaluation is */
};

/* `options` has at least the batch size; of one that is given twice the last counts. */
static inline void curve_open(struct tr_run *r, struct tr_config *c, int steps, const char *options)
{
    char text[PATH_MAX + 2048];

    TR_ASSERT(steps <= CURVE_MOST);
    snprintf(text, sizeof text,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --train-iters %d --lr 0.003 "
             "--lr-warmup-iters 2 --lr-decay-style cosine --init-method-std 0.1 "
             "--attention-dropout 0.1 --hidden-dropout 0.1 --seed 4321 %s",
             steps, options);
    tiny_open(r, c, text, tiny_sample);
}

/* The steps `from` to `to` of a run. */
static inline void curve_train(struct tr_run *r, int from, int to, struct curve *out)
{
    struct tr_step_result result;

    for (int i = from; i < to; i++) {
        tr_step(r, &result);
        r->iteration++;
        out->loss[i] = tiny_loss(result.loss);
        if (i == 1)
            out->evaluated = tiny_loss(tr_eval(r, TR_SPLIT_VALID, 3, 1));
    }
}

/* Of a run of its own. */
static inline void curve_of(int steps, const char *options, struct curve *out)
{
    struct tr_config c;
    struct tr_run r;

    memset(out, 0, sizeof *out);
    out->steps = steps;
    curve_open(&r, &c, steps, options);
    curve_train(&r, 0, steps, out);
    tiny_close(&r, &c);
}

static inline double curve_off(double a, double b)
{
    return isfinite(a) && isfinite(b) ? fabs(a / b - 1.0) : (double)INFINITY;
}

/* The largest relative difference. */
static inline double curve_apart(const struct curve *a, const struct curve *b)
{
    double worst = curve_off(a->evaluated, b->evaluated);

    TR_ASSERT(a->steps == b->steps);
    for (int i = 0; i < a->steps; i++)
        worst = fmax(worst, curve_off(a->loss[i], b->loss[i]));
    return worst;
}

static inline bool curve_same(const struct curve *a, const struct curve *b)
{
    return a->steps == b->steps && a->evaluated == b->evaluated &&
           memcmp(a->loss, b->loss, (size_t)a->steps * sizeof *a->loss) == 0;
}

/* A folder for checkpoints, and its end. */
static inline void curve_folder(char folder[PATH_MAX])
{
    const char *tmp = getenv("TMPDIR");

    memset(folder, 0, PATH_MAX);
    if (world.rank == 0)
        snprintf(folder, PATH_MAX, "%s/curve.XXXXXX", tmp ? tmp : "/tmp");
    assert_all(world.rank != 0 || mkdtemp(folder));
    MPI_Bcast(folder, PATH_MAX, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static inline int curve_drop(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
    (void)s, (void)flag, (void)ftw;
    return remove(path);
}

static inline void curve_remove(const char *folder)
{
    if (world.rank == 0)
        nftw(folder, curve_drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* The steps from `half` on of a run that goes on, under the options `later`, from the checkpoint that a run
   under `first` saved there; what that computed stands before it. */
static inline void curve_resumed(int steps, int half, const char *first, const char *later,
                                 struct curve *out)
{
    char folder[PATH_MAX], options[PATH_MAX + 1024];
    struct tr_config c;
    struct tr_run r;

    memset(out, 0, sizeof *out);
    out->steps = steps;
    curve_folder(folder);
    snprintf(options, sizeof options, "%s --save %s", first, folder);
    curve_open(&r, &c, steps, options);
    curve_train(&r, 0, half, out);
    assert_all_ok(tr_run_save(&r));
    tiny_close(&r, &c);
    snprintf(options, sizeof options, "%s --load %s", later, folder);
    curve_open(&r, &c, steps, options);
    assert_all_ok(tr_run_load(&r));
    assert_all(r.iteration == half);
    curve_train(&r, half, steps, out);
    tiny_close(&r, &c);
    curve_remove(folder);
}

#endif
