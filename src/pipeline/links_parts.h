/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_LINKS_PARTS_H
#define TR_PIPELINE_LINKS_PARTS_H

#include "pipeline/exec.h"
#include "pipeline/links.h"

/* What the files of compressed links share; internal to them. */

/* One end of one direction of a link. */
struct tr_link_end {
    struct tr_codec_end *codec; /* NULL: no such message, or it is not compressed */
    int blocks;                 /* of the step under way that it has seen */
    void *memory;               /* of the arena, from which its codec can be planned again */
};

/* The messages of a leg, of all chunks; number i lies in buffer i % flights. */
struct tr_link_leg {
    unsigned packed, started, arrived, unpacked;
    int64_t bytes[TR_FLIGHTS];
    struct tr_tensor wire[TR_FLIGHTS];
};

struct tr_links {
    struct tr_links_of of;
    struct tr_links_step step;
    int flights;
    struct tr_link_end (*end)[TR_LEGS]; /* [K], owned */
    struct tr_link_leg leg[TR_LEGS];
    int64_t *sample;      /* [samples of a step on this rank], owned */
    bool remembers;       /* an end does, */
    uint64_t text;        /* and of this, for checkpoints: tr_data_print() */
    uint64_t *mine, *all; /* fingerprints: [K * TR_LEGS], and of P stages; owned */
};

/* Legs by their bits: those that send, those of activations. */
enum { TR_LINK_SENDS = TR_SEND_FWD | TR_SEND_BWD, TR_LINK_FORWARD = TR_SEND_FWD | TR_RECV_FWD };

/* The number of a leg: bit 1 << k has number k. */
int tr_links_number(enum tr_leg_bit leg);

/* The codec of leg number k, whether it is on at all, and the parameters of its ends here. */
const struct tr_codec *tr_links_codec(const struct tr_config *c, int k);
bool tr_links_on(const struct tr_config *c, int k);
struct tr_codec_how tr_links_how(const struct tr_links_of *of, int k);

/* How many bytes of a message each tensor rank sends. */
int64_t tr_links_part(const struct tr_links *l, int64_t bytes);

void tr_links_close_end(struct tr_link_end *e);

#endif
