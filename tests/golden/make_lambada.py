#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make lambada/, lambada.jsonl and lambada.txt: final words of passages as transformers' GPT-2 predicts them.

A model of two layers of 16 numbers, whose tokens are bytes, is trained for a moment on half of the passages, so that
some last words are right.  A word is right if every token of it is the most likely one; lambada.txt has the passages,
how many are right, how many tokens count, and exp of the mean of -log p of the words, in float64.  No token
is closer to being another than 0.01.  Needs torch and transformers.

    python3 make_lambada.py [FOLDER]
"""
import json
import math
import pathlib
import sys

import torch
import transformers

POSITIONS = 64
WHO = ["The old man", "My sister", "A tall girl", "The quiet boy", "Her uncle", "The captain"]
DID = ["opened the", "looked at the", "walked to the", "asked about the"]
LAST = ["door", "window", "harbour", "garden", "letter", "caf\u00e9"]


def passages():
    return [f"{w} {d} {LAST[(3 * i + 2 * k) % len(LAST)]}" for i, w in enumerate(WHO) for k, d in enumerate(DID)]


def tokens(text):
    return torch.tensor(list(text.encode()))


def trained(texts):
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=257, n_positions=POSITIONS, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=256, eos_token_id=256))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        loss = sum(model(tokens(t)[None], labels=tokens(t)[None]).loss for t in texts) / len(texts)
        loss.backward()
        optimizer.step()
    return model.eval()


def last_word(model, text):
    """Whether greedy decoding writes the last word, -log p of it, its tokens, and the closest call."""
    ids, before = tokens(text), len(text[:text.rindex(" ")].encode())
    logits = model(ids[None]).logits[0, before - 1:-1]
    word = ids[before:]
    likely = logits.log_softmax(-1).gather(1, word[:, None])[:, 0]
    best = logits.topk(2).values
    of_word = logits.gather(1, word[:, None])[:, 0]
    close = torch.where(of_word == best[:, 0], best[:, 0] - best[:, 1], best[:, 0] - of_word).min().item()
    return bool((logits.argmax(-1) == word).all()), -likely.sum().item(), len(word), close


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    texts = passages()
    model = trained(texts[::2])
    model.save_pretrained(folder / "lambada")
    (folder / "lambada" / "generation_config.json").unlink(missing_ok=True)
    with torch.no_grad():
        words = [last_word(model.double(), t) for t in texts]
    assert min(w[3] for w in words) > 0.01, min(w[3] for w in words)
    right = sum(w[0] for w in words)
    assert 4 <= right <= len(texts) - 4, right
    with open(folder / "lambada.jsonl", "w", encoding="utf-8") as f:
        for i, t in enumerate(texts):
            f.write(json.dumps({"text": t + (" \n" if i == 3 else "")}, ensure_ascii=i % 2 == 0) + "\n")
    with open(folder / "lambada.txt", "w", encoding="ascii") as f:
        f.write(f"{len(texts)} {right} {sum(w[2] for w in words)} "
                f"{math.exp(sum(w[1] for w in words) / len(words)):.9g}\n")


if __name__ == "__main__":
    main()
