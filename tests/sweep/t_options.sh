#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# `trireme sweep --sweep OPTION=V1,V2`: any option of training as a dimension; weak scaling; a
# budget of node-hours.
. "$srcdir/tests/tap.sh"
plan 26
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES srcdir

same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }

cat > "$work/tiny.args" <<'ARGS'
--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 64
--vocab-size 256 --mock-data --lr 0.001 --micro-batch-size 1
ARGS
sweep() {
    timeout 300 "$trireme" sweep --launcher "$srcdir/tests/mpirun --ranks {ranks}" \
        --sweep-folder "$work/sweep" --sweep-iters 3 --sweep-warmup 1 --sweep-timeout 100s \
        "@$work/tiny.args" "$@"
}
# names, command NAME: of a dry run in $work/text.
names() { sed -n 's/^# \(tp[^:]*\): .*/\1/p' "$work/text" | sort | tr '\n' ' '; }
command() { sed -n "/^# $1: /{n;p;}" "$work/text"; }

# ---- which shapes ----

sweep --dry-run --ranks 2 --global-batch-size 4 --sweep-tensor 1,2 --sweep seq-length=32,64 bf16=on,off \
    > "$work/text" 2>&1
check "all combinations with the other lists" same "$(grep -c '^# tp' "$work/text")" 8
all=tp2-pp1-dp1-mbs1-gbs4-seq-length_64-bf16_on
check "values are in their names" has "^# $all: " "$work/text"
check "and in their commands" same "$(command $all | grep -o -e '--seq-length [0-9]*' -e '--bf16 [^ ]*' | tr '\n' ' ')" \
    "--seq-length 64 --bf16 --tensor-model-parallel-size "
check "a flag that is off has no word" same "$(command tp2-pp1-dp1-mbs1-gbs4-seq-length_64-bf16_off | grep -c -e '--bf16')" 0
planned() {
    mib() { sed -n "s/^# $1: \\(predicted [^,]*, \\)*\\([0-9.]*\\) MiB planned.*/\\2/p" "$work/text"; }
    long=$(mib tp1-pp1-dp2-mbs1-gbs4-seq-length_64-bf16_off) short=$(mib tp1-pp1-dp2-mbs1-gbs4-seq-length_32-bf16_off)
    echo "$long and $short MiB"
    awk -v a="$long" -v b="$short" 'BEGIN { exit !(a > b && b > 0) }'
}
check "each is planned as it is" planned
sweep --dry-run --ranks 2 --global-batch-size 4 --seq-length 32 \
    --sweep dp-mode=allreduce,adasum tensorboard-dir=/a/b,/c/d > "$work/text" 2>&1
check "choices and texts, which name files" same "$(names)" \
    "tp1-pp1-dp2-mbs1-gbs4-dp-mode_adasum-tensorboard-dir__a_b tp1-pp1-dp2-mbs1-gbs4-dp-mode_adasum-tensorboard-dir__c_d tp1-pp1-dp2-mbs1-gbs4-dp-mode_allreduce-tensorboard-dir__a_b tp1-pp1-dp2-mbs1-gbs4-dp-mode_allreduce-tensorboard-dir__c_d "
sweep --dry-run --ranks 2 --global-batch-size 4 --sweep-tensor 1 --sweep seq-length=32,128 > "$work/text" 2>&1
check "what cannot be is left out with its reason" has '^  not tp1-pp1.*-seq-length_128: .*position' "$work/text"
sweep --dry-run --seq-length 32 --ranks 2,4,8 --global-batch-size 4 --sweep-weak-scaling > "$work/text" 2>&1
check "weak scaling: the batch grows with the ranks" same "$(names)" \
    "tp1-pp1-dp2-mbs1-gbs4 tp1-pp1-dp4-mbs1-gbs8 tp1-pp1-dp8-mbs1-gbs16 "
check "with its option" has '/mpirun --ranks 8 .*--global-batch-size 16' "$work/text"
sweep --dry-run --seq-length 32 --ranks 2,4,8 --global-batch-size 8 > "$work/text" 2>&1
check "strong scaling: it stays" same "$(names)" \
    "tp1-pp1-dp2-mbs1-gbs8 tp1-pp1-dp4-mbs1-gbs8 tp1-pp1-dp8-mbs1-gbs8 "

# ---- what cannot be meant ----

one="--ranks 2 --global-batch-size 4 --seq-length 32"
fails "no option" 64 "has no such option" sweep $one --sweep nosuch-option=1,2
fails "no value" 64 "is no OPTION=V1,V2" sweep $one --sweep seq-length
fails "a value of another kind" 64 "seq-length" sweep $one --sweep seq-length=32,many
fails "one that has a list" 64 "use --sweep-tensor" sweep $one --sweep tensor-model-parallel-size=1,2
fails "one that the sweep says" 64 "use --sweep-iters" sweep $one --sweep train-iters=5
fails "one twice" 64 "has seq-length twice" sweep $one --sweep seq-length=16 seq-length=32
fails "two lists of options" 64 "say all dimensions after one" sweep $one --sweep seq-length=16 --sweep bf16=on,off
fails "a flag that is on anyway" 64 "leave out --bf16" sweep $one --bf16 --sweep bf16=on,off
fails "a checkpoint" 64 "leave out --save" sweep $one --sweep save=/a,/b
fails "nothing to grow" 64 "give --global-batch-size" sweep --seq-length 32 --ranks 2,4 --sweep-weak-scaling
fails "a budget below any run" 64 "no shape is expected to end within --sweep-node-hours 0.0001" \
    sweep $one --sweep-node-hours 0.0001

# ---- measured ----

# What has run is counted, and a third shape would take more.
limited="--ranks 2 --global-batch-size 4"
sweep $limited --sweep seq-length=16,32 > "$work/text" 2>&1
check "both are measured" same "$(wc -l < "$work/sweep/results.jsonl")" 2
check "a column of the option" same "$(tr -d '\r' < "$work/sweep/results.csv" | awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "seq-length") c = i; next }
    { print $c }' | sort | tr '\n' ' ')" "16 32 "
check "in the table for people, too" has '\| *seq-length \| Notes' "$work/sweep/results.md"
check "the fastest has its option" has '^fastest per sample: tp1-.*: --seq-length (16|32)' "$work/text"
spent=$(grep -o '"seconds_in_all": *[0-9.]*' "$work/sweep/results.jsonl" | sed 's/.*: *//' | awk '{ n += $1 } END { print n / 3600 }')
sweep $limited --sweep seq-length=16,32,64 --sweep-node-hours "$spent" > "$work/text" 2>&1
check "the budget counts what has run" has "^[0-9.e-]+ of $(awk -v x="$spent" 'BEGIN { printf "%.4g", x }') node-hours are spent, and 1 shape would take more" \
    "$work/text"
