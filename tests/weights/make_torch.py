#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make the files of torch.save() in torch/: what t_torch.c and t_heads.sh read.  Needs torch, transformers and numpy.

    python3 make_torch.py

The model is a GPT-2 of t_torch.c's sizes with the weights of ../golden/families.py; the others are what cannot be read.
"""
import argparse
import io
import os
import pathlib
import random
import sys
import zipfile

import numpy
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


def deberta():
    """A DeBERTa without its head, whole and as AC-SGD's convert_deberta_checkpoint.py divides it."""
    from transformers import DebertaV2Config, DebertaV2Model

    torch.manual_seed(1)
    config = DebertaV2Config(
        vocab_size=16, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=8, relative_attention=True, position_buckets=4, share_att_key=True,
        norm_rel_ebd="layer_norm", pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
        conv_kernel_size=3, conv_act="gelu", num_labels=2, pooler_hidden_size=8)
    model = DebertaV2Model(config)
    for p in model.parameters():
        p.data = torch.randn(p.shape) / 4
    model = model.half()
    model.save_pretrained(HERE / "torch" / "deberta-whole")
    encoder, folder = model.encoder, HERE / "torch" / "deberta-layers"
    folder.mkdir(exist_ok=True)
    modules = {"embs": model.embeddings, "rel_embs": encoder.rel_embeddings, "ln": encoder.LayerNorm,
               "conv": encoder.conv} | {str(i): layer for i, layer in enumerate(encoder.layer)}
    for name, module in modules.items():
        torch.save(module.state_dict(), folder / f"pytorch_{name}.pt")
    for name in ("deberta-whole", "deberta-layers"):
        config.architectures = ["DebertaV2Model"]
        config.save_pretrained(HERE / "torch" / name)


def at(*positions):
    return {f"{i}.{name}": t for i, part in enumerate(positions) for name, t in part.items()}


def megatron(folder, ranks, stages, version, padded):
    """A checkpoint as Megatron-LM of 2021 lays it out: rows or columns by tensor ranks, layers by stages."""
    families.L = 2
    f = families.Family("gpt2", None, V=11, S=6, H=8, A=4, I=12, rows=6, tied=True)
    ours = {n: f.initial(n, s).float().half() for n, s in f.shapes().items()}
    families.L = 1
    word = torch.zeros(padded, f.H).half()
    word[:f.V] = ours[families.WORD]
    old = version < 2
    args = argparse.Namespace(
        num_layers=2, hidden_size=f.H, num_attention_heads=f.A, max_position_embeddings=f.S, ffn_hidden_size=f.I,
        kv_channels=f.D, padded_vocab_size=padded, layernorm_epsilon=1e-5, params_dtype=torch.float16, lr=1.5e-4,
        bias_gelu_fusion=True, openai_gelu=False, onnx_safe=None, tensor_model_parallel_size=ranks,
        apply_residual_connection_post_layernorm=False, data_path=["a", "b"], consumed_train_samples=800)

    def shard(name, t, rank):
        if name.endswith(("query_key_value.weight", "query_key_value.bias")):
            t = t.view(ranks, f.A // ranks, 3, f.D, *t.shape[1:])[rank]
            return (t.transpose(1, 2) if version == 1 else t.transpose(0, 1) if old else t).flatten(0, 2)
        if "dense_h_to_4h" in name:
            return t.chunk(ranks)[rank]
        if name.endswith(("dense.weight", "dense_4h_to_h.weight")):
            return t.chunk(ranks, 1)[rank]
        return t

    for rank in range(ranks):
        for stage in range(stages):
            layers = {}
            for name, t in ours.items():
                n = name.split(".")
                if name.startswith("encoder.layers.") and int(n[2]) * stages // 2 == stage:
                    rest = ".".join(n[3:])
                    rest = rest.replace("self_attention", "attention") if old else rest
                    layers[f"layers.{int(n[2]) % (2 // stages)}.{rest}"] = shard(name, t, rank).clone()
                if name.startswith("encoder.final") and stage == stages - 1:
                    layers[name.removeprefix("encoder.")] = t
            part = {"transformer" if old else "encoder": layers}
            if stage == 0:
                part["embedding"] = {"word_embeddings": {"weight": word.chunk(ranks)[rank].clone()},
                                     "position_embeddings": {"weight": ours[families.POSITION]}}
            model = {"language_model": part}
            if stage == stages - 1 and stages > 1:
                model["word_embeddings_for_head"] = {"weight": word.chunk(ranks)[rank].clone()}
            whole = {"args": args, "iteration": 100, "model": model,
                     "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}, "groups": [{"lr": 1e-3}]},
                     "random_rng_state": random.getstate()[:1], "np_rng_state": numpy.random.get_state()[:1] + (numpy.zeros(3),),
                     "torch_rng_state": torch.zeros(4, dtype=torch.uint8)}
            if version:
                whole["checkpoint_version"] = version
            name = f"mp_rank_{rank:02d}_{stage:03d}" if stages > 1 else f"mp_rank_{rank:02d}"
            (folder / name).mkdir(parents=True, exist_ok=True)
            torch.save(whole, folder / name / "model_optim_rng.pt")


def main():
    to = HERE / "torch"
    megatron(to / "megatron" / "iter_0000100", 2, 2, 3.0, 16)
    (to / "megatron" / "latest_checkpointed_iteration.txt").write_text("100")
    megatron(to / "megatron-old" / "release", 1, 1, 0, 12)
    (to / "megatron-old" / "latest_checkpointed_iteration.txt").write_text("release")
    megatron(to / "megatron-old" / "two", 2, 1, 0, 12)
    megatron(to / "megatron-old" / "one", 2, 1, 1.0, 12)
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
    deberta()
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
