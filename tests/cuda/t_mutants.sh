#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The test of the test of kernels: each barrier of a block or a warp that stands in a kernel is left
# out once, and t_kernels, t_attention, t_relative or t_adam8 must fail then.  A barrier that
# nothing misses is superfluous, or the test too weak.  And once each kernel with shared memory by
# the launch asks for more than there is. t_mutants.sh [FILE...]: only those of these files of
# kernels/.
. "$srcdir/tests/tap.sh"
# shellcheck disable=SC1091,SC2154 # made by make: as, compile, kernels, link, attention, link_attention, link_relative, link_adam8
. "$builddir/tests/cuda/mutant.sh"
[ $# -gt 0 ] || only_with_all

# The rows that go through the barriers of a file, one file at a time, and the sources compiled
# anew.
rows_of() {
    case $1 in
    embed.cu) echo embed_bwd ;;
    norm_bwd.cu) echo norm_bwd ;;
    heads.cu) echo head_norm_bwd ;;
    residual.cu) echo residual_bwd ;;
    codec.cu) echo fix_scale ;;
    topk.cu) echo topk_mask mask_take mask_add ;;
    common.cuh) echo sumsq norm xent_sum ;;
    esac
}

bwd='attention_mma_bwd_96.cu attention_mma_bwd_160.cu attention_mma_bwd_320.cu'
sources_of() {
    case $1 in
    common.cuh) echo flat.cu norm.cu loss.cu ;;
    attention_tiles.cuh) echo attention_plain.cu ;;
    attention_mma.cuh) echo attention_mma.cu "$bwd" ;;
    attention_mma_bwd.cuh) echo "$bwd" ;;
    *) echo "$1" ;;
    esac
}

# build FILE PROGRAM: with what is in $work/kernels in the place of the sources of FILE.
build() {
    objects=
    list=$kernels
    case $1 in
    attention*) list=$attention ;;
    relative*) list=kernels/relative.cu ;;
    adam8*) list=kernels/adam8.cu ;;
    esac
    for name in $list; do
        name=${name#kernels/}
        object=kernels/${name%.cu}.$as.o
        [ -e "$object" ] || object=kernels/${name%.cu}.emulated.o
        for changed in $(sources_of "$1"); do
            [ "$name" = "$changed" ] || continue
            object=$work/${name%.cu}.o
            compile -o "$object" "$work/kernels/$name" || return 1
        done
        objects="$objects $object"
    done
    # shellcheck disable=SC2086 # lists of words
    case $1 in
    attention*) link_attention -o "$2" $objects ;;
    relative*) link_relative -o "$2" $objects ;;
    adam8*) link_adam8 -o "$2" $objects ;;
    *) link -o "$2" $objects ;;
    esac
}

run() {
    # shellcheck disable=SC2046 # a list of words
    timeout 1200 "$work/t_kernels" $(rows_of "$1") >"$work/log" 2>&1
}

barriers() { grep -c '__sync[a-z]*();' "$srcdir/kernels/$1"; }
requests() { grep -c 'S::THREADS, S::SHARED,' "$srcdir/kernels/$1"; }

# Without the N-th barrier of FILE.
leave_out() {
    cp "$srcdir"/kernels/*.cu "$srcdir"/kernels/*.cuh "$work/kernels"
    awk -v n="$2" '/__sync[a-z]*\(\);/ && ++k == n { sub(/__sync[a-z]*\(\);/, ";") } { print }' \
        "$srcdir/kernels/$1" >"$work/kernels/$1"
}

# The N-th launch of FILE with 200 KiB more.
ask_for_more() {
    cp "$srcdir"/kernels/*.cu "$srcdir"/kernels/*.cuh "$work/kernels"
    awk -v n="$2" '/S::THREADS, S::SHARED,/ && ++k == n { sub(/S::SHARED,/, "S::SHARED + (200 << 10),") }
        { print }' "$srcdir/kernels/$1" >"$work/kernels/$1"
}

# fails_now FILE WHAT: what is in $work/kernels is found wrong.
fails_now() {
    if ! build "$1" "$work/t_kernels" >"$work/log" 2>&1; then
        not_ok "$1 $2" "it does not compile" "$(tail -n 5 "$work/log")"
    elif run "$1"; then
        not_ok "$1 $2" "nothing fails: is it needed?"
    else
        ok "$1 $2 fails"
    fi
}

mkdir "$work/kernels"
watched="attention_mma.cu attention_mma.cuh attention_mma_bwd.cuh attention_plain.cu attention_tiles.cuh relative.cu"
[ "$as" = watched ] || watched=
files=${*:-adam8.cu codec.cu common.cuh embed.cu heads.cu norm_bwd.cu residual.cu topk.cu $watched}
total=0
for file in $files; do
    total=$((total + 1 + $(barriers "$file") + $(requests "$file")))
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
        fails_now "$file" "without barrier $n"
    done
    n=0
    while [ $n -lt "$(requests "$file")" ]; do
        n=$((n + 1))
        ask_for_more "$file" $n
        fails_now "$file" "with too much shared memory at launch $n"
    done
done
