#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make deberta.index, deberta.bin and deberta.txt: what small DeBERTa models for sequence classification compute.

Weights, and what is kept of gradients, are as families.py in this folder has them; the models are transformers'
DebertaV2ForSequenceClassification.  The entry "buckets" has the bucket of each distance from
-511 to 511, of 256 up to 512; "few" those from -15 to 15 of the models here.  Needs torch,
transformers and numpy.

    python3 make_deberta.py [FOLDER]
"""
import sys

import numpy as np
import torch
import transformers
from torch import nn
from torch.func import functional_call
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from families import Family, double, facts, must, write_entries
from families import FC1, FC2, LAYER, NORM1, NORM2, PROJ, QKV, WORD, both

SEQ, LABELS, LENGTHS = 16, 3, (16, 5, 11, 1)
H, A, I, V, BUCKETS = 32, 4, 64, 71, 8
FROZEN = ("encoder.relative_embeddings.weight", "encoder.relative_layernorm.weight", "encoder.relative_layernorm.bias")


class Deberta(Family):
    def __init__(self, name, layers, taps):
        super().__init__(name, None, V=V, S=SEQ, H=H, A=A, I=I)
        self.layers, self.taps = layers, taps

    def trireme(self):
        return (f"--model-family {self.name} --num-layers {self.layers} --hidden-size {H} "
                f"--num-attention-heads {A} --ffn-hidden-size {I} --seq-length {SEQ} --vocab-size {V} "
                f"--position-buckets {BUCKETS} --max-relative-positions {SEQ} --num-labels {LABELS}")

    def shapes(self):
        out = {WORD: (V, H)}

        def part(name, *shape):
            out[name + "weight"] = shape
            out[name + "bias"] = shape[:1]

        part("embedding.norm.", H)
        for i in range(self.layers):
            at = LAYER % i
            for name, *shape in ((NORM1, H), (QKV, 3 * H, H), (PROJ, H, H), (NORM2, H), (FC1, I, H), (FC2, H, I)):
                part(at + name, *shape)
        out["encoder.relative_embeddings.weight"] = (2 * BUCKETS, H)
        part("encoder.relative_layernorm.", H)
        if self.taps:
            part("encoder.convolution.", H, self.taps * H)
            part("encoder.convolution_layernorm.", H)
        part("output_layer.pooler.", H, H)
        part("output_layer.classifier.", LABELS, H)
        return out

    def config(self):
        return transformers.DebertaV2Config(
            vocab_size=V, hidden_size=H, num_hidden_layers=self.layers, num_attention_heads=A,
            intermediate_size=I, hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            max_position_embeddings=SEQ, type_vocab_size=0, layer_norm_eps=1e-7, relative_attention=True,
            max_relative_positions=-1, position_buckets=BUCKETS, norm_rel_ebd="layer_norm",
            share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
            conv_kernel_size=self.taps, conv_act="gelu", pooler_dropout=0.0, pooler_hidden_act="gelu",
            pooler_hidden_size=H, num_labels=LABELS, pad_token_id=0)

    def names(self, p):
        """transformers' parameters from ours."""
        top = "deberta."
        out = {top + "embeddings.word_embeddings.weight": p[WORD],
               top + "encoder.rel_embeddings.weight": p[FROZEN[0]]}
        both(p, top + "embeddings.LayerNorm.", "embedding.norm.", out)
        both(p, top + "encoder.LayerNorm.", "encoder.relative_layernorm.", out)
        both(p, "pooler.dense.", "output_layer.pooler.", out)
        both(p, "classifier.", "output_layer.classifier.", out)
        if self.taps:
            both(p, top + "encoder.conv.LayerNorm.", "encoder.convolution_layernorm.", out)
            out[top + "encoder.conv.conv.weight"] = p["encoder.convolution.weight"].view(H, H, self.taps)
            out[top + "encoder.conv.conv.bias"] = p["encoder.convolution.bias"]
        for i in range(self.layers):
            at, to = LAYER % i, f"{top}encoder.layer.{i}."
            for kind in ("weight", "bias"):
                for which, t in zip(("query", "key", "value"), self.qkv(p[at + QKV + kind])):
                    out[f"{to}attention.self.{which}_proj.{kind}"] = t
            both(p, to + "attention.output.dense.", at + PROJ, out)
            both(p, to + "attention.output.LayerNorm.", at + NORM1, out)
            both(p, to + "intermediate.dense.", at + FC1, out)
            both(p, to + "output.dense.", at + FC2, out)
            both(p, to + "output.LayerNorm.", at + NORM2, out)
        return out

    def run(self, dtype):
        """Logits, loss and gradients of the four samples, whose class is their number modulo LABELS."""
        p = {n: self.initial(n, s).to(dtype).requires_grad_(n not in FROZEN) for n, s in self.shapes().items()}
        ids = self.tokens(0)[:, :-1]
        real = torch.tensor([[int(t < n) for t in range(SEQ)] for n in LENGTHS])
        with double(dtype == torch.float64):
            model = transformers.DebertaV2ForSequenceClassification(self.config()).to(dtype).train()
            theirs = {n: tuple(t.shape) for n, t in model.named_parameters()}
            ours = {n: tuple(t.shape) for n, t in self.names(p).items()}
            if theirs != ours:
                sys.exit(f"{self.name}: parameters differ: {sorted(set(theirs.items()) ^ set(ours.items()))}")
            logits = functional_call(model, self.names(p), (), {"input_ids": ids * real, "attention_mask": real}).logits
            loss = nn.functional.cross_entropy(logits, torch.arange(len(LENGTHS)) % LABELS)
            trained = {n: t for n, t in p.items() if t.requires_grad}
            grads = torch.autograd.grad(loss, list(trained.values()))
        return logits.detach(), loss.item(), dict(zip(trained, (g.double() for g in grads)))


MODELS = [Deberta("deberta-v2", 3, 3), Deberta("deberta-v3", 2, 0)]


def main():
    torch.set_num_threads(1)
    folder, entries = sys.argv[1] if len(sys.argv) > 1 else ".", {}
    for f in MODELS:
        logits, loss, grads = f.run(torch.float64)
        single, _, others = f.run(torch.float32)
        # The bias of keys has no gradient from scores of tokens, but from those of positions; tiny ones are noise.
        print(f.name, loss, "float32 strays: logits",
              must("logits", ((single - logits).abs().max() / logits.abs().max()).item(), 3e-6), "gradients",
              must("gradients", max(((others[n] - g).abs().max() / g.abs().max()).item() for n, g in grads.items()), 3e-5))
        entries[f.name + "/logits"] = logits.reshape(-1).tolist()
        entries[f.name + "/loss"] = [loss]
        for name, g in grads.items():
            entries[f"{f.name}/grad/{name}"] = facts(g)
    distance = torch.arange(-511, 512)
    entries["buckets"] = make_log_bucket_position(distance, 256, 512).tolist()
    entries["few"] = make_log_bucket_position(torch.arange(-15, 16), BUCKETS, SEQ).tolist()
    write_entries(folder, "deberta", entries)
    with open(f"{folder}/deberta.txt", "w", encoding="ascii") as text:
        for f in MODELS:
            text.write(f.trireme() + "\n")


if __name__ == "__main__":
    main()
