#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `make install`, what it leaves and `make uninstall`; and the modulefile in both module systems.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
# shellcheck source=tests/pack/modules.sh
. "$srcdir/tests/pack/modules.sh"
plan 17

# The make that runs this passes its options to all below it.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
build() { ${MAKE:-make} -s "$@" DESTDIR="$work/root"; }

mkdir -p "$work/root"
check "make install DESTDIR=..." build install
build installcheck >"$work/installed" 2>&1
code=$?
grep '# SKIP' "$work/installed" | sed 's/^/# /'
works() { cat "$work/installed" && [ "$code" -eq 0 ]; }
check "what is installed works (make installcheck)" works

prefix=$(sed -n 's/^prefix = //p' Makefile)
modulefile=$(find "$work/root" -path '*/modulefiles/trireme/*' -type f)
version=${modulefile##*/}
inside() { [ -d "$work/root$prefix" ] && ! find "$work/root" ! -type d | grep -v "^$work/root$prefix/"; }
check "nothing is installed outside of the prefix" inside

folders() {
    grep -qx "setenv TRIREME_ROOT {$prefix}" "$modulefile" && grep -q "^prepend-path PATH {$prefix/" "$modulefile"
}
check "the modulefile names the prefix" folders
# What follows holds for a prefix that is on no search path yet, which /usr/local is.
tree=$work/tree
mkdir -p "$tree/trireme"
sed "s|{$prefix\([^ }]*\)}|{/opt/trireme\1}|g" "$modulefile" >"$tree/trireme/$version"

# state SYSTEM SCRIPT: what the variables are before and after, in $work/before and $work/after,
# without what the systems note down for themselves and without `_`.  Lmod writes duplicates and
# empty words of a path in its own way, whatever the module: there are none here but the one that
# MANPATH may end in.
own='^(_|_LM.*|_ModuleTable.*|__LMOD_.*|LMOD_.*|__MODULES_.*|LOADEDMODULES|_LMFILES_|MODULEPATH.*|MANPATH_modshare)='
state() {
    module_run "$1" "
        $2
        module use $tree
        env | sort >$work/before
        module load trireme
        env | sort >$work/loaded
        module unload trireme
        env | sort >$work/after" >"$work/stdout" 2>"$work/stderr"
    for when in before loaded after; do grep -vE "$own" "$work/$when" >"$work/$when.vars"; done
}
restored() {
    for start in 'unset MANPATH XDG_DATA_DIRS' \
        'export MANPATH=/a/man XDG_DATA_DIRS=/a/share' \
        'export MANPATH=/a/man:/b/man XDG_DATA_DIRS=/usr/share:/a/share:/usr/local/share' \
        'export TRIREME_OTHER=1'; do
        state "$1" "$start"
        cmp -s "$work/before.vars" "$work/loaded.vars" && { echo "$start: nothing was loaded"; return 1; }
        diff "$work/before.vars" "$work/after.vars" || { echo "$start"; return 1; }
    done
}
# Each variable that changes, and nothing on stdout or stderr.
changed() {
    state "$1" 'unset MANPATH XDG_DATA_DIRS'
    diff "$work/before.vars" "$work/loaded.vars" | sed -n 's/^> \([^=]*\)=.*/\1/p' | sort >"$work/names"
    printf '%s\n' MANPATH PATH TRIREME_JOBS TRIREME_ROOT TRIREME_SET_MANPATH TRIREME_SET_XDG_DATA_DIRS \
        TRIREME_VERSION XDG_DATA_DIRS | diff - "$work/names" || return 1
    cat "$work/loaded" "$work/stdout" "$work/stderr"
    grep -qx "TRIREME_ROOT=/opt/trireme" "$work/loaded" && grep -qx "TRIREME_VERSION=$version" "$work/loaded" &&
        [ ! -s "$work/stdout" ] && [ ! -s "$work/stderr" ]
}
# The places of the system are not lost where none was named, and not added where one was.
kept() {
    state "$1" 'unset MANPATH XDG_DATA_DIRS'
    grep -q '^MANPATH=.*/share/man::*$' "$work/loaded" &&
        grep -q '^XDG_DATA_DIRS=.*/share:/usr/local/share:/usr/share$' "$work/loaded" || return 1
    state "$1" 'export MANPATH=/a/man XDG_DATA_DIRS=/a/share'
    grep -q '^MANPATH=.*/share/man:/a/man$' "$work/loaded" &&
        grep -q '^XDG_DATA_DIRS=.*/share:/a/share$' "$work/loaded"
}
explained() {
    module_run "$1" "module use $tree; module help trireme" >"$work/help" 2>&1
    module_run "$1" "module use $tree; module whatis trireme" >"$work/whatis" 2>&1
    cat "$work/help" "$work/whatis"
    grep -q 'man trireme-train' "$work/help" && grep -q "Version: $version" "$work/whatis"
}
# Another version next to this one: never both at once.
mkdir -p "$work/two/trireme"
sed "s/$version/99/g" "$modulefile" >"$work/two/trireme/99"
alone() {
    module_run "$1" "module use $tree $work/two
        module load trireme/$version
        module load trireme/99
        echo is \$TRIREME_VERSION" >"$work/out" 2>&1
    cat "$work/out"
    # Lmod puts one in the other's place, Environment Modules keeps the first and says so.
    case $1 in
    lmod) grep -q '^is 99$' "$work/out" ;;
    modules) grep -q "^is $version\$" "$work/out" && grep -qi 'conflict' "$work/out" ;;
    esac
}
module_systems
for system in lmod modules; do
    eval "there=\$$system"
    for what in restored changed kept explained alone; do
        case $what in
        restored) name="unloading leaves the environment as it was" ;;
        changed) name="loading sets what it should and nothing else, and is silent" ;;
        kept) name="search paths of the system are kept" ;;
        explained) name="help and whatis" ;;
        alone) name="two versions are never loaded at once" ;;
        esac
        if [ -n "$there" ]; then
            check "$system: $name" $what "$system"
        else
            skip "$system: $name" "$no_modules"
        fi
    done
done

before=$(find "$work/root" -type f | wc -l)
check "man pages, completion, modulefile, documents and the program are there" test "$before" -ge 15
neighbour=${modulefile%/*}/0.0.1
echo "of another version" >"$neighbour"
check "make uninstall DESTDIR=..." build uninstall
left=$(find "$work/root" ! -type d)
check "it leaves what is of others, and nothing else" test "$left" = "$neighbour"
