#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# trireme eval and trireme generate, from a checkpoint in training, on several layouts.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 52

check "a dataset is built" small_corpus
check "a model is trained" small 1 --train-iters 200 --lr 0.01 --save "$work/run"
head -c 1500 "$work/text.txt" > "$work/some.txt"

# measure NAME RANKS OPTION...: evaluate; results in NAME.json.
measure() {
    measure_name=$1 measure_ranks=$2
    shift 2
    ranks "$measure_ranks" "$trireme" eval --load "$work/run" --json "$work/$measure_name.json" "$@"
}
# number NAME FIELD
number() { sed -n "s/.*\"$2\":\([-0-9.e]*\)[,}].*/\1/p" "$work/$1.json"; }
is() { [ "$(number "$1" "$2")" = "$3" ]; }
# near NAME NAME FIELD: to a relative 1e-5.
near() {
    echo "$(number "$1" "$3") $(number "$2" "$3")" |
        awk '{ d = ($1 - $2) / $1; exit NF != 2 || d * d > 1e-10 }'
}

check "perplexity of a text" measure whole 1 --text "$work/some.txt"
check "all but the first token of each window count" is whole counted 1453
check "perplexity is exp of the mean loss" sh -c "echo $(number whole loss) $(number whole perplexity) |
    awk '{ d = exp(\$1) / \$2 - 1; exit d * d > 1e-12 }'"
check "the same in a table" sh -c "echo '$tap_out' > /dev/null; '$trireme' eval --load '$work/run' \
    --text '$work/some.txt' | grep -q '^  tokens that count  *1453$'"
check "of the iteration that was loaded" is whole iteration 200
check "with a stride" measure stride 1 --text "$work/some.txt" --stride 7
check "all tokens but the first count" is stride counted 1499
check "with more context it is less" sh -c "[ $(number stride perplexity | cut -d . -f 1) -le \
    $(number whole perplexity | cut -d . -f 1) ]"
check "TP 2, PP 2" measure four 4 --text "$work/some.txt" --stride 7 --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 2 --micro-batch-size 3
check "it is the same" near stride four loss
check "three replicas" measure three 3 --text "$work/some.txt" --stride 7 --micro-batch-size 2
check "it is the same there" near stride three loss
check "without the end of texts it is a dataset" "$trireme" data build --tokenizer-type bytes --output-prefix \
    "$work/some" "$work/some.txt"
check "which has the same perplexity" measure data 1 --dataset "$work/some_text_document" --stride 7
check "to the bit" sh -c "[ '$(number stride loss)' = '$(number data loss)' ]"

fails "nothing to measure" 64 "give one of --text FILE, --dataset PREFIX and --lambada FILE" \
    "$trireme" eval --load "$work/run"
fails "a stride beyond the window" 64 "tokens would be left out" \
    "$trireme" eval --load "$work/run" --text "$work/some.txt" --stride 33
fails "no checkpoint" 64 "give --load FOLDER" "$trireme" eval --text "$work/some.txt"
fails "one token" 65 "it takes two to predict one" sh -c "printf x > '$work/x.txt'
    '$trireme' eval --load '$work/run' --text '$work/x.txt'"

# texts NAME RANKS OPTION...: continue four prompts; JSON lines in NAME.jsonl.
printf '%s\n' "3 times 4 is" "12 times 5" "" "7" > "$work/prompts.txt"
texts() {
    texts_name=$1 texts_ranks=$2
    shift 2
    ranks "$texts_ranks" "$trireme" generate --load "$work/run" --prompts "$work/prompts.txt" \
        --max-new-tokens 16 --output "$work/$texts_name.jsonl" "$@"
}
check "greedy" texts greedy 1
check "four texts of 16 tokens" sh -c "[ \$(grep -c '\"end\":\"length\"' '$work/greedy.jsonl') = 4 ]"
check "drawn" texts drawn 1 --temperature 0.9 --top-k 50 --top-p 0.97 --seed 5
check "with TP 2, PP 2" texts drawn4 4 --temperature 0.9 --top-k 50 --top-p 0.97 --seed 5 \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
check "the same texts" cmp "$work/drawn.jsonl" "$work/drawn4.jsonl"
check "three replicas, without the cache" texts drawn3 3 --temperature 0.9 --top-k 50 --top-p 0.97 --seed 5 \
    --no-kv-cache
check "the same again" cmp "$work/drawn.jsonl" "$work/drawn3.jsonl"
check "another seed" texts other 1 --temperature 0.9 --top-k 50 --top-p 0.97 --seed 6
check "other texts" sh -c "! cmp -s '$work/drawn.jsonl' '$work/other.jsonl'"
# 4 layers, keys and values of 4 heads, 32 tokens, 8 numbers of 4 bytes.
check "the cache takes what is planned" sh -c "'$trireme' generate --load '$work/run' --prompt 3 \
    --max-new-tokens 2 2>&1 | grep -q 'a key-value cache for 1 text of 32 tokens: 32.0 KiB of a rank'"

