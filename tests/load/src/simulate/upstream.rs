//! A service with so many servers and one queue, first come, first served.
//!
//! It does not notice clients that leave: what has arrived is worked on. That is what makes overload waste work.

use crate::scenario::Scatter;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp1, LogNormal};
use std::collections::VecDeque;

/// The service.
#[derive(Debug)]
pub struct Upstream {
    servers: usize,
    busy: usize,
    queue: VecDeque<usize>,
    mean_us: f64,
    scatter: Scatter,
    /// Service times are multiplied by this.
    pub slowdown: f64,
}

impl Upstream {
    /// All servers idle.
    pub fn new(servers: usize, mean_us: f64, scatter: Scatter) -> Upstream {
        Upstream { servers, busy: 0, queue: VecDeque::new(), mean_us, scatter, slowdown: 1.0 }
    }

    /// A request arrives; its service time if it is begun at once, microseconds.
    pub fn arrive(&mut self, request: usize, random: &mut StdRng) -> Option<u64> {
        if self.servers <= self.busy {
            self.queue.push_back(request);
            return None;
        }
        self.busy += 1;
        Some(self.draw(random))
    }

    /// A server is done; the request it begins next and its service time.
    pub fn finish(&mut self, random: &mut StdRng) -> Option<(usize, u64)> {
        self.busy -= 1;
        if self.servers <= self.busy {
            return None;
        }
        let next = self.queue.pop_front()?;
        self.busy += 1;
        Some((next, self.draw(random)))
    }

    /// Changes the number of servers; those removed finish what they began. Servers that are added take what arrives.
    pub fn resize(&mut self, servers: usize) {
        self.servers = servers;
    }

    fn draw(&self, random: &mut StdRng) -> u64 {
        let unit: f64 = match self.scatter {
            Scatter::Fixed => 1.0,
            Scatter::Exponential => Exp1.sample(random),
            // Mean 1 and variance 2: sigma^2 = ln 3, mu = -sigma^2 / 2.
            Scatter::LogNormal => LogNormal::new(-0.549_306, 1.048_147).map_or(1.0, |law| law.sample(random)),
            Scatter::Bimodal => {
                let uniform: f64 = rand::Rng::random(random);
                if uniform < 0.9 { 0.5 } else { 5.5 }
            }
        };
        (unit * self.mean_us * self.slowdown).max(1.0) as u64
    }
}
