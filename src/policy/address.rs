//! Client addresses.
//!
//! # Which address is "the client"
//!
//! A filter does not see the connection. It sees two things, and neither alone says who is asking:
//!
//! - `source.address`, which Envoy may itself have taken from `x-forwarded-for`: then its port is 0, and no
//!   attribute holds the real peer any more;
//! - `x-forwarded-for`, to which Envoy has already appended the peer when `use_remote_address: true`. If the peer
//!   is on loopback it appends the machine's own address instead
//!   (`ConnectionManagerUtility::mutateRequestHeaders`).
//!
//! `trusted_hops` is the number of proxies *in front of this Envoy* that append the address they see; this Envoy
//! is not counted. The client is what the outermost of them saw. With client C and balancers L1, L2:
//!
//! | chain | Envoy's settings | `x-forwarded-for` here | `source.address` | `trusted_hops` |
//! |---|---|---|---|---|
//! | C, Envoy | `use_remote_address: true` (edge) | `…, C` | `C:port` | 0 |
//! | C, L1, Envoy | `true` | `…, C, L1` | `L1:port` | 1 |
//! | C, L1, Envoy | `true`, `xff_num_trusted_hops: 1` | `…, C, L1` | `C:0` | 1 |
//! | C, L1, L2, Envoy | `true`, `xff_num_trusted_hops: 2` | `…, C, L1, L2` | `C:0` | 2 |
//! | C, gateway, sidecar | `false` (Istio sidecar) | `…, C` | `C:0` | 1 |
//! | C, L1, gateway, sidecar | `false` | `…, C, L1` | `L1:0` | 2 |
//! | C, L1, gateway, sidecar | `false`, `xff_num_trusted_hops: 1` | `…, C, L1` | `C:0` | 2 |
//! | C, CDN, Envoy | `original_ip_detection_extensions` | anything | `C:0` | 1 |
//!
//! So: on an edge proxy set `use_remote_address: true`, and `trusted_hops` to the proxies in front (the same number
//! as `xff_num_trusted_hops`, if that is set); inside a mesh count the gateway too. Either way the same number is
//! right whether or not Envoy is told of the hops.
//!
//! What is left of the chosen entry is the client's own writing and is never used. An entry missing, not an address,
//! or with junk to its right, falls back to the peer that Envoy vouches for.
//!
//! With `trusted_hops: 0`, the default, `x-forwarded-for` is never used, not even through `source.address`: if
//! Envoy shows no peer (`use_remote_address: false` and a request with the header), the client is
//! [`Client::Unknown`], and all such requests are counted as one. A limit per address in a sidecar that was not
//! told its hops is therefore too strict, never too lax.
//!
//! One combination cannot be told from the others, and is not supported: `skip_xff_append: true` with
//! `use_remote_address: true` behind a proxy on the same machine's loopback.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::pattern::Network;

/// Who sent a request, as far as the proxy can vouch for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// This address; IPv4 is mapped (`::ffff:a.b.c.d`).
    Known(Ipv6Addr),
    /// Nothing but the client's own word. All such requests are one client.
    Unknown,
}

/// An address and its port, as `source.address` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Endpoint {
    address: Ipv6Addr,
    port: u16,
}

// === impl Client ===

impl Client {
    /// The client of a request, by the table above.
    ///
    /// `source` is the attribute `source.address`; `forwarded_for` is asked only when `trusted_hops` is not 0.
    pub fn of<'a>(
        source: Option<&[u8]>,
        forwarded_for: impl FnOnce() -> Option<&'a [u8]>,
        trusted_hops: usize,
    ) -> Client {
        let source = source.and_then(endpoint);
        let peer = source.filter(|source| source.port != 0).map(|source| source.address);
        if trusted_hops == 0 {
            return peer.map_or(Client::Unknown, Client::Known);
        }
        let fallback = source.map_or(Client::Unknown, |source| Client::Known(source.address));
        let Some(list) = forwarded_for() else { return fallback };
        let last = list.rsplit(|&byte| byte == b',').next().unwrap_or_default().trim_ascii();
        // Envoy appends, and itself accepts, bare addresses only.
        let last = bare(last);
        let own_entries = match (source, peer) {
            // Envoy took the last entry: it appended nothing (`use_remote_address: false`).
            (Some(source), None) if last == Some(source.address) => 0,
            // Envoy took another entry: it was told how to, and has answered already.
            (Some(_), None) => return fallback,
            (_, Some(peer)) => usize::from(last.is_some_and(|last| last == peer || is_loopback(peer))),
            // A peer without an address (Unix socket): Envoy appends nothing.
            (None, None) => 0,
        };
        nth_from_right(list, trusted_hops.saturating_add(own_entries)).map_or(fallback, Client::Known)
    }
}

