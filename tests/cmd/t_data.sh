#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# trireme data: build, verify, show and merge, as they are typed.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 61

golden=$(cd "$srcdir" && pwd)/tests/golden
data() { "$trireme" data "$@"; }
bytes() { data build "$@" --tokenizer-type bytes; }
bpe() {
    data build "$@" --tokenizer-type GPT2BPETokenizer --vocab-file "$golden/bpe_vocab.json" \
        --merge-file "$golden/bpe_merges.txt"
}
same() { cmp "$1.bin" "$2.bin" && cmp "$1.idx" "$2.idx"; }
# The command prints exactly what is in the file.
prints() {
    prints_file=$1
    shift
    "$@" >"$work/printed" && diff "$prints_file" "$work/printed"
}
only() { [ "$(ls -A "$1")" = "$2" ] || { ls -A "$1"; false; }; }
cd "$work" || exit 1

# The file that Megatron's own builder makes of documents {5, 6, 7} and {8, one more}: CRC-32
# 381568b9, which gzip puts behind what it packs.
printf '%s\n' '{"text": "\u0005\u0006\u0007"}' '{"text": "\b\u007f"}' >golden.jsonl
check "two documents of bytes" bytes golden.jsonl --dataset-impl mmap --output-prefix golden
golden_index() {
    [ "$(wc -c <golden_text_document.idx)" -eq 82 ] &&
        [ "$(gzip -nc golden_text_document.idx | tail -c 8 | head -c 4 | od -An -tx1)" = \
            " b9 68 15 38" ]
}
check "their index is Megatron's, 82 bytes" golden_index
golden_tokens() {
    [ "$(od -An -v -tx1 golden_text_document.bin)" = " 05 00 06 00 07 00 08 00 7f 00" ]
}
check "their tokens are 16 bits wide" golden_tokens

# Four megabytes of text that no chunk divides evenly, in three forms.
awk 'BEGIN { for (i = 0; i < 60000; i++) {
    if (i % 7 == 0) print ""
    print "line " i ": the oars of " i * i % 977 " rowers don'"'"'t strike\tas one, \303\251\344\270\211" }
}' >text.txt
awk '{ gsub(/\t/, "\\t"); print "{\"title\": \"t" NR "\", \"text\": \"" $0 "\"}" }' text.txt >lines.jsonl
# any_workers PREFIX COMMAND...: the same dataset whatever --workers is; it stays as
# PREFIX_text_document.
any_workers() {
    prefix=$1
    shift
    for workers in 1 2 4; do
        "$@" --workers $workers --output-prefix "$prefix-$workers" --append-eod || return 1
    done
    same "$prefix-1_text_document" "$prefix-2_text_document" &&
        same "$prefix-1_text_document" "$prefix-4_text_document"
}
check "bpe: one document, any number of workers" any_workers whole bpe text.txt
check "bpe: paragraphs, any number of workers" \
    any_workers paragraphs bpe text.txt --split-documents blank-lines
check "bpe: jsonl, any number of workers" any_workers json bpe lines.jsonl
check "bytes: one document, any number of workers" any_workers bytes bytes text.txt

check "lines of text" bytes text.txt --split-documents lines --output-prefix lines
check "lines of jsonl" bytes lines.jsonl --output-prefix jlines
check "are the same" same lines_text_document jlines_text_document
from_stdin() { bpe - --input-format jsonl --append-eod --output-prefix stdin <lines.jsonl; }
check "from the standard input" from_stdin
check "is the same as from a file" same stdin_text_document json-4_text_document

printf '%s\n' '{"title": "T\u00e9\n1", "n": 12345678901234567890123, "text": "\ud83d\udea3 \"row\""}' '' \
    '{"text": "", "title": "two"}' '{"text": "a\\b\tc\/d\u0000", "title": "3"}' >keys.jsonl
check "two keys make two datasets" \
    bpe keys.jsonl --json-keys text title --append-eod --output-prefix keys
show_bpe() {
    data show "$@" --tokenizer-type gpt2-bpe --vocab-file "$golden/bpe_vocab.json" \
        --merge-file "$golden/bpe_merges.txt"
}
printf '\360\237\232\243 "row"<|endoftext|>' >want
check "a text comes back" prints want show_bpe keys_text_document --document 0
printf 'a\\b\tc/d\000<|endoftext|>' >want
check "an empty document is left out" prints want show_bpe keys_text_document --document 1
printf 'T\303\251\n1<|endoftext|>' >want
check "the other key comes back" prints want show_bpe keys_title_document --document 0
printf '%s\n' '97 "a"' '92 "\\"' '9 "\x09"' >want
printf 'a\\\t' >three.txt
bytes three.txt --output-prefix three >three.log || exit 1
check "tokens one by one" prints want data show three_text_document --document 0 \
    --tokenizer-type bytes --tokens
