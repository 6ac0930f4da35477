//! Envoy's connection pools: one for each worker, under one bound on connections.
//!
//! A worker may always have one connection, even beyond the bound, and a connection that idles at one worker is of no
//! use to another.

use std::collections::VecDeque;

/// The pools of all workers towards one upstream.
#[derive(Debug)]
pub struct Pools {
    bound: Option<usize>,
    pools: Vec<Pool>,
    /// Requests attached to a connection.
    pub active: usize,
}

#[derive(Debug, Default)]
struct Pool {
    connections: usize,
    busy: usize,
    pending: VecDeque<usize>,
}

impl Pools {
    /// Pools without connections; without a bound no request ever waits.
    pub fn new(workers: usize, bound: Option<usize>) -> Pools {
        Pools { bound, pools: (0..workers).map(|_| Pool::default()).collect(), active: 0 }
    }

    /// A request of this worker would have to wait.
    pub fn would_wait(&self, worker: usize) -> bool {
        let Some(bound) = self.bound else { return false };
        let pool = &self.pools[worker];
        pool.busy == pool.connections && bound <= self.connections() && pool.connections != 0
    }

    /// True when the request goes upstream now; otherwise it waits.
    pub fn enter(&mut self, worker: usize, request: usize) -> bool {
        let Some(bound) = self.bound else {
            self.active += 1;
            return true;
        };
        let connections = self.connections();
        let pool = &mut self.pools[worker];
        if pool.busy == pool.connections && (connections < bound || pool.connections == 0) {
            pool.connections += 1;
        }
        if pool.busy < pool.connections {
            pool.busy += 1;
            self.active += 1;
            return true;
        }
        pool.pending.push_back(request);
        false
    }

    /// A request has left its connection; the request that takes its place.
    pub fn leave(&mut self, worker: usize) -> Option<usize> {
        if self.bound.is_some()
            && let Some(next) = self.pools[worker].pending.pop_front()
        {
            return Some(next);
        }
        self.active -= 1;
        if self.bound.is_some() {
            self.pools[worker].busy -= 1;
        }
        None
    }

    /// A waiting request gives up. Returns false if it was not waiting.
    pub fn withdraw(&mut self, worker: usize, request: usize) -> bool {
        let pending = &mut self.pools[worker].pending;
        let found = pending.iter().position(|waiting| *waiting == request);
        found.is_some_and(|index| pending.remove(index).is_some())
    }

    /// Connections of all workers.
    pub fn connections(&self) -> usize {
        self.pools.iter().map(|pool| pool.connections).sum()
    }

    /// Requests that wait for a connection.
    pub fn pending(&self) -> usize {
        self.pools.iter().map(|pool| pool.pending.len()).sum()
    }

    /// The bound on connections.
    pub fn bound(&self) -> Option<usize> {
        self.bound
    }
}
