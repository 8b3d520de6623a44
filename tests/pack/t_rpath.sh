#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A program that configure linked with a library in a folder of its own finds it again without the
# environment that led the linker there.  The macros of m4/ make a small configure for a small
# library.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
srcdir=$(cd "$srcdir" && pwd)
for tool in autoconf aclocal pkg-config cc; do
    command -v $tool >/dev/null 2>&1 || skip_all "$tool is not installed"
done
plan 6
far=$work/far

mkdir -p "$work/m4" "$work/far/include" "$work/far/lib/pkgconfig" "$work/test"
cp "$srcdir/m4/tr_lib.m4" "$srcdir/m4/tr_lib_paths.m4" "$work/m4"
echo 'int far(void);' >"$work/far/include/far.h"
echo 'int far(void); int far(void) { return 42; }' >"$work/far.c"
cc -shared -fPIC -Wl,-soname,libfar.so.1 -o "$work/far/lib/libfar.so.1.2" "$work/far.c" || exit 1
ln -s libfar.so.1.2 "$work/far/lib/libfar.so.1"
ln -s libfar.so.1 "$work/far/lib/libfar.so"
cat >"$work/far/lib/pkgconfig/far.pc" <<END
Name: far
Description: far
Version: 1
Cflags: -I$work/far/include
Libs: -L$work/far/lib -lfar
END
cat >"$work/configure.ac" <<'END'
AC_INIT([test], [1])
AC_CONFIG_MACRO_DIR([m4])
AC_PROG_CC
tr_missing= tr_packages= tr_table=
TR_LIB([FAR], [far], [libfar-dev], [-lfar], [[#include <far.h>]], [[return far();]], [FAR_ROOT], [far],
  [required])
TR_LIB_PATHS([$FAR_LIBS])
AC_CONFIG_FILES([flags])
AC_OUTPUT
END
echo 'CC="@CC@" CFLAGS="@FAR_CFLAGS@" LIBS="@FAR_LIBS@" RPATH="@TR_RPATH@"' >"$work/flags.in"
printf '#include <far.h>\nint main(void) { return far() - 42; }\n' >"$work/main.c"
cp "$srcdir/build-aux/install-sh" "$work" 2>/dev/null
made() { (cd "$work" && aclocal -I m4 && autoconf) >"$work/autoconf.log" 2>&1 || { cat "$work/autoconf.log"; return 1; }; }
check "the macros make a configure" made

# The way in which the library is found, as words for env.
runs() {
    (
        cd "$work/test" && rm -f ./* || exit 1
        env "$@" ../configure -q ${option:+"$option"} >out 2>&1 || { cat out; exit 1; }
        # shellcheck disable=SC1091
        . ./flags
        env "$@" sh -c "$CC $CFLAGS -o main ../main.c $RPATH $LIBS" || exit 1
        env -i ./main || { cat flags; exit 1; }
    )
}
option="--with-far=$far"
check "a library named by --with-NAME is found by the program" runs TERM=dumb
option=
check "one named by a variable of a module too" runs "FAR_ROOT=$far"
check "one that only compiler and linker know, too" \
    runs "CPATH=$far/include" "LIBRARY_PATH=$far/lib" "LD_LIBRARY_PATH=$far/lib"
check "one of pkg-config too" runs "PKG_CONFIG_PATH=$far/lib/pkgconfig"

# Those of the system are where every program looks.
system() { ! sed -n 's/^TR_RPATH = //p' Makefile | tr ' ' '\n' | grep -E -e '-rpath,(/usr)?/lib(64)?(/|$)'; }
check "no folder of the system is named" system
