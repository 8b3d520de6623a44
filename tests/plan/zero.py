#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write zero.txt: what DeepSpeed's own functions estimate.

usage: zero.py FOLDER >zero.txt, where FOLDER is an unpacked deepspeed-0.19.8 of PyPI.  The functions are taken out
of their files, since importing these needs a GPU's libraries.  A line is: parameters, the largest module, GPUs of a
node, nodes; then host and GPU bytes of each row of src/plan/zero.c.
"""
import ast
import sys

NAMES = {"stage_1_and_2.py": "estimate_zero2_model_states_mem_needs", "stage3.py": "estimate_zero3_model_states_mem_needs"}


def function(folder, file, name):
    tree = ast.parse(open(f"{folder}/deepspeed/runtime/zero/{file}").read())
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    space = {}
    exec(compile(ast.Module(found, []), file, "exec"), space)
    return space[name]


def main():
    two, three = (function(sys.argv[1], f, n) for f, n in NAMES.items())
    models = [(124439808, 38597376), (1557611200, 80411200), (20554567680, 309657600), (175181291520, 617558016),
              (7, 3), (1000003, 333331)]
    for params, largest in models:
        for per_node, nodes in [(1, 1), (4, 1), (8, 1), (4, 3), (8, 7), (8, 128), (3, 5)]:
            rows = [two(params, per_node, nodes, offload) for offload in (True, False)]
            for offload, weights in [(True, True), (True, False), (False, False)]:
                for init in (True, False):
                    rows.append(three(params, largest, per_node, nodes, offload, weights, init)[:2])
            print(params, largest, per_node, nodes, *(f"{n}" for row in rows for n in row))


main()
