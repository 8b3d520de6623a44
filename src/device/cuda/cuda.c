/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda.h"

#include <cuda_profiler_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

#include "device/cuda/cuda_attention.h"
#include "device/cuda/cuda_dense.h"
#include "device/cuda/cuda_find.h"
#include "device/cuda/cuda_graph.h"
#include "device/cuda/cuda_libs.h"
#include "device/cuda/cuda_move.h"
#include "device/cuda/cuda_product.h"
#include "device/host.h"
#include "util/log.h"
#include "util/clock.h"

static const double GIB = 1024.0 * 1024.0 * 1024.0;

/* Memory that reserve() gave. */
struct tr_cuda_block {
    struct tr_cuda_block *next;
    void *data;
    bool of_nccl;
};

struct tr_cuda *tr_cuda_of(const struct tr_device *d)
{
    return (struct tr_cuda *)d;
}

/* ---- faults ---- */

/* What another GPU, or the same one later, may do right. */
static bool is_of_hardware(cudaError_t error)
{
    return error == cudaErrorECCUncorrectable || error == cudaErrorHardwareStackError ||
           error == cudaErrorNvlinkUncorrectable || error == cudaErrorDevicesUnavailable ||
           error == cudaErrorSystemNotReady;
}

void tr_cuda_must(const struct tr_cuda *g, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return;
    tr_die(is_of_hardware(error) ? TR_ETEMP : TR_EINTERNAL,
           "GPU %d (%s, %s): %s failed with %s: %s; what fails may have been started earlier, and "
           "CUDA_LAUNCH_BLOCKING=1 shows where",
           g->ordinal, g->name, g->uuid, call, cudaGetErrorName(error), cudaGetErrorString(error));
}

void tr_cuda_die(const struct tr_cuda *g, const char *call, const char *why)
{
    tr_die(TR_EINTERNAL, "GPU %d (%s, %s): %s failed: %s", g->ordinal, g->name, g->uuid, call, why);
}

void tr_cuda_launched(const struct tr_queue *q, const char *kernel, int error)
{
    tr_cuda_must(tr_cuda_of(q->device), (cudaError_t)error, kernel);
}

/* ---- waiting ---- */

enum { SPIN_MICROSECONDS = 100, NAP_NANOSECONDS = 20000 };

/* A step that is nearly over is waited for with open eyes; for a longer one the core is given up in
   between, which other ranks may need. */
static void pause_until_asked_again(struct tr_cuda *g, double began)
{
    if (tr_now() - began < 1e-6 * SPIN_MICROSECONDS)
        return;
    if (g->watch)
        g->watch(g->watch_ctx);
    nanosleep(&(struct timespec){.tv_nsec = NAP_NANOSECONDS}, NULL);
}

void tr_cuda_wait_stream(struct tr_cuda *g, cudaStream_t s)
{
    const double began = tr_now();
    cudaError_t error;

    TR_ASSERT(!g->capturing);
    while ((error = cudaStreamQuery(s)) == cudaErrorNotReady)
        pause_until_asked_again(g, began);
    tr_cuda_must(g, error, "work on a stream");
}

void tr_cuda_wait_event(struct tr_cuda *g, cudaEvent_t e)
{
    const double began = tr_now();
    cudaError_t error;

    TR_ASSERT(!g->capturing);
    while ((error = cudaEventQuery(e)) == cudaErrorNotReady)
        pause_until_asked_again(g, began);
    tr_cuda_must(g, error, "work before an event");
}

static void cuda_wait(struct tr_queue *q)
{
    struct tr_cuda *g = tr_cuda_of(q->device);

    tr_cuda_wait_stream(g, g->compute);
}

/* ---- opening ---- */

/* A call that prepares the GPU and may fail for reasons of the machine. */
static enum tr_status prepare(const struct tr_cuda *g, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return TR_OK;
    return TR_FAIL(
        TR_ERESOURCE,
        "GPU %d (%s, %s) cannot be used: %s gives %s (%s); nvidia-smi shows who else uses "
        "it and how it is",
        g->ordinal, g->name, g->uuid, call, cudaGetErrorName(error), cudaGetErrorString(error));
}

/* One piece for all operations, of which attention may need most. */
static enum tr_status open_scratch(struct tr_cuda *g, enum tr_attention_by by)
{
    size_t bytes = 0;

