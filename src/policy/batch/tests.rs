use super::*;
use crate::digest::Digester;
use crate::limit::{Algorithm, Rate, TokenBucket};
use crate::wire::WireLimit;

fn shim() -> Shim {
    Shim {
        cluster: "shim".into(),
        authority: "shim".into(),
        token: None,
        timeout_us: 50_000,
        breaker_failures: 5,
        breaker_open_us: 2_000_000,
        batch_max: 3,
        waiting_max: 8,
        in_flight_max: 1,
    }
}

fn batcher() -> Batcher {
    let mut batcher = Batcher::new("default", &shim());
    for (variant, name) in ["zero", "one"].into_iter().enumerate() {
        let rate = Rate { tokens: 1, period_us: 1_000 };
        let bucket = Algorithm::TokenBucket(TokenBucket { burst: 7, rate });
        batcher.define(variant, &WireLimit(name.into(), (&bucket).into()));
    }
    batcher
}

fn key() -> WireKey {
    Digester::new(None).wire_key(b"somebody", None)
}

fn take(stream: u32, variant: usize) -> Take {
    let ask = Ask { variant, limit: variant, key: key(), local_key: 1, cost: 1, at_least: 1, own: None };
    Take { purpose: Purpose::Request(stream), asks: vec![ask], slot: None, deadline_us: 50_000 }
}

fn next(batcher: &mut Batcher) -> Option<(BatchId, wire::Batch)> {
    let mut body = Vec::new();
    let id = batcher.next(|_| true, &mut body, 0)?;
    Some((id, serde_json::from_slice(&body).unwrap()))
}

fn streams(answered: &Answered) -> Vec<u32> {
    answered
        .takes
        .iter()
        .filter_map(|(take, _)| match take.purpose {
            Purpose::Request(stream) => Some(stream),
            _ => None,
        })
        .collect()
}

