#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tokenizers_speed.py TEXT...: bytes of text per second here and in tokenizers and sentencepiece, run where
benchmarks/bench_tokenize is.

Of each kind a tokenizer is trained on the texts, with 8000 tokens, and then all of their text, in documents of 4 KB, is
tokenized by both programs, one thread each, alternately, five rounds of the best of three.  A ratio is one of the
medians of the rounds; the least and the largest of one round stand behind it.  That the tokens are the same is checked
by their checksum.  Each kind is a line of JSON.
"""
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import sentencepiece  # noqa: E402
from tokenizers import (Regex, Tokenizer, decoders, models, normalizers,  # noqa: E402
                        pre_tokenizers, trainers)

VOCAB, ROUNDS, REPEATS = 8000, 5, 3
LLAMA3 = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
          r"""|\s*[\r\n]+|\s+(?!\S)|\s+""")


def train(t, trainer, texts):
    t.train_from_iterator(texts, trainer)
    return t


def bpe(texts, pattern=None, nfc=False, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if nfc:
        t.normalizer = normalizers.NFC()
    return train(t, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=["<|endoftext|>"], show_progress=False,
                                        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())), texts)


def llama2(texts):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    train(t, trainers.BpeTrainer(vocab_size=VOCAB, show_progress=False,
                                 special_tokens=["<unk>"] + ["<0x%02X>" % b for b in range(256)]), texts)
    o = json.loads(t.to_str())
    o["added_tokens"] = o["added_tokens"][:1]
    o["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(o))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return t


def bert(texts):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    return train(t, trainers.WordPieceTrainer(vocab_size=VOCAB, special_tokens=["[UNK]"], show_progress=False), texts)


def unigram(texts):
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    m.ParseFromString(model(texts, "unigram"))
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Precompiled(m.normalizer_spec.precompiled_charsmap)
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    return train(t, trainers.UnigramTrainer(vocab_size=VOCAB, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False), texts)


def model(texts, kind, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=(l for x in texts for l in x.split("\n") if l), model_writer=out, model_type=kind, vocab_size=VOCAB,
        minloglevel=2, num_threads=1, hard_vocab_limit=False, max_sentence_length=100000, **options)
    return out.getvalue()


KINDS = {
    "byte-level BPE, GPT-2's pieces": bpe,
    "byte-level BPE, Llama 3's pieces": lambda x: bpe(x, LLAMA3, ignore_merges=True),
    "byte-level BPE, Qwen 2's pieces, NFC": lambda x: bpe(x, LLAMA3.replace("{1,3}", ""), nfc=True),
    "BPE with byte fallback (Llama 2)": llama2,
    "WordPiece (BERT)": bert,
    "Unigram (XLM-R)": unigram,
    "SentencePiece BPE with byte fallback": lambda x: model(x, "bpe", byte_fallback=True),
    "SentencePiece unigram": lambda x: model(x, "unigram"),
}


def checksum(ids):
    total = 1
    for document in ids:
        for i in document:
            total = (total * 31 + i) & 0xffffffff
    return total


def best(f):
    least = 1e9
    for _ in range(REPEATS):
        start = time.perf_counter()
        out = f()
        least = min(least, time.perf_counter() - start)
    return least, out


def ours(kind, path, text):
    said = subprocess.run(["./benchmarks/bench_tokenize", kind, path, text, str(REPEATS)], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def measure(name, build, texts, folder):
    made = build(texts)
    is_model = isinstance(made, bytes)
    path = folder / ("x.model" if is_model else "tokenizer.json")
    path.write_bytes(made) if is_model else made.save(str(path))
    if is_model:
        sp = sentencepiece.SentencePieceProcessor(model_file=str(path))
        theirs = lambda: sp.encode(texts, num_threads=1)  # noqa: E731
    else:
        t = Tokenizer.from_file(str(path))
        theirs = lambda: t.encode_batch_fast(texts, add_special_tokens=False)  # noqa: E731
    mine, peer, ratios = [], [], []
    for _ in range(ROUNDS):
        seconds, out = best(theirs)
        line = ours("SentencePieceTokenizer" if is_model else "HuggingFaceTokenizer", str(path), str(folder / "text"))
        peer.append(seconds)
        mine.append(line["seconds_min"])
        ratios.append(seconds / line["seconds_min"])
    same = checksum(out if is_model else [e.ids for e in out]) == line["checksum"]
    size = sum(len(x.encode()) for x in texts)
    print(json.dumps({"bench": "tokenizers", "what": name, "peer": "sentencepiece" if is_model else "tokenizers", "threads": 1,
                      "bytes": size, "tokens": line["tokens"], "bytes_per_second": round(size / statistics.median(mine), -4),
                      "peer_bytes_per_second": round(size / statistics.median(peer), -4),
                      "ratio": round(statistics.median(peer) / statistics.median(mine), 2),
                      "least": round(min(ratios), 2), "most": round(max(ratios), 2), "same": "yes" if same else "NO"}), flush=True)
    return same


def main():
    texts = []
    for name in sys.argv[1:]:
        data = pathlib.Path(name).read_text(encoding="utf-8").replace("\0", "")
        texts += [data[i:i + 4096] for i in range(0, len(data), 4096)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text").write_bytes(b"\0".join(x.encode() for x in texts))
        # All of them, also behind one whose tokens differ.
        if not all([measure(name, build, texts, folder) for name, build in KINDS.items()]):
            sys.exit("tokens differ: the rates of those lines mean nothing")


if __name__ == "__main__":
    main()
