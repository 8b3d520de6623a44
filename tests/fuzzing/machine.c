/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine profile: what was read and written again says the same. */
#include "config/machine.h"

#include <string.h>

#include "fuzzing/fuzz.h"

static void run(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size), *again = NULL;
    struct tr_machine m, n;
    size_t bytes;
    FILE *f;

    MUST(text);
    if (tr_machine_parse("x.conf", text, &m) == TR_OK) {
        f = open_memstream(&again, &bytes);
        MUST(f);
        tr_machine_write(&m, f);
        fclose(f);
        MUST(tr_machine_parse("x.conf", again, &n) == TR_OK);
        free(again);
    }
    free(text);
}

static const char *const words[] = {" = ", "#", "\n", "gpu_", "inf", "-", "e308", NULL};
const struct fuzz_target fuzz_machine = {
    .name = "machine", .run = run, .words = words, .files = "machines/*.conf"};
