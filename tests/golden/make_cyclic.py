#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make cyclic.txt: permutations of PyTorch, and orders of samples that a sampler makes of them.

    python3 make_cyclic.py > cyclic.txt

README says what the lines are.  The sampler is written from the description of Megatron's cyclic one:
it goes through batches one after the other, as a data loader would, and never computes where it is.
"""
import zlib

import numpy as np
import torch

HEAD = 12


def randperm(seed, n):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def permutations():
    for seed, n in ((0, 1), (0, 2), (1, 3), (1234, 10), (0, 12), (5, 100), (0, 1000), (1, 1000),
                    (4294967295, 77), (2**33 + 9, 50), (3, 624), (3, 625), (7, 100003)):
        p = randperm(seed, n).numpy().astype("<u4")
        print("randperm", seed, n, zlib.crc32(p.tobytes()), *p[:HEAD])


class Sampler:
    def __init__(self, total, consumed, batch, rank, replicas):
        self.total, self.consumed, self.batch = total, consumed, batch
        self.rank, self.replicas = rank, replicas
        self.dropped = total % (batch * replicas)

    def __iter__(self):
        active = self.total - self.dropped
        epoch, done = self.consumed // active, self.consumed % active
        size = self.total // (self.batch * self.replicas) * self.batch
        order = randperm(epoch, size).tolist()
        batch = []
        for place in order[done // self.replicas:]:
            batch.append(self.rank * size + place)
            if len(batch) == self.batch:
                self.consumed += self.batch * self.replicas
                yield batch
                batch = []


def orders():
    """What each replica takes in 14 micro-batches, over the ends of epochs."""
    for total, batch, replicas, start in ((23, 2, 3, 0), (23, 2, 3, 12), (23, 2, 3, 60), (8, 4, 2, 0),
                                          (101, 1, 1, 195), (57, 3, 4, 36)):
        for rank in range(replicas):
            sampler, taken = Sampler(total, start, batch, rank, replicas), []
            while len(taken) < 14 * batch:
                for indices in sampler:
                    taken += indices
            print("order", total, batch, replicas, start, rank, *taken[:14 * batch])


def main():
    print("#", "PyTorch", torch.__version__.split("+")[0], "numpy", np.__version__)
    permutations()
    orders()


if __name__ == "__main__":
    main()
