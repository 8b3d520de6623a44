#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make bpe_borders.txt: where the module regex cuts texts of characters that Unicode got lately.

    python3.11 -m venv v && v/bin/pip install regex==2026.11.15 tokenizers==0.23.3
    v/bin/python make_borders.py > bpe_borders.txt

README says what the lines are.  python3.11 knows Unicode 14.  tokenizers knows Unicode 16, and must
cut every line alike whose characters were there by then.
"""
import random
import sys
import unicodedata
import zlib

import regex
from tokenizers.pre_tokenizers import ByteLevel

PATTERN = regex.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
CLASSES = [regex.compile(p).match for p in (r"[^\s\p{L}\p{N}]", r"\p{L}", r"\p{N}", r"\s")]
# Of each class, and of one to four bytes: other, letters, numbers, white space.
OLD = [0x21, 0x378, 0x2693, 0x1f6a3, 0x65, 0xe9, 0x6ab2, 0x10400, 0x37, 0xbd, 0x967, 0x1d7d8, 0x20, 0x3000]
ALL = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]


def class_of(c):
    return next(i for i, match in enumerate(CLASSES) if match(chr(c)))


def class_then(c):
    return {"L": 1, "N": 2}.get(unicodedata.category(chr(c))[0], 3 if CLASSES[3](chr(c)) else 0)


def cut(text):
    pieces = PATTERN.findall(text)
    assert "".join(pieces) == text
    return pieces


def agrees(text, level):
    """Whether tokenizers cuts alike: it gives pieces in GPT-2's spelling of bytes, with offsets."""
    return [text[a:b] for _, (a, b) in level.pre_tokenize_str(text)] == cut(text)


def main():
    assert unicodedata.unidata_version == "14.0.0"
    now = {c: class_of(c) for c in ALL}
    level = ByteLevel(add_prefix_space=False)
    changed = [c for c in ALL if now[c] != class_then(c)]
    later = {c for c in changed if not agrees({1: "a", 2: "0", 0: "!"}[now[c]] + chr(c), level)}
    borders = [c for c in changed if not {c - 1, c + 1} <= set(changed) or now[c - 1] != now[c + 1]]
    draw = random.Random(14)
    texts = []
    for c in borders:
        for old in OLD:
            texts.append((c, old, c))
        others = [draw.choice(borders) for _ in range(3)]
        texts += [(c, other) for other in others] + [(0x20, c, c - 1 if c - 1 in now else c, 0x20)]
    pool = borders + [0x20, 0x20, 0x0a, 0xa0, 0x27, 0x73] * (len(borders) // 8)
    texts += [tuple(draw.choice(pool) for _ in range(12)) for _ in range(300)]

    print("classes", *(list(now.values()).count(k) for k in range(4)),
          zlib.crc32(bytes(now.get(c, 0) for c in range(0x110000))))
    for text in texts:
        characters = "".join(map(chr, text))
        if not later & set(text) and not agrees(characters, level):
            sys.exit(f"tokenizers cuts {characters!r} otherwise")
        print(*(" ".join(f"{ord(c):x}" for c in piece) for piece in cut(characters)), sep=" | ")
    print(len(changed), "changed,", len(later), "of them not in tokenizers,", len(borders), "borders,",
          len(texts), "texts", file=sys.stderr)


if __name__ == "__main__":
    main()
