#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make src/token/newer.def: marks, punctuation, format characters and what has a decomposition, by the version of
Unicode that they came with.

    python3 -m venv v && v/bin/pip install unicodedata2==18.0.0
    v/bin/python build-aux/unicode_newer.py > src/token/newer.def

What a character is says unicodedata2; which ones versions 8 and 9 had, perl.
"""
import subprocess

import unicodedata2

HEAD = """/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first and last characters of ranges in which Unicode 8.0 (NINE) and 9.0 (NEWER) had no character, and %s has a
 * mark, punctuation, a format character, or one with a decomposition; in the order of the characters.  Written by
 * build-aux/unicode_newer.py.
 */"""


def had(version):
    program = (r"for $c (0 .. 0x10ffff) { next if $c >= 0xd800 && $c <= 0xdfff; "
               r"print $c, ' ' if chr($c) =~ /\p{Present_In: %s}/ }" % version)
    return set(map(int, subprocess.run(["perl", "-e", program], check=True, capture_output=True, text=True).stdout.split()))


def matters(c):
    category = unicodedata2.category(chr(c))
    return (category[0] in "MP" or category == "Cf" or unicodedata2.combining(chr(c)) != 0 or
            unicodedata2.normalize("NFKD", chr(c)) != chr(c))


def ranges(eight, nine):
    """Runs of what one of them lacks; characters of version 9 are runs of their own."""
    kind = first = last = None
    for c in range(0x80, 0x110000):
        now = None if c in eight or 0xd800 <= c <= 0xdfff else "NINE" if c in nine else "NEWER"
        wanted = now and matters(c)
        if now != kind:
            if kind and last:
                yield kind, first, last
            kind, first, last = now, None, None
        if wanted:
            first, last = first or c, c
    if kind and last:
        yield kind, first, last


def main():
    print(HEAD % unicodedata2.unidata_version)
    line = ""
    for kind, first, last in ranges(had("8.0"), had("9.0")):
        word = f"{kind}(0x{first:x}, 0x{last:x})"
        if len(line) + len(word) > 98:
            print(line)
            line = ""
        line += " " * bool(line) + word
    print(line)


if __name__ == "__main__":
    main()
