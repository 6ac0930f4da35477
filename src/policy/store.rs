//! A bounded store in memory: the local limits and fallbacks of a worker, and the shim without Redis.
//!
//! **What happens when it is full.** A key in use is never forgotten, for that would hand it fresh quota: whoever
//! could fill the store could wipe his own record. Room is made only from keys that are as good as new, a few of
//! which are looked at for each newcomer. If none of them is, the newcomer is not remembered by itself but counted
//! together with all others in his position, under one state for each limit's numbers: those newcomers share one
//! quota until there is room again. Whoever gets a state of his own then begins with what they used together, since part
//! of it may be his; it drains as any use does. [`Store::overflowed`] counts how often that happened.
//!
//! Memory is counted in cells of about 100 bytes. A key takes one; a key of a sliding log or a concurrency limit
//! takes what it may grow to, from the start.

mod known;
mod overflow;
mod table;

use std::hash::Hash;
use std::mem;

use crate::algorithm::{Amount, State};
use crate::limit::Algorithm;
use crate::verdict::Standing;

use overflow::Overflow;
use table::{Entry, Table};

/// Entries looked at to make room for one newcomer.
const PROBES: usize = 32;

/// Entries of a log or places of a concurrency limit that fit in one cell.
const PER_CELL: u64 = 4;

/// The states of many keys.
#[derive(Debug)]
pub struct Store<K> {
    table: Table<K>,
    /// Most cells.
    capacity: usize,
    /// Cells taken.
    weight: usize,
    /// Where the search for rested keys goes on.
    hand: usize,
    overflow: Overflow,
    evictions: u64,
    overflowed: u64,
    /// Kept between takes so that none allocates.
    seats: Vec<Seat>,
}

/// One limit's part of a take.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a, K> {
    /// Whom it counts.
    pub key: &'a K,
    /// How it counts.
    pub algorithm: &'a Algorithm,
    /// How much.
    pub amount: Amount,
}

/// Where a state comes from, and what is promised of it.
#[derive(Debug)]
struct Seat {
    origin: Origin,
    state: State,
    /// Changed, so that it must be kept.
    is_changed: bool,
    /// Tokens promised to earlier asks of the same take.
    taken: u64,
    granted: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The table's entry at this place.
    Entry(usize),
    /// A key that has none yet.
    New,
    /// A key for which there is no room, counted with the others.
    Overflow,
    /// A key for which there is not even a state to share.
    Nowhere,
    /// The key of an earlier ask.
    Seat(usize),
}

// === impl Store ===

impl<K: Hash + Eq + Clone> Store<K> {
    /// A store of at most `capacity` cells. The seed keeps others from choosing keys that collide.
    pub fn new(capacity: usize, seed: u64) -> Self {
        Store {
            table: Table::new(seed),
            capacity: capacity.min(u32::MAX as usize),
            weight: 0,
            hand: 0,
            overflow: Overflow::default(),
            evictions: 0,
            overflowed: 0,
            seats: Vec::new(),
        }
    }

