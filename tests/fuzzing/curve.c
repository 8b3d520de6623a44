/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of `trireme bench coll`: what is taken has a time above 0 for any size. */
#include "sim/curve.h"

#include <stdlib.h>
#include <string.h>

#include "fuzzing/fuzz.h"

static void run(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    struct tr_sim_curve c;

    MUST(text);
    if (tr_sim_curve_read("table", text, &c) == TR_OK)
        for (int kind = TR_WORK_ALL_REDUCE; kind <= TR_WORK_REDUCE_SCATTER; kind++)
            for (double bytes = 1.0; bytes < 1e12 && c.of[kind].points > 0; bytes *= 7.0)
                MUST(tr_sim_curve_seconds(&c, (enum tr_work_collective_kind)kind, bytes) > 0.0);
    free(text);
}

static const char *const words[] = {"# coll: ", "\n", "all-reduce", "all-gather",
                                    "e308",     "-",  NULL};
const struct fuzz_target fuzz_curve = {
    .name = "curve", .run = run, .words = words, .files = "tests/fuzzing/corpus/curve/*"};
