# SPDX-License-Identifier: BSD-3-Clause
#
# TR_CXX_EARLY, before AC_PROG_CXX: the C++ compiler is the C compiler unless CXX is given: that one finds
# MPI, and gcc, clang and the wrappers of MPI around them go by the name of a source.
AC_DEFUN([TR_CXX_EARLY], [
AS_IF([test -z "$CXX"], [CXX=$CC])
AS_IF([test -z "${CXXFLAGS+given}"], [CXXFLAGS=$CFLAGS])
])

# TR_CXX, after AC_PROG_CXX: whether it does for the tests that emulate a GPU; tr_have_CXX is yes or no.
AC_DEFUN([TR_CXX], [
AC_MSG_CHECKING([whether $CXX makes C++17 that $CC links])
AC_LANG_PUSH([C++])
tr_save_CXXFLAGS=$CXXFLAGS
tr_save_LIBS=$LIBS
CXXFLAGS="$CXXFLAGS -std=c++17"
LIBS="-lstdc++ $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <deque>
    #include <functional>]],
  [[std::deque<std::function<int()>> todo{[] { return 0; }}; return todo.front()();]])],
  [tr_have_CXX=yes], [tr_have_CXX=no])
AC_MSG_RESULT([$tr_have_CXX])
CXXFLAGS=$tr_save_CXXFLAGS
LIBS=$tr_save_LIBS
AC_LANG_POP([C++])
])

# TR_CUDA, after the libraries: what the cuda backend is made with.
#   CUDA_CPPFLAGS  HAVE_CUDA, HAVE_NCCL, HAVE_CUDNN for what there is, TR_CUDA_ARCHS, folders of headers
#   CUDA_HEADERS   those folders alone, also where there are headers and no nvcc
#   CUDA_LIBS      cudart; of the others only the path by which dlopen() finds them
#   CUDA_CODE      of nvcc: which GPUs there is code for; NVCC_HOST names its host compiler
#   CUDA_ARCHS     the same for people, as in 80,90; CUDA_LACKS says why there is none
# and tr_have_CUDA, tr_have_NCCL, tr_have_CUDNN, tr_have_CUDA_HEADERS.  The libraries of the driver are
# never linked: the program must start where there is no GPU.
AC_DEFUN([TR_CUDA], [
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda[=DIR]],
    [where CUDA is installed [CUDA_HOME, CUDA_PATH, CUDA_ROOT, that of nvcc, /usr/local/cuda]])],
  [], [with_cuda=check])
AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl[=DIR]], [where NCCL is installed])], [],
  [with_nccl=check])
AC_ARG_WITH([cudnn], [AS_HELP_STRING([--with-cudnn[=DIR]], [where cuDNN is installed])], [],
  [with_cudnn=check])
AC_ARG_WITH([cuda-arch],
  [AS_HELP_STRING([--with-cuda-arch=LIST],
    [GPUs to make code for, as in 75,80,90 [those of 70,80,90 that nvcc knows]; newer ones than the
     last compile it when they first run it; native: those of this machine; none: no kernels, but the
     tests of the backend that need headers only])], [], [with_cuda_arch=check])
AC_ARG_ENABLE([shared-cudart],
  [AS_HELP_STRING([--enable-shared-cudart],
    [take libcudart.so from the system when the program starts])])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags [-O3 -lineinfo]])
AC_ARG_VAR([NVCC_CCBIN], [host compiler of NVCC [its own choice]])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_HEADERS])
AC_SUBST([CUDA_LIBS])
AC_SUBST([CUDA_CODE])
AC_SUBST([CUDA_ARCHS])
AC_SUBST([CUDA_LACKS])
AC_SUBST([with_cuda])
AC_SUBST([with_cuda_arch])
AC_SUBST([NVCC_HOST])
tr_have_CUDA=no tr_have_NCCL=no tr_have_CUDNN=no tr_have_CUDA_HEADERS=no
tr_cuda_how="none: --backend cuda is refused"
tr_nccl_how="none: GPUs of several ranks cannot talk"
tr_cudnn_how="none: attention by kernels of this program"
: ${NVCCFLAGS="-O3 -lineinfo"}

AC_MSG_CHECKING([for CUDA])
AS_IF([test "x$with_cuda" != xno], [TR_CUDA_FIND])
AS_IF([test $tr_have_CUDA = yes], [AC_MSG_RESULT([yes, $tr_cuda_dir])],
      [test $tr_have_CUDA_HEADERS = yes],
      [AC_MSG_RESULT([headers in $tr_cuda_dir, and $tr_cuda_lacks])],
      [AC_MSG_RESULT([no])])
