//! What the server runs with: the command line, checked.

use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::cli::{Serve, StoreArgs};
use crate::store::secrets::Secrets;
use crate::store::target::Target;
use crate::token::{self, Token};

/// Everything [`crate::server::run`] needs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where filters ask.
    pub listen: Address,
    /// Permissions of a Unix socket.
    pub socket_mode: u32,
    /// What takes must bring; always there when `listen` is not private.
    pub token: Option<Token>,
    /// Where operators ask.
    pub admin_listen: Address,
    /// What admin functions must bring; without one they are off.
    pub admin_token: Option<Token>,
    /// Where tokens are counted.
    pub store: StoreSettings,
    /// Connections at once, each listener.
    pub max_connections: usize,
    /// Batches under way at once.
    pub max_in_flight: usize,
    /// Longest time from a request's head to its answer.
    pub request_timeout: Duration,
    /// Longest time without a request.
    pub idle_timeout: Duration,
    /// Longest time to finish after the signal.
    pub drain_timeout: Duration,
}

/// How to reach the store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Which.
    pub target: Target,
    /// First part of every key.
    pub prefix: Box<str>,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Connections to each node.
    pub connections: usize,
    /// Timeouts in a row that open the breaker.
    pub breaker: u32,
    /// Most keys of the memory store.
    pub memory_keys: usize,
    /// How often overrides are read.
    pub override_poll: Duration,
}

impl Settings {
    /// Checks the command line.
    ///
    /// # Errors
    /// What is wrong, in one sentence that names the flag.
    pub fn new(args: &Serve) -> Result<Settings, String> {
        let token = Token::load(args.token.as_deref(), args.token_file.as_deref())
            .map_err(|error| format!("--token: {error}"))?;
        let admin_token = Token::load(args.admin_token.as_deref(), args.admin_token_file.as_deref())
            .map_err(|error| format!("--admin-token: {error}"))?;
        if !args.listen.is_private() && token.is_none() {
            return Err(format!(
                "--listen {}: beyond loopback anybody could spend quota, so a token is required: give --token, \
                 --token-file or SLUICEGATE_TOKEN, or listen on 127.0.0.1 or a Unix socket",
                args.listen
            ));
        }
        Ok(Settings {
            listen: args.listen.clone(),
            socket_mode: args.socket_mode,
            token,
            admin_listen: args.admin_listen.clone(),
            admin_token,
            store: StoreSettings::new(&args.store)?,
            max_connections: args.max_connections as usize,
            max_in_flight: args.max_in_flight as usize,
            request_timeout: args.request_timeout,
            idle_timeout: args.idle_timeout,
            drain_timeout: args.drain_timeout,
        })
    }
}

impl StoreSettings {
    fn new(args: &StoreArgs) -> Result<StoreSettings, String> {
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if args.prefix.is_empty() || args.prefix.len() > 32 || !args.prefix.chars().all(valid) {
            return Err("--store-prefix: expected 1 to 32 letters, digits, `-` and `_`".to_owned());
        }
        for (flag, file) in [
            ("store-password-file", &args.password_file),
            ("sentinel-password-file", &args.sentinel_password_file),
            ("store-ca", &args.ca),
            ("store-cert", &args.cert),
            ("store-key", &args.key),
        ] {
            if let Some(file) = file {
                token::read(file).map_err(|error| format!("--{flag}: {error}"))?;
            }
        }
        let secrets = Arc::new(Secrets {
            password: args.password_file.clone(),
            ca: args.ca.clone(),
            identity: args.cert.clone().zip(args.key.clone()),
        });
        let sentinel_password = args.sentinel_password_file.clone();
        let sentinel_secrets = Arc::new(Secrets { password: sentinel_password, ..Secrets::clone(&secrets) });
        let target = Target::parse(&args.url, &secrets, &sentinel_secrets)
            .map_err(|error| format!("--store: {error}"))?;
        Ok(StoreSettings {
            target,
            prefix: args.prefix.as_str().into(),
            timeout: args.timeout,
            connect_timeout: args.connect_timeout,
            connections: usize::from(args.connections),
            breaker: args.breaker,
            memory_keys: args.memory_keys as usize,
            override_poll: args.override_poll,
        })
    }
}
