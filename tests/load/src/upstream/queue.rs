//! A FIFO queue before `c` servers, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When each server is free again, earliest first.
///
/// A request is placed when it arrives: it starts when it is there and a server is free, and ends a service time
/// later. Nothing that the scheduler of the machine does can change capacity. A caller who leaves does not take
/// its work along: like most applications, this one finds out when it writes the answer.
#[derive(Debug)]
pub(crate) struct Queue {
    free_at_us: BinaryHeap<Reverse<u64>>,
}

impl Queue {
    /// `servers` that are free at time 0; at least 1.
    pub(crate) fn new(servers: usize) -> Queue {
        Queue { free_at_us: vec![Reverse(0); servers.max(1)].into() }
    }

    /// The time at which a request that arrives at `now_us` and needs `service_us` is done.
    pub(crate) fn place(&mut self, now_us: u64, service_us: u64) -> u64 {
        let Reverse(free_at_us) = self.free_at_us.pop().unwrap_or(Reverse(0));
        let done_us = free_at_us.max(now_us).saturating_add(service_us);
        self.free_at_us.push(Reverse(done_us));
        done_us
    }

    /// Changes the number of servers, at least 1: new ones are free, those removed finish what they began.
    pub(crate) fn resize(&mut self, servers: usize) {
        while self.free_at_us.len() < servers {
            self.free_at_us.push(Reverse(0));
        }
        while self.free_at_us.len() > servers.max(1) {
            self.free_at_us.pop();
        }
    }

    /// Number of servers.
    pub(crate) fn servers(&self) -> usize {
        self.free_at_us.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_servers_wait_their_turn() {
        let mut queue = Queue::new(2);
        assert_eq!([queue.place(0, 10), queue.place(0, 20), queue.place(1, 5)], [10, 20, 15]);
        assert_eq!(queue.place(100, 7), 107);
    }

    #[test]
    fn capacity_follows_the_number_of_servers() {
        let mut queue = Queue::new(4);
        queue.resize(1);
        assert_eq!(queue.servers(), 1);
        assert_eq!([queue.place(0, 10), queue.place(0, 10)], [10, 20]);
        queue.resize(2);
        assert_eq!(queue.place(0, 10), 10);
        queue.resize(0);
        assert_eq!(queue.servers(), 1);
    }
}
