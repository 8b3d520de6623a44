/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_DEVICE_ALONE_H
#define TR_TESTS_DEVICE_ALONE_H

#include "device/cpu/cpu.h"

/* Trials are small, and several threads are to share them all the same: limits as where threads
   spin. */
static inline void share_small_work(void)
{
    tr_cpu_alone = (struct tr_cpu_alone){.elements = 1 << 14, .multiplications = 1 << 18};
}

#endif
