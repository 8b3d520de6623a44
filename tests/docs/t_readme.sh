#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016
# README.md: the blocks that need no cluster run as they are pasted, with no file but those of a clone.
. "$srcdir/tests/tap.sh"
page=$work/page.md
awk '/^## /{ on = /Train a model/ }
    /^Four stages, eight micro-batches/ { on = 1 }
    on' "$srcdir/README.md" > "$page"
. "$srcdir/tests/docs/page.sh"
mkdir "$work/study/build"
ln -s "$trireme" "$work/study/build/trireme"
cp -r "$srcdir/README.md" "$srcdir/docs" "$work/study"
rm "$work/study/docs/1f1b.svg"
plan $((blocks + 4))
run_blocks

cd "$work/study" || exit 1
check "two blocks" test "$blocks" = 2
check "the model learns" awk '/^ iteration/ { n++; l = $0; sub(/.*lm loss: /, "", l); last = l + 0; first = first ? first : last }
    END { exit !(n == 10 && last < 0.7 * first) }' "$work/out.1"
check "its checkpoint is there" grep -q '^100$' checkpoints/latest_checkpointed_iteration.txt
check "and the picture" has '<svg' docs/1f1b.svg
