#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make gpt2_tiny.index and gpt2_tiny.bin: what a small GPT-2 computes, from PyTorch in float64.

README in this folder says what the numbers are.  Needs torch and numpy; where transformers is
installed, its GPT2LMHeadModel is asked for the same numbers.  Nothing is written unless every check
passes: gradients against central differences, the model against transformers, the update rule
against torch.optim.AdamW.

    python3 make_gpt2.py [FOLDER]
"""
import math
import sys

import numpy as np
import torch

V, S, H, A, F, L = 61, 16, 32, 4, 128, 4
B, M, STEPS = 2, 2, 10
GLOBAL = B * M
LR, BETA1, BETA2, EPS, DECAY, CLIP = 0.01, 0.9, 0.999, 1e-5, 0.01, 1.0
LN_EPS = 1e-5
WORD = "embedding.word_embeddings.weight"
POSITION = "embedding.position_embeddings.weight"
LAYER = "encoder.layers.%d."
QKV = "self_attention.query_key_value."
PROJ = "self_attention.dense."
FC1 = "mlp.dense_h_to_4h."
FC2 = "mlp.dense_4h_to_h."
FINAL = "encoder.final_layernorm."


def shapes():
    """Every parameter and its shape, in the order of src/model/param.def."""
    out = {WORD: (V, H), POSITION: (S, H)}
    for layer in range(L):
        at = LAYER % layer
        out |= {
            at + "input_layernorm.weight": (H,),
            at + "input_layernorm.bias": (H,),
            at + QKV + "weight": (3 * H, H),
            at + QKV + "bias": (3 * H,),
            at + PROJ + "weight": (H, H),
            at + PROJ + "bias": (H,),
            at + "post_attention_layernorm.weight": (H,),
            at + "post_attention_layernorm.bias": (H,),
            at + FC1 + "weight": (F, H),
            at + FC1 + "bias": (F,),
            at + FC2 + "weight": (H, F),
            at + FC2 + "bias": (H,),
        }
    return out | {FINAL + "weight": (H,), FINAL + "bias": (H,)}


# The formula of weights and tokens; golden.c has the same.

def splitmix64(x):
    """Steele, Lea, Flood 2014; x: array of uint64, the state before the step."""
    with np.errstate(over="ignore"):
        z = np.asarray(x, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def fnv1a(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def base_and_amplitude(name):
    if name.endswith(".bias"):
        return 0.0, 0.125
    if name.endswith("layernorm.weight"):
        return 1.0, 0.25
    return 0.0, 0.5


def initial(name, shape):
    n = math.prod(shape)
    with np.errstate(over="ignore"):
        x = splitmix64(np.uint64(fnv1a(name)) + np.arange(n, dtype=np.uint64))
    u = (x >> np.uint64(44)).astype(np.float32) * np.float32(2.0**-20)
    base, amplitude = base_and_amplitude(name)
    value = np.float32(base) + np.float32(amplitude) * (u - np.float32(0.5))
    return torch.tensor(value.reshape(shape), dtype=torch.float64)


def tokens(sample):
    """S + 1 tokens: the inputs are the first S, the labels the last S."""
    at = np.arange(S + 1, dtype=np.uint64) + np.uint64(1000 + sample * (S + 1))
    return torch.tensor((splitmix64(at) % np.uint64(V)).astype(np.int64))


# The model, from its formulas.

def norm(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + LN_EPS) * gain + bias


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(x, p, at):
    """Rows of the weight: for each head D of q, then D of k, then D of v."""
    batch, width = x.shape[0], H // A
    qkv = x @ p[at + QKV + "weight"].T + p[at + QKV + "bias"]
    q, k, v = qkv.view(batch, S, A, 3, width).permute(3, 0, 2, 1, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(width)
    future = torch.ones(S, S, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), -1)
    context = (weights @ v).permute(0, 2, 1, 3).reshape(batch, S, H)
    return context @ p[at + PROJ + "weight"].T + p[at + PROJ + "bias"]


def mlp(x, p, at):
    up = gelu(x @ p[at + FC1 + "weight"].T + p[at + FC1 + "bias"])
    return up @ p[at + FC2 + "weight"].T + p[at + FC2 + "bias"]


def logits_of(p, ids):
    x = p[WORD][ids] + p[POSITION]
    for layer in range(L):
        at = LAYER % layer
        first, second = at + "input_layernorm.", at + "post_attention_layernorm."
        x = x + attention(norm(x, p[first + "weight"], p[first + "bias"]), p, at)
        x = x + mlp(norm(x, p[second + "weight"], p[second + "bias"]), p, at)
    return norm(x, p[FINAL + "weight"], p[FINAL + "bias"]) @ p[WORD].T


def loss_of(p, samples):
    """Mean over the samples and their tokens of -log softmax(logits) at the label."""
    batch = torch.stack([tokens(s) for s in samples])
    log_p = torch.log_softmax(logits_of(p, batch[:, :-1]), -1)
    return -log_p.gather(-1, batch[:, 1:, None]).mean()


def samples_of(step):
    return range(GLOBAL * step, GLOBAL * (step + 1))


def gradients(p, samples):
    for t in p.values():
        t.requires_grad_(True)
        t.grad = None
    loss = loss_of(p, samples)
    loss.backward()
    return loss.item(), {name: t.grad.detach().clone() for name, t in p.items()}


def norm_of(grads):
    return math.sqrt(sum((g**2).sum().item() for g in grads.values()))


def decays(name):
    return not (name.endswith(".bias") or name.endswith("layernorm.weight"))


def train(dtype, update):
    """Losses, gradient norms and the parameters after STEPS steps."""
    p = {name: initial(name, shape).to(dtype) for name, shape in shapes().items()}
    losses, norms = [], []
    for step in range(STEPS):
        loss, grads = gradients(p, samples_of(step))
        losses.append(loss)
        norms.append(norm_of(grads))
        factor = min(1.0, CLIP / (norms[-1] + 1e-6))
        with torch.no_grad():
            update(step + 1, p, {name: g * factor for name, g in grads.items()})
    return losses, norms, {name: t.detach() for name, t in p.items()}


class AdamW:
    """Loshchilov and Hutter 2019 as Megatron's fused kernel writes it."""

    def __init__(self):
        self.m, self.v = {}, {}

    def __call__(self, t, p, grads):
        for name, g in grads.items():
            m = self.m.get(name, 0) * BETA1 + (1 - BETA1) * g
            v = self.v.get(name, 0) * BETA2 + (1 - BETA2) * g * g
            self.m[name], self.v[name] = m, v
            step = (m / (1 - BETA1**t)) / (torch.sqrt(v / (1 - BETA2**t)) + EPS)
            p[name] -= LR * (step + (DECAY if decays(name) else 0.0) * p[name])


