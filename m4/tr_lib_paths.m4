# SPDX-License-Identifier: BSD-3-Clause
#
# TR_LIB_PATHS(LIBS): TR_RPATH is what the linker is told of the folders from which it took a shared
# library, and where the dynamic linker of another machine would not look.  With it the program also
# runs in a shell without the modules that it was built with: modules that set LIBRARY_PATH, and
# pkg-config, lead the linker to a library and leave no trace in the program.
AC_DEFUN([TR_LIB_PATHS], [
AC_SUBST([TR_RPATH])
AC_MSG_CHECKING([which folders of libraries the program must name])
TR_RPATH=
# -t prints the files that the linker opens, some linkers as "-lname (file)".
cat >conftest.$ac_ext <<_ACEOF
int main(void) { return 0; }
_ACEOF
tr_opened=`$CC $CFLAGS $CPPFLAGS $LDFLAGS -o conftest$EXEEXT conftest.$ac_ext -Wl,--no-as-needed \
    $1 $LIBS -Wl,-t 2>&AS_MESSAGE_LOG_FD | grep -o '/@<:@^ ()@:>@*\.so@<:@.0-9@:>@*' | sort -u`
rm -f conftest*
# What the cache knows in other places, as in /usr/local or /opt, another node may not know.
tr_cached=`(PATH=$PATH:/sbin:/usr/sbin; ldconfig -p) 2>/dev/null |
    sed -n 's,.*=> \(/.*\)/@<:@^/@:>@*$,\1,p' | grep -E '^(/usr)?/lib' | sort -u`
tr_known=" "
for tr_dir in /lib /lib64 /usr/lib /usr/lib64 $tr_cached; do
  tr_known="$tr_known`readlink -f $tr_dir` "
done
for tr_file in $tr_opened; do
  # Some are text that sends the linker on.
  head -c 4 "$tr_file" | grep ELF >/dev/null || continue
  tr_dir=`readlink -f "$tr_file"`
  tr_dir=${tr_dir%/*}
  # Stubs stand in for a driver, which the machine has elsewhere.
  AS_CASE(["$tr_known $1 $LDFLAGS $TR_RPATH "],
    [*" $tr_dir "* | *"-rpath,$tr_dir "*], [],
    [AS_CASE([$tr_dir], ["" | */stubs], [], [TR_RPATH="$TR_RPATH -Wl,-rpath,$tr_dir"])])
done
AC_MSG_RESULT([${TR_RPATH:-none but those named above}])
])
