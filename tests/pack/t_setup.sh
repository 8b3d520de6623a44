#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# For which GPUs jobs/setup and configure make kernels: a driver and a toolkit that are none, of a
# driver, modules and options in every combination that matters; and when jobs/setup installs and
# configures again.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
srcdir=$(cd "$srcdir" && pwd)
for tool in autoconf aclocal pkg-config cc; do
    command -v $tool >/dev/null 2>&1 || skip_all "$tool is not installed"
done
plan 26

mkdir -p "$work/bin"
# nvidia-smi of this machine must not answer: a line for each GPU of $GPUS, or no driver.
cat >"$work/bin/nvidia-smi" <<'END'
#!/bin/sh
[ -n "${GPUS:-}" ] || { echo "there is no driver"; exit 9; }
case "$*" in *compute_cap*) for gpu in $GPUS; do echo "$gpu"; done ;; esac
END
chmod +x "$work/bin/nvidia-smi"
PATH=$work/bin:$PATH
unset LOADEDMODULES GPUS PACKAGES BUILD NVCC CUDA_HOME CUDA_PATH CUDA_ROOT

# decided OPTIONS VARIABLE=VALUE... -- OPTION...: jobs/setup would configure with OPTIONS.
decided() {
    wanted=$1
    shift
    set_to=
    while [ "$1" != -- ]; do
        set_to="$set_to $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # words
    env $set_to "$srcdir/jobs/setup" --dry-run "$@" >"$work/decided"
    cat "$work/decided"
    grep -qx "configure${wanted:+ $wanted}" "$work/decided"
}
check "no driver: no kernels" decided --with-cuda-arch=none --
check "a driver: the GPUs here" decided --with-cuda-arch=native GPUS=9.0 --
check "other options change nothing" \
    decided "--with-cuda-arch=native --enable-developer" GPUS=9.0 -- --enable-developer
check "an architecture that is named" decided --with-cuda-arch=80 GPUS=9.0 -- --with-cuda-arch=80
check "so without a driver" decided --with-cuda-arch=80 -- --with-cuda-arch=80
check "--without-cuda" decided --without-cuda GPUS=9.0 -- --without-cuda
check "a compiler that is named" decided NVCC=false GPUS=9.0 -- NVCC=false
check "--with-cuda without a driver: what configure takes" decided --with-cuda -- --with-cuda
check "--with-cuda=DIR with one: the GPUs here" \
    decided "--with-cuda-arch=native --with-cuda=/opt/cuda" GPUS=8.0 -- --with-cuda=/opt/cuda
check "a module of CUDA without a driver" decided "" LOADEDMODULES=gcc/13:cuda/12.4 --
check "a module of NVIDIA's compilers" decided "" LOADEDMODULES=nvhpc/24.3:hdf5 --
check "other modules ask for no GPU" decided --with-cuda-arch=none LOADEDMODULES=gcc/13:openmpi/4 --
check "for other machines a driver does not say which" decided --disable-native GPUS=8.6 -- \
    --disable-native

# configure alone, with a toolkit whose compiler notes what it does.
mkdir -p "$work/m4" "$work/cuda/include" "$work/cuda/lib64" "$work/cuda/bin" "$work/test"
cp "$srcdir/m4/tr_cuda.m4" "$work/m4"
cat >"$work/configure.ac" <<'END'
AC_INIT([test], [1])
AC_CONFIG_MACRO_DIR([m4])
AC_PROG_CC
tr_table= tr_have_CXX=no
TR_CUDA
AC_CONFIG_FILES([flags])
AC_OUTPUT
END
echo 'archs="@CUDA_ARCHS@" code="@CUDA_CODE@" lacks="@CUDA_LACKS@"' >"$work/flags.in"
printf '#define CUDART_VERSION 12040\nint cudaGetDeviceCount(int *);\n' \
    >"$work/cuda/include/cuda_runtime_api.h"
: >"$work/cuda/include/cublasLt.h"
echo 'int cudaGetDeviceCount(int *n) { return *n; }' >"$work/cudart.c"
cc -c -o "$work/cudart.o" "$work/cudart.c" &&
    ar cr "$work/cuda/lib64/libcudart_static.a" "$work/cudart.o" || exit 1