printf '%s\n' 97 92 9 >want
check "tokens without a tokenizer" prints want data show three_text_document --document 0

printf 'one\ntwo<|endoftext|>\n<|endoftext|>\nthree\n' >marked.txt
bytes marked.txt --split-documents marker --output-prefix marked >marked.log || exit 1
printf 'one\ntwo<|endoftext|>' >want
check "a marker is a line of its own" prints want data show marked_text_document --document 0 \
    --tokenizer-type bytes

# Any bytes at all, here the program itself, come back through bpe, and the warning counts them.
head -c 300000 "$trireme" >binary
fails "bytes that are not UTF-8 are kept, with a warning" 0 "bytes are not UTF-8, the first at byte" \
    bpe binary --output-prefix binary
check "and come back" prints binary show_bpe binary_text_document --document 0
fails "or refused" 65 "is not UTF-8; --invalid-utf8 keep" \
    bpe binary --output-prefix binary --overwrite --invalid-utf8 refuse

# Merging.
head -n 20000 lines.jsonl >a.jsonl
tail -n +20001 lines.jsonl >b.jsonl
for part in a b; do bpe $part.jsonl --append-eod --output-prefix $part >$part.log || exit 1; done
check "datasets merge" data merge a_text_document b_text_document --output-prefix ab
check "to what building at once makes" same ab json-1_text_document
check "or building from both" bpe a.jsonl b.jsonl --append-eod --output-prefix both
check "which is the same" same ab both_text_document
check "files may be named as Megatron does" \
    bpe --input a.jsonl b.jsonl --append-eod --output-prefix both --overwrite
check "with the same result" same ab both_text_document
# A vocabulary from 65500 on takes 32 bits: here 50,000 more tokens that nothing uses.
awk '{ sub(/}$/, ""); printf "%s", $0; for (i = 657; i < 70000; i++) printf ",\"<%d>\":%d", i, i
       print "}" }' "$golden/bpe_vocab.json" >wide.json
data build b.jsonl --vocab-file wide.json --merge-file "$golden/bpe_merges.txt" --append-eod \
    --output-prefix wide >wide.log || exit 1
fails "types that differ are widened, with a warning" 0 "a_text_document has tokens of u16 and becomes i32" \
    data merge a_text_document wide_text_document --output-prefix mixed
widened() {
    data show mixed | grep -q 'i32, code 4' && data show mixed --document 7 >one &&
        data show ab --document 7 >two && cmp one two &&
        data show mixed --document 30000 >one && data show ab --document 30000 >two && cmp one two
}
check "and the tokens stay" widened

# Showing and verifying.
cat >want <<END
prefix:                keys_title_document
documents:             3
sequences:             3
tokens:                $(data show keys_title_document --document 0 | wc -l |
    awk '{ print $1 + 4 + 2 }')
END
facts() { data show keys_title_document | head -n 4 | diff want -; }
check "show says what is there" facts
fails "and in what documents end" 0 "all end in token 656" data show keys_title_document
fails "verify ends in a line of totals" 0 "three_text_document: ok, 1 document, 3 tokens, u16" \
    data verify three_text_document
fails "verify takes several" 0 "ab: ok, 60000 documents" data verify three_text_document ab \
    --vocab-size 657
fails "a token beyond the vocabulary" 65 "document 0" data verify three_text_document --vocab-size 97
cp three_text_document.idx cut.idx
head -c 5 three_text_document.bin >cut.bin
fails "a truncated file" 65 "cut.bin" data verify cut
fails "is found among others" 65 "not all of the 2 datasets" data verify cut ab
fails "a dataset that is not there" 74 "nowhere.idx" data verify nowhere

