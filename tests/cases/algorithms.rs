//! Worked cases, driven through the Rust store and through the script on a real Redis.
//!
//! Each case is one key; a limit's name tells its states apart. Times are offsets from [`START_US`], a multiple of
//! every window used here.

use sluicegate_policy::algorithm::{Amount, NEVER_US, PLACE_RETRY_US};
use sluicegate_policy::limit::{
    Algorithm, Align, Concurrency, FixedWindow, LeakyBucket, Rate, SlidingLog, SlidingWindow, TokenBucket,
};
use sluicegate_policy::verdict::Standing;

/// 2025-11-09 08:00:00 UTC, a multiple of an hour.
pub(crate) const START_US: u64 = 1_762_675_200_000_000;

pub(crate) const MS: u64 = 1_000;
pub(crate) const S: u64 = 1_000 * MS;
pub(crate) const HOUR: u64 = 3_600 * S;
pub(crate) const DAY: u64 = 24 * HOUR;

/// A story about one key.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Name and numbers; limits of one name share a state.
    pub(crate) limits: Vec<(&'static str, Algorithm)>,
    pub(crate) steps: Vec<Step>,
}

/// What is done at a time, and how the limits of a take stand then.
pub(crate) struct Step {
    pub(crate) now_us: u64,
    pub(crate) action: Action,
    pub(crate) expected: Vec<Standing>,
}

