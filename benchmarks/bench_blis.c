/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_library.h"

#include <stdio.h>

#include <blis.h>

static const char *name(void)
{
    static char text[128];

    bli_init();
    snprintf(text, sizeof text, "BLIS %s (%s)", bli_info_get_version_str(),
             bli_arch_string(bli_arch_query_id()));
    return text;
}

static int threads(int wanted)
{
    bli_thread_set_num_threads(wanted);
    return (int)bli_thread_get_num_threads();
}

static void run(struct bench_product *p)
{
    float one = 1.0f, zero = 0.0f;

    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p->m, p->n, p->k, &one, p->a,
              p->a_turned ? 1 : p->k, p->a_turned ? p->m : 1, p->b, p->b_turned ? 1 : p->n,
              p->b_turned ? p->k : 1, &zero, p->c, p->n, 1);
}

const struct bench_library bench_blis = {.name = name, .threads = threads, .run = run};