class TorchAdamW:
    """The same rule as written by others."""

    def __call__(self, t, p, grads):
        if t == 1:
            groups = [{"params": [p[n] for n in p if decays(n) == yes],
                       "weight_decay": DECAY if yes else 0.0} for yes in (True, False)]
            self.rule = torch.optim.AdamW(groups, lr=LR, betas=(BETA1, BETA2), eps=EPS)
        for name, g in grads.items():
            p[name].grad = g
        self.rule.step()


def vector(name, n):
    return initial(name, (n,))


def adamw_on_a_vector(n):
    """The rule alone: p after each step, and the bias-corrected moments after the last."""
    p = vector("adamw.value", n)
    p.requires_grad_(True)
    size = torch.tensor([0.0 if i % 24 == 23 else 2.0**-(i % 24) for i in range(n)],
                        dtype=torch.float64)
    rule = torch.optim.AdamW([p], lr=LR, betas=(BETA1, BETA2), eps=EPS, weight_decay=DECAY)
    trajectory = []
    for step in range(STEPS):
        p.grad = 0.5 * size * vector("adamw.gradient.%d" % step, n)
        rule.step()
        trajectory.append(p.detach().tolist())
    state = rule.state[p]
    return {"adamw/p": trajectory,
            "adamw/m": (state["exp_avg"] / (1 - BETA1**STEPS)).tolist(),
            "adamw/v": (state["exp_avg_sq"] / (1 - BETA2**STEPS)).tolist()}


# The checks.

def must(what, error, bound):
    print(f"{what}: {error:.1e}, at most {bound:.0e}")
    if not error <= bound:
        sys.exit(f"{what}: FAILED")


