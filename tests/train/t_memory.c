/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <sys/resource.h>

/*
 * All memory of a step is planned before the first: the peak resident memory of every rank at
 * iteration 2 is that at iteration 200.  1 MiB is left for the pools of MPI, whose pages are touched
 * one after the other in the first hundred messages, and 2 MiB for its copies of the buckets under
 * way, 16 at most of up to 60 kB here, since how many are under way at once is a matter of timing; a
 * step that kept one bucket or one message would grow by 8 MB.  The sanitizers keep some of what is
 * freed.
 */
#ifdef TR_SANITIZERS
enum { SLACK_KB = 6144 };
#else
enum { SLACK_KB = 3072 };
#endif

static enum tr_status some_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                  int32_t *text)
{
    (void)split;
    for (int64_t t = 0; t <= r->shape.dims.seq; t++)
        text[t] = (int32_t)((position * 31 + t * 7) % r->shape.dims.vocab);
    return TR_OK;
}

static long peak_kb(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void steps(const char *layout)
{
    char options[1024];
    struct tr_config c;
    struct tr_run r;
    struct tr_step_result result;
    long early, late;

    snprintf(options, sizeof options,
             "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
             "--max-position-embeddings 64 --vocab-size 300 --micro-batch-size 2 "
             "--global-batch-size 8 --train-iters 200 --lr 0.001 %s",
             layout);
    tiny_open(&r, &c, options, some_sample);
    for (int i = 0; i < 2; i++)
        tr_step(&r, &result);
    early = peak_kb();
    for (int i = 2; i < 200; i++)
        tr_step(&r, &result);
    late = peak_kb();
    print_message("%s: %ld kB at iteration 2, %ld at 200\n", layout, early, late);
    assert_all(late - early <= SLACK_KB);
    tiny_close(&r, &c);
}

static void constant(void **state)
{
    (void)state;
    steps("--pipeline-model-parallel-size 2");
    steps("--tensor-model-parallel-size 2");
    steps("--ddp-bucket-size 10000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(constant)};

    return run_mpi_tap(tests);
}
