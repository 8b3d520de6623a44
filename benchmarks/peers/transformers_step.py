#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""transformers_step.py MODE REPEATS THREADS FAMILY SAMPLES TOKENS HEADS GROUPS HEAD_WIDTH INNER

The step of bench_step --model-family FAMILY in transformers on PyTorch: its model of that family, 12 layers of 768
with the heads and the inner width that bench_step prints, random weights, vocabulary 50257 padded to 50304, its fused
attention where the model has it; forward, backward, clipping to a norm of 1, AdamW, the fastest here of PyTorch's two;
made-up tokens, fp32, no dropout.  MODE is "eager" or "compiled", torch.compile of the model.
Prints one line of JSON.
"""
import json
import os
import sys
import time

try:
    import torch
    import transformers
except ImportError:
    sys.exit("transformers_step.py needs PyTorch and transformers: `python3 -m venv V && V/bin/pip install torch "
             "transformers numpy`, then benchmarks/run peers --python V/bin/python3 --model-family NAME")

VOCABULARY, PADDED, LAYERS, WIDTH, POSITIONS, WARM_UP = 50257, 50304, 12, 768, 1024, 3
NO_TOKENS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}


def gpt2(activation):
    return lambda a, g, d, i: transformers.GPT2Config(
        vocab_size=PADDED, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=a, n_inner=i,
        activation_function=activation, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **NO_TOKENS)


def opt(embedding):
    return lambda a, g, d, i: transformers.OPTConfig(
        vocab_size=PADDED, hidden_size=WIDTH, num_hidden_layers=LAYERS, ffn_dim=i, num_attention_heads=a,
        max_position_embeddings=POSITIONS, do_layer_norm_before=embedding == WIDTH,
        word_embed_proj_dim=embedding, dropout=0.0, attention_dropout=0.0, layerdrop=0.0, **NO_TOKENS)


def gptj(a, g, d, i):
    return transformers.GPTJConfig(
        vocab_size=PADDED, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=a, n_inner=i,
        rotary_dim=d // 4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **NO_TOKENS)


def neox(activation):
    return lambda a, g, d, i: transformers.GPTNeoXConfig(
        vocab_size=PADDED, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=a,
        intermediate_size=i, hidden_act=activation, attention_dropout=0.0, hidden_dropout=0.0,
        max_position_embeddings=POSITIONS, use_parallel_residual=True, **NO_TOKENS)


def bloom(a, g, d, i):
    return transformers.BloomConfig(vocab_size=PADDED, hidden_size=WIDTH, n_layer=LAYERS, n_head=a,
                                    hidden_dropout=0.0, attention_dropout=0.0, **NO_TOKENS)


def llama_like(kind, tied=False, **more):
    return lambda a, g, d, i: getattr(transformers, kind + "Config")(
        vocab_size=PADDED, hidden_size=WIDTH, intermediate_size=i, num_hidden_layers=LAYERS,
        num_attention_heads=a, num_key_value_heads=g, max_position_embeddings=POSITIONS,
        attention_dropout=0.0, tie_word_embeddings=tied,
        **({} if kind in ("Qwen2", "Starcoder2") else {"head_dim": d}),
        **NO_TOKENS, **more)


# The configuration by family, from heads, groups, the width of a head and the inner width of the MLP.
CONFIGS = {
    "gpt2": gpt2("gelu_new"), "yuan": gpt2("relu"), "opt": opt(WIDTH), "opt-350m": opt(512), "gptj": gptj,
    "gpt-neox": neox("gelu_fast"), "pythia": neox("gelu"), "bloom": bloom, "llama2": llama_like("Llama"),
    "llama3": llama_like("Llama"), "mistral": llama_like("Mistral", sliding_window=4096),
    "qwen2": llama_like("Qwen2"), "qwen3": llama_like("Qwen3"), "gemma": llama_like("Gemma", tied=True),
    "starcoder2": llama_like("Starcoder2", tied=True, sliding_window=4096, residual_dropout=0.0,
                             embedding_dropout=0.0),
}


def build(family, *sizes):
    """The model, and the attention that it has."""
    for attention in ("sdpa", "eager"):
        try:
            config = CONFIGS[family](*sizes)
            config.use_cache = False
            return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention), attention
        except ValueError:
            if attention == "eager":
                raise


def stepper(model, optimizer, parameters, text):
    inputs, labels = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        logits = model(input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.item()

    return step


def faster_adamw(parameters):
    """PyTorch's fused AdamW or the one by lists of tensors: whichever takes less time here, and its name."""
    best = None
    for kind in ("fused", "foreach"):
        try:
            optimizer = torch.optim.AdamW(parameters, lr=1e-4, **{kind: True})
            for p in parameters:
                p.grad = torch.zeros_like(p)
            seconds = []
            for _ in range(4):
                began = time.monotonic()
                optimizer.step()
                seconds.append(time.monotonic() - began)
        except (RuntimeError, TypeError):
            continue
        if best is None or min(seconds[1:]) < best[0]:
            best = min(seconds[1:]), kind
    return torch.optim.AdamW(parameters, lr=1e-4, **{best[1]: True}), best[1]


def main(mode, repeats, threads, family, samples, tokens, *sizes):
    if family not in CONFIGS:
        sys.exit(f"transformers_step.py knows no model of {family}: {', '.join(CONFIGS)}")
    torch.set_num_threads(int(threads) or len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    repeats, samples, tokens = int(repeats), int(samples), int(tokens)
    model, attention = build(family, *map(int, sizes))
    model.train()
    parameters = list(model.parameters())
    optimizer, adamw = faster_adamw(parameters)
    text = torch.randint(VOCABULARY, (samples, tokens + 1))
    step = stepper(torch.compile(model) if mode == "compiled" else model, optimizer, parameters, text)
    seconds, losses = [], []
    for _ in range(WARM_UP + repeats):
        began = time.monotonic()
        losses.append(step())
        seconds.append(time.monotonic() - began)
    seconds = sorted(seconds[WARM_UP:])
    median = 0.5 * (seconds[(repeats - 1) // 2] + seconds[repeats // 2])
    print(json.dumps({"bench": "transformers_step", "by": f"transformers {transformers.__version__}, {mode}",
                      "on": "PyTorch " + torch.__version__, "type": "fp32", "dropout": 0.0, "family": family,
                      "kernels": f"{torch.backends.cpu.get_cpu_capability()}, attention {attention}, AdamW {adamw}",
                      "samples": samples, "tokens": tokens, "ranks": 1, "threads": torch.get_num_threads(),
                      "parameters": sum(p.numel() for p in parameters), "repeats": repeats,
                      "seconds_min": round(seconds[0], 5), "seconds_median": round(median, 5),
                      "first_loss": round(losses[0], 4), "loss": round(losses[-1], 4)}))


if __name__ == "__main__":
    if len(sys.argv) != 11:
        sys.exit(__doc__)
    main(*sys.argv[1:])
