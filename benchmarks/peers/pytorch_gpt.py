# SPDX-License-Identifier: BSD-3-Clause
"""The GPT whose steps are compared with ours: learned positions, tied embedding, the vocabulary
padded, fused attention where PyTorch has it."""
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, PADDED = 50257, 50304


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (y.view(b, t, self.heads, width // self.heads).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).split(width, dim=2))
        ctx = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=True)
        x = x + F.dropout(self.out(ctx.transpose(1, 2).reshape(b, t, width)), self.p)
        y = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + F.dropout(self.down(y), self.p)


class Model(nn.Module):
    def __init__(self, layers, width, heads, positions, dropout=0.0):
        super().__init__()
        self.p = dropout
        self.words, self.places = nn.Embedding(PADDED, width), nn.Embedding(positions, width)
        self.layers = nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, labels):
        x = self.words(ids) + self.places.weight[:ids.shape[1]]
        x = F.dropout(x, self.p)
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.view(-1, PADDED), labels.reshape(-1))


def step(model, parameters, adamw, text, device, half=None, scaler=None):
    """Forward, backward, clipping to a norm of 1, AdamW; returns the loss, a tensor.  `half` is the type
    of autocast, None for fp32; fp16 wants a `scaler`."""
    adamw.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=half or torch.bfloat16, enabled=half is not None):
        loss = model(text[:, :-1], text[:, 1:])
    if scaler is None:
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adamw.step()
        return loss
    scaler.scale(loss).backward()
    scaler.unscale_(adamw)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    scaler.step(adamw)
    scaler.update()
    return loss


def flop_of(layers, width, samples, tokens):
    """Of one step, as benchmarks/bench_run.h counts it."""
    dense = layers * 12 * width * width + width * VOCABULARY
    return 6 * samples * tokens * dense + 6 * samples * tokens * tokens * layers * width
