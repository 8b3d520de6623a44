#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A virtual cluster with accounts: sacct reports jobs as it does on sites that have a database.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/slurm/slurm.sh"

slurm_start --accounting --nodes 1 --gpus 2
plan 2

{ echo '#!/bin/sh' && echo 'srun true; exit 3'; } >"$work/job"
id=$(submit --gres=gpu:2 "$work/job")
check "a job ends" job_ends "$id" 120

# The database hears of it some seconds later.
row() { slurm sacct -n -X -P -j "$id" -o state,exitcode,alloctres; }
told() { row | grep -q '^FAILED|3:0|.*gres/gpu=2'; }
if wait_for 120 told; then
    ok "sacct has its state, exit code and GPUs"
else
    not_ok "sacct has its state, exit code and GPUs" "$(row)"
fi
