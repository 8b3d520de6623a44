/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_sdpa.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/cuda_libs.h"
#include "device/cuda/cuda_plan.h"
#include "util/log.h"

/* Versions as cudnnGetVersion() has them.  Up to 9.15.0 keys beyond the last multiple of 128 were not masked
   unless lengths came as a tensor, which this graph does not bring: cudnn-frontend adds one up to that version, and
   refuses 9.10.0 and 9.10.1 altogether (its checks of what is supported).  From 9.8 on cuDNN can be asked for plans for
   a GPU that is only described, so what is older cannot be tested where there is none. */
enum { OLDEST = 90800, ANY_LENGTH = 91600, TILE = 128 };

/* A graph of some sizes and what cuDNN makes of it. */
struct made {
    struct tr_cuda_plan plan; /* .ready: cuDNN can do it */
    struct tr_sdpa_sizes sizes;
    enum tr_dtype type;
    bool backward;
    struct tr_sdpa_graph graph;
    struct made *next;
};

struct tr_cuda_sdpa {
    struct tr_cuda_plan_on on;
    size_t room;
    bool wanted, told[2]; /* of forward and backward: what cuDNN does not do */
    struct made *made;
};

static int version(void)
{
    return (int)tr_cudnn.cudnnGetVersion();
}

const char *tr_cuda_sdpa_name(void)
{
    static char text[40];

    snprintf(text, sizeof text, "cuDNN %d.%d.%d", version() / 10000, version() / 100 % 100,
             version() % 100);
    return text;
}

static enum tr_status check(const struct tr_cuda_sdpa_how *how)
{
    if (version() < OLDEST)
        return TR_FAIL(TR_ERESOURCE,
                       "%s is too old for attention, which takes 9.8: load a newer module, or use "
                       "--attention-backend flash",
                       tr_cuda_sdpa_name());
    if (how->arch < 80 || how->arch > 99)
        return TR_FAIL(TR_ECONFIG,
                       "cuDNN's attention is for GPUs of compute capability 8 and 9, and this one "
                       "has %d.%d: use --attention-backend flash",
                       how->arch / 10, how->arch % 10);
    return TR_OK;
}

/* The GPU in use, or the one described. */
static enum tr_status open_device(const struct tr_cuda_sdpa_how *how, struct tr_cuda_plan_on *on)
{
    cudnnStatus_t s;

    if (how->described)
        return tr_cuda_plan_described(how->described, &on->described);
    s = tr_cudnn.cudnnCreate(&on->handle);
    if (s == CUDNN_STATUS_SUCCESS)
        s = tr_cudnn.cudnnSetStream(on->handle, (cudaStream_t)how->stream);
    return s == CUDNN_STATUS_SUCCESS
               ? TR_OK
               : TR_FAIL(TR_ERESOURCE, "%s does not start (%s): use --attention-backend flash",
                         tr_cuda_sdpa_name(), tr_cudnn.cudnnGetErrorString(s));
}

enum tr_status tr_cuda_sdpa_open(const struct tr_cuda_sdpa_how *how, struct tr_cuda_sdpa **out)
{
    struct tr_cuda_sdpa *c;
    enum tr_status s;

    TR_TRY(tr_cudnn_open());
    TR_TRY(check(how));
    c = calloc(1, sizeof *c);
    if (!c)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the plans of cuDNN");
    c->room = how->room;
    c->wanted = how->wanted;
    s = open_device(how, &c->on);
    if (s != TR_OK) {
        tr_cuda_sdpa_close(c);
        return s;
    }
    *out = c;
    return TR_OK;
}

void tr_cuda_sdpa_close(struct tr_cuda_sdpa *c)
{
    while (c->made) {
        struct made *m = c->made;

        c->made = m->next;
        tr_cuda_plan_release(&m->plan);
        free(m);
    }
    if (c->on.described)
        tr_cudnn.cudnnBackendDestroyDescriptor(c->on.described);
    if (c->on.handle)
        tr_cudnn.cudnnDestroy(c->on.handle);
    free(c);
}

static bool same(struct tr_sdpa_sizes a, struct tr_sdpa_sizes b)
{
    return a.b == b.b && a.heads == b.heads && a.t == b.t && a.d == b.d &&
           a.row_heads == b.row_heads && a.any_order == b.any_order;
}

/* Scratch that a plan leaves to cuDNN. */
static size_t room_of(const struct tr_cuda_sdpa *c, struct tr_sdpa_sizes s, bool backward)
{
    return backward ? c->room - tr_sdpa_sums_bytes(s) : c->room;
}

static struct made *make(struct tr_cuda_sdpa *c, struct tr_sdpa_sizes s,
                         const struct tr_cuda_sdpa_call *call)
{
    struct made *m = calloc(1, sizeof *m);

    if (!m)
        tr_die(TR_ERESOURCE, "no memory left for a plan of cuDNN");
    m->sizes = s;
    m->type = call->type;
    m->backward = call->backward;
    (m->backward ? tr_sdpa_backward : tr_sdpa_forward)(s, &m->graph);
    tr_cuda_plan_make(&m->plan, &c->on, &m->graph,
                      &(struct tr_cuda_plan_as){.type = m->type,
                                                .room = room_of(c, s, m->backward),
                                                .any_order = m->backward && s.any_order});
    m->next = c->made;
    c->made = m;
    return m;
}

