#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The test of the test of kernels: each barrier of a block that stands in a kernel is left out once, and
# t_kernels must fail then.  A barrier that nothing misses is superfluous, or t_kernels too weak.
# t_mutants.sh [FILE...]: only those of these files of kernels/.
. "$srcdir/tests/tap.sh"
# shellcheck disable=SC1091 # made by make
. "$builddir/tests/cuda/mutant.sh"
[ $# -gt 0 ] || only_with_all

# The rows that go through the barriers of a file, one file at a time, and the sources compiled anew.
rows_of() {
    case $1 in
    embed.cu) echo embed_bwd ;;
    norm_bwd.cu) echo layernorm_bwd ;;
    residual.cu) echo residual_bwd ;;
    codec.cu) echo fix_scale ;;
    topk.cu) echo topk_mask mask_take mask_add ;;
    common.cuh) echo sumsq layernorm xent_sum ;;
    esac
}

sources_of() {
    case $1 in
    common.cuh) echo flat.cu norm.cu loss.cu ;;
    *) echo "$1" ;;
    esac
}

# build FILE PROGRAM: with what is in $work/kernels in the place of the sources of FILE.
build() {
    objects=
    for name in $kernels; do
        name=${name#kernels/}
        object=kernels/${name%.cu}.emulated.o
        for changed in $(sources_of "$1"); do
            [ "$name" = "$changed" ] || continue
            object=$work/${name%.cu}.o
            compile -o "$object" "$work/kernels/$name" || return 1
        done
        objects="$objects $object"
    done
    # shellcheck disable=SC2086 # lists of words
    link -o "$2" $objects
}

run() {
    # shellcheck disable=SC2046 # a list of words
    timeout 120 "$work/t_kernels" $(rows_of "$1") >"$work/log" 2>&1
}

barriers() { grep -c '__syncthreads();' "$srcdir/kernels/$1"; }

# Without the N-th barrier of FILE.
leave_out() {
    cp "$srcdir"/kernels/*.cu "$srcdir"/kernels/*.cuh "$work/kernels"
    awk -v n="$2" '/__syncthreads\(\);/ && ++k == n { sub(/__syncthreads\(\);/, ";") } { print }' \
        "$srcdir/kernels/$1" >"$work/kernels/$1"
}

mkdir "$work/kernels"
files=${*:-codec.cu common.cuh embed.cu norm_bwd.cu residual.cu topk.cu}
total=0
for file in $files; do
    total=$((total + 1 + $(barriers "$file")))
done
plan "$total"
for file in $files; do
    leave_out "$file" 0
    if build "$file" "$work/t_kernels" >"$work/log" 2>&1 && run "$file"; then
        ok "$file as it is"
    else
        not_ok "$file as it is" "$(tail -n 5 "$work/log")"
    fi
    n=0
    while [ $n -lt "$(barriers "$file")" ]; do
        n=$((n + 1))
        leave_out "$file" $n
        if ! build "$file" "$work/t_kernels" >"$work/log" 2>&1; then
            not_ok "$file without barrier $n" "it does not compile" "$(tail -n 5 "$work/log")"
        elif run "$file"; then
            not_ok "$file without barrier $n" "nothing fails: is it needed?"
        else
            ok "$file without barrier $n fails"
        fi
    done
done
