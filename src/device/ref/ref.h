/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_REF_REF_H
#define TR_DEVICE_REF_REF_H

#include "device/device.h"

/* The plain meaning of every row of ops.def: loops, sums in double, one thread. */
#define OP(name, tol, params) void tr_ref_##name params;
#include "device/ops.def"
#undef OP

extern const struct tr_backend tr_ref;

#endif
