#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make src/token/unicode.def: which characters are letters and numbers in Unicode.

    python3 -m venv v && v/bin/pip install unicodedata2==18.0.0 regex==2026.11.15
    v/bin/python build-aux/unicode.py > src/token/unicode.def

The categories are those of unicodedata2, and the module regex, with which GPT-2 cuts text, must
agree about every character: letters, numbers, and the white space of src/token/utf8.c.
"""
import sys

import regex
import unicodedata2

WHITE_SPACE = [*range(0x09, 0x0e), 0x20, 0x85, 0xa0, 0x1680, *range(0x2000, 0x200b), 0x2028, 0x2029,
               0x202f, 0x205f, 0x3000]
HEAD = """/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first and last characters of all ranges with general category L (LETTERS) and N (NUMBERS) in
 * Unicode %s; the others have neither.  Written by build-aux/unicode.py.
 */"""


def kind_of(c):
    return {"L": "LETTERS", "N": "NUMBERS"}.get(unicodedata2.category(chr(c))[0])


def ranges(characters):
    first = last = kind = None
    for c in characters:
        now = kind_of(c)
        if kind and (now != kind or c != last + 1):
            yield kind, first, last
            kind = None
        if now and not kind:
            kind, first = now, c
        last = c
    if kind:
        yield kind, first, last


def main():
    characters = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    patterns = {"LETTERS": r"\p{L}", "NUMBERS": r"\p{N}"}
    for kind, pattern in patterns.items():
        match = regex.compile(pattern).match
        for c in characters:
            if (kind_of(c) == kind) != bool(match(chr(c))):
                sys.exit(f"unicodedata2 and regex differ about U+{c:04X}")
    space = regex.compile(r"\s").match
    if [c for c in characters if space(chr(c))] != WHITE_SPACE:
        sys.exit("white space is not what src/token/utf8.c has")
    print(HEAD % unicodedata2.unidata_version)
    print(f'#define TR_UNICODE_VERSION "{unicodedata2.unidata_version}"')
    line = ""
    for kind, first, last in ranges(characters):
        word = f"{kind}(0x{first:x}, 0x{last:x})"
        if len(line) + len(word) > 98:
            print(line)
            line = ""
        line += (" " if line else "") + word
    print(line)


if __name__ == "__main__":
    main()
