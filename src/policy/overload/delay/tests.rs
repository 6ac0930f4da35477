//! The latency law against a service without chance: so many servers, so long each, one queue.

use super::*;

const TICK_S: f64 = 0.1;

/// 16 servers of 20 ms: 800 requests a second, and the law before them.
struct Service {
    servers: f64,
    base_s: f64,
    demand: f64,
    delay: Delay,
}

impl Service {
    fn new(demand: f64) -> Service {
        Service { servers: 16.0, base_s: 0.020, demand, delay: Delay::new(10_000.0, 0.0, 0.0) }
    }

    fn capacity(&self) -> f64 {
        self.servers / self.base_s
    }

    /// Runs for so long; the throughput at the end over the capacity.
    fn run(&mut self, seconds: f64) -> f64 {
        let mut rate = 0.0;
        for _ in 0..(seconds / TICK_S).round() as usize {
            let limit = if self.delay.armed() { self.delay.limit() } else { self.delay.cap() };
            let asked = self.demand * self.base_s;
            let in_flight = if self.demand < self.capacity() { asked.min(limit) } else { limit };
            rate = in_flight.min(self.servers) / self.base_s;
            let tick = Sample {
                elapsed_s: TICK_S,
                in_flight,
                answered: rate * TICK_S,
                waited_us: in_flight * TICK_S * 1e6,
                trailed_us: 0.0,
                ended: rate,
                blocked: in_flight + 0.01 < asked,
                fits: self.demand < 0.9 * self.delay.capacity().value(),
            };
            self.delay.update(&tick, f64::MAX, 4.0);
        }
        rate / self.capacity()
    }
}

/// A service that has seen half of its capacity for three seconds.
fn warm() -> Service {
    let mut service = Service::new(400.0);
    service.run(3.0);
    assert!((service.delay.base_us() - 20_000.0).abs() < 1.0 && !service.delay.armed());
    service
}

#[test]
fn overload_is_met_within_half_a_second_without_losing_throughput() {
    let mut service = warm();
    service.demand = 4_000.0;
    for _ in 0..50 {
        assert!(0.99 < service.run(TICK_S));
    }
    assert!(service.delay.armed());
    // 16 to keep the servers busy, and 12 that wait for three quarters of the base.
    assert!((service.delay.limit() - 28.0).abs() < 0.5, "{}", service.delay.limit());
}

#[test]
fn the_limit_goes_once_the_load_fits() {
    let mut service = warm();
    service.demand = 4_000.0;
    service.run(3.0);
    service.demand = 500.0;
    service.run(0.6);
    assert!(!service.delay.armed());
}

#[test]
fn a_service_that_becomes_slower_keeps_its_limit() {
    let mut service = warm();
    service.demand = 1_600.0;
    service.run(3.0);
    service.base_s = 0.040;
    for _ in 0..80 {
        assert!(0.99 < service.run(TICK_S));
    }
    assert!((service.delay.base_us() - 40_000.0).abs() < 4_000.0, "{}", service.delay.base_us());
}

#[test]
fn a_service_that_creeps_slower_does_not_drag_the_limit_down() {
    let mut service = warm();
    service.demand = 1_600.0;
    service.run(3.0);
    let mut served = 0.0;
    for _ in 0..1_000 {
        service.base_s += 0.000_06;
        served += service.run(TICK_S);
    }
    assert!(980.0 < served, "all but the tests of the base: {served}");
}

#[test]
fn a_service_that_becomes_smaller_is_found_out_by_a_dip() {
    let mut service = warm();
    service.demand = 1_600.0;
    service.run(3.0);
    service.servers = 8.0;
    service.run(13.0);
    assert!((service.delay.base_us() - 20_000.0).abs() < 2_000.0, "{}", service.delay.base_us());
    assert!((service.delay.limit() - 14.0).abs() < 1.5, "{}", service.delay.limit());
}

#[test]
fn a_start_in_overload_finds_the_base_below_the_queue() {
    let mut service = Service::new(4_000.0);
    service.run(4.0);
    assert!((service.delay.base_us() - 20_000.0).abs() < 2_000.0, "{}", service.delay.base_us());
    assert!(0.99 < service.run(1.0));
}

#[test]
fn a_large_service_is_not_held_by_the_first_cap() {
    let mut service = Service::new(4_000.0);
    service.servers = 256.0;
    service.run(2.0);
    assert!(3_999.0 < service.run(TICK_S) * service.capacity(), "{}", service.delay.cap());
}

#[test]
fn a_service_that_hung_gets_its_throughput_back() {
    let mut service = warm();
    service.demand = 1_600.0;
    service.run(3.0);
    for _ in 0..100 {
        let in_flight = service.delay.limit();
        let tick = Sample { elapsed_s: TICK_S, in_flight, blocked: true, ..Sample::default() };
        let tick = Sample { waited_us: in_flight * TICK_S * 1e6, ..tick };
        service.delay.update(&tick, f64::MAX, 4.0);
    }
    assert!(1.0 <= service.delay.limit(), "something must be let in to see that it works again");
    assert!(0.95 < service.run(3.0), "{}", service.delay.limit());
}

#[test]
fn any_sample_is_survived() {
    let odd = [0.0, -1.0, 1e-9, 1e30, f64::NAN, f64::INFINITY];
    let mut delay = Delay::new(10_000.0, f64::NAN, f64::INFINITY);
    for round in 0..5_000_usize {
        let pick = |n: usize| odd.get((round / n) % odd.len()).copied().unwrap_or(0.0);
        let tick = Sample {
            elapsed_s: if round % 3 == 0 { pick(7).abs().min(1.0) } else { TICK_S },
            in_flight: pick(1),
            answered: pick(2),
            waited_us: pick(3),
            trailed_us: pick(4),
            ended: pick(5),
            blocked: round % 2 == 0,
            fits: round % 5 == 0,
        };
        delay.update(&tick, pick(6), 4.0);
        assert!(!(delay.armed() && delay.limit() < 0.0));
    }
}
