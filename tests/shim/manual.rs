//! The manual of operations and the server say the same.

use std::collections::BTreeSet;

use sluicegate_shim::store::failure::Failure;
use sluicegate_testing::client::get;
use sluicegate_testing::redis::Redis;
use sluicegate_testing::shim::Shim;

fn manual() -> String {
    let text = std::fs::read_to_string("envoy/OPERATIONS.md").unwrap();
    let from = text.find("The shim's `/metrics`").unwrap();
    let upto = text.find("Logs say changes of state").unwrap();
    text[from..upto].to_owned()
}

#[test]
fn every_metric_is_in_the_manual_and_no_other() {
    let redis = Redis::start(&[]);
    let shim = Shim::patient(&redis.url());
    shim.wait_ready();
    let (_, page) = get(shim.admin_address(), "/metrics").unwrap();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE sluicegate_shim_"));
    let shown: BTreeSet<String> = types
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            format!("{name}{suffix}")
        })
        .collect();
    assert!(15 < shown.len(), "{page}");
    let manual = manual();
    let first_cells = manual.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let told: BTreeSet<String> = first_cells
        .flat_map(|cell| cell.split("`, `"))
        .map(|name| name.trim_end_matches('`').to_owned())
        .filter(|name| !Failure::ALL.iter().any(|failure| failure.name() == name))
        .collect();
    assert_eq!(told, shown);
    // Labels too.
    for label in ["outcome=", "verdict=", "kind="] {
        for line in page.lines().filter(|line| line.contains(label)) {
            let value = line.split_once(label).unwrap().1.trim_start_matches('"').split('"').next().unwrap();
            assert!(manual.contains(&format!("`{value}`")), "{line}");
        }
    }
}

#[test]
fn every_failure_is_explained_in_the_manual() {
    let manual = manual();
    for failure in Failure::ALL {
        let row = format!("| `{}` | {} |", failure.name(), failure.explain());
        assert!(manual.contains(&row), "{row}");
    }
}
