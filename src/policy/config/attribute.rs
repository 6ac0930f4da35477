//! Envoy attributes: which exist, and which are known when a request arrives.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/advanced/attributes>

use super::spelling;
use super::value::Value;
use super::words::quoted;

/// First parts of attributes that are known when a request arrives.
const ROOTS: &[&str] = &[
    "request",
    "source",
    "destination",
    "connection",
    "connection_id",
    "metadata",
    "filter_state",
    "xds",
    "plugin_name",
    "plugin_root_id",
    "plugin_vm_id",
];

/// Names that Envoy moved below `xds` and dropped at the top in 1.33.
const MOVED: &[&str] = &[
    "node",
    "route_name",
    "route_metadata",
    "cluster_name",
    "cluster_metadata",
    "listener_direction",
    "listener_metadata",
    "virtual_host_name",
    "virtual_host_metadata",
];

const XDS: &[&str] = &[
    "node",
    "route_name",
    "route_metadata",
    "cluster_name",
    "cluster_metadata",
    "listener_direction",
    "listener_metadata",
    "virtual_host_name",
    "virtual_host_metadata",
    "filter_chain_name",
];

const REQUEST: &[&str] = &[
    "path",
    "url_path",
    "host",
    "scheme",
    "method",
    "headers",
    "referer",
    "useragent",
    "time",
    "id",
    "protocol",
    "query",
    "size",
    "total_size",
];

const PEER: &[&str] = &["address", "port"];

const CONNECTION: &[&str] = &[
    "id",
    "mtls",
    "requested_server_name",
    "tls_version",
    "subject_local_certificate",
    "subject_peer_certificate",
    "dns_san_local_certificate",
    "dns_san_peer_certificate",
    "uri_san_local_certificate",
    "uri_san_peer_certificate",
    "sha256_peer_certificate_digest",
];

/// The path of an attribute; one that Envoy does not have at that point is a fault, since it would never yield.
pub(super) fn path(value: &Value<'_>) -> Option<Vec<Box<str>>> {
    let path = value.each(1, 16, |step| step.text("an attribute").map(Box::<str>::from))?;
    let mut steps = path.iter().map(|step| &**step);
    let root = steps.next().unwrap_or_default();
    if root == "response" || root == "upstream" {
        value.fault(format!("attributes of `{root}` are not known when a request arrives"));
        return None;
    }
    if MOVED.contains(&root) {
        value.fault(format!("Envoy has no attribute \"{root}\" since 1.33; write [xds, {root}]"));
        return None;
    }
    known(value, root, ROOTS)?;
    let below = match root {
        "request" => REQUEST,
        "source" | "destination" => PEER,
        "connection" => CONNECTION,
        "xds" => XDS,
        _ => return Some(path),
    };
    match steps.next() {
        Some(step) => known(value, step, below)?,
        None => {
            value.fault(format!("`{root}` is no attribute by itself; name one of its parts"));
            return None;
        }
    }
    Some(path)
}

fn known(value: &Value<'_>, step: &str, names: &[&str]) -> Option<()> {
    if names.contains(&step) {
        return Some(());
    }
    let hint = spelling::nearest(step, names).map(|near| format!("; did you mean `{near}`?"));
    value.fault(format!("Envoy has no attribute {}{}", quoted(step), hint.unwrap_or_default()));
    None
}
