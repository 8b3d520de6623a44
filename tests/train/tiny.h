/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_TRAIN_TINY_H
#define TR_TESTS_TRAIN_TINY_H

#include "comm/mpi_check.h"

#include "config/config.h"
#include "train/run.h"
#include "train/step.h"

/*
 * Runs of tiny models inside a test program, without datasets: the tokens come from a function.  All
 * functions are collective over the world and use the checks of comm/mpi_check.h.
 */

/* TR_TEST_GEMM=own or onednn runs with bf16 weights under that choice of --cpu-gemm. */
static inline void tiny_gemm(struct tr_config *c)
{
    const char *gemm = getenv("TR_TEST_GEMM");

    if (gemm && c->bf16)
        c->cpu_gemm = strcmp(gemm, "onednn") == 0 ? TR_CPU_GEMM_ONEDNN : TR_CPU_GEMM_OWN;
}

/* Open a run from the words of an argument file; `sample` makes its tokens. */
static inline void tiny_open(struct tr_run *r, struct tr_config *c, const char *options,
                             enum tr_status (*sample)(struct tr_run *, enum tr_split, int64_t,
                                                      int32_t *))
{
    tr_config_init(c);
    assert_all_ok(tr_config_parse_text(c, options));
    tiny_gemm(c);
    assert_all_ok(tr_run_open(r, c, &world));
    r->sample = sample;
}

static inline void tiny_close(struct tr_run *r, struct tr_config *c)
{
    tr_run_close(r);
    tr_config_release(c);
}

/* Tokens from the place of the sample; skewed, so that there is something to learn. */
static inline enum tr_status tiny_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                         int32_t *text)
{
    struct tr_rng rng = tr_rng_key(7, TR_STREAM_INIT, (int)split, position);

    for (int64_t t = 0; t <= r->shape.dims.seq; t++) {
        double u = (double)tr_rng_u32(rng, (uint64_t)t) / 4294967296.0;

        text[t] = (int32_t)((double)r->shape.dims.vocab * u * u);
    }
    return TR_OK;
}

/* The loss, which ranks of the last stage know, on all ranks. */
static inline double tiny_loss(double mine)
{
    double all;

    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

#endif
