#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What it takes to start grows with the logarithm of the ranks, and with one file per node.
#
# The run loads a checkpoint of its last iteration, so that it starts, trains nothing and ends: what
# is counted is all of the start, and the end.  A message is one that Open MPI sends for the
# program, those in collective calls and in the making of groups included; of all ranks that one
# counts which sends or receives most.  Four ranks are a node.
#
# BASE and STEP are a budget: who adds a collective call to the start raises STEP by what it takes.
# That nothing is linear shows in the last doubling, which adds as many messages as the one before:
# a call in which each rank sends to each would add eight more.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"

# Start and end: BASE messages, and STEP more for each doubling of the ranks.
BASE=20 STEP=127
NODE=4
sizes="2 4 8 16 32"

${CC:-cc} -shared -fPIC -D_GNU_SOURCE -o "$work/startup.so" "$srcdir/tests/train/startup.c" -ldl \
    > "$work/cc.log" 2>&1 || skip_all "no shared library can be made: $(head -n 1 "$work/cc.log")"

# start RANKS OPTION...: on nodes of NODE ranks, counting opens and messages of each rank.
start() {
    start_ranks=$1
    shift
    tp=2
    [ "$start_ranks" -ge 4 ] || tp=1
    rm -f "$work"/opens.* "$work"/sent.*
    env LD_PRELOAD="$work/startup.so" ASAN_OPTIONS="verify_asan_link_order=0" \
        TR_OPENS="$work/opens" TR_PRETEND_NODE=$NODE \
        OMPI_MCA_pml=ob1,monitoring \
        OMPI_MCA_pml_monitoring_enable=2 OMPI_MCA_pml_monitoring_enable_output=3 \
        OMPI_MCA_pml_monitoring_filename="$work/sent" \
        timeout 120 "$srcdir/tests/mpirun" --ranks "$start_ranks" "$trireme" train \
        "@$work/gpt.args" --tensor-model-parallel-size $tp --pipeline-model-parallel-size 2 "$@"
}

# opens FILE: how often all ranks together opened it.
opens() { cat "$work"/opens.* | grep -cxF -- "$work/$1"; }

# most: of all ranks, the most messages that one sent or received.  In the lines of Open MPI's
# monitor I are messages of MPI's own collective calls and E those of the program: kind, from, to,
# bytes, "bytes", how many.
most() {
    cat "$work"/sent.*.prof | awk '
        $1 == "E" || $1 == "I" { sent[$2] += $6; received[$3] += $6 }
        END {
            for (r in sent) if (sent[r] > n) n = sent[r]
            for (r in received) if (received[r] > n) n = received[r]
            print n + 0
        }'
}

prepare() {
    small_corpus || return 1
    awk 'BEGIN {
        for (i = 0; i < 256; i++) printf "%s\"t%d\": %d", i ? ", " : "{", i, i
        print ", \"<|endoftext|>\": 256}"
    }' > "$work/vocab.json"
    cat > "$work/gpt.args" <<END
--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--vocab-file $work/vocab.json --data-path $work/corpus_text_document --split 90,5,5
--micro-batch-size 1 --global-batch-size 32 --train-iters 1 --lr 0.002 --eval-iters 0
END
    ranks 1 "$trireme" train "@$work/gpt.args" --save "$work/ckpt"
}

# Rank 0 reads these for all.
once() { [ "$(opens gpt.args)" = 1 ] && [ "$(opens vocab.json)" = 1 ]; }
# It reads the tracker for the header of the log, and again when it loads.
twice() { [ "$(opens ckpt/latest_checkpointed_iteration.txt)" = 2 ]; }
# Each node maps or reads these.
once_per_node() {
    nodes=$((($1 + NODE - 1) / NODE))
    maps=0
    for file in ckpt/iter_0000001/model_optim_rng.h5 corpus_text_document.bin \
        corpus_text_document.idx "$work"/corpus_text_document_train_*.npy; do
        file=${file#"$work"/}
        case $file in *.npy) maps=$((maps + 1)) ;; esac
        if [ "$(opens "$file")" != $nodes ]; then
            echo "$file is opened $(opens "$file") times on $nodes nodes"
            return 1
        fi
    done
    [ $maps = 3 ]
}
# Nothing else that lies with the run is opened at all.
nothing_else() {
    ! cat "$work"/opens.* | grep -F "$work/" | grep -vE \
        '/(gpt.args|vocab.json|latest_checkpointed_iteration.txt|model_optim_rng.h5|rank-00000.replica|corpus_[^/]*|sent\.[0-9]*\.prof)$'
}
few_messages() {
    log=0
    while [ $((1 << log)) -lt "$1" ]; do log=$((log + 1)); done
    [ "$messages" -gt $log ] && [ "$messages" -le $((BASE + STEP * log)) ]
}

no_faster() {
    echo "$added messages more with twice the ranks, and $added_before more before"
    [ "$added" -le $((added_before + 6)) ]
}

plan $((1 + 6 * $(echo "$sizes" | wc -w) + 5))
messages=0 added=0
check "dataset, vocabulary, arguments and a checkpoint" prepare
for n in $sizes; do
    check "$n ranks start" start "$n" --load "$work/ckpt"
    check "$n ranks: arguments and vocabulary are read once" once
    check "$n ranks: where the run stands is read by rank 0" twice
    check "$n ranks: data and checkpoint are opened once per node" once_per_node "$n"
    check "$n ranks: no other file" nothing_else
    if ls "$work"/sent.*.prof > /dev/null 2>&1; then
        before=$messages added_before=$added
        messages=$(most)
        added=$((messages - before))
        echo "# $n ranks: $messages messages"
        check "$n ranks: messages grow with the logarithm" few_messages "$n"
    else
        skip "$n ranks: messages grow with the logarithm" "this MPI does not count messages"
    fi
done
if [ "$messages" -gt 0 ]; then
    check "and no faster" no_faster
else
    skip "and no faster" "this MPI does not count messages"
fi

# Without index maps rank 0 makes them, and then each node opens them.
rm "$work"/corpus_text_document_train_*.npy
check "8 ranks start where index maps are missing" start 8 --load "$work/ckpt"
check "each node looks twice: before rank 0 makes them, and after" \
    test "$(cat "$work"/opens.* | grep -c 'shuffle_idx.npy$')" = 4

# Ranks in another folder, where there is no such dataset.
mkdir "$work/one"
cp "$work"/corpus_text_document.bin "$work"/corpus_text_document.idx "$work/one"
cat > "$work/elsewhere.sh" << 'END'
[ "$OMPI_COMM_WORLD_RANK" -ge "$1" ] || cd "$2/one" || exit 1
shift 2
exec "$@"
END
# elsewhere RANKS: of four, so many are in the folder with the dataset; two are a node.
elsewhere() {
    env LD_PRELOAD="$work/startup.so" ASAN_OPTIONS="verify_asan_link_order=0" TR_PRETEND_NODE=2 \
        timeout 120 "$srcdir/tests/mpirun" --ranks 4 sh "$work/elsewhere.sh" "$1" "$work" \
        "$trireme" train "@$work/gpt.args" --data-path corpus_text_document
}
fails "a node that cannot read the data ends all" 74 "(rank 2 on n1" elsewhere 2
check "a rank that looks elsewhere has what the first of its node opened" elsewhere 3
