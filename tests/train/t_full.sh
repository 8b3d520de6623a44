#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Output that was asked for and cannot be written: a run says so, saves, and ends with code 74; its
# last checkpoint is whole.  The other verbs say so, too.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
[ -c /dev/full ] || skip_all "no /dev/full"
plan 20

export OMP_NUM_THREADS=1
check "a dataset is built" small_corpus

# alone OPTION...: the small model on one rank that no launcher reads the output of; $before stands
# before it.
before=
alone() {
    $before "$trireme" train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --tokenizer-type bytes --data-path "$work/corpus_text_document" \
        --split 90,5,5 --micro-batch-size 1 --global-batch-size 4 --lr 0.002 --eval-iters 0 --log-interval 1 "$@"
}

# ended NAME WORDS: the run in $work/NAME did not come to its end, said WORDS on stderr, saved all
# that it did, and that is whole.
ended() {
    grep -q "^trireme.*: error: .*$2.*; iteration [0-9]* is saved in $work/$1" "$work/$1.err" || return 1
    at=$(cat "$work/$1/latest_checkpointed_iteration.txt")
    [ "$at" -gt 0 ] && [ "$at" -lt 100000 ] && "$trireme" ckpt verify "$work/$1" &&
        grep -q "\"state\": \"failed\"" "$work/$1/state" && grep -q '"exit_code": 74' "$work/$1/state" &&
        grep -q "\"iteration\": $at," "$work/$1/state" && grep -q '"next": "look"' "$work/$1/state"
}
# loses NAME WORDS OPTION...: a run to $work/NAME whose output is lost.
loses() {
    loses_name=$1 loses_words=$2
    shift 2
    alone --train-iters 100000 --save "$work/$loses_name" "$@" > "$work/$loses_name.log" 2> "$work/$loses_name.err"
    loses_code=$?
    cat "$work/$loses_name.err"
    [ $loses_code -eq 74 ] && ended "$loses_name" "$loses_words"
}

no_log() {
    alone --train-iters 100000 --save "$work/log" > /dev/full 2> "$work/log.err"
    [ $? -eq 74 ] && ended log 'standard output: No space left on device'
}
check "the log" no_log
# Rank 0 alone loses it, and both leave.
no_log_of_two() {
    # shellcheck disable=SC2016 # expanded when it runs
    printf '#!/bin/sh\nexec "%s" "$@" > /dev/full\n' "$trireme" > "$work/start"
    chmod +x "$work/start"
    program=$trireme trireme=$work/start
    small 2 --train-iters 100000 --save "$work/two" 2> "$work/two.err"
    two_code=$?
    trireme=$program
    cat "$work/two.err"
    [ $two_code -eq 74 ] && ended two 'standard output: No space left on device'
}
check "the log of one of two ranks" no_log_of_two
without_saving() { alone --train-iters 20 > /dev/full; }
fails "the log of a run that saves nothing" 74 "error: cannot write to the standard output" without_saving
# A stream that is closed has no number that a file could get.
closed() {
    alone --train-iters 100000 --save "$work/closed" >&- 2> "$work/closed.err"
    [ $? -eq 74 ] && ended closed 'standard output: Bad file descriptor'
}
check "a log that is closed" closed

check "JSON lines" loses json '--log-jsonl /dev/full: No space left on device' --log-jsonl /dev/full
fails "JSON lines in a folder that is not there" 74 "nosuch/lines: No such file or directory" \
    alone --train-iters 2 --log-jsonl "$work/nosuch/lines"
fails "a trace there" 74 "nosuch/trace: No such file or directory" \
    alone --train-iters 2 --trace "$work/nosuch/trace"
