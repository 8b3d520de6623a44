#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make lr.txt: learning rates and weight decays of Megatron's OptimizerParamScheduler.

    pip download --no-deps megatron-core && unzip megatron_core-*.whl -d core
    python3 make_lr.py core/megatron/core/optimizer_param_scheduler.py > lr.txt

README says what the lines are.  The scheduler needs no PyTorch but for its log, which goes nowhere.
"""
import importlib.util
import logging
import sys
import types

SHAPES = ((0, 1000, 400), (100, 1000, 400), (100, 1000, 900), (100, 1000, 901), (100, 1000, 1000),
          (100, 1000, 1500), (0, 1000, 1000), (0, 1000, 2500), (999, 1000, 700), (7, 131, 130))
STYLES = (("constant", None), ("linear", None), ("cosine", None), ("inverse-square-root", None),
          ("WSD", "linear"), ("WSD", "cosine"), ("WSD", "exponential"), ("WSD", "minus_sqrt"))
RATES = ((0.0, 3e-4, 3e-5), (1e-5, 6e-4, 0.0))


def scheduler(path):
    for name in ("megatron", "megatron.core"):
        sys.modules[name] = types.ModuleType(name)
    utils = types.ModuleType("megatron.core.utils")
    utils.log_single_rank = lambda *_: None
    sys.modules["megatron.core.utils"] = utils
    spec = importlib.util.spec_from_file_location("scheduler", path)
    module = importlib.util.module_from_spec(spec)
    logging.disable()
    spec.loader.exec_module(module)
    return module.OptimizerParamScheduler


class Optimizer:
    def __init__(self):
        self.param_groups = [{}]


def at(make, n, style, part, shape, rates):
    optimizer = Optimizer()
    s = make(optimizer, *rates, shape[0], shape[1], style, 0.01, 0.1, shape[1], "cosine",
             wsd_decay_steps=shape[2], lr_wsd_decay_style=part)
    s.step(n)
    return optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["weight_decay"]


def main():
    make = scheduler(sys.argv[1])
    for number, (style, part) in enumerate(STYLES):
        for shape in SHAPES:
            w, d, a = shape
            points = {0, 1, w - 1, w, w + 1, (w + d) // 2, d - a, d - a + 1, d - a // 4, d - 1, d,
                      d + 1, 3 * d}
            for rates in RATES[:1] if style != "WSD" else RATES:
                for n in sorted(p for p in points if p >= 0):
                    lr, wd = at(make, n, style, part, shape, rates)
                    print(number, *shape, *map(repr, rates), n, repr(lr), repr(wd))


if __name__ == "__main__":
    main()
