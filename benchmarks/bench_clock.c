/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_clock [THREADS]: MHz of the cores now, as bench_clock() has it. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

int main(int argc, char **argv)
{
    long threads = argc > 1 ? strtol(argv[1], NULL, 10) : 1;

    if (argc > 2 || threads < 1 || threads > 4096) {
        fprintf(stderr, "usage: bench_clock [THREADS]\n");
        return 64;
    }
    printf("%.0f\n", bench_clock((int)threads));
    return 0;
}
