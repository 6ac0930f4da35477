//! Runs a plan.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::client::Clients;
use super::plan::Plan;
use super::record::Record;
use super::transport::Connections;
use crate::timer::Timer;

/// Time between the first connection and the first arrival.
const LEAD_IN: Duration = Duration::from_millis(100);

/// A plan that is about to run.
#[derive(Debug)]
pub(crate) struct Drive {
    clients: Arc<Clients>,
}

// === impl Drive ===

impl Drive {
    /// Opens the connections; the first arrival is due a tenth of a second later.
    ///
    /// # Errors
    ///
    /// The gateway cannot be reached.
    pub(crate) async fn prepare(address: SocketAddr, plan: Plan) -> anyhow::Result<Drive> {
        let connections = Connections::open(address, plan.transport).await?;
        let timer = Timer::start()?;
        let start = Instant::now() + LEAD_IN;
        Ok(Drive { clients: Arc::new(Clients { plan, connections, timer, start }) })
    }

    /// Time 0 of the records.
    pub(crate) fn start(&self) -> Instant {
        self.clients.start
    }

    /// Sends every arrival at its time, whatever became of those before: the loop is open. `seen` is shown every
    /// record as it comes in. Returns all records in the order in which they were due.
    pub(crate) async fn run(self, mut seen: impl FnMut(&Record)) -> Vec<Record> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let clients = Arc::clone(&self.clients);
        let dispatcher = tokio::spawn(async move {
            for arrival in clients.plan.arrivals() {
                let due = clients.start + Duration::from_micros(arrival.at_us);
                clients.timer.sleep_until(due).await;
                tokio::spawn(Arc::clone(&clients).visit(arrival, sender.clone()));
            }
        });
        let mut records = Vec::new();
        while let Some(record) = receiver.recv().await {
            seen(&record);
            records.push(record);
        }
        // The channel is closed, so the dispatcher is done.
        let _ = dispatcher.await;
        records.sort_by_key(|record| record.due_us);
        records
    }
}
