# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
# What tests/gpu/run keeps beside the logs, so that the cause of a failure can be read somewhere
# else: who this host is, what the driver says before and after, where programs died; and the
# archive of all.  Wants $results, $build, $top, $archive, and $smi_hangs, which is set when
# nvidia-smi is not to be asked.

# The driver and Slurm may hang: each question has a limit of its own.
ask() {
    echo "\$ $*"
    timeout -k 2 10 "$@" 2>&1 || echo "(exit code $?)"
    echo
}

# One question that it does not answer is enough.
ask_driver() {
    if [ -n "$smi_hangs" ]; then
        echo "nvidia-smi $*: not asked, since it hung before"
        return
    fi
    smi_began=$(now)
    ask nvidia-smi "$@"
    [ $(($(now) - smi_began)) -lt 10 ] || smi_hangs=yes
}

# What the driver says in the kernel's log, where it may be read: Xid numbers name the fault.
driver_messages() {
    { timeout 5 dmesg 2>&1 || timeout 5 journalctl -k -n 2000 --no-pager 2>&1 || :; } |
        grep -iE 'NVRM|xid|nvidia|nvlink|nvswitch|mce|out of memory|permitted' | tail -n 200
}

# Only what concerns the job, MPI and CUDA: no passwords or tokens that others put there.
surroundings() {
    env | LC_ALL=C sort | grep -E '^(SLURM_|SRUN_|CUDA|NVIDIA_|NCCL_|OMP_|OMPI_|PMI|UCX_|FI_|MPI|HWLOC_|TR|LD_|PATH=|LOADEDMODULES=)' |
        grep -viE '^[^=]*(token|secret|pass|jwt|cred|_key)[^=]*='
}

versions() {
    ask uname -a
    ask cat /etc/os-release
    ask git -C "$top" log -1 --format='%H %cd'
    ask "$build/trireme" version
    ask ldd "$build/trireme"
    for tool in nvcc gcc mpiexec srun python3 compute-sanitizer gdb; do
        if command -v "$tool" >/dev/null 2>&1; then ask "$tool" --version; else echo "no $tool"; fi
    done
    head -n 60 "$build/config.log" 2>/dev/null | grep '^  \$ ' || :
}

hardware() {
    ask_driver
    ask_driver -L
    ask_driver topo -m
    ask_driver nvlink -s
    ask_driver -q
    ask lscpu
    ask free -m
    ask df -h /dev/shm /tmp .
}

# Clocks, power, temperature and why clocks are low, every two seconds until the end.
begin_monitor() {
    monitor=
    [ -z "$smi_hangs" ] && command -v nvidia-smi >/dev/null 2>&1 || return 0
    nvidia-smi --query-gpu=timestamp,index,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used,utilization.gpu,clocks_throttle_reasons.active \
        --format=csv -l 2 >"$results/monitor.csv" 2>&1 &
    monitor=$!
}
end_monitor() {
    [ -z "$monitor" ] || kill "$monitor" 2>/dev/null || :
    monitor=
}

begin_evidence() {
    mkdir -p "$results/nccl" "$results/backtraces" "$results/tmp" "$results/logs"
    surroundings >"$results/environment.txt" 2>&1 || :
    versions >"$results/versions.txt" 2>&1 || :
    hardware >"$results/hardware.txt" 2>&1 || :
    driver_messages >"$results/driver.before" 2>&1 || :
    # Each process of NCCL writes a file of its own: versions, topology, what was chosen, warnings.
    export NCCL_DEBUG="${NCCL_DEBUG:-INFO}" NCCL_DEBUG_FILE="$results/nccl/%h.%p.log"
    # Cores of processes that map a GPU are huge.
    # shellcheck disable=SC3045 # where it is not known there are none
    ulimit -c 0 2>/dev/null || :
    if [ -f "$build/tests/gpu/backtrace.so" ]; then
        export TR_BACKTRACES="$results/backtraces" ASAN_OPTIONS="verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
        LD_PRELOAD=$build/tests/gpu/backtrace.so${LD_PRELOAD:+:$LD_PRELOAD}
        export LD_PRELOAD
        if command -v gdb >/dev/null 2>&1; then
            TR_GDB=$(command -v gdb)
            export TR_GDB
        fi
    else
        echo "no backtraces: $build/tests/gpu/backtrace.so is not there" >>"$results/versions.txt"
    fi
}

# Functions and lines for the addresses of programs that name none, "PROGRAM(+0x1234)[...]", come
# before them.
name_frames() {
    command -v addr2line >/dev/null 2>&1 || return 0
    sed -n 's/^\(\/[^(]*\)(+\(0x[0-9a-f]*\)).*/\1 \2/p' "$1" | while read -r program address; do
        addr2line -Cfpie "$program" "$address" 2>/dev/null || :
    done >"$results/tmp/frames"
    { head -n 1 "$1"; cat "$results/tmp/frames"; tail -n +2 "$1"; } >"$results/tmp/named"
    mv "$results/tmp/named" "$1"
}

# Each failure with what was said of it, in the order of the parts, then what else bears on it.
failures() {
    while read -r name _; do
        awk -v part="$name" '/^not ok/ { on = 1; print part ": " $0; next }
            /^#!/ || (/^#/ && on) { print "    " $0; next }
            { on = 0 }' "$results/$name.log"
    done <"$results/parts"
    if [ -s "$results/driver.new" ]; then
        printf '\nThe driver has said since the start:\n'
        cat "$results/driver.new"
    fi
    for file in "$results"/backtraces/*.txt; do
        [ ! -f "$file" ] || { printf '\n%s:\n' "backtraces/${file##*/}"; head -n 20 "$file"; }
    done
    if [ -s "$results/hung.txt" ]; then
        printf '\nAt a limit:\n'
        head -n 40 "$results/hung.txt"
    fi
    if grep -lE 'NCCL WARN' "$results"/nccl/* >"$results/tmp/warned" 2>/dev/null; then
        printf '\nNCCL warns:\n'
        xargs grep -hE 'NCCL WARN' <"$results/tmp/warned" | head -n 20
    fi
}

end_evidence() {
    unset LD_PRELOAD
    driver_messages >"$results/driver.after" 2>&1 || :
    diff "$results/driver.before" "$results/driver.after" | sed -n 's/^> //p' >"$results/driver.new" || :
    # Where a process is stuck in the driver, so would this one be.
    ! grep -q 'do not die of KILL' "$results/hung.txt" 2>/dev/null || smi_hangs=yes
    ask_driver -q >"$results/hardware.after" 2>&1 || :
    for file in "$results"/backtraces/*.txt; do
        [ ! -f "$file" ] || name_frames "$file"
    done
    failures >"$results/FAILURES.txt" 2>/dev/null || :
    rm -rf "$results/tmp"
}

pack() {
    tar -czf "$archive" -C "$(dirname "$results")" "$(basename "$results")" &&
        say "all of it, to be sent to whoever asks: $archive ($(du -k "$archive" | cut -f 1) KiB)"
}
