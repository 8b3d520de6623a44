# SPDX-License-Identifier: BSD-3-Clause
#
# TR_FLAGS_EARLY, before AC_PROG_CC: remember whether the user chose CFLAGS, and keep autoconf from
# choosing -O2.
AC_DEFUN([TR_FLAGS_EARLY], [
tr_own_CFLAGS=${CFLAGS+no}
tr_own_CFLAGS=${tr_own_CFLAGS:-yes}
: ${CFLAGS=""}
])

# TR_TRY_CFLAG(FLAG, VARIABLE): append the flag to the variable if the compiler takes it.
AC_DEFUN([TR_TRY_CFLAG], [
AC_MSG_CHECKING([whether $CC takes $1])
tr_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS $1 -Werror"
AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [tr_takes=yes], [tr_takes=no])
CFLAGS=$tr_save_CFLAGS
AC_MSG_RESULT([$tr_takes])
AS_IF([test $tr_takes = yes], [$2="$$2 $1"])
])

# TR_FLAGS, after AC_PROG_CC: CFLAGS, --with-march, --enable-developer, --enable-sanitizers.
AC_DEFUN([TR_FLAGS], [
AC_ARG_WITH([march],
  [AS_HELP_STRING([--with-march=ARCH],
    [make code for this processor [native, unless CFLAGS is given]; for nodes of several kinds name
     the oldest])])
AC_ARG_ENABLE([native],
  [AS_HELP_STRING([--disable-native], [make code for any processor of this family])])
AC_ARG_ENABLE([developer], [AS_HELP_STRING([--enable-developer], [warnings are errors])])
AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers], [check addresses and undefined behaviour at run time])])
AC_ARG_ENABLE([libfuzzer],
  [AS_HELP_STRING([--enable-libfuzzer], [build tests/fuzzing with the libFuzzer of clang])])

# Lines and names of functions, for backtraces; with -g objects are three times as large, and each test is linked with all.
TEST_CFLAGS=
AS_IF([test $tr_own_CFLAGS = yes], [
  CFLAGS="-g1 -O3"
  # Tests compute little by themselves.
  TEST_CFLAGS=-O1
  AS_IF([test "x$enable_sanitizers" = xyes], [CFLAGS="-g1 -O1"])
  AS_IF([test "x$with_march" = x && test "x$enable_native" != xno], [with_march=native])])
AS_CASE([$with_march], ["" | no], [], [yes], [AC_MSG_ERROR([--with-march needs a name])],
  [TR_TRY_CFLAG([-march=$with_march], [CFLAGS])
   AS_IF([test $tr_takes = no && test "$with_march" != native],
         [AC_MSG_ERROR([$CC does not know -march=$with_march])])])
# clang warns of loops that it does not turn into vectors, which with -O1 are most.
AS_IF([test "x$enable_developer" = xyes], [
  TR_CFLAGS="$TR_CFLAGS -Werror"
  TR_TRY_CFLAG([-Wno-error=pass-failed], [TR_CFLAGS])
  TR_NVCCFLAGS="-Werror all-warnings"])
AS_IF([test "x$enable_sanitizers" = xyes], [
  TR_CFLAGS="$TR_CFLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined"
  TR_CFLAGS="$TR_CFLAGS -fno-omit-frame-pointer -DTR_SANITIZERS"
  # What a compiler knows of lengths is less there, and it warns of texts that cannot be so long.
  TR_TRY_CFLAG([-Wno-format-truncation], [TR_CFLAGS])])
AS_IF([test "x$enable_libfuzzer" = xyes], [
  TR_TRY_CFLAG([-fsanitize=fuzzer-no-link], [TR_CFLAGS])
  AS_IF([test $tr_takes = no], [AC_MSG_ERROR([--enable-libfuzzer needs CC=clang])])])
AM_CONDITIONAL([LIBFUZZER], [test "x$enable_libfuzzer" = xyes])
AC_SUBST([TR_CFLAGS])
AC_SUBST([TR_NVCCFLAGS])
AC_SUBST([TEST_CFLAGS])
])

# TR_LINKER, after TR_FLAGS: a linker for the tests, of which some two hundred are linked; the usual one
# takes twice as long.  The program itself is linked with the usual one.
AC_DEFUN([TR_LINKER], [
TEST_LDFLAGS=
tr_takes=no
m4_foreach_w([tr_linker], [gold lld],
  [AS_IF([test $tr_takes = no], [TR_TRY_CFLAG([-fuse-ld=tr_linker], [TEST_LDFLAGS])])
])
AC_SUBST([TEST_LDFLAGS])
])

# TR_THREADS, after TR_FLAGS: HAVE_TSAN says whether tests of threads can be watched for data races, which
# is not possible together with --enable-sanitizers.
AC_DEFUN([TR_THREADS], [
AC_MSG_CHECKING([whether $CC watches data races])
tr_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS -fsanitize=thread"
# Kernels newer than the compiler may place programs where it cannot watch them, so it must run.
AC_RUN_IFELSE([AC_LANG_PROGRAM([[#include <pthread.h>]], [[return pthread_self() == 0;]])],
  [tr_tsan=yes], [tr_tsan=no], [tr_tsan="no, other machine"])
CFLAGS=$tr_save_CFLAGS
AS_IF([test "x$enable_sanitizers" = xyes], [tr_tsan="no, with other sanitizers"])
AC_MSG_RESULT([$tr_tsan])
AM_CONDITIONAL([HAVE_TSAN], [test "$tr_tsan" = yes])
])
