#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make servers.txt: steps of QuantizedAdam (AC-SGD's sharded_ps_compressed) on 2, 3 and 4 replicas.

README in this folder says what the numbers are.  Needs numpy; nothing here knows the program.

    python3 make_servers.py > servers.txt
"""
import numpy as np

N, SHOWN, BITS, BUCKET = 2600, 97, 8, 512
WARM, STEPS = 2, 8
LR, BETA1, BETA2, EPS, DECAY = 0.01, 0.5, 0.75, 1e-3, 0.1
SPANS = (((0, 1700), (2000, 2600)), ((1700, 2000),))  # compressed apart; the first is two pieces
DECAYS = (0, 1700)  # elements with weight decay
F = np.float32


def gradient(step, replica):
    """Multiples of 2^-16 below 1/2, so that all implementations have the same first moments."""
    i = np.arange(N, dtype=np.uint64)
    h = (i * np.uint64(2654435761) + np.uint64(40503 * (7 * step + replica + 1))) % np.uint64(1000003)
    return (((h * h) % np.uint64(127)).astype(np.int64) - 63).astype(F) * (F(2.0) ** -(7 + (i % 9).astype(F)))


def weights():
    i = np.arange(N)
    return ((i * 37) % 101 - 50).astype(np.float64) / 64


def compress(y):
    """Strided buckets of a chunk: what its message says."""
    table = y.reshape(BUCKET, -1)
    scale = np.abs(table).max(axis=0).astype(np.float16).astype(F)
    half = F(2 ** (BITS - 1))
    q = np.clip(np.rint(table / (scale + F(1e-6)) * half), -half, half - 1)
    return (q / half * scale).astype(F).reshape(-1)


def half(x):
    return x.astype(np.float16).astype(F)


class Averager:
    """The mean of a span over replicas, with the errors of workers and servers."""

    def __init__(self, size, replicas):
        unit = replicas * BUCKET * 4
        self.size, self.replicas = size, replicas
        self.padded = -(-size // unit) * unit
        self.chunk = self.padded // replicas
        self.worker = np.zeros((replicas, self.padded), F)
        self.server = np.zeros((replicas, self.chunk), F)

    def run(self, x):
        said = np.zeros((self.replicas, self.replicas, self.chunk), F)
        for r in range(self.replicas):
            y = np.pad(x[r], (0, self.padded - self.size)) + self.worker[r]
            for c in range(self.replicas):
                part = slice(c * self.chunk, (c + 1) * self.chunk)
                said[r, c] = compress(y[part])
                self.worker[r, part] = half(y[part] - said[r, c])
        out = np.zeros(self.padded, F)
        for c in range(self.replicas):
            total = np.zeros(self.chunk, F)
            for r in range(self.replicas):
                total = total + said[r, c]
            total = total * (F(1) / F(self.replicas)) + self.server[c]
            part = slice(c * self.chunk, (c + 1) * self.chunk)
            out[part] = compress(total)
            self.server[c] = half(total - out[part])
        return out[:self.size]


def train(replicas):
    p, m, v = weights(), np.zeros(N, F), np.zeros(N)
    decay = np.zeros(N)
    decay[DECAYS[0]:DECAYS[1]] = DECAY
    index = [np.concatenate([np.arange(a, b) for a, b in span]) for span in SPANS]
    averager = [Averager(len(i), replicas) for i in index]
    for step in range(STEPS):
        g = [gradient(step, r) for r in range(replicas)]
        bias1, bias2 = 1 - BETA1 ** (step + 1), 1 - BETA2 ** (step + 1)
        if step < WARM:
            mean = sum(g, np.zeros(N, F)) * (F(1) / F(replicas))
            m = F(BETA1) * m + F(1 - BETA1) * mean
            v = BETA2 * v + (1 - BETA2) * mean.astype(np.float64) ** 2
            p = p - LR * (m.astype(np.float64) / bias1 / (np.sqrt(v / bias2) + EPS) + decay * p)
        else:
            local = [F(BETA1) * m + F(1 - BETA1) * x for x in g]
            m = m.copy()
            for i, a in zip(index, averager):
                m[i] = a.run([x[i] for x in local])
            p = p - LR * np.sqrt(bias2) / bias1 * m.astype(np.float64) / (np.sqrt(v) + EPS)
            p = p - LR * decay * p
        for i in range(0, N, SHOWN):
            print(f"{replicas} {step} {i} {float(m[i]).hex()} {p[i]:.10g}")
    for r in range(replicas):
        worker, server = averager[0].worker[r], averager[0].server[r]
        print(f"{replicas} errors {r} {float(worker[:1700:SHOWN].astype(np.float64).sum()).hex()}"
              f" {float(server[::SHOWN].astype(np.float64).sum()).hex()}")


print("# replicas, step, element, first moment, weight; replicas, errors, rank, sums of errors")
for d in (2, 3, 4):
    train(d)
