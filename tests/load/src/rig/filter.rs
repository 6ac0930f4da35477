//! The HTTP filters under test.

use std::path::Path;

use serde_json::{Value, json};

use super::config::typed;

/// A Wasm module with its configuration.
pub(crate) fn wasm(name: &str, module: &Path, configuration: &str) -> Value {
    let plugin = json!({
        "name": name,
        "root_id": name,
        "vm_config": {
            "vm_id": name,
            "runtime": "envoy.wasm.runtime.v8",
            "code": {"local": {"filename": module}},
        },
        "configuration": {
            "@type": "type.googleapis.com/google.protobuf.StringValue",
            "value": configuration,
        },
        "failure_policy": "FAIL_RELOAD",
    });
    typed(name, "envoy.extensions.filters.http.wasm.v3.Wasm", json!({"config": plugin}))
}

/// The same module in VMs of its own, which share what they know with those of [`wasm`].
pub(crate) fn wasm_aside(name: &str, module: &Path, configuration: &str) -> Value {
    let mut filter = wasm(name, module, configuration);
    // The same VM id, but another configuration of the VM, makes another VM.
    if let Some(vm) = filter.pointer_mut("/typed_config/config/vm_config").and_then(Value::as_object_mut) {
        let value = json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "aside"});
        vm.insert("configuration".into(), value);
    }
    filter
}

/// Envoy's own token bucket, `rate` a second for the whole process, with a tenth of a second of burst.
pub(crate) fn local_ratelimit(rate: f64) -> Value {
    const FILLS_PER_S: f64 = 20.0;
    let tokens = (rate / FILLS_PER_S).round().max(1.0);
    let whole = json!({"default_value": {"numerator": 100, "denominator": "HUNDRED"}});
    typed(
        "envoy.filters.http.local_ratelimit",
        "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
        json!({
            "stat_prefix": "limit",
            "token_bucket": {
                "max_tokens": (2.0 * tokens) as u64,
                "tokens_per_fill": tokens as u64,
                "fill_interval": "0.05s",
            },
            "filter_enabled": whole,
            "filter_enforced": whole,
        }),
    )
}

/// Envoy's gradient controller as its documentation sets it up, on the 90th percentile.
pub(crate) fn adaptive_concurrency() -> Value {
    typed(
        "envoy.filters.http.adaptive_concurrency",
        "envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency",
        json!({
            "gradient_controller_config": {
                "sample_aggregate_percentile": {"value": 90},
                "concurrency_limit_params": {"concurrency_update_interval": "0.1s"},
                "min_rtt_calc_params": {"jitter": {"value": 10}, "interval": "60s", "request_count": 50},
            },
            "enabled": {"default_value": true, "runtime_key": "adaptive_concurrency.enabled"},
        }),
    )
}
