#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small GPT-2 as transformers saves one, and rows as those of WikiText: what make_lm.py trains and t_lm.sh as well.

    python3 lm_model.py FOLDER      writes FOLDER/model, FOLDER/train.raw, FOLDER/test.raw

Needs nothing but Python.  Weights are those of the formula in README, by the names of transformers.
"""
import json
import pathlib
import struct
import sys

V, S, H, A, L = 257, 32, 32, 4, 2
MASK = (1 << 64) - 1


def fnv1a(text):
    h = 0xCBF29CE484222325
    for c in text.encode():
        h = (h ^ c) * 0x100000001B3 & MASK
    return h


def splitmix64(x):
    z = x + 0x9E3779B97F4A7C15 & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def shapes():
    out = {"transformer.wte.weight": (V, H), "transformer.wpe.weight": (S, H)}
    for layer in range(L):
        at = f"transformer.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            out[at + norm + ".weight"] = out[at + norm + ".bias"] = (H,)
        for name, rows, cols in (("attn.c_attn", H, 3 * H), ("attn.c_proj", H, H), ("mlp.c_fc", H, 4 * H),
                                 ("mlp.c_proj", 4 * H, H)):
            out[at + name + ".weight"] = (rows, cols)
            out[at + name + ".bias"] = (cols,)
    out["transformer.ln_f.weight"] = out["transformer.ln_f.bias"] = (H,)
    return out


def values(name, shape):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    norm = ".ln_" in name and name.endswith("weight")
    base, amplitude = (1.0, 0.25) if norm else (0.0, 0.125 if name.endswith("bias") else 0.5)
    h = fnv1a(name)
    return [base + amplitude * ((splitmix64(h + i & MASK) >> 44) * 2.0**-20 - 0.5) for i in range(count)]


def save(folder):
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": V, "n_positions": S,
              "n_embd": H, "n_head": A, "n_layer": L, "n_inner": None, "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
              "tie_word_embeddings": True, "bos_token_id": 256, "eos_token_id": 256, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes().items():
        raw = struct.pack(f"<{shape[0] * (shape[1] if len(shape) > 1 else 1)}f", *values(name, shape))
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


# One line is a row; those of nothing but a blank are empty ones.
SENTENCES = (
    " The {} was built in 18 @.@ {} by {} workers , who \" had no plan \" ( as they said ) .",
    " It was = = not = = a well @-@ known {} ; {} @,@ 000 people saw it : {} of them twice !",
    " Was the {} ' older ' than {} ? Its owner 's letters [ of {} ] do not say so .",
    " The workers ' {} lay at {} \xb0 north , { as on a map } , N {} .",
)


def rows(first, count):
    out = []
    for i in range(first, first + count):
        out += [" ", f" = House {i % 17} = ", " "]
        for k in range(3):
            d = splitmix64(1000 * i + k)
            words = ("mill", "bridge", "road", "school")
            line = SENTENCES[d % 4]
            for word in (words[d >> 8 & 3], str(d >> 16 & 63), str(d >> 24 & 15)):
                line = line.replace("{}", word, 1)
            out.append(line + " ")
    return "".join(line + "\n" for line in out)


def main():
    top = pathlib.Path(sys.argv[1])
    save(top / "model")
    (top / "train.raw").write_text(rows(0, 16), encoding="utf-8")
    (top / "test.raw").write_text(rows(100, 6), encoding="utf-8")


if __name__ == "__main__":
    main()
