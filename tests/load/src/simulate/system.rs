//! Who decides about requests.

use serde::Serialize;
use sluicegate_policy::class::Class;
use sluicegate_policy::overload::arrival::Ticket;
use sluicegate_policy::overload::control::Event;

/// A request as the deciding system sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The worker that has it.
    pub worker: usize,
    /// Its class.
    pub class: Class,
    /// Its tenant, 0 when there are none.
    pub tenant: u64,
    /// What is left to its deadline, when the filter is told.
    pub remaining_us: Option<u64>,
    /// Random bits.
    pub random: u64,
    /// Requests that wait for a connection.
    pub pending: usize,
    /// It would have to wait if let in.
    pub would_wait: bool,
}

/// A place in flight, and in which life of its VM it was given: a VM that died takes its tickets with it.
#[derive(Debug)]
pub struct Place {
    /// What the product handed out.
    pub ticket: Ticket,
    /// Number of times the VM had died.
    pub life: u64,
}

/// The answer.
#[derive(Debug)]
pub enum Answer {
    /// Go on; ours hands out a place.
    Admit(Option<Place>),
    /// Refuse; come back after so many seconds.
    Shed {
        /// `Retry-After`, seconds.
        retry_after_s: u32,
    },
}

/// How a request ended, as the proxy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Answered, in time or late.
    Answered,
    /// The client left.
    Abandoned,
}

/// What a controller believes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Belief {
    /// Requests in flight it lets the upstream work on; 0 when it has no limit.
    pub limit: f64,
    /// Service time without a queue, milliseconds; 0 when it does not care.
    pub base_ms: f64,
    /// Requests a second the upstream can finish; 0 when it does not care.
    pub capacity: f64,
    /// Lower classes give way.
    pub engaged: bool,
}

/// Something that decides.
pub trait System {
    /// Decides about a request.
    fn ask(&mut self, asked: &Asked, now_us: u64) -> Answer;

    /// An admitted request has ended after `lasted_us`.
    fn ended(&mut self, worker: usize, place: Option<Place>, end: End, lasted_us: u64, now_us: u64);

    /// VMs that tick: one for each worker, and the main thread's.
    fn tickers(&self) -> usize;

    /// A VM's tick; true when it asks the admin endpoint.
    fn tick(&mut self, vm: usize, queue: usize, now_us: u64) -> bool;

    /// The admin endpoint's answer.
    fn polled(&mut self, vm: usize, body: Option<&[u8]>, now_us: u64);

    /// The VM that leads dies.
    fn kill_leader(&mut self, now_us: u64);

    /// Requests in flight by its own count, to find leaks.
    fn in_flight(&self) -> u64;

    /// What it has told the log so far, with the time, microseconds.
    fn told(&self) -> Vec<(u64, Event)> {
        Vec::new()
    }

    /// What it believes now.
    fn belief(&self) -> Belief {
        Belief::default()
    }
}