static struct made *find(struct tr_cuda_sdpa *c, struct tr_sdpa_sizes s,
                         const struct tr_cuda_sdpa_call *call)
{
    for (struct made *m = c->made; m; m = m->next)
        if (m->backward == call->backward && m->type == call->type && same(m->sizes, s))
            return m;
    return make(c, s, call);
}

/* Forward needs next to no scratch, so it takes the batch as a whole. */
static struct tr_sdpa_parts parts_of(const struct tr_cuda_sdpa *c,
                                     const struct tr_cuda_sdpa_call *call)
{
    return tr_sdpa_share(call->sizes, call->backward ? c->room : SIZE_MAX);
}

static struct made *part_of(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                            struct tr_sdpa_part part)
{
    struct tr_sdpa_sizes s = call->sizes;

    s.b = part.b;
    s.heads = part.heads;
    return find(c, s, call);
}

/* Why cuDNN of that version can't be asked for lengths of t, or NULL. */
const char *tr_cuda_sdpa_refuses(int of, int64_t t)
{
    if (of == 91000 || of == 91001)
        return "cuDNN 9.10.0 and 9.10.1 are known for wrong results of attention";
    if (of < ANY_LENGTH && t % TILE != 0)
        return "cuDNN before 9.16 takes sequences of a multiple of 128 tokens";
    return NULL;
}

static const char *refusal(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call)
{
    struct tr_sdpa_parts parts = parts_of(c, call);
    const char *why = tr_cuda_sdpa_refuses(version(), call->sizes.t);

    if (why)
        return why;
    if ((call->type != TR_F16 && call->type != TR_BF16) || call->sizes.d % 8 || call->sizes.t < 2)
        return "cuDNN takes fp16 or bf16, and heads of a multiple of 8";
    if (parts.count == 0)
        return "scores of one head alone do not fit into the scratch of cuDNN";
    for (int64_t i = 0; i < parts.count; i++) {
        const struct made *m = part_of(c, call, tr_sdpa_part(parts, i));

        if (!m->plan.ready)
            return m->plan.why;
    }
    return NULL;
}

/* Who asks for cuDNN is warned where it does not come, once: it is the same in every layer. */
bool tr_cuda_sdpa_served(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                         const char **why)
{
    *why = refusal(c, call);
    if (*why && c->wanted && !c->told[call->backward])
        tr_log_rank0(TR_LOG_WARNING,
                     "cuDNN does not do %s of %lld tokens with heads of %lld in %s (%s), so "
                     "kernels of this program do",
                     call->backward ? "the gradient of attention" : "attention",
                     (long long)call->sizes.t, (long long)call->sizes.d, tr_dtype_name(call->type),
                     *why);
    c->told[call->backward] |= *why != NULL;
    return !*why;
}

int64_t tr_cuda_sdpa_parts(const struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call)
{
    return parts_of(c, call).count;
}

size_t tr_cuda_sdpa_bytes(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call)
{
    struct tr_sdpa_parts parts = parts_of(c, call);
    size_t most = 0;

    for (int64_t i = 0; i < parts.count; i++) {
        const struct made *m = part_of(c, call, tr_sdpa_part(parts, i));
        size_t bytes = m->plan.workspace + (m->backward ? tr_sdpa_sums_bytes(m->sizes) : 0);

        most = bytes > most ? bytes : most;
    }
    return most;
}

static char *address_of(const struct tr_cuda_sdpa_call *call, enum tr_sdpa_name n)
{
    switch (n) {
    case TR_SDPA_CTX:
        return call->ctx;
    case TR_SDPA_LSE:
        return call->lse;
    case TR_SDPA_DCTX:
        return call->dctx;
    case TR_SDPA_DQ:
    case TR_SDPA_DK:
    case TR_SDPA_DV:
        return call->dqkv;
    default:
        return call->qkv;
    }
}

static const char *run_part(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                            struct tr_sdpa_part part, char *scratch)
{
    const struct made *m = part_of(c, call, part);
    void *at[TR_SDPA_NAMES] = {NULL};
    float value[TR_SDPA_NAMES];

    for (int i = 0; i < TR_SDPA_NAMES; i++) {
        enum tr_sdpa_name n = (enum tr_sdpa_name)i;
        int64_t offset = tr_sdpa_offset(call->sizes, part, n);

        value[i] = tr_sdpa_value(n, call->scale);
        if (m->graph.tensor[i].place == TR_SDPA_VALUE)
            at[i] = &value[i];
        else if (n == TR_SDPA_ROWSUM)
            at[i] = scratch;
        else if (n == TR_SDPA_DQ_SUM)
            at[i] = scratch + tr_sdpa_rowsum_bytes(m->sizes);
        else if (m->graph.tensor[i].place == TR_SDPA_MEMORY)
            at[i] = address_of(call, n) + offset * (n == TR_SDPA_LSE ? 4 : 2);
    }
    if (m->backward)
        scratch += tr_sdpa_sums_bytes(m->sizes);
    return tr_cuda_plan_run(&m->plan, &c->on, at, scratch);
}

const char *tr_cuda_sdpa_run(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                             int64_t part, void *scratch)
{
    return run_part(c, call, tr_sdpa_part(parts_of(c, call), part), scratch);
}