def check_differences(p, grads):
    """Central differences at three elements of every tensor."""
    worst, h = 0.0, 1e-5
    with torch.no_grad():
        for name, t in p.items():
            flat = t.view(-1)
            for i in {0, flat.numel() // 3, flat.numel() - 1}:
                keep, side = flat[i].item(), []
                for sign in (1, -1):
                    flat[i] = keep + sign * h
                    side.append(loss_of(p, samples_of(0)).item())
                flat[i] = keep
                slope = (side[0] - side[1]) / (2 * h)
                worst = max(worst, abs(slope - grads[name].view(-1)[i].item()))
    must("gradients against central differences", worst, 1e-9)


def check_transformers(p, loss, logits, grads):
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        print("transformers is not installed: not compared with its model")
        return
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=V, n_positions=S, n_embd=H, n_layer=L, n_head=A, n_inner=F,
        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        layer_norm_epsilon=LN_EPS,
        bos_token_id=None, eos_token_id=None, attn_implementation="eager")).double()
    # Our name: theirs, and whether a matrix is stored the other way round.
    names = {WORD: "wte.weight", POSITION: "wpe.weight",
             FINAL + "weight": "ln_f.weight", FINAL + "bias": "ln_f.bias"}
    for layer in range(L):
        for ours, theirs in (("input_layernorm.", "ln_1."), (QKV, "attn.c_attn."),
                             (PROJ, "attn.c_proj."), ("post_attention_layernorm.", "ln_2."),
                             (FC1, "mlp.c_fc."), (FC2, "mlp.c_proj.")):
            for kind in ("weight", "bias"):
                names[LAYER % layer + ours + kind] = f"h.{layer}.{theirs}{kind}"

    def to_theirs(name, t):
        """Their qkv is [3, A, D] where ours is [A, 3, D], and their matrices are [in, out]."""
        if QKV in name:
            t = t.view(A, 3, H // A, *t.shape[1:]).transpose(0, 1).reshape(t.shape)
        linear = any(part in name for part in (QKV, PROJ, FC1, FC2))
        return t.T if linear and t.dim() == 2 else t

    theirs = dict(model.transformer.named_parameters())
    if set(theirs) != set(names.values()):
        sys.exit("transformers: its parameters have other names than this script knows")
    with torch.no_grad():
        for name, t in p.items():
            theirs[names[name]].copy_(to_theirs(name, t))
    model.train()
    batch = torch.stack([tokens(s) for s in samples_of(0)])
    out = model(batch[:, :-1]).logits
    their_loss = torch.nn.functional.cross_entropy(out.reshape(-1, V), batch[:, 1:].reshape(-1))
    their_loss.backward()
    must("logits against transformers", (out[0] - logits).abs().max().item(), 1e-12)
    must("loss against transformers", abs(their_loss.item() - loss), 1e-13)
    must("gradients against transformers",
         max((to_theirs(n, g) - theirs[names[n]].grad).abs().max().item()
             for n, g in grads.items()), 1e-12)


def write(folder, entries):
    offset = 0
    with open(f"{folder}/gpt2_tiny.index", "w", encoding="ascii") as index, \
            open(f"{folder}/gpt2_tiny.bin", "wb") as data:
        for name, values in entries.items():
            flat = np.asarray(values, np.float64).reshape(-1).astype("<f4")
            index.write(f"{name} {offset} {flat.size}\n")
            data.write(flat.tobytes())
            offset += flat.size
    print(f"wrote {len(entries)} entries, {4 * offset} bytes")


def main():
    torch.set_num_threads(1)
    p = {name: initial(name, shape) for name, shape in shapes().items()}
    entries = {"setting": [V, S, H, A, F, L, B, M, STEPS, LR, BETA1, BETA2, EPS, DECAY, CLIP]}
    for name, t in p.items():
        flat = t.view(-1)
        entries["initial/" + name] = torch.cat((flat[:4], flat[-4:])).tolist()
    entries["tokens"] = torch.stack([tokens(s) for s in range(GLOBAL)]).tolist()

    logits = logits_of(p, tokens(0)[None, :-1])[0]
    micro = [loss_of(p, list(samples_of(0))[B * m:B * (m + 1)]).item() for m in range(M)]
    loss, grads = gradients(p, samples_of(0))
    check_differences(p, grads)
    check_transformers(p, loss, logits.detach(), grads)

    losses, norms, final = train(torch.float64, AdamW())
    others = train(torch.float64, TorchAdamW())
    must("losses against torch.optim.AdamW", np.abs(np.subtract(losses, others[0])).max(), 1e-12)
    must("parameters against torch.optim.AdamW",
         max((final[n] - others[2][n]).abs().max().item() for n in final), 1e-11)
    single = train(torch.float32, AdamW())
    print("how far the same steps in float32 stray:")
    print(f"  losses {np.abs(np.subtract(losses, single[0])).max():.1e}")
    print(f"  norms {np.abs(np.divide(single[1], norms) - 1).max():.1e} (relative)")
    far = {n: (final[n] - single[2][n]).abs().max().item() for n in final}
    for name in sorted(far, key=far.get)[-4:]:
        print(f"  {name} {far[name]:.1e}")
    print("losses", " ".join(f"{x:.4f}" for x in losses))
    print("norms ", " ".join(f"{x:.4f}" for x in norms))

    entries["logits"] = logits.tolist()
    entries["micro_losses"] = micro
    entries["losses"] = losses
    entries["norms"] = norms
    for name, g in grads.items():
        entries["grad/" + name] = g.tolist()
    for name, t in final.items():
        entries["final/" + name] = t.tolist()
    entries |= adamw_on_a_vector(48)
    write(sys.argv[1] if len(sys.argv) > 1 else ".", entries)


if __name__ == "__main__":
    main()
