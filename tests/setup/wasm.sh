#!/bin/sh
# Builds the filter: target/wasm32-unknown-unknown/release/sluicegate_filter.wasm
. "$(dirname "$0")/common.sh"

dir=target/wasm32-unknown-unknown/release
module=$dir/sluicegate_filter.wasm
small=target/wasm-opt/sluicegate_filter.wasm
stamp=target/wasm-opt/stamp

# What the filter wants to be told. The SDK exports callbacks for all there is, most of them empty here, and Envoy makes
# every call that it finds exported.
exports="memory malloc _initialize proxy_abi_version_0_2_1
    proxy_on_vm_start proxy_on_configure proxy_on_tick proxy_on_queue_ready proxy_on_http_call_response
    proxy_on_context_create proxy_on_request_headers proxy_on_request_body proxy_on_request_trailers
    proxy_on_response_headers proxy_on_delete"

# The graph that wasm-metadce reads: Envoy reaches these exports, and nothing reaches any other.
graph() {
    printf '[{"name": "envoy", "root": true, "reaches": ['
    printf '"%s", ' $exports | sed 's/, $//'
    printf ']}'
    printf ',\n{"name": "%s", "export": "%s"}' $(for name in $exports; do echo $name $name; done)
    printf ']\n'
}

sh tests/setup/cargo-wasm.sh build --release -p sluicegate-filter

# binaryen takes an eighth off the size, and the exports that nobody needs. Without it the module does the same, only
# larger and slower.
have wasm-opt && have wasm-metadce || exit 0
built=$(cat $dir/deps/sluicegate_filter.wasm "$0" | sha256sum)
if [ ! -e $small ] || [ "$(cat $stamp 2>/dev/null)" != "$built" ]; then
    mkdir -p target/wasm-opt
    rm -f $small $stamp
    graph >$small.json
    wasm-metadce --all-features --graph-file $small.json -o $small.dce $dir/deps/sluicegate_filter.wasm >/dev/null &&
        wasm-opt -O4 --strip-debug --strip-producers --all-features -o $small $small.dce || {
        say "binaryen could not read the module; keeping it as rustc made it"
        exit 0
    }
    rm -f $small.json $small.dce
    printf '%s\n' "$built" >$stamp
fi
cmp -s $small $module || { cp $small $module.new && mv $module.new $module; }
