#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Orders of ZB-H1, for tests/golden/zero_bubble.txt: python3 make_zero_bubble.py > zero_bubble.txt

From the rules of Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), section 2.2 and figure 2, by a clock in
which F, B and W take one tick: a stage runs a backward as soon as its gradient is there; else a forward, if its input
is there and no more are ahead of their backward than in 1F1B and no more micro-batches are held (from their forward to
their W) than the first stage of 1F1B holds, P; else a W, if the memory of one is needed or nothing else can come in
this tick.  No formula for the order of a stage is used.  With fewer micro-batches than stages a W may also fill a wait
between two backwards, which changes no length; these are left out.
"""


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


def main():
    print("# stages, micro-batches, ticks of the step; then a line for each stage")
    for p in range(1, 9):
        for m in sorted({p, p + 1, 2 * p, 2 * p + 3, 24}):
            order, ticks = orders(p, m)
            print(p, m, ticks)
            for stage in order:
                print(" ".join(kind + str(micro) for kind, micro in stage))


if __name__ == "__main__":
    main()