pub(crate) enum Action {
    /// Slot, and for each ask the index of its limit and how much.
    Take(u64, Vec<(usize, Amount)>),
    /// Limit and tokens.
    Charge(usize, u64),
    /// Limit and slot.
    Release(usize, u64),
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "token bucket: the burst at once, then evenly",
            limits: vec![("a", token_bucket(3, 1, 100 * MS))],
            steps: vec![
                // One of three is gone; it is back in 100 ms.
                at(0, take(1), allow(1, 2, 100 * MS)),
                at(0, take(2), allow(2, 0, 300 * MS)),
                // Nothing left; the first of three comes back after 100 ms.
                at(0, take(1), deny(0, 300 * MS, 100 * MS)),
                // 60 ms later: 3 - 0.6 = 2.4 are missing, so 0.6 is left, which is no whole token.
                at(60 * MS, take(1), deny(0, 240 * MS, 40 * MS)),
                // The two refusals cost nothing and put nothing off: 100 ms after the burst one token is there.
                at(100 * MS, take(1), allow(1, 0, 300 * MS)),
                // One microsecond short of the next, and then there.
                at(200 * MS - 1, take(1), deny(0, 200 * MS + 1, 1)),
                at(200 * MS, take(1), allow(1, 0, 300 * MS)),
                // After a day no more than the burst is there.
                at(DAY, take(3), allow(3, 0, 300 * MS)),
            ],
        },
        Case {
            name: "token bucket: rates that divide nothing are exact",
            // 3 tokens in 7 us: a token has 7 units, 3 drain in a microsecond.
            limits: vec![("a", token_bucket(2, 3, 7))],
            steps: vec![
                // 2 tokens = 14 units: gone in ceil(14 / 3) = 5 us.
                at(0, take(2), allow(2, 0, 5)),
                // After 2 us 6 units are back: 8 missing, less than 7 free; 1 more unit needs 1 us.
                at(2, take(1), deny(0, 3, 1)),
                // After 3 us 9 are back: 5 missing, + 7 = 12 of 14. Gone in 4 us.
                at(3, take(1), allow(1, 0, 4)),
                // 2 us: 12 - 6 = 6 missing, + 7 = 13. Gone in ceil(13 / 3) = 5 us.
                at(5, take(1), allow(1, 0, 5)),
            ],
        },
        Case {
            name: "token bucket: one token in 30 days",
            limits: vec![("a", token_bucket(1, 1, 30 * DAY))],
            steps: vec![
                at(0, take(1), allow(1, 0, 30 * DAY)),
                at(30 * DAY - 1, take(1), deny(0, 1, 1)),
                at(30 * DAY, take(1), allow(1, 0, 30 * DAY)),
            ],
        },
        Case {
            name: "token bucket: a million a second",
            limits: vec![("a", token_bucket(1_000_000_000, 1, 1))],
            steps: vec![
                at(0, take(1_000_000_000), allow(1_000_000_000, 0, 1_000 * S)),
                at(1, take(1), allow(1, 0, 1_000 * S)),
                at(1, take(1), deny(0, 1_000 * S, 1)),
                at(1 + 999 * S, take(999_000_000), allow(999_000_000, 0, 1_000 * S)),
            ],
        },
        Case {
            name: "token bucket: times beyond 285 years are cut",
            // 10^9 tokens of 30 days each would take 82 million years.
            limits: vec![("a", token_bucket(1_000_000_000, 1, 30 * DAY))],
            steps: vec![
                at(0, take(1_000_000_000), allow(1_000_000_000, 0, NEVER_US)),
                at(0, take(1), deny(0, NEVER_US, 30 * DAY)),
                at(30 * DAY, take(1), allow(1, 0, NEVER_US)),
            ],
        },
        Case {
            name: "token bucket: looks, blocks and asks that are too large",
            limits: vec![("a", token_bucket(10, 1, S))],
            steps: vec![
                // A look charges nothing.
                at(0, take(0), allow(0, 10, 0)),
                // Seven of at most seven, four of at least one: three are left, three are granted.
                at(0, take(7), allow(7, 3, 7 * S)),
                at(0, block(4, 1), allow(3, 0, 10 * S)),
                at(0, take(0), deny(0, 10 * S, S)),
                // At least three: 3 s.
                at(0, block(4, 3), deny(0, 10 * S, 3 * S)),
                // Eleven never fit, at least eleven neither; at least ten would.
                at(0, take(11), deny(0, 10 * S, NEVER_US)),
                at(0, block(20, 11), deny(0, 10 * S, NEVER_US)),
                at(0, block(20, 10), deny(0, 10 * S, 10 * S)),
                at(10 * S, block(20, 10), allow(10, 0, 10 * S)),
            ],
        },
        Case {
            name: "token bucket: debt is bounded by the limit's own size",
            limits: vec![("a", token_bucket(10, 1, S))],
            steps: vec![
                at(0, charge(0, 4), vec![]),
                at(0, take(0), allow(0, 6, 4 * S)),
                // 4 + 1,000 stops at 20: the first token is back after 11 s.
                at(0, charge(0, 1_000), vec![]),
                at(0, take(0), deny(0, 20 * S, 11 * S)),
                at(11 * S - 1, take(1), deny(0, 9 * S + 1, 1)),
                at(11 * S, take(1), allow(1, 0, 10 * S)),
            ],
        },
        Case {
            name: "token bucket: time that steps back neither refills nor locks out",
            limits: vec![("a", token_bucket(4, 1, 500 * MS))],
            steps: vec![
                at(HOUR, take(3), allow(3, 1, 1_500 * MS)),
                // 11 s back: still three missing.
                at(HOUR - 11 * S, take(1), allow(1, 0, 2 * S)),
                at(HOUR - 11 * S, take(1), deny(0, 2 * S, 500 * MS)),
                // An hour back, and refused there: the wait is that of one token, and it counts from there.
                at(0, take(1), deny(0, 2 * S, 500 * MS)),
                at(500 * MS, take(1), allow(1, 0, 2 * S)),
                // Forward again: the hour has passed after all.
                at(HOUR, take(4), allow(4, 0, 2 * S)),
            ],
        },
        Case {
            name: "token bucket: usage stays when the numbers change",
            limits: vec![
                ("a", token_bucket(10, 1, S)),
                ("a", token_bucket(100, 1, S)),
                ("a", token_bucket(2, 1, S)),
                ("a", token_bucket(100, 7, 10 * S)),
            ],
            steps: vec![
                at(0, take(10), allow(10, 0, 10 * S)),
                // Raised: ten are used, ninety are left at once.
                at(0, ask(1, 0), allow(0, 90, 10 * S)),
                // Lowered to 2: ten used counts as four, twice the size; one is left when three are back.
                at(0, ask(2, 1), deny(0, 4 * S, 3 * S)),
                at(500 * MS, ask(0, 1), deny(0, 9_500 * MS, 500 * MS)),
                // Another rate, 7 in 10 s: 0.7 of ten are back after a second, and with one more 10.3 are missing.
                // They drain in 10.3 x 10 / 7 = 14.714285... s.
                at(S, ask(3, 1), allow(1, 89, 14_714_286)),
                // Under the first numbers 7,000,000 units would be seven tokens; 0.3 is rounded up to one.
                at(S, ask(0, 0), deny(0, 11 * S, 2 * S)),
            ],
        },
        Case {
            name: "leaky bucket: what exceeds the burst waits its turn",
            limits: vec![("a", leaky_bucket(2, 1, 100 * MS, S, 3))],
            steps: vec![
                // Size 2 + 3. Two pass, the third waits 100 ms, the fourth 200 ms, the fifth 300 ms.
                at(0, take(2), wait(2, 3, 200 * MS, 0)),
                at(0, take(1), wait(1, 2, 300 * MS, 100 * MS)),
                at(0, take(1), wait(1, 1, 400 * MS, 200 * MS)),
                at(0, take(1), wait(1, 0, 500 * MS, 300 * MS)),
                at(0, take(1), deny(0, 500 * MS, 100 * MS)),
                // 150 ms later 3.5 are in: one more makes 4.5, of which 2.5 wait.
                at(150 * MS, take(1), wait(1, 0, 450 * MS, 250 * MS)),
                // A look waits for nothing.
                at(250 * MS, take(0), allow(0, 1, 350 * MS)),
            ],
        },
        Case {
            name: "leaky bucket: the longest wait bounds the queue too",
            // In 250 ms two and a half tokens drain: 2 + 2.5 is the fullest.
            limits: vec![("a", leaky_bucket(2, 1, 100 * MS, 250 * MS, 100))],
            steps: vec![
                at(0, take(4), wait(4, 0, 400 * MS, 200 * MS)),
                // Five would wait 300 ms. Half a token of room is there; the other half drains in 50 ms.
                at(0, take(1), deny(0, 400 * MS, 50 * MS)),
                at(50 * MS, take(1), wait(1, 0, 450 * MS, 250 * MS)),
                // Larger than it ever gets: 5 > 4.5.
                at(50 * MS, take(5), deny(0, 450 * MS, NEVER_US)),
                at(10 * S, take(4), wait(4, 0, 400 * MS, 200 * MS)),
            ],
        },
        Case {
            name: "fixed window, aligned: ends with the clock, and admits 2N around it",
            limits: vec![("a", fixed_window(4, 6 * S, Align::Epoch))],
            steps: vec![
                at(5 * S, take(4), allow(4, 0, S)),
                at(5 * S, take(1), deny(0, S, S)),
                at(6 * S - 1, take(1), deny(0, 1, 1)),
                // Eight in a microsecond.
                at(6 * S, take(4), allow(4, 0, 6 * S)),
                at(6 * S, take(5), deny(0, 6 * S, NEVER_US)),
            ],
        },
        Case {
            name: "fixed window, anchored: begins with the first request",
            limits: vec![("a", fixed_window(2, 6 * S, Align::FirstUse))],
            steps: vec![
                at(5 * S, take(1), allow(1, 1, 6 * S)),
                at(7 * S, take(1), allow(1, 0, 4 * S)),
                at(11 * S - 1, take(1), deny(0, 1, 1)),
                at(11 * S, take(1), allow(1, 1, 6 * S)),
            ],
        },
        Case {
            name: "fixed window: debt ends with its window",
            limits: vec![("a", fixed_window(10, S, Align::Epoch))],
            steps: vec![
                at(0, charge(0, 25), vec![]),
                at(0, take(0), deny(0, S, S)),
                at(S, take(10), allow(10, 0, S)),
            ],
        },
        Case {
            name: "fixed window: steps of the clock keep the count, for one window",
            limits: vec![("a", fixed_window(2, 6 * S, Align::Epoch))],
            steps: vec![
                at(HOUR, take(2), allow(2, 0, 6 * S)),
                // A step into the window before: the count holds for a whole window from here.
                at(HOUR - S, take(1), deny(0, 6 * S, 6 * S)),
                // An hour back, the same; then windows are aligned again.
                at(S, take(1), deny(0, 6 * S, 6 * S)),
                at(7 * S, take(1), allow(1, 1, 5 * S)),
            ],
        },
        Case {
            name: "sliding window: the previous one counts by its overlap, rounded up",
            limits: vec![("a", sliding_window(10, 10 * S))],
            steps: vec![
                at(9 * S, take(8), allow(8, 2, 10 * S)),
                // 2.5 s into the next: 8 x 7.5 / 10 = 6 count; all is over ten seconds after the take.
                at(12_500 * MS, take(0), allow(0, 4, 6_500 * MS)),
                at(12_500 * MS, take(4), allow(4, 0, 10 * S)),
                // One more when 8 x left / 10 <= 5, that is, 6.25 s before the end: in 1.25 s.
                at(12_500 * MS, take(1), deny(0, 10 * S, 1_250 * MS)),
                at(13_750 * MS - 1, take(1), deny(0, 8_750 * MS + 1, 1)),
                at(13_750 * MS, take(1), allow(1, 0, 10 * S)),
                // Ten need all of it to be over.
                at(13_750 * MS, take(10), deny(0, 10 * S, 10 * S)),
                // Six need 5 x left / 10 <= 4 in the next one: 8 s before its end at 30 s.
                at(13_750 * MS, take(6), deny(0, 10 * S, 8_250 * MS)),
                at(22 * S, take(6), allow(6, 0, 10 * S)),
            ],
        },
        Case {
            name: "sliding window: nothing counts for longer than the window",
            limits: vec![("a", sliding_window(2, 10 * S))],
            steps: vec![
                // At the beginning of a window, where their share of the next would be greatest.
                at(0, take(2), allow(2, 0, 10 * S)),
                at(0, take(1), deny(0, 10 * S, 10 * S)),
                at(10 * S - 1, take(1), deny(0, 1, 1)),
                at(10 * S, take(2), allow(2, 0, 10 * S)),
                at(20 * S, take(1), allow(1, 1, 10 * S)),
                at(28 * S, take(1), allow(1, 0, 10 * S)),
                // 2 x left / 10 <= 1 at 35 s, before what was taken last is over.
                at(30 * S, take(1), deny(0, 8 * S, 5 * S)),
            ],
        },
        Case {
            name: "sliding window: a window begins the moment the one before ends",
            limits: vec![("a", sliding_window(4, 10 * S))],
            steps: vec![
                at(9 * S, take(2), allow(2, 2, 10 * S)),
                at(10 * S, take(1), allow(1, 1, 10 * S)),
                // 1 of this window, and 2 x 1 / 10 of the one before, rounded up.
                at(19 * S - 1, take(0), allow(0, 2, S + 1)),
            ],
        },
        Case {
            name: "sliding window: steps of the clock keep both counts",
            limits: vec![("a", sliding_window(4, 10 * S))],
            steps: vec![
                at(HOUR + 9 * S, take(2), allow(2, 2, 10 * S)),
                at(HOUR + 15 * S, take(2), allow(2, 1, 10 * S)),
                // A second back: what was taken last was taken now. Two more when the first window's two are over.
                at(HOUR + 14 * S, take(2), deny(0, 10 * S, 6 * S)),
                // Back before the second window: it begins here, and the first one counts in full. One more when
                // 2 x left / 10 <= 1.
                at(HOUR + 9 * S, take(1), deny(0, 10 * S, 5 * S)),
                // An hour back, the same.
                at(0, take(1), deny(0, 10 * S, 5 * S)),
                at(5 * S, take(1), allow(1, 0, 10 * S)),
            ],
        },
        Case {
            name: "sliding log: exact, and bursts of one instant count in full",
            limits: vec![("a", sliding_log(3, 10 * S))],
            steps: vec![
                at(0, take(1), allow(1, 2, 10 * S)),
                at(0, take(1), allow(1, 1, 10 * S)),
                at(4 * S, take(1), allow(1, 0, 10 * S)),
                at(4 * S, take(1), deny(0, 10 * S, 6 * S)),
                // Two of three: when the two of the start are over; three: when the third is.
                at(5 * S, take(2), deny(0, 9 * S, 5 * S)),
                at(5 * S, take(3), deny(0, 9 * S, 9 * S)),
                at(10 * S - 1, take(1), deny(0, 4 * S + 1, 1)),
                at(10 * S, take(1), allow(1, 1, 10 * S)),
            ],
        },
        Case {
            name: "sliding log: one in ten seconds passes again after ten seconds",
            limits: vec![("a", sliding_log(1, 10 * S))],
            steps: vec![
                at(3 * S, take(1), allow(1, 0, 10 * S)),
                at(3 * S, take(1), deny(0, 10 * S, 10 * S)),
                at(13 * S, take(1), allow(1, 0, 10 * S)),
            ],
        },
        Case {
            name: "sliding log: debt, and steps of the clock",
            limits: vec![("a", sliding_log(3, 10 * S))],
            steps: vec![
                at(HOUR, charge(0, 100), vec![]),
                // Six at one instant, twice the limit.
                at(HOUR, take(0), deny(0, 10 * S, 10 * S)),
                // An hour back they count as made then.
                at(0, take(1), deny(0, 10 * S, 10 * S)),
                at(10 * S, take(1), allow(1, 2, 10 * S)),
            ],
        },
        Case {
            name: "concurrency: places come back when released, or when their time is over",
            limits: vec![("a", concurrency(2, 60 * S))],
            steps: vec![
                at(0, place(7), allow(1, 1, 60 * S)),
                at(S, place(8), allow(1, 0, 60 * S)),
                at(S, place(9), deny(0, 60 * S, PLACE_RETRY_US)),
                at(S, release(0, 7), vec![]),
                // A second time changes nothing.
                at(S, release(0, 7), vec![]),
                at(2 * S, place(9), allow(1, 0, 60 * S)),
                // The place taken at 1 s is over at 61 s.
                at(61 * S - 1, place(10), deny(0, 60 * S, PLACE_RETRY_US)),
                at(61 * S, place(10), allow(1, 0, 60 * S)),
            ],
        },
        Case {
            name: "concurrency: a step back cuts places to what one taken now would have",
            limits: vec![("a", concurrency(1, 60 * S))],
            steps: vec![
                at(HOUR, place(7), allow(1, 0, 60 * S)),
                at(0, place(8), deny(0, 60 * S, PLACE_RETRY_US)),
                at(60 * S, place(8), allow(1, 0, 60 * S)),
            ],
        },
        Case {
            name: "several limits: all or nothing",
            limits: vec![
                ("a", token_bucket(10, 1, S)),
                ("b", fixed_window(2, 60 * S, Align::Epoch)),
                ("c", concurrency(5, 60 * S)),
            ],
            steps: vec![
                at(0, all(1), [allow(1, 9, S), allow(1, 1, 60 * S), allow(1, 4, 60 * S)].concat()),
                at(0, all(2), [allow(1, 8, 2 * S), allow(1, 0, 60 * S), allow(1, 3, 60 * S)].concat()),
                // The window refuses: the bucket keeps its eight, no place is taken. They would have allowed it.
                at(0, all(3), [allow(0, 8, 2 * S), deny(0, 60 * S, 60 * S), allow(0, 3, 60 * S)].concat()),
            ],
        },
        Case {
            name: "fixed window: usage stays when the numbers change",
            limits: vec![
                ("a", fixed_window(10, 10 * S, Align::FirstUse)),
                ("a", fixed_window(20, 10 * S, Align::FirstUse)),
                ("a", fixed_window(4, 10 * S, Align::FirstUse)),
                ("a", fixed_window(10, 5 * S, Align::FirstUse)),
                ("a", fixed_window(10, HOUR, Align::FirstUse)),
            ],
            steps: vec![
                at(0, ask(0, 6), allow(6, 4, 10 * S)),
                // Raised: fourteen are left at once. Lowered below what is used: none, never fewer.
                at(S, ask(1, 0), allow(0, 14, 9 * S)),
                at(S, ask(2, 1), deny(0, 9 * S, 9 * S)),
                // A longer window changes nothing for the one that runs.
                at(S, ask(4, 1), allow(1, 3, 9 * S)),
                // A shorter one ends within its own length from now.
                at(2 * S, ask(3, 1), allow(1, 2, 5 * S)),
                at(7 * S, ask(3, 1), allow(1, 9, 5 * S)),
            ],
        },
        Case {
            name: "sliding window: usage stays when the numbers change",
            limits: vec![
                ("a", sliding_window(10, 10 * S)),
                ("a", sliding_window(20, 10 * S)),
                ("a", sliding_window(4, 10 * S)),
                ("a", sliding_window(10, 5 * S)),
            ],
            steps: vec![
                at(0, ask(0, 6), allow(6, 4, 10 * S)),
                at(S, ask(1, 0), allow(0, 14, 9 * S)),
                // Four of four: when six are over, which is ten seconds after they came.
                at(S, ask(2, 4), deny(0, 9 * S, 9 * S)),
                // A shorter window: the end comes nearer, to 5 s from now, and what was taken at 0 s is over at 5 s.
                at(S, ask(3, 1), allow(1, 3, 5 * S)),
                at(6 * S - 1, ask(3, 4), deny(3, 1, 1)),
                at(6 * S, ask(3, 10), allow(10, 0, 5 * S)),
            ],
        },
        Case {
            name: "sliding log: usage stays when the numbers change",
            limits: vec![
                ("a", sliding_log(10, 10 * S)),
                ("a", sliding_log(20, 10 * S)),
                ("a", sliding_log(4, 10 * S)),
                ("a", sliding_log(10, 5 * S)),
            ],
            steps: vec![
                at(0, ask(0, 3), allow(3, 7, 10 * S)),
                at(4 * S, ask(0, 3), allow(3, 4, 10 * S)),
                at(4 * S, ask(1, 0), allow(0, 14, 10 * S)),
                // Six are used: two of four are there when the first three are over, four when all are.
                at(4 * S, ask(2, 1), deny(0, 10 * S, 6 * S)),
                at(4 * S, ask(2, 4), deny(0, 10 * S, 10 * S)),
                // Under the shorter window the first three are over at 5 s.
                at(5 * S, ask(3, 7), allow(7, 0, 5 * S)),
            ],
        },
        Case {
            name: "concurrency: places stay when the numbers change",
            limits: vec![
                ("a", concurrency(2, 60 * S)),
                ("a", concurrency(5, 60 * S)),
                ("a", concurrency(1, 60 * S)),
                ("a", concurrency(2, 10 * S)),
            ],
            steps: vec![
                at(0, place(1), allow(1, 1, 60 * S)),
                at(0, place(2), allow(1, 0, 60 * S)),
                // Raised: three more. Lowered below what is held: none, and one that is given back is not there yet.
                at(S, ask(1, 0), allow(0, 3, 60 * S)),
                at(S, ask(2, 1), deny(0, 60 * S, PLACE_RETRY_US)),
                at(S, release(2, 1), vec![]),
                at(S, ask(2, 1), deny(0, 60 * S, PLACE_RETRY_US)),
                // A shorter time is in force at once: the other place is over 10 s from now.
                at(2 * S, ask(3, 0), allow(0, 1, 10 * S)),
                at(12 * S - 1, ask(3, 0), allow(0, 1, 10 * S)),
                at(12 * S, ask(3, 0), allow(0, 2, 0)),
            ],
        },
        Case {
            name: "a changed algorithm starts clean",
            limits: vec![
                ("a", token_bucket(1, 1, HOUR)),
                ("a", fixed_window(1, HOUR, Align::Epoch)),
                ("a", sliding_window(1, HOUR)),
                ("a", sliding_log(1, HOUR)),
                ("a", leaky_bucket(1, 1, HOUR, 0, 0)),
                ("a", leaky_bucket(3, 1, HOUR, 0, 0)),
            ],
            steps: vec![
                at(0, ask(0, 1), allow(1, 0, HOUR)),
                at(0, ask(1, 1), allow(1, 0, HOUR)),
                at(0, ask(2, 1), allow(1, 0, HOUR)),
                at(0, ask(3, 1), allow(1, 0, HOUR)),
                at(0, ask(4, 1), allow(1, 0, HOUR)),
                // Token bucket and leaky bucket are one meter: usage stays.
                at(0, ask(5, 1), allow(1, 1, 2 * HOUR)),
            ],
        },
    ]
}

