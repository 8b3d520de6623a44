# shellcheck shell=sh disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause
# Lmod and Environment Modules, side by side.  Debian installs one or the other, so the one that is
# not installed is fetched by apt and unpacked into $builddir/tests/pack/root.  Source after tap.sh.
#
#   module_systems                     sets lmod and modules: what to run, or empty; and no_modules
#   module_run SYSTEM SCRIPT           runs lines of sh with a `module` of that system, and little else

no_modules='neither installed nor to be had from apt'

# first FILE...: the first of these that is there.
first() {
    for first_file; do
        if [ -f "$first_file" ]; then
            echo "$first_file"
            return
        fi
    done
}

find_modules() {
    module_root=$(cd "${builddir:-.}" && pwd)/tests/pack/root
    lmod=$(first "${LMOD_CMD:-}" /usr/share/lmod/lmod/libexec/lmod "$module_root/usr/share/lmod/lmod/libexec/lmod")
    modules=$(first "${MODULES_CMD:-}" /usr/lib/*/modulecmd.tcl /usr/share/Modules/libexec/modulecmd.tcl \
        "$module_root"/usr/lib/*/modulecmd.tcl)
}

# unpack PACKAGE: into $module_root; without a network, or without apt, nothing comes.
unpack() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return 0
    mkdir -p "$module_root" "$work/apt"
    (cd "$work/apt" && timeout 60 apt-get -qq -o APT::Sandbox::User=root download "$1") >/dev/null 2>&1 &&
        dpkg-deb -x "$work/apt/$1"_*.deb "$module_root"
    return 0
}

module_systems() {
    find_modules
    [ -n "$lmod" ] || unpack lmod
    [ -n "$modules" ] || unpack environment-modules
    find_modules
    # What they are written in may be missing even so.
    [ -z "$lmod" ] || [ "$(module_run lmod 'echo here')" = here ] || lmod=
    [ -z "$modules" ] || [ "$(module_run modules 'echo here')" = here ] || modules=
}

module_run() {
    case $1 in
    lmod) module_starts=$lmod ;;
    modules) module_starts="tclsh $modules" ;;
    esac
    # A tree that is searched for the first time is no reason for Lmod to write below HOME.
    env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$work" LMOD_SHORT_TIME=86400 sh -c "
        module() {
            # The exit code is that of the last command that the system has the shell evaluate.
            module_says=\$($module_starts sh \"\$@\") || return
            eval \"\$module_says\"
        }
        module purge >/dev/null 2>&1 || exit
        $2"
}
