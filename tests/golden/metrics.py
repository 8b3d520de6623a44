#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print metrics.txt: what scikit-learn says of some predictions.  Needs scikit-learn.

    python3 metrics.py >metrics.txt

A line is the number of classes, samples and their classes, predictions, and Matthews' correlation, accuracy, F1, precision
and recall of class 1.
"""
import random
import warnings

from sklearn import metrics

warnings.filterwarnings("ignore")
draw = random.Random(7)


def line(classes, truth, guess):
    one = {"labels": [1], "average": "macro", "zero_division": 0}
    numbers = [metrics.matthews_corrcoef(truth, guess), metrics.accuracy_score(truth, guess),
               metrics.f1_score(truth, guess, **one), metrics.precision_score(truth, guess, **one),
               metrics.recall_score(truth, guess, **one)]
    print(classes, "".join(map(str, truth)), "".join(map(str, guess)), *(f"{x:.17g}" for x in numbers))


# Degenerate: one class alone, in truth, in predictions, in both; a single sample; all wrong.
for truth, guess in (("0000", "0000"), ("1111", "1111"), ("0000", "1111"), ("1111", "0000"), ("0101", "1111"),
                     ("0101", "0000"), ("0000", "0101"), ("1111", "0101"), ("0", "0"), ("1", "1"), ("0", "1"),
                     ("1", "0"), ("0101", "1010"), ("0101", "0101")):
    line(2, [int(c) for c in truth], [int(c) for c in guess])
for classes in (2, 2, 2, 3, 5, 9):
    for share in (0.1, 0.5, 0.95):
        n = draw.randrange(20, 400)
        truth = [draw.randrange(classes) for _ in range(n)]
        line(classes, truth, [t if draw.random() < share else draw.randrange(classes) for t in truth])
line(3, [0, 2, 2, 0], [2, 2, 0, 0])
