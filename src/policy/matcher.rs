//! Which limits a request meets, and whom they count.
//!
//! A [`Matcher`] is built once from a policy; a [`Scratch`] belongs to a worker and is used for one request after
//! the other, so in the long run nothing is allocated. For each request:
//!
//! ```text
//! let class = matcher.classify(request, random, &mut scratch);    // exempt? how important?
//! matcher.meet(request, &mut scratch);                            // which limits, whose keys
//! for met in scratch.met() { … matcher.wire_key(met.limit, …) … }
//! ```
//!
//! Both steps see the same request; the first can be enough (exempt, or shed), and then reads no key. A header or
//! property is read when the first rule needs it that everything else has not ruled out already.
//!
//! Limits are met together, in configuration order. Of a `group`, only the first whose conditions hold.
//!
//! **Exemption is for the plain spelling only.** Limits count every spelling of a path (see [`crate::path`]);
//! what is exempt must be written as the policy writes it, a slash at the end aside. Otherwise a backend that reads
//! `/admin/..;/healthz` as a page of `/admin` would serve it unlimited.

mod bits;
mod dimension;
mod index;
mod trie;

use crate::class::Class;
use crate::digest::{Digester, Fingerprint, Fingerprints, WireKey};
use crate::identity::IdentityId;
use crate::limit::{Algorithm, WhenMissing};
use crate::path;
use crate::policy::Policy;
use crate::request::Request;
use crate::resolve::Resolver;
use crate::resolve::attribute::{AttributeId, Attributes, Memo, Reader, Span};
use crate::resolve::key::{Asked, KeyMemo, Keys};
use crate::tier::{TierId, TierRules, Variant, Variants};
use bits::Bits;
use index::Index;

/// The policy, arranged for requests.
#[derive(Clone, Debug)]
pub struct Matcher {
    attributes: Attributes,
    /// Limits first, then classes, then exemptions.
    index: Index,
    limit_rules: Bits,
    class_rules: Bits,
    exempt_rules: Bits,
    /// Rules without a condition on the path.
    pathless_rules: Bits,
    /// Whether there are any others: if not, the path is not even read.
    has_paths: bool,
    classes: Vec<Class>,
    class_header: Option<AttributeId>,
    path: AttributeId,
    preflight: Preflight,
    limits: Vec<Subject>,
    groups: usize,
    keys: Keys,
    tiers: TierRules,
    variants: Variants,
}

/// What is asked about a limit that a request meets.
#[derive(Clone, Debug)]
struct Subject {
    group: Option<usize>,
    key: usize,
    when_missing: WhenMissing,
    charge_preflight: bool,
}

#[derive(Clone, Copy, Debug)]
struct Preflight {
    method: AttributeId,
    origin: AttributeId,
    wanted_method: AttributeId,
}

/// A limit that applies to the request at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// Index into [`Policy::limits`].
    pub limit: usize,
    /// The limit's numbers for the request's tier: [`Matcher::algorithm`].
    pub variant: Variant,
    /// Whom it counts.
    pub key: Key,
}

/// Whom a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// This client. Equal for limits with the same key, so maps also need the limit.
    Client(Fingerprint),
    /// It cannot be told, and the limit's `when_missing` is `deny`: the request is refused with 429.
    Refused,
}

/// Working memory for one request at a time.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    memo: Memo,
    random: u64,
    /// Rules whose path condition holds.
    found: Bits,
    candidates: Bits,
    accepted: Bits,
    stack: trie::Stack,
    groups: Bits,
    keys: KeyMemo,
    tier: Asked<TierId>,
    met: Vec<Met>,
}

/// Whether a share of requests, in hundredths of a percent, includes the request that drew `random`.
///
/// `salt` makes the shares of different rules independent of each other.
pub fn drawn(random: u64, salt: usize, share_e2: u32) -> bool {
    // The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    let mut z = random ^ (salt as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let uniform = (z ^ (z >> 31)) >> 32;
    (uniform * 10_000) >> 32 < u64::from(share_e2)
}

// === impl Matcher ===

