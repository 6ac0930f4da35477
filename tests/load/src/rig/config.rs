//! Envoy's bootstrap configuration, as JSON.

use std::path::Path;

use serde_json::{Value, json};

/// Everything that differs between the systems under test.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Worker threads.
    pub(crate) workers: usize,
    /// HTTP filters before the router.
    pub(crate) filters: Vec<Value>,
    /// Where requests go.
    pub(crate) backend: Backend,
    /// Where callouts go.
    pub(crate) services: Vec<Service>,
    /// Where the cluster `admin` leads; Envoy's own admin endpoint unless a scenario blocks it.
    pub(crate) admin_port: Option<u16>,
    /// A filter in a listener of its own, which takes no requests and can be taken away.
    pub(crate) aside: Option<Value>,
}

/// What stands behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Envoy answers by itself.
    Direct,
    /// HTTP/1.1, with bounds on connections and pending requests; `None` is as good as unbounded.
    Http1 { port: u16, connections: Option<u32>, pending: Option<u32> },
    /// HTTP/2, unbounded.
    Http2 { port: u16 },
}

/// A cluster for callouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
}

/// Name of the protected cluster.
pub(crate) const UPSTREAM: &str = "upstream";

/// Name of the cluster of Envoy's own admin endpoint.
pub(crate) const ADMIN: &str = "admin";

/// Name of the cluster of the shim.
pub(crate) const SHIM: &str = "shim";

const UNBOUNDED: u32 = 1_000_000;

// === impl Config ===

impl Config {
    /// The bootstrap document; what stands aside is in a file of its own, which Envoy watches.
    pub(crate) fn bootstrap(&self, port: u16, admin_port: u16, aside: &Path) -> Value {
        let mut clusters = vec![cluster(ADMIN, self.admin_port.unwrap_or(admin_port), UNBOUNDED, UNBOUNDED)];
        clusters.extend(self.backend.cluster());
        clusters.extend(
            self.services.iter().map(|service| cluster(service.name, service.port, UNBOUNDED, UNBOUNDED)),
        );
        let mut bootstrap = json!({
            "admin": {"address": address(admin_port)},
            "static_resources": {"listeners": [self.listener("ingress", port, &self.filters)], "clusters": clusters},
        });
        if let (Some(_), Some(fields)) = (&self.aside, bootstrap.as_object_mut()) {
            let watched = json!({"lds_config": {"path_config_source": {"path": aside}}});
            fields.insert("dynamic_resources".into(), watched);
            // Whoever watches must have a name.
            fields.insert("node".into(), json!({"id": "rig", "cluster": "rig"}));
        }
        bootstrap
    }

    /// The watched file, with the listener of what stands aside or without.
    pub(crate) fn listeners(&self, is_there: bool) -> Value {
        let listener = |filter: &Value| {
            let mut listener = self.listener("aside", 0, std::slice::from_ref(filter));
            if let Some(fields) = listener.as_object_mut() {
                fields.insert("@type".into(), "type.googleapis.com/envoy.config.listener.v3.Listener".into());
                fields.insert("bind_to_port".into(), false.into());
            }
            listener
        };
        let resources: Vec<Value> = self.aside.iter().filter(|_| is_there).map(listener).collect();
        json!({"resources": resources})
    }

    fn listener(&self, name: &str, port: u16, filters: &[Value]) -> Value {
        let router =
            typed("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", json!({}));
        let mut filters = filters.to_vec();
        filters.push(router);
        let manager = json!({
            "stat_prefix": "ingress",
            "codec_type": "AUTO",
            "generate_request_id": false,
            "route_config": {"virtual_hosts": [{
                "name": "all", "domains": ["*"], "routes": [self.backend.route()],
            }]},
            "http_filters": filters,
        });
        let manager = typed(
            "envoy.filters.network.http_connection_manager",
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            manager,
        );
        json!({"name": name, "address": address(port), "filter_chains": [{"filters": [manager]}]})
    }
}

// === impl Backend ===

impl Backend {
    fn route(self) -> Value {
        match self {
            Backend::Direct => json!({
                "match": {"prefix": "/"},
                "direct_response": {"status": 200, "body": {"inline_string": "ok\n"}},
            }),
            Backend::Http1 { .. } | Backend::Http2 { .. } => json!({
                "match": {"prefix": "/"},
                // The clients give up by themselves; a timeout here would be one more control.
                "route": {"cluster": UPSTREAM, "timeout": "60s"},
            }),
        }
    }

    fn cluster(self) -> Option<Value> {
        match self {
            Backend::Direct => None,
            Backend::Http1 { port, connections, pending } => {
                let (connections, pending) = (connections.unwrap_or(UNBOUNDED), pending.unwrap_or(UNBOUNDED));
                Some(cluster(UPSTREAM, port, connections, pending))
            }
            Backend::Http2 { port } => Some(http2(cluster(UPSTREAM, port, UNBOUNDED, UNBOUNDED))),
        }
    }
}

/// A filter with its configuration, as Envoy wants it named.
pub(crate) fn typed(name: &str, message: &str, mut config: Value) -> Value {
    if let Some(fields) = config.as_object_mut() {
        fields.insert("@type".into(), format!("type.googleapis.com/{message}").into());
    }
    json!({"name": name, "typed_config": config})
}

fn cluster(name: &str, port: u16, connections: u32, pending: u32) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [{
            "max_connections": connections,
            "max_pending_requests": pending,
            "max_requests": UNBOUNDED,
            "max_retries": 0,
            "track_remaining": true,
        }]},
        "load_assignment": {"cluster_name": name, "endpoints": [{
            "lb_endpoints": [{"endpoint": {"address": address(port)}}],
        }]},
    })
}

fn http2(mut cluster: Value) -> Value {
    let options = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    });
    if let Some(fields) = cluster.as_object_mut() {
        let name = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        fields.insert("typed_extension_protocol_options".into(), json!({name: options}));
    }
    cluster
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_filters_arrive_where_envoy_looks() {
        let config = Config {
            workers: 2,
            filters: vec![typed("x", "y.Z", json!({}))],
            backend: Backend::Http1 { port: 1, connections: Some(20), pending: None },
            services: vec![Service { name: SHIM, port: 2 }],
            admin_port: None,
            aside: None,
        };
        let bootstrap = config.bootstrap(3, 4, Path::new("aside.json"));
        let at = |pointer: &str| bootstrap.pointer(pointer).unwrap().clone();
        let clusters = "/static_resources/clusters";
        assert_eq!(at(&format!("{clusters}/1/circuit_breakers/thresholds/0/max_connections")), 20);
        assert_eq!(at(&format!("{clusters}/2/name")), SHIM);
        let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
        assert_eq!(at(&format!("{manager}/http_filters/0/name")), "x");
        assert_eq!(at(&format!("{manager}/http_filters/1/name")), "envoy.filters.http.router");
    }
}
