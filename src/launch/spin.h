/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_LAUNCH_SPIN_H
#define TR_LAUNCH_SPIN_H

/*
 * How long an OpenMP thread that waits keeps its core before it sleeps.  libgomp spins 300,000
 * turns, 6 to 14 ms: on cores that others use, too, a thread spins while the one that it waits for
 * cannot run.
 *
 * libgomp reads GOMP_SPINCOUNT before main().  tr_spin_briefly() sets it and executes the program
 * again, from the start, with the same arguments and open files: call it first.  LLVM's libomp is
 * told by a call instead.  Nothing happens where the user said how threads wait (OMP_WAIT_POLICY,
 * GOMP_SPINCOUNT, KMP_BLOCKTIME), on a single core, or where the system cannot execute the program
 * again.  Results do not depend on it.
 */
void tr_spin_briefly(void);

#endif
