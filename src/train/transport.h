/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TRANSPORT_H
#define TR_TRAIN_TRANSPORT_H

#include <stdio.h>

#include "comm/slow_links.h"
#include "train/run.h"

/*
 * Which transport carries what the ranks compute.  With memory that the host reads it is the world
 * that the run was given, mpi or slow; memory of GPUs goes through NCCL (comm/nccl.h), and a GPU alone
 * copies.  --distributed-backend:
 *
 *              on the host     on GPUs
 *     auto     mpi             nccl
 *     nccl     mpi, with a     nccl
 *              notice
 *     mpi      mpi             refused: it cannot read their memory
 *     slow     slow            refused: it simulates a network between hosts
 */

/* The world that a run is given, `over`: `world` itself or, with --distributed-backend slow, one that wraps it. */
struct tr_network {
    struct tr_comm *over;
    struct tr_comm slow;
    struct tr_slow_links links;
};

/* Rank 0 reads --slow-links.  Without it and --slow-rate it is for tr_shape_of() to complain.  Collective over `world`; TR_EIO,
   TR_ECONFIG on all ranks.  *out must not be moved; close it also after a failure. */
enum tr_status tr_transport_network(const struct tr_config *c, struct tr_comm *world,
                                    struct tr_network *out) TR_MUST_CHECK;
void tr_transport_network_close(struct tr_network *n);

/* Fill r->transport; the device is open.  Collective over r->world; TR_ECONFIG or TR_ERESOURCE on all
   ranks. */
enum tr_status tr_transport_open(struct tr_run *r) TR_MUST_CHECK;

/* All groups are made and nothing is reserved: let the transport take the memory of the device that it will need
   for the calls of a run.  Collective over r->world; TR_ERESOURCE on all ranks. */
enum tr_status tr_transport_warm(struct tr_run *r) TR_MUST_CHECK;

/* What it took, as a line below a memory plan; none where that is nothing. */
void tr_transport_report(const struct tr_run *r, FILE *f);

/* What is known of the transport, for the record of the run: on stdout, and in r->transport_record.  Nothing where
   there is nothing to tell.  Collective over r->world. */
void tr_transport_tell(struct tr_run *r);

/* The memory of the device is reserved: make it known to the transport.  Collective over r->world. */
void tr_transport_register(struct tr_run *r);

/* When all groups are released and the device is still open. */
void tr_transport_close(struct tr_run *r);

#endif
