# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
# Common to the tests of `trireme train`: a dataset with something to learn, a small model, and how
# to read a log.  Source after tap.sh.

# small_corpus: $work/corpus_text_document, the same everywhere.
small_corpus() {
    awk 'BEGIN {
        for (i = 0; i < 3000; i++) {
            printf "%d times %d is %d.\n", i % 13, i % 7, i % 13 * (i % 7)
            if (i % 50 == 49) print ""
        }
    }' > "$work/text.txt"
    "$trireme" data build --tokenizer-type bytes --append-eod --split-documents blank-lines \
        --output-prefix "$work/corpus" \
        "$work/text.txt" > "$work/build.log" 2>&1
}

# small RANKS OPTION...: train the small model.  refused RANKS OPTION...: look at options that so
# many ranks would refuse before they train; one process says the same sentence as many.
small() {
    small_by="ranks $1" small_only=
    shift
    small_train "$@"
}
refused() {
    small_by='' small_only="--dry-run --world-size $1"
    shift
    small_train "$@"
}
# shellcheck disable=SC2086 # lists of words
small_train() {
    $small_by "$trireme" train $small_only --num-layers 4 --hidden-size 32 \
        --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
        --tokenizer-type bytes --data-path "$work/corpus_text_document" --split 90,5,5 \
        --micro-batch-size 1 \
        --global-batch-size 8 --lr 0.002 --lr-decay-style cosine --lr-warmup-fraction .1 \
        --eval-interval 1000 --eval-iters 1 --log-interval 1 "$@"
}

# losses LOG N: "iteration loss norm" of the last line printed for each of N iterations.
losses() {
    sed -n 's/^ iteration *\([0-9]*\)\/.*lm loss: \([^ ]*\) .*grad norm: \([^ ]*\) .*/\1 \2 \3/p' "$1" |
        awk -v n="$2" '{ line[$1] = $0 } END { for (i = 1; i <= n; i++) if (i in line) print line[i] }'
}

# close_losses A B TOLERANCE: the same iterations, losses within a relative tolerance.
close_losses() {
    [ -s "$1" ] && paste -d ' ' "$1" "$2" | awk -v t="$3" '
        NF != 6 || $1 != $4 { bad = 1 }
        { d = ($2 - $5) / $2; if (d < 0) d = -d; if (d > t) { bad = 1; print } }
        END { exit bad }'
}

# sums DIR: every tensor of its newest checkpoint with its checksum.
sums() { "$trireme" ckpt show "$1" | grep " checksum "; }

# rank_pids PID: the ranks below a launcher in the background.  The shell that stands between may or
# may not be there, so look one level deeper until there are processes of that name.
rank_pids() {
    rank_pids_of=$(pgrep -P "$1")
    for pid in $rank_pids_of; do
        case $(cat "/proc/$pid/comm" 2> /dev/null) in *trireme) echo "$pid" ;; *) rank_pids "$pid" ;; esac
    done
}

# lose_rank RANK PATTERN SIGNAL OPTION...: train on four ranks, with the log in $work/log and the
# run in $work/run, stop one when the log has a line with PATTERN, and send it a signal other than
# STOP when the others have come to wait for it.  Where the machine is so busy that ranks wait for
# one another for longer than the limit before that, it is longer the next time. What hangs all the
# same is ended after four minutes.  The exit code of the launcher is in $code.
lose_rank() {
    for limit in 3 15 75; do
        lose_once "$@" --distributed-timeout-minutes "${limit}s" && return
    done
}
lose_once() {
    lost_rank=$1 lost_pattern=$2 lost_signal=$3
    shift 3
    rm -rf "$work/run"
    small 4 --train-iters 1000000 --save "$work/run" "$@" > "$work/log" 2>&1 &
    launcher=$!
    for tenth in $(seq 2400); do
        if grep -q "$lost_pattern" "$work/log" || ! kill -0 $launcher 2> /dev/null; then break; fi
        sleep 0.1
    done
    victim=$(pid_of $launcher "$lost_rank")
    [ -n "$victim" ] && kill -STOP "$victim"
    stopped=$?
    if [ $stopped = 0 ] && [ "$lost_signal" != STOP ]; then
        sleep 1
        kill "-$lost_signal" "$victim"
    fi
    for tenth in $(seq "$tenth" 2400); do
        if ! kill -0 $launcher 2> /dev/null; then break; fi
        sleep 0.1
    done
    for pid in $(rank_pids $launcher); do kill -KILL "$pid"; done
    wait $launcher
    # shellcheck disable=SC2034 # for the caller
    code=$?
    return $stopped
}

# resume_half RUN N NAME OPTION...: RUN goes on in a copy of $work/half, whose log is
# $work/half.log.  Its log is shown; the losses of both, of N iterations, are in $work/NAME.losses.
resume_half() {
    resume_run=$1 resume_iterations=$2 resume_name=$3
    shift 3
    cp -r "$work/half" "$work/$resume_name"
    "$resume_run" "$@" --load "$work/$resume_name" --save "$work/$resume_name" > "$work/$resume_name.log" 2>&1
    resume_code=$?
    cat "$work/half.log" "$work/$resume_name.log" > "$work/$resume_name.all"
    losses "$work/$resume_name.all" "$resume_iterations" > "$work/$resume_name.losses"
    cat "$work/$resume_name.log"
    return $resume_code
}

# saves FOLDER TRIES: until a run in the background has saved a checkpoint there; tenths of a second
# at most.
saves() {
    saves_tries=0
    while [ ! -s "$1/latest_checkpointed_iteration.txt" ] && [ $saves_tries -lt "$2" ]; do
        sleep 0.1
        saves_tries=$((saves_tries + 1))
    done
}

# iterates LOG: until the log of a run in the background has a line of an iteration; two minutes at
# most.
iterates() {
    iterates_tries=0
    while ! grep -q '^ iteration' "$1" && [ $iterates_tries -lt 1200 ]; do
        sleep 0.1
        iterates_tries=$((iterates_tries + 1))
    done
    grep -q '^ iteration' "$1"
}

# pid_of LAUNCHER RANK: its process; the launcher says in its environment which rank it is.
pid_of() {
    for candidate in $(rank_pids "$1"); do
        tr '\0' '\n' < "/proc/$candidate/environ" 2> /dev/null |
            grep -q -x -e "OMPI_COMM_WORLD_RANK=$2" -e "PMI_RANK=$2" && echo "$candidate"
    done
}