impl Matcher {
    /// Arranges a policy; `key` is drawn at random when the VM starts and keeps clients from choosing collisions.
    pub fn new(policy: &Policy, key: [u64; 2]) -> Matcher {
        let mut attributes = Attributes::default();
        let (limits, classes) = (policy.limits.len(), policy.classes.len());
        let patterns: Vec<_> = (policy.limits.iter().map(|limit| &limit.pattern))
            .chain(policy.classes.iter().map(|rule| &rule.pattern))
            .chain(&policy.exempt)
            .collect();
        let (rules, first_exempt) = (patterns.len(), limits.saturating_add(classes));
        let has_paths = !patterns.iter().all(|pattern| index::is_pathless(pattern));
        let pathless = patterns.iter().enumerate().filter(|(_, pattern)| index::is_pathless(pattern));
        let pathless_rules = Bits::from_members(rules, pathless.map(|(rule, _)| rule));
        let mut keys = Keys::new(
            Resolver::new(&policy.identities, &mut attributes),
            Fingerprints::new(key),
            Digester::new(policy.digest_secret.as_deref()),
        );
        let mut groups: Vec<&str> = Vec::new();
        let subjects = policy
            .limits
            .iter()
            .map(|limit| Subject {
                group: limit.group.as_deref().map(|group| number(&mut groups, group)),
                key: keys.list(&limit.key),
                when_missing: limit.when_missing,
                charge_preflight: limit.charge_preflight,
            })
            .collect();
        Matcher {
            index: Index::new(&patterns, &mut attributes),
            limit_rules: Bits::from_members(rules, 0..limits),
            class_rules: Bits::from_members(rules, limits..first_exempt),
            exempt_rules: Bits::from_members(rules, first_exempt..rules),
            pathless_rules,
            has_paths,
            classes: policy.classes.iter().map(|rule| rule.class).collect(),
            class_header: policy.class_header.as_deref().map(|name| attributes.header(name)),
            path: attributes.header(":path"),
            preflight: Preflight {
                method: attributes.header(":method"),
                origin: attributes.header("origin"),
                wanted_method: attributes.header("access-control-request-method"),
            },
            limits: subjects,
            groups: groups.len(),
            tiers: TierRules::new(&policy.tiers, keys.resolver(), &mut attributes),
            keys,
            variants: Variants::new(policy),
            attributes,
        }
    }

    /// Begins with a request: how much it matters, `Exempt` included.
    ///
    /// A valid class in the trusted header comes before the rules; it cannot be `exempt`. Without either a request is
    /// `Normal`. `random` decides about rules for a share of requests.
    pub fn classify(&self, request: &dyn Request, random: u64, scratch: &mut Scratch) -> Class {
        self.begin(random, scratch);
        let Scratch { memo, found, candidates, accepted, stack, .. } = scratch;
        let mut reader = Reader { request, attributes: &self.attributes, memo };
        let spelling = self.find(&mut reader, stack, found);

        candidates.set_intersection(found, &self.exempt_rules);
        if spelling != Spelling::Plain {
            candidates.intersect(&self.pathless_rules);
        }
        if self.first_of(candidates, accepted, random, &mut reader).is_some() {
            return Class::Exempt;
        }
        if let Some(class) = self.header_class(&mut reader) {
            return class;
        }
        candidates.set_intersection(found, &self.class_rules);
        let rule = self.first_of(candidates, accepted, random, &mut reader);
        let class = rule.and_then(|rule| self.classes.get(rule.checked_sub(self.limits.len())?));
        class.copied().unwrap_or(Class::Normal)
    }

    /// Goes on with the request that was classified last: the limits it meets, in [`Scratch::met`].
    ///
    /// Not among them: limits that do not charge preflights, for a preflight; limits whose key is missing, if they
    /// say `skip`; all of them for an unlimited tier.
    pub fn meet(&self, request: &dyn Request, scratch: &mut Scratch) {
        scratch.met.clear();
        scratch.groups.reset(self.groups);
        let Scratch { memo, found, candidates, accepted, .. } = scratch;
        let mut reader = Reader { request, attributes: &self.attributes, memo };
        candidates.set_intersection(found, &self.limit_rules);
        self.index.narrow(candidates, accepted, &mut reader);
        let candidates = std::mem::take(&mut scratch.candidates);
        for limit in candidates.iter() {
            if let Some(met) = self.met(limit, request, scratch) {
                scratch.met.push(met);
            }
        }
        scratch.candidates = candidates;
    }

    /// The numbers of a limit for the request's tier.
    pub fn algorithm(&self, met: &Met) -> Option<&Algorithm> {
        self.variants.algorithm(met.variant)
    }

    /// All variants of all limits, for tables that go with them.
    pub fn variants(&self) -> &Variants {
        &self.variants
    }

    /// The key for the wire, of a limit in [`Scratch::met`] of the request at hand, by its number.
    pub fn wire_key(&self, limit: usize, scratch: &mut Scratch) -> WireKey {
        let list = self.limits.get(limit).map_or(usize::MAX, |subject| subject.key);
        self.keys.wire_key(list, &mut scratch.keys, &scratch.memo)
    }

    /// One identity of the request at hand, for cohorts and fair shares; `None` if it has no value.
    ///
    /// Equal to the fingerprint of a limit that counts by this identity alone.
    pub fn identity(
        &self,
        identity: IdentityId,
        request: &dyn Request,
        scratch: &mut Scratch,
    ) -> Option<Fingerprint> {
        let Scratch { memo, keys, .. } = scratch;
        self.keys.single(identity, keys, &mut Reader { request, attributes: &self.attributes, memo })
    }

    /// The tier of the request at hand; a list of members comes before what the request says.
    pub fn tier(&self, request: &dyn Request, scratch: &mut Scratch) -> Option<TierId> {
        let Scratch { memo, keys, tier, .. } = scratch;
        let mut reader = Reader { request, attributes: &self.attributes, memo };
        tier.get_or(|| {
            let listed = self.tiers.listed().iter().find_map(|&identity| {
                let value = self.keys.value(identity, keys, &mut reader)?;
                self.tiers.member(value, reader.memo.bytes(value.span))
            });
            listed.or_else(|| self.tiers.named(&mut reader))
        })
    }

