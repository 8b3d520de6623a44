#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make pairs.model and pairs.txt: rows of classification as DeBERTa-v2's tokenizer has them.

pairs.model is a SentencePiece unigram model with DeBERTa's special ids, [PAD] 0, [CLS] 1, [SEP] 2, [UNK] 3, of a few
pieces; pairs.txt has for each row the sequence length, both texts as JSON (the second may be null), and the ids that
sentencepiece makes of them, put together and cut as transformers' slow DebertaV2Tokenizer (up to release 4) does: the longer of
the two loses a token, the second if they are as long.  Needs sentencepiece.

    python3 pairs.py [FOLDER]
"""
import io
import json
import sys
import tempfile

import sentencepiece

CORPUS = """The sailors rode the breeze clear of the rocks. The weights made the rope stretch over the pulley.
When did Beyonce start becoming popular? Beyonce rose to fame in the late 1990s as lead singer of the group.
What is the capital of France? Paris is the capital and most populous city of France.
If you had eaten more, you would want less. As you eat the most, you want the least.
Who was it that discovered the element? The element was discovered by Marie Curie in 1898.
The box contained the ball from the tree. The tube was escaped by gas. Water bubbled up out of the kettle."""

TEXTS = [
    "The sailors rode the breeze clear of the rocks.", "", " ", "a", "  two   spaces and\ta tab  ",
    "What is the capital of France?", "caf\u00e9 cafe\u0301 \ufb01ne \u2460 \uff21\uff22\uff23", "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd",
    "\U0001f600 grin \U0001f468\u200d\U0001f469\u200d\U0001f467", "non\u00a0breaking\u3000wide", "\"quoted\" 'text', (so) -- what?!", "x" * 70,
    "The element was discovered by Marie Curie in 1898. " * 3, "\u2581 the piece's own blank", "zero\u200bwidth\u00adsoft",
]
# Of nmt_nfkc, whose map would be 240 KB, what TEXTS have.
RULES = """9\t20
A0\t20
3000\t20
200B\t20
AD\t
FB01\t66 69
2460\t31
FF21\t41
FF22\t42
FF23\t43
65 301\tE9
"""
LENGTHS = [64, 16, 9, 5]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    model = io.BytesIO()
    rules = tempfile.NamedTemporaryFile("w", suffix=".tsv")
    rules.write(RULES)
    rules.flush()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.split("\n")), model_writer=model, vocab_size=100, model_type="unigram",
        character_coverage=1.0, pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]",
        eos_piece="[SEP]", unk_piece="[UNK]", normalization_rule_tsv=rules.name, minloglevel=2, num_threads=1)
    with open(f"{folder}/pairs.model", "wb") as file:
        file.write(model.getvalue())
    spm = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    with open(f"{folder}/pairs.txt", "w", encoding="ascii") as out:
        for i, first in enumerate(TEXTS):
            for second in (None, TEXTS[(5 * i + 3) % len(TEXTS)]):
                for length in LENGTHS:
                    a, b = spm.encode(first), spm.encode(second) if second is not None else []
                    around = 2 if second is None else 3
                    while len(a) + len(b) > length - around:
                        (a if len(a) > len(b) else b).pop()
                    ids = [1, *a, 2] + ([] if second is None else [*b, 2])
                    out.write("\t".join((str(length), json.dumps(first), json.dumps(second), " ".join(map(str, ids)))) + "\n")


if __name__ == "__main__":
    main()
