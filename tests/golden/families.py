#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make families.index, families.bin and families.txt: what a small model of each family computes.

README in this folder says what the numbers are.  The models are those of transformers, and for
yuan-native, which it lacks, one of torch.nn's parts.  Needs torch, transformers and numpy.

    python3 families.py [FOLDER [FAMILY ...]]       FOLDER: where to write; FAMILY: those only
    python3 families.py --halves [FAMILY ...]       how far PyTorch's fp16 and bf16 stray; writes nothing

Parameters have the names and layouts of src/model/param.def here; torch's functional_call puts views
of them in the place of the model's own, so that autograd brings each gradient back in that layout.
Numbers are computed in float64 and rounded once.  transformers computes some parts in float32 whatever the
type of the model, so `double` below makes float32 mean float64 while a model is built and run; the same
numbers from the model as it is, in float32, must agree.
"""
import contextlib
import math
import sys

import numpy as np
import torch
import transformers
from torch import nn
from torch.func import functional_call

from make_gpt2 import fnv1a, splitmix64

L, B, GLOBAL, STEPS, BATCHES = 2, 2, 4, 10, 2
LR, BETA1, BETA2, EPS, DECAY = 0.003, 0.9, 0.999, 1e-5, 0.1
PLACES, STRIDE, SIGNS = 64, 1009, 4
WORD = "embedding.word_embeddings.weight"
POSITION = "embedding.position_embeddings.weight"
LAYER = "encoder.layers.%d."
NORM1, NORM2 = "input_layernorm.", "post_attention_layernorm."
QKV = "self_attention.query_key_value."
PROJ = "self_attention.dense."
FC1 = "mlp.dense_h_to_4h."
FC2 = "mlp.dense_4h_to_h."
FINAL = "encoder.final_layernorm."
HEAD = "output_layer."


class Family:
    """Sizes: V words, S positions, H hidden, A heads of width D in G groups, I inside the MLP, E of the
    embedding.  A field that is not given has the value of most families."""

    def __init__(self, name, model, V, S, H, A, I, options="", G=None, D=None, E=None, **more):
        self.name, self.model, self.options = name, model, options
        self.V, self.S, self.H, self.A, self.I = V, S, H, A, I
        self.G, self.D, self.E = G or A, D or H // A, E or H
        self.rows = 0            # of the table of positions
        self.norm_bias = self.qkv_bias = self.proj_bias = self.mlp_bias = True
        self.norm2 = self.final = True
        self.gated = self.embed_norm = self.head_norm = self.head_bias = self.one = False
        self.tied = False
        for key, value in more.items():
            assert hasattr(self, key), key
            setattr(self, key, value)

    def trireme(self):
        return (f"--model-family {self.name} --num-layers {L} --hidden-size {self.H} "
                f"--num-attention-heads {self.A} --ffn-hidden-size {self.I} --seq-length {self.S} "
                f"--max-position-embeddings {self.S} --vocab-size {self.V} {self.options}").strip()

    def shapes(self):
        """Every parameter and its shape: src/model/param.def."""
        out = {WORD: (self.V, self.E)}

        def norm(name, there=True):
            if there:
                out[name + "weight"] = (self.H,)
                if self.norm_bias:
                    out[name + "bias"] = (self.H,)

        def linear(name, rows, cols, bias):
            out[name + "weight"] = (rows, cols)
            if bias:
                out[name + "bias"] = (rows,)

        if self.rows:
            out[POSITION] = (self.rows, self.H)
        if self.E != self.H:
            out["embedding.project_in.weight"] = (self.H, self.E)
        norm("embedding.norm.", self.embed_norm)
        for layer in range(L):
            at = LAYER % layer
            norm(at + NORM1)
            linear(at + QKV, (self.A + 2 * self.G) * self.D, self.H, self.qkv_bias)
            if self.head_norm:
                out[at + "self_attention.q_layernorm.weight"] = (self.D,)
                out[at + "self_attention.k_layernorm.weight"] = (self.D,)
            linear(at + PROJ, self.H, self.A * self.D, self.proj_bias)
            norm(at + NORM2, self.norm2)
            linear(at + FC1, self.I * (2 if self.gated else 1), self.H, self.mlp_bias)
            linear(at + FC2, self.H, self.I, self.mlp_bias)
        norm(FINAL, self.final)
        if self.E != self.H:
            out[HEAD + "project_out.weight"] = (self.E, self.H)
        if not self.tied:
            linear(HEAD, self.V, self.E, self.head_bias)
        return out

    def initial(self, name, shape):
        """The formula of weights; golden.c has the same."""
        n = math.prod(shape)
        with np.errstate(over="ignore"):
            x = splitmix64(np.uint64(fnv1a(name)) + np.arange(n, dtype=np.uint64))
        u = (x >> np.uint64(44)).astype(np.float32) * np.float32(2.0**-20) - np.float32(0.5)
        base, amplitude = 0.0, 0.5
        if name.endswith(".bias"):
            amplitude = 0.125
        elif name.endswith("norm.weight"):
            base, amplitude = 0.0 if self.one else 1.0, 0.25
        value = np.float32(base) + np.float32(amplitude) * u
        return torch.tensor(value.reshape(shape), dtype=torch.float64)

    def tokens(self, step):
        """The samples of a step, [GLOBAL, S + 1]; after BATCHES steps they come again."""
        first = GLOBAL * (step % BATCHES)
        n = (self.S + 1)
        at = np.arange(first * n, (first + GLOBAL) * n, dtype=np.uint64) + np.uint64(1000)
        ids = (splitmix64(at) % np.uint64(self.V)).astype(np.int64)
        return torch.tensor(ids.reshape(GLOBAL, n))

    def qkv(self, t):
        """Queries, keys and values, of rows that are per group [its queries | key | value]."""
        t = t.view(self.G, self.A // self.G + 2, self.D, *t.shape[1:])
        return (t[:, :-2].flatten(0, 2), t[:, -2].flatten(0, 1), t[:, -1].flatten(0, 1))


@contextlib.contextmanager
def double(yes):
    """float32 means float64 in what transformers does meanwhile."""
    if not yes:
        yield
        return
    keep = torch.float32, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32 = torch.float = keep[0]
        torch.Tensor.float = keep[1]
        torch.set_default_dtype(keep[0])


# Each family's model, as its configuration, and the model's parameters from ours.

def both(p, theirs, ours, out):
    """Weight and, where there is one, bias of a part that has the same layout on both sides."""
    for kind in ("weight", "bias"):
        if ours + kind in p:
            out[theirs + kind] = p[ours + kind]


def gpt2(f, activation):
    def names(p):
        out = {"transformer.wte.weight": p[WORD], "transformer.wpe.weight": p[POSITION]}
        both(p, "transformer.ln_f.", FINAL, out)
        for i in range(L):
            at, to = LAYER % i, f"transformer.h.{i}."
            both(p, to + "ln_1.", at + NORM1, out)
            both(p, to + "ln_2.", at + NORM2, out)
            # Its matrices are [in, out], its qkv all queries, all keys, all values.
            out[to + "attn.c_attn.weight"] = torch.cat(f.qkv(p[at + QKV + "weight"])).T
            out[to + "attn.c_attn.bias"] = torch.cat(f.qkv(p[at + QKV + "bias"]))
            for theirs, ours in (("attn.c_proj.", PROJ), ("mlp.c_fc.", FC1), ("mlp.c_proj.", FC2)):
                out[to + theirs + "weight"] = p[at + ours + "weight"].T
                out[to + theirs + "bias"] = p[at + ours + "bias"]
        return out

    return transformers.GPT2Config(
        vocab_size=f.V, n_positions=f.S, n_embd=f.H, n_layer=L, n_head=f.A, n_inner=f.I,
        activation_function=activation, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        layer_norm_epsilon=1e-5, bos_token_id=None, eos_token_id=None), names


def opt(f):
    def names(p):
        top = "model.decoder."
        out = {top + "embed_tokens.weight": p[WORD], top + "embed_positions.weight": p[POSITION]}
        both(p, top + "final_layer_norm.", FINAL, out)
        both(p, top + "project_in.", "embedding.project_in.", out)
        both(p, top + "project_out.", HEAD + "project_out.", out)
        for i in range(L):
            at, to = LAYER % i, f"{top}layers.{i}."
            for kind in ("weight", "bias"):
                for which, t in zip("qkv", f.qkv(p[at + QKV + kind])):
                    out[f"{to}self_attn.{which}_proj.{kind}"] = t
            both(p, to + "self_attn.out_proj.", at + PROJ, out)
            both(p, to + "self_attn_layer_norm.", at + NORM1, out)
            both(p, to + "final_layer_norm.", at + NORM2, out)
            both(p, to + "fc1.", at + FC1, out)
            both(p, to + "fc2.", at + FC2, out)
        return out

    return transformers.OPTConfig(
        vocab_size=f.V, hidden_size=f.H, num_hidden_layers=L, ffn_dim=f.I,
        max_position_embeddings=f.S, do_layer_norm_before=f.E == f.H, word_embed_proj_dim=f.E,
        dropout=0.0, attention_dropout=0.0, num_attention_heads=f.A, activation_function="relu",
        layerdrop=0.0, pad_token_id=None, bos_token_id=None, eos_token_id=None), names


def gptj(f, rotary):
    def names(p):
        out = {"transformer.wte.weight": p[WORD]}
        both(p, "transformer.ln_f.", FINAL, out)
        both(p, "lm_head.", HEAD, out)
        for i in range(L):
            at, to = LAYER % i, f"transformer.h.{i}."
            both(p, to + "ln_1.", at + NORM1, out)
            for which, t in zip("qkv", f.qkv(p[at + QKV + "weight"])):
                out[f"{to}attn.{which}_proj.weight"] = t
            both(p, to + "attn.out_proj.", at + PROJ, out)
            both(p, to + "mlp.fc_in.", at + FC1, out)
            both(p, to + "mlp.fc_out.", at + FC2, out)
        return out

    return transformers.GPTJConfig(
        vocab_size=f.V, n_positions=f.S, n_embd=f.H, n_layer=L, n_head=f.A, n_inner=f.I,
        rotary_dim=rotary, activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, layer_norm_epsilon=1e-5, bos_token_id=None, eos_token_id=None), names


def neox(f, activation, fraction):
    def names(p):
        out = {"gpt_neox.embed_in.weight": p[WORD], "lm_head.weight": p[HEAD + "weight"]}
        both(p, "gpt_neox.final_layer_norm.", FINAL, out)
        for i in range(L):
            at, to = LAYER % i, f"gpt_neox.layers.{i}."
            for theirs, ours in ((NORM1, NORM1), (NORM2, NORM2), (FC1, FC1), (FC2, FC2),
                                 ("attention.query_key_value.", QKV), ("attention.dense.", PROJ)):
                both(p, to + theirs, at + ours, out)
        return out

    return transformers.GPTNeoXConfig(
        vocab_size=f.V, hidden_size=f.H, num_hidden_layers=L, num_attention_heads=f.A,
        intermediate_size=f.I, hidden_act=activation, attention_dropout=0.0, hidden_dropout=0.0,
        max_position_embeddings=f.S, layer_norm_eps=1e-5, use_parallel_residual=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": fraction},
        bos_token_id=None, eos_token_id=None), names



def bloom(f):
    def names(p):
        top = "transformer."
        out = {top + "word_embeddings.weight": p[WORD]}
        both(p, top + "word_embeddings_layernorm.", "embedding.norm.", out)
        both(p, top + "ln_f.", FINAL, out)
        for i in range(L):
            at, to = LAYER % i, f"{top}h.{i}."
            for part in (NORM1, NORM2, QKV, PROJ, FC1, FC2):
                both(p, to + part, at + part, out)
        return out

    return transformers.BloomConfig(
        vocab_size=f.V, hidden_size=f.H, n_layer=L, n_head=f.A, layer_norm_epsilon=1e-5,
        hidden_dropout=0.0, attention_dropout=0.0, pad_token_id=None, bos_token_id=None,
        eos_token_id=None), names


def llama_like(f, kind, base, eps, **more):
    """Llama and what has its names: Mistral, Qwen, Gemma and StarCoder 2, whose MLP is GPT-2's."""
    scaling = more.pop("scaling", {"rope_type": "default"})

    def names(p):
        out = {"model.embed_tokens.weight": p[WORD]}
        both(p, "model.norm.", FINAL, out)
        if not f.tied:
            out["lm_head.weight"] = p[HEAD + "weight"]
        for i in range(L):
            at, to = LAYER % i, f"model.layers.{i}."
            both(p, to + NORM1, at + NORM1, out)
            both(p, to + NORM2, at + NORM2, out)
            for part in ("weight", "bias"):
                if at + QKV + part in p:
                    for which, t in zip("qkv", f.qkv(p[at + QKV + part])):
                        out[f"{to}self_attn.{which}_proj.{part}"] = t
            both(p, to + "self_attn.o_proj.", at + PROJ, out)
            both(p, to + "self_attn.q_norm.", at + "self_attention.q_layernorm.", out)
            both(p, to + "self_attn.k_norm.", at + "self_attention.k_layernorm.", out)
            if not f.gated:
                both(p, to + "mlp.c_fc.", at + FC1, out)
                both(p, to + "mlp.c_proj.", at + FC2, out)
                continue
            # The rows of ours are gate and up in turn.
            gate_up = p[at + FC1 + "weight"].view(f.I, 2, f.H)
            out[to + "mlp.gate_proj.weight"] = gate_up[:, 0]
            out[to + "mlp.up_proj.weight"] = gate_up[:, 1]
            both(p, to + "mlp.down_proj.", at + FC2, out)
        return out

    return getattr(transformers, kind + "Config")(
        vocab_size=f.V, hidden_size=f.H, intermediate_size=f.I, num_hidden_layers=L,
        num_attention_heads=f.A, num_key_value_heads=f.G, max_position_embeddings=f.S,
        **{"norm_epsilon" if f.norm_bias else "rms_norm_eps": eps}, rope_parameters={"rope_theta": base} | scaling,
        attention_dropout=0.0, tie_word_embeddings=f.tied, pad_token_id=None, bos_token_id=None,
        eos_token_id=None, **({"head_dim": f.D} if kind not in ("Qwen2", "Starcoder2") else {}), **more), names


