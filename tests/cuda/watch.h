/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_H
#define WATCH_H

#include <cstdint>

/*
 * The watch over shared memory: tests/cuda/watch.cc, linked with kernels that were compiled with
 * -fsanitize=thread -DTR_WATCHED (kernels/emulate.h says what it ends the process for).
 *
 * Bank conflicts: shared memory has 32 banks of 4 bytes, and an instruction of a warp takes a turn for each
 * different word of the bank that has most of them.  Accesses of 8 bytes are made by halves of a warp, of
 * 16 bytes by quarters.  `least` is what the same accesses would take without conflicts.
 */
struct watch_banks {
    uint64_t instructions, turns, least;
};

/* Begin to count, from 0; and what was counted since then.  Lanes that run through a loop in different
   numbers of turns are counted together turn by turn. */
void watch_banks_begin();
watch_banks watch_banks_end();

/* Accesses to shared memory seen so far: a test that watches something has a number above 0. */
uint64_t watch_accesses();

#endif
