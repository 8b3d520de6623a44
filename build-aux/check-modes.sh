#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a data-parallel group does is a struct (src/dp/mode.h): a step, the optimizer, checkpoints
# and plans call src/dp/dp.h, and nothing above dp/ in src/LAYERS asks which mode it is.  What a
# step is made of does not ask by another name either: of an option or of how much of what is
# sharded.
set -eu
cd "${srcdir:-.}"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/check-modes.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
echo 1..4

. build-aux/result.sh

# The symbols of the table, as one expression.
symbols=$(sed -nE 's/^MODE(_BY)?\(([A-Z_]+),.*/\2/p' src/config/modes.def | paste -sd '|' -)
structs=$(sed -nE 's/^MODE(_BY)?\(.*\b(tr_dp_[a-z]+)\b.*/\2/p' src/config/modes.def | paste -sd '|' -)
spellings=$(sed -nE 's/^MODE\([^"]*"([^"]*)".*/\1/p' src/config/modes.def | paste -sd '|' -)
above=$(sed -n '/^dp$/,$p' src/LAYERS | sed '1d; s|^|src/|')
step="src/train/step.[ch] src/train/run.[ch] src/optim src/ckpt src/pipeline"
asks="\\b($symbols|tr_dp_mode_(diverges|warms_up))\\b|dp(->|[.])mode\\b|dp_mode *[=!]=|switch \\(.*dp_mode|\"dp/(mode|cocktail[a-z_]*)[.]h\""
by_name="\\b(zero_stage|use_distributed_optimizer|(optimizer|gradient|weight)_shards|dp_mode|$structs)\\b|\"($spellings|zero-stage|use-distributed-optimizer|dp-mode)\""

# found EXPRESSION FOLDER...
found() {
    expression=$1
    shift
    # shellcheck disable=SC2068 # patterns of names
    grep -rnE --include='*.[ch]' "$expression" $@ || :
}

# shellcheck disable=SC2086 # lists of folders
{
    result 1 "nothing above dp/ asks which data-parallel mode it is" "$(found "$asks" $above)"
    result 2 "a step, the optimizer, checkpoints and schedules do not ask by another name" \
        "$(found "$asks|$by_name" $step)"
}

# A question in any of these files is found.
while read -r file line; do
    mkdir -p "$scratch/${file%/*}"
    echo "$line" >"$scratch/$file"
done <<'EOF'
src/train/step.c if (x->mode == TR_DP_ZERO)
src/train/step.h static inline bool is_local(const struct tr_run *r) { return r->dp.mode == &tr_dp_local; }
src/train/run.c if (c->zero_stage == 3)
src/train/run.h bool whole; /* tr_dp_mode_diverges() */
src/optim/optim.c if (s->dp.weight_shards > 1)
src/optim/stat.c return x->dp->mode->gather ? 1 : 0;
src/ckpt/save.c switch (c->dp_mode) {
src/ckpt/load.c if (strcmp(how, "cocktail_sgd") == 0)
src/ckpt/map.h #include "dp/mode.h"
src/pipeline/exec.c if (c->use_distributed_optimizer)
src/pipeline/sched.c if (tr_config_changed(c, "zero-stage"))
EOF
planted=$(cd "$scratch" && find src -type f | sort)
# shellcheck disable=SC2086 # lists of folders
result 3 "a planted question is found" "$(
    cd "$scratch"
    found "$asks|$by_name" $step | cut -d: -f1 | sort -u >"$scratch/found"
    echo "$planted" | grep -vxFf "$scratch/found" || :
)"

# A mode is a file: its struct stands in one, and no other names it.
result 4 "each mode is one file of dp/" "$(
    grep -rnE --include='*.[ch]' "\b($structs)\b" src | cut -d: -f1 | sort | uniq -c |
        awk -v n="$(echo "$structs" | tr '|' '\n' | grep -c .)" '
            $2 !~ "^src/dp/" { print $2 " names the struct of a mode" }
            $1 > 1 { print $2 " defines or uses more than one mode" }
            { files++ }
            END { if (files != n) print files + 0 " files for " n " modes" }'
)"
