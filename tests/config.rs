//! From a document to a policy, or to everything that is wrong with it.
#![cfg(not(target_arch = "wasm32"))]

use sluicegate_policy::config;
use sluicegate_shim::document;

/// The policy of the design: every part of the grammar people use every day.
#[test]
fn the_everyday_policy_is_good() {
    let text = std::fs::read("tests/config/ok/everyday.yaml").unwrap();
    let policy = config::from_node(&document::yaml(&text).unwrap()).unwrap();
    let names: Vec<&str> = policy.limits.iter().map(|limit| &*limit.name).collect();
    assert_eq!(names, ["per-caller", "login", "search", "exports", "llm-tokens", "failed-logins"]);
}
