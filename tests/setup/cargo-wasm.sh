#!/bin/sh
# cargo for wasm32-unknown-unknown, with whichever toolchain can do it: cargo-wasm.sh COMMAND [ARGUMENT...]
#
#   WASM_TOOLCHAIN=rustup   rustup's own standard library for the target
#   WASM_TOOLCHAIN=debian   Debian's rustc-web, cargo-web and rust-web-src; the standard library is built from source
#   WASM_TOOLCHAIN=auto     the first of the two that works (default)
. "$(dirname "$0")/common.sh"

TARGET=wasm32-unknown-unknown

rustup_ready() {
    [ -e "$(rustc --print target-libdir --target $TARGET 2>/dev/null)/self-contained" ] ||
        ls "$(rustc --print target-libdir --target $TARGET 2>/dev/null)"/libcore-*.rlib
} >/dev/null 2>&1

rustup_add() {
    have rustup || return 1
    say "rustup target add $TARGET"
    timeout 300 rustup target add $TARGET </dev/null >/dev/null 2>&1
}

# Any linker that speaks wasm: rustup's, or LLVM's from Debian.
wasm_linker() {
    sysroot=$(rustc --print sysroot 2>/dev/null || true)
    for linker in "$sysroot"/lib/rustlib/*/bin/rust-lld /usr/bin/wasm-ld-[0-9]* /usr/bin/wasm-ld; do
        # LLVM before 16 does not know what today's rustc emits.
        case $linker in *wasm-ld-1[0-5]) continue ;; esac
        [ -x "$linker" ] && { echo "$linker"; return; }
    done
    return 1
}

debian_ready() {
    for package in rustc-web cargo-web rust-web-src; do
        case $(dpkg-query -W -f '${Status}' $package 2>/dev/null) in
            *' installed') ;;
            *) return 1 ;;
        esac
    done
}

debian_add() {
    debian_ready || apt rustc-web cargo-web rust-web-src
    wasm_linker >/dev/null || apt lld-19
}

choose() {
    rustup_ready && { echo rustup; return; }
    rustup_add && { echo rustup; return; }
    say "rustup cannot provide $TARGET; using Debian's toolchain"
    echo debian
}

case ${WASM_TOOLCHAIN:-auto} in
    auto) toolchain=$(choose) ;;
    rustup)
        rustup_ready || rustup_add || die "rustup cannot provide $TARGET; try WASM_TOOLCHAIN=debian"
        toolchain=rustup
        ;;
    debian) toolchain=debian ;;
    *) die "WASM_TOOLCHAIN is '$WASM_TOOLCHAIN', expected rustup, debian or auto" ;;
esac

command=$1
shift

if [ "$toolchain" = rustup ]; then
    exec cargo "$command" --target $TARGET "$@"
fi

debian_add
crates=std,panic_abort
[ "$command" = test ] && crates=$crates,test
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(wasm_linker)
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER
export RUSTC=/usr/bin/rustc
# The flag that builds the standard library is accepted by a stable compiler only with this.
export RUSTC_BOOTSTRAP=1
exec /usr/bin/cargo "$command" --target $TARGET -Zbuild-std=$crates "$@"