# The last word of a passage is right if greedy decoding writes it: what the model has learnt by
# heart.
check "greedy decoding goes on" [ "$("$trireme" generate --load "$work/run" --prompt "3 times 4" \
    --max-new-tokens 3 2> /dev/null)" = "3 times 4 is" ]
printf '{"text": "3 times 4 is"}\n{"text": "3 times 4 zz "}\n{"text": "12 times 5 is"}\n{"text": "3 times is"}\n' \
    > "$work/words.jsonl"
check "final words" measure words 2 --lambada "$work/words.jsonl" --tensor-model-parallel-size 2
check "what greedy decoding writes is right, other words are not" sh -c \
    "[ '$(number words correct)' = 2 ] && [ '$(number words accuracy)' = 0.5 ] && [ '$(number words counted)' = 12 ]"
fails "a passage of one word" 65 "passage 1 has no word before its last one" sh -c \
    "echo '{\"text\": \"one\"}' > '$work/one.jsonl'; '$trireme' eval --load '$work/run' --lambada '$work/one.jsonl'"

# stops TEXT WORD...: what is written before the first of these words.
stops() {
    stops_text=$1
    shift
    [ "$("$trireme" generate --load "$work/run" --prompt "3 times 4" --max-new-tokens 12 --stop "$@" 2> /dev/null)" = \
        "$stops_text" ]
}
check "stop words" stops "3 times 4 " e i
check "a stop word of several tokens" stops "3 times 4 " zzz is
check "a text ends before one" [ "$("$trireme" generate --load "$work/run" --prompt "3 times 4" \
    --max-new-tokens 12 --stop zzz s 2> /dev/null)" = "3 times 4 i" ]
check "a text ends where the model does" sh -c "'$trireme' generate --load '$work/run' --prompt 'abc' \
    --max-new-tokens 100 --ignore-end-of-text 2>&1 >/dev/null | grep -q '1 text ended at 32 tokens'"
check "a prompt that begins with @" [ "$("$trireme" generate --load "$work/run" --prompt=@3 --max-new-tokens 1 \
    2> /dev/null | head -c 2)" = @3 ]
fails "a prompt that is too long" 65 "prompt 1 has 40 tokens, and the model reads 32" \
    "$trireme" generate --load "$work/run" --prompt "1234567890123456789012345678901234567890"
fails "no prompt" 64 "there is nothing to continue" "$trireme" generate --load "$work/run"
fails "top-k without a temperature" 64 "give one, --temperature 1" \
    "$trireme" generate --load "$work/run" --prompt x --top-k 3
fails "an empty stop word" 64 "an empty word" "$trireme" generate --load "$work/run" --prompt x --stop ""
fails "another tokenizer" 64 "the model only 257" "$trireme" generate --load "$work/run" --prompt x \
    --tokenizer-type gpt2-bpe --vocab-file "$srcdir/tests/golden/bpe_vocab.json" \
    --merge-file "$srcdir/tests/golden/bpe_merges.txt"
printf '12\0003\n45\n' > "$work/zero.txt"
check "bytes that are zero are part of a text" measure zero 1 --text "$work/zero.txt"
check "eight bytes" is zero counted 7
check "and of a prompt" "$trireme" generate --load "$work/run" --prompts "$work/zero.txt" --max-new-tokens 1 \
    --output "$work/zero.jsonl"
check "of two" [ "$(grep -c '"prompt":"\(12.u00003\|45\)"' "$work/zero.jsonl")" = 2 ]
printf '{"prompt": "x"}\n{"text": "y"}\n' > "$work/bad.jsonl"
fails "a line without a prompt" 65 "bad.jsonl:2 is no object with a text under \"prompt\"" \
    "$trireme" generate --load "$work/run" --prompts "$work/bad.jsonl"
# Of TP 2 and PP 2: two micro-batches of a text each, 2 layers, 2 heads.
check "a dry run on one rank of four, with a row for the cache" sh -c "'$trireme' generate --load '$work/run' --prompt 3 \
    --dry-run --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 |
    awk '/planning for 4 ranks/ { ranks = 1 } /key-value cache +0.02 MiB/ { rows++ } /^  gradients/ { rows = 9 }
    END { exit rows != 2 || !ranks }'"
check "of an evaluation" sh -c "'$trireme' eval --load '$work/run' --text '$work/some.txt' --dry-run |
    grep -q '^largest of all ranks'"
