/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/apart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cpu/cpu.h"
#include "device/host.h"

/* One device at a time, with one reservation of its memory: all that a run makes. */
static struct {
    unsigned char *memory;
    size_t bytes;
    bool open, chosen;
    struct apart_counts counts;
} here;

struct apart_counts apart_counts(void)
{
    return here.counts;
}

void apart_choose(bool on)
{
    here.chosen = on;
}

void apart_let(bool in)
{
    TR_ASSERT(here.open != in);
    here.open = in;
    if (here.memory && mprotect(here.memory, here.bytes, in ? PROT_READ | PROT_WRITE : PROT_NONE))
        tr_die(TR_EINTERNAL, "mprotect does not work");
}

static bool holds(const void *p)
{
    const unsigned char *at = p;

    return here.memory && at >= here.memory && at < here.memory + here.bytes;
}

void apart_demand(const void *p)
{
    if (!holds(p))
        tr_die(TR_EINTERNAL, "the device is given memory of the host");
}

static enum tr_status reserve(struct tr_device *d, size_t bytes, void **out)
{
    (void)d;
    TR_ASSERT(!here.memory);
    here.memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (here.memory == MAP_FAILED)
        tr_die(TR_ERESOURCE, "no memory left for a device");
    here.bytes = bytes;
    *out = here.memory;
    return TR_OK;
}

static int64_t move(struct tr_queue *q, enum tr_lane lane, const struct tr_tensor *to,
                    const struct tr_tensor *from)
{
    const struct tr_tensor *there = lane == TR_LANE_IN ? to : from;
    const struct tr_tensor *host = lane == TR_LANE_IN ? from : to;

    (void)q;
    apart_demand(there->data);
    TR_ASSERT(!holds(host->data) && to->dtype == from->dtype &&
              tr_tensor_elems(to) == tr_tensor_elems(from));
    apart_let(true);
    memcpy(to->data, from->data, (size_t)tr_tensor_bytes(to));
    apart_let(false);
    return 0;
}

static void close_device(struct tr_device *d)
{
    if (here.memory)
        munmap(here.memory, here.bytes);
    here.memory = NULL;
    tr_cpu.close(d);
}

static void upload(struct tr_queue *q, const struct tr_tensor *to, const void *from)
{
    apart_demand(to->data);
    TR_ASSERT(!holds(from));
    apart_let(true);
    tr_cpu.upload(q, to, from);
    apart_let(false);
}

static void download(struct tr_queue *q, void *to, const struct tr_tensor *from)
{
    apart_demand(from->data);
    TR_ASSERT(!holds(to));
    apart_let(true);
    tr_cpu.download(q, to, from);
    apart_let(false);
    here.counts.downloads++;
}

static void wait_for(struct tr_queue *q)
{
    (void)q;
    here.counts.waits++;
}

static void record(struct tr_queue *q, bool on)
{
    (void)q;
    here.counts.recording = on;
}

/* ---- operations: what they are given is looked at, then cpu does them ---- */

static void look_at_tensor(const struct tr_tensor *t)
{
    if (t)
        apart_demand(t->data);
}

static void look_at_dropout(const struct tr_dropout *drop)
{
    if (drop && drop->p > 0.0)
        apart_demand(drop->sample);
}

static void look_at_select(const struct tr_select *s)
{
    if (s)
        look_at_tensor(s->index);
}

static void look_at_attention(const struct tr_attention_how *how)
{
    if (how)
        look_at_tensor(how->slopes);
}

#define LOOK(x)                                                                    \
    look_at_tensor(_Generic((x), const struct tr_tensor * : (x), default : NULL)); \
    look_at_dropout(_Generic((x), struct tr_dropout : &(x), default : NULL));      \
    look_at_select(_Generic((x), struct tr_select : &(x), default : NULL));        \
    look_at_attention(_Generic((x), struct tr_attention_how : &(x), default : NULL));

#define LOOK_1(x) LOOK(x)
#define LOOK_2(x, ...) LOOK(x) LOOK_1(__VA_ARGS__)
#define LOOK_3(x, ...) LOOK(x) LOOK_2(__VA_ARGS__)
#define LOOK_4(x, ...) LOOK(x) LOOK_3(__VA_ARGS__)
#define LOOK_5(x, ...) LOOK(x) LOOK_4(__VA_ARGS__)
#define LOOK_6(x, ...) LOOK(x) LOOK_5(__VA_ARGS__)
#define LOOK_7(x, ...) LOOK(x) LOOK_6(__VA_ARGS__)
#define LOOK_8(x, ...) LOOK(x) LOOK_7(__VA_ARGS__)
#define LOOK_9(x, ...) LOOK(x) LOOK_8(__VA_ARGS__)
#define LOOK_10(x, ...) LOOK(x) LOOK_9(__VA_ARGS__)
#define LOOK_11(x, ...) LOOK(x) LOOK_10(__VA_ARGS__)
#define LOOK_12(x, ...) LOOK(x) LOOK_11(__VA_ARGS__)
#define LOOK_13(x, ...) LOOK(x) LOOK_12(__VA_ARGS__)
#define CHOOSE(a, b, c, d, e, f, g, h, i, j, k, l, m, name, ...) name
#define LOOK_AT(...)                                                                        \
    CHOOSE(__VA_ARGS__, LOOK_13, LOOK_12, LOOK_11, LOOK_10, LOOK_9, LOOK_8, LOOK_7, LOOK_6, \
           LOOK_5, LOOK_4, LOOK_3, LOOK_2, LOOK_1, none)                                    \
    (__VA_ARGS__)

