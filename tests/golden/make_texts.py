#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make texts.index, texts.bin and texts.txt: what transformers makes of tokens with the models of families.py.

README in this folder says what the numbers are.  Needs torch, transformers and numpy.

    python3 make_texts.py [FOLDER [FAMILY ...]]
"""
import copy
import sys

import numpy as np
import torch
from torch import nn

import families
from families import FAMILIES, Native, Run, double, must
from make_gpt2 import splitmix64

S, TOKENS, STRIDES = 96, 300, (96, 37)
PROMPTS, NEW, GAP = (3, 12, 7, 1), 64, 1e-4


def longer(f):
    """The same family with a context of S tokens."""
    g = copy.copy(f)
    g.rows = f.rows and S + f.rows - f.S
    g.S = S
    return g


def drawn(f, seed, count):
    at = np.arange(count, dtype=np.uint64) + np.uint64(seed)
    return torch.tensor((splitmix64(at) % np.uint64(f.V)).astype(np.int64))


def loaded(f, dtype):
    """The model with its weights in place, as from_pretrained() leaves it."""
    run = Run(f, dtype)
    with torch.no_grad():
        theirs = run.names(run.p)
        for name, t in run.model.named_parameters():
            t.copy_(theirs[name])
    return run.model.eval()


def loss_of(model, f, ids, labels):
    """The mean over the labels that are not -100, of which each belongs to the token before it."""
    if not isinstance(model, Native):
        return model(ids[None], labels=labels[None], use_cache=False).loss
    return nn.functional.cross_entropy(model(ids[None])[0, :-1], labels[1:], ignore_index=-100)


def perplexity(model, f, stream, stride):
    """The loop that users of transformers have: windows, of which only new tokens have labels.  Each token
    that counts has the same weight."""
    total, count, done = 0.0, 0, 0
    for begin in range(0, len(stream), stride):
        end = min(begin + S, len(stream))
        ids = stream[begin:end]
        labels = ids.clone()
        labels[:len(ids) - (end - done)] = -100
        done = end
        n = int((labels[1:] != -100).sum())
        if n:
            total += loss_of(model, f, ids, labels).item() * n
            count += n
        if end == len(stream):
            break
    return total / count, count


def greedy(model, prompt):
    """The tokens behind a prompt, the logarithms of their probabilities, and by how much each was better than the next best at least."""
    if not isinstance(model, Native):
        out = model.generate(prompt[None], max_new_tokens=NEW, do_sample=False, output_logits=True,
                             return_dict_in_generate=True, pad_token_id=0,
                             attention_mask=torch.ones_like(prompt[None]))
        logits = torch.stack(out.logits)[:, 0]
        tokens = out.sequences[0, len(prompt):]
    else:
        ids, rows = prompt, []
        for _ in range(NEW):
            rows.append(model(ids[None])[0, -1])
            ids = torch.cat([ids, rows[-1].argmax()[None]])
        logits, tokens = torch.stack(rows), ids[len(prompt):]
    best = logits.topk(2).values
    likely = logits.double().log_softmax(-1).gather(1, tokens[:, None])[:, 0]
    assert len(tokens) == NEW
    return tokens, likely, (best[:, 0] - best[:, 1]).min().item()


def one(f, entries):
    stream = drawn(f, 5000, TOKENS)
    with torch.no_grad():
        with double(True):
            model = loaded(f, torch.float64)
            losses = [perplexity(model, f, stream, s) for s in STRIDES]
        model = loaded(f, torch.float32)
        for stride, (loss, count) in zip(STRIDES, losses):
            must(f"{f.name} loss", abs(perplexity(model, f, stream, stride)[0] / loss - 1), 1e-5)
        entries[f.name + "/losses"] = [loss for loss, _ in losses]
        entries[f.name + "/counts"] = [count for _, count in losses]
        seed, drawn_again, least = 100000, 0, 1e9
        for i, length in enumerate(PROMPTS):
            while True:
                prompt = drawn(f, seed, length)
                seed += 1000
                tokens, likely, gap = greedy(model, prompt)
                if gap >= GAP:
                    break
                drawn_again += 1
            least = min(least, gap)
            entries[f"{f.name}/prompt/{i}"] = prompt.tolist()
            entries[f"{f.name}/text/{i}"] = tokens.tolist()
            entries[f"{f.name}/logprob/{i}"] = likely.tolist()
    print(f"{f.name:12} losses {losses}, least gap {least:.1e}, {drawn_again} prompts drawn again, "
          f"{len(set(entries[f.name + '/text/1']))} different tokens in a text")


def main():
    torch.set_num_threads(1)
    folder, entries = sys.argv[1] if len(sys.argv) > 1 else ".", {}
    chosen = [longer(f) for f in FAMILIES if not sys.argv[2:] or f.name in sys.argv[2:]]
    for f in chosen:
        one(f, entries)
    families.write_entries(folder, "texts", entries)
    with open(f"{folder}/texts.txt", "w", encoding="ascii") as text:
        for f in chosen:
            text.write(f.trireme() + "\n")


if __name__ == "__main__":
    main()
