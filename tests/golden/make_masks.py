#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make masks.index and masks.bin: the small GPT-2 of make_gpt2.py where documents share a sample.

README in this folder says what the numbers are.  Needs torch and numpy.  Masks are made from the
description of Megatron's: a matrix of what may be seen, in which each end of text blanks a rectangle,
and positions that are lowered after it, one end of text after the other.  Nothing is written unless
gradients agree with central differences, and unless a token's logits with all masks on are those of
its document alone.

    python3 make_masks.py [FOLDER]
"""
import math
import sys

import numpy as np
import torch

import make_gpt2 as base
from make_gpt2 import A, H, L, S, V

EOD = 60
GLOBAL = 4
PLACES, STRIDE = 64, 1009
CASES = (("loss", 2, "l"), ("positions", 2, "p"), ("attention", 2, "a"), ("all", 2, "lpa"),
         ("single", 1, "lpa"))


def tokens(sample):
    """Those of the model, but about one in eight ends a document; sample 3 reads nothing else."""
    t = base.tokens(sample)
    t[t % 8 == 0] = EOD
    if sample == 3:
        t[:S] = EOD
    return t


def masks(ids, what):
    """Which loss counts [b, S], positions [b, S], what may be seen [b, S, S]."""
    b = ids.shape[0]
    counts = torch.ones(b, S, dtype=torch.float64)
    positions = torch.arange(S).repeat(b, 1)
    seen = torch.ones(S, S, dtype=torch.bool).tril().repeat(b, 1, 1)
    if "l" in what:
        counts[ids == EOD] = 0.0
    for row in range(b):
        lowered = 0
        for at in torch.nonzero(ids[row] == EOD).flatten().tolist():
            if "a" in what:
                seen[row, at + 1:, :at + 1] = False
            if "p" in what:
                positions[row, at + 1:] -= at + 1 - lowered
                lowered = at + 1
    return counts, positions, seen


def attention(x, p, at, seen):
    batch, width = x.shape[0], H // A
    qkv = x @ p[at + base.QKV + "weight"].T + p[at + base.QKV + "bias"]
    q, k, v = qkv.view(batch, x.shape[1], A, 3, width).permute(3, 0, 2, 1, 4)
    scores = (q @ k.transpose(-1, -2) / math.sqrt(width)).masked_fill(~seen[:, None], -math.inf)
    context = (torch.softmax(scores, -1) @ v).permute(0, 2, 1, 3).reshape(batch, -1, H)
    return context @ p[at + base.PROJ + "weight"].T + p[at + base.PROJ + "bias"]


def logits_of(p, ids, positions, seen):
    x = p[base.WORD][ids] + p[base.POSITION][positions]
    for layer in range(L):
        at = base.LAYER % layer
        first, second = at + "input_layernorm.", at + "post_attention_layernorm."
        x = x + attention(base.norm(x, p[first + "weight"], p[first + "bias"]), p, at, seen)
        x = x + base.mlp(base.norm(x, p[second + "weight"], p[second + "bias"]), p, at)
    return base.norm(x, p[base.FINAL + "weight"], p[base.FINAL + "bias"]) @ p[base.WORD].T


def loss_of(p, size, what):
    """The mean over micro-batches of `size` samples of their mean over the tokens that count."""
    total = 0.0
    for first in range(0, GLOBAL, size):
        text = torch.stack([tokens(s) for s in range(first, first + size)])
        ids, labels = text[:, :-1], text[:, 1:]
        counts, positions, seen = masks(ids, what)
        log_p = torch.log_softmax(logits_of(p, ids, positions, seen), -1)
        losses = -log_p.gather(-1, labels[..., None])[..., 0]
        if counts.sum() > 0:
            total = total + (losses * counts).sum() / counts.sum()
    return total / (GLOBAL // size)


def check_documents(p):
    """A document among others against the same document alone."""
    worst = 0.0
    for sample in range(GLOBAL):
        ids = tokens(sample)[:-1][None]
        _, positions, seen = masks(ids, "lpa")
        together = logits_of(p, ids, positions, seen)[0]
        begin = 0
        for at in range(S):
            if ids[0, at] != EOD and at != S - 1:
                continue
            n = at + 1 - begin
            alone = logits_of(p, ids[:, begin:at + 1], torch.arange(n)[None],
                              torch.ones(n, n, dtype=torch.bool).tril()[None])[0]
            worst = max(worst, (together[begin:at + 1] - alone).abs().max().item())
            begin = at + 1
    base.must("documents together against each alone", worst, 1e-12)


def check_differences(p, grads, size, what):
    worst, h = 0.0, 1e-5
    with torch.no_grad():
        for name, t in p.items():
            flat = t.view(-1)
            i = STRIDE * 5 % flat.numel()
            keep, side = flat[i].item(), []
            for sign in (1, -1):
                flat[i] = keep + sign * h
                side.append(loss_of(p, size, what).item())
            flat[i] = keep
            worst = max(worst, abs((side[0] - side[1]) / (2 * h) - grads[name].view(-1)[i].item()))
    base.must(f"gradients against central differences ({what}, {size})", worst, 1e-9)


def write(folder, entries):
    offset = 0
    with open(f"{folder}/masks.index", "w", encoding="ascii") as index, \
            open(f"{folder}/masks.bin", "wb") as data:
        for name, values in entries.items():
            flat = np.asarray(values, np.float64).reshape(-1).astype("<f4")
            index.write(f"{name} {offset} {flat.size}\n")
            data.write(flat.tobytes())
            offset += flat.size
    print(f"wrote {len(entries)} entries, {4 * offset} bytes")


def main():
    torch.set_num_threads(1)
    p = {name: base.initial(name, shape) for name, shape in base.shapes().items()}
    text = torch.stack([tokens(s) for s in range(GLOBAL)])
    counts, positions, seen = masks(text[:, :-1], "lpa")
    entries = {"tokens": text.tolist(), "counts": counts.tolist(), "positions": positions.tolist(),
               "from": seen.to(torch.uint8).argmax(-1).tolist()}
    check_documents(p)
    for t in p.values():
        t.requires_grad_(True)
    for case, size, what in CASES:
        for t in p.values():
            t.grad = None
        loss = loss_of(p, size, what)
        loss.backward()
        grads = {name: t.grad.clone() for name, t in p.items()}
        check_differences(p, grads, size, what)
        print(case, "loss", loss.item(), "norm", base.norm_of(grads))
        entries[case + "/loss"] = [loss.item()]
        entries[case + "/norm"] = [base.norm_of(grads)]
        for name, g in grads.items():
            flat = g.view(-1)
            places = [STRIDE * j % flat.numel() for j in range(PLACES)]
            entries[f"{case}/grad/{name}"] = flat[places].tolist()
    write(sys.argv[1] if len(sys.argv) > 1 else ".", entries)


if __name__ == "__main__":
    main()
