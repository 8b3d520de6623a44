#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pytorch_gpu.py [SECONDS]
pytorch_gpu.py --peak NAME

The steps that tests/gpu/run measures, in PyTorch on the same GPU: GPT with learned positions, tied
embedding, vocabulary 50257 padded to 50304, no dropout; autocast over fp32 weights, to bf16 where the GPU
has it and else to fp16 with a loss scale; scaled_dot_product_attention, clipping to a norm of 1, fused
AdamW; eager, and compiled.  Models are taken in turn until SECONDS (50) have passed.  Prints a line of JSON
for each, and one with "skipped" where the GPU has too little memory.

With --peak: what the data sheet of the GPU that a driver calls NAME promises, in TFLOP/s.
"""
import json
import pathlib
import re
import sys
import time


def peak_of(name):
    """TFLOP/s of dense fp16 and bf16 products, by the table of `trireme report`: the first row whose text
    is in the name of the card; None where there is none."""
    table = pathlib.Path(__file__).resolve().parents[2] / "src/report/gpus.def"
    for text, peak in re.findall(r'^GPU\("[^"]*", "([^"]*)", ([0-9.]+)\)', table.read_text(), re.M):
        if text in name:
            return float(peak)
    return None


if __name__ == "__main__" and sys.argv[1:2] == ["--peak"]:
    print(peak_of(sys.argv[2]))
    sys.exit()

try:
    import torch
    from pytorch_gpt import VOCABULARY, Model, flop_of, step
except ImportError:
    sys.exit("pytorch_gpu.py needs PyTorch with CUDA")

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
    half = torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16
    scaler = torch.cuda.amp.GradScaler() if half is torch.float16 else None
    seconds = []
    for _ in range(13):
        torch.cuda.synchronize()
        began = time.monotonic()
        step(run, parameters, adamw, text, "cuda", half, scaler).item()
        seconds.append(time.monotonic() - began)
    median = sorted(seconds[3:])[5]
    flop = flop_of(layers, width, samples, tokens)
    peak = peak_of(torch.cuda.get_device_name())
    say(name, samples, tokens, compiled, {
        "type": str(half)[6:],
        "seconds_min": round(min(seconds[3:]), 5), "seconds_median": round(median, 5),
        "tokens_per_second": round(samples * tokens / median, 1),
        "tflops": round(1e-12 * flop / median, 2),
        "mfu": round(1e-12 * flop / median / peak, 4) if peak else None})


def say(name, samples, tokens, compiled, more):
    print(json.dumps({
        "bench": "pytorch_gpu", "by": "PyTorch " + torch.__version__ + (", compiled" if compiled else ""),
        "device": torch.cuda.get_device_name(), "model": name, "samples": samples, "tokens": tokens,
        **more}), flush=True)


def main(limit=50):
    torch.backends.cuda.matmul.allow_tf32 = True
    end = time.monotonic() + float(limit)
    for model in MODELS:
        for compiled in (True, False):
            if time.monotonic() >= end:
                continue
            try:
                measure(*model, compiled)
            except torch.cuda.OutOfMemoryError:
                say(model[0], model[4], model[5], compiled, {"skipped": "out of memory"})
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*sys.argv[1:])
