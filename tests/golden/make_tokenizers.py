#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Small tokenizers of each kind, and the tokens that their own programs make of many texts.

    make_tokenizers.py [FOLDER]

Needs tokenizers and sentencepiece of PyPI (0.23.3 and 0.2.3 made what is here).  Writes into FOLDER, which is
that of this script unless given, tok_NAME.json or tok_NAME.model, and tok_NAME.cases, JSON lines:
{"text" or "hex": ..., "ids": [...], "decoded": ...}, where decoded is left out if it is the text.
"""
import json
import pathlib
import random
import sys

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

HERE = pathlib.Path(__file__).resolve().parent
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
          r"""|\s*[\r\n]+|\s+(?!\S)|\s+""")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
         r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
         r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""]

# Words to learn from: of each script a little, and code.
WORDS = """the rowers of a trireme sat on three levels and kept time to a flute while they rowed they've
it's we'll I'm you're he'd can't don't do not Athens had 200 ships in 480 BC number 12345 3.14159 1,000,000
int main(void) { return x->next != NULL ? 0 : (a[i] += 1); } def f(self, *args): return None  # comment
Überfluß naïve café déjà vu garçon œuvre ñandú Straße Ωμέγα τριήρης ναῦς ναύτης ἐρέτης Η τριήρης ήταν
корабль быстрый гребец весло Кириллица трирема と三段櫂船 は 古代 ギリシャ の 軍船 カタカナ ひらがな 三列桨座战船是古代地中海的战舰
삼단노선 고대 그리스 سفينة ثلاثية المجاديف हिन्दी में त्रिरीम नाव ภาษาไทย เรือ עברית ספינה ქართული ნავი հայերեն
ﬁne ﬂow ① ② Ⅳ ½ ㎏ ™ ＡＢＣ １２３ é e\u0301 Å A\u030a""".split(" ")
PIECES = ["👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇬🇷", "👨🏿‍🚀", "e\u0301\u0323", "\u1100\u1161\u11a8", "각", "ﬃ", "\ufdfa", "İstanbul", "ſ", "K",
          "'S", "'LL", "'ſ", "'\u017f", "\u00a0", "\u3000", "\u2003", "\u2028", "\u0085", "\u180e", "\u200b", "\u200d", "\ufeff",
          "\u00ad", "\t", "\t\t", "\r\n", "\r", "\n", "\n\n", "\n\n\n", " \n", " ", "  ", "   ", "        ", " " * 17, "\u2581", "\u2581\u2581",
          "\x00", "\x01", "\x7f", "0", "12", "1234567", "١٢٣", "१२", "½", "Ⅷ", "㊿", "_", "__init__", "...", "!?", "«", "»", "—", "…", "$", "€",
          "\\n", "\"", "<s>", "</s>", "<unk>", "<|endoftext|>", "<|begin_of_text|>", "<0x41>", "##ing", "[CLS]", "[MASK]", "[UNK]",
          "<extra>", "<sep>", " <sep> ", "word<sep>word", "foo<mid> bar", "<word>", "x<word>", "<word>x", "\ufffd", "Ａ", "ｶﾞ",
          "中", "文", "。", "，", "日本", "𠀀", "\U0002f800", "ａｂ", "ς", "Σ", "ΑΣ", "ß", "ẞ", "Ǆ", "ⓐ", "Ⓐ", "🅰", "क्षि", "\u0301", "\u0e33", "a\u0300\u0316", "x"*30,
          "ab" * 60, "-" * 40, "=" * 7, "//", "/* */", "http://a.b/c?d=e&f=g", "a@b.org", "don't", "DON'T", " zebra", " n't", "do not", " 's"]


def lines(count, seed):
    """Texts of words and other pieces, and of random characters that Unicode 14 has."""
    rng = random.Random(seed)
    for i in range(count):
        kind = i % 5
        if kind == 4:
            yield "".join(random_character(rng) for _ in range(rng.randint(1, 40)))
            continue
        parts = []
        for _ in range(rng.randint(1, 24)):
            parts.append(rng.choice(WORDS) if rng.random() < (0.9, 0.6, 0.3, 0.8)[kind] else rng.choice(PIECES))
            if rng.random() < (0.9, 0.5, 0.3, 0.7)[kind]:
                parts.append(rng.choice([" ", " ", " ", " ", "  ", "\n", ", ", ". "]))
        yield "".join(parts)


BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x5ea), (0x620, 0x64a), (0x904, 0x939),
          (0x93c, 0x94d), (0xe01, 0xe3a), (0x10d0, 0x10fa), (0x1100, 0x1112), (0x1161, 0x1175), (0x11a8, 0x11c2), (0x1e00, 0x1eff), (0x1f00, 0x1f15),
          (0x2000, 0x2064), (0x2070, 0x2071), (0x20a0, 0x20bf), (0x2100, 0x218b), (0x2200, 0x22ff), (0x2460, 0x24ff), (0x2580, 0x25ff), (0x3000, 0x303f), (0x3041, 0x3096),
          (0x3099, 0x30ff), (0x3200, 0x321e), (0x3300, 0x33ff), (0x4e00, 0x4eff), (0xac00, 0xadff), (0xf900, 0xf9ff), (0xfb00, 0xfb06), (0xfb50, 0xfbb1), (0xfe30, 0xfe4f),
          (0xff01, 0xffbe), (0x1d400, 0x1d454), (0x1f300, 0x1f5ff), (0x20000, 0x200ff), (0x2f800, 0x2f8ff), (0, 0x1f), (0x7f, 0x9f)]


def random_character(rng):
    a, b = rng.choice(BLOCKS)
    return chr(rng.randint(a, b))


def corpus():
    rng = random.Random(7)
    return [" ".join(rng.choice(WORDS) for _ in range(12)) for _ in range(3000)] + [
        line.replace("\0", "") for i, line in enumerate(lines(500, 3)) if i % 5 != 4]


def rules():
    """A map of characters that is small: some compositions, widths, compatible characters, blanks."""
    pairs = [(chr(0xfee0 + c), chr(c)) for c in range(0x21, 0x7f)] + [
        ("e\u0301", "é"), ("A\u030a", "Å"), ("e\u0301\u0323", "ẹ́"), ("\uff76\uff9e", "ガ"), ("\u1100\u1161", "가"), ("\u1100\u1161\u11a8", "각"),
        ("ﬁ", "fi"), ("ﬂ", "fl"), ("ﬃ", "ffi"), ("①", "1"), ("②", "2"), ("Ⅳ", "IV"), ("Ⅷ", "VIII"), ("½", "1⁄2"), ("㎏", "kg"), ("™", "TM"),
        ("\u00a0", " "), ("\u3000", " "), ("\u2003", " "), ("\u2028", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\u200b", " "), ("\u00ad", ""),
        ("\ufdfa", "صلى الله عليه وسلم"), ("\U0002f800", "丽"), ("İ", "i\u0307"), ("\u200d", "")]
    return "".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in pairs)


def added():
    return [AddedToken("<sep>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("<mid>", rstrip=True, normalized=True), AddedToken("<word>", single_word=True, normalized=True),
            AddedToken("  ", normalized=False), AddedToken("        ", normalized=False), AddedToken("Éxtra", normalized=True)]


def byte_level(pattern, vocab, **model):
    t = Tokenizer(models.BPE(**model))
    if pattern is None:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        t.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(p), "isolated") for p in ([pattern] if isinstance(pattern, str) else pattern)] +
            [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  special_tokens=["<|endoftext|>", "<|begin_of_text|>"], show_progress=False)
    t.train_from_iterator(corpus(), trainer)
    return t


def gpt2():
    t = byte_level(None, 450)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama3():
    t = byte_level(LLAMA3, 500, ignore_merges=True)
    t.add_special_tokens([AddedToken("<s>", special=True)])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B", special_tokens=[("<|begin_of_text|>", 1)])])
    return t


def qwen2():
    t = byte_level(QWEN2, 450)
    t.normalizer = normalizers.NFC()
    t.add_special_tokens([AddedToken("<|im_start|>", special=True)])
    return t


def neox():
    t = byte_level(None, 450)
    t.normalizer = normalizers.NFC()
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 25)])
    t.add_tokens(added()[:3])
    return t


def o200k():
    return byte_level(O200K, 450)


def deepseek():
    t = byte_level(DEEPSEEK, 450)
    t.add_tokens(added())
    return t


def roberta():
    t = byte_level(None, 420)
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True),
                          AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def fallback(pre, fuse=True, bytes_too=True):
    """Llama 2 and what is like it: characters, blanks as U+2581, bytes for the rest."""
    specials = ["<unk>", "<s>", "</s>"] + (["<0x%02X>" % b for b in range(256)] if bytes_too else [])
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=bytes_too))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator([w for w in corpus() if w.isascii() or "к" in w],
                          trainers.BpeTrainer(vocab_size=700, special_tokens=specials, show_progress=False))
    o = json.loads(t.to_str())
    o["added_tokens"] = [a for a in o["added_tokens"] if a["id"] < 3]
    t = Tokenizer.from_str(json.dumps(o))
    if pre:
        t.pre_tokenizer = pre
        t.decoder = decoders.Metaspace()
    else:
        t.pre_tokenizer = None
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return t


def llama2():
    return fallback(None)


def metaspace():
    t = fallback(pre_tokenizers.Metaspace(prepend_scheme="first"), bytes_too=False)
    t.add_tokens(added()[:3])
    return t


def unfused():
    return fallback(pre_tokenizers.Metaspace(prepend_scheme="always", split=False), fuse=False, bytes_too=False)


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=700, limit_alphabet=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.add_tokens([AddedToken("<word>", single_word=True, normalized=True), AddedToken("Éxtra", normalized=True)])
    return t


def cased():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    t.decoder = decoders.WordPiece(cleanup=False)
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=600, limit_alphabet=300, special_tokens=["[UNK]"], show_progress=False))
    return t


def unigram():
    """Like XLM-R: SentencePiece's map of characters, then blanks as U+2581."""
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap()), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=900, special_tokens=["<s>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B </s>",
                                                     special_tokens=[("<s>", 0), ("</s>", 1)])
    return t


