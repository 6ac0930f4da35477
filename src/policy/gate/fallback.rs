//! No decision could be had: each limit says what happens then.

use crate::count::LimitEvent;
use crate::gate::hit::Course;
use crate::gate::stream::Stream;
use crate::gate::{Gate, Step};
use crate::limit::WhenUnavailable;
use crate::verdict::ShedReason;

/// What a client is told to wait when no decision could be had, seconds.
const RETRY_AFTER_S: u64 = 1;

impl Gate {
    /// Decides about a request by what its limits say for this case.
    pub(super) fn fall_back(&mut self, id: u32, mut stream: Box<Stream>, now_us: u64) -> Step {
        let mut denied = false;
        for hit in &mut stream.hits {
            if !matches!(hit.course, Course::Asked { .. }) {
                continue;
            }
            let Some(limit) = self.policy.limits.get(hit.limit) else { continue };
            let event = match limit.when_unavailable {
                WhenUnavailable::Allow => {
                    hit.course = Course::Open;
                    LimitEvent::FallbackAllow
                }
                WhenUnavailable::Deny => {
                    denied = true;
                    LimitEvent::FallbackDeny
                }
                WhenUnavailable::Local { .. } => {
                    hit.course = Course::Emergency;
                    LimitEvent::FallbackLocal
                }
            };
            self.counts.limit(hit.limit, event);
        }
        if denied {
            return self.shed(stream, ShedReason::Unavailable, RETRY_AFTER_S, now_us);
        }
        if self.take_local(&mut stream, false, now_us) {
            self.pass(id, stream, now_us)
        } else {
            self.limit(stream, now_us)
        }
    }
}
