#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pytorch_adam.py MILLIONS THREADS: seconds of a step of torch.optim.AdamW(fused=True) on the processor, the median of
eleven, of so many million parameters in one tensor, fp32.  Prints a line of JSON."""
import json
import statistics
import sys
import time

import torch

REPEATS = 11


def main():
    number, threads = int(sys.argv[1]) * 1000000, int(sys.argv[2])
    torch.set_num_threads(threads)
    weight = torch.nn.Parameter(torch.randn(number))
    weight.grad = torch.randn(number)
    adamw = torch.optim.AdamW([weight], lr=1e-4, weight_decay=0.01, fused=True)
    seconds = []
    for i in range(REPEATS + 2):
        begin = time.perf_counter()
        adamw.step()
        if i >= 2:
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    print(json.dumps({"bench": "adam", "what": "adamw of PyTorch, fused", "threads": torch.get_num_threads(),
                      "type": "fp32", "kernels": f"PyTorch {torch.__version__}", "parameters": number,
                      "seconds_median": median, "gbytes_per_second": 28 * number / median / 1e9}))


main()
