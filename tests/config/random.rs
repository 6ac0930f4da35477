//! Whatever a document holds, reading it ends in a policy or in faults.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate_policy::config;
use sluicegate_policy::node::{self, Node};
use sluicegate_shim::document;

/// A policy with every field.
static EVERYTHING: LazyLock<Node> =
    LazyLock::new(|| document::yaml(include_bytes!("ok/everything.yaml")).unwrap());

/// Words of the grammar, so that random trees get deep into it.
const WORDS: &[&str] = &[
    "version",
    "namespace",
    "shim",
    "cluster",
    "timeout",
    "breaker",
    "identities",
    "caller",
    "header",
    "name",
    "scheme",
    "client_ip",
    "trusted_hops",
    "jwt_claim",
    "property",
    "limits",
    "match",
    "path",
    "path_prefix",
    "hosts",
    "networks",
    "percent",
    "key",
    "everyone",
    "token_bucket",
    "burst",
    "rate",
    "10/s",
    "leaky_bucket",
    "wait",
    "up_to",
    "50ms",
    "fixed_window",
    "limit",
    "per",
    "1m",
    "sliding_window",
    "exact",
    "concurrency",
    "max",
    "cost",
    "request_header",
    "response_header",
    "charge_when",
    "status",
    "enforce",
    "shared",
    "leased",
    "local",
    "replicas",
    "size",
    "for",
    "when_unavailable",
    "allow",
    "deny",
    "tiers",
    "gold",
    "multiply",
    "members",
    "tier_from",
    "overload",
    "upstreams",
    "classes",
    "class",
    "critical",
    "exempt",
    "responses",
    "body",
    "mode",
    "shadow",
    "/a/{b}/**",
    "/%41",
    "10.0.0.0/8",
    "::/0",
    "*.example.com",
    "request",
    "xds",
];

fn word() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        8 => prop::sample::select(WORDS).prop_map(Box::from),
        1 => ".{0,12}".prop_map(|text| text.into()),
    ]
}

fn leaf() -> impl Strategy<Value = Node> {
    prop_oneof![
        Just(Node::Null),
        any::<bool>().prop_map(Node::Bool),
        (-2_i128..100).prop_map(Node::Int),
        any::<i128>().prop_map(Node::Int),
        any::<f64>().prop_map(Node::Float),
        prop::num::f64::ANY.prop_map(Node::Float),
        word().prop_map(Node::Text),
    ]
}

fn tree() -> impl Strategy<Value = Node> {
    leaf().prop_recursive(8, 128, 12, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Node::List),
            vec((word(), inner), 0..12).prop_map(Node::Map),
        ]
    })
}

/// Puts `graft` in place of the `at`-th value of the tree.
fn replace(node: &mut Node, at: &mut usize, graft: &Node) {
    if *at == 0 {
        *node = graft.clone();
    }
    *at = at.wrapping_sub(1);
    match node {
        Node::List(items) => items.iter_mut().for_each(|item| replace(item, at, graft)),
        Node::Map(fields) => fields.iter_mut().for_each(|(_, item)| replace(item, at, graft)),
        _ => {}
    }
}

/// Reading ends, and faults are never empty.
fn judge(node: &Node) {
    if let Err(faults) = config::from_node(node) {
        assert!(0 < faults.iter().count());
        assert!(!faults.to_string().is_empty());
    }
}

proptest! {
    #[test]
    fn random_trees_are_judged(node in tree()) {
        judge(&node);
    }

    #[test]
    fn a_good_policy_with_one_value_exchanged_is_judged(at in 0_usize..400, graft in tree()) {
        let mut node = EVERYTHING.clone();
        replace(&mut node, &mut { at }, &graft);
        judge(&node);
    }

    #[test]
    fn random_bytes_are_judged(bytes in vec(any::<u8>(), 0..200)) {
        let _ = config::from_bytes(&bytes);
        let _ = node::from_struct(&bytes);
        let _ = document::yaml(&bytes);
    }

    /// One byte of a good Struct changed, or its end cut off.
    #[test]
    fn a_damaged_struct_is_judged(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = super::structure(&EVERYTHING);
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        let _ = config::from_bytes(&bytes);
    }

    /// A tree survives both encodings, repeated keys included.
    #[test]
    fn a_tree_survives_a_struct(fields in vec((word(), tree()), 0..12)) {
        let node = Node::Map(fields);
        match node::from_struct(&super::structure(&node)) {
            Ok(read) => prop_assert_eq!(format!("{read:?}"), format!("{:?}", doubled(&node))),
            // An empty Struct has no bytes at all.
            Err(error) => prop_assert!(error == node::NodeError::Empty && node == Node::Map(Vec::new())),
        }
    }
}

/// The tree with the numbers a Struct can hold.
fn doubled(node: &Node) -> Node {
    match node {
        Node::Int(number) => doubled(&Node::Float(*number as f64)),
        Node::Float(_) => node.integer().map_or_else(|| node.clone(), Node::Int),
        Node::List(items) => Node::List(items.iter().map(doubled).collect()),
        Node::Map(fields) => {
            Node::Map(fields.iter().map(|(name, node)| (name.clone(), doubled(node))).collect())
        }
        other => other.clone(),
    }
}
