//! A request from a list, and policies from what a test is about.

use std::borrow::Cow;
use std::cell::RefCell;

use sluicegate_policy::class::Class;
use sluicegate_policy::identity::{Identity, IdentityId, Source};
use sluicegate_policy::limit::{
    Algorithm, Cost, Enforce, Limit, Rate, TokenBucket, WhenMissing, WhenUnavailable,
};
use sluicegate_policy::matcher::{Key, Matcher, Scratch};
use sluicegate_policy::mode::Mode;
use sluicegate_policy::pattern::{PathPattern, Pattern, Segment};
use sluicegate_policy::policy::{Body, Policy, Responses, Tiers};
use sluicegate_policy::request::Request;

/// A request, and what was read of it.
#[derive(Debug, Default)]
pub(crate) struct FakeRequest {
    headers: Vec<(String, Vec<u8>)>,
    properties: Vec<(String, Vec<u8>)>,
    reads: RefCell<Vec<String>>,
}

impl FakeRequest {
    pub(crate) fn get(path: impl AsRef<[u8]>) -> FakeRequest {
        FakeRequest::default()
            .with(":method", "GET")
            .with(":path", path)
            .with(":authority", "www.example.com")
            .with_property("source.address", "192.0.2.1:50000")
    }

    /// With a header, in place of one of that name.
    pub(crate) fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> FakeRequest {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> FakeRequest {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// With a property, its path joined by dots.
    pub(crate) fn with_property(mut self, path: &str, value: impl AsRef<[u8]>) -> FakeRequest {
        self.properties.retain(|(known, _)| known != path);
        self.properties.push((path.into(), value.as_ref().to_vec()));
        self
    }

    /// Names of what was read, in order.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.reads.borrow().clone()
    }
}

impl Request for FakeRequest {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.reads.borrow_mut().push(name.into());
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| Cow::Borrowed(&**value))
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        let path = path.join(".");
        let found = self.properties.iter().find(|(known, _)| *known == path).map(|(_, value)| value.clone());
        self.reads.borrow_mut().push(path);
        found
    }
}

/// A policy with these identities and limits, and nothing else.
pub(crate) fn policy(identities: Vec<Vec<Source>>, limits: Vec<Limit>) -> Policy {
    let identities = identities.into_iter().zip(0..);
    Policy {
        namespace: "default".into(),
        shim: None,
        identities: identities
            .map(|(sources, id)| Identity { name: format!("identity-{id}").into(), sources })
            .collect(),
        limits,
        tiers: Tiers::default(),
        classes: Vec::new(),
        class_header: None,
        exempt: Vec::new(),
        exempt_rate: 1_000,
        overload: None,
        responses: Responses {
            fields: Vec::new(),
            on_allow: true,
            body: Body::Problem,
            retry_after_jitter_percent: 0,
        },
        mode: Mode::Enforce,
        digest_secret: None,
        hash: 0,
    }
}

/// A limit that counts by identity 0.
pub(crate) fn limit(name: &str, pattern: Pattern) -> Limit {
    Limit {
        name: name.into(),
        pattern,
        group: None,
        key: vec![IdentityId(0)],
        when_missing: WhenMissing::Deny,
        algorithm: Algorithm::TokenBucket(TokenBucket {
            burst: 100,
            rate: Rate { tokens: 1, period_us: 100_000 },
        }),
        cost: Cost::Constant(1),
        charge_when: None,
        charge_preflight: false,
        enforce: Enforce::Shared,
        when_unavailable: WhenUnavailable::Allow,
        mode: Mode::Enforce,
    }
}

pub(crate) fn exact(path: &str) -> Pattern {
    Pattern { path: PathPattern::Exact(path.into()), ..Pattern::default() }
}

pub(crate) fn prefix(path: &str) -> Pattern {
    Pattern { path: PathPattern::Prefix(path.into()), ..Pattern::default() }
}

/// A template: `*` for one segment, `**` at the end for the rest.
pub(crate) fn template(path: &str) -> Pattern {
    let segments = path.split('/').filter(|segment| !segment.is_empty()).map(|segment| match segment {
        "*" => Segment::One,
        "**" => Segment::Rest,
        text => Segment::Literal(text.into()),
    });
    Pattern { path: PathPattern::Template(segments.collect()), ..Pattern::default() }
}

/// Everybody is one.
pub(crate) fn anybody() -> Vec<Source> {
    vec![Source::Constant("all".into())]
}

pub(crate) fn header(name: &str) -> Source {
    Source::Header { name: name.into(), scheme: None }
}

/// A policy at work.
pub(crate) struct Examiner {
    pub(crate) matcher: Matcher,
    pub(crate) scratch: Scratch,
    names: Vec<Box<str>>,
}

impl Examiner {
    pub(crate) fn new(policy: &Policy) -> Examiner {
        Examiner {
            matcher: Matcher::new(policy, [1, 2]),
            scratch: Scratch::default(),
            names: policy.limits.iter().map(|limit| limit.name.clone()).collect(),
        }
    }

    /// The class of a request, and the names of the limits it meets.
    pub(crate) fn examine(&mut self, request: &FakeRequest) -> (Class, Vec<&str>) {
        let class = self.matcher.classify(request, 7, &mut self.scratch);
        self.matcher.meet(request, &mut self.scratch);
        let names = self.scratch.met().iter().filter_map(|met| self.names.get(met.limit));
        (class, names.map(|name| &**name).collect())
    }

    pub(crate) fn names(&mut self, request: &FakeRequest) -> Vec<&str> {
        self.examine(request).1
    }

    /// Whom the first limit counts.
    pub(crate) fn key(&mut self, request: &FakeRequest) -> Option<Key> {
        self.examine(request);
        self.scratch.met().first().map(|met| met.key)
    }

    /// The wire keys of all limits the request meets.
    pub(crate) fn wire_keys(&mut self, request: &FakeRequest) -> Vec<String> {
        self.examine(request);
        let met = self.scratch.met().to_vec();
        met.iter()
            .map(|met| self.matcher.wire_key(met.limit, &mut self.scratch).as_str().to_owned())
            .collect()
    }
}

/// A policy whose only limit counts by these identities, all of them together.
pub(crate) fn keyed_by(identities: Vec<Vec<Source>>, when_missing: WhenMissing) -> Examiner {
    let key = (0..identities.len()).map(IdentityId).collect();
    let limit = Limit { key, when_missing, ..limit("only", Pattern::default()) };
    Examiner::new(&policy(identities, vec![limit]))
}
