#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pytorch_step.py [REPEATS [SAMPLES [TOKENS [THREADS [fp32|autocast|weights [DROPOUT]]]]]]

The step of bench_step in PyTorch: GPT-2 with 124 million parameters (12 layers of 768, 12 heads, tied
embedding, vocabulary 50257 padded to 50304), forward, backward, clipping to a norm of 1, AdamW;
made-up tokens.  Attention and AdamW are PyTorch's fused ones where it has them; nothing is compiled.
"autocast" is bf16 by autocast over fp32 weights; "weights" has weights, gradients and both states of AdamW
in bf16, which keeps less than this program does: its AdamW adds to fp32 weights.
Prints one line of JSON.
"""
import json
import os
import sys
import time

try:
    import torch
    from pytorch_gpt import VOCABULARY, Model, flop_of, step
except ImportError:
    sys.exit("pytorch_step.py needs PyTorch: `python3 -m venv V && V/bin/pip install torch numpy`, "
             "then benchmarks/run peers --python V/bin/python3")

LAYERS, WIDTH, HEADS, POSITIONS = 12, 768, 12, 1024

# Kinds of arithmetic, and how they are named.
KINDS = {"fp32": "", "autocast": " with autocast", "weights": " with bf16 weights"}


def main(repeats=10, samples=4, tokens=64, threads=0, kind="fp32", dropout=0.0):
    torch.set_num_threads(int(threads) or len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    samples, tokens, repeats = int(samples), int(tokens), int(repeats)
    if kind not in KINDS:
        sys.exit(f"pytorch_step.py knows no type {kind}: {', '.join(KINDS)}")
    model = Model(LAYERS, WIDTH, HEADS, POSITIONS, float(dropout))
    if kind == "weights":
        model = model.to(torch.bfloat16)
    parameters = list(model.parameters())
    try:
        adamw = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    except (RuntimeError, TypeError):
        adamw = torch.optim.AdamW(parameters, lr=1e-4)
    text = torch.randint(VOCABULARY, (samples, tokens + 1))
    seconds, losses = [], []
    for _ in range(3 + repeats):
        began = time.monotonic()
        loss = step(model, parameters, adamw, text, "cpu", torch.bfloat16 if kind == "autocast" else None)
        seconds.append(time.monotonic() - began)
        losses.append(loss.item())
    seconds = sorted(seconds[3:])
    flop = flop_of(LAYERS, WIDTH, samples, tokens)
    median = 0.5 * (seconds[(repeats - 1) // 2] + seconds[repeats // 2])
    print(json.dumps({"bench": "pytorch_step", "type": "fp32" if kind == "fp32" else "bf16",
                      "by": "PyTorch " + torch.__version__ + KINDS[kind],
                      "kernels": torch.backends.cpu.get_cpu_capability() + KINDS[kind], "dropout": float(dropout),
                      "samples": samples, "tokens": tokens, "ranks": 1,
                      "threads": torch.get_num_threads(),
                      "repeats": repeats, "seconds_min": round(seconds[0], 5),
                      "seconds_median": round(median, 5), "gflops": round(1e-9 * flop / median, 2),
                      "first_loss": round(losses[0], 4), "loss": round(losses[-1], 4)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
