//! What keys share for which there is no room.

use crate::algorithm::State;
use crate::limit::Algorithm;

/// Most states; there is one for each limit's numbers.
const STATES_MAX: usize = 1_024;

/// One state for each limit's numbers.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    states: Vec<(Algorithm, State)>,
}

// === impl Overflow ===

impl Overflow {
    /// The state of these numbers, if there is one.
    pub(super) fn get_mut(&mut self, algorithm: &Algorithm) -> Option<&mut State> {
        self.states.iter_mut().find(|(numbers, _)| numbers == algorithm).map(|(_, state)| state)
    }

    /// Whether these numbers have a state; it is made if there is room for one more.
    pub(super) fn has(&mut self, now_us: u64, algorithm: &Algorithm) -> bool {
        if self.get_mut(algorithm).is_some() {
            return true;
        }
        if STATES_MAX <= self.states.len() {
            self.states.retain_mut(|(numbers, state)| !rests(state, numbers, now_us));
        }
        let has_room = self.states.len() < STATES_MAX;
        if has_room {
            self.states.push((algorithm.clone(), State::Empty));
        }
        has_room
    }

    /// What a key begins with that gets a state of its own: what these numbers' newcomers used together, as long as that
    /// counts. Part of it may be his.
    pub(super) fn inherited(&mut self, now_us: u64, algorithm: &Algorithm) -> Option<State> {
        let at = self.states.iter().position(|(numbers, _)| numbers == algorithm)?;
        let (_, state) = self.states.get_mut(at)?;
        if rests(state, algorithm, now_us) {
            self.states.swap_remove(at);
            return None;
        }
        Some(state.clone())
    }

    /// Gives back what was taken in common.
    pub(super) fn refund(&mut self, now_us: u64, algorithm: &Algorithm, slot: u64, n: u64) {
        if let Some(state) = self.get_mut(algorithm) {
            state.load(algorithm, now_us);
            state.refund(slot, n);
        }
    }
}

/// Whether a state is as good as new; it is brought to now.
fn rests(state: &mut State, algorithm: &Algorithm, now_us: u64) -> bool {
    state.load(algorithm, now_us);
    state.reset_us(algorithm, now_us) == 0
}
