#!/bin/sh
# Builds the filter: target/wasm32-unknown-unknown/release/sluicegate_filter.wasm
. "$(dirname "$0")/common.sh"

dir=target/wasm32-unknown-unknown/release
module=$dir/sluicegate_filter.wasm
small=target/wasm-opt/sluicegate_filter.wasm
stamp=target/wasm-opt/stamp

sh tests/setup/cargo-wasm.sh build --release -p sluicegate-filter

# binaryen takes about a tenth off the size. Without it the module is the same, only larger.
have wasm-opt || exit 0
built=$(sha256sum <$dir/deps/sluicegate_filter.wasm)
if [ ! -e $small ] || [ "$(cat $stamp 2>/dev/null)" != "$built" ]; then
    mkdir -p target/wasm-opt
    rm -f $small $stamp
    wasm-opt -O3 --strip-debug --strip-producers --all-features -o $small $dir/deps/sluicegate_filter.wasm || {
        say "wasm-opt could not read the module; keeping it as rustc made it"
        exit 0
    }
    printf '%s\n' "$built" >$stamp
fi
cmp -s $small $module || { cp $small $module.new && mv $module.new $module; }