    /// Takes from every limit, or from none; true if it took.
    ///
    /// `standings` is cleared and gets one entry for each ask. `slot` names the place that concurrency limits give
    /// out. When one key repeats, the asks add up.
    pub fn take(
        &mut self,
        now_us: u64,
        slot: u64,
        asks: &[Ask<'_, K>],
        standings: &mut Vec<Standing>,
    ) -> bool {
        standings.clear();
        if let [ask] = asks
            && let Some(at) = self.table.find(ask.key)
            && let Some(standing) = self.take_known(now_us, slot, ask, at)
        {
            standings.push(standing);
            return standing.allowed;
        }
        self.seat(now_us, asks);
        let granted = self.grant(now_us, asks);
        if granted {
            self.commit(now_us, slot, asks);
        }
        for (at, ask) in asks.iter().enumerate() {
            if let Some((seat, state)) = self.seated(at) {
                let mut standing =
                    state.standing(ask.algorithm, now_us, seat.taken, ask.amount, seat.granted);
                if !granted {
                    (standing.granted, standing.delay_us) = (0, 0);
                }
                standings.push(standing);
            }
        }
        self.unseat(now_us, asks);
        granted
    }

    /// Charges `n` tokens whether or not they are there, into debt of at most the limit's own size.
    pub fn charge(&mut self, now_us: u64, key: &K, algorithm: &Algorithm, n: u64) {
        let asks = [Ask { key, algorithm, amount: Amount::exactly(n) }];
        self.seat(now_us, &asks);
        if let Some(seat) = self.seats.first_mut() {
            seat.is_changed |= 0 < seat.state.charge(algorithm, now_us, n);
        }
        self.unseat(now_us, &asks);
    }

    /// Gives the place named `slot` back. A place that is not held changes nothing.
    pub fn release(&mut self, now_us: u64, key: &K, algorithm: &Algorithm, slot: u64) {
        self.overflow.refund(now_us, algorithm, slot, 0);
        self.refund(now_us, key, algorithm, slot, 0);
    }

    /// Gives `n` tokens back that were taken a moment ago.
    pub fn refund(&mut self, now_us: u64, key: &K, algorithm: &Algorithm, slot: u64, n: u64) {
        // What a key without a state took was counted with the others'.
        if self.table.find(key).is_none() {
            self.overflow.refund(now_us, algorithm, slot, n);
            return;
        }
        let asks = [Ask { key, algorithm, amount: Amount::exactly(n) }];
        self.seat(now_us, &asks);
        if let Some(seat) = self.seats.first_mut() {
            seat.is_changed |= seat.state.refund(slot, n);
        }
        self.unseat(now_us, &asks);
    }

    /// How a key stands, without touching it.
    pub fn peek(&mut self, now_us: u64, key: &K, algorithm: &Algorithm) -> Standing {
        let asks = [Ask { key, algorithm, amount: Amount::exactly(0) }];
        let mut standings = Vec::with_capacity(1);
        self.take(now_us, 0, &asks, &mut standings);
        standings.first().copied().unwrap_or_default()
    }

    /// Forgets a key, so that it is as good as new; true if there was something to forget.
    pub fn reset(&mut self, key: &K) -> bool {
        match self.table.find(key) {
            Some(at) => self.forget(at),
            None => false,
        }
    }

    /// Keys remembered.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// No key is remembered.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Keys forgotten to make room, each as good as new by then.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Asks by keys for which there was no room.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Brings every state to now, into `seats`.
    fn seat(&mut self, now_us: u64, asks: &[Ask<'_, K>]) {
        self.make_room(now_us, asks);
        let mut spare = self.capacity.saturating_sub(self.weight);
        self.seats.clear();
        for (at, ask) in asks.iter().enumerate() {
            let earlier = asks.iter().take(at).position(|other| other.key == ask.key);
            let origin = match (earlier, self.table.find(ask.key)) {
                (Some(first), _) => Origin::Seat(first),
                (None, Some(entry)) => Origin::Entry(entry),
                (None, None) if weight(ask.algorithm) <= spare => {
                    spare -= weight(ask.algorithm);
                    Origin::New
                }
                (None, None) => {
                    self.overflowed += 1;
                    self.in_common(now_us, asks, ask)
                }
            };
            let mut state = match origin {
                Origin::Entry(entry) => {
                    self.table.get_mut(entry).map(|entry| borrow(&mut entry.state, ask.algorithm))
                }
                Origin::Overflow => {
                    self.overflow.get_mut(ask.algorithm).map(|state| borrow(state, ask.algorithm))
                }
                Origin::New => self.overflow.inherited(now_us, ask.algorithm),
                Origin::Nowhere | Origin::Seat(_) => None,
            }
            .unwrap_or_default();
            let is_changed = match origin {
                Origin::Nowhere | Origin::Seat(_) => false,
                _ => state.load(ask.algorithm, now_us),
            };
            self.seats.push(Seat { origin, state, is_changed, taken: 0, granted: None });
        }
    }

    /// Where an ask is counted for whose key there is no room.
    fn in_common(&mut self, now_us: u64, asks: &[Ask<'_, K>], ask: &Ask<'_, K>) -> Origin {
        let mut earlier = self.seats.iter().zip(asks);
        let first = earlier
            .position(|(seat, other)| seat.origin == Origin::Overflow && other.algorithm == ask.algorithm);
        match first {
            Some(first) => Origin::Seat(first),
            None if self.overflow.has(now_us, ask.algorithm) => Origin::Overflow,
            None => Origin::Nowhere,
        }
    }

    /// What each ask would get; true if all get something.
    fn grant(&mut self, now_us: u64, asks: &[Ask<'_, K>]) -> bool {
        let mut all = true;
        for (at, ask) in asks.iter().enumerate() {
            let taken = self.promised(at);
            let Some((seat, state)) = self.seated(at) else { continue };
            let granted = match seat.origin {
                Origin::Nowhere => None,
                _ => state.grant(ask.algorithm, now_us, taken, ask.amount),
            };
            all &= granted.is_some();
            if let Some(seat) = self.seats.get_mut(at) {
                (seat.taken, seat.granted) = (taken, granted);
            }
        }
        all
    }

    fn commit(&mut self, now_us: u64, slot: u64, asks: &[Ask<'_, K>]) {
        for (at, ask) in asks.iter().enumerate() {
            let Some(&Seat { origin, granted: Some(n @ 1..), .. }) = self.seats.get(at) else { continue };
            let home = if let Origin::Seat(first) = origin { first } else { at };
            if let Some(seat) = self.seats.get_mut(home) {
                seat.state.take(ask.algorithm, now_us, slot, n);
                seat.is_changed = true;
            }
        }
    }

    /// Puts the states that changed back where they belong.
    fn unseat(&mut self, now_us: u64, asks: &[Ask<'_, K>]) {
        let mut seats = mem::take(&mut self.seats);
        for (seat, ask) in seats.drain(..).zip(asks) {
            if !seat.is_changed {
                continue;
            }
            let rested_us = now_us.saturating_add(seat.state.reset_us(ask.algorithm, now_us));
            match seat.origin {
                Origin::Entry(at) => self.put_back(at, seat.state, rested_us, weight(ask.algorithm)),
                Origin::New if now_us < rested_us => self.remember(ask, seat.state, rested_us),
                Origin::Overflow => {
                    if let Some(state) = self.overflow.get_mut(ask.algorithm) {
                        *state = seat.state;
                    }
                }
                Origin::New | Origin::Nowhere | Origin::Seat(_) => {}
            }
        }
        self.seats = seats;
    }

    fn put_back(&mut self, at: usize, state: State, rested_us: u64, weight: usize) {
        if let Some(entry) = self.table.get_mut(at) {
            self.weight = self.weight - entry.weight + weight;
            (entry.state, entry.rested_us, entry.weight) = (state, rested_us, weight);
        }
    }

    fn remember(&mut self, ask: &Ask<'_, K>, state: State, rested_us: u64) {
        let weight = weight(ask.algorithm);
        self.weight += weight;
        self.table.insert(Entry { key: ask.key.clone(), state, rested_us, weight });
    }

    fn forget(&mut self, at: usize) -> bool {
        match self.table.remove(at) {
            Some(entry) => {
                self.weight -= entry.weight;
                true
            }
            None => false,
        }
    }

    /// Forgets rested keys until the asks fit, but looks at no more than [`PROBES`] for each.
    fn make_room(&mut self, now_us: u64, asks: &[Ask<'_, K>]) {
        let most: usize = asks.iter().map(|ask| weight(ask.algorithm)).sum();
        if self.weight + most <= self.capacity {
            return;
        }
        let is_new = |ask: &&Ask<'_, K>| self.table.find(ask.key).is_none();
        let (newcomers, needed) =
            asks.iter().filter(is_new).fold((0, 0), |(n, sum), ask| (n + 1, sum + weight(ask.algorithm)));
        let mut probes = (PROBES * newcomers).min(self.table.len());
        while 0 < probes && self.capacity < self.weight + needed {
            probes -= 1;
            if self.table.len() <= self.hand {
                self.hand = 0;
            }
            let is_asked = |key: &K| asks.iter().any(|ask| ask.key == key);
            match self.table.get(self.hand) {
                // The one moved into its place is looked at next.
                Some(entry) if entry.rested_us <= now_us && !is_asked(&entry.key) => {
                    self.forget(self.hand);
                    self.evictions += 1;
                }
                _ => self.hand += 1,
            }
        }
    }

    /// The seat of an ask, and the state it is about.
    fn seated(&self, at: usize) -> Option<(&Seat, &State)> {
        let seat = self.seats.get(at)?;
        match seat.origin {
            Origin::Seat(first) => self.seats.get(first).map(|home| (seat, &home.state)),
            _ => Some((seat, &seat.state)),
        }
    }

    /// Tokens promised to earlier asks of the same key.
    fn promised(&self, at: usize) -> u64 {
        let Some(Seat { origin: Origin::Seat(first), .. }) = self.seats.get(at) else { return 0 };
        let same_key = |(other, seat): &(usize, &Seat)| other == first || seat.origin == Origin::Seat(*first);
        self.seats.iter().enumerate().take(at).filter(same_key).filter_map(|(_, seat)| seat.granted).sum()
    }
}

/// A state to work on. Small ones are copied, so that a refused take leaves the original; large ones are lent, and
/// always come back (loading them only forgets what is over). A state of another algorithm is left where it is.
fn borrow(state: &mut State, algorithm: &Algorithm) -> State {
    match (&*state, algorithm) {
        (State::Log(_), Algorithm::SlidingLog(_)) | (State::Places(_), Algorithm::Concurrency(_)) => {
            mem::take(state)
        }
        (State::Log(_) | State::Places(_), _) => State::Empty,
        _ => state.clone(),
    }
}

/// Cells a key may come to take up.
fn weight(algorithm: &Algorithm) -> usize {
    let grown = match algorithm {
        // Debt doubles it.
        Algorithm::SlidingLog(log) => 2 * log.limit / PER_CELL,
        Algorithm::Concurrency(places) => places.max / PER_CELL,
        _ => 0,
    };
    1 + usize::try_from(grown).unwrap_or(usize::MAX / 4)
}
