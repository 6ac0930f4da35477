//! What the manual of operations tells, for tests that do as it says.

/// The permissions of the login of the shim, as in `ACL SETUSER`.
pub(crate) fn permissions() -> String {
    let manual = std::fs::read_to_string("envoy/OPERATIONS.md").unwrap();
    let line =
        manual.lines().find_map(|line| line.trim().strip_prefix("ACL SETUSER sluicegate on >PASSWORD "));
    let words = line.expect("the login of the shim").to_owned();
    assert!(words.starts_with("~sluicegate:* +ping "), "{words}");
    words
}

/// What the login may do in a Cluster.
pub(crate) fn cluster_permissions() -> String {
    let besides = "+cluster|slots +asking";
    let manual = std::fs::read_to_string("envoy/OPERATIONS.md").unwrap();
    assert!(manual.contains(&format!("in a Cluster `{besides}` besides")));
    format!("{} {besides}", permissions())
}