#[test]
fn a_single_take_leaves_at_once_and_what_comes_meanwhile_gathers() {
    let mut batcher = batcher();
    batcher.push(take(1, 0)).unwrap();
    let (first, body) = next(&mut batcher).unwrap();
    assert_eq!(body.takes.len(), 1);
    for stream in 2..=6 {
        batcher.push(take(stream, 0)).unwrap();
    }
    assert!(next(&mut batcher).is_none(), "one batch at a time");
    let answered =
        batcher.answer(first, Some(br#"{"version":1,"verdicts":[[[1,1,6,0,0,0]]]}"#), 900).unwrap();
    assert_eq!((answered.failure, answered.latency_us), (None, 900));
    let (second, body) = next(&mut batcher).unwrap();
    assert_eq!(body.takes.len(), 3, "no more than batch_max");
    let answered = batcher.answer(second, None, 1_000).unwrap();
    assert_eq!(streams(&answered), [2, 3, 4], "in order of arrival");
    assert!(answered.takes.iter().all(|(_, verdict)| verdict.is_none()));
}

#[test]
fn the_body_is_what_the_wire_module_reads() {
    let mut batcher = batcher();
    let mut two = take(1, 1);
    let extra = Ask { variant: 0, limit: 0, key: key(), local_key: 2, cost: 20, at_least: 3, own: Some(3) };
    two.asks.push(extra);
    two.slot = Some(9_007_199_254_740_991);
    batcher.push(two).unwrap();
    batcher.push(take(2, 0)).unwrap();
    batcher.note(Note::Charge { variant: 0, key: key(), amount: 5 });
    batcher.note(Note::Release { variant: 1, key: key(), slot: 0 });
    let (_, body) = next(&mut batcher).unwrap();
    let names: Vec<&str> = body.limits.iter().map(|limit| &*limit.0).collect();
    assert_eq!((body.version, &*body.namespace, names), (1, "default", vec!["one", "zero"]));
    let asks: Vec<(usize, &str, u64, u64)> =
        body.takes[0].asks.iter().map(|ask| (ask.0, &*ask.1, ask.2, ask.3)).collect();
    let key = key();
    assert_eq!(asks, [(0, key.as_str(), 1, 1), (1, key.as_str(), 20, 3)]);
    assert_eq!((body.takes[0].slot, body.takes[1].slot), (Some(9_007_199_254_740_991), None));
    assert_eq!((body.charges[0].0, body.charges[0].2), (1, 5));
    assert_eq!((body.releases[0].0, body.releases[0].2), (0, 0));
}

#[test]
fn takes_of_clients_that_left_are_not_sent() {
    let mut batcher = batcher();
    batcher.push(take(1, 0)).unwrap();
    let mut body = Vec::new();
    assert_eq!(batcher.next(|_| false, &mut body, 0), None);
    assert!(batcher.is_idle());
}

#[test]
fn waiting_is_bounded() {
    let mut batcher = batcher();
    for stream in 0..8 {
        batcher.push(take(stream, 0)).unwrap();
    }
    assert_eq!(batcher.push(take(8, 0)), Err(Full));
}

#[test]
fn notes_are_bounded_and_the_oldest_go_first() {
    let mut batcher = batcher();
    for amount in 0..=NOTES_MAX as u64 {
        batcher.note(Note::Charge { variant: 0, key: key(), amount });
    }
    let mut body = Vec::new();
    batcher.next(|_| true, &mut body, 0).unwrap();
    assert!(body.len() <= wire::BODY_MAX);
    let body: wire::Batch = serde_json::from_slice(&body).unwrap();
    assert_eq!((body.charges.len(), body.charges[0].2), (NOTES_MAX, 1));
}

#[test]
fn slots_that_could_not_be_given_back_are_tried_again() {
    let mut batcher = batcher();
    batcher.note(Note::Release { variant: 0, key: key(), slot: 5 });
    batcher.note(Note::Charge { variant: 0, key: key(), amount: 5 });
    let (id, _) = next(&mut batcher).unwrap();
    batcher.answer(id, None, 0).unwrap();
    let (_, body) = next(&mut batcher).unwrap();
    assert_eq!((body.releases.len(), body.charges.len()), (1, 0), "a charge is never made twice");
}

#[test]
fn each_request_has_its_own_deadline() {
    let mut batcher = batcher();
    batcher.push(take(1, 0)).unwrap();
    next(&mut batcher).unwrap();
    let mut late = take(2, 0);
    late.deadline_us = 60_000;
    batcher.push(late).unwrap();
    assert_eq!(batcher.expired(49_999).count(), 0);
    assert_eq!(batcher.expired(50_000).collect::<Vec<_>>(), [1]);
    assert_eq!(batcher.expired(60_000).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_callout_that_never_ends_is_lost() {
    let mut batcher = batcher();
    batcher.push(take(1, 0)).unwrap();
    let (id, _) = next(&mut batcher).unwrap();
    assert_eq!(batcher.lost(99_999), None);
    assert_eq!(batcher.lost(100_000), Some(id));
    batcher.answer(id, None, 100_000).unwrap();
    assert!(batcher.answer(id, None, 100_001).is_none(), "a late answer finds nobody");
}

#[test]
fn a_body_never_outgrows_its_bound() {
    let settings = Shim { batch_max: 1_024, waiting_max: 2_000, ..shim() };
    let mut batcher = Batcher::new("default", &settings);
    let bucket =
        Algorithm::TokenBucket(TokenBucket { burst: 1_000_000_000, rate: Rate { tokens: 1, period_us: 1 } });
    for variant in 0..1_000 {
        batcher.define(variant, &WireLimit("x".repeat(64).into(), (&bucket).into()));
    }
    for stream in 0..1_024u32 {
        let mut long = take(stream, 0);
        let first = long.asks[0];
        long.asks = (0..64).map(|nth| Ask { variant: (stream as usize + nth) % 1_000, ..first }).collect();
        batcher.push(long).unwrap();
    }
    let mut sent = 0;
    let mut body = Vec::new();
    while let Some(id) = batcher.next(|_| true, &mut body, 0) {
        assert!(body.len() <= wire::BODY_MAX, "{}", body.len());
        sent += batcher.takes_in(id);
        batcher.answer(id, None, 0).unwrap();
    }
    assert_eq!(sent, 1_024);
}

#[test]
fn only_a_complete_answer_counts() {
    let asks = [Ask { cost: 5, at_least: 2, ..take(1, 0).asks[0] }, take(1, 0).asks[0]];
    let parse = |text: &str| answer::parse(text.as_bytes(), [&asks[..1], &asks[..]].into_iter());
    let good = r#" { "verdicts" : [ null , [[1,5,0,9,0,0],[0,0,7,1,2,3]] ] , "version" : 1 } "#;
    let verdicts = parse(good).unwrap();
    assert_eq!(verdicts[0], None);
    let second = verdicts[1].as_ref().unwrap()[1];
    assert_eq!((second.allowed, second.remaining, second.delay_us), (false, 7, 3));

    for (text, failure) in [
        ("", Malformed::Syntax),
        ("upstream connect error", Malformed::Syntax),
        (r#"{"version":1,"verdicts":[null,null]}x"#, Malformed::Syntax),
        (r#"{"version":1,"verdicts":[null,null]"#, Malformed::Syntax),
        (r#"{"version":1,"verdicts":[null,null],"more":1}"#, Malformed::Syntax),
        (r#"{"version":1,"version":1,"verdicts":[null,null]}"#, Malformed::Syntax),
        (r#"{"version":2,"verdicts":[null,null]}"#, Malformed::Version),
        (r#"{"verdicts":[null,null]}"#, Malformed::Version),
        (r#"{"version":1}"#, Malformed::Incomplete),
        (r#"{"version":1,"verdicts":[]}"#, Malformed::Incomplete),
        (r#"{"version":1,"verdicts":[null]}"#, Malformed::Incomplete),
        (r#"{"version":1,"verdicts":[null,null,null]}"#, Malformed::Incomplete),
        (r#"{"version":1,"verdicts":[null,[[1,1,1,1,1,1]]]}"#, Malformed::Incomplete),
        (r#"{"version":1,"verdicts":[[],null]}"#, Malformed::Incomplete),
        (r#"{"version":1,"verdicts":[[[1,1,1,1,1]],null]}"#, Malformed::Syntax),
        (r#"{"version":1,"verdicts":[[[1,1,1,1,1,-1]],null]}"#, Malformed::Syntax),
        (r#"{"version":1,"verdicts":[[[1,1,1,1,1,01]],null]}"#, Malformed::Syntax),
        (r#"{"version":1,"verdicts":[[[1,1,1,1,1,1.5]],null]}"#, Malformed::Number),
        (r#"{"version":1,"verdicts":[[[1,1,1,1,1,1e9]],null]}"#, Malformed::Number),
        (r#"{"version":1,"verdicts":[[[1,1,1,1,1,9007199254740992]],null]}"#, Malformed::Number),
        (r#"{"version":1,"verdicts":[[[1,1,1,1,1,99999999999999999999]],null]}"#, Malformed::Number),
        (r#"{"version":1,"verdicts":[[[2,1,1,1,1,1]],null]}"#, Malformed::Number),
        (r#"{"version":1,"verdicts":[[[1,6,1,1,1,1]],null]}"#, Malformed::Number),
    ] {
        assert_eq!(parse(text), Err(failure), "{text}");
    }
}
