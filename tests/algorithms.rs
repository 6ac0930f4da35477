//! The arithmetic of every algorithm, and the store that keeps their states.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[cfg(not(target_arch = "wasm32"))]
#[path = "algorithms/bounded.rs"]
mod bounded;
#[cfg(not(target_arch = "wasm32"))]
#[path = "algorithms/bounds.rs"]
mod bounds;
#[path = "cases/algorithms.rs"]
mod cases;
#[path = "algorithms/sliding.rs"]
mod sliding;

use sluicegate_policy::store::{Ask, Store};
use sluicegate_policy::verdict::Standing;

use cases::{Action, Case, cases};

#[test]
fn worked_cases() {
    let mut wrong = Vec::new();
    for case in cases() {
        let mut store = Store::new(1_000, 1);
        for (at, step) in case.steps.iter().enumerate() {
            let got = act(&mut store, &case, step.now_us, &step.action);
            if got != step.expected {
                wrong.push(format!(
                    "{}, step {at}:\n  got      {got:?}\n  expected {:?}",
                    case.name, step.expected
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn act(store: &mut Store<&'static str>, case: &Case, now_us: u64, action: &Action) -> Vec<Standing> {
    let limit = |at: usize| &case.limits[at];
    let mut standings = Vec::new();
    match action {
        Action::Take(slot, asks) => {
            let asks: Vec<_> = asks
                .iter()
                .map(|&(at, amount)| Ask { key: &limit(at).0, algorithm: &limit(at).1, amount })
                .collect();
            store.take(now_us, *slot, &asks, &mut standings);
        }
        Action::Charge(at, n) => store.charge(now_us, &limit(*at).0, &limit(*at).1, *n),
        Action::Release(at, slot) => store.release(now_us, &limit(*at).0, &limit(*at).1, *slot),
    }
    standings
}
