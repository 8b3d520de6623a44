#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# docs/slow-networks.md: the commands of the page itself, at small size, and what the page says
# about what they leave.
. "$srcdir/tests/tap.sh"
[ -r /usr/share/common-licenses/GPL-3 ] || skip_all "no text in /usr/share/common-licenses"
# shellcheck disable=SC2034 # of the file that was sourced
page=$srcdir/docs/slow-networks.md
. "$srcdir/tests/docs/page.sh"
plan $((blocks + 8))
export HIDDEN=32 STEPS=20 EPOCHS=2
run_blocks

cd "$work/study" || exit 1
check "the run with all-reduce trained to its end" has 'validation loss at the end' allreduce.log
check "CocktailSGD sends a hundredth of fp16" sh -c "
    sed -n 's/^traffic .*replicas-up (times below fp16): \([0-9.]*\) .*/\1/p' cocktail.log |
        tail -n 1 | awk '{ exit !(\$1 > 80 && \$1 < 130) }'"
check "the two are compared" has 'elapsed|iteration|time' "$work/out.4"
check "a plot of replicas" has '<svg' replicas.svg
check "a plot of losses" has '<svg' loss.svg
check "3 bits are five times less than fp16, but for the scales" sh -c "
    sed -n 's/^traffic .*pipeline-forward (times below fp16): \([0-9.]*\) .*/\1/p' delta.log |
        tail -n 1 | awk '{ exit !(\$1 > 4.5 && \$1 < 5.4) }'"
check "the first epoch is sent as it is" sh -c "
    sed -n 's/^traffic .*pipeline-forward (times below fp32): \([0-9.]*\) .*/\1/p' delta.log |
        head -n 1 | grep -qx 1"
check "the plan knows the memory of delta" has 'cache|remember|memor' "$work/out.7"
