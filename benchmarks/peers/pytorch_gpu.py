#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pytorch_gpu.py [SECONDS]

The steps that tests/gpu/run measures, in PyTorch on the same GPU: GPT with learned positions, tied
embedding, vocabulary 50257 padded to 50304, no dropout; bf16 weights with fp32 masters (autocast over fp32
weights), scaled_dot_product_attention, clipping to a norm of 1, fused AdamW; eager, and compiled.  Models
are taken in turn until SECONDS (50) have passed.  Prints a line of JSON for each.
"""
import json
import sys
import time

try:
    import torch
    from pytorch_gpt import VOCABULARY, Model, flop_of, step
except ImportError:
    sys.exit("pytorch_gpu.py needs PyTorch with CUDA")

PEAK = 989e12
# name, layers, width, heads, samples, tokens: those of tests/gpu/run
MODELS = [("1.5B", 48, 1600, 25, 16, 1024), ("124M", 12, 768, 12, 32, 1024),
          ("7B slice", 8, 4096, 32, 16, 1024), ("1.5B", 48, 1600, 25, 8, 2048),
          ("124M", 12, 768, 12, 16, 2048), ("7B slice", 8, 4096, 32, 8, 2048)]


def measure(name, layers, width, heads, samples, tokens, compiled):
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Model(layers, width, heads, tokens)
        text = torch.randint(VOCABULARY, (samples, tokens + 1))
    parameters = list(model.parameters())
    adamw = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    run = torch.compile(model) if compiled else model
    seconds = []
    for _ in range(13):
        torch.cuda.synchronize()
        began = time.monotonic()
        step(run, parameters, adamw, text, "cuda", True).item()
        seconds.append(time.monotonic() - began)
    median = sorted(seconds[3:])[5]
    flop = flop_of(layers, width, samples, tokens)
    print(json.dumps({
        "bench": "pytorch_gpu", "by": "PyTorch " + torch.__version__ + (", compiled" if compiled else ""),
        "device": torch.cuda.get_device_name(), "model": name, "samples": samples, "tokens": tokens,
        "seconds_min": round(min(seconds[3:]), 5), "seconds_median": round(median, 5),
        "tokens_per_second": round(samples * tokens / median, 1),
        "tflops": round(1e-12 * flop / median, 2), "mfu": round(flop / median / PEAK, 4)}), flush=True)


def main(limit=50):
    torch.backends.cuda.matmul.allow_tf32 = True
    end = time.monotonic() + float(limit)
    for model in MODELS:
        for compiled in (True, False):
            if time.monotonic() < end:
                measure(*model, compiled)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*sys.argv[1:])
