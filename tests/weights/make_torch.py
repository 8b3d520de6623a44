#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make the files of torch.save() in torch/: what t_torch.c reads.  Needs torch.

    python3 make_torch.py

The model is a GPT-2 of t_torch.c's sizes with the weights of ../golden/families.py; the others are what cannot be read.
"""
import io
import os
import pathlib
import sys
import zipfile

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))
import families  # noqa: E402

families.L = 1
F = families.Family("gpt2", lambda f: families.gpt2(f, "gelu_new"), V=11, S=6, H=8, A=2, I=12, rows=6, tied=True)


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/trireme-was-here",)


def weights():
    _, names = F.model(F)
    out = names({n: F.initial(n, s).float() for n, s in F.shapes().items()})
    out = {n: t.contiguous().half() for n, t in out.items()}
    # As old files have it: the output layer is the same storage, and there is a buffer with the mask.
    out["lm_head.weight"] = out["transformer.wte.weight"]
    out["transformer.h.0.attn.bias"] = torch.ones(6, 6, dtype=torch.bool).tril().view(1, 1, 6, 6)
    return out


def parts():
    """The same model with two layers and an output layer of its own: embeddings, layers, head."""
    families.L = 2
    _, names = F.model(F)
    shapes = F.shapes() | {families.HEAD + "weight": (F.V, F.H)}
    ours = {n: F.initial(n, s).float() for n, s in shapes.items()}
    all_ = {n.removeprefix("transformer."): t.contiguous().half() for n, t in names(ours).items()}
    families.L = 1
    head = {"ln_f.weight": all_.pop("ln_f.weight"), "ln_f.bias": all_.pop("ln_f.bias"),
            "lm_head.weight": ours[families.HEAD + "weight"].half()}
    layers = [{n.removeprefix(f"h.{i}."): t for n, t in all_.items() if n.startswith(f"h.{i}.")} for i in (0, 1)]
    return {n: t for n, t in all_.items() if not n.startswith("h.")}, *layers, head


def at(*positions):
    return {f"{i}.{name}": t for i, part in enumerate(positions) for name, t in part.items()}


def main():
    to = HERE / "torch"
    embs, first, second, head = parts()
    for name, part in ("embs", embs), ("0", first), ("1", second), ("lm_head", head):
        torch.save(part, to / f"pytorch_{name}.pt")
    torch.save(at(embs, first), to / "prank_0_checkpoint.pt")
    torch.save(at(second, head), to / "prank_1_checkpoint.pt")
    model = weights()
    torch.save(model, to / "model.bin")
    first = dict(list(model.items())[:5])
    torch.save(first, to / "shard-1.bin")
    torch.save({n: t for n, t in model.items() if n not in first}, to / "shard-2.bin", pickle_protocol=4)
    torch.save({"w": torch.nn.Parameter(torch.zeros(2)), "x": Evil()}, to / "evil.bin")
    torch.save(model | {"transformer.h.0.attn.c_attn.weight": model["transformer.h.0.attn.c_attn.weight"].T.contiguous().T},
               to / "view.bin")
    torch.save({"w": torch.zeros(2)}, to / "legacy.bin", _use_new_zipfile_serialization=False)
    plain = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(to / "deflated.bin", "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            out.writestr(name, source.read(name))
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(to / "big-endian.bin", "w") as out:
        for name in source.namelist():
            out.writestr(name, b"big" if name.endswith("byteorder") else source.read(name))


if __name__ == "__main__":
    main()
