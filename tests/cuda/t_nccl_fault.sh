#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Ranks that hang, calls that fail and groups that cannot be made: all ranks end, each says what it
# was waiting for, and the exit code tells a script whether to start again.
. "$srcdir/tests/tap.sh"

plan 31
job=$PWD/tests/cuda/nccl_fault

# job ERRORS RANK ARGUMENT...: with these errors in that rank; its log and exit code are kept.
job() {
    errors=$1 rank=$2
    shift 2
    began=$(date +%s)
    FAKE_CUDA_FAIL=$errors FAKE_CUDA_FAIL_RANK=$rank TR_TEST_RANKS=3 timeout -k 10 200 \
        "$srcdir/tests/mpirun" --ranks 3 "$job" "$@" > "$work/log" 2>&1
    code=$?
    took=$(($(date +%s) - began))
}

# ended CODE: and what is true of every end.
ended() {
    if [ "$code" = "$1" ] && [ "$took" -lt 60 ]; then return 0; fi
    cat "$work/log"
    echo "code $code, $took s"
    return 1
}

# said RANK TEXT: in one line of that rank.
said() { grep "^trireme\[$1\]: .*$2" "$work/log" > /dev/null || { cat "$work/log"; return 1; }; }

# each TEXT: every rank said it, with its host and GPU.
each() {
    for r in 0 1 2; do
        said "$r" "$1" && said "$r" "(GPU-.* on $(uname -n))" || return 1
    done
}

job "" "" 100
check "nothing is wrong" ended 0
done_all() { [ "$(grep -c '^rank . is done$' "$work/log")" = 3 ]; }
check "and all ranks come to the end" done_all

# The others would queue more than their streams take, and wait where nobody looks at the time.
job hung_ncclAllReduce:5:1 1 2 ahead
check "a rank hangs while the others run ahead: exit code 75" ended 75
check "each rank names the call" each 'the all-reduce in group "dp" (call 4, rank . of 3)'
check "some say how long it took" said . "is not done after 2 seconds"
check "what to do" said . "start again from the last checkpoint"

# Calls that do not come back from NCCL: another thread looks at the time, and at what the others
# tell.
job stuck_ncclAllReduce:9:1 "" 5
check "all ranks are stuck inside NCCL: exit code 75" ended 75
check "and the call is named" said . 'the all-reduce in group "dp" (call [0-9]*, rank . of 3) is not done after 5 seconds'

# Calls that do not come back from NCCL: another thread looks at the time, and at what the others
# tell.
job stuck_ncclAllReduce:9:1 "" 2
check "all ranks are stuck inside NCCL: exit code 75" ended 75
check "and each names the call" each 'the all-reduce in group "dp" (call [0-9]*, rank . of 3) is not done after 2 seconds'
job stuck_ncclAllReduce:9:1 0 2
check "one of them is: exit code 75" ended 75

job "" "" 2 stop
check "a rank is stopped: exit code 75" ended 75
check "who is missing" said . "after 2 seconds: rank 2 on $(uname -n) did not enter the all-reduce in group"
check "and how many wait" said . 'in which ranks 0, 1 waited for it, and does not answer'

job cudaEventRecord:60:700 1 100
check "CUDA fails on a rank: its exit code" ended 70
check "the others hear of it" said 2 'stops because of rank 1 on .*GPU.*failed'

job ncclAllReduce:8:6 2 100
check "a call fails: exit code 75" ended 75
check "the rank says why" said 2 \
    'the all-reduce in group "world" (call 5, rank 2 of 3) broke: NCCL says: remote process exited'
others() { for r in 0 1; do said "$r" 'stops because of rank 2 on .*: the all-reduce in group "world"' || return 1; done; }
check "the others say because of whom" others

job ncclCommGetAsyncError:60:6 0 100
check "a connection breaks: exit code 75" ended 75
check "the rank says so" said 0 "broke: NCCL says: remote process exited"

job ncclCommInitRankConfig:1:2 1 100
check "NCCL cannot start on one rank: nobody waits for it" ended 69
check "the sentence is that of the rank" said 0 \
    'cannot connect the GPUs of group "world": system error.*(rank 1 on'

job ncclCommSplit:1:3 2 100
check "nor a group" ended 69

job ncclCommRegister:1:3 0 100
registered() { ended 0 && said 0 "warning: NCCL cannot register" && done_all; }
check "memory that cannot be registered is a warning" registered

fails "two kinds of GPU" 64 "rank 2 on $(uname -n) on an Another GPU" ranks 3 "$job" 100 mixed
check "which can be allowed" ranks 3 "$job" 100 allowed

# Where ranks meet: the fake stops when an id was not made by one of those that meet there.
met() { FAKE_NCCL_REPORT=1 ranks "$1" "$job" 100 "$2" > "$work/log" 2>&1 || { cat "$work/log"; return 1; }; }
# counted TIMES CALL: so many ranks made the call, once each.
counted() {
    [ "$(grep -c "^fake NCCL: 1 $2\$" "$work/log")" = "$1" ] || { cat "$work/log"; return 1; }
}
four() { met 4 ids && counted 2 ncclGetUniqueId && counted 4 ncclCommInitRankScalable; }
check "four ranks meet at two ids" four
five() { met 5 ids && counted 3 ncclGetUniqueId && counted 5 ncclCommInitRankScalable; }
check "five at three" five
few() { met 3 "" && counted 1 ncclGetUniqueId && counted 3 ncclCommInitRankConfig; }
check "and few at one" few
job ncclCommInitRankScalable:1:2 1 100 ids
check "NCCL cannot start there on one rank: nobody waits for it" ended 69
