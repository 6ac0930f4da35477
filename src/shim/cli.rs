//! The command line: every flag, its environment variable, its default.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::address::Address;

/// Sluicegate: quota and saturation control for Envoy.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer the takes of Envoy's filters.
    Serve(Box<Serve>),

    /// Judge policy files with the code of the filter: every fault by its path; exit 64 if there is one.
    Check {
        /// YAML or JSON.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },

    /// Say what a policy does with a request: its class, the limits it meets, and the keys it is counted under.
    Explain(Explain),
}

/// `sluicegate explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// YAML or JSON.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Path of the request, with its query.
    #[arg(default_value = "/", value_name = "PATH")]
    pub path: String,

    /// Method of the request.
    #[arg(long, short = 'X', default_value = "GET", value_name = "METHOD")]
    pub method: String,

    /// A header of the request; `host: NAME` for its host. May be given more than once.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,

    /// Address that Envoy sees; proxies in front of it are in the header x-forwarded-for.
    #[arg(long, default_value = "192.0.2.1", value_name = "IP")]
    pub address: IpAddr,

    /// An attribute that Envoy has, such as a verified claim:
    /// metadata/filter_metadata/envoy.filters.http.jwt_authn/jwt_payload/sub=alice. May be given more than once.
    #[arg(long = "property", value_name = "STEP/STEP=VALUE", value_parser = property)]
    pub properties: Vec<(String, String)>,
}

/// `sluicegate serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where filters ask: ADDRESS:PORT, or unix:/PATH. Beyond loopback a token is required.
    #[arg(long, env = "SLUICEGATE_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    pub listen: Address,

    /// Permissions of a Unix socket, octal.
    #[arg(long, env = "SLUICEGATE_SOCKET_MODE", value_name = "MODE", default_value = "660", value_parser = octal)]
    pub socket_mode: u32,

    /// Token that takes must bring (`Authorization: Bearer`).
    #[arg(long, env = "SLUICEGATE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,

    /// File that holds the token.
    #[arg(long, env = "SLUICEGATE_TOKEN_FILE", value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,

    /// Where operators ask: health, metrics, and with a token peek, reset and overrides. Port 0 picks a free one.
    #[arg(long, env = "SLUICEGATE_ADMIN_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8091")]
    pub admin_listen: Address,

    /// Token of the admin functions; without one they are off.
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub admin_token: Option<String>,

    /// File that holds the admin token.
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN_FILE", value_name = "FILE", conflicts_with = "admin_token")]
    pub admin_token_file: Option<PathBuf>,

    /// Where tokens are counted.
    #[command(flatten)]
    pub store: StoreArgs,

    /// Worker threads; the number of cores if not given.
    #[arg(long, env = "SLUICEGATE_THREADS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// Connections served at once, each listener; beyond, new ones are closed. Each takes a file descriptor.
    #[arg(long, env = "SLUICEGATE_MAX_CONNECTIONS", value_name = "N", default_value_t = 4_096,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,

    /// Batches under way at once; beyond, they are answered 503 at once.
    #[arg(long, env = "SLUICEGATE_MAX_IN_FLIGHT", value_name = "N", default_value_t = 1_024,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_in_flight: u32,

    /// Longest time from a request's head to its answer.
    #[arg(long, env = "SLUICEGATE_REQUEST_TIMEOUT", value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub request_timeout: Duration,

    /// A connection without a request is closed after this; longer than Envoy's own (1h), so that Envoy closes first.
    #[arg(long, env = "SLUICEGATE_IDLE_TIMEOUT", value_name = "TIME", default_value = "75m", value_parser = duration)]
    pub idle_timeout: Duration,

    /// How long requests under way may take to finish after SIGTERM; a second SIGTERM ends them at once.
    #[arg(long, env = "SLUICEGATE_DRAIN_TIMEOUT", value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub drain_timeout: Duration,

    /// How logs are written.
    #[arg(long, env = "SLUICEGATE_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug, trace, or a tracing filter.
    #[arg(long, env = "SLUICEGATE_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// What `--store` takes.
const STORE_HELP: &str = "\
Where tokens are counted:
  memory                                    in this process; for one shim, demos and tests
  redis://[USER:PASSWORD@]HOST:PORT[/DB]    one Redis or Valkey
  unix:///PATH                              the same, by its socket file
  redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/MASTER[/DB]
  redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT
rediss, rediss+sentinel and rediss+cluster speak TLS";

