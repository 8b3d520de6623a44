/* SPDX-License-Identifier: BSD-3-Clause */
/* An argument file of `trireme train`, and the shape of the run that it asks for. */
#include <string.h>

#include "config/config.h"
#include "config/shape.h"
#include "fuzzing/fuzz.h"

/* The same words by name, as @FILE. */
static void run_file(const uint8_t *data, size_t size, enum tr_status expected)
{
    char word[800];
    char *argv[] = {word};
    struct tr_config c;

    fuzz_put("x.args", data, size);
    snprintf(word, sizeof word, "@%s", fuzz_path("x.args"));
    tr_config_init(&c);
    /* A file may name others and hold a zero byte, and a text cannot. */
    if (!memchr(data, '@', size) && !memchr(data, '\0', size))
        MUST((tr_config_parse(&c, 1, argv) == TR_OK) == (expected == TR_OK));
    tr_config_release(&c);
}

static void run(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    struct tr_config c;
    struct tr_shape shape;
    enum tr_status s;

    MUST(text);
    tr_config_init(&c);
    s = tr_config_parse_text(&c, text);
    run_file(data, size, s);
    if (s == TR_OK && !tr_config_missing(&c)) {
        for (int world = 1; world <= 4096; world *= 8)
            fuzz_any(tr_shape_of(&c, world, &shape));
    }
    tr_config_release(&c);
    free(text);
}

static const char *const words[] = {"--",
                                    "=",
                                    "\"",
                                    "'",
                                    "\\",
                                    "#",
                                    "\n",
                                    "--num-layers ",
                                    "--train-iters ",
                                    "--train-samples ",
                                    "--global-batch-size ",
                                    "--tensor-model-parallel-size ",
                                    "--data-parallel-sharding ",
                                    "--rampup-batch-size 16 16 1000 ",
                                    "--lr-decay-style WSD ",
                                    "--seq-length ",
                                    "--hidden-size ",
                                    "--vocab-size ",
                                    "--num-layers-per-virtual-pipeline-stage ",
                                    "--pipeline-model-parallel-size ",
                                    "--n-epochs ",
                                    "--data-blocks ",
                                    "--eval-iters ",
                                    "--eval-interval ",
                                    "--split ",
                                    "--mock-data ",
                                    NULL};
const struct fuzz_target fuzz_options = {
    .name = "options", .run = run, .words = words, .files = "jobs/models/*.args"};
