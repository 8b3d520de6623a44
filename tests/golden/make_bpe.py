#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make bpe_vocab.json, bpe_merges.txt and bpe_cases.jsonl with Hugging Face's tokenizers.

    python3 -m venv v && v/bin/pip install tokenizers==0.23.3 && v/bin/python make_bpe.py

The vocabulary is small, so it is learnt from the text below; the cases are what that library makes of
strings chosen to be hard.  README says what the files hold.
"""
import json
import pathlib
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

MERGES = 400

# Learnt from this.  Enough of each alphabet that there are merges inside it.
TEXT = """
A trireme was a galley with three banks of oars, and its rowers had to pull as one. Nobody can say
who built the first of them; they were rowed in the Mediterranean more than 2500 years ago. If one
bank falls behind, the oars of all the others strike against it, so the crew's pace isn't that of
its strongest rower but that of its slowest. The helmsman's drum is what they've got in common: it
doesn't tell a rower how to row, it tells all of them when. We'd call that a barrier, I'm told, and
you're right to say that it'll cost time; but a stroke that's early is worth less than none.

Training a model on many processors is much like that. Each of them holds a part of the weights, a
part of the layers, or a part of the samples; each waits for the others at the end of a step, or at
the edge of a layer, and all that they're doing in between is to multiply matrices. With 16 nodes of
4 processors, 64 ranks take part: 8 for the tensors, 4 for the pipeline and 2 for the data. After
1000 steps of 512 samples of 1024 tokens, 524288000 tokens have been seen, at 3.14 or 2.72 or 1.62
seconds per step, that's 100000 tokens per second, or 8640000000 tokens per day.

    for (int i = 0; i < n; i++) {
        if (ranks[i] == 0 && !done)
            return sum / (double)n;
        sum += values[i] * 0.5;
    }
    printf("%d tokens, %s\\n", count, name);

Die Ruderer saßen übereinander, die höchsten außen, und die längsten Ruder führten die Kräftigsten.
Les rameurs étaient assis les uns au-dessus des autres, et l'équipage ne cessait jamais de répéter.
Трирема была боевым кораблём, и гребцы сидели на ней в три ряда, один над другим.
Η τριήρης ήταν πολεμικό πλοίο με τρεις σειρές κουπιά, και οι κωπηλάτες ήταν ελεύθεροι πολίτες.
三段櫂船は古代の軍船である。三段に並んだ漕ぎ手が櫂を漕ぐ。三段櫂船の漕ぎ手は自由市民であった。
ستة وعشرون مجدافا في كل صف من الصفوف الثلاثة
\U0001f6a3\U0001f6a3\U0001f6a3 \U0001f6a3\u200d\u2640\ufe0f \U0001f6a3\u200d\u2642\ufe0f \u2693\u2693 \u2014 \u2026
"""

FIXED = [
    "a", " ", "\n", "  ", " a", "a ", "  a", "a  b", "\ta\t\tb", "a\n\n\nb  \n ", "\r\n\r\n",
    "they've they'd we'll I'm you're it's isn't", "THEY'VE IT'S", "'s's 's'", "'llama 'tis 'mid 've",
    "it\u2019s", "rock'n'roll", "'", "''''", " '", "1000", "1 000", "x1y2z3", "3.14", "\u00b2\u00bd\u2167",
    "\u0967\u0968\u0969 \u0661\u0662\u0663", "a_b-c+d", "!!! ???", " !a !", "...the", "(int i = 0;)",
    "<|endoftext|>", "a<|endoftext|>b", "\u00a0a\u00a0\u00a0b", "a\u3000b", "\u2003\u2003x", "\u0085x",
    "a\u2028b\u2029c", "\u180ea \u180e", "\u200ba\u200b", "\ufeffa", "\x1ca\x1d\x1e\x1fb", "\x00\x01\x7f",
    "cafe\u0301 caf\u00e9", "\u1100\u1161\u11a8", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "Straße STRASSE",
    "\u4e09\u6bb5\u6ac2\u8239\u306f\u53e4\u4ee3\u306e\u8ecd\u8239", "\U0001f6a3\u200d\u2640\ufe0f!", "\U0001f1ec\U0001f1f7",
    "\U00010000\U0010ffff", "\ud7ff\ue000\uffff", "\u0378", "trireme" * 20, "a" * 300, " " * 300, " " * 300 + "a",
    "ab" * 200, "=" * 200, "\u00e9" * 100, "\n" * 100 + " x", "The helmsman's drum" + " and its rowers" * 30,
]

POOLS = [
    "abcdefghijklmnopqrstuvwxyz", "etaoin shrdlu", "'s't're've'm'll'd ", "0123456789", "\n\t\r ", "   ",
    "\u00a0\u2003\u3000\u0085\u2028", ".,;:!?-_()[]{}<>|/\\\"@#$%^&*+=", "\u00e9\u00fc\u00df\u00f1\u00e7\u00c0",
    "\u03c4\u03c1\u03b9\u03ae\u03b7\u03c2", "\u0442\u0440\u0438\u0435\u043c\u0430", "\u4e09\u6bb5\u6ac2\u8239\u306f\u306e",
    "\U0001f6a3\u2693\u2640\ufe0f\u200d", "\u0301\u0327\u20dd", "\u0661\u0662\u2167\u00b2",
]


def random_cases(count):
    draw = random.Random(2500)
    for _ in range(count):
        pools = draw.sample(POOLS, draw.randint(1, 5))
        yield "".join(draw.choice(draw.choice(pools)) for _ in range(draw.choice([2, 5, 12, 40, 120])))


def main():
    folder = pathlib.Path(__file__).resolve().parent
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = level
    learner.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=256 + MERGES, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    model = json.loads(learner.to_str())["model"]
    vocab = dict(sorted(model["vocab"].items(), key=lambda entry: entry[1]))
    assert len(vocab) == 256 + MERGES and len(model["merges"]) == MERGES
    vocab["<|endoftext|>"] = len(vocab)
    with open(folder / "bpe_vocab.json", "w", encoding="utf-8") as f:
        json.dump(vocab, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    with open(folder / "bpe_merges.txt", "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n")
        for left, right in model["merges"]:
            f.write(f"{left} {right}\n")

    # Read back what was written: that is what others read.
    tokenizer = Tokenizer(models.BPE.from_file(
        str(folder / "bpe_vocab.json"), str(folder / "bpe_merges.txt")))
    tokenizer.pre_tokenizer = level
    with open(folder / "bpe_cases.jsonl", "w", encoding="utf-8") as f:
        for text in FIXED + [line for line in TEXT.split("\n") if line] + [TEXT] + list(random_cases(250)):
            f.write(json.dumps({"text": text, "ids": tokenizer.encode(text).ids},
                               separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
