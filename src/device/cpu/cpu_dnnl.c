/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_dnnl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <oneapi/dnnl/dnnl.h>

#include "util/status.h"

/* A GEMM of one shape, ready to run in each thread. */
struct shape {
    int64_t m, n, k, a_stride, b_stride, c_stride;
    bool a_turned, b_turned, add;
};

/* The memory objects of a thread, which are pointed at the operands. */
struct operands {
    dnnl_memory_t a, b, c, scratch;
};

/* Where a thread works: left to itself oneDNN gives all threads that execute a primitive the same place. */
struct scratch {
    void *p;
    size_t bytes;
};

enum { SHAPES = 256 };

struct tr_dnnl {
    dnnl_engine_t engine;
    int threads, count;
    dnnl_stream_t *stream;   /* [threads] */
    struct scratch *scratch; /* [threads] */
    struct shape shape[SHAPES];
    size_t scratch_bytes[SHAPES];
    dnnl_primitive_t matmul[SHAPES];
    struct operands *operands[SHAPES]; /* [threads] */
};

static void must(dnnl_status_t s)
{
    if (s != dnnl_success)
        tr_die(TR_ERESOURCE,
               "oneDNN cannot make a GEMM (its status is %d): configure --without-dnnl uses the "
               "kernels of this program",
               (int)s);
}

static void no_memory(void)
{
    tr_die(TR_ERESOURCE, "no memory left for the GEMMs of oneDNN");
}

static void *need(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p)
        no_memory();
    return p;
}

/*
 * Which kernels multiply follows from the kind of processor, never from a measurement: two starts of a
 * run must have the same bits, and times on a shared machine differ each time.
 */
#if defined(__x86_64__)
static bool has_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16") != 0;
}

/* A matrix unit (AMX), or an AMD processor, which starts vdpbf16ps as often as an fp32 instruction of
   half its work.  Intel's without AMX start it a quarter as often. */
static bool gains(void)
{
    return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_amx ||
           __builtin_cpu_is("amd") != 0;
}
#else
static bool has_bf16(void)
{
    return false;
}

static bool gains(void)
{
    return false;
}
#endif

enum tr_status tr_dnnl_open(int threads, enum tr_gemm_by by, struct tr_dnnl **out)
{
    struct tr_dnnl *d;

    *out = NULL;
    if (by == TR_GEMM_ONEDNN && !has_bf16())
        return TR_FAIL(
            TR_ERESOURCE,
            "--cpu-gemm onednn needs a processor with bf16 instructions (avx512_bf16), and "
            "this one has none: use auto or own");
    if (by == TR_GEMM_OWN || !has_bf16() || (by == TR_GEMM_AUTO && !gains()))
        return TR_OK;
    d = need(1, sizeof *d);
    d->threads = threads;
    d->stream = need((size_t)threads, sizeof(dnnl_stream_t));
    d->scratch = need((size_t)threads, sizeof *d->scratch);
    must(dnnl_engine_create(&d->engine, dnnl_cpu, 0));
    for (int i = 0; i < threads; i++)
        must(dnnl_stream_create(&d->stream[i], d->engine, dnnl_stream_default_flags));
    *out = d;
    return TR_OK;
}

void tr_dnnl_close(struct tr_dnnl *d)
{
    if (!d)
        return;
    for (int s = 0; s < d->count; s++) {
        for (int i = 0; i < d->threads; i++) {
            dnnl_memory_destroy(d->operands[s][i].a);
            dnnl_memory_destroy(d->operands[s][i].b);
            dnnl_memory_destroy(d->operands[s][i].c);
            dnnl_memory_destroy(d->operands[s][i].scratch);
        }
        free(d->operands[s]);
        dnnl_primitive_destroy(d->matmul[s]);
    }
    for (int i = 0; i < d->threads; i++) {
        dnnl_stream_destroy(d->stream[i]);
        free(d->scratch[i].p);
    }
    dnnl_engine_destroy(d->engine);
    free(d->stream);
    free(d->scratch);
    free(d);
}

const char *tr_dnnl_name(const struct tr_dnnl *d)
{
    const dnnl_version_t *v = dnnl_version();
    static char text[64];

    (void)d;
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

void tr_dnnl_versions(char *built, size_t built_size, char *here, size_t here_size)
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(built, built_size, "%d.%d.%d", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR,
             DNNL_VERSION_PATCH);
    snprintf(here, here_size, "%d.%d.%d", v->major, v->minor, v->patch);
}

static dnnl_memory_desc_t matrix(dnnl_data_type_t type, int64_t rows, int64_t columns,
                                 int64_t stride, bool turned)
{
    dnnl_dims_t sizes = {rows, columns}, strides = {turned ? 1 : stride, turned ? stride : 1};
    dnnl_memory_desc_t d;

    must(dnnl_memory_desc_init_by_strides(&d, 2, sizes, type, strides));
    return d;
}

