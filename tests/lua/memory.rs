//! What a key takes in Redis: measured, and told in the manual.

use sluicegate_policy::algorithm::Amount;
use sluicegate_policy::limit::{Algorithm, Align};
use sluicegate_shim::script::Layout;
use sluicegate_testing::redis::Redis;

use crate::cases::{self, HOUR, START_US};
use crate::rig::{Do, Lua};

/// What the manual tells of one algorithm.
struct Row {
    algorithm: &'static str,
    numbers: Algorithm,
    /// Takes, each in a microsecond of its own, for a slot of its own.
    takes: u64,
    /// Bytes of the value; a set has none that could be told.
    value: Option<u64>,
    /// `MEMORY USAGE` at most.
    usage_max: u64,
}

fn rows() -> Vec<Row> {
    let row =
        |algorithm, numbers, takes, value, usage_max| Row { algorithm, numbers, takes, value, usage_max };
    let log = cases::sliding_log(1_000, HOUR);
    let places = cases::concurrency(1_000, HOUR);
    vec![
        row("token_bucket", cases::token_bucket(100, 1, HOUR), 5, Some(18), 160),
        row("leaky_bucket", cases::leaky_bucket(100, 1, HOUR, 0, 0), 5, Some(18), 160),
        row("fixed_window", cases::fixed_window(100, HOUR, Align::FirstUse), 5, Some(12), 160),
        row("sliding_window", cases::sliding_window(100, HOUR), 5, Some(23), 160),
        row("sliding_window, exact, 10 admissions", log.clone(), 10, Some(93), 250),
        row("sliding_window, exact, 100 admissions", log.clone(), 100, Some(903), 1_200),
        row("sliding_window, exact, 1,000 admissions", log, 1_000, Some(9_003), 11_000),
        row("concurrency, 1 in progress", places.clone(), 1, None, 160),
        row("concurrency, 10 in progress", places.clone(), 10, None, 400),
        row("concurrency, 100 in progress", places.clone(), 100, None, 2_500),
        row("concurrency, 1,000 in progress", places, 1_000, None, 130_000),
    ]
}

#[test]
fn a_key_takes_what_the_manual_says() {
    let redis = Redis::start(&[]);
    let manual = std::fs::read_to_string("envoy/CONFIGURATION.md").unwrap();
    for Row { algorithm, numbers, takes, value, usage_max } in rows() {
        let mut lua = Lua::new(&redis, vec![("per-caller".to_owned(), numbers)], Layout::Single);
        for n in 0..takes {
            // Slots are drawn from all of 53 bits, so their names are as long as they get.
            let slot = (1 << 52) + n * 7_919;
            let take = Do::Take { slot, asks: vec![(0, 0, Amount::exactly(1))] };
            lua.run(Some(START_US + n), &[take]);
        }
        let lives = lua.lives();
        let [(key, _)] = lives.as_slice() else { panic!("{algorithm}: one key, not {lives:?}") };
        let usage: u64 = redis::cmd("MEMORY")
            .arg("USAGE")
            .arg(key)
            .arg("SAMPLES")
            .arg(0)
            .query(&mut lua.connection)
            .unwrap();
        assert!(usage <= usage_max, "{algorithm}: {usage} bytes");
        let told = match value {
            Some(value) => {
                let length: u64 = redis::cmd("STRLEN").arg(key).query(&mut lua.connection).unwrap();
                assert_eq!(length, value, "{algorithm}");
                assert!(takes > 5 || length + (key.len() as u64) < 120, "{algorithm}: {key}");
                format!("| {algorithm} | {} | {} |", grouped(value), grouped(usage_max))
            }
            None => format!("| {algorithm} | | {} |", grouped(usage_max)),
        };
        assert!(manual.contains(&told), "{told}");
    }
}

/// With everything that Redis keeps besides: its tables of keys and of expiries.
#[test]
fn a_million_keys_take_what_the_manual_says() {
    let redis = Redis::start(&[]);
    let manual = std::fs::read_to_string("envoy/CONFIGURATION.md").unwrap();
    assert!(manual.contains("about 250 bytes altogether"));
    let numbers = cases::token_bucket(100, 1, HOUR);
    let mut lua = Lua::new(&redis, vec![("per-caller".to_owned(), numbers)], Layout::Single);
    let used = |lua: &mut Lua| -> u64 {
        let info: String = redis::cmd("INFO").arg("memory").query(&mut lua.connection).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.unwrap().trim().parse().unwrap()
    };
    let before = used(&mut lua);
    for thousand in 0..30 {
        let keys = thousand * 1_000..(thousand + 1) * 1_000;
        let takes = keys.map(|key| Do::Take { slot: 0, asks: vec![(0, key, Amount::exactly(1))] });
        lua.run(None, &takes.collect::<Vec<_>>());
    }
    let each = (used(&mut lua) - before) / 30_000;
    assert!((150..=250).contains(&each), "{each} bytes");
}

/// `12,345`
fn grouped(n: u64) -> String {
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", n / 1_000, n % 1_000) }
}
