//! `sluicegate explain FILE PATH`: what a policy does with a request, by the code of the filter.
//!
//! Keys are digests, so this is also how an operator finds the key of a client, for the admin calls of
//! [`crate::admin`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use sluicegate_policy::class::Class;
use sluicegate_policy::matcher::{Key, Matcher, Met, Scratch};
use sluicegate_policy::policy::Policy;
use sluicegate_policy::request::Request;
use sluicegate_policy::wire::WireAlgorithm;

use crate::check::{self, EXIT_OK};
use crate::cli::Explain;
use crate::describe::{amount, shown};
use crate::document;

/// Any number does: the answer tells about rules for a share of requests that it cannot know.
const RANDOM: u64 = 0;

/// Explains one request: what applies to it goes to `out`, faults of the file to `errors`. Gives the exit code.
///
/// # Errors
///
/// Only those of writing.
pub fn run(args: &Explain, out: &mut impl Write, errors: &mut impl Write) -> io::Result<u8> {
    let policy = match document::policy(&args.file) {
        Ok(policy) => policy,
        Err(error) => return check::refuse(&args.file.display().to_string(), &error, errors),
    };
    let request = Written::new(args);
    let matcher = Matcher::new(&policy, [0; 2]);
    let mut scratch = Scratch::default();
    let class = matcher.classify(&request, RANDOM, &mut scratch);
    writeln!(out, "class: {}", class.name())?;
    if class == Class::Exempt {
        writeln!(
            out,
            "exempt: always answered, up to {} such requests a second in one worker",
            policy.exempt_rate
        )?;
        return Ok(EXIT_OK);
    }
    if let Some(tier) = matcher.tier(&request, &mut scratch).and_then(|tier| policy.tiers.tiers.get(tier.0)) {
        writeln!(out, "tier: {}", tier.name)?;
    }
    matcher.meet(&request, &mut scratch);
    let met = scratch.met().to_vec();
    if met.is_empty() {
        writeln!(out, "no limit applies")?;
    }
    for met in met {
        limit(&policy, &matcher, &met, &mut scratch, out)?;
    }
    Ok(EXIT_OK)
}

/// One limit: its numbers for this request, and what the admin calls want to know.
fn limit(
    policy: &Policy,
    matcher: &Matcher,
    met: &Met,
    scratch: &mut Scratch,
    out: &mut impl Write,
) -> io::Result<()> {
    let (Some(limit), Some(algorithm)) = (policy.limits.get(met.limit), matcher.algorithm(met)) else {
        return Ok(());
    };
    writeln!(out, "{}: {}{}", limit.name, amount(algorithm), shown(limit.mode))?;
    if met.key == Key::Refused {
        return writeln!(out, "  refused with 429: its key is missing, and when_missing is deny");
    }
    let key = matcher.wire_key(met.limit, scratch);
    writeln!(out, "  key: {}/{}/{}", policy.namespace, limit.name, key.as_str())?;
    let numbers = serde_json::to_string(&WireAlgorithm::from(algorithm))?;
    writeln!(out, "  numbers: {numbers}")
}

/// A request from the command line.
#[derive(Debug)]
struct Written {
    headers: BTreeMap<String, String>,
    properties: BTreeMap<String, String>,
}

// === impl Written ===

impl Written {
    fn new(args: &Explain) -> Written {
        let mut headers = BTreeMap::from([
            (":path".to_owned(), args.path.clone()),
            (":method".to_owned(), args.method.clone()),
        ]);
        for (name, value) in &args.headers {
            let name = if name == "host" { ":authority" } else { name };
            // As the proxy joins them.
            headers
                .entry(name.to_owned())
                .and_modify(|joined| *joined = format!("{joined},{value}"))
                .or_insert_with(|| value.clone());
        }
        // Any port but 0, which is Envoy's sign that it took the address from a header.
        let peer = std::net::SocketAddr::new(args.address, 1).to_string();
        let mut properties: BTreeMap<_, _> = args.properties.iter().cloned().collect();
        properties.insert("source/address".to_owned(), peer);
        Written { headers, properties }
    }
}

impl Request for Written {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.headers.get(name).map(|value| Cow::Borrowed(value.as_bytes()))
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        self.properties.get(&path.join("/")).map(|value| value.as_bytes().to_vec())
    }
}
