//! Envoy's own view of a cluster, from its admin endpoint.
//!
//! One query asks for all protected clusters. Its filter is anchored, so the main thread's work is bounded by the
//! number of stats and the answer by the number of clusters. A gauge that was never touched is absent, which means
//! zero; a cluster of which nothing is reported is unknown, since a stats matcher may hide it (Istio's does).

use crate::node::{self, Node};

/// What Envoy knows about one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterStats {
    /// Requests attached to a connection (`upstream_rq_active`).
    pub active: u64,
    /// Requests that wait for a connection (`upstream_rq_pending_active`).
    pub pending: u64,
    /// Connections (`upstream_cx_active`).
    pub connections: u64,
    /// Requests refused by Envoy's own circuit breakers; newer releases count active ones apart.
    pub overflows: u64,
    /// Requests completed since the start (`upstream_rq_completed`).
    pub completed: u64,
    /// Connections left under the breaker, when the cluster sets `track_remaining`.
    pub remaining_connections: Option<u64>,
    /// The connection breaker is open: `connections` is its bound (`cx_open`).
    pub connections_exhausted: bool,
}

impl ClusterStats {
    /// The connection bound, when these stats tell it; Istio's default of 2^32-1 and Envoy-made giants are none.
    pub fn connection_bound(&self) -> Option<u64> {
        let bound = match self.remaining_connections {
            Some(remaining) => remaining.saturating_add(self.connections),
            None if self.connections_exhausted => self.connections,
            None => return None,
        };
        (0 < bound && bound < 1 << 31).then_some(bound)
    }
}

/// The `:path` that asks for these clusters.
pub fn query_path(clusters: &[Box<str>]) -> String {
    let names: Vec<String> = clusters.iter().map(|name| escaped(name)).collect();
    let filter = format!(
        r"^cluster\.({})(;)?\.(upstream_rq_(active|pending_active|pending_overflow|active_overflow|completed)|upstream_cx_active|circuit_breakers\.default\.(remaining_cx|cx_open))$",
        names.join("|")
    );
    format!("/stats?format=json&filter={}", percent_encoded(&filter))
}

/// Reads an answer: for each cluster its stats, or `None` if nothing about it was reported.
///
/// Fails (`None`) on anything that is not the JSON Envoy writes.
pub fn parse(body: &[u8], clusters: &[Box<str>]) -> Option<Vec<Option<ClusterStats>>> {
    let document = node::from_json(body).ok()?;
    let Some(Node::List(stats)) = field(&document, "stats") else { return None };
    let mut found: Vec<Option<ClusterStats>> = vec![None; clusters.len()];
    for stat in stats {
        // Histograms come as an element without name and value.
        let (Some(Node::Text(name)), Some(Node::Int(value))) = (field(stat, "name"), field(stat, "value"))
        else {
            continue;
        };
        let Ok(value) = u64::try_from(*value) else { continue };
        let Some(rest) = name.strip_prefix("cluster.") else { continue };
        for (cluster, entry) in clusters.iter().zip(&mut found) {
            // Istio closes the cluster's name with a semicolon since 1.23; both spellings are met.
            let own = rest.strip_prefix(&**cluster);
            let Some(stat) = own.and_then(|tail| tail.strip_prefix(";").unwrap_or(tail).strip_prefix('.'))
            else {
                continue;
            };
            apply(entry.get_or_insert_default(), stat, value);
        }
    }
    Some(found)
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Node::Map(fields) = node else { return None };
    fields.iter().find(|(own, _)| **own == *name).map(|(_, value)| value)
}

fn apply(stats: &mut ClusterStats, stat: &str, value: u64) {
    // A gauge that wrapped below zero reads as an absurd number.
    let gauge = if value < 1 << 40 { value } else { 0 };
    match stat {
        "upstream_rq_active" => stats.active = gauge,
        "upstream_rq_pending_active" => stats.pending = gauge,
        "upstream_cx_active" => stats.connections = gauge,
        "upstream_rq_pending_overflow" | "upstream_rq_active_overflow" => {
            stats.overflows = stats.overflows.saturating_add(value);
        }
        "upstream_rq_completed" => stats.completed = value,
        "circuit_breakers.default.remaining_cx" => stats.remaining_connections = Some(gauge),
        "circuit_breakers.default.cx_open" => stats.connections_exhausted = value != 0,
        _ => {}
    }
}

fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for letter in name.chars() {
        if letter.is_ascii_punctuation() && letter != '_' && letter != '-' {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[test]
    fn asks_for_the_named_clusters_only() {
        let path = query_path(&clusters(&["web", "outbound|80||a.b"]));
        assert!(path.starts_with(
            "/stats?format=json&filter=%5Ecluster%5C.%28web%7Coutbound%5C%7C80%5C%7C%5C%7Ca%5C.b%29"
        ));
        assert!(path.ends_with("%24"));
    }

    #[test]
    fn reads_both_spellings_and_both_overflow_counters() {
        let body = br#"{"stats":[{"name":"cluster.web.upstream_rq_active","value":24},
            {"name":"cluster.web.upstream_rq_pending_overflow","value":3},
            {"name":"cluster.web.upstream_rq_active_overflow","value":4},
            {"name":"cluster.outbound|80||a;.upstream_cx_active","value":5},
            {"name":"cluster.outbound|80||a;.circuit_breakers.default.remaining_cx","value":15},
            {"name":"cluster.webber.upstream_rq_active","value":9},
            {"histograms":{"supported_quantiles":[0.5]}}]}"#;
        let found = parse(body, &clusters(&["web", "outbound|80||a", "idle"])).unwrap();
        let web = found[0].unwrap();
        assert_eq!((web.active, web.pending, web.overflows), (24, 0, 7));
        assert_eq!(found[1].unwrap().connection_bound(), Some(20));
        assert_eq!(found[2], None);
    }

    #[test]
    fn takes_istio_defaults_for_no_bound() {
        let stats = ClusterStats { remaining_connections: Some(u64::from(u32::MAX)), ..Default::default() };
        assert_eq!(stats.connection_bound(), None);
    }

    #[test]
    fn refuses_what_envoy_did_not_write() {
        for junk in [&b""[..], b"upstream connect error", b"{}", b"{\"stats\":7}", b"[1"] {
            assert!(parse(junk, &clusters(&["web"])).is_none());
        }
    }
}
