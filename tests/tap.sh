# shellcheck shell=sh disable=SC2154,SC2034
# What every shell test sources: TAP, a folder of its own, and how to start ranks.
#
#   . "$srcdir/tests/tap.sh"; plan 3; check "name" command...; done_testing
#
# $work is a fresh folder, removed at the end.  $trireme is the program under test.

set -u
trireme=$PWD/trireme
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-test.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tap_count=0
tap_bad=0

plan() { echo "1..$1"; }
skip_all() { echo "1..0 # SKIP $1"; exit 0; }
# Long tests that rarely find anything.
only_with_all() { [ -n "${TR_TEST_ALL:-}" ] || skip_all "tests/run --all"; }

ok() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1"; }
not_ok() {
    tap_count=$((tap_count + 1))
    tap_bad=$((tap_bad + 1))
    echo "not ok $tap_count - $1"
    shift
    for line in "$@"; do echo "$line" | sed 's/^/# /'; done
}
skip() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1 # SKIP $2"; }

# check NAME COMMAND...: passes when the command succeeds; shows what it printed when not.
check() {
    tap_name=$1
    shift
    if tap_out=$("$@" 2>&1); then ok "$tap_name"; else not_ok "$tap_name" "$* gave $?" "$tap_out"; fi
}

# fails NAME CODE TEXT COMMAND...: passes when the command exits with CODE and prints TEXT
# somewhere.
fails() {
    tap_name=$1 tap_code=$2 tap_text=$3
    shift 3
    tap_out=$("$@" 2>&1)
    tap_got=$?
    case $tap_got,$tap_out in
    "$tap_code",*"$tap_text"*) ok "$tap_name" ;;
    *) not_ok "$tap_name" "exit code $tap_got, expected $tap_code with: $tap_text" "$tap_out" ;;
    esac
}

# ranks N COMMAND...: the command on N ranks, as tests/mpirun starts test programs.
ranks() {
    tap_ranks=$1
    shift
    TR_TEST_RANKS=$tap_ranks "$srcdir/tests/mpirun" --ranks "$tap_ranks" "$@"
}

# python_with MODULE...: the first python that has them all, PYTHON first and then those of the path
# and of the system, which may have what the first one of the path lacks.
python_with() {
    for tap_python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
        "$tap_python" -c "import $(echo "$*" | tr ' ' ',')" 2>/dev/null && { echo "$tap_python"; return; }
    done
    return 1
}
