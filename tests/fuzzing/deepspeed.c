/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations of DeepSpeed, whose keys become options. */
#include <string.h>

#include "config/deepspeed.h"
#include "fuzzing/fuzz.h"

static size_t seed(int n, uint8_t *out, size_t most)
{
    static const char text[] =
        "{\"train_micro_batch_size_per_gpu\": 2, \"fp16\": {\"enabled\": true, \"loss_scale\": 0,"
        "\"initial_scale_power\": 16}, \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": "
        "3e-5,"
        "\"betas\": [0.9, 0.95]}}, \"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": "
        "{\"warmup_type\": \"linear\", \"total_num_steps\": 10}}, \"zero_optimization\": "
        "{\"stage\": 1}}";

    if (n >= 1)
        return 0;
    MUST(sizeof text - 1 <= most);
    memcpy(out, text, sizeof text - 1);
    return sizeof text - 1;
}

static void put(void *ctx, const char *word, const char *where)
{
    (void)ctx;
    MUST(strncmp(word, "--", 2) == 0 && where[0] == ' ');
}

static void run(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);

    MUST(text);
    (void)!tr_deepspeed_text("x.json", text, put, NULL);
    free(text);
}

static const char *const words[] = {"null",
                                    "true",
                                    "[]",
                                    "{}",
                                    "\"auto\"",
                                    "1e999",
                                    "\"stage\": ",
                                    "\"enabled\": ",
                                    "\"params\": ",
                                    "\"tensorboard\": {\"enabled\": true, \"output_path\": ",
                                    NULL};
const struct fuzz_target fuzz_deepspeed = {
    .name = "deepspeed", .run = run, .seed = seed, .words = words};
