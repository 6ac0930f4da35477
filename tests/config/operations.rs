//! The manual of operations tells every metric of the filter.

use std::fs;

use sluicegate_policy::count::Counts;
use sluicegate_shim::document;

#[test]
fn every_counter_is_in_the_manual() {
    let policy = document::policy("envoy/policy.yaml".as_ref()).unwrap();
    let manual = fs::read_to_string("envoy/OPERATIONS.md").unwrap();
    let names = Counts::counter_names(&policy);
    assert!(50 < names.len());
    for name in names {
        let parts: Vec<&str> = name.split('.').collect();
        let told = match parts.as_slice() {
            ["sluicegate", "class", class, outcome, reason @ ..] => [[*class, outcome].as_slice(), reason]
                .concat()
                .iter()
                .map(|word| format!("`{word}`"))
                .collect(),
            ["sluicegate", "limit", _, event] => vec![format!("`{event}`")],
            ["sluicegate", group, counter] => vec![format!("`{group}_{counter}`")],
            _ => panic!("a counter of an unknown kind: {name}"),
        };
        for word in told {
            assert!(manual.contains(&word), "{word} of {name}");
        }
    }
}