class Native(nn.Module):
    """YuanGenerativeLM's own model, with the causal mask that its first version lacks."""

    def __init__(self, f):
        super().__init__()
        self.embed = nn.Embedding(f.V, f.H)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm1": nn.LayerNorm(f.H),
            "attention": nn.MultiheadAttention(f.H, f.A, batch_first=True),
            "norm2": nn.LayerNorm(f.H),
            "fc1": nn.Linear(f.H, f.I),
            "fc2": nn.Linear(f.I, f.H)}) for _ in range(L))
        self.head = nn.Linear(f.H, f.V, bias=False)

    @staticmethod
    def positions(length, width, dtype):
        """Vaswani et al. 2017, section 3.5: columns 2 i are sines, 2 i + 1 cosines, of t / 10000^(2 i / width)."""
        angle = [[t / 10000 ** (2 * (c // 2) / width) for c in range(width)] for t in range(length)]
        return torch.tensor([[math.cos(x) if c % 2 else math.sin(x) for c, x in enumerate(row)]
                             for row in angle], dtype=dtype)

    def forward(self, ids):
        length = ids.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.embed(ids)
        x = x + self.positions(length, x.shape[-1], x.dtype)
        for layer in self.layers:
            y = layer["norm1"](x)
            x = x + layer["attention"](y, y, y, attn_mask=future, need_weights=False)[0]
            x = x + layer["fc2"](torch.relu(layer["fc1"](layer["norm2"](x))))
        return self.head(x)


def native(f):
    def names(p):
        out = {"embed.weight": p[WORD], "head.weight": p[HEAD + "weight"]}
        for i in range(L):
            at, to = LAYER % i, f"layers.{i}."
            for theirs, ours in (("norm1.", NORM1), ("norm2.", NORM2), ("fc1.", FC1),
                                 ("fc2.", FC2), ("attention.out_proj.", PROJ)):
                both(p, to + theirs, at + ours, out)
            for kind in ("weight", "bias"):
                out[f"{to}attention.in_proj_{kind}"] = torch.cat(f.qkv(p[at + QKV + kind]))
        return out

    return None, names


NO_BIAS = {"norm_bias": False, "qkv_bias": False, "proj_bias": False, "mlp_bias": False, "gated": True}
GROUPS = "--group-query-attention --num-query-groups %d"
LLAMA31 = {"rope_type": "llama3", "factor": 5.0, "low_freq_factor": 1.25, "high_freq_factor": 3.5,
           "original_max_position_embeddings": 32}
# With heads 16 wide and a base of 10000 the wave lengths are 6.3, which stays, 19.9, between 32 / 3.5 and
# 32 / 1.25, and longer ones, which are scaled.
SCALING = ("--rotary-base 10000 --rope-scaling-factor 5 --rope-scaling-low-freq-factor 1.25 "
           "--rope-scaling-high-freq-factor 3.5 --rope-scaling-original-length 32")

FAMILIES = [
    Family("gpt2", lambda f: gpt2(f, "gelu_new"), V=61, S=16, H=32, A=4, I=96, rows=16, tied=True),
    Family("opt", opt, V=67, S=16, H=32, A=4, I=96, rows=18, tied=True),
    Family("opt-350m", opt, V=67, S=16, H=48, A=4, I=80, rows=18, tied=True, E=32, final=False,
           options="--word-embed-proj-dim 32"),
    Family("gptj", lambda f: gptj(f, 6), V=71, S=20, H=48, A=4, I=96, options="--rotary-percent 0.5",
           qkv_bias=False, proj_bias=False, norm2=False, head_bias=True),
    Family("gpt-neox", lambda f: neox(f, "gelu_fast", 0.25), V=73, S=20, H=64, A=4, I=96),
    Family("pythia", lambda f: neox(f, "gelu", 0.5), V=73, S=20, H=48, A=4, I=96,
           options="--rotary-percent 0.5"),
    # Six heads: slopes of ALiBi have a rule of their own where heads are not a power of two.
    Family("bloom", bloom, V=79, S=20, H=48, A=6, I=192, tied=True, embed_norm=True),
    Family("llama2", lambda f: llama_like(f, "Llama", 10000.0, 1e-5), V=83, S=20, H=48, A=4, I=80, **NO_BIAS),
    Family("llama3", lambda f: llama_like(f, "Llama", 500000.0, 1e-5), V=83, S=20, H=48, A=4, I=72,
           G=2, options=GROUPS % 2, **NO_BIAS),
    Family("llama3.1", lambda f: llama_like(f, "Llama", 10000.0, 1e-5, scaling=LLAMA31),
           V=83, S=24, H=64, A=4, I=72, G=2, options=f"{GROUPS % 2} {SCALING}", **NO_BIAS),
    Family("mistral", lambda f: llama_like(f, "Mistral", 10000.0, 1e-5, sliding_window=5),
           V=89, S=20, H=48, A=4, I=72, G=2, options=f"{GROUPS % 2} --window-size 5", **NO_BIAS),
    Family("qwen2", lambda f: llama_like(f, "Qwen2", 1000000.0, 1e-6), V=89, S=20, H=48, A=4, I=72,
           G=2, options=GROUPS % 2, **(NO_BIAS | {"qkv_bias": True})),
    Family("qwen3", lambda f: llama_like(f, "Qwen3", 1000000.0, 1e-6), V=89, S=20, H=48, A=4, I=72,
           G=2, D=16, options=f"{GROUPS % 2} --kv-channels 16", head_norm=True, **NO_BIAS),
    Family("gemma", lambda f: llama_like(f, "Gemma", 10000.0, 1e-6), V=96, S=20, H=48, A=4, I=96,
           G=1, D=24, options=f"{GROUPS % 1} --kv-channels 24", one=True, tied=True, **NO_BIAS),
    Family("starcoder2", lambda f: llama_like(f, "Starcoder2", 1000000.0, 1e-5, sliding_window=5),
           V=89, S=20, H=48, A=4, I=96, G=2, tied=True, options=f"{GROUPS % 2} --window-size 5"),
    Family("yuan", lambda f: gpt2(f, "relu"), V=61, S=16, H=32, A=4, I=128, rows=16, tied=True),
    Family("yuan-native", native, V=61, S=16, H=48, A=4, I=192, final=False),
]


class Run:
    """A family's model in one type."""

    scale = 1.0  # of the loss

    def __init__(self, f, dtype):
        self.f, self.double = f, dtype == torch.float64
        self.p = {n: f.initial(n, s).to(dtype).requires_grad_(True) for n, s in f.shapes().items()}
        with double(self.double):
            config, self.names = f.model(f)
            self.model = Native(f) if config is None else \
                transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
            self.model = self.model.to(dtype).train()
        theirs = {n: tuple(t.shape) for n, t in self.model.named_parameters()}
        ours = {n: tuple(t.shape) for n, t in self.names(self.p).items()}
        if theirs != ours:
            sys.exit(f"{f.name}: parameters differ: {sorted(set(theirs.items()) ^ set(ours.items()))}")

    def logits(self, ids):
        args = {} if isinstance(self.model, Native) else {"use_cache": False}
        with double(self.double):
            out = functional_call(self.model, self.names(self.p), (ids,), args)
        return out if isinstance(self.model, Native) else out.logits

    def loss(self, step):
        t = self.f.tokens(step)
        out = self.logits(t[:, :-1])
        return nn.functional.cross_entropy(out.reshape(-1, self.f.V), t[:, 1:].reshape(-1))

    def gradients(self):
        with double(self.double):
            grads = torch.autograd.grad(self.scale * self.loss(0), list(self.p.values()))
        return dict(zip(self.p, (g.double() / self.scale for g in grads)))

    def train(self):
        """Ten losses; decay on matrices and embeddings alone, as in param.def."""
        groups = [{"params": [t for t in self.p.values() if (t.dim() == 2) == yes],
                   "weight_decay": DECAY if yes else 0.0} for yes in (True, False)]
        rule = torch.optim.AdamW(groups, lr=LR, betas=(BETA1, BETA2), eps=EPS)
        losses = []
        for step in range(STEPS):
            rule.zero_grad()
            with double(self.double):
                loss = self.loss(step)
                (self.scale * loss).backward()
            losses.append(loss.item())
            for t in self.p.values():
                t.grad /= self.scale
            rule.step()
        return losses


class Half(Run):
    """Weights and activations in fp16 or bf16; masters, gradients and the optimizer in float32."""

    def __init__(self, f, dtype):
        super().__init__(f, torch.float32)
        self.model = self.model.to(dtype)
        self.scale = 1024.0 if dtype == torch.float16 else 1.0
        names = self.names
        self.names = lambda p: {n: t.to(dtype) for n, t in names(p).items()}

    def logits(self, ids):
        return super().logits(ids).float()


def halves(f):
    true = Run(f, torch.float64)
    grads = true.gradients()
    with torch.no_grad():
        logits = true.logits(f.tokens(0)[:, :-1])
    losses = true.train()
    for dtype, u in ((torch.float16, 2.0**-12), (torch.bfloat16, 2.0**-9)):
        run = Half(f, dtype)
        with torch.no_grad():
            far = (run.logits(f.tokens(0)[:, :-1]) - logits).abs().max() / logits.abs().max()
        off = {n: g - grads[n] for n, g in run.gradients().items()}
        strays = np.abs(np.divide(run.train(), losses) - 1)
        print(f"{f.name:12} {str(dtype)[6:]:8} in u: logits {far / u:.1f}, loss {strays[0] / u:.1f}, later "
              f"{strays.max() / u:.1f}, gradients "
              f"{max((t.abs().max() / grads[n].abs().max()).item() for n, t in off.items()) / u:.1f}, their norms "
              f"{max((t.norm() / grads[n].norm()).item() for n, t in off.items()) / u:.1f}")


def facts(g):
    """What is kept of a gradient: number of elements, the largest, norm, sums with signs, and some elements."""
    flat = g.reshape(-1).numpy()
    mixed = splitmix64(np.arange(flat.size, dtype=np.uint64))
    sums = [np.where(mixed >> np.uint64(60 + k) & np.uint64(1), flat, -flat).sum() for k in range(SIGNS)]
    at = STRIDE * np.arange(PLACES) % flat.size
    return [flat.size, np.abs(flat).max(), np.sqrt((flat**2).sum()), *sums, *flat[at]]


def must(what, error, bound):
    if not error <= bound:
        sys.exit(f"{what}: {error:.1e}, more than {bound:.0e}")
    return f"{error:.1e}"


def one(f, entries):
    run, single = Run(f, torch.float64), Run(f, torch.float32)
    with torch.no_grad():
        ids = f.tokens(0)[:, :-1]
        logits = run.logits(ids)
        far = (single.logits(ids) - logits).abs().max() / logits.abs().max()
    grads, others = run.gradients(), single.gradients()
    off = {n: ((others[n] - g).abs().max() / g.abs().max()).item() for n, g in grads.items()
           if g.abs().max() > 1e-9}
    tiny = [n for n in grads if n not in off]
    if [n for n in tiny if not n.endswith(QKV + "bias")]:
        sys.exit(f"{f.name}: no gradient in {tiny}")
    losses, theirs = run.train(), single.train()
    strays = must(f.name + " logits", far.item(), 3e-6), \
        must(f.name + " gradients", max(off.values()), 3e-5), \
        must(f.name + " losses", np.abs(np.divide(theirs, losses) - 1).max(), 5e-6)
    print(f"{f.name:12} losses {losses[0]:.4f} .. {losses[-1]:.4f}; float32 strays: logits %s, "
          f"gradients %s, losses %s" % strays)
    entries[f.name + "/logits"] = logits[-1].reshape(-1).tolist()
    entries[f.name + "/losses"] = losses
    for name, g in grads.items():
        entries[f"{f.name}/grad/{name}"] = facts(g)


def write_entries(folder, stem, entries):
    offset = 0
    with open(f"{folder}/{stem}.index", "w", encoding="ascii") as index, \
            open(f"{folder}/{stem}.bin", "wb") as data:
        for name, values in entries.items():
            flat = np.asarray(values, np.float64).reshape(-1).astype("<f4")
            index.write(f"{name} {offset} {flat.size}\n")
            data.write(flat.tobytes())
            offset += flat.size
    print(f"{len(entries)} entries, {4 * offset} bytes; torch {torch.__version__}, "
          f"transformers {transformers.__version__}")


def write(folder, entries):
    write_entries(folder, "families", entries)
    with open(f"{folder}/families.txt", "w", encoding="ascii") as text:
        for f in FAMILIES:
            text.write(f.trireme() + "\n")


def main():
    torch.set_num_threads(1)
    folder, entries = sys.argv[1] if len(sys.argv) > 1 else ".", {}
    for f in FAMILIES:
        if sys.argv[2:] and f.name not in sys.argv[2:]:
            continue
        if folder == "--halves":
            halves(f)
        else:
            one(f, entries)
    if entries:
        write(folder, entries)


if __name__ == "__main__":
    main()
