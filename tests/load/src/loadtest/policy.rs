//! The policy of our own filter. No figure of capacity is in it, but for the bound of the connection pool.

use serde_json::{Map, Value, json};

use super::scenario::Scenario;
use super::system::{CONNECTIONS, System};
use crate::rig::config::{ADMIN, SHIM, UPSTREAM};

/// The policy for a system of ours in a scenario.
pub(crate) fn of(system: System, scenario: &Scenario) -> Value {
    let mut policy = Map::new();
    policy.insert("version".into(), 1.into());
    policy.insert("overload".into(), overload(system, scenario));
    if scenario.has_tenants() {
        policy.insert("identities".into(), json!({"caller": [{"header": {"name": "x-api-key"}}]}));
    }
    if let Some(rate) = scenario.quota_per_tenant {
        policy.insert("shim".into(), json!({"cluster": SHIM}));
        let bucket = json!({"burst": rate, "rate": format!("{rate}/s")});
        let limit = json!({"name": "per-caller", "key": ["caller"], "token_bucket": bucket});
        policy.insert("limits".into(), json!([limit]));
    }
    Value::Object(policy)
}

fn overload(system: System, scenario: &Scenario) -> Value {
    let (law, upstream) = match system {
        System::SluicegatePool => ("pool", json!({"cluster": UPSTREAM, "max_connections": CONNECTIONS})),
        _ => ("latency", json!({"cluster": UPSTREAM})),
    };
    let mut overload = Map::new();
    overload.insert("law".into(), law.into());
    overload.insert("upstreams".into(), json!([upstream]));
    overload.insert("admin_cluster".into(), ADMIN.into());
    let class = |class: &str, path: &str| json!({"class": class, "match": {"path": path}});
    overload.insert(
        "classes".into(),
        json!([
            class("critical", "/checkout"),
            class("high", "/cart"),
            class("low", "/sync"),
            class("sheddable", "/beacon"),
        ]),
    );
    if scenario.has_tenants() {
        overload.insert("tenant".into(), "caller".into());
    }
    Value::Object(overload)
}

#[cfg(test)]
mod tests {
    use super::super::pace::Pace;
    use super::super::scenario;
    use super::*;

    #[test]
    fn every_policy_is_valid() {
        for scenario in scenario::all(Pace::FULL, false) {
            for system in scenario.systems.iter().filter(|system| system.is_ours()) {
                let text = of(*system, &scenario).to_string();
                if let Err(faults) = sluicegate_policy::config::from_json(text.as_bytes()) {
                    panic!("{} {}: {faults:?}", scenario.name, system.name());
                }
            }
        }
    }
}
