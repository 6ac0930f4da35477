//! How a batch is divided among calls, and how their answers become verdicts.

use std::collections::HashMap;
use std::fmt;
use std::mem;

use sluicegate_policy::algorithm::OutOfRange;
use sluicegate_policy::limit::Algorithm;
use sluicegate_policy::verdict::Standing;
use sluicegate_policy::wire::{Ask, Batch, WireLimit};

use super::encode::{BadReply, Builder, Call, KEYS_MAX, Resolved};
use super::{redis_key, tag};

/// How Redis keeps the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All in one place.
    Single,
    /// By slot.
    Cluster,
}

/// A batch, divided into calls.
#[derive(Debug)]
pub struct Plan {
    calls: Vec<Call>,
    takes: Vec<Planned>,
    prefix: Box<str>,
    namespace: Box<str>,
    limits: Vec<(Box<str>, Algorithm)>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// One for each take, in order; `None` where some part of it got no decision.
    pub verdicts: Vec<Option<Vec<Standing>>>,
    /// Calls to send now (Cluster only): they give back what refused takes took elsewhere. Their replies say
    /// nothing.
    pub refunds: Vec<Call>,
    /// Replies that could not be understood.
    pub bad_replies: Vec<BadReply>,
}

/// Why a batch cannot be carried out. All else that a batch may not be is refused before it comes here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadBatch {
    /// A limit's number is out of range: the arithmetic of the script would not be exact.
    Limit(Box<str>, OutOfRange),
    /// The batch has no limit of this index.
    NoSuchLimit(usize),
}

/// A take, and where its parts are decided.
#[derive(Debug)]
struct Planned {
    slot: u64,
    n_asks: usize,
    /// Kept only when there is more than one part, and so perhaps something to refund.
    asks: Vec<Ask>,
    parts: Vec<Part>,
}

/// The part of a take that one call decides.
#[derive(Debug)]
struct Part {
    call: usize,
    /// Which take of the call it is.
    at: usize,
    /// Which asks of the take it has.
    asks: Vec<usize>,
}

/// Calls being made, by tag; in one Redis all tags are one.
#[derive(Debug)]
struct Builders {
    layout: Layout,
    open: HashMap<Box<str>, Builder>,
    /// Those that have no room left.
    full: Vec<Builder>,
}

// === impl Plan ===

impl Plan {
    /// Divides a batch. Releases come first, then charges, then takes in order: what was given back or charged
    /// counts for the takes that arrived with it.
    ///
    /// # Errors
    ///
    /// When it names a limit it has not, or a limit's numbers are out of range; then nothing is carried out.
    pub fn new(prefix: &str, batch: &Batch, layout: Layout) -> Result<Plan, BadBatch> {
        let limit = |limit: &WireLimit| match Algorithm::try_from(&limit.1) {
            Ok(algorithm) => Ok((limit.0.clone(), algorithm)),
            Err(fault) => Err(BadBatch::Limit(limit.0.clone(), fault)),
        };
        let mut plan = Plan {
            calls: Vec::new(),
            takes: Vec::with_capacity(batch.takes.len()),
            prefix: prefix.into(),
            namespace: batch.namespace.clone(),
            limits: batch.limits.iter().map(limit).collect::<Result<_, _>>()?,
        };
        let mut builders = Builders::new(layout);
        for release in &batch.releases {
            let place = plan.resolve(release.0, &release.1)?;
            builders.open(&release.1, 1).refund(place, release.2, 0);
        }
        for charge in &batch.charges {
            let key = plan.resolve(charge.0, &charge.1)?;
            builders.open(&charge.1, 1).charge(key, charge.2);
        }
        for take in &batch.takes {
            let slot = take.slot.unwrap_or(0);
            let parts = plan.divide(slot, &take.asks, &mut builders)?;
            let asks = if let [_] = *parts { Vec::new() } else { take.asks.clone() };
            plan.takes.push(Planned { slot, n_asks: take.asks.len(), asks, parts });
        }
        plan.calls = builders.build();
        Ok(plan)
    }

    /// The calls to send. Empty for an empty batch.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The verdicts, given each call's reply in order; `None` where a call failed.
    pub fn conclude(&self, replies: &[Option<redis::Value>]) -> Conclusion {
        let mut conclusion = Conclusion::default();
        let mut answers: Vec<Option<Vec<Vec<Standing>>>> = Vec::with_capacity(self.calls.len());
        for (at, call) in self.calls.iter().enumerate() {
            answers.push(match replies.get(at).and_then(Option::as_ref).map(|reply| call.decode(reply)) {
                Some(Ok(standings)) => Some(standings),
                Some(Err(bad)) => {
                    conclusion.bad_replies.push(bad);
                    None
                }
                None => None,
            });
        }
        let mut refunds = Builders::new(Layout::Cluster);
        for take in &self.takes {
            conclusion.verdicts.push(self.verdict(take, &answers, &mut refunds));
        }
        conclusion.refunds = refunds.build();
        conclusion
    }

