/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/check.h"

#include "launch/checks.h"
#include "config/shape.h"
#include "device/device.h"
#include "model/param.h"
#include "pipeline/links.h"
#include "train/replicas_save.h"

/* Values, and as many again for each of the optimizer's states, in fp32 and without padding. */
static int64_t checkpoint_bytes(const struct tr_config *c, const struct tr_shape *s)
{
    struct tr_params params;
    int64_t bytes;
    int files;

    tr_params_list_whole(&s->dims, &params);
    bytes = 4 * params.elems * (c->no_save_optim ? 1 : 1 + TR_STATES) +
            tr_replicas_sidecar_bytes(c, &s->dp, s->layout.d, params.elems) +
            tr_links_saved_bytes(c, s, &files);
    tr_params_release(&params);
    return bytes;
}

enum tr_status tr_train_check(const struct tr_config *c, uint64_t build, struct tr_comm *world)
{
    struct tr_shape s;
    struct tr_intent i = {
        .training = true,
        .gpus = c->backend == TR_BACKEND_AUTO || c->backend == TR_BACKEND_CUDA,
        .share = c->gpu_oversubscribe,
        .mixed = c->allow_mixed_gpus,
        .has_cuda = tr_backend_find("cuda") != NULL,
        .threads = (int)c->threads,
        .tensor_across = c->allow_tensor_parallel_across_nodes,
        .save = c->save,
        .build = build,
    };

    /* A vocabulary that one rank cannot read is reported to all ranks later. */
    if (tr_comm_max(world, tr_shape_of(c, world->size, &s) != TR_OK) > 0)
        return TR_OK;
    i.tensor_parallel = s.layout.w;
    i.save_bytes = checkpoint_bytes(c, &s);
    return tr_check_launch(world, &i);
}
