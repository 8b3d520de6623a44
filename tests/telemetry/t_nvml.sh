#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Energy of a GPU, by a library that is as NVML where it is called.
. "$srcdir/tests/tap.sh"

${CC:-cc} -shared -fPIC -o "$work/libnvidia-ml.so.1" "$srcdir/tests/telemetry/fake_nvml.c" > "$work/cc.log" 2>&1 ||
    skip_all "no shared library can be made: $(head -n 1 "$work/cc.log")"
plan 1
gpus() {
    env LD_LIBRARY_PATH="$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" TR_FAKE_NVML=1 tests/telemetry/t_energy > "$work/log"
    cat "$work/log"
    grep -q '^ok .* gpus$' "$work/log" && ! grep -q '^not ok' "$work/log"
}
check "of the GPU with that UUID" gpus