    fn verdict(
        &self,
        take: &Planned,
        answers: &[Option<Vec<Vec<Standing>>>],
        refunds: &mut Builders,
    ) -> Option<Vec<Standing>> {
        let part_standings = |part: &Part| answers.get(part.call)?.as_ref()?.get(part.at);
        let allowed = |part: &Part| part_standings(part).is_some_and(|s| s.iter().all(|one| one.allowed));
        let complete = take.parts.iter().all(allowed);
        let mut verdict = vec![None; take.n_asks];
        for part in &take.parts {
            let Some(standings) = part_standings(part) else { continue };
            // This part took, but the take as a whole does not happen.
            let undone = !complete && allowed(part);
            for (&at, &standing) in part.asks.iter().zip(standings) {
                let mut standing = standing;
                if undone {
                    if let Some(ask) = take.asks.get(at) {
                        self.refund(ask, take.slot, standing.granted, refunds);
                    }
                    standing.remaining += standing.granted;
                    (standing.granted, standing.delay_us) = (0, 0);
                }
                if let Some(place) = verdict.get_mut(at) {
                    *place = Some(standing);
                }
            }
        }
        verdict.into_iter().collect()
    }

    fn refund(&self, ask: &Ask, slot: u64, n: u64, refunds: &mut Builders) {
        if let (1.., Ok(key)) = (n, self.resolve(ask.0, &ask.1)) {
            refunds.open(&ask.1, 1).refund(key, slot, n);
        }
    }

    /// Divides a take by tag and puts each part into its call.
    fn divide(&self, slot: u64, asks: &[Ask], builders: &mut Builders) -> Result<Vec<Part>, BadBatch> {
        let mut groups: Vec<(&str, Vec<usize>)> = Vec::with_capacity(1);
        for (at, ask) in asks.iter().enumerate() {
            let tag = builders.tag(&ask.1);
            match groups.iter_mut().find(|group| group.0 == tag) {
                Some(group) => group.1.push(at),
                None => groups.push((tag, vec![at])),
            }
        }
        let mut parts = Vec::with_capacity(groups.len());
        for (tag, places) in groups {
            let mine = places.iter().filter_map(|&at| asks.get(at));
            let mine = mine.map(|ask| Ok((self.resolve(ask.0, &ask.1)?, ask.2, ask.3)));
            let mine = mine.collect::<Result<Vec<_>, BadBatch>>()?;
            let builder = builders.open(tag, places.len());
            parts.push(Part { call: builder.at(), at: builder.takes(), asks: places });
            builder.take(slot, mine);
        }
        Ok(parts)
    }

    fn resolve(&self, limit: usize, key: &str) -> Result<Resolved<'_>, BadBatch> {
        let (name, algorithm) = self.limits.get(limit).ok_or(BadBatch::NoSuchLimit(limit))?;
        let redis_key = redis_key(&self.prefix, &self.namespace, name, key, algorithm);
        Ok(Resolved { redis_key, limit, algorithm })
    }
}

// === impl Builders ===

impl Builders {
    fn new(layout: Layout) -> Builders {
        Builders { layout, open: HashMap::new(), full: Vec::new() }
    }

    /// What decides which call a key belongs to.
    fn tag<'k>(&self, key: &'k str) -> &'k str {
        match self.layout {
            Layout::Single => "",
            Layout::Cluster => tag(key),
        }
    }

    /// The call of a key (or of its tag), with room for `asks` more.
    fn open(&mut self, key: &str, asks: usize) -> &mut Builder {
        let next = self.full.len() + self.open.len();
        let builder = self.open.entry(self.tag(key).into()).or_insert_with(|| Builder::new(next));
        if KEYS_MAX < builder.keys() + asks {
            self.full.push(mem::replace(builder, Builder::new(next)));
        }
        builder
    }

    fn build(self) -> Vec<Call> {
        let mut builders = self.full;
        builders.extend(self.open.into_values());
        builders.sort_unstable_by_key(Builder::at);
        builders.into_iter().map(Builder::build).collect()
    }
}

// === impl BadBatch ===

impl fmt::Display for BadBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBatch::Limit(name, fault) => write!(f, "limit {name}: {fault}"),
            BadBatch::NoSuchLimit(at) => write!(f, "no limit {at} in the batch"),
        }
    }
}

impl std::error::Error for BadBatch {}
