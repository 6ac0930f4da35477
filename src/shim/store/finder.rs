//! Which server to connect to.

use redis::RedisResult;

use crate::store::sentinel::Sentinels;
use crate::store::target::Node;

/// Finds the server of the moment.
#[derive(Debug)]
pub(crate) enum Finder {
    /// Always this one. A name is resolved anew for each attempt, which follows fail-overs done by DNS.
    Fixed(Node),
    /// The master that sentinels name.
    Sentinel(Sentinels),
}

impl Finder {
    /// Asks. What is named may be gone already: the caller connects, or asks again.
    pub(crate) async fn find(&self) -> RedisResult<Node> {
        match self {
            Finder::Fixed(node) => Ok(node.clone()),
            Finder::Sentinel(sentinels) => sentinels.master().await,
        }
    }

    /// Whether another server is named now than the one at this address.
    pub(crate) async fn deposes(&self, address: &str) -> bool {
        match self {
            Finder::Fixed(_) => false,
            Finder::Sentinel(sentinels) => sentinels.depose(address).await,
        }
    }

    /// What logs call it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Finder::Fixed(node) => node.describe(),
            Finder::Sentinel(sentinels) => sentinels.describe(),
        }
    }
}
