# SPDX-License-Identifier: BSD-3-Clause
#
# TR_LIB(NAME, Title, Debian package, link flags, header, body,
#        environment variables, pkg-config modules, need)
#
# Find a library: NAME_CFLAGS and NAME_LIBS are substituted, tr_have_NAME is yes or no.  A candidate
# counts only if a program with `header` and `body` compiles and links with it.  They are tried in
# this order, so that what a user or a module has chosen wins over what the system has:
#   1. --with-name=DIR, and nothing else when it is given
#   2. DIR in each of the environment variables (modules set HDF5_ROOT, HDF5_DIR, EBROOTHDF5, ...)
#   3. the compiler as it is, with CPPFLAGS, LDFLAGS, CPATH, LIBRARY_PATH or a wrapper like mpicc
#   4. pkg-config modules
# `link flags` is a list of alternatives ("-lopenblas -lblis" is two), "none" for a header alone.
# MPI, once found, is there for those that follow.  `need` is "required" or what is lost without the library.
AC_DEFUN([TR_LIB], [
AC_REQUIRE([PKG_PROG_PKG_CONFIG])
AC_SUBST([$1_CFLAGS])
AC_SUBST([$1_LIBS])
m4_pushdef([tr_option], m4_translit([$1], [A-Z0-9_], [a-z0-9-]))
AC_ARG_WITH(tr_option, [AS_HELP_STRING([--with-]tr_option[=DIR], [where $2 is installed])],
            [tr_with=$withval], [tr_with=yes])
AC_MSG_CHECKING([for $2])
tr_have_$1=no
AS_CASE([$tr_with],
  [yes], [
    for tr_variable in $7; do
      eval "tr_dir=\${$tr_variable-}"
      TR_LIB_FOLDER([$1], [$4], [$5], [$6], [\$$tr_variable])
    done
    TR_LIB_FLAGS([$1], [$4], [$5], [$6], [], [], [compiler])
    for tr_module in $8; do
      AS_IF([test $tr_have_$1 = no && test -n "$PKG_CONFIG" && $PKG_CONFIG --exists $tr_module], [
        TR_LIB_TRY([$1], [$5], [$6], [`$PKG_CONFIG --cflags $tr_module`],
                   [`$PKG_CONFIG --libs $tr_module`], [pkg-config $tr_module])])
    done],
  [no], [],
  [tr_dir=$tr_with; TR_LIB_FOLDER([$1], [$4], [$5], [$6], [--with-]tr_option)])
AS_IF([test $tr_have_$1 = yes], [AC_MSG_RESULT([yes, $tr_how])], [AC_MSG_RESULT([no])])
AS_IF([test $tr_have_$1 = no && test "$9" = required], [
  tr_missing="$tr_missing${tr_missing:+, }$2 ($3)"
  tr_packages="$tr_packages $3"])
AS_IF([test $tr_have_$1 = no], [tr_how="none: $9"])
tr_table="$tr_table
  m4_format([%-16s], [$2]) $tr_how"
m4_popdef([tr_option])
])

# TR_LIB_FOLDER(NAME, link flags, header, body, how): what lies under $tr_dir, with the path for the
# dynamic linker built in, so that the program also runs where the module is not loaded.
AC_DEFUN([TR_LIB_FOLDER], [
AS_IF([test -n "$tr_dir"], [
  for tr_sub in lib lib64 lib/`uname -m`-linux-gnu; do
    AS_IF([test -d "$tr_dir/$tr_sub"],
          [TR_LIB_FLAGS([$1], [$2], [$3], [$4], [-I$tr_dir/include],
                        [-L$tr_dir/$tr_sub -Wl,-rpath,$tr_dir/$tr_sub], [$5=$tr_dir])])
  done])
])

# TR_LIB_FLAGS(NAME, link flags, header, body, cflags, ldflags, how): each of the alternatives.
AC_DEFUN([TR_LIB_FLAGS], [
for tr_flag in $2; do
  AS_IF([test "$tr_flag" = none], [tr_flag=])
  TR_LIB_TRY([$1], [$3], [$4], [$5], [$6 $tr_flag], [$7])
done
])

# TR_LIB_TRY(NAME, header, body, cflags, libs, how): one candidate, unless one was found before.
AC_DEFUN([TR_LIB_TRY], [
AS_IF([test $tr_have_$1 = no], [
  tr_save_CFLAGS=$CFLAGS
  tr_save_LIBS=$LIBS
  tr_cflags="$4"
  tr_libs="$5"
  CFLAGS="$CFLAGS $tr_cflags $MPI_CFLAGS"
  LIBS="$tr_libs $MPI_LIBS $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([$2], [$3])], [
    tr_have_$1=yes
    tr_how="$6"
    # Headers of others are not ours to warn about.
    $1_CFLAGS=`AS_ECHO(["$tr_cflags"]) | sed 's/-I */-isystem /g'`
    $1_LIBS=$tr_libs])
  CFLAGS=$tr_save_CFLAGS
  LIBS=$tr_save_LIBS])
])
