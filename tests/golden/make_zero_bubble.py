#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Orders of ZB-H1 and ZB-V: python3 make_zero_bubble.py > zero_bubble.txt
                          python3 make_zero_bubble.py v > zero_bubble_v.txt     (a python3 that has PyTorch)

ZB-H1 from the rules of Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), section 2.2 and figure 2, by a clock in
which F, B and W take one tick: a stage runs a backward as soon as its gradient is there; else a forward, if its input
is there and no more are ahead of their backward than in 1F1B and no more micro-batches are held (from their forward to
their W) than the first stage of 1F1B holds, P; else a W, if the memory of one is needed or nothing else can come in
this tick.  No formula for the order of a stage is used.  With fewer micro-batches than stages a W may also fill a wait
between two backwards, which changes no length; these are left out.

ZB-V is what PyTorch's ScheduleZBVZeroBubble (torch.distributed.pipelining) makes: the computations of the lists that it
executes, pipeline_order_with_comms, in PyTorch's words, 3I0 for the gradient of the input of stage 3, micro-batch 0.
How long a step takes is found by a clock that knows what needs what, and nothing of messages and buffers.
"""

import sys


def orders(p, m):
    end = {}  # (kind, stage, micro) -> when it was over
    done = [{"F": 0, "B": 0, "W": 0} for _ in range(p)]
    order = [[] for _ in range(p)]
    tick = 0
    while any(d["W"] < m for d in done):
        chosen = []
        for s in range(p):
            d = done[s]
            f, b, w = d["F"], d["B"], d["W"]
            grad = b < f and (s == p - 1 or end.get(("B", s + 1, b), tick + 1) <= tick)
            held = f - w >= p
            forward = (f < m and f - b < p - s and not held
                       and (s == 0 or end.get(("F", s - 1, f), tick + 1) <= tick))
            # Behind each backward the forward of its pair is due, if there is one and room for it.
            paired = f < min(m, b + p - s)
            if forward and paired and order[s] and order[s][-1][0] != "F":
                chosen.append((s, "F"))
            elif grad:
                chosen.append((s, "B"))
            elif forward:
                chosen.append((s, "F"))
            elif w < b and (held or f == m or not paired):
                chosen.append((s, "W"))
        for s, kind in chosen:
            micro = done[s][kind]
            order[s].append((kind, micro))
            end[(kind, s, micro)] = tick + 1
            done[s][kind] += 1
        tick += 1
    return order, tick


TIMES = ((1, 1, 1), (1, 1.3, 0.8), (1, 1.5, 0.5))  # of forward, gradient of the input, gradients of the weights


KINDS = "FIW"  # forward, gradient of the input, gradients of the weights


def orders_v(p, m):
    """Of each rank what it computes, in order: (kind, stage, micro-batch)."""
    import torch
    from torch.distributed.pipelining.schedules import ScheduleZBVZeroBubble
    from torch.distributed.pipelining.stage import _PipelineStageBase

    class Stage(_PipelineStageBase):
        """A place in the pipeline, and no model."""

        def __init__(self, index):
            self.stage_index, self.num_stages, self.group_size, self.group_rank = index, 2 * p, p, 0
            self.submod, self.group = torch.nn.Identity(), None

        def _create_grad_recv_info(self, *_):
            raise NotImplementedError

        _prepare_forward_infra = _prepare_backward_infra = _create_grad_recv_info

    made = ScheduleZBVZeroBubble([Stage(0), Stage(2 * p - 1)], m, loss_fn=lambda *_: None)
    return [[(a.computation_type.value, a.stage_index, a.microbatch_index)
             for a in made.pipeline_order_with_comms[rank] if a.is_compute_op] for rank in range(p)]


def needs_v(p, kind, stage):
    """What a computation of a micro-batch needs first: kind and stage."""
    if kind == "W":
        return "I", stage
    if kind == "I":
        return ("F", stage) if stage == 2 * p - 1 else ("I", stage + 1)
    return ("F", stage - 1) if stage else None


def length_v(p, orders, times):
    time, end, at, clock = dict(zip(KINDS, times)), {}, [0] * p, [0.0] * p
    while any(at[r] < len(orders[r]) for r in range(p)):
        for r in range(p):
            while at[r] < len(orders[r]):
                kind, stage, micro = orders[r][at[r]]
                first = needs_v(p, kind, stage)
                if first and (*first, micro) not in end:
                    break
                clock[r] = max(clock[r], end[(*first, micro)] if first else 0.0) + time[kind]
                end[kind, stage, micro] = clock[r]
                at[r] += 1
    return max(clock)


def main_v():
    import torch

    print("# ScheduleZBVZeroBubble of PyTorch " + torch.__version__ + ": ranks, micro-batches, lengths of the step for "
          "(F, I, W) of " + ", ".join(map(str, TIMES)) + "; then a line for each rank")
    for p in (2, 3, 4, 5, 8):
        for m in sorted({1, p, 2 * p - 1, 2 * p, 3 * p + 1}):
            orders = orders_v(p, m)
            print(p, m, *("%.6g" % length_v(p, orders, times) for times in TIMES))
            for order in orders:
                print(" ".join("%d%s%d" % (stage, kind, micro) for kind, stage, micro in order))


def main():
    print("# stages, micro-batches, ticks of the step; then a line for each stage")
    for p in range(1, 9):
        for m in sorted({p, p + 1, 2 * p, 2 * p + 3, 24}):
            order, ticks = orders(p, m)
            print(p, m, ticks)
            for stage in order:
                print(" ".join(kind + str(micro) for kind, micro in stage))


if __name__ == "__main__":
    main_v() if sys.argv[1:] == ["v"] else main()
