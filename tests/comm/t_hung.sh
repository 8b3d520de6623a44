#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A rank that does not come: the others end after the time limit with exit code 75, and one sentence
# says which rank on which host did not enter which call.
. "$srcdir/tests/tap.sh"

plan 25
host=$(uname -n)

# hung ARGUMENT...: four ranks; log and exit code are kept.
hung() {
    TR_TEST_RANKS=4 timeout -k 10 200 "$srcdir/tests/mpirun" --ranks 4 "$PWD/tests/comm/hung" "$@" \
        > "$work/log" 2>&1
    code=$?
}

# ended CODE TEXT: with that exit code, and one line with the text, from one rank.
ended() {
    if [ "$code" = "$1" ] && [ "$(grep -c "$2" "$work/log")" = 1 ]; then return 0; fi
    cat "$work/log"
    echo "code $code, expected $1 with one line: $2"
    return 1
}

# missed RANK CALL: what it looks like when that rank does not come.
missed() { ended 75 "rank $1 on $host did not enter the $2 in group \"world\".*waited for it"; }

# A loop answers when it is asked, so these are quick.
while read -r call name; do
    for transport in mpi slow; do
        case $transport,$call in slow,[bgs]*) continue ;; esac
        hung 2 $transport "$call" loop < /dev/null
        check "$transport: a rank loops before $call" missed 1 "$name"
    done
done << 'END'
sum all-reduce
few all-reduce
started all-reduce
allgather all-gather
message exchange
broadcast broadcast
barrier barrier
gather gather
scatter reduce-scatter
split split
END
computes() { ended 75 "but computes or waits for a file since .* it was last in the"; }
check "it is said that it computes" computes

for rank in 0 3; do
    hung 2 mpi sum stop $rank
    check "rank $rank is stopped" missed $rank all-reduce
done
hung 2 mpi named stop 1
check "rank 1 is stopped before tensors are reduced" missed 1 all-reduce
tensors() {
    grep -A 1 'Missing ranks:$' "$work/log" | tail -n 1 | grep -qx '1: \[head.weight, norm.bias\]' || { cat "$work/log"; return 1; }
}
check "and these are named" tensors
silent() { ended 75 "and does not answer; start again from the last checkpoint"; }
check "it is said that it does not answer" silent
hung 2 mpi message stop 0
check "rank 0 is stopped before a message" missed 0 exchange
hung 2 slow sum stop 2
check "over the slow transport" missed 2 all-reduce
hung 2 mpi ask stop 0
check "all others ask at once who is missing" missed 0 call

done_all() {
    if [ "$code" = 0 ] && [ "$(grep -c '^rank . is done$' "$work/log")" = 4 ]; then return 0; fi
    cat "$work/log"
    return 1
}
hung 60 mpi sum sleep
check "a rank that is slow is not missed" done_all
hung 60 slow message sleep
check "nor over the slow transport" done_all

hung 60 mpi sum die
check "a rank that dies of an error ends all, with its own exit code" \
    ended 65 "error: this rank dies of an error"
