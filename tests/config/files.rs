//! The fixtures: `ok/` holds good documents, `bad/` faulty ones, each named by its fault and beside a file with the
//! exact message (`.faults`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sluicegate_policy::config;
use sluicegate_policy::node::Node;
use sluicegate_shim::{check, document};

/// The files of a folder with these extensions, in order.
fn files(folder: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| extensions.iter().any(|known| e == *known)))
        .collect();
    files.sort();
    files
}

#[test]
fn every_good_document_is_a_policy() {
    let files = files("tests/config/ok", &["yaml", "json"]);
    assert!(!files.is_empty());
    for path in files {
        document::policy(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn every_bad_document_is_refused_in_the_expected_words() {
    let documents = files("tests/config/bad", &["yaml", "json"]);
    for path in &documents {
        let expected = fs::read_to_string(path.with_extension("faults")).unwrap();
        match document::policy(path) {
            Ok(policy) => panic!("{} gives {policy:?}", path.display()),
            Err(error) => assert_eq!(format!("{error}\n"), expected, "{}", path.display()),
        }
    }
    let stems =
        |paths: &[PathBuf]| -> BTreeSet<PathBuf> { paths.iter().map(|p| p.with_extension("")).collect() };
    let expected = files("tests/config/bad", &["faults"]);
    assert_eq!(
        stems(&documents),
        stems(&expected),
        "each document has its faults and each faults its document"
    );
}

/// What runs on the command line and what runs in Envoy judge alike.
#[test]
fn yaml_json_and_struct_give_the_same_policy() {
    for path in files("tests/config/ok", &["yaml"]) {
        let tree = document::yaml(&fs::read(&path).unwrap()).unwrap();
        let from_yaml = config::from_node(&tree);
        let json = json(&tree).to_string();
        assert_eq!(config::from_bytes(json.as_bytes()), from_yaml, "{}", path.display());
        assert_eq!(config::from_bytes(&super::structure(&tree)), from_yaml, "{}", path.display());
    }
}

#[test]
fn check_tells_every_fault_by_file_and_path() {
    let run = |paths: &[&str]| {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let code = check::run(&paths, &mut out, &mut errors).unwrap();
        (code, String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
    };
    let (code, out, errors) = run(&["tests/config/ok/everyday.yaml"]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(out.starts_with("tests/config/ok/everyday.yaml: good: 6 limits, 2 identities"), "{out}");
    assert!(out.contains("\n  login: 5 in any 1m for each address, shared, else deny\n"), "{out}");

    let (code, out, errors) = run(&["tests/config/bad/field-twice.yaml", "tests/config/ok/everyday.yaml"]);
    assert_eq!(code, 64);
    assert!(
        out.starts_with("tests/config/ok/everyday.yaml: good"),
        "the other file is judged all the same: {out}"
    );
    assert_eq!(
        errors,
        "tests/config/bad/field-twice.yaml: limits[0]: field `cost` stands here twice (limit \"login\")\n\
         tests/config/bad/field-twice.yaml: limits[0].token_bucket: field `burst` stands here twice (limit \"login\")\n"
    );

    let (code, _, errors) = run(&["tests/config/absent.yaml"]);
    assert_eq!(code, 66);
    assert!(errors.starts_with("tests/config/absent.yaml: "), "{errors}");
}

/// What Envoy carries is the sample policy that people read, and the other samples carry good ones.
#[test]
fn the_samples_carry_good_policies() {
    let sample = document::policy(Path::new("envoy/policy.yaml")).unwrap();
    for path in files("envoy", &["yaml"]) {
        let mut policies = Vec::new();
        for part in fs::read_to_string(&path).unwrap().split("\n---\n") {
            carried(&document::yaml(part.as_bytes()).unwrap(), &mut policies);
        }
        let read = |node: &Node| match node {
            Node::Text(text) => config::from_bytes(text.as_bytes()),
            node => config::from_bytes(&super::structure(node)),
        };
        let policies: Vec<_> = policies
            .iter()
            .map(|node| read(node).unwrap_or_else(|faults| panic!("{}: {faults}", path.display())))
            .collect();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("envoy.yaml") => {
                assert_eq!(policies, std::slice::from_ref(&sample), "as in envoy/policy.yaml")
            }
            Some("istio.yaml" | "gateway.yaml") => assert!(!policies.is_empty(), "{}", path.display()),
            _ => {}
        }
    }
}

/// Every policy in a file of something else: a map that names our version and says what to limit, or a text in JSON.
fn carried(node: &Node, found: &mut Vec<Node>) {
    match node {
        Node::List(items) => items.iter().for_each(|item| carried(item, found)),
        Node::Map(fields) => {
            let has = |name: &str| fields.iter().any(|(field, _)| **field == *name);
            if has("version") && (has("limits") || has("overload")) {
                found.push(node.clone());
            }
            fields.iter().for_each(|(_, item)| carried(item, found));
        }
        Node::Text(text) if text.starts_with("{\"version\"") => found.push(node.clone()),
        _ => {}
    }
}

/// A tree as JSON; the fixtures hold only what JSON can.
pub(super) fn json(node: &Node) -> serde_json::Value {
    use serde_json::Value;
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Int(number) => Value::from(i64::try_from(*number).unwrap()),
        Node::Float(number) => Value::from(*number),
        Node::Text(text) => Value::from(&**text),
        Node::List(items) => items.iter().map(json).collect(),
        Node::Map(fields) => {
            Value::Object(fields.iter().map(|(name, node)| (name.to_string(), json(node))).collect())
        }
    }
}
