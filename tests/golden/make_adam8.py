#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make adam8.index and adam8.bin: 8-bit Adam in numpy, from its description.

README in this folder says what the numbers are.  Needs numpy.  With the folder of an unpacked wheel of bitsandbytes (pip
download --no-deps bitsandbytes) the code books are compared with those that its create_dynamic_map makes, run over
numpy.

    python3 make_adam8.py FOLDER [WHEEL]
"""
import ast
import sys
import types

import numpy as np

F = np.float32
STEPS, LR, BETA1, BETA2, EPS, DECAY, SCALE = 100, 0.01, 0.9, 0.999, 1e-8, 0.1, 0.5
TINY, MOST = F(2.0 ** -100), F(2.0 ** 62)
# Elements of a block, of the first one, and of the tensor.
CASES = ((256, 100, 700), (2048, 500, 2600))


def linspace(n):
    """n + 1 numbers from 0.1 to 1 in fp32, counted from both ends as torch.linspace does."""
    step = (F(1) - F(0.1)) / F(n)
    i = np.arange(n + 1)
    return np.where(i < (n + 1) // 2, F(0.1) + step * i.astype(F), F(1) - step * (n - i).astype(F))


def decades(signed):
    """Positive numbers below 1 of a book, ascending."""
    out = []
    for i in range(7):
        ends = linspace(2 ** i if signed else 2 ** (i + 1))
        out.append(F(10.0 ** (i - 6)) * ((ends[:-1] + ends[1:]) / F(2)))
    return np.concatenate(out)


def book(signed):
    x = decades(signed)
    x = np.concatenate([-x if signed else [], [0.0], x, [1.0]]).astype(F)
    return np.sort(x)


SIGNED, UNSIGNED = book(True), book(False)


def codes(values, x, inverse):
    """The nearest number of a book to each x / scale; of two the one nearer to zero; of a negative x a negative one."""
    size = values[values >= 0]
    limits = (size[:-1] + size[1:]) / F(2)
    k = np.searchsorted(limits, np.abs(x) * inverse, side="left")
    if values[0] == 0:
        return k
    negative = (x < 0) & (inverse > 0)
    return np.where(negative, 127 - np.clip(k, 1, 127), 127 + k)


def quantize(values, x):
    scale = np.max(np.abs(x))
    scale = scale if scale >= TINY else F(0)
    inverse = F(1) / scale if scale > 0 else F(0)
    return scale, codes(values, x, inverse)


def bounds(block, lead, n):
    at = [0] + list(range(min(lead, n), n, block)) + [n]
    return list(zip(at[:-1], at[1:]))


def splitmix64(x):
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def draw(stream, n):
    """-1 .. 1, in fp32; t_adam8.c has the same."""
    x = splitmix64(np.uint64(stream << 32) + np.arange(n, dtype=np.uint64))
    return (x >> np.uint64(40)).astype(F) * F(2.0 ** -23) - F(1)


def gradient(t, n):
    """With outliers, zeros, numbers that are subnormal, a stretch of tiny ones, and a few that are not finite."""
    g, i = draw(t, n), np.arange(n)
    g[i % 97 == 5] *= F(256)
    g[i % 31 == 7] = 0
    g[i % 61 == 9] *= F(2.0 ** -130)
    g[-40:] *= F(2.0 ** -60)
    if t == 50:
        g[11], g[300], g[301] = np.inf, np.nan, -np.inf
    return g


def step(a, p, m, v, g):
    g = g * a["factor"]
    fine = np.abs(g) <= MOST
    g = np.where(fine, g, F(0))
    m = np.where(fine, a["beta1"] * m + a["to_m"] * g, F(0))
    v = np.where(fine, a["beta2"] * v + a["to_v"] * g * g, F(0))
    new = (p - a["rate"] * (m / (np.sqrt(v) + a["eps"]))) * a["shrink"]
    return np.where(fine, new, p), m, v


def numbers(t):
    """What is rounded to fp32 once."""
    b1, b2 = float(F(BETA1)), float(F(BETA2))
    bias1, bias2 = float(F(1.0 - b1 ** t)), float(F(1.0 - b2 ** t))
    lr, decay, eps = float(F(LR)), float(F(DECAY)), float(F(EPS))
    return {"beta1": F(b1), "beta2": F(b2), "to_m": F(1.0 - b1), "to_v": F(1.0 - b2),
            "rate": F(lr * bias2 ** 0.5 / bias1), "eps": F(eps * bias2 ** 0.5),
            "shrink": F(1.0 - lr * decay), "factor": F(SCALE)}


def compare_books(folder):
    source = open(folder + "/bitsandbytes/functional.py", encoding="utf-8").read()
    made = [n for n in ast.parse(source).body if getattr(n, "name", "") == "create_dynamic_map"]

    class Tensor(np.ndarray):
        def __rmul__(self, k):
            return (np.asarray(self) * F(k)).view(Tensor)

    torch = types.SimpleNamespace(
        float32=None, linspace=lambda a, b, n, dtype: linspace(n - 1).view(Tensor),
        tensor=lambda x, dtype: np.array(x, F))
    names = {"torch": torch}
    exec(compile(ast.Module(made, []), folder, "exec"), names)
    for signed, ours in ((True, SIGNED), (False, UNSIGNED)):
        assert names["create_dynamic_map"](signed=signed).tobytes() == ours.tobytes()


def trajectory(block, lead, n):
    p, blocks = draw(1000, n), bounds(block, lead, n)
    mc, vc = np.zeros(n, int), np.zeros(n, int)
    ms, vs = np.zeros(len(blocks), F), np.zeros(len(blocks), F)
    for t in range(1, STEPS + 1):
        g, a = gradient(t, n), numbers(t)
        for b, (lo, hi) in enumerate(blocks):
            m, v = SIGNED[mc[lo:hi]] * ms[b], UNSIGNED[vc[lo:hi]] * vs[b]
            p[lo:hi], m, v = step(a, p[lo:hi], m, v, g[lo:hi])
            ms[b], mc[lo:hi] = quantize(SIGNED, m)
            vs[b], vc[lo:hi] = quantize(UNSIGNED, v)
    return {"p": p, "m.code": mc, "v.code": vc, "m.scale": ms, "v.scale": vs}


def main():
    folder = sys.argv[1]
    if len(sys.argv) > 2:
        compare_books(sys.argv[2])
    entries = {"signed": SIGNED, "unsigned": UNSIGNED}
    with np.errstate(invalid="ignore", over="ignore"):
        for block, lead, n in CASES:
            for name, x in trajectory(block, lead, n).items():
                entries[f"{block}/{name}"] = x
    at = 0
    with open(folder + "/adam8.index", "w", encoding="ascii") as index, open(folder + "/adam8.bin", "wb") as data:
        for name, x in entries.items():
            index.write(f"{name} {at} {len(x)}\n")
            data.write(np.asarray(x, "<f4").tobytes())
            at += len(x)


main()
