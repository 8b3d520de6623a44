# SPDX-License-Identifier: BSD-3-Clause
# by_hand.py FOLDER: a small GPT-2 of random weights as a checkpoint of iteration 7 in FOLDER/save, weights alone in
# FOLDER/weights, bytes for it in FOLDER/text, and its loss on them, printed.  write() and checksum() are those
# of docs/formats.md; the rest is numpy in 64 bits.
import os
import sys

import numpy as np

from manual import write

L, H, HEADS, F, S, V = 2, 24, 3, 96, 16, 257
rng = np.random.default_rng(5)


def draw(*shape):
    return rng.normal(0, 0.3, shape).astype(np.float32)


model = {
    "embedding.word_embeddings.weight": draw(V, H),
    "embedding.position_embeddings.weight": draw(S, H),
    "encoder.final_layernorm.weight": 1 + draw(H),
    "encoder.final_layernorm.bias": draw(H),
}
for n in range(L):
    for name, shape in {
        "input_layernorm": (H,),
        "self_attention.query_key_value": (3 * H, H),
        "self_attention.dense": (H, H),
        "post_attention_layernorm": (H,),
        "mlp.dense_h_to_4h": (F, H),
        "mlp.dense_4h_to_h": (H, F),
    }.items():
        model[f"encoder.layers.{n}.{name}.weight"] = draw(*shape) + (len(shape) == 1)
        model[f"encoder.layers.{n}.{name}.bias"] = draw(shape[0])


def linear(x, name):
    return x @ np.float64(model[name + ".weight"]).T + np.float64(model[name + ".bias"])


def norm(x, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * np.float64(model[name + ".weight"]) + np.float64(model[name + ".bias"])


def attention(x, name):
    # Rows of query, key and value, head after head.
    q, k, v = np.moveaxis(linear(x, name + ".query_key_value").reshape(S, HEADS, 3, H // HEADS), 2, 0)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(H // HEADS)
    scores = np.exp(np.where(np.tri(S, dtype=bool), scores, -np.inf))
    scores /= scores.sum(-1, keepdims=True)
    return linear(np.einsum("hij,jhd->ihd", scores, v).reshape(S, H), name + ".dense")


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def loss(tokens):
    words = np.float64(model["embedding.word_embeddings.weight"])
    x = words[tokens[:S]] + np.float64(model["embedding.position_embeddings.weight"])
    for n in range(L):
        layer = f"encoder.layers.{n}"
        x = x + attention(norm(x, layer + ".input_layernorm"), layer + ".self_attention")
        y = norm(x, layer + ".post_attention_layernorm")
        x = x + linear(gelu(linear(y, layer + ".mlp.dense_h_to_4h")), layer + ".mlp.dense_4h_to_h")
    logits = norm(x, "encoder.final_layernorm") @ words.T
    logits = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -logits[np.arange(S), tokens[1:]].mean()


def state(iteration):
    return {
        "iteration": iteration,
        "consumed_train_samples": 2 * iteration,
        "consumed_valid_samples": 0,
        "lr_samples": 2 * iteration,
        "adam_steps": iteration,
        "loss_scale": 0.0,
        "growth_tracker": 0,
        "hysteresis_tracker": 0,
        "num_layers": L,
        "hidden_size": H,
        "num_attention_heads": HEADS,
        "ffn_hidden_size": F,
        "max_position_embeddings": S,
        "vocab_size": V,
    }


def save(folder, iteration, groups):
    os.makedirs(f"{folder}/iter_{iteration:07d}")
    write(f"{folder}/iter_{iteration:07d}/model_optim_rng.h5", state(iteration), groups)
    with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as f:
        f.write(str(iteration))


# Every sample is the same: the text has a period of S tokens.
period = rng.permutation(np.arange(97, 123, dtype=np.uint8))[:S]
np.tile(period, 100).tofile(f"{sys.argv[1]}/text")
save(f"{sys.argv[1]}/weights", 7, {"model": model})
zeros = {name: np.zeros_like(x) for name, x in model.items()}
save(f"{sys.argv[1]}/save", 7, {"model": model, "exp_avg": zeros, "exp_avg_sq": zeros})
print(f"{loss(np.append(period, period[0])):.9f}")
