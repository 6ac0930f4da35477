//! Tests that share one chain: each has limits, paths and keys of its own.

use serde_json::{Value, json};

use crate::rig::{Shared, policy};

mod costs;
mod identity;
mod numbers;
mod queue;
mod retry;
mod windows;

static CHAIN: Shared = Shared::new(|| {
    let limits = [
        costs::limits(),
        identity::limits(),
        numbers::limits(),
        queue::limits(),
        retry::limits(),
        windows::limits(),
    ];
    let mut policy = policy(limits.into_iter().flat_map(Vec::from_iter).collect::<Value>());
    let identities = identity::identities();
    policy["identities"].as_object_mut().unwrap().extend(identities.as_object().unwrap().clone());
    policy["tiers"] = numbers::tiers();
    policy["tier_from"] = json!({"header": "x-plan"});
    policy
});
