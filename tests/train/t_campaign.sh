#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Many kills and many damaged checkpoints, in four layouts: each run ends with the losses, norms,
# weights and files of ranks of the run that nothing happened to.  TR_TEST_KILLS (50) says how often
# each layout is killed, TR_TEST_DAMAGES (100) how many checkpoints are damaged, TR_TEST_SEED which.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
only_with_all
. "$srcdir/tests/train/broken.sh"
plan 15

want=${TR_TEST_KILLS:-50} damages=${TR_TEST_DAMAGES:-100}
modes="one tensor sharded cocktail"
check "a dataset is built" small_corpus

# train MODE ITERATIONS FOLDER OPTION...
train() {
    train_ranks=2 train_mode=$1 train_iterations=$2 train_folder=$3
    shift 3
    case $train_mode in
    one) train_ranks=1 ;;
    tensor) set -- --tensor-model-parallel-size 2 "$@" ;;
    sharded) set -- --use-distributed-optimizer "$@" ;;
    cocktail)
        set -- --dp-mode cocktail_sgd --quant-bits 4 --topk-ratio .2 --randomp-ratio .1 \
            --train-warmup-steps 2 "$@"
        ;;
    esac
    small $train_ranks --train-iters "$train_iterations" --load "$train_folder" --save "$train_folder" \
        --save-interval 2 "$@"
}

# killed MODE: in runs of 100 iterations one after the other, each killed as often as it lives long
# enough.
killed() {
    train "$1" 100 "$work/$1" --keep-last 2 > "$work/$1.log" 2>&1 || { cat "$work/$1.log"; return 1; }
    killed_all=0 killed_runs=0
    while [ $killed_all -lt "$want" ] && [ $killed_runs -lt "$want" ]; do
        killed_runs=$((killed_runs + 1))
        rm -rf "$work/$1.broken"
        kill_often $((want - killed_all)) "$1.broken" train "$1" 100 "$work/$1.broken" --keep-last 2
        killed_all=$((killed_all + kills))
        [ $finished = yes ] || { echo "it did not finish:"; tail -n 40 "$work/$1.broken.log"; return 1; }
        same_losses "$1" "$1.broken" 100 10 && same_weights "$1" "$1.broken" || return 1
    done
    echo "# killed $killed_all times in $killed_runs runs" > "$work/$1.kills"
    [ $killed_all -ge "$want" ]
}
for mode in $modes; do
    check "$mode: killed $want times" killed $mode
    cat "$work/$mode.kills"
done

# prepare MODE: 8 iterations with all checkpoints, as far as the sixth and to the end.
prepare() {
    train "$1" 8 "$work/$1.all" > "$work/$1.all.log" 2>&1 || { cat "$work/$1.all.log"; return 1; }
    train "$1" 8 "$work/$1.six" --exit-interval 6 > "$work/$1.six.log" 2>&1 ||
        { cat "$work/$1.six.log"; return 1; }
    [ "$(cat "$work/$1.six/latest_checkpointed_iteration.txt")" = 6 ]
}
for mode in $modes; do check "$mode: checkpoints to damage" prepare $mode; done

# damage FILE U V: a bit of it is another, its end is missing, or all of it.
damage() {
    damage_bytes=$(stat -c %s "$1")
    case $(below 3 "$2") in
    0) perl -e 'my ($f, $v, $n) = @ARGV; open my $h, "+<", $f or die; my $at = int($v * $n); seek $h, $at, 0;
            read $h, my $x, 1; seek $h, $at, 0; print $h chr(ord($x) ^ 1 << int($v * 8 * $n) % 8)' \
        "$1" "$3" "$damage_bytes" && damage_how="a bit" ;;
    1) truncate -s "$(below "$damage_bytes" "$3")" "$1" && damage_how="the end" ;;
    2) rm "$1" && damage_how="all" ;;
    esac
    echo "$damage_how of $1" >> "$work/damages"
}

# damaged NUMBER: a file of a checkpoint of some mode; now and then also one of the checkpoint
# before.
damaged() {
    n=$1
    case $((n % 5)) in 0) mode=one ;; 1) mode=tensor ;; 2) mode=sharded ;; *) mode=cocktail ;; esac
    rm -rf "$work/$mode.bad"
    cp -r "$work/$mode.six" "$work/$mode.bad"
    for at in 6 4; do
        [ $at = 6 ] || [ $((n % 4)) = 0 ] || continue
        set -- "$work/$mode.bad/iter_000000$at"/*
        [ $at = 4 ] || set -- "$@" "$work/$mode.bad/latest_checkpointed_iteration.txt"
        pick=$(($(below $# "$(random $((n * 10 + at)))") + 1))
        eval "file=\${$pick}"
        damage "$file" "$(random $((n * 10 + at + 1)))" "$(random $((n * 10 + at + 2)))"
    done
    train $mode 8 "$work/$mode.bad" > "$work/$mode.bad.log" 2>&1 ||
        { tail -n 1 "$work/damages"; cat "$work/$mode.bad.log"; return 1; }
    same_losses $mode.all $mode.bad 8 2 && same_weights $mode.all $mode.bad
}

all_damaged() {
    damaged_bad=0
    for number in $(seq "$damages"); do
        damaged "$number" > "$work/damaged.out" 2>&1 && continue
        damaged_bad=$((damaged_bad + 1))
        echo "number $number, seed $seed, after $(tail -n 2 "$work/damages"):"
        cat "$work/damaged.out"
    done
    [ $damaged_bad = 0 ]
}
check "$damages damaged checkpoints" all_damaged
sed 's/ of .*\// of /' "$work/damages" | sort | uniq -c | sed 's/^/# /'
sum() { [ "$(wc -l < "$work/damages")" -ge "$damages" ]; }
check "so many were damaged" sum
for mode in $modes; do
    verified() { "$trireme" ckpt verify "$work/$1.bad"; }
    check "$mode: the last one is whole again" verified $mode
done
