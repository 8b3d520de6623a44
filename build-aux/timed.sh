#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# timed.sh DRIVER... --test-name NAME ...: run a test driver, and add a line to test-times in the current
# folder: name, seconds on the clock, seconds of processors.  totals.sh adds them up.
name=
before=
for word; do
    [ "$before" != --test-name ] || name=$word
    before=$word
done
began=$(date +%s.%N)
code=0
"$@" || code=$?
# The second line of `times` is that of processes that ended: minutes and seconds, user and system.
times >"test-times.$$"
cpu=$(sed -n 2p "test-times.$$")
rm -f "test-times.$$"
echo "$name $began $(date +%s.%N) $cpu" | awk '
    function seconds(word, part) { split(word, part, /[ms]/); return 60 * part[1] + part[2] }
    { printf "%s %.2f %.2f\n", $1, $3 - $2, seconds($4) + seconds($5) }' >>test-times
exit "$code"
