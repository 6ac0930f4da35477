//! Saturation control, and how much requests matter: `overload`.

use super::limit::{identity_id, mode};
use super::pattern::pattern;
use super::source::header_name;
use super::value::Value;
use crate::class::Class;
use crate::mode::Mode;
use crate::pattern::Pattern;
use crate::policy::{ClassRule, Law, Overload, Upstream};

/// Most class rules, and most exempt patterns.
const RULES_MAX: usize = 1_000;

/// Exempt requests a second in one worker unless the document says otherwise.
const EXEMPT_RATE: u64 = 1_000;

/// Fields that say how saturation is judged: without `upstreams` they would do nothing.
const JUDGING: &[&str] = &[
    "admin_cluster",
    "tick",
    "law",
    "target_delay",
    "default_deadline",
    "tenant",
    "floor_percent",
    "streams_max",
    "retry_after_max",
    "mode",
];

/// What `overload` says.
pub(super) struct Section {
    pub(super) overload: Option<Overload>,
    pub(super) classes: Vec<ClassRule>,
    pub(super) class_header: Option<Box<str>>,
    pub(super) exempt: Vec<Pattern>,
    pub(super) exempt_rate: u64,
}

// === impl Section ===

impl Section {
    /// A policy without `overload`.
    pub(super) fn absent() -> Self {
        Section {
            overload: None,
            classes: Vec::new(),
            class_header: None,
            exempt: Vec::new(),
            exempt_rate: EXEMPT_RATE,
        }
    }
}

pub(super) fn overload(value: &Value<'_>, identities: &[&str], default_mode: Mode) -> Option<Section> {
    const KNOWN: &[&str] = &[
        "upstreams",
        "admin_cluster",
        "tick",
        "law",
        "target_delay",
        "default_deadline",
        "tenant",
        "floor_percent",
        "streams_max",
        "retry_after_max",
        "mode",
        "classes",
        "class_header",
        "exempt",
        "exempt_rate",
    ];
    let fields = value.fields(KNOWN)?;
    let upstreams = fields.optional("upstreams", upstreams);
    let admin_cluster = fields.optional("admin_cluster", |value| value.text("a cluster name").map(Box::from));
    let tick_us = fields.or("tick", 100_000, |value| value.duration_us(20_000..=1_000_000));
    let law = fields.or("law", Law::Auto, |value| {
        value.choice(&[("auto", Law::Auto), ("pool", Law::Pool), ("latency", Law::Latency)])
    });
    let target_delay_us = fields.or("target_delay", 10_000, |value| value.duration_us(1_000..=1_000_000));
    let default_deadline_us =
        fields.optional("default_deadline", |value| value.duration_us(1_000..=3_600_000_000));
    let tenant = fields.optional("tenant", |value| identity_id(value, identities));
    let floor_percent = fields.or("floor_percent", 1, |value| u8::try_from(value.integer(0..=10)?).ok());
    let streams_max = fields.or("streams_max", 1_024, |value| value.integer(1..=1_000_000));
    let retry_after_max_s = fields.or("retry_after_max", 60, whole_seconds);
    let mode = fields.or("mode", default_mode, mode);
    let classes = fields.or("classes", Vec::new(), |value| value.each(0, RULES_MAX, class_rule));
    let class_header = fields.optional("class_header", header_name);
    let exempt = fields.or("exempt", Vec::new(), |value| value.each(0, RULES_MAX, pattern));
    let exempt_rate = fields.or("exempt_rate", EXEMPT_RATE, |value| value.integer(1..=1_000_000));
    if fields.get("upstreams").is_none() {
        for value in JUDGING.iter().filter_map(|name| fields.get(name)) {
            value.fault("without `upstreams` this says nothing");
        }
    }
    let overload = match upstreams? {
        None => None,
        Some(upstreams) => Some(Overload {
            upstreams,
            admin_cluster: admin_cluster?,
            tick_us: tick_us?,
            law: law?,
            target_delay_us: target_delay_us?,
            default_deadline_us: default_deadline_us?,
            tenant: tenant?,
            floor_percent: floor_percent?,
            streams_max: streams_max?,
            retry_after_max_s: retry_after_max_s?,
            mode: mode?,
        }),
    };
    Some(Section {
        overload,
        classes: classes?,
        class_header: class_header?,
        exempt: exempt?,
        exempt_rate: exempt_rate?,
    })
}

fn upstreams(value: &Value<'_>) -> Option<Vec<Upstream>> {
    let upstreams = value.each(1, 64, |value| {
        let fields = value.fields(&["cluster", "max_in_flight", "max_connections"])?;
        let cluster = fields.required("cluster", |value| value.text("a cluster name"));
        let max_in_flight = fields.optional("max_in_flight", |value| value.integer(1..=1_000_000));
        let max_connections = fields.optional("max_connections", |value| value.integer(1..=1_000_000));
        Some(Upstream {
            cluster: cluster?.into(),
            max_in_flight: max_in_flight?,
            max_connections: max_connections?,
        })
    })?;
    let names = upstreams.iter().map(|upstream| &upstream.cluster);
    let repeated =
        names.clone().enumerate().find(|(index, name)| names.clone().take(*index).any(|n| n == *name));
    if let Some((_, name)) = repeated {
        value.fault(format!("cluster {name:?} stands here twice"));
        return None;
    }
    Some(upstreams)
}

fn whole_seconds(value: &Value<'_>) -> Option<u32> {
    let us = value.duration_us(1_000_000..=3_600_000_000)?;
    if !us.is_multiple_of(1_000_000) {
        return value.expected("whole seconds");
    }
    u32::try_from(us / 1_000_000).ok()
}

fn class_rule(value: &Value<'_>) -> Option<ClassRule> {
    let fields = value.fields(&["class", "match"])?;
    let class = fields.required("class", |value| {
        // Exempt requests have a list of their own, with a bound.
        value.choice(&Class::SHEDDABLE.map(|class| (class.name(), class)))
    });
    let pattern = fields.required("match", pattern);
    Some(ClassRule { class: class?, pattern: pattern? })
}
