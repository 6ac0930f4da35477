//! The module as it is shipped: what it needs of a host, and how large it is and gets.

use std::time::Duration;

use serde_json::json;
use sluicegate_testing::host::{imports, module_bytes};

use crate::talk::{answer_all, by, deny, host, policy};

const MIB: usize = 1 << 20;

/// Envoy links the proxy-wasm ABI and a part of WASI; anything else would keep the module from loading.
#[test]
fn nothing_is_imported_that_no_host_has() {
    let imports = imports();
    assert!(imports.iter().any(|(_, name)| name == "proxy_send_local_response"), "{imports:?}");
    for (module, name) in imports {
        let is_known = match module.as_str() {
            "env" => name.starts_with("proxy_"),
            "wasi_snapshot_preview1" => true,
            _ => false,
        };
        assert!(is_known, "{module}.{name}");
    }
}

#[test]
fn the_module_is_small() {
    let bytes = module_bytes().len();
    assert!(bytes <= 500 << 10, "{bytes} bytes");
}

/// Each of these keys leaves a known denial, the largest thing that is kept of a client.
#[test]
fn memory_is_bounded_however_many_clients_there_are() {
    let policy =
        policy(json!([{"name": "per-caller", "key": "caller", "fixed_window": {"limit": 1, "per": "1h"}}]));
    let mut host = host(&policy);
    let mut sizes = Vec::new();
    for round in 0..3 {
        for first in (0..12_000).step_by(100) {
            for nth in first..first + 100 {
                by(&mut host, &format!("{round}-{nth}"));
            }
            answer_all(&mut host, |_| deny(3_000_000_000));
        }
        host.advance(Duration::from_secs(1));
        sizes.push(host.memory(0));
    }
    assert!(sizes.iter().all(|size| *size <= 16 * MIB), "{sizes:?}");
    assert_eq!(sizes[1], sizes[2], "flat: {sizes:?}");
}
