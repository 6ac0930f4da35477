//! Which server to connect to.

use std::time::Duration;

use redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult};

use crate::store::target::Node;

/// Longest wait for one sentinel; the others are asked after it.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(150);

/// Finds the server of the moment.
#[derive(Debug)]
pub(crate) enum Finder {
    /// Always this one. A name is resolved anew for each attempt, which follows fail-overs done by DNS.
    Fixed(Node),
    /// The master that sentinels name.
    Sentinel {
        /// Asked in turn, each for a short time; the first that answers counts.
        sentinels: Vec<Node>,
        /// The name of the master.
        master: Box<str>,
        /// How to log in to it.
        node: Node,
    },
}

impl Finder {
    /// Asks. A sentinel may still name a master that is gone: the caller connects, or asks again.
    pub(crate) async fn find(&self) -> RedisResult<Node> {
        let (sentinels, master, node) = match self {
            Finder::Fixed(node) => return Ok(node.clone()),
            Finder::Sentinel { sentinels, master, node } => (sentinels, master, node),
        };
        let mut last = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel"));
        // Not always the same first, so that one that lags behind does not hold everybody up.
        let start = fastrand::usize(..sentinels.len().max(1));
        for sentinel in sentinels.iter().cycle().skip(start).take(sentinels.len()) {
            match ask(sentinel, master).await {
                Ok((host, port)) => return Ok(node.at(&host, port)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// What logs call it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Finder::Fixed(node) => node.describe(),
            Finder::Sentinel { master, .. } => format!("master {master}"),
        }
    }
}

async fn ask(sentinel: &Node, master: &str) -> RedisResult<(String, u16)> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(SENTINEL_TIMEOUT))
        .set_response_timeout(Some(SENTINEL_TIMEOUT));
    let mut connection = sentinel.client()?.get_multiplexed_async_connection_with_config(&config).await?;
    let answer: Option<(String, u16)> = redis::cmd("SENTINEL")
        .arg("get-master-addr-by-name")
        .arg(master)
        .query_async(&mut connection)
        .await?;
    answer.ok_or_else(|| {
        RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "the sentinel does not know this master"))
    })
}
