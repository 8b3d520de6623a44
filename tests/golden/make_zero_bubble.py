#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Orders of ZB-H1 and ZB-V: python3 make_zero_bubble.py > zero_bubble.txt
                          python3 make_zero_bubble.py v > zero_bubble_v.txt

ZB-H1 from the rules of Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), section 2.2 and figure 2, by a clock in
which F, B and W take one tick: a stage runs a backward as soon as its gradient is there; else a forward, if its input
is there and no more are ahead of their backward than in 1F1B and no more micro-batches are held (from their forward to
their W) than the first stage of 1F1B holds, P; else a W, if the memory of one is needed or nothing else can come in
this tick.  No formula for the order of a stage is used.  With fewer micro-batches than stages a W may also fill a wait
between two backwards, which changes no length; these are left out.

ZB-V as PyTorch's ScheduleZBVZeroBubble orders it (torch.distributed.pipelining): each rank counts the micro-batches
of both of its stages, in a warm-up of three parts, a stable phase and a cool-down, for at least 2 P - 1 micro-batches,
and what is beyond the last one is left out.  There the full backward pass is an I and a W, here B and W.  How long a
step takes is found by a clock that knows what needs what, and nothing of messages and buffers.
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


TIMES = ((1, 1, 1), (1, 1.3, 0.8), (1, 1.5, 0.5))  # of F, B and W


def order_v(p, m, rank):
    full, order = max(m, 2 * p - 1), []
    count = {(kind, chunk): 0 for kind in "FBW" for chunk in (0, 1)}

    def do(*what):
        for kind, chunk in ((w[0], int(w[1])) for w in what):
            if count[kind, chunk] < m:
                order.append((kind, chunk, count[kind, chunk]))
            count[kind, chunk] += 1

    def left(kind, chunk):
        return count[kind, chunk] < full

    for _ in range(2 * (p - rank) - 1):
        do("F0")
    for _ in range(rank):
        do("F1", "F0")
    for _ in range(p - rank):
        do("F1", "B1", "W1")
    while left("F", 0) or count["F", 1] < count["F", 0]:
        if left("F", 0):
            do("F0")
        do("B0", "W0", "F1", "B1", "W1")
    for _ in range(rank):
        do("B0", "B1")
    for _ in range(p - rank):
        do("B0", "W0")
    while left("W", 1):
        do("W1")
    while left("W", 0):
        do("W0")
    return order


def needs_v(p, rank, kind, chunk):
    """What a computation of a micro-batch needs first: kind, rank and chunk."""
    if kind == "W":
        return "B", rank, chunk
    number = rank if chunk == 0 else 2 * p - 1 - rank
    if kind == "B" and number == 2 * p - 1:
        return "F", rank, chunk
    number += 1 if kind == "B" else -1
    return (kind, min(number, 2 * p - 1 - number), int(number >= p)) if number >= 0 else None


def length_v(p, orders, times):
    time, end, at, clock = dict(zip("FBW", times)), {}, [0] * p, [0.0] * p
    while any(at[r] < len(orders[r]) for r in range(p)):
        for r in range(p):
            while at[r] < len(orders[r]):
                kind, chunk, micro = orders[r][at[r]]
                first = needs_v(p, r, kind, chunk)
                if first and (*first, micro) not in end:
                    break
                clock[r] = max(clock[r], end[(*first, micro)] if first else 0.0) + time[kind]
                end[kind, r, chunk, micro] = clock[r]
                at[r] += 1
    return max(clock)


def main_v():
    print("# stages, micro-batches, lengths of the step for (F, B, W) of " + ", ".join(map(str, TIMES)))
    for p in (2, 3, 4, 6):
        for m in sorted({1, p, 2 * p - 1, 2 * p, 3 * p + 1}):
            orders = [order_v(p, m, rank) for rank in range(p)]
            print(p, m, *("%.6g" % length_v(p, orders, times) for times in TIMES))
            for order in orders:
                print(" ".join("%s%d.%d" % (kind, micro, chunk) for kind, chunk, micro in order))


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
