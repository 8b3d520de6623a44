#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# tests/gpu/run over the fakes of CUDA and NCCL: a build whose programs are those over the fakes, a
# driver and tools that are scripts.  All is well; then something fails on purpose in each part, the
# other parts still report, and the cause can be read in the archive whose name is the last line.
. "$srcdir/tests/tap.sh"
[ -x tests/cuda/trireme-fake ] || skip_all "there are no headers of CUDA and NCCL, or no C++ compiler"
plan $((18 + ${TR_TEST_ALL:+3} + 0))
unset CUDA_VISIBLE_DEVICES SLURM_JOB_ID BUILD OUT STAGE

# ---- a host that has a GPU ----

# program NAME FILE: the build's NAME is FILE; $work/plant/NAME, where there is one, comes before.
program() {
    mkdir -p "$work/build/$(dirname "$1")" "$work/plant/$(dirname "$1")"
    cat >"$work/build/$1" <<END
#!/bin/sh
[ ! -f '$work/plant/$1' ] || . '$work/plant/$1'
exec '$PWD/$2' "\$@"
END
    chmod +x "$work/build/$1"
}
program trireme tests/cuda/trireme-fake
program tests/device/t_ops tests/cuda/t_cuda_ops
program tests/device/t_relative tests/cuda/t_cuda_relative
program tests/codec/t_codec tests/gpu/fake_codec
program tests/codec/t_delta tests/gpu/fake_delta
program tests/gpu/t_nccl tests/cuda/t_nccl
program benchmarks/bench_gpu tests/gpu/fake_bench_gpu
program benchmarks/bench_step tests/gpu/fake_bench_step
cp tests/gpu/backtrace.so "$work/build/tests/gpu"

tool() {
    cat >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
mkdir "$work/bin"
tool nvidia-smi <<END
#!/bin/sh
case "\$*" in
*--query-gpu=memory.total*) echo "81559, 9.0, NVIDIA H100 80GB HBM3" ;;
*--query-gpu=timestamp*) echo "timestamp, clocks"; exec sleep 1000 ;;
*-L*) echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1b000000-0000-0000-0000-000000000000)" ;;
*) echo "| NVIDIA-SMI 580.1  Driver Version: 580.1  CUDA Version: 13.0 |" ;;
esac
END
# What the driver says, once a program of the build has let it.
tool dmesg <<END
#!/bin/sh
echo "[1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module"
cat '$work/xid' 2>/dev/null
exit 0
END
tool compute-sanitizer <<END
#!/bin/sh
[ ! -f '$work/plant/sanitizer' ] || . '$work/plant/sanitizer'
while case \$1 in --tool | --error-exitcode) ;; *) false ;; esac; do shift 2; done
exec "\$@"
END
tool python3 <<END
#!/bin/sh
[ ! -f '$work/plant/python3' ] || . '$work/plant/python3'
case \$2 in
*torch*) echo "No module named torch" >&2; exit 1 ;;
esac
END
PATH=$work/bin:$PATH
export PATH

# ---- running it ----

# gpu WORD...: its exit code in $code, what it printed in $work/log, and $archive unpacked in
# $work/run.
gpu() {
    rm -rf "$work/run" "$work/out" "$work/xid"
    sh "$srcdir/tests/gpu/run" --build "$work/build" --out "$work/out" --scale 64 "$@" >"$work/log" 2>&1
    code=$?
    archive=$(tail -n 1 "$work/log" | sed -n 's/.*: \(\/.*\.tar\.gz\) (.*/\1/p')
    [ -f "$archive" ] && tar -xzf "$archive" -C "$work"
}
# plant PROGRAM: what stands on standard input happens before it, until the next gpu() is over.
plant() { cat >"$work/plant/$1"; }
# planted WORD...: as gpu; the plants are taken out.
planted() {
    gpu "$@"
    find "$work/plant" -type f -exec rm -f {} +
}

# ended CODE; says TEXT: in FAILURES.txt of the archive; both show what there was instead.
ended() {
    [ "$code" -eq "$1" ] && return
    echo "exit code $code, not $1"
    tail -n 30 "$work/log"
    return 1
}
says() {
    grep -q -e "$1" "$work/run/FAILURES.txt" && return
    echo "not there: $1"
    cat "$work/run/FAILURES.txt"
    return 1
}
has() { grep -q -e "$1" "$work/run/$2" && return; echo "not in $2: $1"; cat "$work/run/$2"; return 1; }

# Not equality, whose runs take longest: some of its checks pass below.
small="ops:fill,sumsq transport:2 sanitizer:fill kernels:copy steps peers"

# ---- all is well ----

