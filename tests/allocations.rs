//! The request path allocates nothing once its buffers have grown: counted, not believed.
#![cfg(not(target_arch = "wasm32"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;

use sluicegate_policy::class::Class;
use sluicegate_policy::config;
use sluicegate_policy::matcher::{Matcher, Scratch};
use sluicegate_policy::request::Request;

thread_local! {
    /// Allocations of this thread; other tests and the harness have their own.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The path, and the same headers for every request.
struct Browser<'a>(&'a str);

impl Request for Browser<'_> {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let value = match name {
            ":method" => "GET",
            ":path" => self.0,
            ":authority" => "Shop.Example.com:8443",
            "authorization" => "Bearer 0123456789",
            "cookie" => "a=1; session=0123456789",
            _ => return None,
        };
        Some(Cow::Borrowed(value.as_bytes()))
    }

    fn property(&self, _: &[&str]) -> Option<Vec<u8>> {
        None
    }
}

const POLICY: &str = r#"{
    "version": 1,
    "shim": {"cluster": "shim"},
    "identities": {
        "caller": [{"header": {"name": "authorization", "scheme": "bearer"}}],
        "session": [{"query": "session"}, {"cookie": "session"}],
        "address": [{"client_ip": {"trusted_hops": 1}}]
    },
    "limits": [
        {"name": "all", "key": ["caller"], "token_bucket": {"burst": 9, "rate": "1/s"}},
        {"name": "shop", "key": ["caller", "session"], "match": {"hosts": ["*.example.com"]},
         "token_bucket": {"burst": 9, "rate": "1/s"}},
        {"name": "orders", "key": ["address"], "match": {"path": "/users/{id}/orders", "methods": ["GET"]},
         "token_bucket": {"burst": 9, "rate": "1/s"}}
    ]
}"#;

#[test]
fn a_request_is_examined_without_allocating() {
    let policy = config::from_json(POLICY.as_bytes()).unwrap();
    let (matcher, mut scratch) = (Matcher::new(&policy, [1, 2]), Scratch::default());
    let mut examine = |path: &str, met: usize| {
        assert_eq!(matcher.classify(&Browser(path), 7, &mut scratch), Class::Normal);
        matcher.meet(&Browser(path), &mut scratch);
        assert_eq!(scratch.met().len(), met);
        for at in 0..met {
            let met = scratch.met()[at];
            matcher.wire_key(met.limit, &mut scratch);
        }
    };
    let paths =
        [("/users/1/orders?session=a%20b", 3), ("//users/./1/x/../%6frders;v=1", 3), ("/about", 2), ("/", 2)];
    paths.iter().for_each(|(path, met)| examine(path, *met));
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        paths.iter().for_each(|(path, met)| examine(path, *met));
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
