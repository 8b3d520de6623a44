/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_TRAIN_APART_H
#define TR_TESTS_TRAIN_APART_H

#include "comm/comm.h"
#include "device/device.h"

/*
 * A device whose memory the host cannot touch, on a machine without one.  It computes with the cpu
 * backend, and its memory is without any access rights except during an operation, an upload, a
 * download or a transfer with a queue.  So a host that reads or writes there dies at that line; and an
 * operation that is given memory of the host, which on a GPU would be an error too, ends the program.
 *
 * A program that is linked with apart_device.c and apart_comm.c has these in place of
 * src/device/backends/backends.c and src/train/transport.c.
 */
extern const struct tr_backend apart;

/* Which backend tr_backend_find() gives under any name: this one, or cpu, which it is at first. */
void apart_choose(bool on);

/* Let the host into the memory of the device, and out again.  Not nested. */
void apart_let(bool in);

/* How often the host waited for the device since the program began: with wait() or download(); and
   the last argument of record(). */
struct apart_counts {
    int waits, downloads;
    bool recording;
};
struct apart_counts apart_counts(void);

/* Ends the program unless `p` is memory of the device. */
void apart_demand(const void *p);

/* A world for its memory over one for host memory, which is borrowed. */
void apart_world(struct tr_comm *host, struct tr_comm *out);

#endif
