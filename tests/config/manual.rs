//! The manual and the grammar say the same: every example is a policy, every field is told, and no other.

use std::collections::BTreeSet;
use std::fs;

use sluicegate_policy::config;
use sluicegate_policy::node::Node;
use sluicegate_shim::document;

const MANUAL: &str = "envoy/CONFIGURATION.md";

/// What examples that show one section stand in.
const BASE: &str = "
version: 1
shim: {cluster: sluicegate-shim}
identities: {caller: {header: x-api-key}, address: {client_ip: {}}}
limits: [{name: per-caller, key: caller, token_bucket: {burst: 1, rate: 1/s}}]
";

#[test]
fn every_example_is_a_policy() {
    for file in [MANUAL, "README.md", "envoy/README.md"] {
        let Ok(text) = fs::read_to_string(file) else { continue };
        let blocks = yaml_blocks(&text);
        assert!(file != MANUAL || 10 < blocks.len());
        // Elsewhere there are examples of other documents too; policies name their version.
        for block in blocks.iter().filter(|block| file == MANUAL || block.starts_with("version: 1\n")) {
            let example = document::yaml(block.as_bytes()).unwrap();
            config::from_node(&over_base(example))
                .unwrap_or_else(|faults| panic!("{file}: {faults}\n{block}"));
        }
    }
}

#[test]
fn every_field_is_in_the_manual() {
    let manual = fs::read_to_string(MANUAL).unwrap();
    let missing: Vec<String> =
        grammar().into_iter().filter(|field| !manual.contains(&format!("`{field}`"))).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_field_of_the_manual_is_in_the_grammar() {
    let manual = fs::read_to_string(MANUAL).unwrap();
    let grammar = grammar();
    // The first column holds fields under `field`, algorithms under `algorithm`.
    let mut checked = 0;
    let mut is_field = false;
    for line in manual.lines() {
        let first = line.strip_prefix('|').and_then(|line| line.split('|').next()).map(str::trim);
        match first {
            Some("field" | "algorithm") => is_field = true,
            Some("where" | "form" | "field of") | None => is_field = false,
            Some(cell) if is_field => {
                for field in cell.split('`').skip(1).step_by(2) {
                    assert!(grammar.contains(field), "{line}");
                    checked += 1;
                }
            }
            Some(_) => {}
        }
    }
    assert!(60 < checked, "{checked}");
}

/// The names of all fields: what the reader says it expects where it finds something else.
fn grammar() -> BTreeSet<String> {
    let mut everything = document::yaml(include_bytes!("ok/everything.yaml")).unwrap();
    let mut names = BTreeSet::new();
    for at in 0.. {
        let mut spoilt = everything.clone();
        if !spoil(&mut spoilt, &mut { at }) {
            break;
        }
        if let Err(faults) = config::from_node(&spoilt) {
            for fault in
                faults.iter().filter(|fault| fault.message.starts_with("unknown field `zzzzzz`; expected "))
            {
                names.extend(fault.message.split('`').skip(3).step_by(2).map(String::from));
            }
        }
    }
    // Every field is in the fixture too, so that each is seen to be good once.
    let mut seen = BTreeSet::new();
    keys(&mut everything, &mut seen);
    let unseen: Vec<&String> = names.difference(&seen).collect();
    assert_eq!(unseen, Vec::<&String>::new(), "fields that tests/config/ok/everything.yaml lacks");
    names
}

/// Puts an unknown field into the `at`-th map; false if there is none.
fn spoil(node: &mut Node, at: &mut usize) -> bool {
    match node {
        Node::List(items) => items.iter_mut().any(|item| spoil(item, at)),
        Node::Map(fields) => {
            if *at == 0 {
                fields.push(("zzzzzz".into(), Node::Null));
                return true;
            }
            *at -= 1;
            fields.iter_mut().any(|(_, item)| spoil(item, at))
        }
        _ => false,
    }
}

fn keys(node: &mut Node, seen: &mut BTreeSet<String>) {
    match node {
        Node::List(items) => items.iter_mut().for_each(|item| keys(item, seen)),
        Node::Map(fields) => {
            for (name, item) in fields {
                seen.insert(name.to_string());
                keys(item, seen);
            }
        }
        _ => {}
    }
}

/// The example, with what it lacks of the base.
fn over_base(example: Node) -> Node {
    let Node::Map(mut fields) = example else { panic!("an example is a map") };
    let Node::Map(base) = document::yaml(BASE.as_bytes()).unwrap() else { panic!("the base is a map") };
    // A policy that names its version is whole.
    if fields.iter().all(|(name, _)| &**name != "version") {
        for (name, node) in base {
            match fields.iter_mut().find(|(field, _)| *field == name) {
                None => fields.push((name, node)),
                Some((_, Node::Map(own))) if &*name == "identities" => {
                    let Node::Map(more) = node else { panic!("identities are a map") };
                    own.extend(more.into_iter().filter(|(name, _)| name.as_ref() == "address"));
                }
                Some(_) => {}
            }
        }
    }
    Node::Map(fields)
}

fn yaml_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == "```yaml") {
        blocks
            .push(lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect());
    }
    blocks
}
