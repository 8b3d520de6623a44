/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry of clang's libFuzzer, instead of driver.c.  FUZZ_TARGET names the target; with FUZZ_SEEDS
 * its valid inputs are written into that folder, and nothing else happens.
 */
#include "fuzzing/fuzz.h"

#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fuzz_target *target;

static void write_seeds(const char *folder)
{
    static uint8_t data[FUZZ_MOST];
    size_t size;

    for (int n = 0; (size = fuzz_input(target, n, data, sizeof data)) > 0; n++) {
        char path[768];
        FILE *f;

        snprintf(path, sizeof path, "%s/seed-%03d", folder, n);
        f = fopen(path, "wbe");
        if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
            perror(path);
            exit(1);
        }
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("FUZZ_TARGET"), *seeds = getenv("FUZZ_SEEDS");

    (void)argc;
    (void)argv;
    target = fuzz_find(name ? name : "");
    if (!target) {
        fprintf(stderr, "FUZZ_TARGET names no target\n");
        exit(1);
    }
    fuzz_begin();
    atexit(fuzz_end);
    if (seeds) {
        write_seeds(seeds);
        exit(0);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    target->run(data, size);
    return 0;
}
