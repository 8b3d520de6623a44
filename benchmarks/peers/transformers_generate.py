#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""transformers_generate.py MPIRUN THREADS ROUNDS [BATCH ...]

Greedy generation here and by generate() of transformers, eager, with its cache, on the same weights: a GPT-2 of 124
million parameters and a Llama of as many layers and as wide, random weights, fp32; 64 tokens behind prompts of 64, for
each size of a batch (1 and 8).  Alternately, ROUNDS times: transformers in this process with THREADS threads, and
./trireme on one rank of as many threads and on as many ranks of one.  Times are those of the prompts and the new
tokens, without starting and loading; a ratio is one of medians.  MPIRUN is tests/mpirun.  Prints a line of JSON for
each model, batch and number of ranks.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import transformers
except ImportError:
    sys.exit("transformers_generate.py needs PyTorch and transformers: `python3 -m venv V && V/bin/pip install torch "
             "transformers numpy`, then benchmarks/run generate --python V/bin/python3")

PROMPT, NEW, POSITIONS = 64, 64, 256
NO_TOKENS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
MODELS = {
    "gpt2": lambda: transformers.GPT2Config(n_positions=POSITIONS, **NO_TOKENS),
    "llama": lambda: transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
        num_key_value_heads=4, max_position_embeddings=POSITIONS, tie_word_embeddings=False, **NO_TOKENS),
}


def prompts(batch):
    """Lower-case letters, each a token of the tokenizer of bytes: its code."""
    return ["".join(chr(97 + (7 * i + 3 * k * k + k) % 26) for k in range(PROMPT)) for i in range(batch)]


def theirs(model, texts):
    ids = torch.tensor([list(t.encode()) for t in texts])
    began = time.monotonic()
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, use_cache=True,
                             min_new_tokens=NEW, max_new_tokens=NEW, pad_token_id=0)
    return time.monotonic() - began, out[:, PROMPT:].tolist()


def ours(mpirun, folder, ranks, threads, texts):
    (folder / "prompts.txt").write_text("\n".join(texts) + "\n")
    command = ["sh", mpirun, "--ranks", str(ranks), "--threads", str(threads), "./trireme", "generate", "--load",
               str(folder / "run"), "--tokenizer-type", "bytes", "--prompts", str(folder / "prompts.txt"), "--output",
               str(folder / "texts.jsonl"), "--max-new-tokens", str(NEW), "--ignore-end-of-text", "--backend", "cpu",
               "--tensor-model-parallel-size", str(ranks)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    lines = (folder / "texts.jsonl").read_text().splitlines()
    return float(re.search(r"tokens in ([0-9.]+) s", said).group(1)), [json.loads(x)["tokens"] for x in lines]


def compare(name, model, folder, mpirun, threads, rounds, batch):
    layouts = [(1, threads)] + ([(threads, 1)] if threads > 1 else [])
    texts = prompts(batch)
    peer, mine, same = [], {x: [] for x in layouts}, {x: 0 for x in layouts}
    theirs(model, texts)
    for _ in range(rounds):
        seconds, want = theirs(model, texts)
        peer.append(seconds)
        for x in layouts:
            seconds, got = ours(mpirun, folder, *x, texts)
            mine[x].append(seconds)
            same[x] = sum(a == b for a, b in zip(want, got))
    for ranks, each in layouts:
        x = ranks, each
        rate = batch * NEW / statistics.median(mine[x])
        ratios = [a / b for a, b in zip(peer, mine[x])]
        print(json.dumps({
            "bench": "generate", "model": name, "batch": batch, "ranks": ranks, "threads": each,
            "tokens_per_second": round(rate, 1),
            "peer_tokens_per_second": round(batch * NEW / statistics.median(peer), 1),
            "ratio": round(statistics.median(peer) / statistics.median(mine[x]), 3), "least": round(min(ratios), 3),
            "most": round(max(ratios), 3), "same": f"{same[x]} of {batch}", "rounds": rounds,
            "peer": f"transformers {transformers.__version__}, torch {torch.__version__}, {threads} threads"}),
            flush=True)


def main():
    mpirun, threads, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    batches = [int(x) for x in sys.argv[4:]] or [1, 8]
    torch.set_num_threads(threads)
    for name, config in MODELS.items():
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config(), attn_implementation="eager").eval()
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model.save_pretrained(folder / "model")
            subprocess.run(["./trireme", "ckpt", "import", "--from", str(folder / "model"), "--save",
                            str(folder / "run")], check=True, capture_output=True)
            for batch in batches:
                compare(name, model, folder, mpirun, threads, rounds, batch)


if __name__ == "__main__":
    main()
