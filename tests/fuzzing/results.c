/* SPDX-License-Identifier: BSD-3-Clause */
/* results.jsonl of a sweep, from which it goes on. */
#include "sweep/results.h"

#include <sys/stat.h>

#include "fuzzing/fuzz.h"

static void run(const uint8_t *data, size_t size)
{
    struct tr_sweep_results r;

    mkdir(fuzz_path("sweep"), 0777);
    fuzz_put("sweep/results.jsonl", data, size);
    if (tr_sweep_results_open(fuzz_path("sweep"), NULL, 0.0, &r) == TR_OK) {
        (void)tr_sweep_results_find(&r, "tp2-pp2-mbs4");
        for (size_t i = 0; i < json_array_size(r.newest); i++)
            (void)tr_sweep_is_good(json_array_get(r.newest, i));
    }
    tr_sweep_results_close(&r);
}

static const char *const words[] = {
    "\"schema\": 1", "\"shape\": ", "\"ok\": ", "\"runs\": ", "{", "}", "\n",
    "null",          "[",           "]",        NULL};
const struct fuzz_target fuzz_results = {.name = "results", .run = run, .words = words};
