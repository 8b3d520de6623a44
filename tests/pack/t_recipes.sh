#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recipes of contrib/ against what they are about: configure, the program and its log.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
contrib=$srcdir/contrib
definition=$contrib/apptainer/trireme.def
package=$contrib/spack/spack_repo/trireme/packages/trireme/package.py
test_file=$contrib/reframe/trireme_check.py
version=$(sed -n 's/^AC_INIT(\[trireme\], \[\([^]]*\)\].*/\1/p' "$srcdir/configure.ac")
command -v python3 >/dev/null 2>&1 || skip_all "python3 is not installed"
plan 8

parsed() {
    for file in "$contrib"/easybuild/*.eb "$package" "$test_file"; do
        python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" || return 1
    done
}
check "recipes in Python are Python" parsed
# The scripts of a definition file: the lines between %name and the next %.
section() { sed -n "/^%$1\$/,/^%/p" "$definition" | grep -v '^%'; }
scripts() {
    for name in post environment runscript test; do
        section $name >"$work/$name"
        [ -s "$work/$name" ] && sh -n "$work/$name" || return 1
    done
}
check "those of the container are shell" scripts

versions() {
    [ -n "$version" ] || return 1
    grep -q "^    version(\"$version\"" "$package" && grep -q "trireme-$version.tar.gz" "$package" || return 1
    grep -q "^    Version $version\$" "$definition" || return 1
    for file in "$contrib"/easybuild/*.eb; do
        case ${file##*/} in trireme-"$version"-*) ;; *) echo "$file"; return 1 ;; esac
        grep -q "^version = '$version'\$" "$file" || { echo "$file"; return 1; }
    done
    grep -o 'trireme-[0-9][0-9.]*[0-9]' "$contrib/README.md" | grep -vx "trireme-$version"
    [ $? -eq 1 ]
}
check "all are of version $version" versions

# Options, as --name; the Spack recipe puts them together from names.
words() { grep -ohE -e "(^|[^A-Za-z0-9-])--[A-Za-z][A-Za-z0-9-]*" "$@" | sed 's/.*\(--\)/\1/' | sort -u; }
known() {
    "$srcdir/configure" --help | grep -oE -e '--[a-z][a-z0-9-]*'
    # configure explains one side of a choice.
    "$srcdir/configure" --help | sed -n 's/^ *--with-\([a-z0-9-]*\).*/--without-\1/p'
}
known | sort -u >"$work/configure"
for verb in train help version; do "$trireme" help $verb; done | grep -oE -e '--[a-z][a-z0-9-]*' |
    sort -u >"$work/trireme"
unknown() { ! words "$@" | grep -vxF -f "$work/known"; }
to_configure() {
    {
        cat "$work/configure"
        echo "--with-"
        echo "--without-"
    } >"$work/known"
    python3 - "$package" >"$work/args" <<'END' || return 1
import ast, sys
for node in ast.walk(ast.parse(open(sys.argv[1]).read())):
    if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple):
        for row in node.iter.elts:
            print("--with-" + row.elts[0].value)
            print("--without-" + row.elts[0].value)
    elif isinstance(node, ast.Constant) and str(node.value).startswith("--") and node.value not in (
            "--with-", "--without-"):
        print(node.value)
END
    [ "$(wc -l <"$work/args")" -ge 20 ] || return 1
    grep -h '^configopts' "$contrib"/easybuild/*.eb >"$work/easybuild"
    section post | grep 'jobs/setup' >"$work/post"
    sed -n '/^%arguments/,/^%/p' "$definition" >>"$work/post"
    unknown "$work/args" "$work/easybuild" "$work/post"
}
check "configure has every option that they give it" to_configure
to_trireme() {
    cp "$work/trireme" "$work/known"
    section test >"$work/run"
    grep -h '^_step' "$contrib"/easybuild/*.eb >>"$work/run"
    python3 - "$test_file" >>"$work/run" <<'END' || return 1
import ast, sys
for node in ast.walk(ast.parse(open(sys.argv[1]).read())):
    if isinstance(node, ast.Constant) and str(node.value).startswith("--") and " " not in node.value:
        if node.value != "--kill-on-bad-exit=1":
            print(node.value)
END
    [ "$(words "$work/run" | wc -l)" -ge 15 ] || return 1
    unknown "$work/run"
}
check "the program has every option that they give it" to_trireme

# What configure requires, by its names, but MPI, which is part of a toolchain and of a compiler's
# wrapper.
required() {
    awk '/^TR_LIB\(/ { split($0, part, /[][]/); name = tolower(part[2]) }
        /\[required\]\)/ { if (name != "mpi") print name; name = "" }' "$srcdir/configure.ac"
}
libraries() {
    [ "$(required | wc -l)" -ge 7 ] || return 1
    for library in $(required); do
        for file in "$contrib"/easybuild/*.eb; do
            grep -qi "^    ('$library', '" "$file" || { echo "$file does not have $library"; return 1; }
        done
        grep -q "^    depends_on(\"${library}[\"+-]" "$package" || { echo "$package does not have $library"; return 1; }
    done
}
check "recipes have every library that configure requires" libraries

# What they run to try an installation, and what the ReFrame test reads in a log.
tried() { (cd "$work" && PATH=$(dirname "$trireme"):$PATH timeout 300 sh -e "$work/test") || return 1; }
section test >"$work/test"
check "the container's test passes" tried
matched() {
    (cd "$work" && timeout 300 "$trireme" train --backend cpu --mock-data --vocab-size 100 \
        --split 90,5,5 --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
        --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 \
        --train-iters 3 --eval-iters 0 --log-interval 1 --log-throughput) >"$work/log" 2>&1 || return 1
    python3 - "$test_file" "$work/log" <<'END'
import ast, re, sys
log = open(sys.argv[2]).read()
counts = {}
for node in ast.walk(ast.parse(open(sys.argv[1]).read())):
    if isinstance(node, ast.Call) and node.args:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        first = node.args[0]
        if name in ("findall", "assert_found", "mean_of", "assert_not_found"):
            found = len(re.findall(first.value, log, re.M))
            wanted = {"findall": 3, "mean_of": 3, "assert_found": 1, "assert_not_found": 0}[name]
            counts[first.value] = found
            if found != wanted:
                sys.exit(f"{name} {first.value!r}: {found} times, not {wanted}\n{log}")
if len(counts) < 5:
    sys.exit(f"only {counts} are looked for")
END
}
check "what the ReFrame test looks for stands in a log" matched
