#!/bin/sh
# Runs the pure tests a second time, as wasm under Node: wasm-test.sh TEST...
. "$(dirname "$0")/common.sh"

[ $# -gt 0 ] || die "wasm-test.sh: no test given"
have node || apt nodejs

# The runner must be of the very version the tests were linked against.
version=$(locked wasm-bindgen)
runner=$TOOLS/bin/wasm-bindgen-test-runner
if [ "$($runner --version 2>/dev/null)" != "wasm-bindgen-test-runner $version" ]; then
    say "installing wasm-bindgen-test-runner $version into $TOOLS (some minutes, once)"
    # Not --locked: the crate's own lock file may name releases that were withdrawn.
    cargo install wasm-bindgen-cli --version "$version" --root $TOOLS --force --quiet --profile dev \
        --bin wasm-bindgen-test-runner --target-dir $TOOLS/build </dev/null
    rm -rf $TOOLS/build
fi

PATH=$PWD/$TOOLS/bin:$PATH
export PATH
set -- $(printf -- '--test %s ' "$@")
sh tests/setup/cargo-wasm.sh test -p sluicegate-filter "$@"
