/* SPDX-License-Identifier: BSD-3-Clause */
/* The options in a checkpoint, which --use-checkpoint-args takes. */
#include <string.h>

#include "config/config.h"
#include "fuzzing/fuzz.h"

static size_t seed(int n, uint8_t *out, size_t most)
{
    struct tr_config c;
    char *json;
    size_t size;

    if (n >= 1)
        return 0;
    tr_config_init(&c);
    json = tr_config_get_json(&c, "own");
    size = strlen(json);
    MUST(size <= most);
    memcpy(out, json, size);
    free(json);
    tr_config_release(&c);
    return size;
}

static void run(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);

    MUST(text);
    for (int model = 0; model < 2; model++) {
        struct tr_config c;

        tr_config_init(&c);
        if ((model ? tr_config_load_model : tr_config_load_json)(&c, text) == TR_OK)
            free(tr_config_get_json(&c, "own"));
        tr_config_release(&c);
    }
    free(text);
}

static const char *const words[] = {"null",
                                    "true",
                                    "[]",
                                    "{}",
                                    "\"\"",
                                    "\"on\"",
                                    "1e999",
                                    "[1, \"a\"]",
                                    "\"num_layers\": ",
                                    "\"data_path\": ",
                                    NULL};
const struct fuzz_target fuzz_json_options = {
    .name = "json_options", .run = run, .seed = seed, .words = words};
