/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_HOST_H
#define TR_DEVICE_HOST_H

#include "device/device.h"

/*
 * Common to the backends that run in host memory: the device itself and its reservations.  Nothing
 * is queued, so wait() has nothing to do.  What counts as memory of the device is what tr_host_reserve() gives: the
 * arena, and the scratch of kernels.
 */
struct tr_host_block {
    struct tr_host_block *next;
    void *map;
    size_t bytes;
};

struct tr_device {
    int threads;
    struct tr_host_block *blocks;
    size_t budget; /* of `used.device`; 0: none */
    struct tr_device_used used;
    float *scratch; /* of the cpu backend: SCRATCH_FLOATS for each thread */
    float *room;    /* of the cpu backend, room_floats of it, or NULL */
    int64_t room_floats;
    struct tr_dnnl *dnnl;       /* of the cpu backend: what multiplies bf16, or NULL */
    const struct tr_bf16 *bf16; /* of the cpu backend: small blocks of bf16, or NULL: in float */
    char vectors[32], kernels[128]; /* for kernels() of the cpu backend */
    char line[160];                 /* for describe() */
    double mark[TR_MARKS];          /* seconds on the monotonic clock */
};

/* How many threads `how` stands for; TR_ECONFIG when that is negative. */
enum tr_status tr_host_count_threads(const struct tr_device_how *how, int *out) TR_MUST_CHECK;

/* As tr_backend.open(); TR_ECONFIG when how->threads is negative. */
enum tr_status tr_host_open(const struct tr_device_how *how, struct tr_device **out) TR_MUST_CHECK;
void tr_host_close(struct tr_device *d);
int tr_host_threads(const struct tr_device *d);
/* As tr_backend.reserve(), TR_ERESOURCE also where the budget of the device does not suffice. */
enum tr_status tr_host_reserve(struct tr_device *d, size_t bytes, void **out) TR_MUST_CHECK;
enum tr_status tr_host_reserve_host(struct tr_device *d, size_t bytes, void **out) TR_MUST_CHECK;
void tr_host_used(const struct tr_device *d, struct tr_device_used *out);
int64_t tr_host_move(struct tr_queue *q, enum tr_lane lane, const struct tr_tensor *to,
                     const struct tr_tensor *from);
void tr_host_moved(struct tr_queue *q, int64_t copy);
void tr_host_wait(struct tr_queue *q);
void tr_host_upload(struct tr_queue *q, const struct tr_tensor *to, const void *from);
void tr_host_download(struct tr_queue *q, void *to, const struct tr_tensor *from);
void tr_host_mark(struct tr_queue *q, int i);
double tr_host_between(struct tr_queue *q, int from, int to);
void tr_host_range(struct tr_queue *q, const char *name);
void tr_host_record(struct tr_queue *q, bool on);

/* Bytes that this process can still get before the machine or its control group runs out: the
   smaller of MemAvailable and, in each group above it, limit - usage + what of that is file cache.
   SIZE_MAX when the kernel does not say. */
size_t tr_host_available_bytes(void);

#endif
