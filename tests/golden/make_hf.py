#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make hf.txt: what transformers saves of the models of families.py.  README in this folder says what is in it.

    python3 make_hf.py [FOLDER]     with FOLDER the models are kept there, as FOLDER/TYPE/FAMILY

Needs torch, transformers and safetensors.
"""
import json
import pathlib
import sys
import tempfile
import zlib

import torch
import transformers
from safetensors.torch import load_file

import families
import make_deberta

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def save(f, kind, folder):
    """The model with the weights of the formula, as transformers saves it, and its logits of sample 0."""
    if f.model:
        config, names = f.model(f)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    else:
        names = f.names
        model = transformers.DebertaV2ForSequenceClassification(f.config()).float()
    weights = {n: f.initial(n, s) for n, s in f.shapes().items()}
    theirs = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in names(weights).items():
            theirs[name].copy_(value)
    model.to(TYPES[kind]).save_pretrained(folder)


def one(f, top, out):
    tensors = {}
    for kind in TYPES:
        folder = pathlib.Path(top) / kind / f.name
        save(f, kind, folder)
        for name, value in load_file(folder / "model.safetensors").items():
            raw = value.contiguous().view(torch.uint8).numpy().tobytes()
            tensors.setdefault(name, [list(value.shape)]).append(zlib.crc32(raw))
    config = json.loads((pathlib.Path(top) / "fp32" / f.name / "config.json").read_text())
    out.write(f"model {f.name}\nconfig {json.dumps(config, sort_keys=True)}\n")
    for name, (shape, *sums) in sorted(tensors.items()):
        out.write(f"{name} {','.join(map(str, shape))} {' '.join(f'{x:08x}' for x in sums)}\n")


def main():
    with tempfile.TemporaryDirectory() as temporary, open("hf.txt", "w", encoding="ascii") as out:
        for f in families.FAMILIES + make_deberta.MODELS:
            if f.model is not families.native:
                one(f, sys.argv[1] if len(sys.argv) > 1 else temporary, out)
    print("transformers", transformers.__version__)


if __name__ == "__main__":
    main()