printf '{"model": }' >wrong.json
# Tokenizers of published models, by a file and by a folder; the tokens of several workers are those
# of one.
mkdir model
cp "$golden/tok_llama3.json" model/tokenizer.json
printf '{"eos_token": "<|endoftext|>"}' >model/tokenizer_config.json
llama3() { data build "$@" --tokenizer-type HuggingFaceTokenizer --tokenizer-model model --append-eod; }
printf '{"text": "The rowers<|endoftext|> sat."}\n{"text": "\\u4e09\\u6bb5 caf\\u00e9"}\n' >two.jsonl
told() { llama3 two.jsonl --output-prefix two --add-special-tokens >two.log && grep -q "^tokenizer: tokenizer.json, byte-level \
BPE, 502 tokens, 3 added; 1 \"<|begin_of_text|>\" begins a text; 0 \"<|endoftext|>\" ends a text$" two.log; }
check "a line says which tokenizer was found" told
show_llama3() { data show "$@" --tokenizer-type HuggingFaceTokenizer --tokenizer-model model; }
printf '<|begin_of_text|>The rowers<|endoftext|> sat.<|endoftext|>' >want
check "its text comes back, with special tokens" prints want show_llama3 two_text_document --document 0
printf '<|begin_of_text|>\344\270\211\346\256\265 caf\303\251<|endoftext|>' >want
check "so does another" prints want show_llama3 two_text_document --document 1
cp "$golden/tok_sp_bpe.model" model.model
sentencepiece() { data build "$@" --tokenizer-type SentencePieceTokenizer --tokenizer-model model.model --append-eod; }
check "SentencePiece" sentencepiece two.jsonl --output-prefix sp
sp_ends() { data show sp_text_document --document 1 | tail -n 1 | grep -qx 2; }
check "ends a document in its end-of-text token" sp_ends
check "Llama 3's pieces: one document, any number of workers" any_workers llama3 llama3 text.txt
fails "a model without its folder" 64 "needs --tokenizer-model" \
    data build two.jsonl --output-prefix x --tokenizer-type HuggingFaceTokenizer
fails "a folder without a tokenizer" 74 "has no tokenizer" \
    data build two.jsonl --output-prefix x --tokenizer-type HuggingFaceTokenizer --tokenizer-model .
fails "a tokenizer that is broken" 65 "line 1, column" \
    data build two.jsonl --output-prefix x --tokenizer-type HuggingFaceTokenizer --tokenizer-model wrong.json

# What is refused, and that nothing is left behind.
mkdir out
fails "no sub-verb" 64 "build, verify, show or merge" data
fails "no prefix" 64 "needs --output-prefix" data build text.txt
fails "no file" 64 "no file to build from" bytes --output-prefix out/x
fails "an option of another sub-verb" 64 "there is no such option" data verify ab --append-eod
fails "files that exist" 64 "golden_text_document.bin exists" bytes golden.jsonl --output-prefix golden
fails "a format from before 2020" 64 "training could not read it; say mmap" \
    bytes text.txt --output-prefix out/x --dataset-impl cached
fails "a compressed file" 64 "zcat x.jsonl.gz |" bytes x.jsonl.gz --output-prefix out/x
fails "bpe without its files" 64 "needs --vocab-file" data build text.txt --output-prefix out/x
printf '{"text": "a"}\n{"text": "b"\n' >wrong.jsonl
fails "a line that is not JSON" 65 "wrong.jsonl:2: column" bytes wrong.jsonl --output-prefix out/x
printf '\n\n' >empty.jsonl
fails "no text at all" 65 "there is no text in empty.jsonl" bytes empty.jsonl --output-prefix out/x
# The shell counts in blocks of 512 or 1024 bytes: either way less than the tokens take.
too_large() { (ulimit -f 1000 && bytes text.txt text.txt --output-prefix out/x); }
fails "a file that grows beyond a limit" 74 "is removed" too_large
# A disk that is full: a small one of memory, gone with the process that has it.
full="mount -t tmpfs -o size=2m none $work/out"
if unshare -m sh -c "$full" 2>/dev/null; then
    disk_full() {
        unshare -m sh -c "$full && $trireme data build text.txt --tokenizer-type bytes \
            --output-prefix out/x; code=\$?; ls -A out; exit \$code"
    }
    fails "a disk that is full" 74 "No space left on device; what was written so far is removed" disk_full
else
    skip "a disk that is full" "this user cannot mount a small disk"
fi
# Ended while it waits for input.
stopped() {
    mkfifo pipe
    sleep 60 >pipe &
    writer=$!
    "$trireme" data build pipe --tokenizer-type bytes --output-prefix out/x 2>stopped.log &
    built=$!
    tries=0
    until ls out/*.tmp.* >/dev/null 2>&1 || [ $tries -eq 100 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -TERM $built
    wait $built
    code=$?
    kill $writer
    [ $code -eq 143 ] && grep -q 'stopped by signal 15.*nothing was written' stopped.log
}
check "a signal ends it" stopped
check "none of these left anything" only out ""
