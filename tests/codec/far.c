/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <string.h>
#include <sys/mman.h>

#include "codec/pair.h"

/* Addresses of the device begin at `shadow`, where nothing can be read or written; what it has there is
   at the same distance from `memory`. */
enum { BYTES = 1 << 28 };
static unsigned char *memory, *shadow;
static size_t used;

static void make_memory(void)
{
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    if (memory)
        return;
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, how, -1, 0);
    shadow = mmap(NULL, BYTES, PROT_NONE, how, -1, 0);
    assert_true(memory != MAP_FAILED && shadow != MAP_FAILED);
}

static enum tr_status far_reserve(struct tr_device *d, size_t bytes, void **out)
{
    (void)d;
    make_memory();
    *out = shadow + used;
    used += (bytes + 255) / 256 * 256;
    assert_true(used <= BYTES);
    return TR_OK;
}

/* What the device sees of t, all of which must be its own. */
static struct tr_tensor seen(const struct tr_tensor *t)
{
    struct tr_tensor near = *t;
    unsigned char *at = t->data;

    assert_true(at >= shadow && at + tr_tensor_bytes(t) <= shadow + used);
    near.data = memory + (at - shadow);
    return near;
}

static const struct tr_backend *ref(void)
{
    return tr_backend_find("ref");
}

static void far_upload(struct tr_queue *q, const struct tr_tensor *to, const void *from)
{
    struct tr_tensor near = seen(to);

    (void)q;
    memcpy(near.data, from, (size_t)tr_tensor_bytes(to));
}

static void far_download(struct tr_queue *q, void *to, const struct tr_tensor *from)
{
    struct tr_tensor near = seen(from);

    (void)q;
    memcpy(to, near.data, (size_t)tr_tensor_bytes(from));
}

static void far_copy(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    struct tr_tensor to = seen(y), from = seen(x);

    ref()->copy(q, &to, &from);
}

static void far_subtract(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *a,
                         const struct tr_tensor *b)
{
    struct tr_tensor to = seen(y), one = seen(a), other = seen(b);

    ref()->subtract(q, &to, &one, &other);
}

static void far_scale(struct tr_queue *q, const struct tr_tensor *scale, const struct tr_tensor *x,
                      struct tr_fix how)
{
    struct tr_tensor to = seen(scale), from = seen(x);

    ref()->fix_scale(q, &to, &from, how);
}

static void far_encode(struct tr_queue *q, const struct tr_tensor *code, const struct tr_tensor *x,
                       const struct tr_tensor *scale, struct tr_fix how)
{
    struct tr_tensor to = seen(code), from = seen(x), by = seen(scale);

    ref()->fix_encode(q, &to, &from, &by, how);
}

static void far_decode(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *code,
                       const struct tr_tensor *scale, struct tr_fix how, bool add)
{
    struct tr_tensor to = seen(y), from = seen(code), by = seen(scale);

    ref()->fix_decode(q, &to, &from, &by, how, add);
}

static void far_fingerprint(struct tr_queue *q, const struct tr_tensor *out,
                            const struct tr_tensor *x)
{
    struct tr_tensor to = seen(out), from = seen(x);

    ref()->fingerprint(q, &to, &from);
}

const struct tr_backend *far_backend(void)
{
    static struct tr_backend far;

    far = (struct tr_backend){
        .name = "far",
        .apart = true,
        .open = ref()->open,
        .close = ref()->close,
        .reserve = far_reserve,
        .wait = ref()->wait,
        .upload = far_upload,
        .download = far_download,
        .copy = far_copy,
        .subtract = far_subtract,
        .fix_scale = far_scale,
        .fix_encode = far_encode,
        .fix_decode = far_decode,
        .fingerprint = far_fingerprint,
    };
    return &far;
}