    TR_TRY(tr_cuda_attention_open(g, by, &bytes));
    if (bytes < TR_CUDA_SCRATCH_BYTES)
        bytes = TR_CUDA_SCRATCH_BYTES;
    return prepare(g, cudaMalloc(&g->scratch, bytes), "cudaMalloc of scratch");
}

static enum tr_status open_parts(struct tr_cuda *g, const struct tr_device_how *how)
{
    TR_TRY(prepare(g, cudaSetDevice(g->ordinal), "cudaSetDevice"));
    TR_TRY(tr_cuda_find_code(g));
    TR_TRY(prepare(g, cudaStreamCreateWithFlags(&g->compute, cudaStreamNonBlocking),
                   "cudaStreamCreateWithFlags"));
    TR_TRY(tr_cuda_pace_open(&g->pace, g->compute));
    TR_TRY(open_scratch(g, how->attention));
    for (int i = 0; i < TR_MARKS; i++)
        TR_TRY(prepare(g, cudaEventCreate(&g->mark[i]), "cudaEventCreate"));
    TR_TRY(tr_cuda_moves_open(&g->moves));
    return tr_cuda_product_open(g, how->tune, &g->product);
}

static void cuda_close(struct tr_device *d)
{
    struct tr_cuda *g = tr_cuda_of(d);
    struct tr_cuda_block *next;

    if (!g)
        return;
    if (g->compute)
        tr_cuda_wait_stream(g, g->compute);
    tr_cuda_graphs_close(g);
    tr_cuda_attention_close(g);
    tr_cuda_product_close(g->product);
    tr_cuda_moves_close(g->moves);
    for (struct tr_cuda_block *b = g->blocks; b; b = next) {
        next = b->next;
#ifdef HAVE_NCCL
        if (b->of_nccl)
            (void)tr_nccl.ncclMemFree(b->data);
#endif
        if (!b->of_nccl)
            (void)cudaFree(b->data);
        free(b);
    }
    for (int i = 0; i < TR_MARKS; i++)
        if (g->mark[i])
            (void)cudaEventDestroy(g->mark[i]);
    tr_cuda_pace_close(&g->pace);
    if (g->scratch)
        (void)cudaFree(g->scratch);
    if (g->compute)
        (void)cudaStreamDestroy(g->compute);
    free(g);
}

/* NVIDIA's numbers of versions: 13000 is 13.0, 130100 is 13.1.0. */
static void add_version(struct tr_cuda *g, const char *name, long version, long unit)
{
    size_t n = strlen(g->line);

    snprintf(g->line + n, sizeof g->line - n, ", %s %ld.%ld", name, version / unit,
             unit == 1000 ? version % 1000 / 10 : version % unit / 100);
}

static void describe_into(struct tr_cuda *g, size_t bytes)
{
    int runtime = 0, driver = 0;
    size_t n;

    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaDriverGetVersion(&driver);
    snprintf(g->line, sizeof g->line, "cuda: %s (sm_%d, %d multiprocessors, %.1f GiB)", g->name,
             g->arch, g->processors, (double)bytes / GIB);
    add_version(g, "CUDA", runtime, 1000);
    add_version(g, "driver for", driver, 1000);
    add_version(g, "cuBLASLt", (long)tr_cublas.cublasLtGetVersion(), 10000);
    n = strlen(g->line);
    snprintf(g->line + n, sizeof g->line - n, ", attention by %s", tr_cuda_attention_describe(g));
}

static enum tr_status cuda_open(const struct tr_device_how *how, struct tr_device **out)
{
    struct tr_cuda *g = calloc(1, sizeof *g);
    size_t bytes = 0;
    enum tr_status s;

    *out = NULL;
    if (!g)
        return TR_FAIL(TR_ERESOURCE, "no memory left to open a device");
    g->tf32 = how->tf32;
    g->any_order = how->any_order;
    s = tr_host_count_threads(how, &g->threads);
    if (s == TR_OK)
        s = tr_cuda_find(how, g, &bytes);
    if (s == TR_OK)
        s = open_parts(g, how);
    if (s != TR_OK) {
        cuda_close((struct tr_device *)g);
        return s;
    }
    describe_into(g, bytes);
    snprintf(g->which, sizeof g->which, "GPU %d (%s)", g->ordinal, g->uuid);
    *out = (struct tr_device *)g;
    return TR_OK;
}

static int cuda_threads(const struct tr_device *d)
{
    return tr_cuda_of(d)->threads;
}

