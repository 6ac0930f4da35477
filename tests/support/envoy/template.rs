//! The shipped configuration with other ports, another policy, another module.

use std::path::Path;

/// The configuration that is shipped.
const SHIPPED: &str = include_str!("../../../envoy/envoy.yaml");

/// The module it names.
const MODULE: &str = "target/wasm32-unknown-unknown/release/sluicegate_filter.wasm";

/// Stands in front of the policy, which in the shipped configuration is YAML.
const SHIPPED_POLICY: &str =
    "\"@type\": type.googleapis.com/google.protobuf.Struct\n                          value:\n";

/// The same for a policy that is text.
const TEXT_POLICY: &str =
    "\"@type\": type.googleapis.com/google.protobuf.StringValue\n                          value: |\n";

/// A configuration on its way.
#[derive(Clone, Debug)]
pub(crate) struct Template(String);

// === impl Template ===

impl Template {
    /// `envoy/envoy.yaml`.
    pub(crate) fn shipped() -> Template {
        Template(SHIPPED.to_owned())
    }

    /// Replaces a text, which must be there.
    pub(crate) fn edit(self, from: &str, to: &str) -> Template {
        assert!(self.0.contains(from), "envoy/envoy.yaml has no {from:?}");
        Template(self.0.replace(from, to))
    }

    /// Replaces ports, each named by its default; every one must be there.
    pub(crate) fn ports(self, ports: &[(u16, u16)]) -> Template {
        // By way of marks, lest a new port be taken for a default one.
        let marked = ports.iter().enumerate().fold(self, |template, (i, (default, _))| {
            template.edit(&format!("port_value: {default}}}"), &format!("port_value: <{i}>}}"))
        });
        ports
            .iter()
            .enumerate()
            .fold(marked, |template, (i, (_, port))| template.edit(&format!("<{i}>"), &port.to_string()))
    }

    /// Replaces the path of the filter.
    pub(crate) fn module(self, path: &Path) -> Template {
        self.edit(MODULE, path.to_str().expect("the path is text"))
    }

    /// Replaces the policy by this text, which reaches the filter as it is.
    pub(crate) fn policy(self, policy: &str) -> Template {
        let (start, end, indent) = policy_block(&self.0);
        let block: String = policy.lines().map(|line| format!("{indent}{line}\n")).collect();
        let head = self.0[..start].replace(SHIPPED_POLICY, TEXT_POLICY);
        Template(format!("{head}{block}{}", &self.0[end..]))
    }

    /// Takes the listeners out: what is left reads them from `file`, and the content of `file`.
    pub(crate) fn split(self, file: &Path) -> (Template, String) {
        let start = self.0.find("  listeners:\n").expect("the configuration has listeners");
        let end = self.0.find("  clusters:\n").expect("clusters come behind the listeners");
        let listener = self.0[start..end].replacen("  listeners:\n", "resources:\n", 1).replacen(
            "    - name: gateway\n",
            "    - \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n      name: gateway\n",
            1,
        );
        let dynamic = format!(
            "node: {{id: test, cluster: test}}\n\
             dynamic_resources:\n  lds_config:\n    resource_api_version: V3\n    path_config_source: {{path: {}}}\n",
            file.display()
        );
        (Template(format!("{dynamic}{}{}", &self.0[..start], &self.0[end..])), listener)
    }

    /// The text.
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// The policy inside the shipped configuration, as YAML.
pub fn shipped_policy() -> String {
    let (start, end, indent) = policy_block(SHIPPED);
    SHIPPED[start..end]
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix(&indent).unwrap_or(line)))
        .collect()
}

/// Where the policy begins and ends, and how it is indented.
fn policy_block(config: &str) -> (usize, usize, String) {
    let start = config.find(SHIPPED_POLICY).expect("envoy/envoy.yaml holds a policy") + SHIPPED_POLICY.len();
    let block = &config[start..];
    let indent = " ".repeat(block.len() - block.trim_start_matches(' ').len());
    let lines = block.split_inclusive('\n');
    let inside = lines.take_while(|line| line.trim().is_empty() || line.starts_with(&indent));
    (start, start + inside.map(str::len).sum::<usize>(), indent)
}
