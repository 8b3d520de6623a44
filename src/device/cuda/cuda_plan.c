/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_plan.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CONFIGS = 8, MAX_NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };

typedef cudnnBackendDescriptor_t descriptor;

/* After the first failure the calls below do nothing. */
static bool failed(const struct tr_cuda_plan *p)
{
    return p->status != CUDNN_STATUS_SUCCESS;
}

static descriptor make(struct tr_cuda_plan *p, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;

    if (failed(p))
        return NULL;
    TR_ASSERT(p->count < TR_CUDA_PLAN_DESCRIPTORS);
    p->status = tr_cudnn.cudnnBackendCreateDescriptor(type, &d);
    if (!failed(p))
        p->made[p->count++] = d;
    return d;
}

static void set(struct tr_cuda_plan *p, descriptor d, cudnnBackendAttributeName_t attribute,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (!failed(p))
        p->status = tr_cudnn.cudnnBackendSetAttribute(d, attribute, type, n, values);
}

static void set_type(struct tr_cuda_plan *p, descriptor d, cudnnBackendAttributeName_t attribute,
                     cudnnDataType_t value)
{
    set(p, d, attribute, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

static void set_int(struct tr_cuda_plan *p, descriptor d, cudnnBackendAttributeName_t attribute,
                    int64_t value)
{
    set(p, d, attribute, CUDNN_TYPE_INT64, 1, &value);
}

static void set_bool(struct tr_cuda_plan *p, descriptor d, cudnnBackendAttributeName_t attribute,
                     bool value)
{
    set(p, d, attribute, CUDNN_TYPE_BOOLEAN, 1, &value);
}

static void set_descriptor(struct tr_cuda_plan *p, descriptor d,
                           cudnnBackendAttributeName_t attribute, descriptor value)
{
    set(p, d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static descriptor finish(struct tr_cuda_plan *p, descriptor d)
{
    if (!failed(p))
        p->status = tr_cudnn.cudnnBackendFinalize(d);
    return d;
}

static cudnnDataType_t type_of(const struct tr_sdpa_tensor *t, enum tr_dtype data)
{
    switch (t->type) {
    case TR_SDPA_DATA:
        return data == TR_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
    case TR_SDPA_I32:
        return CUDNN_DATA_INT32;
    case TR_SDPA_BOOL:
        return CUDNN_DATA_BOOLEAN;
    default:
        return CUDNN_DATA_FLOAT;
    }
}

/* cuDNN's numbers of tensors are ours and one: 0 is not among them. */
static int64_t uid_of(int tensor)
{
    return tensor + 1;
}

static descriptor make_tensor(struct tr_cuda_plan *p, const struct tr_sdpa_graph *g, int i,
                              enum tr_dtype data)
{
    const struct tr_sdpa_tensor *t = &g->tensor[i];
    descriptor d = make(p, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set_int(p, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid_of(i));
    set_type(p, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(t, data));
    set(p, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->dim);
    set(p, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->stride);
    /* The numbers of a part of the heads begin anywhere in lse. */
    set_int(p, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t->type == TR_SDPA_DATA ? 16 : 4);
    set_bool(p, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, t->place == TR_SDPA_VIRTUAL);
    set_bool(p, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, t->place == TR_SDPA_VALUE);
    return finish(p, d);
}

static descriptor matmul(struct tr_cuda_plan *p, const struct tr_sdpa_node *n, const descriptor *t)
{
    descriptor how = make(p, CUDNN_BACKEND_MATMUL_DESCRIPTOR), d;

    set_type(p, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(p, how);
    d = make(p, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, t[n->x]);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, t[n->b]);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, t[n->y]);
    return finish(p, d);
}

static descriptor transpose(struct tr_cuda_plan *p, const struct tr_sdpa_node *n,
                            const descriptor *t)
{
    descriptor d = make(p, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    set_descriptor(p, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, t[n->x]);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, t[n->y]);
    return finish(p, d);
}

static descriptor reduction(struct tr_cuda_plan *p, const struct tr_sdpa_node *n,
                            const descriptor *t)
{
    cudnnReduceTensorOp_t op =
        n->op == TR_SDPA_ROW_MAX ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD;
    descriptor how = make(p, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), d;

    set(p, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
    set_type(p, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(p, how);
    d = make(p, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, t[n->x]);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, t[n->y]);
    return finish(p, d);
}

static cudnnPointwiseMode_t mode_of(enum tr_sdpa_op op)
{
    switch (op) {
    case TR_SDPA_MUL:
        return CUDNN_POINTWISE_MUL;
    case TR_SDPA_ADD:
        return CUDNN_POINTWISE_ADD;
    case TR_SDPA_SUB:
        return CUDNN_POINTWISE_SUB;
    case TR_SDPA_DIV:
        return CUDNN_POINTWISE_DIV;
    case TR_SDPA_EXP:
        return CUDNN_POINTWISE_EXP;
    case TR_SDPA_LOG:
        return CUDNN_POINTWISE_LOG;
    case TR_SDPA_COPY:
        return CUDNN_POINTWISE_IDENTITY;
    case TR_SDPA_NOT_LESS:
        return CUDNN_POINTWISE_CMP_GE;
    case TR_SDPA_SELECT:
        return CUDNN_POINTWISE_BINARY_SELECT;
    default:
        return CUDNN_POINTWISE_GEN_INDEX;
    }
}

static descriptor pointwise(struct tr_cuda_plan *p, const struct tr_sdpa_node *n,
                            const descriptor *t)
{
    cudnnPointwiseMode_t mode = mode_of(n->op);
    descriptor how = make(p, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), d;

    set(p, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_type(p, how, CUDNN_ATTR_POINTWISE_MATH_PREC,
             n->op == TR_SDPA_NOT_LESS ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
    if (n->op == TR_SDPA_ROW || n->op == TR_SDPA_COLUMN)
        set_int(p, how, CUDNN_ATTR_POINTWISE_AXIS, n->op == TR_SDPA_ROW ? 2 : 3);
    finish(p, how);
    d = make(p, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, t[n->x]);
    if (n->b >= 0)
        set_descriptor(p, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, t[n->b]);
    if (n->t >= 0)
        set_descriptor(p, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t[n->t]);
    set_descriptor(p, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, t[n->y]);
    return finish(p, d);
}

static descriptor make_node(struct tr_cuda_plan *p, const struct tr_sdpa_node *n,
                            const descriptor *t)
{
    switch (n->op) {
    case TR_SDPA_MATMUL:
        return matmul(p, n, t);
    case TR_SDPA_TRANSPOSE:
        return transpose(p, n, t);
    case TR_SDPA_ROW_MAX:
    case TR_SDPA_ROW_SUM:
        return reduction(p, n, t);
    default:
        return pointwise(p, n, t);
    }
}

static descriptor make_graph(struct tr_cuda_plan *p, const struct tr_cuda_plan_on *on,
                             const struct tr_sdpa_graph *g, enum tr_dtype type)
{
    descriptor tensor[TR_SDPA_MAX_TENSORS] = {NULL}, node[TR_SDPA_MAX_NODES], d;

    for (int i = 0; i < g->tensors; i++) {
        enum tr_sdpa_place place = g->tensor[i].place;

        if (place != TR_SDPA_ABSENT)
            tensor[i] = make_tensor(p, g, i, type);
        if (place == TR_SDPA_MEMORY || place == TR_SDPA_VALUE)
            p->uid[p->uids++] = i;
    }
    for (int i = 0; i < g->nodes; i++)
        node[i] = make_node(p, &g->node[i], tensor);
    d = make(p, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(p, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->nodes, node);
    if (on->handle)
        set(p, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &on->handle);
    return finish(p, d);
}

/* Ways to compute the graph, by expected time. */
static int64_t ask(struct tr_cuda_plan *p, const struct tr_cuda_plan_on *on, descriptor graph,
                   descriptor config[MAX_CONFIGS])
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor d = make(p, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;

    set_descriptor(p, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(p, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (on->described)
        set_descriptor(p, d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, on->described);
    finish(p, d);
    for (int i = 0; i < MAX_CONFIGS; i++)
        config[i] = make(p, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!failed(p))
        p->status = tr_cudnn.cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS,
                                                      &n, config);
    return failed(p) ? 0 : n;
}

static bool deterministic(struct tr_cuda_plan *p, descriptor config)
{
    descriptor engine = make(p, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t note[MAX_NOTES];
    int64_t n = 0;

    if (!failed(p))
        p->status = tr_cudnn.cudnnBackendGetAttribute(
            config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
    if (!failed(p))
        p->status =
            tr_cudnn.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                              CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, &n, note);
    if (failed(p))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            return false;
    return true;
}

/* The plan of one way, if there is one and it does with the room. */
static bool take(struct tr_cuda_plan *p, const struct tr_cuda_plan_on *on, descriptor config,
                 size_t room)
{
    descriptor d = make(p, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t bytes = 0, n = 0;

    set_descriptor(p, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (on->handle)
        set(p, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &on->handle);
    else
        set_descriptor(p, d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, on->described);
    finish(p, d);
    if (!failed(p))
        p->status = tr_cudnn.cudnnBackendGetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                      CUDNN_TYPE_INT64, 1, &n, &bytes);
    if (failed(p) || (size_t)bytes > room)
        return false;
    p->plan = d;
    p->workspace = (size_t)bytes;
    return true;
}

static void tell(struct tr_cuda_plan *p, const char *why)
{
    snprintf(p->why, sizeof p->why, "%s", why);
    if (failed(p))
        tr_cudnn.cudnnGetLastErrorString(p->why, sizeof p->why);
}

void tr_cuda_plan_make(struct tr_cuda_plan *p, const struct tr_cuda_plan_on *on,
                       const struct tr_sdpa_graph *g, const struct tr_cuda_plan_as *as)
{
    descriptor config[MAX_CONFIGS], graph = make_graph(p, on, g, as->type);
    int64_t n = ask(p, on, graph, config);

    tell(p, n ? "no way of those that it knows does with the scratch" : "it knows no way");
    /* What it proposes may still fail to compile: that is no failure of the next. */
    for (int64_t i = 0; i < n && !p->ready; i++) {
        p->status = CUDNN_STATUS_SUCCESS;
        p->ready =
            (as->any_order || deterministic(p, config[i])) && take(p, on, config[i], as->room);
        if (failed(p))
            tell(p, "");
    }
}

void tr_cuda_plan_release(struct tr_cuda_plan *p)
{
    while (p->count > 0)
        tr_cudnn.cudnnBackendDestroyDescriptor(p->made[--p->count]);
    p->ready = false;
}

const char *tr_cuda_plan_run(const struct tr_cuda_plan *p, const struct tr_cuda_plan_on *on,
                             void *const at[TR_SDPA_NAMES], void *workspace)
{
    struct tr_cuda_plan call = {.status = CUDNN_STATUS_SUCCESS};
    descriptor pack = make(&call, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    int64_t uid[TR_SDPA_NAMES];
    void *address[TR_SDPA_NAMES];

    for (int i = 0; i < p->uids; i++) {
        uid[i] = uid_of(p->uid[i]);
        address[i] = at[p->uid[i]];
    }
    set(&call, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, p->uids, uid);
    set(&call, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, p->uids, address);
    set(&call, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(&call, pack);
    if (!failed(&call))
        call.status = tr_cudnn.cudnnBackendExecute(on->handle, p->plan, pack);
    tr_cuda_plan_release(&call);
    return failed(&call) ? tr_cudnn.cudnnGetErrorString(call.status) : NULL;
}

enum tr_status tr_cuda_plan_described(const char *json, cudnnBackendDescriptor_t *out)
{
    struct tr_cuda_plan p = {.status = CUDNN_STATUS_SUCCESS};
    descriptor d = make(&p, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);

    set(&p, d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(json),
        json);
    finish(&p, d);
    if (failed(&p)) {
        tell(&p, "");
        tr_cuda_plan_release(&p);
        return TR_FAIL(TR_EDATA, "cuDNN does not understand the description of a GPU: %s", p.why);
    }
    *out = d;
    return TR_OK;
}