static const char *cuda_describe(const struct tr_device *d)
{
    return tr_cuda_of(d)->line;
}

static const char *cuda_which(const struct tr_device *d)
{
    return tr_cuda_of(d)->which;
}

static const char *cuda_uuid(const struct tr_device *d)
{
    return tr_cuda_of(d)->uuid;
}

static const char *cuda_kernels(const struct tr_device *d, enum tr_dtype type)
{
    (void)type;
    return tr_cuda_of(d)->line;
}

static const char *cuda_news(struct tr_device *d)
{
    const char *line = tr_cuda_told_next(&tr_cuda_of(d)->told);

    return line ? line : tr_cuda_graphs_news(tr_cuda_of(d));
}

/* ---- memory ---- */

/* Memory that NCCL gives can be registered with it, and then moves without copies on the way. */
static bool take_of_nccl(struct tr_cuda_block *b, size_t bytes)
{
#ifdef HAVE_NCCL
    b->of_nccl = tr_nccl.ncclMemAlloc && tr_nccl.ncclMemAlloc(&b->data, bytes) == ncclSuccess;
    if (!b->of_nccl)
        (void)cudaGetLastError(); /* cudaMalloc is asked next, and says what is wrong */
#else
    (void)b, (void)bytes;
#endif
    return b->of_nccl;
}

static enum tr_status take(struct tr_cuda *g, struct tr_cuda_block *b, size_t bytes)
{
    cudaError_t error;

    if (take_of_nccl(b, bytes))
        return TR_OK;
    error = cudaMalloc(&b->data, bytes);
    if (error == cudaSuccess)
        return TR_OK;
    (void)cudaGetLastError();
    return TR_FAIL(
        TR_ERESOURCE,
        "GPU %d (%s, %s) refuses %.2f GiB of memory in one piece (%s): use more GPUs or a "
        "smaller micro-batch",
        g->ordinal, g->name, g->uuid, (double)bytes / GIB, cudaGetErrorString(error));
}

static enum tr_status check_room(struct tr_cuda *g, size_t bytes)
{
    size_t left = 0, all = 0;
    char nccl[64] = "";

    TR_TRY(prepare(g, cudaMemGetInfo(&left, &all), "cudaMemGetInfo"));
    if (bytes <= left)
        return TR_OK;
    if (g->of_nccl > 0)
        snprintf(nccl, sizeof nccl, " (NCCL has taken %.2f)", (double)g->of_nccl / GIB);
    return TR_FAIL(
        TR_ERESOURCE,
        "this rank needs %.2f GiB of memory on its GPU, and GPU %d (%s) has %.2f of its "
        "%.2f GiB left%s: use more GPUs, a smaller micro-batch or recomputation, and see "
        "nvidia-smi for who else is there",
        (double)bytes / GIB, g->ordinal, g->name, (double)left / GIB, (double)all / GIB, nccl);
}

static enum tr_status cuda_reserve(struct tr_device *d, size_t bytes, void **out)
{
    struct tr_cuda *g = tr_cuda_of(d);
    struct tr_cuda_block *b;
    enum tr_status s;

    *out = NULL;
    TR_ASSERT(bytes > 0);
    TR_TRY(check_room(g, bytes));
    b = calloc(1, sizeof *b);
    if (!b)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the list of reservations");
    s = take(g, b, bytes);
    if (s != TR_OK) {
        free(b);
        return s;
    }
    b->next = g->blocks;
    g->blocks = b;
    TR_TRY(prepare(g, cudaMemsetAsync(b->data, 0, bytes, g->compute), "cudaMemsetAsync"));
    tr_cuda_wait_stream(g, g->compute);
    g->base = b->data;
    g->base_bytes = bytes;
    g->reserved_bytes += bytes;
    *out = b->data;
    return TR_OK;
}

/* Of its memory: the arena, which is all that is taken by reserve(). */
static void cuda_used(const struct tr_device *d, struct tr_device_used *out)
{
    const struct tr_cuda *g = tr_cuda_of(d);

    *out =
        (struct tr_device_used){.device = g->reserved_bytes, .host = tr_cuda_host_bytes(g->moves)};
}

/* ---- what kernels ask ---- */

void *tr_cuda_scratch(const struct tr_queue *q, size_t bytes)
{
    TR_ASSERT(bytes <= TR_CUDA_SCRATCH_BYTES);
    return tr_cuda_of(q->device)->scratch;
}

