//! A fake Envoy: runs the shipped module under an interpreter.
//!
//! It does what Envoy does where the filter could notice: several VMs with shared data and queues between them,
//! local replies that pass through the filter's own response callbacks, request headers that are gone once the
//! request went on, callouts that are answered when the test says so, and a clock that moves when the test says so.
//! Host calls are counted by name.

mod imports;
mod pairs;
mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use wasmi::{Engine, Linker, Module, Store, WasmParams, WasmResults};

pub use process::{Call, Headers, LocalReply};
use process::{Process, Stream, Vm};

/// Where the shipped module is: `SLUICEGATE_WASM`, else where `make build` leaves it.
pub fn module_path() -> PathBuf {
    std::env::var_os("SLUICEGATE_WASM").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../target/wasm32-unknown-unknown/release/sluicegate_filter.wasm")
    })
}

/// The bytes of the shipped module.
///
/// # Panics
///
/// If it has not been built.
pub fn module_bytes() -> Vec<u8> {
    let path = module_path();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make build`", path.display()))
}

/// Module and name of everything that the shipped module imports.
///
/// # Panics
///
/// If it has not been built, or is no module.
pub fn imports() -> Vec<(String, String)> {
    let module = Module::new(&Engine::default(), module_bytes()).expect("the shipped module is one");
    module.imports().map(|import| (import.module().to_owned(), import.name().to_owned())).collect()
}

/// An Envoy with workers, each with a VM of its own.
pub struct Host {
    process: Rc<Process>,
    workers: Vec<Worker>,
}

/// A request in one of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    worker: usize,
    context: u32,
}

/// Where a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The filter holds it.
    Paused,
    /// It went on to the upstream.
    Upstream,
    /// The filter answered it.
    Local(LocalReply),
}

struct Worker {
    store: Store<Vm>,
    instance: wasmi::Instance,
    root: u32,
    tick_due: BTreeMap<u32, Duration>,
}

// === impl Host ===

impl Host {
    /// An Envoy with one worker.
    ///
    /// # Panics
    ///
    /// If the configuration is refused.
    pub fn new(configuration: &str) -> Host {
        Host::with_workers(1, configuration)
    }

    /// An Envoy with so many workers.
    ///
    /// # Panics
    ///
    /// If the configuration is refused.
    pub fn with_workers(workers: usize, configuration: &str) -> Host {
        match Host::try_with_workers(workers, configuration.as_bytes()) {
            Ok(host) => host,
            Err(log) => panic!("the configuration was refused:\n{}", log.join("\n")),
        }
    }

    /// The same; a refused configuration gives the log.
    pub fn try_with_workers(workers: usize, configuration: &[u8]) -> Result<Host, Vec<String>> {
        let engine = Engine::default();
        let module = Module::new(&engine, module_bytes()).expect("a valid module");
        let process = Rc::new(Process::default());
        let mut host = Host { process: Rc::clone(&process), workers: Vec::new() };
        for worker in 0..workers {
            let mut linker = Linker::new(&engine);
            imports::define(&mut linker);
            imports::define_traps(&mut linker, &module);
            let mut store = Store::new(&engine, Vm::new(worker, Rc::clone(&process)));
            let instance = linker.instantiate_and_start(&mut store, &module).expect("all imports are known");
            host.workers.push(Worker { store, instance, root: 0, tick_due: BTreeMap::new() });
            host.call::<(), ()>(worker, 0, "_initialize", ());
            if !host.configure_worker(worker, configuration) {
                return Err(host.log());
            }
        }
        Ok(host)
    }

    /// Loads a new configuration into every worker, as a listener update does; an error leaves the old one.
    pub fn reconfigure(&mut self, configuration: &str) -> Result<(), Vec<String>> {
        let before = self.log().len();
        for worker in 0..self.workers.len() {
            if !self.configure_worker(worker, configuration.as_bytes()) {
                return Err(self.log().split_off(before));
            }
        }
        Ok(())
    }

    /// Begins a request in the first worker: `GET`, from 192.0.2.1.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> StreamId {
        self.send(0, "GET", path, headers)
    }

    /// Begins a request.
    pub fn send(&mut self, worker: usize, method: &str, path: &str, headers: &[(&str, &str)]) -> StreamId {
        let own = [(":method", method), (":path", path), (":authority", "example.com"), (":scheme", "http")];
        let headers = own.iter().chain(headers).map(|(n, v)| ((*n).into(), v.as_bytes().to_vec())).collect();
        self.send_raw(worker, headers, &[])
    }

    /// Begins a request with any header bytes and these attributes besides the usual ones.
    pub fn send_raw(&mut self, worker: usize, headers: Headers, properties: &[(&[&str], &[u8])]) -> StreamId {
        let context = self.process.next_context();
        let id = StreamId { worker, context };
        let root = self.workers[worker].root;
        let mut stream = Stream::new(headers);
        for (path, value) in properties {
            stream.properties.insert(path.join("\0"), value.to_vec());
        }
        let count = stream.request.len() as u32;
        self.vm(worker).streams.insert(context, stream);
        self.call::<_, ()>(worker, context, "proxy_on_context_create", (context, root));
        let action = self.call::<_, u32>(worker, context, "proxy_on_request_headers", (context, count, 1u32));
        if let Some(stream) = self.vm(worker).streams.get_mut(&context) {
            stream.gone_upstream |= action == 0 && stream.local.is_none();
        }
        self.finish_actions(worker);
        id
    }

    /// Sends a piece of request body; true if the filter lets it through.
    pub fn body(&mut self, id: StreamId, len: u32) -> bool {
        let action =
            self.call::<_, u32>(id.worker, id.context, "proxy_on_request_body", (id.context, len, 1u32));
        self.finish_actions(id.worker);
        action == 0
    }

    /// Where the request is.
    ///
    /// # Panics
    ///
    /// If there never was such a request, or its client left.
    pub fn fate(&self, id: StreamId) -> Fate {
        let vm = self.workers[id.worker].store.data();
        if let Some(reply) = vm.replies.get(&id.context) {
            return Fate::Local(reply.clone());
        }
        match vm.streams.get(&id.context) {
            Some(stream) if stream.gone_upstream => Fate::Upstream,
            Some(_) => Fate::Paused,
            None => panic!("no such stream"),
        }
    }

    /// The upstream answers; returns the response as the client sees it. The request ends with it.
    pub fn respond(
        &mut self,
        id: StreamId,
        status: u16,
        headers: &[(&str, &str)],
    ) -> BTreeMap<String, String> {
        assert_eq!(self.fate(id), Fate::Upstream, "only a request that went upstream can be answered");
        let mut response: Headers = vec![(":status".into(), status.to_string().into_bytes())];
        response.extend(headers.iter().map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())));
        let response = self.response_headers(id, response);
        self.end(id);
        response
    }

    /// The client leaves.
    pub fn leave(&mut self, id: StreamId) {
        self.end(id);
    }

    /// Delivers queue notifications until there are none.
    pub fn run(&mut self) {
        while let Some((worker, root, queue)) = self.process.next_notification() {
            self.call::<_, ()>(worker, root, "proxy_on_queue_ready", (root, queue));
            self.finish_actions(worker);
        }
    }

    /// Callouts that have not been answered, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.process.calls.borrow().clone()
    }

    /// Answers a callout.
    pub fn answer(&mut self, token: u32, status: u16, headers: &[(&str, &str)], body: &[u8]) {
        let mut all: Headers = vec![(":status".into(), status.to_string().into_bytes())];
        all.extend(headers.iter().map(|(name, value)| ((*name).into(), value.as_bytes().to_vec())));
        self.deliver(token, all, body);
    }

    /// Ends a callout as Envoy does when the connection breaks after response headers: no headers, no body.
    pub fn reset(&mut self, token: u32) {
        self.deliver(token, Vec::new(), b"");
    }

    /// Makes callouts to a cluster fail at once with this status (1 unknown: `BadArgument` is 2, no endpoint 10).
    pub fn refuse_calls(&mut self, cluster: &str, status: Option<u32>) {
        let mut refused = self.process.refused_clusters.borrow_mut();
        match status {
            Some(status) => refused.insert(cluster.into(), status),
            None => refused.remove(cluster),
        };
    }

    /// Moves the clock; every root context is ticked as often as it asked to be.
    pub fn advance(&mut self, by: Duration) {
        let end = self.process.now.get() + by;
        loop {
            let due = (0..self.workers.len())
                .flat_map(|w| self.workers[w].tick_due.iter().map(move |(root, due)| (*due, w, *root)))
                .filter(|(due, ..)| *due <= end)
                .min();
            let Some((due, worker, root)) = due else { break };
            self.process.now.set(due.max(self.process.now.get()));
            let period = self.vm(worker).tick_period.get(&root).copied().unwrap_or(Duration::from_secs(1));
            self.workers[worker].tick_due.insert(root, due + period);
            self.call::<_, ()>(worker, root, "proxy_on_tick", (root,));
            self.finish_actions(worker);
        }
        self.process.now.set(end);
    }

    /// Sets the system clock back, as an administrator might.
    pub fn step_back(&mut self, by: Duration) {
        let now = self.process.now.get();
        self.process.skew.set(self.process.skew.get() + by);
        assert!(now >= by, "not before the epoch");
    }

    /// Counters and gauges by name.
    pub fn metric(&self, name: &str) -> i64 {
        self.process
            .metrics
            .borrow()
            .iter()
            .find(|metric| metric.name == name)
            .map_or(0, |metric| metric.value)
    }

    /// Names of all metrics that were defined.
    pub fn metric_names(&self) -> Vec<String> {
        self.process.metrics.borrow().iter().map(|metric| metric.name.clone()).collect()
    }

    /// Everything logged so far.
    pub fn log(&self) -> Vec<String> {
        self.process.log.borrow().clone()
    }

    /// Host calls since the last time, by name.
    pub fn take_hostcalls(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut *self.process.hostcalls.borrow_mut())
    }

    /// Linear memory of a worker's VM, bytes.
    pub fn memory(&self, worker: usize) -> usize {
        let worker = &self.workers[worker];
        let memory = worker.instance.get_memory(&worker.store, "memory").expect("a memory");
        memory.data_size(&worker.store)
    }

    fn configure_worker(&mut self, worker: usize, configuration: &[u8]) -> bool {
        let root = self.process.next_context();
        let size = configuration.len() as u32;
        self.vm(worker).configuration = configuration.to_vec();
        self.vm(worker).roots.push(root);
        self.call::<_, ()>(worker, root, "proxy_on_context_create", (root, 0u32));
        let started = self.call::<_, u32>(worker, root, "proxy_on_vm_start", (root, 0u32)) != 0;
        if !started || self.call::<_, u32>(worker, root, "proxy_on_configure", (root, size)) == 0 {
            return false;
        }
        self.workers[worker].root = root;
        self.finish_actions(worker);
        true
    }

    fn deliver(&mut self, token: u32, headers: Headers, body: &[u8]) {
        let call = {
            let mut calls = self.process.calls.borrow_mut();
            let place = calls.iter().position(|call| call.token == token).expect("an open callout");
            calls.remove(place)
        };
        let vm = self.vm(call.worker);
        let sizes = (call.root, token, headers.len() as u32, body.len() as u32, 0u32);
        vm.callout_headers = headers;
        vm.callout_body = body.to_vec();
        self.call::<_, ()>(call.worker, call.root, "proxy_on_http_call_response", sizes);
        self.finish_actions(call.worker);
    }

    /// Carries out what the VM asked for, as Envoy does: after the call into the VM has returned.
    fn finish_actions(&mut self, worker: usize) {
        let periods = self.vm(worker).new_ticks.drain(..).collect::<Vec<_>>();
        for root in periods {
            let period = self.vm(worker).tick_period.get(&root).copied().unwrap_or_default();
            let due = self.process.now.get() + period;
            self.workers[worker].tick_due.insert(root, due);
        }
        while !self.vm(worker).local_replies.is_empty() {
            let (context, mut reply) = self.vm(worker).local_replies.remove(0);
            if !self.vm(worker).streams.contains_key(&context) {
                continue;
            }
            let id = StreamId { worker, context };
            let mut response: Headers = vec![(":status".into(), reply.status.to_string().into_bytes())];
            response.extend(reply.headers.iter().map(|(n, v)| (n.clone(), v.clone().into_bytes())));
            reply.headers = self.response_headers(id, response).into_iter().collect();
            self.vm(worker).replies.insert(context, reply);
            self.end(id);
        }
    }

    fn response_headers(&mut self, id: StreamId, response: Headers) -> BTreeMap<String, String> {
        let count = response.len() as u32;
        self.vm(id.worker).streams.get_mut(&id.context).expect("a stream").response = Some(response);
        self.call::<_, u32>(id.worker, id.context, "proxy_on_response_headers", (id.context, count, 1u32));
        let stream = self.vm(id.worker).streams.get_mut(&id.context).expect("a stream");
        let mut seen = BTreeMap::new();
        for (name, value) in stream.response.take().unwrap_or_default() {
            let value = String::from_utf8_lossy(&value).into_owned();
            let twice = seen.insert(name.clone(), value);
            assert!(twice.is_none(), "two values of {name}");
        }
        seen
    }

    fn end(&mut self, id: StreamId) {
        // As Envoy does: what is not exported is not called.
        if self.exports(id.worker, "proxy_on_log") {
            self.call::<_, ()>(id.worker, id.context, "proxy_on_log", (id.context,));
        }
        if self.exports(id.worker, "proxy_on_done") {
            self.call::<_, u32>(id.worker, id.context, "proxy_on_done", (id.context,));
        }
        self.call::<_, ()>(id.worker, id.context, "proxy_on_delete", (id.context,));
        self.vm(id.worker).streams.remove(&id.context);
    }

    fn vm(&mut self, worker: usize) -> &mut Vm {
        self.workers[worker].store.data_mut()
    }

    fn exports(&self, worker: usize, name: &str) -> bool {
        let Worker { store, instance, .. } = &self.workers[worker];
        instance.get_func(store, name).is_some()
    }

    /// Calls into the VM.
    ///
    /// # Panics
    ///
    /// If the VM traps: then a worker would be dead.
    fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        worker: usize,
        context: u32,
        name: &str,
        params: P,
    ) -> R {
        let Worker { store, instance, .. } = &mut self.workers[worker];
        store.data_mut().effective = 0;
        store.data_mut().current = context;
        let function = instance.get_typed_func::<P, R>(&*store, name).expect(name);
        match function.call(&mut *store, params) {
            Ok(result) => result,
            Err(trap) => panic!("the VM trapped in {name}: {trap}\n{}", self.log().join("\n")),
        }
    }
}
