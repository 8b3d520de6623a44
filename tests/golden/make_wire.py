#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make wire.txt: sums of two gradients that are cast to fp16 or bf16, summed in it and cast back.

README in this folder says what the numbers are.  Needs numpy.

    python3 make_wire.py > wire.txt
"""
import numpy as np

N = 192


def gradient(replica):
    """From 2^-25, below the smallest half, to beyond the largest."""
    i = np.arange(N, dtype=np.int64)
    mantissa = ((i * 7919 + replica * 104729) % 4093 - 2046).astype(np.float32) / np.float32(2048)
    return mantissa * np.exp2((i % 43 - 25).astype(np.float32)).astype(np.float32)


def bf16(x):
    """To nearest, ties to even, as the upper half of a float."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return bits.astype(np.uint32).view(np.float32)


def fp16(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


print("# element, sum in fp16, sum in bf16")
a, b = gradient(0), gradient(1)
for i, (h, r) in enumerate(zip(fp16(fp16(a) + fp16(b)), bf16(bf16(a) + bf16(b)))):
    print(i, float(h).hex() if np.isfinite(h) else ("inf" if h > 0 else "-inf"), float(r).hex())
