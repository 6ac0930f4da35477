//! The sentinels of one master.
//!
//! All are asked at once, and the newest configuration counts: every fail-over raises its epoch, so a sentinel that
//! lags behind, or was cut off from the others, does not lead back to a master that has been deposed.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult, Value};

use crate::store::target::Node;

/// Longest wait for one sentinel.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(150);

/// Sentinels, and the master they watch.
#[derive(Debug)]
pub(crate) struct Sentinels {
    /// Asked all at once.
    sentinels: Vec<Node>,
    /// The name of the master.
    master: Box<str>,
    /// How to log in to it: only its address is replaced.
    node: Node,
}

/// What one sentinel says.
#[derive(Debug)]
struct Opinion {
    epoch: u64,
    host: String,
    port: u16,
}

// === impl Sentinels ===

impl Sentinels {
    pub(crate) fn new(sentinels: Vec<Node>, master: Box<str>, node: Node) -> Sentinels {
        Sentinels { sentinels, master, node }
    }

    /// The master of the newest configuration.
    ///
    /// # Errors
    /// No sentinel names one; the last error.
    pub(crate) async fn master(&self) -> RedisResult<Node> {
        let mut newest: Option<Opinion> = None;
        let mut error = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel"));
        for answer in self.ask().await {
            match answer {
                Ok(opinion) if newest.as_ref().is_none_or(|newest| newest.epoch < opinion.epoch) => {
                    newest = Some(opinion);
                }
                Ok(_) => {}
                Err(other) => error = other,
            }
        }
        newest.map(|newest| self.node.at(&newest.host, newest.port)).ok_or(error)
    }

    /// Whether the newest configuration names another master than the one at this address. Fewer than half of the
    /// sentinels depose nobody: they may be the ones that lag behind.
    pub(crate) async fn depose(&self, address: &str) -> bool {
        let opinions: Vec<Opinion> = self.ask().await.into_iter().flatten().collect();
        let newest = opinions.iter().max_by_key(|opinion| opinion.epoch);
        let is_another = |newest: &Opinion| self.node.at(&newest.host, newest.port).describe() != address;
        self.sentinels.len() < 2 * opinions.len() && newest.is_some_and(is_another)
    }

    async fn ask(&self) -> Vec<RedisResult<Opinion>> {
        join_all(self.sentinels.iter().map(|sentinel| ask(sentinel, &self.master))).await
    }

    /// What logs call it.
    pub(crate) fn describe(&self) -> String {
        format!("master {}", self.master)
    }
}

async fn ask(sentinel: &Node, master: &str) -> RedisResult<Opinion> {
    match tokio::time::timeout(SENTINEL_TIMEOUT, opinion(sentinel, master)).await {
        Ok(opinion) => opinion,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the sentinel does not answer in time").into()),
    }
}

async fn opinion(sentinel: &Node, master: &str) -> RedisResult<Opinion> {
    let config = AsyncConnectionConfig::new();
    let mut connection = sentinel.client()?.get_multiplexed_async_connection_with_config(&config).await?;
    let mut questions = redis::pipe();
    questions.cmd("SENTINEL").arg("get-master-addr-by-name").arg(master);
    questions.cmd("SENTINEL").arg("master").arg(master);
    let mut answers = connection.send_packed_commands(&questions, 0, 2).await?.into_iter();
    let address = answers.next().unwrap_or(Value::Nil).extract_error()?;
    let address: Option<(String, u16)> = redis::from_redis_value(address)?;
    let Some((host, port)) = address else {
        let kind = ErrorKind::MasterNameNotFoundBySentinel;
        return Err(RedisError::from((kind, "the sentinel does not know this master")));
    };
    // A login that may not ask for it gets no epoch; then any sentinel is as good as another.
    let details: HashMap<String, String> =
        answers.next().and_then(|details| redis::from_redis_value(details).ok()).unwrap_or_default();
    let epoch = details.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Ok(Opinion { epoch, host, port })
}
