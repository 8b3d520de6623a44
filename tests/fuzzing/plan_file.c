/* SPDX-License-Identifier: BSD-3-Clause */
/* What `trireme plan --json` and `trireme plan --search --json` printed, as report reads it. */
#include "report/plan_file.h"

#include <stdlib.h>
#include <string.h>

#include "fuzzing/fuzz.h"

static const char plan[] =
    "{\"shape\": {\"ranks\": 4, \"tensor_parallel\": 1, \"pipeline_parallel\": 2, "
    "\"data_parallel\": 2, \"model_chunks\": 1, \"rank_order\": \"tp-dp-pp\"}, \"stages\": ["
    "{\"rank\": 0, \"bytes\": {\"total\": 4194304, \"context\": null, \"nccl\": 1048576}},\n"
    "{\"rank\": 2, \"bytes\": {\"total\": 2097152, \"kernel_scratch\": 1024}}]}";

static const char front[] =
    "{\"gpu_hours_of_run\": true, \"pareto\": ["
    "{\"world_size\": 8, \"global_batch_size\": 64, \"seconds\": 1.5, \"bytes\": 1e9, "
    "\"gpu_hours\": 12},\n"
    "{\"world_size\": 16, \"global_batch_size\": 64, \"seconds\": 0.8, \"bytes\": 6e8, "
    "\"gpu_hours\": 12.8}]}";

static size_t seed(int n, uint8_t *out, size_t most)
{
    const char *text = n == 0 ? plan : front;

    if (n > 1)
        return 0;
    MUST(strlen(text) <= most);
    memcpy(out, text, strlen(text));
    return strlen(text);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_records records = {0};
    struct tr_front runs;

    fuzz_put("plan.json", data, size);
    (void)tr_plan_file_is(fuzz_path("plan.json"));
    if (tr_plan_file_read(fuzz_path("plan.json"), &records) == TR_OK) {
        MUST(records.count == 1 && records.list[0].memories > 0);
        MUST(records.list[0].fact[TR_FACT_WORLD] >= 1.0);
    }
    tr_records_release(&records);
    if (tr_front_read(fuzz_path("plan.json"), &runs) == TR_OK)
        MUST(runs.count > 0 && runs.run[0].gpu_hours > 0.0);
    free(runs.run);
}

static const char *const words[] = {"\"shape\": ", "\"stages\": [",
                                    "\"rank\": ",  "\"bytes\": ",
                                    "\"total\": ", "\"pareto\": [",
                                    "{",           "}",
                                    "null",        "1e308",
                                    "-1",          "[",
                                    "]",           NULL};
const struct fuzz_target fuzz_plan_file = {
    .name = "plan_file", .run = run, .seed = seed, .words = words};
