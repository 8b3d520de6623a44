#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Training with the cuda backend over fakes of NVIDIA's libraries and emulated kernels: losses and norms
# of the CPU, in some of the layouts of equality.sh.  tests/gpu/run has all of them on a GPU.
if [ ! -x tests/cuda/trireme-fake ]; then
    echo "1..0 # SKIP there are no headers of CUDA and NCCL, or no C++ compiler"
    exit 0
fi
CUDA_TRIREME=$PWD/tests/cuda/trireme-fake
LAYOUTS=${LAYOUTS:-alone tensor pipeline replicas sharded interleaved bf16-all fp16-all}
export CUDA_TRIREME LAYOUTS
. "$srcdir/tests/cuda/equality.sh"
