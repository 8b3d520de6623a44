#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# timed.sh DRIVER... --test-name NAME ...: run a test driver, and add a line to test-times in the
# current folder: name, seconds on the clock, seconds of processors.  totals.sh adds them up.
name=
before=
for word; do
    [ "$before" != --test-name ] || name=$word
    before=$word
done
# When a rank ends with an error, Open MPI gives the others a second or two between SIGTERM and
# SIGKILL.  Only the tests that are marked as dying are about that time.
awk -v name="$name" '($1 == name || $1 "." $2 ".mpi" == name) && ("," $4 ",") ~ /,dying,/ { found = 1 }
    END { exit !found }' "${srcdir:-.}/tests/list" || export OMPI_MCA_odls_base_sigkill_timeout=0
# Tests talk over memory and loopback.  To look for other networks takes 0.2 s of each start.
export OMPI_MCA_pml="${OMPI_MCA_pml-ob1}"
# Nor for displays, OpenCL and other devices, which hwloc does in every rank: a fifth of its start.
export HWLOC_PLUGINS_PATH="${HWLOC_PLUGINS_PATH-/nonexistent}"
export HWLOC_COMPONENTS="${HWLOC_COMPONENTS--linuxio}"
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
