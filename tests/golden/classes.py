#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make classes.index, classes.bin and classes.txt: what small decoders with a head of three classes compute.

As families.py, whose models, weights and bounds these are, with transformers' ForSequenceClassification in place of its
ForCausalLM: sample s has 2 + (7 s + 3) mod (S - 1) tokens, below V - 1, which is the padding, and class (5 s + 1) mod
3.  Needs torch, transformers and numpy.

    python3 classes.py [FOLDER]
"""
import sys

import numpy as np
import torch
import transformers
from torch import nn
from torch.func import functional_call

import families
from families import GLOBAL, HEAD, Family, double
from make_gpt2 import splitmix64

CLASSES = 3
WEIGHT = HEAD + "classifier.weight"
THESE = ["gpt2", "opt-350m", "llama3"]


class Classes(Family):
    """A row of families.py with the other head."""

    def __init__(self, row):
        self.__dict__.update(row.__dict__)
        self.tied = False

    def trireme(self):
        return super().trireme() + f" --num-labels {CLASSES}"

    def shapes(self):
        out = super().shapes()
        for name in (HEAD + "weight", HEAD + "bias"):
            out.pop(name, None)
        out[WEIGHT] = (CLASSES, self.E)
        return out

    def samples(self, step):
        """Tokens and classes of a global batch."""
        first = step % families.BATCHES * GLOBAL
        at = np.arange(first * (self.S + 1), (first + GLOBAL) * (self.S + 1), dtype=np.uint64) + np.uint64(1000)
        ids = (splitmix64(at) % np.uint64(self.V - 1)).astype(np.int64).reshape(GLOBAL, -1)[:, :-1]
        s = first + np.arange(GLOBAL)
        ids[np.arange(self.S)[None, :] >= (2 + (7 * s + 3) % (self.S - 1))[:, None]] = self.V - 1
        return torch.tensor(ids), torch.tensor((5 * s + 1) % 3)


class Run(families.Run):
    def __init__(self, f, dtype):
        self.f, self.double = f, dtype == torch.float64
        self.p = {n: f.initial(n, s).to(dtype).requires_grad_(True) for n, s in f.shapes().items()}
        with double(self.double):
            config, names = f.model(f)
            config.num_labels, config.pad_token_id = CLASSES, f.V - 1
            self.model = transformers.AutoModelForSequenceClassification.from_config(
                config, attn_implementation="eager").to(dtype).train()

        def with_head(p):
            out = names({**p, HEAD + "weight": p[WEIGHT]})
            for name in ("lm_head.weight", "lm_head.bias"):
                out.pop(name, None)
            return {**out, "score.weight": p[WEIGHT]}

        self.names = with_head
        theirs = {n: tuple(t.shape) for n, t in self.model.named_parameters()}
        ours = {n: tuple(t.shape) for n, t in self.names(self.p).items()}
        if theirs != ours:
            sys.exit(f"{f.name}: parameters differ: {sorted(set(theirs.items()) ^ set(ours.items()))}")

    def logits(self, ids):
        with double(self.double):
            return functional_call(self.model, self.names(self.p), (ids,), {"use_cache": False}).logits

    def loss(self, step):
        ids, label = self.f.samples(step)
        return nn.functional.cross_entropy(self.logits(ids), label)


def main():
    torch.set_num_threads(1)
    folder, entries, texts = sys.argv[1] if len(sys.argv) > 1 else ".", {}, []
    for row in families.FAMILIES:
        if row.name not in THESE:
            continue
        f = Classes(row)
        run, single = Run(f, torch.float64), Run(f, torch.float32)
        ids = f.samples(0)[0]
        with torch.no_grad():
            logits = run.logits(ids)
            far = (single.logits(ids) - logits).abs().max() / logits.abs().max()
        grads, others = run.gradients(), single.gradients()
        off = {n: ((others[n] - g).abs().max() / g.abs().max()).item() for n, g in grads.items()
               if g.abs().max() > 1e-9}
        losses, theirs = run.train(), single.train()
        print(f"{f.name:12} losses {losses[0]:.4f} .. {losses[-1]:.4f}; float32 strays: logits {far:.1e}, "
              f"gradients {max(off.values()):.1e}, losses {np.abs(np.divide(theirs, losses) - 1).max():.1e}")
        entries[f.name + "/logits"] = logits.reshape(-1).tolist()
        entries[f.name + "/losses"] = losses
        for name, g in grads.items():
            entries[f"{f.name}/grad/{name}"] = families.facts(g)
        texts.append(f.trireme() + "\n")
    families.write_entries(folder, "classes", entries)
    with open(f"{folder}/classes.txt", "w", encoding="ascii") as text:
        text.writelines(texts)


if __name__ == "__main__":
    main()