/// The flags about the store.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Where tokens are counted.
    #[arg(
        long = "store",
        env = "SLUICEGATE_STORE",
        hide_env_values = true,
        value_name = "URL",
        default_value = "redis://127.0.0.1:6379",
        help = STORE_HELP
    )]
    pub url: String,

    /// File that holds the store's password, instead of the URL. It is read for each connection, as are those of
    /// certificates: what changes there needs no restart.
    #[arg(long = "store-password-file", env = "SLUICEGATE_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// File that holds the password of the sentinels themselves.
    #[arg(long = "sentinel-password-file", env = "SLUICEGATE_SENTINEL_PASSWORD_FILE", value_name = "FILE")]
    pub sentinel_password_file: Option<PathBuf>,

    /// First part of every key in Redis: letters, digits, `-` and `_`, at most 32.
    #[arg(
        long = "store-prefix",
        env = "SLUICEGATE_STORE_PREFIX",
        value_name = "PREFIX",
        default_value = "sluicegate"
    )]
    pub prefix: String,

    /// Longest wait for an answer of Redis; keep it below the filter's own timeout.
    #[arg(long = "store-timeout", env = "SLUICEGATE_STORE_TIMEOUT", value_name = "TIME", default_value = "30ms",
          value_parser = duration)]
    pub timeout: Duration,

    /// Longest wait for a connection to Redis, its set-up included.
    #[arg(long = "store-connect-timeout", env = "SLUICEGATE_STORE_CONNECT_TIMEOUT", value_name = "TIME",
          default_value = "500ms", value_parser = duration)]
    pub connect_timeout: Duration,

    /// Connections to each Redis node; calls are multiplexed over them.
    #[arg(long = "store-connections", env = "SLUICEGATE_STORE_CONNECTIONS", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: u8,

    /// Timeouts in a row after which calls fail at once until Redis answers a probe again.
    #[arg(long = "store-breaker", env = "SLUICEGATE_STORE_BREAKER", value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub breaker: u32,

    /// Certificates that Redis's own must descend from, PEM; the public ones if not given.
    #[arg(long = "store-ca", env = "SLUICEGATE_STORE_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Client certificate for Redis, PEM.
    #[arg(long = "store-cert", env = "SLUICEGATE_STORE_CERT", value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,

    /// Private key of the client certificate, PEM.
    #[arg(long = "store-key", env = "SLUICEGATE_STORE_KEY", value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,

    /// Keys that the memory store holds at most.
    #[arg(long = "memory-keys", env = "SLUICEGATE_MEMORY_KEYS", value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    pub memory_keys: u32,

    /// How often overrides are read from the store.
    #[arg(long = "override-poll", env = "SLUICEGATE_OVERRIDE_POLL", value_name = "TIME", default_value = "300ms",
          value_parser = duration)]
    pub override_poll: Duration,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text for each event.
    Text,
    /// One JSON object for each event.
    Json,
}

/// Reads `30ms`, `1s`, `75m`: 1 ms to 24 h.
fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is no time: expected a whole number with ms, s, m or h, like 30ms");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at_checked(digits).ok_or_else(expected)?;
    let number: u64 = number.parse().map_err(|_| expected())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected()),
    };
    match number.checked_mul(unit_ms) {
        Some(ms) if (1..=86_400_000).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("`{text}` is out of range: 1ms to 24h")),
    }
}

/// Reads permissions like `660`.
fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(format!("`{text}` is no mode: expected three octal digits, like 660")),
    }
}

/// Reads a header like `x-api-key: alice`.
fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        }
        _ => Err(format!("`{text}` is no header: expected NAME: VALUE")),
    }
}

/// Reads an attribute like `xds/route_name=web`.
fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no attribute: expected STEP/STEP=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        assert_eq!(duration("30ms"), Ok(Duration::from_millis(30)));
        assert_eq!(duration("75m"), Ok(Duration::from_secs(4_500)));
        for bad in ["", "30", "ms", "1.5s", "-1s", "0ms", "25h", "99999999999999999999s", "1 s", "1d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_sentence_and_a_variable() {
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").unwrap();
        let flags: Vec<_> = serve.get_arguments().filter(|flag| flag.get_long() != Some("help")).collect();
        assert!(25 < flags.len());
        for flag in flags {
            let name = flag.get_long().unwrap();
            let help = flag.get_help().unwrap().to_string();
            assert!(15 <= help.len(), "{name}: {help}");
            let variable = format!("SLUICEGATE_{}", name.to_uppercase().replace('-', "_"));
            assert_eq!(flag.get_env().and_then(|env| env.to_str()), Some(variable.as_str()), "{name}");
        }
    }
}