// === Numbers ===

pub(crate) fn token_bucket(burst: u64, tokens: u64, period_us: u64) -> Algorithm {
    Algorithm::TokenBucket(TokenBucket { burst, rate: Rate { tokens, period_us } })
}

pub(crate) fn leaky_bucket(
    burst: u64,
    tokens: u64,
    period_us: u64,
    wait_up_to_us: u64,
    waiting: u64,
) -> Algorithm {
    Algorithm::LeakyBucket(LeakyBucket { burst, rate: Rate { tokens, period_us }, wait_up_to_us, waiting })
}

pub(crate) fn fixed_window(limit: u64, per_us: u64, align: Align) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow { limit, per_us, align })
}

pub(crate) fn sliding_window(limit: u64, per_us: u64) -> Algorithm {
    Algorithm::SlidingWindow(SlidingWindow { limit, per_us })
}

pub(crate) fn sliding_log(limit: u64, per_us: u64) -> Algorithm {
    Algorithm::SlidingLog(SlidingLog { limit, per_us })
}

pub(crate) fn concurrency(max: u64, release_after_us: u64) -> Algorithm {
    Algorithm::Concurrency(Concurrency { max, release_after_us })
}

// === Steps ===

fn at(offset_us: u64, action: Action, expected: Vec<Standing>) -> Step {
    Step { now_us: START_US + offset_us, action, expected }
}

