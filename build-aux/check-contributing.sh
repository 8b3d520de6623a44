#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What CONTRIBUTING.md names is there: files, folders and scripts (but those of .ci/, which a
# release lacks).  Each folder of src/ has tests of its name, and a row in its table of folders, in
# the order of src/LAYERS.
set -eu
cd "${srcdir:-.}"
echo 1..3

. build-aux/result.sh

# Words in back quotes that have a slash, up to the first blank; those with capitals or <> stand for
# others.
# shellcheck disable=SC2016 # the back quotes are those of Markdown
missing=$(grep -oE '`[^`]+`' CONTRIBUTING.md | tr -d '`' | sed 's/ .*//' |
    grep -E '^\.?[a-z].*/' | grep -vE '^build/|^\.ci/|^\.\./|[A-Z<]' | sort -u | while read -r name; do
        [ -e "$name" ] || echo "$name is not there"
    done)
result 1 "what CONTRIBUTING.md names is there" "$missing"

# But tensor/ and tp/, which tests of device/ and comm/ cover, and kernels/, whose are in
# tests/cuda/.
without=$(sed 's|/.*||' src/LAYERS | sort -u | while read -r name; do
    case $name in
    kernels | tensor | tp) continue ;;
    esac
    grep -q "^tests/$name/" tests/list || echo "src/$name has no tests/$name"
done)
result 2 "folders of src have tests of their name" "$without"

# shellcheck disable=SC2016 # the back quotes are those of Markdown
rows=$(sed -nE 's/^\| `(src\/|)([a-z/]+)` \| .+ \|$/\2/p' CONTRIBUTING.md)
result 3 "each folder has a row in the table of folders" "$(printf '%s\n' "$rows" | diff src/LAYERS - || :)"
