#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
#
# What kernels take of a GPU, as the compiler says: that each which can be chosen has a body, none
# is over tests/cuda/kernels.budget, and, where a table of that CUDA is in tests/golden, all are as
# it says.  Of the code that was built; with --all also of attention for every other architecture
# that nvcc knows, and for sm_70, which CUDA 13 does not know any more, by the assembler of CUDA 12
# if TR_PTXAS_12 names one.
. "$srcdir/tests/tap.sh"
. "$builddir/tests/cuda/nvcc.sh" # made by make: version, known, compile, kernels
resources=$builddir/tests/cuda/resources

listed=$(known 2>"$work/why") || skip_all "there is no nvcc: $(tail -n 1 "$work/why")"
# release COMMAND...: the version that a program of CUDA tells.
release() { "$@" | sed -n 's/.* V\([0-9.]*\)$/\1/p'; }
table=$srcdir/tests/golden/kernels-$(release version).txt

# held TABLE CUBIN...: against the budget and the table, if there is one.
held() {
    held_to=$1
    shift
    set -- --budget "$srcdir/tests/cuda/kernels.budget" "$@"
    [ ! -r "$held_to" ] || set -- --golden "$held_to" "$@"
    "$resources" "$@" >"$work/lines"
}

# for_arch ARCH: cubins of attention, in $work/ARCH.  For sm_70: PTX for the next architecture, with
# the code for sm_70 in it, said to be for sm_70 and of a version that the assembler knows.
for_arch() {
    mkdir -p "$work/$1"
    for name in attention_mma attention_mma_bwd_96 attention_mma_bwd_160 attention_mma_bwd_320; do
        cubin=$work/$1/$name.compute_$1.cubin
        source=$srcdir/kernels/$name.cu
        case $listed in
        *"sm_$1"*) compile -arch="sm_$1" -cubin -o "$cubin" "$source" || return 1 ;;
        *)
            compile -arch=compute_75 -DTR_ARCH="${1}0" -ptx -o "$work/code.ptx" "$source" &&
                sed -e 's/^\.version .*/.version 8.0/' -e "s/^\\.target .*/.target sm_$1/" \
                    "$work/code.ptx" >"$work/old.ptx" &&
                "$TR_PTXAS_12" -arch="sm_$1" -o "$cubin" "$work/old.ptx" || return 1
            ;;
        esac
    done
}

for_arch_held() {
    of=$table
    case $listed in
    *"sm_$1"*) ;;
    *) of=${table%.txt}-$(release "$TR_PTXAS_12" --version).txt ;;
    esac
    for_arch "$1" && held "$of" "$work/$1"/*.cubin
}

archs=
if [ -n "${TR_TEST_ALL:-}" ]; then
    for arch in 70 75 80 86 89 90 100 120; do
        case $listed in
        *"sm_$arch"*) archs="$archs $arch" ;;
        *) [ "$arch" != 70 ] || [ -z "${TR_PTXAS_12:-}" ] || archs="$archs $arch" ;;
        esac
    done
fi
# shellcheck disable=SC2086 # a list of words
set -- $archs
plan $((5 + $#))
if ls "$builddir"/kernels/cubins/*.cubin >/dev/null 2>&1; then
    check "kernels as they were built" held "$table" "$builddir"/kernels/cubins/*.cubin
    # The test of the test: a budget of ten instructions; code for one GPU that is said to be for
    # another, so that kernels are chosen which it has no body of; a table with one register more.
    echo '* * * - 10 - -' >"$work/little"
    fails "a budget that is too small" 1 "is over budget" \
        "$resources" --budget "$work/little" "$builddir"/kernels/cubins/flat.*.cubin
    for cubin in "$builddir"/kernels/cubins/attention_mma.*.cubin; do
        other=70
        case $cubin in *compute_70*) other=75 ;; esac
        cp "$cubin" "$work/attention_mma.compute_$other.cubin"
    done
    fails "kernels without a body" 1 "has no body" "$resources" "$work/attention_mma.compute_$other.cubin"
    "$resources" "$builddir"/kernels/cubins/flat.*.cubin |
        awk 'NR == 1 { $6++ } { print }' >"$work/other"
    fails "another number of registers" 1 "+ " \
        "$resources" --golden "$work/other" "$builddir"/kernels/cubins/flat.*.cubin
else
    skip "kernels as they were built" "no kernels were built"
    for name in "a budget that is too small" "kernels without a body" "another number of registers"; do
        skip "$name" "no kernels were built"
    done
fi
if [ -r "$table" ]; then
    ok "there is a table of this CUDA"
else
    skip "there is a table of this CUDA" "$resources $builddir/kernels/cubins/*.cubin makes one"
fi
for arch; do
    check "attention for sm_$arch" for_arch_held "$arch"
done
