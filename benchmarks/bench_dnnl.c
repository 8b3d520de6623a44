/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_library.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif
#include <oneapi/dnnl/dnnl.h>

/* The widest instructions that it takes here. */
static const char *instructions(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } widest[] = {{dnnl_cpu_isa_avx512_core_amx, "avx512_amx"},
                  {dnnl_cpu_isa_avx512_core_bf16, "avx512_bf16"},
                  {dnnl_cpu_isa_avx512_core_vnni, "avx512_vnni"},
                  {dnnl_cpu_isa_avx512_core, "avx512"},
                  {dnnl_cpu_isa_avx2, "avx2"}};
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();

    for (size_t i = 0; i < sizeof widest / sizeof widest[0]; i++)
        if ((isa & (unsigned)widest[i].isa) == (unsigned)widest[i].isa)
            return widest[i].name;
    return "generic";
}

static const char *name(void)
{
    const dnnl_version_t *v = dnnl_version();
    static char text[64];

    snprintf(text, sizeof text, "oneDNN %d.%d.%d (%s)", v->major, v->minor, v->patch,
             instructions());
    return text;
}

static int threads(int wanted)
{
#if defined _OPENMP && DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
    omp_set_num_threads(wanted);
    return omp_get_max_threads();
#else
    return wanted == 1 && DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_SEQ ? 1 : 0;
#endif
}

static void must(dnnl_status_t s)
{
    if (s != dnnl_success)
        tr_die(TR_ERESOURCE, "oneDNN refuses a GEMM (status %d)", (int)s);
}

struct made {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t how;
    dnnl_primitive_t matmul;
    dnnl_memory_t a, b, c;
};

static dnnl_memory_desc_t matrix(enum tr_dtype type, int64_t rows, int64_t columns, bool turned)
{
    dnnl_dims_t sizes = {rows, columns}, strides = {turned ? 1 : columns, turned ? rows : 1};
    dnnl_memory_desc_t d;

    must(dnnl_memory_desc_init_by_strides(&d, 2, sizes, type == TR_F32 ? dnnl_f32 : dnnl_bf16,
                                          strides));
    return d;
}

static void open_product(struct bench_product *p)
{
    dnnl_memory_desc_t a = matrix(p->type, p->m, p->k, p->a_turned);
    dnnl_memory_desc_t b = matrix(p->type, p->k, p->n, p->b_turned);
    dnnl_memory_desc_t c = matrix(p->c_type, p->m, p->n, false);
    struct made *made = p->made = bench_memory(1, sizeof *made);
    dnnl_matmul_desc_t d;

    must(dnnl_engine_create(&made->engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags));
    must(dnnl_matmul_desc_init(&d, &a, &b, NULL, &c));
    must(dnnl_primitive_desc_create(&made->how, &d, NULL, made->engine, NULL));
    must(dnnl_primitive_create(&made->matmul, made->how));
    must(dnnl_memory_create(&made->a, &a, made->engine, p->a));
    must(dnnl_memory_create(&made->b, &b, made->engine, p->b));
    must(dnnl_memory_create(&made->c, &c, made->engine, p->c));
}

static void run(struct bench_product *p)
{
    const struct made *made = p->made;
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, made->a}, {DNNL_ARG_WEIGHTS, made->b}, {DNNL_ARG_DST, made->c}};

    must(dnnl_primitive_execute(made->matmul, made->stream, 3, args));
    must(dnnl_stream_wait(made->stream));
}

static void close_product(struct bench_product *p)
{
    struct made *made = p->made;

    dnnl_memory_destroy(made->a);
    dnnl_memory_destroy(made->b);
    dnnl_memory_destroy(made->c);
    dnnl_primitive_destroy(made->matmul);
    dnnl_primitive_desc_destroy(made->how);
    dnnl_stream_destroy(made->stream);
    dnnl_engine_destroy(made->engine);
    free(made);
}

const struct bench_library bench_dnnl = {.name = name,
                                         .bf16 = true,
                                         .threads = threads,
                                         .open = open_product,
                                         .run = run,
                                         .close = close_product};
