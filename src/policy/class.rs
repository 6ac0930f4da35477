//! How much a request matters when capacity is short.

/// The importance of a request, most important first.
///
/// The order is the order of shedding reversed: `Sheddable` goes first, `Critical` last. `Exempt` requests
/// (health, readiness) are outside quota and saturation, within an abuse bound of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Always answered, within an abuse bound.
    Exempt,
    /// Checkout, login: shed last.
    Critical,
    /// Above the ordinary.
    High,
    /// What nothing else was said about.
    Normal,
    /// Background work somebody waits for.
    Low,
    /// Beacons, prefetches: shed first.
    Sheddable,
}

impl Class {
    /// All classes, most important first; `ALL[class.index()] == class`.
    pub const ALL: [Class; 6] =
        [Class::Exempt, Class::Critical, Class::High, Class::Normal, Class::Low, Class::Sheddable];

    /// The classes that saturation can refuse, most important first.
    pub const SHEDDABLE: [Class; 5] =
        [Class::Critical, Class::High, Class::Normal, Class::Low, Class::Sheddable];

    /// Position in [`Class::ALL`], 0 to 5.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name used in configuration, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Class::Exempt => "exempt",
            Class::Critical => "critical",
            Class::High => "high",
            Class::Normal => "normal",
            Class::Low => "low",
            Class::Sheddable => "sheddable",
        }
    }

    /// The class of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == name)
    }

    /// One class less important, never below `Sheddable`; `Exempt` stays.
    #[must_use]
    pub fn demoted(self) -> Class {
        match self {
            Class::Exempt => Class::Exempt,
            Class::Critical => Class::High,
            Class::High => Class::Normal,
            Class::Normal => Class::Low,
            Class::Low | Class::Sheddable => Class::Sheddable,
        }
    }
}
