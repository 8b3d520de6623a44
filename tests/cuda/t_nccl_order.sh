#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Before CUDA 12.3 calls of all communicators follow one another, each when the one before it is
# done, where NCCL_LAUNCH_ORDER_IMPLICIT asks for an order: every transfer, group and schedule is
# right and ends with that, too.
. "$srcdir/tests/tap.sh"
plan 3
FAKE_NCCL_ORDER=serial
export FAKE_NCCL_ORDER
check "every call and group, replicas: 3 ranks" ranks 3 tests/cuda/t_nccl
check "every schedule of a pipeline: 3 ranks" ranks 3 tests/cuda/t_nccl_pipe
unset FAKE_NCCL_ORDER
# Before 2.24 it is cheaper to call NCCL without blocking.
FAKE_NCCL_VERSION=22304
export FAKE_NCCL_VERSION
check "NCCL of before 2.24, which does not block: 2 ranks" ranks 2 tests/cuda/t_nccl