fn take(cost: u64) -> Action {
    ask(0, cost)
}

fn ask(limit: usize, cost: u64) -> Action {
    Action::Take(0, vec![(limit, Amount::exactly(cost))])
}

fn block(cost: u64, at_least: u64) -> Action {
    Action::Take(0, vec![(0, Amount { cost, at_least })])
}

fn place(slot: u64) -> Action {
    Action::Take(slot, vec![(0, Amount::exactly(1))])
}

fn all(slot: u64) -> Action {
    Action::Take(slot, (0..3).map(|limit| (limit, Amount::exactly(1))).collect())
}

fn charge(limit: usize, n: u64) -> Action {
    Action::Charge(limit, n)
}

fn release(limit: usize, slot: u64) -> Action {
    Action::Release(limit, slot)
}

// === Standings ===

fn allow(granted: u64, remaining: u64, reset_us: u64) -> Vec<Standing> {
    wait(granted, remaining, reset_us, 0)
}

fn wait(granted: u64, remaining: u64, reset_us: u64, delay_us: u64) -> Vec<Standing> {
    vec![Standing { allowed: true, granted, remaining, reset_us, retry_after_us: 0, delay_us }]
}

fn deny(remaining: u64, reset_us: u64, retry_after_us: u64) -> Vec<Standing> {
    vec![Standing { allowed: false, granted: 0, remaining, reset_us, retry_after_us, delay_us: 0 }]
}
