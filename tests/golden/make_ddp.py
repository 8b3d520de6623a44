#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make ddp.index and ddp.bin: losses of the model of make_gpt2.py under PyTorch's data parallelism.

README in this folder says what the numbers are.  Needs torch and numpy; the processes talk over gloo, on
this machine's loopback.  Nothing is written unless the losses of every lossless way are those of one process
in float64.

    python3 make_ddp.py [FOLDER]
"""
import os
import socket
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from make_gpt2 import (B, BETA1, BETA2, CLIP, DECAY, EPS, V, decays, initial, logits_of, must, shapes,
                       tokens)

STEPS, GLOBAL, SAMPLES, LR, EVERY = 50, 8, 32, 0.001, 4
WAYS = ("ddp", "zero", "fsdp", "every")
REPLICAS = (2, 4)


class Model(nn.Module):
    """The loss of some samples, the mean over their tokens."""

    def __init__(self, dtype):
        super().__init__()
        self.names = list(shapes())
        self.list = nn.ParameterList(nn.Parameter(initial(n, s).to(dtype)) for n, s in shapes().items())

    def forward(self, batch):
        logits = logits_of(dict(zip(self.names, self.list)), batch[:, :-1])
        return nn.functional.cross_entropy(logits.reshape(-1, V), batch[:, 1:].reshape(-1))


def groups(model):
    """Two, with weight decay and without; wrappers keep the order of parameters."""
    of = list(zip(list(shapes()), model.parameters()))
    return [{"params": [t for n, t in of if decays(n) == yes], "weight_decay": DECAY if yes else 0.0}
            for yes in (True, False)]


HOW = {"lr": LR, "betas": (BETA1, BETA2), "eps": EPS}


def micro_batches(step, rank, replicas):
    """B samples each, a replica's after another's, and then the next micro-batch."""
    for micro in range(GLOBAL // (B * replicas)):
        first = GLOBAL * step + B * (micro * replicas + rank)
        yield torch.stack([tokens((first + b) % SAMPLES) for b in range(B)])


def average(model, replicas):
    for t in model.parameters():
        dist.all_reduce(t.grad)
        t.grad /= replicas


def combined(a, b):
    """Adasum of two gradients (Maleki et al. 2021), in float64."""
    dot, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return a * (1 - dot / (2 * aa)) + b * (1 - dot / (2 * bb))


def adasum(model, replicas):
    """A tree over the replicas, parameter by parameter."""
    for t in model.parameters():
        all_of_them = [torch.empty_like(t.grad) for _ in range(replicas)]
        dist.all_gather(all_of_them, t.grad)
        level = [g.double() for g in all_of_them]
        while len(level) > 1:
            level = [combined(a, b) for a, b in zip(level[::2], level[1::2])]
        t.grad.copy_(level[0])


def train(way, rank, replicas, dtype=torch.float32):
    """Mean losses of the samples of each step, before its update."""
    model = wrapped = Model(dtype)
    if way in ("ddp", "zero"):
        wrapped = DistributedDataParallel(model, bucket_cap_mb=0.05)
    if way == "fsdp":
        wrapped = fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (replicas,)))
    if way == "zero":
        rule = ZeroRedundancyOptimizer(groups(model), optimizer_class=torch.optim.AdamW, **HOW)
    else:
        rule = torch.optim.AdamW(groups(model), **HOW)
    losses = []
    for step in range(STEPS):
        batches = list(micro_batches(step, rank, replicas))
        total = torch.zeros((), dtype=torch.float64)
        rule.zero_grad()
        for i, batch in enumerate(batches):
            last = i == len(batches) - 1
            if isinstance(wrapped, DistributedDataParallel):
                wrapped.require_backward_grad_sync = last
            loss = wrapped(batch) / len(batches)
            loss.backward()
            total += loss.detach().double()
        if way == "every" and step % EVERY == 0:
            average(model, replicas)
        if way == "adasum":
            adasum(model, replicas)
        nn.utils.clip_grad_norm_(wrapped.parameters(), CLIP)
        rule.step()
        if replicas > 1:
            dist.all_reduce(total)
        losses.append(total.item() / replicas)
    return losses


def work(rank, replicas, way, port, out):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=replicas)
    losses = train(way, rank, replicas)
    if rank == 0:
        out.put(losses)
    dist.destroy_process_group()


def run(way, replicas):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    context = mp.get_context("spawn")
    out = context.SimpleQueue()
    mp.spawn(work, (replicas, way, port, out), nprocs=replicas)
    return out.get()


def apart(a, b):
    return float(np.abs(np.divide(a, b) - 1).max())


def main():
    torch.set_num_threads(1)
    entries = {"setting": [STEPS, GLOBAL, SAMPLES, LR, EVERY],
               "losses": train("alone", 0, 1, torch.float64)}
    for replicas in REPLICAS:
        for way in WAYS:
            entries[f"{way}/{replicas}"] = run(way, replicas)
            if way != "every":
                must(f"{way}, {replicas} replicas, against float64",
                     apart(entries[f"{way}/{replicas}"], entries["losses"]), 3e-6)
        print("every 4th step, off by", apart(entries[f"every/{replicas}"], entries["losses"]))
    for replicas in REPLICAS:
        entries[f"adasum/{replicas}"] = run("adasum", replicas)
        print("Adasum, off by", apart(entries[f"adasum/{replicas}"], entries["losses"]))
    print("losses", " ".join(f"{x:.4f}" for x in entries["losses"][::7]))
    offset, folder = 0, sys.argv[1] if len(sys.argv) > 1 else "."
    with open(f"{folder}/ddp.index", "w", encoding="ascii") as index, \
            open(f"{folder}/ddp.bin", "wb") as data:
        for name, values in entries.items():
            flat = np.asarray(values, np.float64).astype("<f4")
            index.write(f"{name} {offset} {flat.size}\n")
            data.write(flat.tobytes())
            offset += flat.size
    print(f"wrote {len(entries)} entries, {4 * offset} bytes")


if __name__ == "__main__":
    main()