static void make(struct tr_dnnl *d, const struct shape *s)
{
    dnnl_memory_desc_t a = matrix(dnnl_bf16, s->m, s->k, s->a_stride, s->a_turned);
    dnnl_memory_desc_t b = matrix(dnnl_bf16, s->k, s->n, s->b_stride, s->b_turned);
    dnnl_memory_desc_t c = matrix(dnnl_f32, s->m, s->n, s->c_stride, false);
    dnnl_matmul_desc_t product;
    dnnl_primitive_desc_t how;
    const dnnl_memory_desc_t *scratch;
    dnnl_primitive_attr_t extra;
    dnnl_post_ops_t after;

    must(dnnl_primitive_attr_create(&extra));
    must(dnnl_post_ops_create(&after));
    if (s->add)
        must(dnnl_post_ops_append_sum(after, 1.0F));
    must(dnnl_primitive_attr_set_post_ops(extra, after));
    must(dnnl_primitive_attr_set_scratchpad_mode(extra, dnnl_scratchpad_mode_user));
    must(dnnl_matmul_desc_init(&product, &a, &b, NULL, &c));
    must(dnnl_primitive_desc_create(&how, &product, extra, d->engine, NULL));
    must(dnnl_primitive_create(&d->matmul[d->count], how));
    scratch = dnnl_primitive_desc_query_md(how, dnnl_query_scratchpad_md, 0);
    d->scratch_bytes[d->count] = dnnl_memory_desc_get_size(scratch);
    d->operands[d->count] = need((size_t)d->threads, sizeof(struct operands));
    for (int i = 0; i < d->threads; i++) {
        struct operands *o = &d->operands[d->count][i];

        must(dnnl_memory_create(&o->a, &a, d->engine, DNNL_MEMORY_NONE));
        must(dnnl_memory_create(&o->b, &b, d->engine, DNNL_MEMORY_NONE));
        must(dnnl_memory_create(&o->c, &c, d->engine, DNNL_MEMORY_NONE));
        must(dnnl_memory_create(&o->scratch, scratch, d->engine, DNNL_MEMORY_NONE));
    }
    dnnl_primitive_desc_destroy(how);
    dnnl_post_ops_destroy(after);
    dnnl_primitive_attr_destroy(extra);
    d->shape[d->count++] = *s;
}

static int find(struct tr_dnnl *d, const struct shape *s)
{
    int found = 0;

#pragma omp critical(tr_dnnl)
    {
        while (found < d->count && memcmp(&d->shape[found], s, sizeof *s) != 0)
            found++;
        if (found == d->count) {
            if (d->count == SHAPES)
                tr_die(TR_EINTERNAL, "more than %d GEMM shapes for oneDNN", SHAPES);
            make(d, s);
        }
    }
    return found;
}

static void *at(const struct tr_view *v, int64_t row, int64_t column)
{
    int64_t first = v->turned ? column * v->stride + row : row * v->stride + column;

    /* oneDNN takes its inputs by the same type of pointer as its outputs. */
    return (void *)((uintptr_t)v->p + (uintptr_t)(2 * first));
}

/* A part of a GEMM is for one thread, here and in oneDNN, which otherwise takes all that a region
   of one thread leaves, and plans for as many.  Returns what to restore. */
static int take_threads(int n)
{
#ifdef _OPENMP
    const int before = omp_get_max_threads();

    omp_set_num_threads(n);
    return before;
#else
    return n;
#endif
}

/* Only the thread itself calls this, between two GEMMs. */
static void *scratch_of(struct scratch *s, size_t bytes)
{
    if (s->bytes < bytes) {
        free(s->p);
        s->bytes = (bytes + 63) / 64 * 64;
        s->p = aligned_alloc(64, s->bytes);
        if (!s->p)
            no_memory();
    }
    return s->p;
}

void tr_dnnl_multiply(struct tr_dnnl *d, int thread, const struct tr_view *a,
                      const struct tr_view *b, int64_t i, int64_t m, int64_t j, int64_t n,
                      int64_t k, float *c, int64_t c_stride, bool add)
{
    struct shape s;
    dnnl_exec_arg_t args[4];
    struct operands *o;
    const int before = take_threads(1);
    int which;

    memset(&s, 0, sizeof s); /* the gaps, too: shapes are compared as bytes */
    s.m = m;
    s.n = n;
    s.k = k;
    s.a_stride = a->stride;
    s.b_stride = b->stride;
    s.c_stride = c_stride;
    s.a_turned = a->turned;
    s.b_turned = b->turned;
    s.add = add;
    which = find(d, &s);
    o = &d->operands[which][thread];
    must(dnnl_memory_set_data_handle(o->a, at(a, i, 0)));
    must(dnnl_memory_set_data_handle(o->b, at(b, 0, j)));
    must(dnnl_memory_set_data_handle(o->c, c));
    must(dnnl_memory_set_data_handle(o->scratch,
                                     scratch_of(&d->scratch[thread], d->scratch_bytes[which])));
    args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, o->a};
    args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, o->b};
    args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, o->c};
    args[3] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, o->scratch};
    must(dnnl_primitive_execute(d->matmul[which], d->stream[thread], 4, args));
    must(dnnl_stream_wait(d->stream[thread]));
    take_threads(before);
}