well() {
    gpu $small
    ended 0 && [ ! -s "$work/run/FAILURES.txt" ] && ! grep -q '^not ok' "$work/run"/*.log &&
        has '^ok - operations: sumsq in bf16, trial 0: inout fp64\[1\] in bf16\[' ops.log &&
        has '^ok - 2 ranks on one GPU: ' transport.log &&
        has '^ok - racecheck fill: fill in fp32' sanitizer.log && has '"part": "copy"' results.jsonl &&
        has '"bench": "step"' results.jsonl && has '# SKIP' peers.log &&
        has '^| ops | passed | [0-9]* | [1-9][0-9]* | 0 | 0 |' table.txt &&
        has 'Driver Version: 580.1' hardware.txt && has '^ *NCCL' versions.txt &&
        has '^== .*--hidden-size 64' plan.txt
}
check "every part passes, and all that it learns is in the archive" well

# ---- what is missing ----

no_gpu() {
    FAKE_CUDA_DEVICES=0 gpu $small
    ended 69 && says 'not ok - the program opens the GPU' && says 'no GPU is here: the driver shows none' && [ ! -f "$work/run/ops.log" ]
}
check "no GPU is a failure, and the end" no_gpu
no_backend() {
    plant tests/device/t_ops <<END
exec '$PWD/tests/device/t_ops' --each none fill
END
    planted $small
    ended 69 && says 'this program has a backend none'
}
check "a program without CUDA says so, and that is the end" no_backend

# The others go on: minutes on a GPU are scarce.
no_library() {
    plant trireme <<'END'
[ "$1" != version ] || { echo "  NCCL  2.27.3; here not to be opened here"; exit; }
END
    mv "$work/build/tests/gpu/t_nccl" "$work/t_nccl"
    planted ops:fill transport:1
    mv "$work/t_nccl" "$work/build/tests/gpu/t_nccl"
    ended 1 && says 'not ok - NCCL: .*not to be opened' && says 'not ok - cuBLAS: this program was built without' &&
        says 'not in .*/build: tests/gpu/t_nccl' && says 'transport: not ok - 1 ranks' && has '^ok - operations: fill' ops.log
}
check "a library or a program that is not there is a failure" no_library

no_programs() {
    mv "$work/build/tests/device/t_ops" "$work/t_ops"
    gpu ops:fill
    mv "$work/t_ops" "$work/build/tests/device/t_ops"
    ended 70 && says 'not in .*/build: tests/device/t_ops'
}
check "no programs, and the end" no_programs
fails "a part that does not exist" 64 "there is no part 'opps'; they are: host ops" \
    sh "$srcdir/tests/gpu/run" --build "$work/build" opps
fails "a folder that does not exist" 64 "there is no folder /none" sh "$srcdir/tests/gpu/run" --build /none

# ---- something fails in each part ----

# A copy fails as it does after an illegal access, which ends the process; the driver says Xid 31.
plant tests/device/t_ops <<END
case \$* in *sumsq*) ;; *) exec '$PWD/tests/cuda/t_cuda_ops' "\$@" ;; esac
FAKE_CUDA_FAIL=cudaMemcpyAsync:500:700
export FAKE_CUDA_FAIL
echo "[2.0] NVRM: Xid (PCI:0000:1b:00): 31, pid=1, Ch 0, MMU Fault" >'$work/xid'
END
plant tests/codec/t_delta <<'END'
FAKE_CUDA_DEVICES=0
export FAKE_CUDA_DEVICES
END
plant tests/gpu/t_nccl <<'END'
FAKE_CUDA_FAIL=ncclAllReduce:3:3
export FAKE_CUDA_FAIL
echo "host:1:1 [0] init.cc:1 NCCL WARN Duplicate GPU detected" >"$(dirname "$NCCL_DEBUG_FILE")/host.1.log"
END
# The GPU computes something else.
plant trireme <<'END'
case "$*" in *--initial-loss-scale*--gpu-oversubscribe*) set -- "$@" --seed 4 ;; esac
END
plant sanitizer <<'END'
[ "$2" != racecheck ] || { echo "========= Error: Race reported between Write access"; exit 9; }
END
# What was measured before the end is kept.
plant benchmarks/bench_gpu <<'END'
echo '{"bench": "gpu", "part": "products", "what": "early", "way": "forward", "tflops": 1.0}'
FAKE_CUDA_FAIL=cudaEventElapsedTime:9:719
export FAKE_CUDA_FAIL
END
plant benchmarks/bench_step <<'END'
FAKE_CUDA_GIB=0
export FAKE_CUDA_GIB
END
plant python3 <<'END'
case $2 in *torch*) exit 0 ;; esac
case $1 in *pytorch_gpu.py) echo '{"bench": "pytorch_gpu", "model": "1.5B"}'; echo "RuntimeError: cuDNN" >&2; exit 1 ;; esac
END
planted ops:fill,sumsq,t_relative,t_codec,t_delta transport:2 equality:alone,fp16 sanitizer:fill kernels:products steps peers
check "all parts report" ended 1

