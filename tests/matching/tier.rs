//! Tiers: who is in one, and what it makes of a limit.

use sluicegate_policy::identity::{IdentityId, Source};
use sluicegate_policy::limit::{
    Algorithm, Align, Concurrency, FixedWindow, LeakyBucket, Limit, Rate, SlidingLog, SlidingWindow,
    TokenBucket,
};
use sluicegate_policy::pattern::Pattern;
use sluicegate_policy::policy::{Policy, Tier, TierChange, Tiers};
use sluicegate_policy::tier::{TierId, changed};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::setup::{Examiner, FakeRequest, header, limit, policy};

fn tier(name: &str, change: TierChange) -> Tier {
    Tier { name: name.into(), change, limits: Vec::new(), weight: 1 }
}

/// Gold is ten times, internal is free; the plan is a claim, and two callers are listed.
fn plans() -> Policy {
    let plan = Source::JwtClaim {
        namespace: "envoy.filters.http.jwt_authn".into(),
        payload: "jwt_payload".into(),
        path: vec!["plan".into()],
    };
    let address = Source::ClientIp { trusted_hops: 0, ipv4_prefix: 24, ipv6_prefix: 64 };
    Policy {
        tiers: Tiers {
            from: vec![plan, header("x-plan")],
            tiers: vec![tier("gold", TierChange::Multiply(10_000)), tier("internal", TierChange::Unlimited)],
            members: vec![
                (IdentityId(0), "vip".into(), 0),
                (IdentityId(0), "vip".into(), 1),
                (IdentityId(0), "198.51.100.7".into(), 1),
            ],
        },
        ..policy(vec![vec![header("x-api-key"), address]], vec![limit("only", Pattern::default())])
    }
}

const PLAN: &str = "metadata.filter_metadata.envoy.filters.http.jwt_authn.jwt_payload.plan";

fn burst(plans: &mut Examiner, request: &FakeRequest) -> Option<u64> {
    plans.examine(request);
    let met = plans.scratch.met().first()?;
    match plans.matcher.algorithm(met)? {
        Algorithm::TokenBucket(bucket) => Some(bucket.burst),
        _ => None,
    }
}

#[test]
fn the_first_source_with_a_value_names_the_tier() {
    let mut plans = Examiner::new(&plans());
    let get = || FakeRequest::get("/").with("x-api-key", "k");
    assert_eq!(burst(&mut plans, &get()), Some(100));
    assert_eq!(burst(&mut plans, &get().with_property(PLAN, "gold")), Some(1_000));
    assert_eq!(burst(&mut plans, &get().with("x-plan", "gold")), Some(1_000));
    assert_eq!(burst(&mut plans, &get().with_property(PLAN, "internal")), None);
    // An unknown name changes nothing, and no further source is asked.
    assert_eq!(burst(&mut plans, &get().with_property(PLAN, "silver").with("x-plan", "gold")), Some(100));
    assert_eq!(burst(&mut plans, &get().with_property(PLAN, b"\xff")), Some(100));
    assert_eq!(plans.matcher.tier(&get(), &mut plans.scratch), None);
}

#[test]
fn a_list_comes_before_what_the_request_says() {
    let mut plans = Examiner::new(&plans());
    let vip = FakeRequest::get("/").with("x-api-key", "vip").with_property(PLAN, "internal");
    assert_eq!(burst(&mut plans, &vip), Some(1_000));
    assert_eq!(plans.matcher.tier(&vip, &mut plans.scratch), Some(TierId(0)));
    // A listed address stands for its network, and an address in the key header is not that address.
    let from = |address: &str| FakeRequest::get("/").with_property("source.address", address);
    assert_eq!(burst(&mut plans, &from("198.51.100.9:1000")), None);
    assert_eq!(burst(&mut plans, &from("198.51.101.7:1000")), Some(100));
}

#[test]
fn every_limit_has_its_numbers_for_every_tier() {
    let policy = plans();
    let plans = Examiner::new(&policy);
    let variants = plans.matcher.variants();
    assert_eq!(variants.count(), 3);
    assert!(variants.of(0, Some(TierId(0))).is_some());
    assert!(variants.of(0, Some(TierId(1))).is_none());
    assert!(variants.of(0, Some(TierId(2))).is_none());
    assert!(variants.of(1, None).is_none());
    let plain = variants.of(0, None).unwrap();
    assert_eq!(variants.algorithm(plain), policy.limits.first().map(|limit: &Limit| &limit.algorithm));
}

fn rate(tokens: u64, period_us: u64) -> Rate {
    Rate { tokens, period_us }
}

#[test]
fn all_algorithms_are_changed_and_clamped() {
    let times =
        |algorithm: Algorithm, thousandths| changed(&algorithm, TierChange::Multiply(thousandths)).unwrap();
    let token = |burst, rate| Algorithm::TokenBucket(TokenBucket { burst, rate });
    assert_eq!(times(token(10, rate(1, 100_000)), 2_500), token(25, rate(1, 40_000)));
    assert_eq!(times(token(10, rate(1, 100_000)), 1), token(1, rate(1, 100_000_000)));
    assert_eq!(times(token(999_999_999, rate(1, 2)), 3_000), token(1_000_000_000, rate(1, 1)));
    let leaky = |burst, rate| {
        Algorithm::LeakyBucket(LeakyBucket { burst, rate, wait_up_to_us: 250_000, waiting: 100 })
    };
    assert_eq!(times(leaky(4, rate(2, 3)), 1_500), leaky(6, rate(1, 1)));
    let fixed =
        |limit| Algorithm::FixedWindow(FixedWindow { limit, per_us: 60_000_000, align: Align::FirstUse });
    assert_eq!(times(fixed(7), 500), fixed(3));
    let sliding = |limit| Algorithm::SlidingWindow(SlidingWindow { limit, per_us: 60_000_000 });
    assert_eq!(times(sliding(600_000_000), 2_000), sliding(1_000_000_000));
    let log = |limit| Algorithm::SlidingLog(SlidingLog { limit, per_us: 60_000_000 });
    assert_eq!(times(log(600), 2_000), log(1_000));
    let concurrency = |max| Algorithm::Concurrency(Concurrency { max, release_after_us: 1_000_000 });
    assert_eq!(times(concurrency(600), 1_000_000), concurrency(100_000));
    assert_eq!(changed(&fixed(7), TierChange::Unlimited), None);
}

#[test]
fn the_slowest_rates_stay_in_range() {
    const DAYS_30: u64 = 2_592_000_000_000;
    let times = |rate, thousandths| {
        let bucket = Algorithm::TokenBucket(TokenBucket { burst: 1, rate });
        match changed(&bucket, TierChange::Multiply(thousandths)) {
            Some(Algorithm::TokenBucket(bucket)) => bucket.rate,
            other => panic!("{other:?}"),
        }
    };
    // A tenth of one in 30 days is slower than the slowest.
    assert_eq!(times(rate(1, DAYS_30), 100), rate(1, DAYS_30));
    assert_eq!(times(rate(1, DAYS_30 / 10), 100), rate(1, DAYS_30));
    assert_eq!(times(rate(1, DAYS_30), 1_000), rate(1, DAYS_30));
    // 123 thousandths of 97 in 29 days: 11.931 in 29 days is 12 in 29.1677… days, rounded up to a microsecond.
    let slow = times(rate(97, DAYS_30 / 30 * 29), 123);
    assert_eq!((slow.tokens, slow.period_us), (12, 2_520_090_520_493));
}
