//! Saturation: how much the upstream can finish in time, and who goes first when that is not enough.
//!
//! Two loops. The inner one is a limit on requests in flight, judged for each request by numbers of this VM alone; it
//! regulates itself, since a slower upstream gives places back later. The outer one runs in one VM of an Envoy, the
//! leader: each tick it adds up what all workers published, takes in Envoy's own stats, and publishes thresholds.
//!
//! Modules, in reading order:
//!
//! - [`arrival`], [`control`]: what the filter asks and holds
//! - [`shared`], [`record`], [`snapshot`], [`election`], [`poll`], [`stats`]: what workers, leader and Envoy tell each other
//! - `station`, `share`: a worker's judgement
//! - `reserve`, `cohort`, [`deadline`], `tenant`: who goes first
//! - `estimator`: the leader's judgement, made of `tally` (flow), `capacity`, `knee` (pool mode), `delay` (latency
//!   mode), `thin` (which class fits) and `backlog` (when to come back)

pub mod arrival;
mod average;
mod backlog;
mod capacity;
mod codec;
mod cohort;
pub mod control;
pub mod deadline;
mod delay;
pub mod election;
mod estimator;
mod knee;
pub mod poll;
pub mod record;
mod reserve;
mod share;
pub mod shared;
pub mod snapshot;
mod station;
pub mod stats;
mod tally;
mod tenant;
mod thin;
