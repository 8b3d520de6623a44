#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by checks of the sources, in the top folder.

# result NUMBER NAME FAULTS: a line of TAP; the test has failed if there are any, which are shown.
result() {
    if [ -z "$3" ]; then
        echo "ok $1 - $2"
    else
        echo "not ok $1 - $2"
        echo "$3" | sed 's/^/# /'
    fi
}
