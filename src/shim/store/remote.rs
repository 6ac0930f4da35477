//! Redis: one script call for each batch, or for each slot of a Cluster.

use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, Pipeline, Value};
use sluicegate_policy::wire::{self, Answer, Batch, WireStanding};

use crate::metrics::StoreMetrics;
use crate::script::{self, Call, Layout, Plan};
use crate::store::cluster::Cluster;
use crate::store::failure::Failure;
use crate::store::ledger;
use crate::store::link::{CallError, Link};
use crate::store::overrides::{Override, Snapshot, Subject};
use crate::store::slot;

/// A Redis of one or many servers.
#[derive(Debug)]
pub struct Remote {
    prefix: Box<str>,
    way: Way,
    metrics: StoreMetrics,
    /// The name of the take script in Redis.
    hash: String,
}

/// How to reach the server of a key.
#[derive(Debug)]
pub(crate) enum Way {
    /// There is only one.
    Server(Link),
    /// By slot.
    Cluster(Cluster),
}

/// What every new connection runs first: the take script is loaded before the first take needs it, and run once about
/// nothing, so that a login which may not run it is found out before anybody waits for it.
pub(crate) fn prepare(prefix: &str) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.add_command(load());
    pipeline.add_command(script::probe(prefix).command(&hash()));
    pipeline
}

impl Remote {
    pub(crate) fn new(prefix: Box<str>, way: Way, metrics: StoreMetrics) -> Remote {
        Remote { prefix, way, metrics, hash: hash() }
    }

    pub(crate) fn readiness(&self) -> Result<(), Failure> {
        match &self.way {
            Way::Server(link) => link.readiness(),
            Way::Cluster(cluster) => cluster.readiness(),
        }
    }

    pub(crate) async fn take(self: &Arc<Self>, batch: &Batch) -> Result<Answer, Failure> {
        let layout = match self.way {
            Way::Server(_) => Layout::Single,
            Way::Cluster(_) => Layout::Cluster,
        };
        // The batch has been checked: what is wrong with it now is our own fault.
        let plan = Plan::new(&self.prefix, batch, layout).map_err(|_| Failure::Other)?;
        match layout {
            Layout::Single => self.carry_out(&plan).await,
            // What has to be given back is given back even when the filter hangs up meanwhile.
            Layout::Cluster => {
                let remote = Arc::clone(self);
                let task = tokio::spawn(async move { remote.carry_out(&plan).await });
                task.await.unwrap_or(Err(Failure::Other))
            }
        }
    }

    /// Sends the calls of a plan, and makes one answer of their replies.
    async fn carry_out(&self, plan: &Plan) -> Result<Answer, Failure> {
        let replies = match plan.calls() {
            [call] => vec![self.run(call).await],
            calls => join_all(calls.iter().map(|call| self.run(call))).await,
        };
        let first = replies.iter().find_map(|reply| reply.as_ref().err()).copied();
        if let (Some(failure), true) = (first, replies.iter().all(Result::is_err)) {
            return Err(failure);
        }
        let replies: Vec<Option<Value>> = replies.into_iter().map(Result::ok).collect();
        let conclusion = plan.conclude(&replies);
        for _ in &conclusion.bad_replies {
            self.metrics.fail(Failure::Junk);
        }
        for refund in join_all(conclusion.refunds.iter().map(|call| self.run(call))).await {
            self.metrics.refunds.inc();
            self.metrics.refunds_lost.inc_by(u64::from(refund.is_err()));
        }
        let verdict = |standings: Vec<_>| standings.into_iter().map(WireStanding::from).collect();
        let verdicts: Vec<_> = conclusion.verdicts.into_iter().map(|one| one.map(verdict)).collect();
        match conclusion.bad_replies.is_empty() || verdicts.iter().any(Option::is_some) {
            true => Ok(Answer { version: wire::VERSION, verdicts }),
            false => Err(Failure::Junk),
        }
    }

    /// Runs the script once. Nothing is ever sent a second time, unless the reply says that nothing was run.
    async fn run(&self, call: &Call) -> Result<Value, Failure> {
        let slot = slot::of_tag(call.tag().as_bytes());
        let command = call.command(&self.hash);
        let result = match self.call(slot, &[], &command).await {
            // Loading and asking travel together, so nothing can forget the script in between.
            Err(error) if error.failure() == Failure::NoScript => {
                self.metrics.script_loads.inc();
                self.call(slot, &[&load()], &command).await
            }
            result => result,
        };
        let result = result.map_err(|error| error.failure());
        result.inspect_err(|failure| self.metrics.fail(*failure))
    }

    async fn call(&self, slot: u16, before: &[&Cmd], command: &Cmd) -> Result<Value, CallError> {
        match &self.way {
            Way::Server(link) => link.call(before, command).await,
            Way::Cluster(cluster) => cluster.call(slot, before, command).await,
        }
    }

    pub(crate) async fn reset(&self, subject: &Subject) -> Result<bool, Failure> {
        let mut command = redis::cmd("DEL");
        command.arg(&script::redis_keys(&self.prefix, &subject.namespace, &subject.limit, &subject.key));
        let tag = subject.key.get(..wire::TAG_LEN).unwrap_or(&subject.key);
        let value = self.ask(tag, &command).await?;
        redis::from_redis_value(value).map_err(|_| Failure::Junk)
    }

    pub(crate) async fn overrides_since(&self, known: u64) -> Result<Option<Snapshot>, Failure> {
        ledger::snapshot(self.ask(ledger::TAG, &ledger::read(&self.prefix, known)).await?, known)
    }

    pub(crate) async fn set_override(&self, wanted: &Override) -> Result<bool, Failure> {
        ledger::done(self.ask(ledger::TAG, &ledger::set(&self.prefix, wanted)?).await?)
    }

    pub(crate) async fn unset_override(&self, subject: &Subject) -> Result<bool, Failure> {
        ledger::done(self.ask(ledger::TAG, &ledger::unset(&self.prefix, subject)).await?)
    }

    async fn ask(&self, tag: &str, command: &Cmd) -> Result<Value, Failure> {
        self.call(slot::of_tag(tag.as_bytes()), &[], command).await.map_err(|error| error.failure())
    }
}

/// The name of the take script in Redis.
fn hash() -> String {
    redis::Script::new(script::TAKE).get_hash().to_owned()
}

fn load() -> Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script::TAKE);
    command
}
