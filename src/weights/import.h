/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_IMPORT_H
#define TR_WEIGHTS_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "util/status.h"
#include "weights/source.h"

/*
 * Weights of others into a checkpoint, and back.  All ranks of a group take part, each with parameters of its own, and
 * what they write does not depend on how many they are.  Collective, with the same outcome on all ranks; rank 0 prints
 * what was recognised and what became of it, and shows how far it is.
 */
struct tr_import {
    struct tr_weights_ask ask;
    const char *save;
    double interval; /* seconds between lines of progress */
    int (*stopped)(
        void); /* a signal that asks to stop came: its number, else 0; NULL: nobody asks */
};

/*
 * Read the folder ask.from and make the checkpoint of iteration 0, weights alone, in the folder `save`.  TR_EIO,
 * TR_EDATA, TR_ECONFIG, TR_ERESOURCE, TR_ETEMP after a signal; then nothing is left of it.
 */
enum tr_status tr_weights_import(const struct tr_import *o, struct tr_comm *world) TR_MUST_CHECK;

enum tr_export_format { TR_EXPORT_HF, TR_EXPORT_LAYERS, TR_EXPORT_MEGATRON };

struct tr_export {
    const char *load; /* as `trireme ckpt show` takes it */
    const char *to;
    enum tr_export_format format;
    int type;            /* enum tr_weights_type */
    int ranks, stages;   /* of Megatron-LM's files */
    int64_t shard_bytes; /* of a file of weights, at most, unless a tensor alone has more */
    const char *like;    /* a folder whose tokenizer and other files are copied, or NULL */
    double interval;
    int (*stopped)(void); /* as above */
};

/*
 * The reverse: a folder of that format, in `to`, which must not exist or be empty.  What
 * it is made in has another name until it is complete; of one that was killed it stays, and the next export says so.
 * Errors as above.
 */
enum tr_status tr_weights_export(const struct tr_export *o, struct tr_comm *world) TR_MUST_CHECK;

#endif
