//! Bytes that are no text, anywhere a client can put them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::rig::{Chain, NEVER, policy};

const OCTETS: [&[u8]; 2] = [b"\x31\xc0\xa7", b"\x31\xc0\xa8"];

/// The status of a GET with this path and this header, both as they are.
fn get(address: SocketAddr, path: &[u8], name: &str, value: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let parts: [&[u8]; 7] = [
        b"GET ",
        path,
        b" HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n",
        name.as_bytes(),
        b": ",
        value,
        b"\r\n\r\n",
    ];
    stream.write_all(&parts.concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer, and no hang");
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {text:?}")).parse().unwrap()
}

/// WF-1: <https://github.com/proxy-wasm/proxy-wasm-rust-sdk/issues/25>: one such request made the filter panic, and the
/// worker refused or hung all that came after.
#[test]
fn wf_1_bytes_that_are_no_text_do_no_harm() {
    let three = json!({"burst": 3, "rate": NEVER});
    let mut policy = policy(json!([
        {"name": "key", "match": {"path": "/key"}, "key": "caller", "token_bucket": three, "when_unavailable": "deny"},
        {"name": "address", "match": {"path": "/address"}, "key": "behind", "token_bucket": three,
         "when_unavailable": "deny"},
    ]));
    policy["identities"]["behind"] = json!({"client_ip": {"trusted_hops": 1}});
    let chain = Chain::with(&policy, |setup| setup.workers(2));
    let address = chain.envoy.address();
    let normal = |caller: &str| {
        let statuses: Vec<u16> =
            (0..20).map(|_| get(address, b"/key", "x-api-key", caller.as_bytes())).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{caller}: {statuses:?}");
    };
    let four = |path: &[u8], name: &str, value: &[u8]| [(); 4].map(|()| get(address, path, name, value));

    for octets in OCTETS {
        assert_eq!(four(b"/free", "user-agent", octets), [200; 4], "nobody reads it");
    }
    normal("first");
    for octets in OCTETS {
        assert_eq!(four(b"/key", "x-api-key", octets), [200, 200, 200, 429], "a key like any other");
    }
    normal("second");
    // What is no address counts as if nobody had written it: both are this machine's.
    let both: Vec<u16> =
        OCTETS.iter().flat_map(|octets| four(b"/address", "x-forwarded-for", octets)).collect();
    assert_eq!(both, [200, 200, 200, 429, 429, 429, 429, 429]);
    normal("third");
    for octets in OCTETS {
        let path = [b"/", octets].concat();
        for status in four(&path, "x-free", b"1") {
            assert!([200, 400].contains(&status), "answered, or refused by Envoy itself: {status}");
        }
    }
    normal("fourth");
    let log = chain.envoy.log();
    assert!(!log.contains("panic") && !log.contains("[critical]") && !log.contains("[error]"), "{log}");
}
