//! Why the store gave no decision.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// A call without an answer. Nothing about it is ever shown to clients; each kind is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Not connected, or the breaker is open: nothing was sent.
    Down,
    /// No answer in time; the take may still be charged.
    Timeout,
    /// The connection broke while the answer was awaited; the take may be charged.
    Disconnected,
    /// Redis is out of memory and evicts nothing.
    Oom,
    /// Redis reads its data set.
    Loading,
    /// A script or function holds Redis up.
    Busy,
    /// Asked a replica.
    ReadOnly,
    /// A replica that has lost its master.
    MasterDown,
    /// The sentinels name another master.
    Deposed,
    /// The key holds something that is not ours.
    WrongType,
    /// The script is not known, though it has just been loaded.
    NoScript,
    /// The cluster does not serve the slot, or it moved more often than we follow.
    Cluster,
    /// The login or its permissions do not suffice.
    Denied,
    /// The answer is not what the script returns.
    Junk,
    /// Any other error of Redis.
    Other,
}

impl Failure {
    /// All kinds.
    pub const ALL: [Failure; 15] = [
        Failure::Down,
        Failure::Timeout,
        Failure::Disconnected,
        Failure::Oom,
        Failure::Loading,
        Failure::Busy,
        Failure::ReadOnly,
        Failure::MasterDown,
        Failure::Deposed,
        Failure::WrongType,
        Failure::NoScript,
        Failure::Cluster,
        Failure::Denied,
        Failure::Junk,
        Failure::Other,
    ];

    /// The name used in metrics, logs and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Failure::Down => "down",
            Failure::Timeout => "timeout",
            Failure::Disconnected => "disconnected",
            Failure::Oom => "oom",
            Failure::Loading => "loading",
            Failure::Busy => "busy",
            Failure::ReadOnly => "readonly",
            Failure::MasterDown => "masterdown",
            Failure::Deposed => "deposed",
            Failure::WrongType => "wrongtype",
            Failure::NoScript => "noscript",
            Failure::Cluster => "cluster",
            Failure::Denied => "denied",
            Failure::Junk => "junk",
            Failure::Other => "other",
        }
    }

    /// What it means, for whoever is woken up by it.
    #[must_use]
    pub fn explain(self) -> &'static str {
        match self {
            Failure::Down => "the store cannot be reached",
            Failure::Timeout => "the store does not answer in time",
            Failure::Disconnected => "connections to the store cannot be made, or break",
            Failure::Oom => "the store is out of memory and evicts nothing",
            Failure::Loading => "the store is still reading its data",
            Failure::Busy => "a script or function holds the store up",
            Failure::ReadOnly => "the server is a replica",
            Failure::MasterDown => "the server is a replica that has lost its master",
            Failure::Deposed => "the sentinels name another master",
            Failure::WrongType => "a key holds something that is not ours",
            Failure::NoScript => "the store forgets the script as soon as it is loaded",
            Failure::Cluster => "the cluster does not serve the slot, or is moving it",
            Failure::Denied => "the store refuses the login, or the login may not do what it must",
            Failure::Junk => "the answer of the store makes no sense",
            Failure::Other => "the store answers with an error",
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl From<&RedisError> for Failure {
    fn from(error: &RedisError) -> Failure {
        if error.is_timeout() {
            return Failure::Timeout;
        }
        match error.kind() {
            ErrorKind::Io => Failure::Disconnected,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Failure::Junk,
            ErrorKind::AuthenticationFailed => Failure::Denied,
            ErrorKind::MasterNameNotFoundBySentinel | ErrorKind::ClusterConnectionNotFound => Failure::Down,
            ErrorKind::Server(kind) => match kind {
                ServerErrorKind::BusyLoading => Failure::Loading,
                ServerErrorKind::NoScript => Failure::NoScript,
                ServerErrorKind::ReadOnly => Failure::ReadOnly,
                ServerErrorKind::MasterDown => Failure::MasterDown,
                ServerErrorKind::NoPerm => Failure::Denied,
                ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::CrossSlot => Failure::Cluster,
                _ => from_text(error),
            },
            _ => from_text(error),
        }
    }
}

/// Kinds the client has no name for. Before version 7 Redis wraps the error of a command inside a script in an `ERR`
/// of its own, so the text is searched where the code says nothing.
fn from_text(error: &RedisError) -> Failure {
    const CODES: [(&str, Failure); 9] = [
        ("OOM", Failure::Oom),
        ("LOADING", Failure::Loading),
        ("BUSY", Failure::Busy),
        ("READONLY", Failure::ReadOnly),
        ("MASTERDOWN", Failure::MasterDown),
        ("WRONGTYPE", Failure::WrongType),
        ("NOAUTH", Failure::Denied),
        ("WRONGPASS", Failure::Denied),
        ("NOPERM", Failure::Denied),
    ];
    let code = error.code().unwrap_or_default();
    if let Some((_, failure)) = CODES.iter().find(|(name, _)| *name == code) {
        return *failure;
    }
    let detail = error.detail().unwrap_or_default();
    if detail.contains("The user executing the script can't") {
        return Failure::Denied;
    }
    let words = |word: &str| detail.split(|c: char| !c.is_ascii_uppercase()).any(|w| w == word);
    CODES.iter().find(|(name, _)| words(name)).map_or(Failure::Other, |(_, failure)| *failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Failure::ALL.iter().map(|failure| failure.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Failure::ALL.len());
    }

    #[test]
    fn replies_of_redis_are_told_apart() {
        for (reply, expected) in [
            ("-OOM command not allowed when used memory > 'maxmemory'.\r\n", Failure::Oom),
            ("-LOADING Redis is loading the dataset in memory\r\n", Failure::Loading),
            ("-BUSY Redis is busy running a script. You can only call SCRIPT KILL\r\n", Failure::Busy),
            ("-READONLY You can't write against a read only replica.\r\n", Failure::ReadOnly),
            ("-MASTERDOWN Link with MASTER is down\r\n", Failure::MasterDown),
            ("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", Failure::WrongType),
            ("-NOSCRIPT No matching script. Please use EVAL.\r\n", Failure::NoScript),
            ("-NOAUTH Authentication required.\r\n", Failure::Denied),
            ("-NOPERM this user has no permissions\r\n", Failure::Denied),
            ("-CLUSTERDOWN The cluster is down\r\n", Failure::Cluster),
            ("-MOVED 3999 127.0.0.1:6381\r\n", Failure::Cluster),
            ("-ERR Error running script: @user_script:1: -OOM command not allowed\r\n", Failure::Oom),
            ("-ERR Error running script: @user_script:1: WRONGTYPE Operation\r\n", Failure::WrongType),
            ("-ERR The user executing the script can't run this command or subcommand\r\n", Failure::Denied),
            ("-ERR unknown command\r\n", Failure::Other),
        ] {
            let error =
                redis::parse_redis_value(reply.as_bytes()).and_then(redis::Value::extract_error).unwrap_err();
            assert_eq!(Failure::from(&error), expected, "{reply}");
        }
    }
}
