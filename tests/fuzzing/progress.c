/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.txt of earlier jobs. */
#include "telemetry/progress.h"

#include <sys/stat.h>

#include "fuzzing/fuzz.h"

static void run(const uint8_t *data, size_t size)
{
    struct tr_progress p;

    mkdir(fuzz_path("jobs"), 0777);
    fuzz_put("jobs/progress.txt", data, size);
    tr_progress_open(&p, fuzz_path("jobs"), 16, 1024, 1e12, 800, 1795357143);
    tr_progress_saved(&p, 100, 1600, 1795357743);
    tr_progress_close(&p);
}

static const char *const words[] = {"\t# GPUs: ",   "16", "\tStarting job",
                                    "operations: ", "\n", "2026-11-20 14:19:03",
                                    "Job ID: ",     NULL};
const struct fuzz_target fuzz_progress = {.name = "progress", .run = run, .words = words};
