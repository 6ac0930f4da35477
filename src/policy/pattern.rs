//! Which requests a rule is about.

/// All given conditions must hold; an empty pattern matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// Path condition, on the normalised path.
    pub path: PathPattern,
    /// Any of these methods, upper case; empty means any.
    pub methods: Vec<Box<str>>,
    /// Any of these hosts, lower case, without port or trailing dot; `*.example.com` matches subdomains.
    pub hosts: Vec<Box<str>>,
    /// All of these headers.
    pub headers: Vec<HeaderPattern>,
    /// Any of these route names (`xds.route_name`); empty means any.
    pub routes: Vec<Box<str>>,
    /// Any of these cluster names (`xds.cluster_name`); empty means any.
    pub clusters: Vec<Box<str>>,
    /// Any of these networks, by the client address under `client_ip_hops`; empty means any.
    pub networks: Vec<Network>,
    /// Trusted hops used to find the client address for `networks`.
    pub trusted_hops: usize,
    /// Share of requests, in hundredths of a percent, 0 to 10,000; `None` means all.
    pub percent_e2: Option<u32>,
}

/// A condition on the path, without the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PathPattern {
    /// Any path.
    #[default]
    Any,
    /// This path and no other.
    Exact(Box<str>),
    /// This path and everything below it, by whole segments: `/search` matches `/search/x`, not `/searching`.
    Prefix(Box<str>),
    /// A template: `{name}` stands for one segment, a final `**` for any number of them.
    Template(Vec<Segment>),
}

/// One segment of a path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This text.
    Literal(Box<str>),
    /// Any one segment that is not empty.
    One,
    /// Any number of segments, zero included; only at the end.
    Rest,
}

/// A condition on a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderPattern {
    /// Lower case.
    pub name: Box<str>,
    /// What its value must be.
    pub value: HeaderValue,
}

/// A condition on a header's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderValue {
    /// The header is there.
    Present,
    /// The header is not there.
    Absent,
    /// Exactly this.
    Exact(Box<str>),
    /// It begins with this.
    Prefix(Box<str>),
}

/// A network: an address and a prefix length. IPv4 is kept as an IPv4-mapped IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Network address, host bits zero, IPv4 mapped.
    pub address: std::net::Ipv6Addr,
    /// 0 to 128 (an IPv4 /24 is 120).
    pub prefix: u8,
}
