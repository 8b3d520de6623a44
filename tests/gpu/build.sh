# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
# Where tests/gpu/run has its programs from, and how it starts ranks.  Wants $top, $results,
# $given_build.
stage=${STAGE:-$top/gpu-stage}
prefix=${PREFIX:-/tmp/trireme-gpu.$(id -u)}

# What the programs were made from: sources as they are, whatever git says.
fingerprint() {
    find src kernels tests/codec tests/device tests/comm tests/cuda tests/gpu tests/check.h benchmarks -type f 2>/dev/null |
        grep -E '\.(c|h|def|cu|cuh|cc)$' | LC_ALL=C sort | xargs cat | cksum
}

# Packages that tests/gpu/stage has brought along, for a host that has none of them.
unpack() {
    [ -d "$stage/debs" ] || return 0
    mkdir -p "$prefix"
    for deb in "$stage"/debs/*.deb; do
        if command -v dpkg-deb >/dev/null 2>&1; then
            dpkg-deb -x "$deb" "$prefix"
        else
            (cd "$prefix" && ar p "$deb" data.tar.xz | tar -xJf -)
        fi
    done
    libs=$prefix/usr/lib/x86_64-linux-gnu
    for pair in mpicc:opal_wrapper mpiexec:orterun mpirun:orterun; do
        [ -e "$prefix/usr/bin/${pair%:*}" ] || ln -sf "${pair#*:}" "$prefix/usr/bin/${pair%:*}"
    done
    # The wrapper takes its name from the program's.
    [ ! -e "$prefix/usr/bin/mpicc.openmpi" ] || ln -sf mpicc.openmpi "$prefix/usr/bin/mpicc"
    OPAL_PREFIX=$prefix/usr
    OPAL_LIBDIR=$libs/openmpi/lib
    OPAL_PKGLIBDIR=$libs/openmpi/lib/openmpi3
    OPAL_INCLUDEDIR=$libs/openmpi/include
    OPAL_DATADIR=$prefix/usr/share
    OPAL_PKGDATADIR=$prefix/usr/share/openmpi
    OPAL_SYSCONFDIR=$prefix/etc
    PMIX_PREFIX=$libs/pmix2
    PMIX_MCA_pcompress_base_silence_warning=1
    LD_LIBRARY_PATH=$libs:$libs/openmpi/lib:$libs/hdf5/openmpi:$prefix/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    PATH=$prefix/usr/bin:$PATH
    export OPAL_PREFIX OPAL_LIBDIR OPAL_PKGLIBDIR OPAL_INCLUDEDIR OPAL_DATADIR OPAL_PKGDATADIR \
        OPAL_SYSCONFDIR PMIX_PREFIX PMIX_MCA_pcompress_base_silence_warning LD_LIBRARY_PATH PATH
}

# Where libraries of NVIDIA's may lie besides where modules say: the toolkit's folder, and Python's
# wheels.
find_cuda() {
    for folder in "${CUDA_HOME:-/usr/local/cuda}"/lib64 /usr/local/nvidia/lib64 \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)"/nvidia/*/lib; do
        [ ! -d "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    done
    export LD_LIBRARY_PATH
}

jobs() { getconf _NPROCESSORS_ONLN; }

broken() {
    tail -n 20 "$results/build.log"
    cp "${1:-/dev/null}" "$results/config.log" 2>/dev/null || :
    pack
    stop 70 "it does not build; see build.log and config.log in $archive"
}

# The rest of the programs, where the folder is one that make knows.  A node may have all of them
# and no compiler.
make_programs() {
    [ -f "$build/Makefile" ] && command -v make >/dev/null 2>&1 || return 0
    say "making what is missing in $build"
    make -s -C "$build" -j "$(jobs)" gpu-programs >>"$results/build.log" 2>&1 && return
    have_programs >/dev/null || broken "$build/config.log"
    say "make fails there (build.log in the archive); the programs are taken as they are"
}

# Where nothing was built: what the loaded modules offer must do, for this GPU alone, which is
# quickest.
configure_here() {
    if [ ! -x configure ] && [ -f "$stage/autotools.tar" ]; then
        tar -xf "$stage/autotools.tar"
        # Older than what they are made from, make would want automake to make them again.
        touch aclocal.m4
        sleep 1
        touch configure Makefile.in
    fi
    [ -x configure ] || ./bootstrap >>"$results/build.log" 2>&1 || broken
    mkdir -p "$build"
    set -- -q --with-cuda ${CONFIGURE_OPTIONS:-}
    arch=${ARCH:-$(timeout 10 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/\.//p')}
    [ -z "$arch" ] || set -- "$@" --with-cuda-arch="$arch"
    if [ -d "$stage/debs" ]; then
        set -- "$@" --with-hdf5="$prefix/usr/lib/x86_64-linux-gnu/hdf5/openmpi" \
            CPPFLAGS="-I$prefix/usr/include" LDFLAGS="-L$prefix/usr/lib/x86_64-linux-gnu"
    fi
    [ -f "$build/Makefile" ] || (cd "$build" && "$top/configure" "$@") >>"$results/build.log" 2>&1 ||
        broken "$build/config.log"
}

find_build() {
    : >"$results/build.log"
    if [ -n "$given_build" ]; then
        [ -d "$given_build" ] || stop 64 "there is no folder $given_build; --build names one in which trireme was made"
        build=$(cd "$given_build" && pwd)
    elif [ -f "$stage/build/of" ] && [ "$(cat "$stage/build/of")" = "$(fingerprint)" ]; then
        build=$stage/build
        say "programs as tests/gpu/stage built them"
    else
        build=$prefix/build
        configure_here
    fi
    make_programs
    export build
}

# What the parts start.
programs='trireme tests/device/t_ops tests/device/t_relative tests/codec/t_codec tests/codec/t_delta
    tests/gpu/t_nccl benchmarks/bench_gpu benchmarks/bench_step'
have_programs() {
    absent=
    for program in $programs; do
        [ -x "$build/$program" ] || absent="$absent $program"
    done
    [ -z "$absent" ] && return
    echo "not in $build:$absent; \`make gpu-programs' makes them, t_nccl where configure finds NCCL"
    return 1
}

# One word that starts ranks as `mpiexec -n N PROGRAM` does.  A step of Slurm sees all GPUs of the
# job, and may have more ranks than the job has tasks.
srun_word() {
    type=${SLURM_MPI_TYPE:-$(srun --mpi=list 2>&1 | grep -o 'pmix' | head -n 1)}
    {
        echo '#!/bin/sh'
        echo "exec srun ${type:+--mpi=$type} --overlap --overcommit --cpu-bind=none --gpu-bind=none \"\$@\""
    } >"$results/srun"
    chmod +x "$results/srun"
    echo "$results/srun"
}

launcher() {
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_mca_base_component_show_load_errors=0
    if [ -z "${MPIEXEC:-}" ] && [ -n "${SLURM_JOB_ID:-}" ] && command -v srun >/dev/null 2>&1; then
        MPIEXEC=$(srun_word)
    elif [ -z "${MPIEXEC:-}" ]; then
        MPIEXEC=$(sed -n 's/^MPIEXEC = //p' "$build/Makefile" 2>/dev/null) || :
        MPIEXEC=${MPIEXEC:-mpiexec}
    fi
    # One host needs neither ssh nor a fast network.
    if [ "${SLURM_JOB_NUM_NODES:-1}" -eq 1 ]; then
        OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-/bin/false}
        OMPI_MCA_pml=${OMPI_MCA_pml:-ob1}
        OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader}
        export OMPI_MCA_plm_rsh_agent OMPI_MCA_pml OMPI_MCA_btl
    fi
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_mca_base_component_show_load_errors MPIEXEC
}
