#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# docs/data-parallel.md: its example of a mode, compiled as it stands there, computes what the page
# says, and the traffic of a step is that of its formulas.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
page=$srcdir/docs/data-parallel.md
plan 21

# block N: the N-th block of C on the page.
block() {
    awk -v want="$1" '/^```c$/ { n++; on = n == want; next } /^```/ { on = 0 } on { print }' "$page"
}

# The tree with the example in it: one file, one row.
tree=$work/tree
example() {
    mkdir "$tree" && cp -r "$srcdir/src" "$srcdir/build-aux" "$tree" && chmod -R u+w "$tree" || return 1
    block 1 > "$tree/src/dp/average.c"
    block 2 > "$work/row"
    [ "$(wc -l < "$work/row")" = 1 ] && [ "$(wc -l < "$tree/src/dp/average.c")" -le 50 ] || return 1
    sed -i "/^MODE(TR_DP_LOCAL/r $work/row" "$tree/src/config/modes.def"
}
check "the example is a file and a row" example
check "they are all that check-modes.sh asks for" env srcdir="$tree" sh "$srcdir/build-aux/check-modes.sh"

# made COMMAND: run it with the variables of the Makefile.
made() { MAKEFLAGS='' ${MAKE:-make} -s --no-print-directory --eval="made: ; $1" made; }
# What reads the table, and is not the same object with one more row.
readers=$(cd "$tree" && grep -rlE --include='*.c' '"config/(modes|enums)[.]def"' src)

# build EVERY: program t_ddp with the example, in $work/ddp.EVERY.
build() {
    objects=
    for source in src/dp/average.c $readers; do
        object=$work/$(echo "$source" | tr / _).o
        objects="$objects $object"
        made "\$(COMPILE) -iquote '$tree/src' -DEVERY=$1 -c '$tree/$source' -o '$object'" || return 1
    done
    made "\$(CCLD) \$(AM_CFLAGS) \$(CFLAGS) \$(AM_LDFLAGS) \$(LDFLAGS) -o '$work/ddp.$1' tests/train/t_ddp.o tests/golden/golden.o $objects \$(LDADD) \$(LIBS)"
}
[ -f tests/train/t_ddp.o ] || MAKEFLAGS='' ${MAKE:-make} -s tests/train/t_ddp > "$work/make.log" 2>&1
check "it compiles, averaging in every step" build 1
check "it compiles as it stands" build 4

# curve RANKS PROGRAM WAY OPTION...: losses as t_ddp prints them, in $work/out.
curve() {
    curve_ranks=$1
    shift
    ranks "$curve_ranks" "$@" > "$work/out" 2>&1 || { grep -v '^>' "$work/out"; return 1; }
}
unknown() { ! ranks 2 tests/train/t_ddp - --dp-mode average > "$work/out" 2>&1 && grep -q "dp-mode" "$work/out"; }
check "without the row there is no such mode" unknown
in_each_step() {
    curve 2 tests/train/t_ddp - && grep '^# loss' "$work/out" > "$work/all-reduce" &&
        curve 2 "$work/ddp.1" - --dp-mode average && grep '^# loss' "$work/out" > "$work/average" &&
        [ "$(wc -l < "$work/average")" = 50 ] && cmp "$work/all-reduce" "$work/average"
}
check "in every step: the losses of all-reduce, to the bit" in_each_step
check "in one of four steps, 2 replicas: the losses of PyTorch to 1e-5" \
    curve 2 "$work/ddp.4" every --dp-mode average
check "in one of four steps, 4 replicas: the losses of PyTorch to 1e-5" \
    curve 4 "$work/ddp.4" every --dp-mode average
echo "#$(grep "off by" "$work/out")"
others() { ! curve 2 "$work/ddp.4" ddp --dp-mode average && grep -q 'worst <= TOLERANCE' "$work/out"; }
check "which are not those of all-reduce" others

# What the log counts, of both ranks, is the formula of the page: P, or E and L where layers are
# sharded, are padded to a multiple of 64 for each replica; there are four micro-batches.
check "a dataset is built" small_corpus
traffic() {
    small 2 --train-iters 2 --log-traffic $1 > "$work/log" 2>&1 || { cat "$work/log"; return 1; }
    awk -v stage="$2" -v way="${3-}" '
        function padded(n) { return int((n + 127) / 128) * 128 }
        /^traffic/ { sums = number("gradients-sum"); gathered = number("weights-gather") }
        function number(name) { return match($0, name " [(]bytes[)]: [0-9]+") ? substr($0, RSTART + length(name) + 10, RLENGTH - length(name) - 10) : 0 }
        END {
            H = 32; l = 4; D = 2; M = 4; R = D * (D - 1) / D
            L = padded(12 * H * H + 13 * H); E = padded(2 * H) + padded(32 * H) + padded(384 * H); P = E + l * L
            if (stage < 2) P = padded(l * (12 * H * H + 13 * H) + (2 + 32 + 384) * H)
            v = way == "one ahead" ? 2 : l
            n = l + (way == "kept" ? 0 : (2 * M - 1) * (l - v))
            if (way == "once") M = 1
            want = R * 4 * P * (stage == 0 ? 2 : stage == 1 ? 1 : M)
            weights = R * 4 * (stage == 0 ? 0 : stage == 3 ? E + n * L : P)
            print stage ": " sums " " gathered ", expected " want " " weights
            exit !(sums == want && gathered == weights)
        }' "$work/log"
}
for stage in 0 1 2 3; do
    check "traffic of stage $stage" traffic "--zero-stage $stage" $stage
done
check "of a parameter server" traffic "--dp-mode central_ps" 0
check "of sharded servers" traffic "--dp-mode sharded_ps" 0
# A message is of a chunk, half of P, which is padded to 2048 for each replica; the warm-up sends
# gradients.
compressed() {
    small 2 --train-iters 2 --log-traffic --dp-mode sharded_ps_compressed --dp-bits 4 --train-warmup-steps 1 \
        > "$work/log" 2>&1 || { cat "$work/log"; return 1; }
    awk '
        function number(name) { return match($0, name " [(]bytes[)]: [0-9]+") ? substr($0, RSTART + length(name) + 10, RLENGTH - length(name) - 10) : 0 }
        /^traffic/ { sums = sums " " number("gradients-sum"); up = number("replicas-up"); down = number("replicas-down") }
        END {
            D = 2; P = int((4 * (12 * 32 * 32 + 13 * 32) + (2 + 32 + 384) * 32 + 127) / 128) * 128
            C = int((P + 4095) / 4096) * 4096
            want = D * (D - 1) * C / D * (4 + 16 / 512) / 8
            print "gradients" sums ", up " up ", down " down ", expected " 2 * 4 * P " 0, " want " " want
            exit !(sums == " " 2 * 4 * P " 0" && up == want && down == want)
        }' "$work/log"
}
check "of servers that compress, after a warm-up" compressed
check "of Adasum, of two replicas" traffic "--dp-mode adasum" 0
check "of stage 3, one layer ahead" traffic "--zero-stage 3 --zero-prefetch-depth 1" 3 "one ahead"
check "of stage 3, weights kept" traffic "--zero-stage 3 --zero-keep-weights" 3 kept
check "of stage 3, gradients reduced once" traffic "--zero-stage 3 --zero-reduce-once" 3 once
