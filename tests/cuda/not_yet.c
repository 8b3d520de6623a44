/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Weak names for operations of the cuda backend and functions of the fakes that are not in the library
 * of fakes (yet): a test that does not need them links, one that calls them ends with a sentence.
 */
#include <stdio.h>
#include <stdlib.h>

void tr_not_yet(void);

void tr_not_yet(void)
{
    fprintf(stderr, "this operation or function is not in the library of fakes\n");
    abort();
}

#define WEAK(name) __asm__(".weak " #name "\n.set " #name ", tr_not_yet");

#define OP(name, tol, params) WEAK(tr_cuda_##name)
#include "device/ops.def"
#undef OP
#define BEGIN(table, file, what)
#define CALL(name) WEAK(name)
#define END(table)
#include "device/cuda_libs.def"
WEAK(tr_comm_nccl_open)
WEAK(tr_comm_nccl_register)