    /// Whether the request at hand has this method.
    pub fn has_method(&self, method: &[u8], request: &dyn Request, scratch: &mut Scratch) -> bool {
        let mut reader = Reader { request, attributes: &self.attributes, memo: &mut scratch.memo };
        reader.bytes(self.preflight.method) == Some(method)
    }

    /// Whether the request at hand is a CORS preflight: `OPTIONS` with `Origin` and `Access-Control-Request-Method`.
    pub fn is_preflight(&self, request: &dyn Request, scratch: &mut Scratch) -> bool {
        let mut reader = Reader { request, attributes: &self.attributes, memo: &mut scratch.memo };
        let Preflight { method, origin, wanted_method } = self.preflight;
        // First what hardly any request has: what is not there is not copied either.
        [wanted_method, origin]
            .into_iter()
            .all(|header| reader.bytes(header).is_some_and(|value| !value.trim_ascii().is_empty()))
            && reader.bytes(method) == Some(b"OPTIONS")
    }

    fn begin(&self, random: u64, scratch: &mut Scratch) {
        scratch.memo.clear(&self.attributes);
        scratch.random = random;
        scratch.tier = Asked::NotYet;
        scratch.met.clear();
        self.keys.clear(&mut scratch.keys);
    }

    /// Sets `found` to the rules whose path condition holds.
    fn find(&self, reader: &mut Reader<'_>, stack: &mut trie::Stack, found: &mut Bits) -> Spelling {
        if !self.has_paths {
            found.copy_from(&self.pathless_rules);
            return Spelling::Plain;
        }
        let (path, spelling) = normal_path(self.path, reader);
        match path {
            Some(path) => self.index.on_path(reader.memo.bytes(path), stack, found),
            None => {
                found.copy_from(&self.limit_rules);
                found.unite(&self.pathless_rules);
            }
        }
        spelling
    }

    fn first_of(
        &self,
        candidates: &mut Bits,
        accepted: &mut Bits,
        random: u64,
        reader: &mut Reader<'_>,
    ) -> Option<usize> {
        if candidates.is_empty() {
            return None;
        }
        self.index.narrow(candidates, accepted, reader);
        candidates.iter().find(|&rule| self.index.holds(rule, random, reader))
    }

    fn header_class(&self, reader: &mut Reader<'_>) -> Option<Class> {
        let name = std::str::from_utf8(reader.bytes(self.class_header?)?.trim_ascii()).ok()?;
        Class::from_name(name).filter(|class| *class != Class::Exempt)
    }

    /// What a limit that method, host, route and cluster let stand has to do with the request.
    fn met(&self, limit: usize, request: &dyn Request, scratch: &mut Scratch) -> Option<Met> {
        let subject = self.limits.get(limit)?;
        if subject.group.is_some_and(|group| scratch.groups.contains(group)) {
            return None;
        }
        let mut reader = Reader { request, attributes: &self.attributes, memo: &mut scratch.memo };
        if !self.index.holds(limit, scratch.random, &mut reader) {
            return None;
        }
        if let Some(group) = subject.group {
            scratch.groups.insert(group);
        }
        if !subject.charge_preflight && self.is_preflight(request, scratch) {
            return None;
        }
        let tier = self.tier(request, scratch);
        let variant = self.variants.of(limit, tier)?;
        let Scratch { memo, keys, .. } = scratch;
        let known =
            self.keys.key(subject.key, keys, &mut Reader { request, attributes: &self.attributes, memo })?;
        let key = match (known.incomplete, subject.when_missing) {
            (false, _) | (true, WhenMissing::Shared) => Key::Client(known.fingerprint),
            (true, WhenMissing::Skip) => return None,
            (true, WhenMissing::Deny) => Key::Refused,
        };
        Some(Met { limit, variant, key })
    }
}

// === impl Scratch ===

impl Scratch {
    /// The limits that the request at hand meets, in configuration order.
    pub fn met(&self) -> &[Met] {
        &self.met
    }
}

/// How a path was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// In normal form, a slash at the end aside.
    Plain,
    /// Otherwise.
    Odd,
}

/// The normal form of the request's path; `None` if it is too long to be looked at.
fn normal_path(id: AttributeId, reader: &mut Reader<'_>) -> (Option<Span>, Spelling) {
    // `CONNECT` has none.
    let raw = reader.get(id).unwrap_or_default();
    let path = path::without_query(reader.memo.bytes(raw));
    if path.len() > path::RAW_MAX {
        return (None, Spelling::Odd);
    }
    if let Some(len) = path::normal_len(path) {
        return (Some(Memo::piece(raw, 0, len)), Spelling::Plain);
    }
    let written = reader.memo.keep_from(raw, |raw, out| {
        path::rewrite(path::without_query(raw), out);
        Some(())
    });
    (written, Spelling::Odd)
}

/// The number of a name in a list of distinct ones.
fn number<'a>(list: &mut Vec<&'a str>, name: &'a str) -> usize {
    list.iter().position(|known| *known == name).unwrap_or_else(|| {
        list.push(name);
        list.len().saturating_sub(1)
    })
}
