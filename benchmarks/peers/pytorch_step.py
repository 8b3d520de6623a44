#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pytorch_step.py [REPEATS [SAMPLES [TOKENS [THREADS [fp32|bf16 [DROPOUT]]]]]]

The step of bench_step in PyTorch: GPT-2 with 124 million parameters (12 layers of 768, 12 heads, tied
embedding, vocabulary 50257 padded to 50304), forward, backward, clipping to a norm of 1, AdamW;
made-up tokens.  Attention and AdamW are PyTorch's fused ones where it has them; nothing is compiled.
bf16 is autocast over fp32 weights.
Prints one line of JSON.
"""
import json
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("pytorch_step.py needs PyTorch: `python3 -m venv V && V/bin/pip install torch numpy`, "
             "then PYTHON=V/bin/python3 benchmarks/run pytorch")

LAYERS, WIDTH, HEADS, VOCABULARY, PADDED, POSITIONS = 12, 768, 12, 50257, 50304, 1024


class Layer(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.p = dropout
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        ctx = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=True)
        x = x + F.dropout(self.out(ctx.transpose(1, 2).reshape(b, t, WIDTH)), self.p)
        y = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + F.dropout(self.down(y), self.p)


class Model(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.p = dropout
        self.words, self.places = nn.Embedding(PADDED, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, labels):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = F.dropout(x, self.p)
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.view(-1, PADDED), labels.reshape(-1))


def main(repeats=10, samples=4, tokens=64, threads=0, kind="fp32", dropout=0.0):
    torch.set_num_threads(int(threads) or len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    samples, tokens, repeats = int(samples), int(tokens), int(repeats)
    model = Model(float(dropout))
    parameters = list(model.parameters())
    try:
        adamw = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    except (RuntimeError, TypeError):
        adamw = torch.optim.AdamW(parameters, lr=1e-4)
    text = torch.randint(VOCABULARY, (samples, tokens + 1))
    seconds, losses = [], []
    for _ in range(3 + repeats):
        began = time.monotonic()
        adamw.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "bf16"):
            loss = model(text[:, :-1], text[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adamw.step()
        seconds.append(time.monotonic() - began)
        losses.append(loss.item())
    seconds = sorted(seconds[3:])
    layer = 12 * WIDTH * WIDTH
    flop = 6 * samples * tokens * (LAYERS * layer + WIDTH * VOCABULARY)
    flop += 6 * samples * tokens * tokens * LAYERS * WIDTH
    median = 0.5 * (seconds[(repeats - 1) // 2] + seconds[repeats // 2])
    print(json.dumps({"bench": "pytorch_step", "by": "PyTorch " + torch.__version__, "type": kind,
                      "samples": samples, "tokens": tokens, "threads": torch.get_num_threads(),
                      "repeats": repeats, "seconds_min": round(seconds[0], 5),
                      "seconds_median": round(median, 5), "gflops": round(1e-9 * flop / median, 2),
                      "first_loss": round(losses[0], 4), "loss": round(losses[-1], 4)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