AS_IF([test $tr_have_CUDA = yes], [TR_CUDA_ARCHS])
AS_IF([test $tr_have_CUDA = yes], [CUDA_ARCHS=$tr_cuda_archs], [CUDA_LACKS=$tr_cuda_lacks])
AS_CASE([$with_cuda], [check | no], [],
  [AS_IF([test $tr_have_CUDA = no],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: $tr_cuda_lacks; config.log has what was tried])])])

TR_CUDA_ADDON([NCCL], [nccl], [$with_nccl], [nccl.h], [libnccl.so.2],
  [[#include <nccl.h>
    #if NCCL_VERSION_CODE < NCCL_VERSION(2, 19, 0)
    #error "old"
    #endif]], [NCCL 2.19 or newer], [NCCL_HOME NCCL_ROOT NCCL_DIR EBROOTNCCL])
TR_CUDA_ADDON([CUDNN], [cudnn], [$with_cudnn], [cudnn_graph.h], [libcudnn.so.9],
  [[#include <cudnn_backend.h>
    #include <cudnn_graph.h>
    #if CUDNN_MAJOR < 9
    #error "old"
    #endif]], [cuDNN 9 or newer], [CUDNN_HOME CUDNN_ROOT CUDNN_PATH EBROOTCUDNN])

AS_IF([test $tr_have_CUDA = no], [CUDA_LIBS=], [
  CUDA_CPPFLAGS="-DHAVE_CUDA -DTR_CUDA_ARCHS=\\\"$tr_cuda_archs\\\" $CUDA_HEADERS"
  AS_IF([test $tr_have_NCCL = yes],
        [CUDA_CPPFLAGS="-DHAVE_NCCL $CUDA_CPPFLAGS"; tr_nccl_how="yes, $tr_nccl_dir"])
  AS_IF([test $tr_have_CUDNN = yes],
        [CUDA_CPPFLAGS="-DHAVE_CUDNN $CUDA_CPPFLAGS"; tr_cudnn_how="yes, $tr_cudnn_dir"])
  tr_cuda_how="$tr_cuda_dir, for sm_`AS_ECHO([$tr_cuda_archs]) | sed 's/,/, sm_/g'` and newer"])
tr_table="$tr_table
  m4_format([%-16s], [CUDA]) $tr_cuda_how
  m4_format([%-16s], [NCCL]) $tr_nccl_how
  m4_format([%-16s], [cuDNN]) $tr_cudnn_how"

# What make distcheck passes on.
for tr_word in cuda nccl cudnn cuda_arch; do
  eval "tr_value=\$with_$tr_word"
  tr_word=`AS_ECHO([$tr_word]) | tr _ -`
  AS_IF([test "x$tr_value" != xcheck],
        [CUDA_DISTCHECK_FLAGS="$CUDA_DISTCHECK_FLAGS --with-$tr_word=$tr_value"])
done
AC_SUBST([CUDA_DISTCHECK_FLAGS])
# Around an archive of which all members are wanted.
AC_SUBST([WHOLE], [-Wl,--whole-archive])
AC_SUBST([NO_WHOLE], [-Wl,--no-whole-archive])
AM_CONDITIONAL([HAVE_CUDA], [test $tr_have_CUDA = yes])
AM_CONDITIONAL([HAVE_NCCL], [test $tr_have_CUDA$tr_have_NCCL = yesyes])
AM_CONDITIONAL([HAVE_CUDNN], [test $tr_have_CUDA$tr_have_CUDNN = yesyes])
AM_CONDITIONAL([HAVE_CXX], [test $tr_have_CXX = yes])
AM_CONDITIONAL([HAVE_CUDA_HEADERS], [test $tr_have_CUDA_HEADERS = yes])
AM_CONDITIONAL([HAVE_CUDA_FAKES],
               [test $tr_have_CXX$tr_have_CUDA_HEADERS$tr_have_NCCL = yesyesyes])
])

# TR_CUDA_FIND: the first folder that has a whole toolkit, else the first that has its headers.
AC_DEFUN([TR_CUDA_FIND], [
AS_CASE([$with_cuda],
  [check | yes], [
    tr_nvcc=$NVCC
    AS_IF([test -z "$tr_nvcc"], [tr_nvcc=`command -v nvcc 2>/dev/null`])
    tr_nvcc=`readlink -f "${tr_nvcc:-/}" 2>/dev/null`
    set dummy "$CUDA_HOME" "$CUDA_PATH" "$CUDA_ROOT" "${tr_nvcc%/bin/nvcc}" /usr/local/cuda /usr],
  [set dummy "$with_cuda"])
shift
tr_headers_dir=
tr_cuda_lacks="no cuda_runtime_api.h and cublasLt.h"
for tr_cuda_dir; do
  AS_IF([test $tr_have_CUDA = yes || test -z "$tr_cuda_dir"], [continue])
  TR_CUDA_TRY
done
AS_IF([test $tr_have_CUDA = no], [tr_cuda_dir=$tr_headers_dir], [tr_cuda_dir=$tr_whole_dir])
AS_IF([test "x$with_cuda_arch" = xnone], [
  tr_have_CUDA=no
  tr_cuda_lacks="--with-cuda-arch=none leaves kernels out"
  tr_cuda_how="none: --with-cuda-arch=none; --backend cuda is refused"])
AS_CASE([$tr_cuda_dir], ["" | /usr], [], [CUDA_HEADERS="-isystem $tr_cuda_dir/include"])
])

# TR_CUDA_TRY: what lies under $tr_cuda_dir.
AC_DEFUN([TR_CUDA_TRY], [
tr_save_CPPFLAGS=$CPPFLAGS
tr_save_LIBS=$LIBS
# gcc must not be told of /usr/include: the headers of C++ look for those of C behind them.
AS_IF([test "$tr_cuda_dir" != /usr], [CPPFLAGS="$CPPFLAGS -isystem $tr_cuda_dir/include"])
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>
    #include <cublasLt.h>
    #if CUDART_VERSION < 11080
    #error "old"
    #endif]], [])], [
  tr_have_CUDA_HEADERS=yes
  AS_IF([test -z "$tr_headers_dir"], [tr_headers_dir=$tr_cuda_dir])
  tr_try_nvcc=$NVCC
  AS_IF([test -z "$tr_try_nvcc"], [tr_try_nvcc=$tr_cuda_dir/bin/nvcc])
  tr_cudart="-lcudart_static -ldl -lrt -lpthread"
  AS_IF([test "x$enable_shared_cudart" = xyes], [tr_cudart=-lcudart])
  for tr_sub in lib64 targets/`uname -m`-linux/lib lib lib/`uname -m`-linux-gnu; do
    AS_IF([test $tr_have_CUDA = yes || test ! -d "$tr_cuda_dir/$tr_sub"], [continue])
    tr_libs="-L$tr_cuda_dir/$tr_sub -Wl,-rpath,$tr_cuda_dir/$tr_sub"
    LIBS="$tr_libs $tr_cudart $tr_save_LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]],
                                    [[int n = 0; return (int)cudaGetDeviceCount(&n);]])], [
      AS_IF([$tr_try_nvcc --version >/dev/null 2>&1], [
        tr_have_CUDA=yes
        tr_whole_dir=$tr_cuda_dir
        NVCC=$tr_try_nvcc
        CUDA_LIBS="$tr_libs $tr_cudart"], [tr_cuda_lacks="no nvcc that starts"])],
      [tr_cuda_lacks="no cudart that links"])
  done])
CPPFLAGS=$tr_save_CPPFLAGS
LIBS=$tr_save_LIBS
])

