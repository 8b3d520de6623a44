/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_SHARE_H
#define TR_COMM_SHARE_H

#include "comm/comm.h"
#include "util/file.h"

/*
 * Files that the ranks of a node open once.  The first rank of the node opens a file and gives the
 * others its descriptor through a local socket, so that the file server is asked once per node however
 * many ranks there are, and what they map or read is one file, in the page cache once.  Nothing is
 * copied, so it does not matter how large the file is.
 *
 * Where ranks of one host cannot reach each other's sockets (containers with networks of their own),
 * each opens for itself.
 */
struct tr_share {
    struct tr_comm node; /* the ranks of this node; size 0 when closed */
    int *peer;           /* sockets to the others on the first rank, one to it elsewhere; NULL: each
                            opens for itself */
};

/* Connect the ranks of `world` that give the same number for their node.  Collective over `world`;
   TR_ERESOURCE where MPI has no room for the group, and then there is nothing to close. */
enum tr_status tr_share_open(struct tr_comm *world, int node, struct tr_share *out) TR_MUST_CHECK;
void tr_share_close(struct tr_share *s);

/*
 * How they open: each call is collective over the node, with the same path, and gives all of them a
 * descriptor of the same open file, or all of them -1 with the same errno.  Its place in the file is
 * shared too, so read with pread() or map.  The first rank of the node is the one that checks what is
 * in the files.  `s` is borrowed.
 */
struct tr_opener tr_share_opener(struct tr_share *s);

#endif
