# What the setup scripts share. Sourced, from the root of the repository.
#
# Every script of this directory installs one thing if it is missing, says what it does in one line, and is silent
# and quick when nothing is missing. What can live under target/tools lives there; the machine is touched only
# through apt-get, and only as root.

set -eu

TOOLS=target/tools

say() {
    printf 'setup: %s\n' "$*" >&2
}

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Installs Debian packages: apt PACKAGE...
apt() {
    have apt-get || die "missing on this machine: $*. Install it with the system's package manager, then try again."
    [ "$(id -u)" = 0 ] || die "missing on this machine: $*. Install it: sudo apt-get install $*"
    say "installing $* (apt-get)"
    mkdir -p target
    export DEBIAN_FRONTEND=noninteractive
    {
        apt-get install -y --no-install-recommends "$@" ||
            { apt-get update && apt-get install -y --no-install-recommends "$@"; }
    } </dev/null >target/apt.log 2>&1 || {
        tail -n 5 target/apt.log >&2
        die "apt-get could not install $*; the whole log is target/apt.log"
    }
}

# The version that Cargo.lock has for a crate: locked NAME
locked() {
    awk -v name="\"$1\"" '$1 == "name" && $3 == name { getline; gsub("\"", "", $3); print $3; exit }' Cargo.lock
}