// === impl Network ===

impl Network {
    /// The network of an address; host bits are cleared. IPv4 comes mapped, its prefix plus 96; at most 128.
    pub fn new(address: Ipv6Addr, prefix: u8) -> Network {
        let prefix = prefix.min(128);
        Network { address: mask(address, prefix), prefix }
    }

    /// The network of an address under the prefix of its family.
    pub fn of(address: Ipv6Addr, ipv4_prefix: u8, ipv6_prefix: u8) -> Network {
        Network::new(address, if is_ipv4(address) { ipv4_prefix.saturating_add(96) } else { ipv6_prefix })
    }

    /// Whether an address, IPv4 mapped, is inside.
    pub fn contains(&self, address: Ipv6Addr) -> bool {
        // `::/0` does not swallow IPv4, unless it was written as a prefix of the mapped range itself.
        (is_ipv4(self.address) || !is_ipv4(address)) && mask(address, self.prefix) == self.address
    }
}

/// An address in any of the usual spellings: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`, `fe80::1%eth0` (the scope is dropped). IPv4 is mapped.
pub fn parse(text: &[u8]) -> Option<Ipv6Addr> {
    let text = text.trim_ascii();
    bare(text).or_else(|| endpoint(text).map(|endpoint| endpoint.address)).or_else(|| {
        let inner = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
        v6(inner)
    })
}

/// The address at this place from the right, 1 being the last, if it and all to its right are addresses.
fn nth_from_right(list: &[u8], place: usize) -> Option<Ipv6Addr> {
    let mut entries = list.rsplit(|&byte| byte == b',');
    let mut found = None;
    for _ in 0..place {
        found = Some(parse(entries.next()?)?);
    }
    found
}

/// `ip:port` or `[v6]:port`.
fn endpoint(text: &[u8]) -> Option<Endpoint> {
    let colon = text.iter().rposition(|&byte| byte == b':')?;
    let (host, port) = text.split_at_checked(colon)?;
    let port = u16::try_from(decimal(port.get(1..)?, 5)?).ok()?;
    let address = match host.strip_prefix(b"[") {
        Some(rest) => v6(rest.strip_suffix(b"]")?)?,
        None => v4(host)?,
    };
    Some(Endpoint { address, port })
}

/// An address without port or brackets.
fn bare(text: &[u8]) -> Option<Ipv6Addr> {
    v4(text).or_else(|| v6(text))
}

/// Four numbers without leading zeros, which some read as octal. By hand, since it is asked several times for most
/// requests.
fn v4(text: &[u8]) -> Option<Ipv6Addr> {
    let (mut address, mut octet, mut digits, mut dots) = (0_u32, 0_u32, 0_u32, 0_u32);
    for &byte in text {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && octet == 0 {
                    return None;
                }
                octet = octet * 10 + u32::from(byte & 15);
                digits += 1;
                if octet > 255 {
                    return None;
                }
            }
            b'.' if digits > 0 && dots < 3 => {
                address = address << 8 | octet;
                (octet, digits, dots) = (0, 0, dots + 1);
            }
            _ => return None,
        }
    }
    (dots == 3 && digits > 0).then(|| Ipv4Addr::from_bits(address << 8 | octet).to_ipv6_mapped())
}

fn v6(text: &[u8]) -> Option<Ipv6Addr> {
    let address = text.split(|&byte| byte == b'%').next()?;
    std::str::from_utf8(address).ok()?.parse().ok()
}

/// A number of one to `digits_max` digits.
fn decimal(text: &[u8], digits_max: usize) -> Option<u32> {
    if text.is_empty() || text.len() > digits_max {
        return None;
    }
    text.iter().try_fold(0_u32, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| byte.saturating_sub(b'0'))?;
        Some(number.saturating_mul(10).saturating_add(u32::from(digit)))
    })
}

fn is_ipv4(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

fn is_loopback(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().map_or(address.is_loopback(), |address| address.is_loopback())
}

fn mask(address: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let host_bits = 128_u32.saturating_sub(u32::from(prefix));
    let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}