broken_ops() {
    says '^ops: not ok - operations: sumsq in .*, trial [0-9]*: inout fp64' &&
        says 'the process ended with exit code' && says 'cudaError_t(700)' && says 'Xid (PCI:0000:1b:00): 31' &&
        [ "$(grep -c '^not ok - operations' "$work/run/ops.log")" -lt 9 ] &&
        [ "$(grep -c '^ok - operations: sumsq' "$work/run/ops.log")" -gt 50 ]
}
check "ops: what ends the process is one failure, and the next ones are tried" broken_ops
codecs() { says 'not ok - t_delta: ' && has '^ok - t_codec: ' ops.log && has '^ok - t_relative: ' ops.log; }
check "ops: codecs without the GPU are a failure" codecs
broken_transport() { says '^transport: not ok - 2 ranks on one GPU: ' && says 'NCCL WARN Duplicate GPU'; }
check "transport: a call of NCCL fails" broken_transport
broken_equality() { says 'not ok - training: fp16: ' && has '^ok - training: alone' equality.log; }
check "equality: other losses" broken_equality
broken_sanitizer() {
    says 'not ok - racecheck fill: exit code 9' && says 'Race reported' && has '^ok - memcheck fill: ' sanitizer.log
}
check "sanitizer: it finds something" broken_sanitizer
broken_kernels() {
    says '^kernels: not ok - products: exit code' && says 'cudaError_t(719)' &&
        has '"what": "early"' results.jsonl && has '| early |' table.txt
}
check "kernels: numbers from before the end are kept" broken_kernels
broken_steps() { says '^steps: not ok - tiny' && says 'cudaMalloc'; }
check "steps: no memory" broken_steps
broken_peers() { says 'RuntimeError: cuDNN' && has '"check": "PyTorch", "bench": "pytorch_gpu"' results.jsonl; }
check "peers: PyTorch fails" broken_peers

# Also when somebody has enough, or the job's time is over.
interrupted() {
    plant benchmarks/bench_step <<END
kill -TERM \$(cat '$work/pid')
sleep 100
END
    # shellcheck disable=SC2016 # for the other shell
    sh -c 'echo $$ >"$0"; exec sh "$@"' "$work/pid" "$srcdir/tests/gpu/run" --build "$work/build" --out "$work/out" \
        --scale 64 kernels:copy steps peers >"$work/log" 2>&1
    code=$?
    archive=$(tail -n 1 "$work/log" | sed -n 's/.*: \(\/.*\.tar\.gz\) (.*/\1/p')
    rm -rf "$work/run" "$work/plant/benchmarks/bench_step"
    tar -xzf "$archive" -C "$work" || { cat "$work/log"; return 1; }
    ended 1 && says 'the run was interrupted' && has '"part": "copy"' results.jsonl && [ ! -f "$work/run/peers.log" ]
}
check "interrupted" interrupted

usage_is_whole() {
    sh "$srcdir/tests/gpu/run" --help >"$work/help" && grep -q -- '--quick' "$work/help" &&
        grep -q 'sbatch' "$work/help" && ! grep -q 'set -eu' "$work/help"
}
check "--help says how" usage_is_whole

# ---- what takes long ----

[ -n "${TR_TEST_ALL:-}" ] || exit 0

# A transfer that never begins: the limit ends it, and each rank says where it was.
hung() {
    plant benchmarks/bench_step <<'END'
FAKE_CUDA_FAIL=hung_ncclAllReduce:1:1
export FAKE_CUDA_FAIL
END
    sed 's/^\*--query-gpu=memory.total.*/*--query-gpu=memory.total*) echo "81559, 9.0, NVIDIA H100"; echo "81559, 9.0, NVIDIA H100" ;;/' \
        "$work/bin/nvidia-smi" >"$work/bin/two"
    mv "$work/bin/nvidia-smi" "$work/one"
    mv "$work/bin/two" "$work/bin/nvidia-smi"
    chmod +x "$work/bin/nvidia-smi"
    FAKE_CUDA_DEVICES=2 planted --limit 20 steps peers
    mv "$work/one" "$work/bin/nvidia-smi"
    ended 1 && says 'not ok - tiny, 2 x [0-9]* samples of 32: it was ended after 20 s' && has SKIP peers.log
}
check "a step that hangs is ended" hung
where() { says 'signal 3 in process' && says 'tr_comm\|tr_cuda\|tr_step\|nccl' && [ -s "$work/run/hung.txt" ]; }
check "and says where it was" where

# Eight trials for each of six mixes of types.
quick_run() {
    gpu --quick ops:fill equality:alone steps
    ended 0 && [ "$(grep -c '^ok - operations: fill' "$work/run/ops.log")" -eq 48 ] && [ ! -f "$work/run/peers.log" ]
}
check "--quick" quick_run