def lower():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
                                               pre_tokenizers.Split("x", "merged_with_next"), pre_tokenizers.Digits()])
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(vocab_size=700, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False))
    return t


def charsmap():
    """A normalization map of SentencePiece."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    m.ParseFromString(model("unigram", "nmt_nfkc", 1500))
    return m.normalizer_spec.precompiled_charsmap


def model(kind, rule, vocab, **options):
    import io
    import os
    import tempfile
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as tsv:
        tsv.write(rules())
        tsv.flush()
        # With $FULL the maps are SentencePiece's own, of a quarter of a megabyte each: to compare by hand.
        if rule != "identity" and not os.environ.get("FULL"):
            options["normalization_rule_tsv"] = tsv.name
        else:
            options["normalization_rule_name"] = rule
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(corpus()), model_writer=out, model_type=kind, vocab_size=vocab, minloglevel=2, num_threads=1, hard_vocab_limit=False, **options)
    return out.getvalue()


MODELS = {
    "sp_bpe": lambda: model("bpe", "identity", 1200, byte_fallback=True, character_coverage=0.98,
                            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True),
    "sp_bpe_user": lambda: model("bpe", "nmt_nfkc_cf", 1000, character_coverage=0.98, user_defined_symbols=["<sep>", "▁▁", "flute", "ave t"],
                                 control_symbols=["<ctl>"]),
    "sp_unigram": lambda: model("unigram", "nmt_nfkc", 900, character_coverage=0.98),
    "sp_unigram_user": lambda: model("unigram", "nfkc", 1100, byte_fallback=True, character_coverage=0.98, add_dummy_prefix=False,
                                     user_defined_symbols=["<sep>", "▁▁", "flute", "12"], remove_extra_whitespaces=False),
    "sp_unigram_plain": lambda: model("unigram", "identity", 700, character_coverage=1.0),
}
JSON = {f.__name__: f for f in (gpt2, llama3, qwen2, neox, o200k, deepseek, roberta, llama2, metaspace, unfused,
                                bert, cased, unigram, lower)}
BROKEN = [b"\xff", b"ab\x80cd", b"\xe4\xb8", b"x\xe4\xb8y", b"\xf0\x9f\x91 \xf0\x9f", b"\xed\xa0\x80", b"\xc0\xaf/", b"caf\xe9 au lait",
          b"\xff\xfe\xfd", b" \xe2\x96 \x81"]


def replaced(data):
    """Each byte that is no UTF-8 becomes U+FFFD."""
    return b"".join(c.encode() if not "\udc80" <= c <= "\udcff" else "\ufffd".encode()
                    for c in data.decode("utf-8", "surrogateescape")).decode()


# Marks, punctuation and format characters of Unicode 9 to 14 and such whose category has changed, and what has a
# decomposition since Unicode 10: tables of the reference are those of Unicode 8 and 9.
NEWER = ["\u08e2", "\U000110cd", "\U00013430", "\u08d4", "\u0898", "\u1df6", "\u1dfb", "\U00011a01", "\U00011c92", "\U0001e8d0",
         "\U0001e944", "\U0001e2ec", "\U00011a39", "\u2e43", "\u2e4a", "\u061d", "\U0001144b", "\U0001145b", "\u166d", "\u1cf2", "\u1734",
         "\u1885", "\ua9bd", "\U000111c9", "\u32ff", "\ua7f2", "\uab69", "\U00010781", "\U0001f16c", "\U0001fbf3",
         "\U00011938", "\U00011935\U00011930", "\u0301\u07fd\u0316", "\u0301\U0001e136\u0323", "\u0316\u0898\u0334\u08d4", "e\u0301\u1abf\u0323"]


def texts(count):
    yield from ["", " ", "  ", "\n", "a", " a", "a ", "Hello, world!", "\u2581", "<s>"]
    yield from PIECES
    yield from lines(count, 11)
    yield from ("a" + c + "b " + c + " c" + c for c in NEWER)


def write(path, encode, decode, broken, count):
    with open(path, "w", encoding="utf-8") as f:
        for text in texts(count):
            ids = encode(text)
            case = {"text": text, "ids": ids, "decoded": decode(ids)}
            if case["decoded"] == text:
                del case["decoded"]
            f.write(json.dumps(case, separators=(",", ":"), ensure_ascii=False) + "\n")
        for data in BROKEN if broken else []:
            ids = encode(replaced(data))
            f.write(json.dumps({"hex": data.hex(), "ids": ids}, separators=(",", ":")) + "\n")


def make(folder, only=None, count=30):
    for name, build in JSON.items():
        if only and name not in only:
            continue
        t = build()
        o = json.loads(t.to_str())
        if name in ("gpt2", "llama2"):
            o["model"]["merges"] = [" ".join(m) for m in o["model"]["merges"]]
        if name == "llama3":
            # No merge leads there.  Added tokens follow the vocabulary.
            o["model"]["vocab"]["Ġzebra"] = 500
            o["added_tokens"][-1]["id"] = 501
        path = folder / f"tok_{name}.json"
        path.write_text(json.dumps(o, separators=(",", ":"), ensure_ascii=False), encoding="utf-8")
        t = Tokenizer.from_file(str(path))
        write(folder / f"tok_{name}.cases", lambda x: t.encode(x, add_special_tokens=False).ids,
              lambda i: t.decode(i, skip_special_tokens=False), not isinstance(t.decoder, decoders.ByteLevel), count)
    for name, build in MODELS.items():
        if only and name not in only:
            continue
        data = build()
        (folder / f"tok_{name}.model").write_bytes(data)
        sp = sentencepiece.SentencePieceProcessor(model_proto=data)
        write(folder / f"tok_{name}.cases", sp.encode, sp.decode, True, count)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