cat >"$work/cuda/bin/nvcc" <<'END'
#!/bin/sh
case $1 in
--version) ;;
--list-gpu-arch) printf 'compute_%s\n' 60 75 80 90 ;;
*) echo "$*" >>"$NVCC_LOG" ;;
esac
END
chmod +x "$work/cuda/bin/nvcc"
NVCC_LOG=$work/nvcc.log CUDA_HOME=$work/cuda
export NVCC_LOG CUDA_HOME
made() {
    (cd "$work" && aclocal -I m4 && autoconf) >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
}
check "the macros make a configure" made

# kernels ARCHS RUNS GPUS OPTION...: code is made for ARCHS, and nvcc has compiled RUNS times.
kernels() {
    archs_wanted=$1 runs=$2 GPUS=$3
    export GPUS
    shift 3
    : >"$NVCC_LOG"
    (cd "$work/test" && rm -rf ./* && ../configure -q "$@") >"$work/out" 2>&1 ||
        { cat "$work/out"; return 1; }
    cat "$work/test/flags" "$NVCC_LOG"
    # shellcheck disable=SC1091
    . "$work/test/flags"
    [ "$archs" = "$archs_wanted" ] && [ "$(wc -l <"$NVCC_LOG")" -eq "$runs" ] || return 1
    for arch in $(echo "$archs" | tr , ' '); do
        case $code in *"code=sm_$arch"*) ;; *) return 1 ;; esac
    done
}
lacking() {
    kernels "" 0 "$2" --with-cuda-arch=native
    case $lacks in *"$1"*) ;; *) return 1 ;; esac
}
check "configure as it is: all that nvcc knows" kernels 80,90 1 ""
check "none: nvcc compiles nothing" kernels "" 0 9.0 --with-cuda-arch=none
check "native: the architecture of the driver" kernels 80 1 8.0 --with-cuda-arch=native
check "each of two GPUs, once" kernels 75,90 1 "9.0 7.5 9.0" --with-cuda-arch=native
check "a GPU newer than nvcc: the newest older code" kernels 90 1 12.0 --with-cuda-arch=native
check "a GPU older than the kernels: none, and why" lacking sm_61 6.1
check "native without a driver: none, and why" lacking "nvidia-smi names no GPU" ""
GPUS=
fails "but --with-cuda asks for them" 1 "nvidia-smi names no GPU" \
    sh -c "cd '$work/test' && ../configure -q --with-cuda='$work/cuda' --with-cuda-arch=native"

# A tree of which only jobs/setup is real, with packages that are names in a file.
tree=$work/tree
mkdir -p "$tree/jobs" "$tree/tests"
cp "$srcdir/jobs/setup" "$tree/jobs"
printf 'first # what it is\n\nsecond\n' >"$tree/jobs/packages"
echo third >"$tree/tests/packages"
echo first >"$work/installed"
cat >"$tree/configure" <<'END'
#!/bin/sh
echo "configure $*" >>"$CALLS"
printf 'CUDA_ARCHS = \nwith_cuda = check\nwith_cuda_arch = none\nall:\n' >Makefile
printf '#!/bin/sh\necho "again $*" >>"$CALLS"\n' >config.status
chmod +x config.status
END
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
echo "apt-get $*" >>"$CALLS"
for word; do case $word in second | third) echo "$word" >>"$INSTALLED" ;; esac; done
END
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
for word; do if grep -qx "$word" "$INSTALLED"; then echo "$word installed"; fi; done
END
printf '#!/bin/sh\nshift\nexec "$@"\n' >"$work/bin/sudo" # -n
chmod +x "$tree/configure" "$work/bin"/*
CALLS=$work/calls INSTALLED=$work/installed
export CALLS INSTALLED
# calls PATTERN [LISTS]: what jobs/setup starts, in one line.
calls() {
    : >"$CALLS"
    PACKAGES=${2:-} "$tree/jobs/setup" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
    cat "$CALLS" "$work/said"
    # shellcheck disable=SC2254 # a pattern
    case $(tr '\n' ';' <"$CALLS") in $1) ;; *) return 1 ;; esac
}
both='jobs/packages tests/packages'
first() {
    calls 'apt-get *install*\ second;configure -q --with-cuda-arch=none;' &&
        tail -n 1 "$work/said" | grep -q 'no kernels for GPUs.*jobs/setup --with-cuda-arch='
}
check "the first time: what is missing, configure, and what was left out" first
check "nothing new: neither" calls ""
check "the list of the tests: its packages, and configure as before" \
    calls 'apt-get *install*\ third;again --recheck;again ;' "$both"
check "then neither with it nor without" calls ""
[ "$tap_bad" -eq 0 ]
