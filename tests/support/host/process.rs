//! What the workers of a fake Envoy share, and what each VM has.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Header fields in order; values are bytes.
pub type Headers = Vec<(String, Vec<u8>)>;

/// An HTTP callout that the filter dispatched.
#[derive(Clone, Debug)]
pub struct Call {
    /// Names it towards [`super::Host::answer`].
    pub token: u32,
    /// The worker it came from.
    pub worker: usize,
    /// Envoy cluster.
    pub cluster: String,
    /// Request headers.
    pub headers: BTreeMap<String, String>,
    /// Request body.
    pub body: Vec<u8>,
    /// The timeout given to Envoy.
    pub timeout: Duration,
    pub(super) root: u32,
}

/// An answer that the filter gave itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalReply {
    /// HTTP status.
    pub status: u32,
    /// Fields as the client sees them, `:status` included.
    pub headers: BTreeMap<String, String>,
    /// Body.
    pub body: String,
    /// gRPC status; -1 for none.
    pub grpc_status: i32,
    /// `RESPONSE_CODE_DETAILS`.
    pub details: String,
}

#[derive(Debug, Default)]
pub(super) struct Process {
    /// Since the fake epoch, which is that of the real one.
    pub(super) now: Cell<Duration>,
    /// How far the system clock has been set back.
    pub(super) skew: Cell<Duration>,
    pub(super) data: RefCell<BTreeMap<Vec<u8>, Versioned>>,
    pub(super) queues: RefCell<Vec<Queue>>,
    pub(super) notifications: RefCell<Vec<(usize, u32, u32)>>,
    pub(super) metrics: RefCell<Vec<Metric>>,
    pub(super) calls: RefCell<Vec<Call>>,
    pub(super) refused_clusters: RefCell<BTreeMap<String, u32>>,
    pub(super) log: RefCell<Vec<String>>,
    pub(super) hostcalls: RefCell<BTreeMap<&'static str, u64>>,
    contexts: Cell<u32>,
    tokens: Cell<u32>,
    entropy: Cell<u64>,
}

/// A shared value and its version.
pub(super) type Versioned = (Vec<u8>, u32);

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Vec<u8>,
    pub(super) reader: (usize, u32),
    pub(super) elements: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) value: i64,
}

/// One VM: the store's data.
#[derive(Debug)]
pub(super) struct Vm {
    pub(super) worker: usize,
    pub(super) process: Rc<Process>,
    pub(super) configuration: Vec<u8>,
    pub(super) roots: Vec<u32>,
    pub(super) streams: BTreeMap<u32, Stream>,
    /// The context that the VM was called for.
    pub(super) current: u32,
    /// The context that calls concern instead; 0 for none.
    pub(super) effective: u32,
    pub(super) tick_period: BTreeMap<u32, Duration>,
    pub(super) new_ticks: Vec<u32>,
    pub(super) local_replies: Vec<(u32, LocalReply)>,
    /// Answers of requests that have ended.
    pub(super) replies: BTreeMap<u32, LocalReply>,
    pub(super) callout_headers: Headers,
    pub(super) callout_body: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) request: Headers,
    pub(super) properties: BTreeMap<String, Vec<u8>>,
    pub(super) gone_upstream: bool,
    /// There from the response on.
    pub(super) response: Option<Headers>,
    pub(super) local: Option<()>,
}

// === impl Process ===

impl Process {
    pub(super) fn next_context(&self) -> u32 {
        self.contexts.set(self.contexts.get() + 1);
        self.contexts.get()
    }

    pub(super) fn next_token(&self) -> u32 {
        self.tokens.set(self.tokens.get() + 1);
        self.tokens.get()
    }

    /// Not random at all, so that tests repeat; different at each call.
    pub(super) fn next_entropy(&self) -> u64 {
        let next = self.entropy.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.entropy.set(next);
        next.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    pub(super) fn next_notification(&self) -> Option<(usize, u32, u32)> {
        let mut notifications = self.notifications.borrow_mut();
        (!notifications.is_empty()).then(|| notifications.remove(0))
    }

    pub(super) fn system_time(&self) -> Duration {
        EPOCH + self.now.get() - self.skew.get()
    }
}

/// When tests begin: the time of day matters to aligned windows only.
const EPOCH: Duration = Duration::from_secs(1_800_000_000);

// === impl Vm ===

impl Vm {
    pub(super) fn new(worker: usize, process: Rc<Process>) -> Self {
        Vm {
            worker,
            process,
            configuration: Vec::new(),
            roots: Vec::new(),
            streams: BTreeMap::new(),
            current: 0,
            effective: 0,
            tick_period: BTreeMap::new(),
            new_ticks: Vec::new(),
            local_replies: Vec::new(),
            replies: BTreeMap::new(),
            callout_headers: Vec::new(),
            callout_body: Vec::new(),
        }
    }

    /// The context that a call concerns.
    pub(super) fn context(&self) -> u32 {
        if self.effective != 0 { self.effective } else { self.current }
    }

    pub(super) fn stream(&mut self) -> Option<&mut Stream> {
        let context = self.context();
        self.streams.get_mut(&context)
    }

    pub(super) fn count(&self, name: &'static str) {
        *self.process.hostcalls.borrow_mut().entry(name).or_default() += 1;
    }
}

// === impl Stream ===

impl Stream {
    pub(super) fn new(request: Headers) -> Self {
        let mut properties = BTreeMap::new();
        properties.insert("source\0address".into(), b"192.0.2.1:40000".to_vec());
        properties.insert("xds\0cluster_name".into(), b"web".to_vec());
        properties.insert("xds\0route_name".into(), b"default".to_vec());
        Stream { request, properties, gone_upstream: false, response: None, local: None }
    }
}