void *tr_cuda_stream(const struct tr_queue *q)
{
    struct tr_cuda *g = tr_cuda_of(q->device);

    tr_cuda_pace(g, &g->pace, 1);
    return g->compute;
}

int tr_cuda_arch(const struct tr_queue *q)
{
    return tr_cuda_of(q->device)->code;
}

size_t tr_cuda_shared(const struct tr_queue *q)
{
    return tr_cuda_of(q->device)->shared;
}

/* What CUDA was told, of all devices that this process opened: it outlives them. */
static struct {
    pthread_mutex_t lock;
    int count;
    struct allowance {
        const void *kernel;
        int ordinal;
        size_t bytes;
    } * list;
} allowed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct allowance *allowance_of(const void *kernel, int ordinal)
{
    for (int i = 0; i < allowed.count; i++)
        if (allowed.list[i].kernel == kernel && allowed.list[i].ordinal == ordinal)
            return &allowed.list[i];
    allowed.list = realloc(allowed.list, ((size_t)allowed.count + 1) * sizeof *allowed.list);
    if (!allowed.list)
        tr_die(TR_ERESOURCE, "no memory left for the list of kernels");
    allowed.list[allowed.count] = (struct allowance){.kernel = kernel, .ordinal = ordinal};
    return &allowed.list[allowed.count++];
}

void tr_cuda_allow_shared(const struct tr_queue *q, const void *kernel, size_t bytes)
{
    const struct tr_cuda *g = tr_cuda_of(q->device);
    struct allowance *a;

    pthread_mutex_lock(&allowed.lock);
    a = allowance_of(kernel, g->ordinal);
    if (bytes > a->bytes) {
        tr_cuda_must(
            g,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "cudaFuncSetAttribute");
        a->bytes = bytes;
    }
    pthread_mutex_unlock(&allowed.lock);
}

/* ---- time and profilers ---- */

static void cuda_mark(struct tr_queue *q, int i)
{
    struct tr_cuda *g = tr_cuda_of(q->device);

    TR_ASSERT(i >= 0 && i < TR_MARKS && !g->capturing);
    tr_cuda_pace(g, &g->pace, 1);
    tr_cuda_must(g, cudaEventRecord(g->mark[i], g->compute), "cudaEventRecord");
}

static double cuda_between(struct tr_queue *q, int from, int to)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    float milliseconds = 0.0f;

    tr_cuda_must(g, cudaEventElapsedTime(&milliseconds, g->mark[from], g->mark[to]),
                 "cudaEventElapsedTime");
    return 1e-3 * (double)milliseconds;
}

static void cuda_range(struct tr_queue *q, const char *name)
{
    (void)q;
#ifdef NVTX_VERSION
    if (name)
        nvtxRangePushA(name);
    else
        nvtxRangePop();
#else
    (void)name;
#endif
}

static void cuda_record(struct tr_queue *q, bool on)
{
    tr_cuda_must(tr_cuda_of(q->device), on ? cudaProfilerStart() : cudaProfilerStop(),
                 on ? "cudaProfilerStart" : "cudaProfilerStop");
}

const struct tr_backend tr_cuda = {
    .name = "cuda",
    .apart = true,
    .open = cuda_open,
    .close = cuda_close,
    .threads = cuda_threads,
    .describe = cuda_describe,
    .which = cuda_which,
    .uuid = cuda_uuid,
    .kernels = cuda_kernels,
    .news = cuda_news,
    .reserve = cuda_reserve,
    .reserve_host = tr_cuda_reserve_host,
    .used = cuda_used,
    .move = tr_cuda_move,
    .moved = tr_cuda_moved,
    .after = tr_cuda_after,
    .wait = cuda_wait,
    .upload = tr_cuda_upload,
    .download = tr_cuda_download,
    .mark = cuda_mark,
    .between = cuda_between,
    .range = cuda_range,
    .record = cuda_record,
    .capture = tr_cuda_capture,
    .captured = tr_cuda_captured,
    .replay = tr_cuda_replay,
    .attention_relative = tr_cuda_attention_relative,
    .attention_relative_bwd = tr_cuda_attention_relative_bwd,
    .adam8 = tr_cuda_adam8,
    .activate = tr_cuda_activate,
    .activate_bwd = tr_cuda_activate_bwd,
#define OP(name, tol, params) .name = tr_cuda_##name,
#include "device/ops.def"
#undef OP
};