check "neither makes it" [ ! -e "$work/nosuch" ]
made() { alone --train-iters 2 --trace "$work/made/it/" --trace-step-start 0 --trace-step-end 2 && ls "$work"/made/it/*.json; }
check "a folder for traces is made" made

# A disk that is full: a small one of memory, gone with the process that has it.
mkdir "$work/disk"
own() { if [ "$(id -u)" = 0 ]; then unshare -m "$@"; else unshare -rm "$@"; fi; }
# on_disk KIB COMMAND...: in a folder with so much room.
on_disk() {
    disk_room=$1
    shift
    # shellcheck disable=SC2016 # expanded by the shell that it is for
    own sh -c 'mount -t tmpfs -o size="$1"k none "$2" && cd "$2" && shift 2 && exec "$@"' sh "$disk_room" "$work/disk" "$@"
}
# shellcheck disable=SC2016
printf '#!/bin/sh\nexec "$@" > log\n' > "$work/to_log"
# shellcheck disable=SC2016
printf '#!/bin/sh\n"$@"\ncode=$?\n"%s" ckpt verify run && exit $code\n' "$trireme" > "$work/and_verify"
chmod +x "$work/to_log" "$work/and_verify"
full='No space left on device'
if on_disk 64 true 2> /dev/null; then
    before="on_disk 16"
    check "JSON lines on a full disk" loses lines "--log-jsonl lines: $full" --log-jsonl lines
    check "events on a full disk" loses board "tfevents.*: $full" --tensorboard-dir board
    check "a profile on a full disk" loses tidy "no profile of this rank: cannot write .*: $full" \
        --profiling tidy_profiling --trace-step-start 0 --trace-step-end 50
    check "a trace on a full disk" loses trace "the trace trace: $full" --trace trace \
        --trace-step-start 0 --trace-step-end 50
    fails "index maps on a full disk" 74 "$full; what was there before is untouched; make room" \
        alone --train-iters 200 --data-cache-path maps
    before="on_disk 16 $work/to_log"
    check "the log on a full disk" loses on_disk "standard output: $full"
    # Room for one checkpoint and a half.
    before="on_disk 800 $work/and_verify"
    fails "a checkpoint on a full disk" 74 "and the one before stays the latest" \
        alone --train-iters 100 --save run --save-interval 5
else
    for what in lines events profile trace maps log checkpoint; do
        skip "$what on a full disk" "this user cannot mount a small disk"
    done
fi
before=

verbs() {
    model="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32"
    for verb in "help" "help train" "help --man ckpt" "train --help" "data show $work/corpus_text_document" \
        "data verify $work/corpus_text_document" "ckpt show $work/json" "ckpt verify $work/json" \
        "ctl $work/json status" "report $work/json.log" "report $work/json.log --plot loss" doctor \
        "plan $model --vocab-size 256 --world-size 1 --micro-batch-size 1 --global-batch-size 4 --lr 1 --train-iters 9"; do
        # shellcheck disable=SC2086 # words
        "$trireme" $verb > /dev/full 2> "$work/err"
        verb_code=$?
        if [ $verb_code -ne 74 ] || ! grep -q 'error: cannot write to the standard output' "$work/err"; then
            echo "$verb: exit code $verb_code"
            cat "$work/err"
            return 1
        fi
    done
}
check "all verbs say so" verbs

# What a terminal would obey: in names of files and folders, and in the text of a document.
escape=$(printf '\033')
plain() {
    odd="$work/a${escape}[31mb"
    cp -r "$work/json" "$odd"
    cp "$work/json.log" "$odd.log"
    cp "$work/corpus_text_document.bin" "$odd.bin"
    cp "$work/corpus_text_document.idx" "$odd.idx"
    for verb in "ckpt show" "ckpt verify" "data show" report "ckpt show $work/none" "data verify"; do
        file=$odd
        [ "$verb" != report ] || file=$odd.log
        # shellcheck disable=SC2086 # words
        "$trireme" $verb "$file" > "$work/plain" 2>&1
        if grep -q "$escape" "$work/plain" || ! grep -q 'a?\[31mb' "$work/plain"; then
            echo "$verb"
            cat -v "$work/plain"
            return 1
        fi
    done
}
check "names are shown without control characters" plain
in_terminal() {
    printf 'red \033[31m text\n' > "$work/red.txt"
    "$trireme" data build --tokenizer-type bytes --output-prefix "$work/red" "$work/red.txt" > "$work/plain" || return 1
    "$trireme" data show "$work/red_text_document" --document 0 --tokenizer-type bytes | cmp - "$work/red.txt" || return 1
    python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$trireme" data show "$work/red_text_document" --document 0 \
        --tokenizer-type bytes > "$work/plain" < /dev/null
    cat -v "$work/plain"
    grep -q 'red ?\[31m text' "$work/plain"
}
if command -v python3 > /dev/null; then
    check "a document is shown as it is, but to a terminal without them" in_terminal
else
    skip "a document is shown as it is, but to a terminal without them" "no python3"
fi
