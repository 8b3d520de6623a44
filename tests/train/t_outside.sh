#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A run whose folder is full of links, FIFOs, sockets and files of others saves, tidies up and
# resumes: nothing outside its folder, and nothing of others in it, has changed, and nothing is
# waited for.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 11

check "a dataset is built" small_corpus
check "a base checkpoint" small 1 --train-iters 2 --save "$work/outside/base"
outside=$work/outside run=$work/run host=$(hostname)
mkdir -p "$run/ctl" "$outside/copy" "$run/notes" "$run/iter_0000001/mine"
cp "$outside/base/iter_0000002/model_optim_rng.h5" "$outside/copy/"
cp "$outside/base/iter_0000002/model_optim_rng.h5" "$outside/copy/rank-00000.replica"
cp -r "$outside/copy" "$outside/copy2"
echo "a text" > "$outside/text"
echo "a text" > "$run/notes/text"

# Of others, in the folder of the run.
mkfifo "$run/notes/fifo" "$run/fifo" "$run/notes/iter_0000001"
perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die' "$run/socket"
cp -r "$outside/copy" "$run/notes/.iter_0000003.tmp-7"
cp -r "$outside/copy" "$run/.iter_mine.tmp-7"
echo "a text" > "$run/iter_0000001/text"
touch "$run/notes.tmp.$host.1" "$run/state.tmp.$host.$$"
others="$run/notes $run/fifo $run/socket $run/.iter_mine.tmp-7 $run/iter_0000001 $run/notes.tmp.$host.1
    $run/state.tmp.$host.$$ $run/iter_0000002"

# Links to what is outside, under every name that a save knows.
ln -s "$outside/base/iter_0000002" "$run/iter_0000002"
ln -s "$outside/copy" "$run/iter_0000006"
ln -s "$outside/copy" "$run/.iter_0000009.tmp-7"
ln -s "$outside/copy2" "$run/.iter_0000009.old-7"
ln -s "$outside/text" "$run/latest_checkpointed_iteration.txt.tmp.$host.1"
ln -s "$outside" "$run/ctl/link"

# Of a process that is no longer there.
sh -c 'echo $$' > "$work/pid"
left="$run/state.tmp.$host.$(cat "$work/pid")"
touch "$left" "$run/ctl/save.tmp.$host.$(cat "$work/pid")"

# walk: names, inodes, kinds, sizes, times, targets and contents of all that is not of the run.
walk() {
    # shellcheck disable=SC2086
    {
        find "$outside" $others -printf '%p %i %y %m %s %T@ %l\n'
        find "$outside" $others -type f -exec sha256sum {} +
    } | sort
}
walk > "$work/before"
# Whoever waits for a FIFO is ended.
printf '#!/bin/sh\nexec timeout 100 %s "$@"\n' "$trireme" > "$work/bounded"
chmod +x "$work/bounded"
trireme=$work/bounded
train() {
    small 1 --load "$run/iter_0000002" --override-opt-param-scheduler --train-iters 7 --save "$run" \
        --save-interval 1 --keep-last 2
}

check "a run goes on from a link, saves five times and keeps two" train
echo "$tap_out" > "$work/run.log"
walk > "$work/after"
check "nothing of others has changed" cmp "$work/before" "$work/after"
kept() { [ "$(cd "$run" && echo iter_*)" = "iter_0000001 iter_0000002 iter_0000006 iter_0000007" ]; }
check "two are kept, and what is not of this run" kept
says() { grep -q "^trireme: warning: $run/$1" "$work/run.log"; }
warned() {
    says "iter_0000002 is a symbolic link, so --keep-last removes neither" &&
        says "iter_0000006 was a symbolic link" && says ".iter_0000009.tmp-7 is a symbolic link" &&
        says ".iter_0000009.old-7 is a symbolic link" && says "iter_0000001 holds more than a checkpoint"
}
check "a warning for each" warned
# Only what is a link under the name of something that a save prepares has gone.
gone() {
    [ ! -L "$run/.iter_0000009.tmp-7" ] && [ ! -L "$run/.iter_0000009.old-7" ] &&
        [ ! -L "$run/iter_0000006" ] && [ -L "$run/ctl/link" ]
}
check "links under names of leftovers are gone" gone
tidied() { [ ! -e "$left" ] && [ -z "$(find "$run/ctl" -name 'save.tmp.*')" ]; }
check "temporary files of the killed are gone" tidied

rm "$run/iter_0000007/model_optim_rng.h5"
mkfifo "$run/iter_0000007/model_optim_rng.h5"
back() {
    small 1 --load "$run" --train-iters 7 > "$work/back.log" 2>&1 || { cat "$work/back.log"; return 1; }
    grep "iteration 7 cannot be used (cannot open .*: it is not a regular file); going back to that of iteration 6" \
        "$work/back.log"
}
check "a FIFO in place of the newest checkpoint: back to the one before" back
rm "$run/latest_checkpointed_iteration.txt"
mkfifo "$run/latest_checkpointed_iteration.txt"
fails "a FIFO in place of the tracker" 74 "latest_checkpointed_iteration.txt: it is not a regular file" \
    small 1 --load "$run" --train-iters 7
fails "verify, too" 74 "it is not a regular file" "$trireme" ckpt verify "$run"
