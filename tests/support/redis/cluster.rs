//! A real Redis Cluster: three masters, a replica for each.

use std::time::{Duration, Instant};

use redis::Value;

use super::{Redis, free_port};

/// How long the nodes may take to agree.
const AGREE_MAX: Duration = Duration::from_secs(20);

/// Masters, each with one replica.
const MASTERS: usize = 3;

/// After how long nodes take one that is silent for dead. A fail-over takes about twice as long.
const NODE_TIMEOUT_MS: &str = "1500";

/// Six nodes on ports of their own; the first three started as masters, the others as their replicas, in order.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
    ids: Vec<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts the nodes, with these arguments besides, and waits until all of them agree on who serves what.
    pub fn start(arguments: &[&str]) -> Cluster {
        let nodes: Vec<Redis> = (0..2 * MASTERS).map(|_| start_node(arguments)).collect();
        let ids = nodes.iter().map(|node| ask(node, &["MYID"])).collect();
        let cluster = Cluster { nodes, ids };
        for master in 0..MASTERS {
            let [from, to] = [master, master + 1].map(|n| n * 16_384 / MASTERS);
            let epoch = (master + 1).to_string();
            cluster.cluster(master, &["SET-CONFIG-EPOCH", &epoch]);
            cluster.cluster(master, &["ADDSLOTSRANGE", &from.to_string(), &(to - 1).to_string()]);
        }
        for node in cluster.nodes.iter().skip(1) {
            let bus = bus_port(node).to_string();
            cluster.cluster(0, &["MEET", "127.0.0.1", &node.port().to_string(), &bus]);
        }
        cluster.until("all know all", |cluster| {
            (0..2 * MASTERS).all(|at| cluster.info(at, "cluster_known_nodes") == "6")
        });
        for replica in MASTERS..2 * MASTERS {
            cluster.cluster(replica, &["REPLICATE", &cluster.ids[replica - MASTERS]]);
        }
        cluster.wait_ok();
        cluster.until("the replicas are in step", |cluster| {
            (MASTERS..2 * MASTERS)
                .all(|at| cluster.nodes[at].info("replication").contains("master_link_status:up"))
        });
        cluster
    }

    /// `redis+cluster://` with the three that started as masters.
    pub fn url(&self) -> String {
        let seeds: Vec<String> = self.nodes.iter().take(MASTERS).map(Redis::address).collect();
        format!("redis+cluster://{}", seeds.join(","))
    }

    /// A node.
    pub fn node(&self, at: usize) -> &Redis {
        &self.nodes[at]
    }

    /// A node, to stop it or to start it again.
    pub fn node_mut(&mut self, at: usize) -> &mut Redis {
        &mut self.nodes[at]
    }

    /// The replica that a master started with, and a replica's master.
    pub fn partner(at: usize) -> usize {
        (at + MASTERS) % (2 * MASTERS)
    }

    /// The name of a node among the others.
    pub fn id(&self, at: usize) -> &str {
        &self.ids[at]
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        let mut connection = self.nodes[0].connection();
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection).expect("a slot")
    }

    /// The node that says it is master of a slot, if any that answers does.
    pub fn master_of(&self, slot: u16) -> Option<usize> {
        let serves = |at: &usize| {
            let nodes = self.cluster_text(*at, &["NODES"]);
            let myself = nodes.lines().find(|line| line.contains("myself"));
            myself.is_some_and(|line| line.split(' ').skip(8).any(|range| holds(range, slot)))
        };
        (0..2 * MASTERS).find(serves)
    }

    /// `CLUSTER` with these arguments at a node; it has to succeed.
    pub fn cluster(&self, at: usize, arguments: &[&str]) {
        let answer: Value = redis::cmd("CLUSTER")
            .arg(arguments)
            .query(&mut self.nodes[at].connection())
            .unwrap_or_else(|error| panic!("CLUSTER {arguments:?}: {error}"));
        drop(answer);
    }

    /// Waits until every node that runs says that the cluster is well.
    pub fn wait_ok(&self) {
        self.until("the cluster is well", |cluster| {
            (0..2 * MASTERS).all(|at| matches!(cluster.info(at, "cluster_state").as_str(), "ok" | ""))
        });
    }

    /// Waits until this holds.
    pub fn until(&self, what: &str, holds: impl Fn(&Cluster) -> bool) {
        let deadline = Instant::now() + AGREE_MAX;
        while !holds(self) {
            assert!(Instant::now() < deadline, "not in time: {what}\n{}", self.cluster_text(0, &["NODES"]));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A line of `CLUSTER INFO`; empty when the node does not answer.
    pub fn info(&self, at: usize, name: &str) -> String {
        let text = self.cluster_text(at, &["INFO"]);
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().to_owned()
    }

    fn cluster_text(&self, at: usize, arguments: &[&str]) -> String {
        let Ok(mut connection) = super::connect(self.nodes[at].port()) else { return String::new() };
        redis::cmd("CLUSTER").arg(arguments).query(&mut connection).unwrap_or_default()
    }
}

fn start_node(arguments: &[&str]) -> Redis {
    let bus = free_port().to_string();
    let mut all =
        vec!["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", NODE_TIMEOUT_MS];
    // One master without a replica left must not take the others' slots with it.
    all.extend(["--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"]);
    all.extend(["--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no"]);
    all.extend(arguments);
    Redis::start(&all)
}

fn bus_port(node: &Redis) -> u16 {
    let (_, port): (String, u16) = redis::cmd("CONFIG")
        .arg("GET")
        .arg("cluster-port")
        .query(&mut node.connection())
        .expect("a bus port");
    port
}

fn ask(node: &Redis, arguments: &[&str]) -> String {
    redis::cmd("CLUSTER").arg(arguments).query(&mut node.connection()).expect("an answer")
}

/// Whether a range as in `CLUSTER NODES` holds a slot.
fn holds(range: &str, slot: u16) -> bool {
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    matches!((from.parse::<u16>(), to.parse::<u16>()), (Ok(from), Ok(to)) if (from..=to).contains(&slot))
}