# TR_CUDA_ADDON(NAME, option, value, header, file to open, program, what is wanted, environment variables):
# the headers of a library that is opened at run time, and the path to it.
AC_DEFUN([TR_CUDA_ADDON], [
AS_IF([test "x$3" != xno && test $tr_have_CUDA_HEADERS = yes], [
  AC_MSG_CHECKING([for $7])
  AS_CASE([$3],
    [check | yes], [
      set dummy
      for tr_variable in $8; do
        eval "tr_dir=\${$tr_variable-}"
        AS_IF([test -n "$tr_dir"], [set "$[]@" "$tr_dir"])
      done
      set "$[]@" "$tr_cuda_dir" /usr],
    [set dummy "$3"])
  shift
  for tr_dir; do
    # In other folders the compiler looks anyway: what lies there is not what was asked for.
    AS_IF([test $tr_have_$1 = yes || { test "$tr_dir" != /usr && test ! -e "$tr_dir/include/$4"; }],
          [continue])
    AS_CASE(["$tr_dir $CUDA_HEADERS "],
      ["/usr "* | "$tr_dir "*"-isystem $tr_dir/include "*], [tr_headers=$CUDA_HEADERS],
      [tr_headers="-isystem $tr_dir/include $CUDA_HEADERS"])
    tr_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $tr_headers"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([$6], [])], [
      tr_have_$1=yes
      tr_$2_dir=$tr_dir
      CUDA_HEADERS=$tr_headers
      for tr_sub in lib64 targets/`uname -m`-linux/lib lib lib/`uname -m`-linux-gnu; do
        AS_IF([test -e "$tr_dir/$tr_sub/$5"], [
          AS_CASE(["$CUDA_LIBS "], [*"-rpath,$tr_dir/$tr_sub "*], [],
                  [CUDA_LIBS="$CUDA_LIBS -Wl,-rpath,$tr_dir/$tr_sub"])
          break])
      done])
    CPPFLAGS=$tr_save_CPPFLAGS
  done
  AC_MSG_RESULT([$tr_have_$1])])
AS_CASE([$3], [check | no], [],
  [AS_IF([test $tr_have_$1 = no], [AC_MSG_ERROR([--with-$2=$3: no headers of $7 there])])])
])

