/* SPDX-License-Identifier: BSD-3-Clause */
/* The tracker of a folder of checkpoints that has one. */
#include <string.h>
#include <sys/stat.h>

#include "ckpt/path.h"
#include "fuzzing/fuzz.h"

static void run(const uint8_t *data, size_t size)
{
    char *file = NULL;

    mkdir(fuzz_path("save"), 0777);
    mkdir(fuzz_path("save/iter_0000100"), 0777);
    fuzz_put("save/iter_0000100/model_optim_rng.h5", "x", 1);
    fuzz_put("save/latest_checkpointed_iteration.txt", data, size);
    if (tr_ckpt_find(fuzz_path("save"), &file) == TR_OK)
        MUST(file && strstr(file, "/iter_"));
    free(file);
}

static const char *const words[] = {"release", "100", "\n", " ", "../", "%s", NULL};
const struct fuzz_target fuzz_tracker = {.name = "tracker", .run = run, .words = words};