/* The names of the parameters in ops.def. */
#define fill_ARGS q, y, value
#define copy_ARGS q, y, x
#define add_ARGS q, y, x
#define scale_ARGS q, y, factor
#define sumsq_ARGS q, out, x
#define weighted_sum_ARGS q, out, x, w
#define count_zeros_ARGS q, out, x
#define linear_ARGS q, y, pre, x, w, bias, act
#define linear_dgrad_ARGS q, dx, dy, w, pre, act
#define linear_wgrad_ARGS q, dw, dbias, dy, x, add
#define norm_ARGS q, y, mean, rstd, x, gain, bias, how
#define norm_bwd_ARGS q, dx, dgain, dbias, dy, dskip, x, gain, mean, rstd, how
#define residual_ARGS q, y, x, a, bias, drop
#define residual_norm_ARGS q, y, norm, mean, rstd, x, a, bias, gain, shift, how, drop
#define residual_bwd_ARGS q, da, dbias, dy, drop
#define dropout_ARGS q, y, drop
#define embed_ARGS q, y, ids, table, first
#define embed_bwd_ARGS q, dtable, dy, ids, first
#define add_rows_ARGS q, y, ids, table
#define attention_ARGS q, ctx, lse, qkv, from, how, drop
#define attention_bwd_ARGS q, dqkv, dctx, ctx, lse, qkv, from, how, drop
#define rotary_ARGS q, y, x, table, position, how
#define head_norm_ARGS q, y, rstd, x, q_gain, k_gain, heads, how
#define head_norm_bwd_ARGS q, dx, dq_gain, dk_gain, dy, x, q_gain, k_gain, rstd, heads, how
#define columns_ARGS q, y, x, to, from, count
#define xent_max_ARGS q, max, logits, valid
#define xent_sum_ARGS q, stats, logits, max, labels, first, valid
#define xent_loss_ARGS q, loss, stats
#define xent_bwd_ARGS q, logits, max, stats, labels, weight, first, valid
#define adamw_ARGS q, half, p, m, v, g, how
#define fix_scale_ARGS q, scale, x, how
#define fix_encode_ARGS q, code, x, scale, how
#define fix_decode_ARGS q, y, code, scale, how, add
#define topk_mask_ARGS q, mask, x, k
#define mask_take_ARGS q, y, x, mask
#define mask_add_ARGS q, y, v, mask, factor
#define select_take_ARGS q, y, a, b, s
#define select_put_ARGS q, a, y, s
#define select_add_ARGS q, a, y, s, factor
#define subtract_ARGS q, y, a, b
#define fingerprint_ARGS q, out, x

#define OP(name, tol, params)       \
    static void apart_##name params \
    {                               \
        LOOK_AT(name##_ARGS)        \
        apart_let(true);            \
        tr_cpu.name(name##_ARGS);   \
        apart_let(false);           \
    }
#include "device/ops.def"
#undef OP

static enum tr_status open_device(const struct tr_device_how *how, struct tr_device **out)
{
    return tr_cpu.open(how, out);
}

static const char *describe(const struct tr_device *d)
{
    return tr_cpu.describe(d);
}

static const char *kernels(const struct tr_device *d, enum tr_dtype type)
{
    return tr_cpu.kernels(d, type);
}

const struct tr_backend apart = {
    .name = "apart",
    .apart = true,
    .open = open_device,
    .close = close_device,
    .threads = tr_host_threads,
    .describe = describe,
    .kernels = kernels,
    .reserve = reserve,
    .reserve_host = tr_host_reserve_host,
    .used = tr_host_used,
    .move = move,
    .moved = tr_host_moved,
    .after = tr_host_moved,
    .wait = wait_for,
    .upload = upload,
    .download = download,
    .mark = tr_host_mark,
    .between = tr_host_between,
    .range = tr_host_range,
    .record = record,
#define OP(name, tol, params) .name = apart_##name,
#include "device/ops.def"
#undef OP
};

/* ---- in place of src/device/backends/backends.c ---- */

const struct tr_backend *const *tr_backends(void)
{
    static const struct tr_backend *const all[] = {&tr_cpu, &apart, NULL};

    return all;
}

const struct tr_backend *tr_backend_find(const char *name)
{
    (void)name;
    return here.chosen ? &apart : &tr_cpu;
}

const struct tr_backend *tr_backend_host(void)
{
    return &tr_cpu;
}
