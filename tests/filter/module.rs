//! The module as it is shipped: what it needs of a host, and how large it is and gets.

use std::time::Duration;

use serde_json::json;
use sluicegate_policy::wire::WireStanding;
use sluicegate_testing::host::{Fate, imports, module_bytes};

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

/// Clients enough to fill the table of each kind, and then others: known denials, leases, and the buckets of this worker.
#[test]
fn memory_is_bounded_however_many_clients_there_are() {
    let leased = json!({"leased": {"size": 20, "for": "60s"}});
    for (enforce, fill, standing) in [
        (json!("shared"), 24_000, deny(3_000_000_000)),
        (leased, 24_000, WireStanding(1, 20, 50, 1_000_000, 0, 0)),
        (json!("local"), 70_000, deny(0)),
    ] {
        let policy = policy(json!([{"name": "per-caller", "key": "caller", "enforce": enforce,
                                    "token_bucket": {"burst": 100, "rate": "1/h"}}]));
        let mut host = host(&policy);
        let mut sizes = Vec::new();
        for (round, clients) in [fill, 6_000, 6_000].into_iter().enumerate() {
            for first in (0..clients).step_by(100) {
                let asked: Vec<_> =
                    (first..first + 100).map(|nth| by(&mut host, &format!("{round}-{nth}"))).collect();
                answer_all(&mut host, |_| standing);
                for id in asked {
                    if host.fate(id) == Fate::Upstream {
                        host.respond(id, 200, &[]);
                    }
                }
            }
            host.advance(Duration::from_secs(1));
            sizes.push(host.memory(0));
        }
        assert!(sizes.iter().all(|size| *size <= 16 * MIB), "{enforce}: {sizes:?}");
        assert_eq!(sizes[0], sizes[2], "{enforce}: flat once it is full: {sizes:?}");
    }
}
