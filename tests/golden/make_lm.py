#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make lm.txt: perplexity after each epoch of a loop as AC-SGD's, with transformers.  README says what is in it.

Needs torch and transformers.
"""
import math
import pathlib
import re
import tempfile

import torch
import transformers

import lm_model
from lm_model import S

EPOCHS, BATCH, LR, DECAY = 3, 8, 1e-3, 0.01


def detokenize(s):
    """The rules for WikiText that language modelling tasks share, in their order."""
    s = s.replace("s '", "s'")
    s = re.sub(r"/' [0-9]/", r"/'[0-9]/", s)
    for a, b in ((" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", "."), (" : ", ": "), (" ; ", "; "), (" . ", ". "),
                 (" ! ", "! "), (" ? ", "? "), (" , ", ", ")):
        s = s.replace(a, b)
    for a, b in (("(", ")"), ("[", "]"), ("{", "}"), ('"', '"'), ("'", "'")):
        s = re.sub(rf"\{a}\s*([^\{b}]*?)\s*\{b}", rf"{a}\1{b}", s)
    for a, b in (("= = = =", "===="), ("= = =", "==="), ("= =", "=="), (" \xb0 ", "\xb0"), (" \n", "\n"),
                 ("\n ", "\n"), (" N ", " 1 "), (" 's", "'s")):
        s = s.replace(a, b)
    return s


def blocks(path):
    """Rows as Hugging Face's data set has them, one stream of bytes, its whole blocks but one that ends it."""
    rows = [r if r.strip() else "" for r in path.read_text(encoding="utf-8").splitlines(keepends=True)]
    ids = list("\n\n".join(detokenize(r) for r in rows).encode())
    return torch.tensor([ids[i:i + S] for i in range(0, len(ids), S) if i < len(ids) - S]), len(ids)


def perplexity(model, test):
    """Of whole batches alone: the mean over samples of each one's mean loss."""
    losses = []
    with torch.no_grad():
        for i in range(0, len(test) - BATCH + 1, BATCH):
            logits = model(test[i:i + BATCH]).logits[:, :-1]
            one = torch.nn.functional.cross_entropy(logits.transpose(1, 2), test[i:i + BATCH, 1:], reduction="none")
            losses += one.mean(1).tolist()
    return math.exp(sum(losses) / len(losses))


def main():
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        lm_model.save(top / "model")
        (top / "train.raw").write_text(lm_model.rows(0, 16), encoding="utf-8")
        (top / "test.raw").write_text(lm_model.rows(100, 6), encoding="utf-8")
        train, tokens = blocks(top / "train.raw")
        test, _ = blocks(top / "test.raw")
        model = transformers.GPT2LMHeadModel.from_pretrained(top / "model", attn_implementation="eager").double()
    model.train()
    decayed = [p for n, p in model.named_parameters() if p.ndim > 1]
    others = [p for n, p in model.named_parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY},
                                   {"params": others, "weight_decay": 0.0}], lr=LR, eps=1e-8)
    iterations = len(train) // BATCH
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, EPOCHS * iterations)
    with open("lm.txt", "w", encoding="ascii") as out:
        out.write(f"tokens {tokens} blocks {len(train)} {len(test)} iterations {iterations}\n")
        for _ in range(EPOCHS):
            for i in range(iterations):
                ids = train[i * BATCH:(i + 1) * BATCH]
                optimizer.zero_grad()
                model(ids, labels=ids).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
            out.write(f"{perplexity(model, test):.8f}\n")
    print("torch", torch.__version__, "transformers", transformers.__version__)


if __name__ == "__main__":
    main()
