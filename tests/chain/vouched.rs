//! Keys that Envoy vouches for: JWT claims, client certificates, its own attributes; and those that it only passes on.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate_testing::pki::Pki;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::rig::{Chain, NEVER, policy, statuses};

/// Signed with the secret in `AUTHN`; their claims are `{"iss": "tests", "sub": "alice", "plan": "free"}`, and bob's plan
/// is gold.
const ALICE: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6InRlc3QifQ.\
    eyJpc3MiOiJ0ZXN0cyIsInN1YiI6ImFsaWNlIiwicGxhbiI6ImZyZWUifQ.dQoQr3cCBaic1V51HxxLlsSBAvO2DIWg70x7CfgmGCE";
const BOB: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6InRlc3QifQ.\
    eyJpc3MiOiJ0ZXN0cyIsInN1YiI6ImJvYiIsInBsYW4iOiJnb2xkIn0.nKHSgYez8mxXAUR3NeWEdgky_ckA2RtGh58vDt_jYyU";

/// In front of the filter, as the manual says.
const AUTHN: &str = r#"                  - name: envoy.filters.http.jwt_authn
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
                      providers:
                        tests:
                          issuer: tests
                          payload_in_metadata: jwt_payload
                          local_jwks:
                            inline_string: '{"keys":[{"kty":"oct","kid":"test","alg":"HS256","k":"YSBzZWNyZXQgdGhhdCBvbmx5IHRlc3RzIGtub3cgb2Y"}]}'
                      rules:
                        - match: {prefix: /}
                          requires: {requires_any: {requirements: [{provider_name: tests}, {allow_missing: {}}]}}

"#;
const FILTER: &str = "                  - name: sluicegate\n";

/// Two requests for each of these keys.
fn two_each(identities: Value) -> Value {
    let names: Vec<String> = identities.as_object().unwrap().keys().cloned().collect();
    let limits = names.iter().map(|name| {
        json!({"name": name, "match": {"path": format!("/{name}")}, "key": name,
               "token_bucket": {"burst": 2, "rate": NEVER}, "when_unavailable": "deny"})
    });
    let mut policy = policy(limits.collect());
    policy["identities"] = identities;
    policy
}

#[tokio::test]
async fn a_claim_is_the_key_once_it_is_verified() {
    let mut policy = two_each(json!({"subject": {"jwt_claim": "sub"}}));
    policy["tiers"] = json!({"gold": {"multiply": 2}});
    policy["tier_from"] = json!({"jwt_claim": "plan"});
    let chain = Chain::with(&policy, |setup| setup.edit(FILTER, &format!("{AUTHN}{FILTER}")));
    let client = chain.client();
    let five = async |token: Option<&str>| {
        let mut replies = Vec::new();
        for _ in 0..5 {
            let ask = client.get("/subject");
            let ask = match token {
                Some(token) => ask.header("authorization", format!("Bearer {token}")),
                None => ask,
            };
            replies.push(ask.send().await);
        }
        statuses(&replies)
    };
    assert_eq!(five(Some(ALICE)).await, [200, 200, 429, 429, 429]);
    assert_eq!(five(Some(BOB)).await, [200, 200, 200, 200, 429], "a tier from a claim");
    assert_eq!(five(None).await, [429; 5], "no claim, no key");
    // Bob's claims with Alice's signature.
    let forged = format!("{}.{}", BOB.rsplit_once('.').unwrap().0, ALICE.rsplit_once('.').unwrap().1);
    assert_eq!(five(Some(&forged)).await, [401; 5], "Envoy refuses it");
}

#[tokio::test]
async fn queries_cookies_and_attributes_are_keys() {
    let policy = two_each(json!({
        "query": {"query": "api_key"},
        "cookie": {"cookie": "session"},
        "route": {"property": ["request", "host"]},
    }));
    let chain = Chain::start(&policy);
    let client = chain.client();
    let three = async |path: &str, header: Option<(&str, &str)>| {
        let mut replies = Vec::new();
        for _ in 0..3 {
            let ask = client.get(path);
            let ask = header.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
            replies.push(ask.send().await);
        }
        statuses(&replies)
    };
    assert_eq!(three("/query?x=1&api_key=one", None).await, [200, 200, 429]);
    assert_eq!(three("/query?api_key=o%6ee", None).await, [429; 3], "the same key in another spelling");
    assert_eq!(three("/query?api_key=two", None).await, [200, 200, 429]);
    assert_eq!(three("/cookie", Some(("cookie", "a=b; session=one"))).await, [200, 200, 429]);
    assert_eq!(three("/cookie", Some(("cookie", "session=two; a=b"))).await, [200, 200, 429]);
    assert_eq!(three("/route", Some(("host", "a.example.com"))).await, [200, 200, 429]);
    assert_eq!(three("/route", Some(("host", "b.example.com"))).await, [200, 200, 429]);
}

/// The status of a GET over TLS with this client certificate.
async fn get(
    address: SocketAddr,
    pki: &Pki,
    path: &str,
    client: &(impl AsRef<Path>, impl AsRef<Path>),
) -> u16 {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.ca()).unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_file(&client.0).unwrap();
    let key = PrivateKeyDer::from_pem_file(&client.1).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    let name = ServerName::try_from("gateway").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Envoy may close without a goodbye.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).split(' ').nth(1).expect("an answer").parse().unwrap()
}

#[tokio::test]
async fn a_client_certificate_is_the_key() {
    let pki = Pki::new();
    let (certificate, key) = pki.issue("gateway", &["gateway"]);
    let clients = ["one", "two"].map(|name| {
        pki.issue(name, &[&format!("{name}.example.com"), &format!("spiffe://example.com/{name}")])
    });
    let policy = two_each(json!({
        "uri": {"client_certificate": "uri"},
        "dns": {"client_certificate": "dns"},
        "subject": {"client_certificate": "subject"},
        "digest": {"client_certificate": "digest"},
    }));
    let socket = format!(
        r#"        - transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
              require_client_certificate: true
              common_tls_context:
                tls_certificates: [{{certificate_chain: {{filename: {}}}, private_key: {{filename: {}}}}}]
                validation_context: {{trusted_ca: {{filename: {}}}}}
          filters:
"#,
        certificate.display(),
        key.display(),
        pki.ca().display()
    );
    let chain = Chain::with(&policy, |setup| setup.edit("        - filters:\n", &socket));
    let address = chain.envoy.address();
    for path in ["/uri", "/dns", "/subject", "/digest"] {
        for client in &clients {
            let mut statuses = Vec::new();
            for _ in 0..3 {
                statuses.push(get(address, &pki, path, client).await);
            }
            assert_eq!(statuses, [200, 200, 429], "{path}: each certificate has its own");
        }
    }
}