# TR_CUDA_ARCHS: $tr_cuda_archs is the list, CUDA_CODE what nvcc is told; nvcc must compile with it.
AC_DEFUN([TR_CUDA_ARCHS], [
tr_save_CPPFLAGS=$CPPFLAGS
CPPFLAGS="$CPPFLAGS $CUDA_HEADERS"
AC_MSG_CHECKING([which GPUs to make code for])
tr_known=`$NVCC --list-gpu-arch 2>/dev/null | sed 's/compute_//' | tr '\n' ' '`
tr_cuda_archs=
tr_newest=0
AS_CASE([$with_cuda_arch],
  [check], [tr_wanted="70 80 90"],
  [native], [TR_CUDA_NATIVE],
  [tr_wanted=`AS_ECHO(["$with_cuda_arch"]) | tr ',;' '  '`])
for tr_arch in $tr_wanted; do
  AS_CASE([" $tr_known "],
    [*" $tr_arch "*], [
      CUDA_CODE="$CUDA_CODE -gencode arch=compute_$tr_arch,code=sm_$tr_arch"
      tr_cuda_archs="$tr_cuda_archs${tr_cuda_archs:+,}$tr_arch"
      AS_IF([test "$tr_arch" -gt $tr_newest], [tr_newest=$tr_arch])],
    [AS_IF([test "$with_cuda_arch" != check],
      [AC_MSG_ERROR([--with-cuda-arch=$with_cuda_arch: $NVCC makes no code for $tr_arch, but for
$tr_known])])])
done
AS_IF([test -n "$tr_cuda_archs"],
  [AC_MSG_RESULT([$tr_cuda_archs])
   TR_CUDA_COMPILES],
  [test "$with_cuda_arch" = native],
  [AC_MSG_RESULT([none: $tr_cuda_lacks])
   tr_have_CUDA=no
   tr_cuda_how="none: $tr_cuda_lacks"],
  [AC_MSG_ERROR([$NVCC makes code for none of 70, 80 and 90: name others with --with-cuda-arch])])
CPPFLAGS=$tr_save_CPPFLAGS
])

# TR_CUDA_NATIVE: $tr_wanted is what to make code for so that the GPUs of this machine have some: their own, or the
# newest older code that nvcc knows.  Those before sm_70 have no kernels here.
AC_DEFUN([TR_CUDA_NATIVE], [
tr_wanted=
tr_cuda_lacks="nvidia-smi names no GPU"
for tr_gpu in `timeout 10 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>&AS_MESSAGE_LOG_FD |
    sed -n 's/^\(@<:@0-9@:>@*\)\.\(@<:@0-9@:>@\)$/\1\2/p' | sort -un`; do
  tr_cuda_lacks="nvcc makes no code for sm_$tr_gpu, or for nothing before sm_70"
  tr_best=0
  for tr_arch in $tr_known; do
    AS_IF([test "$tr_arch" -ge 70 && test "$tr_arch" -le "$tr_gpu" && test "$tr_arch" -gt $tr_best],
          [tr_best=$tr_arch])
  done
  AS_CASE([" $tr_wanted "], [*" $tr_best "*], [],
          [AS_IF([test $tr_best -gt 0], [tr_wanted="$tr_wanted $tr_best"])])
done
])

# TR_CUDA_COMPILES: the newest of $tr_cuda_archs as PTX, too, and whether nvcc compiles a kernel.
AC_DEFUN([TR_CUDA_COMPILES], [
CUDA_CODE="$CUDA_CODE -gencode arch=compute_$tr_newest,code=compute_$tr_newest"

# Code for three kinds of GPUs and lines for profilers take a sixth of the room, and drivers from CUDA 12.4
# on know how; those of 13 are newer.
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>
    #if CUDART_VERSION < 13000
    #error "drivers may be old"
    #endif]], [])], [CUDA_CODE="$CUDA_CODE --compress-mode=size"])

AC_MSG_CHECKING([whether $NVCC compiles])
cat >conftest.cu <<'_ACEOF'
__global__ void one(float *x) { x@<:@threadIdx.x@:>@ = 1.0f; }
extern "C" void start(float *x) { one<<<1, 32>>>(x); }
_ACEOF
NVCC_HOST=${NVCC_CCBIN:+-ccbin "$NVCC_CCBIN"}
AS_IF([$NVCC $NVCC_HOST $CUDA_CODE -c -o conftest.o conftest.cu \
         >&AS_MESSAGE_LOG_FD 2>&1],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no])
   tr_have_CUDA=no
   tr_cuda_lacks="$NVCC does not compile a kernel; NVCC_CCBIN= names a host compiler that it takes"
   tr_cuda_how="none: $tr_cuda_lacks"])
rm -f conftest.cu conftest.o
])
