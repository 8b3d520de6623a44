#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154
# The reader of logs on logs that were damaged, some thousand times; see fuzz_log.c for more.
exec timeout 300 tests/study/fuzz_log "${TR_FUZZ_TRIES:-4000}" "$srcdir"/tests/study/*.log
