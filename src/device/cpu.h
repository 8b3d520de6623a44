/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_H
#define TR_DEVICE_CPU_H

#include "device/device.h"

/* The cores given to this rank. */
extern const struct tr_backend tr_cpu;

#endif
