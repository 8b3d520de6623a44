/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_LIBS_H
#define TR_DEVICE_CUDA_CUDA_LIBS_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#ifdef HAVE_NCCL
#include <nccl.h>
#endif
#ifdef HAVE_CUDNN
#include <cudnn_backend.h>
#include <cudnn_graph.h>
#endif

#include "util/status.h"

/*
 * NVIDIA's libraries are opened when a GPU is used and not before: the program starts on nodes that
 * have none of them, and does not pay for half a gigabyte of cuBLAS to print its help.
 * device/cuda/cuda_libs.def is the one list of what is used.  A function is called through its table with
 * the signature of NVIDIA's own header: tr_cublas.cublasLtCreate(&handle).
 *
 * Built with TR_CUDA_LINKED the tables hold the addresses of functions linked into the program, which
 * is how the tests put fakes in their place.
 */
#define BEGIN(table, file, what) struct tr_##table##_calls {
#define CALL(name) __typeof__(name) *name;
#define MAY(name) CALL(name)
#define END(table) \
    }              \
    ;              \
    extern struct tr_##table##_calls tr_##table;
#include "device/cuda/cuda_libs.def"
#undef BEGIN
#undef CALL
#undef MAY
#undef END

/* Fill one table; nothing if it is filled.  TR_ERESOURCE when the library or a function is missing: the
   sentence names the file and what the linker says. */
#define BEGIN(table, file, what) enum tr_status tr_##table##_open(void) TR_MUST_CHECK;
#define CALL(name)
#define MAY(name)
#define END(table)
#include "device/cuda/cuda_libs.def"
#undef BEGIN
#undef CALL
#undef MAY
#undef END

#endif
