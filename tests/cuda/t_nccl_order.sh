#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Before CUDA 12.3 calls of all communicators follow one another, each when the one before it is done, where
# NCCL_LAUNCH_ORDER_IMPLICIT asks for an order: every transfer, group and schedule is right and ends with that, too.
. "$srcdir/tests/tap.sh"
plan 2
FAKE_NCCL_ORDER=serial
export FAKE_NCCL_ORDER
check "every call and group, replicas: 3 ranks" ranks 3 tests/cuda/t_nccl
check "every schedule of a pipeline: 3 ranks" ranks 3 tests/cuda/t_nccl_pipe
