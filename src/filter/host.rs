//! Everything the proxy offers; the only file that names hostcalls.
//!
//! The SDK's wrappers panic on a status they do not expect, and a panic kills the VM together with every request
//! that waits in it. So the calls are made here directly, and every status but "ok" becomes an error. Header values
//! are bytes: they need not be UTF-8.

use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, LogLevel, MapType, MetricType, StreamType};

mod headers;
mod raw;

pub(crate) use headers::HeaderMap;

/// A call that the host did not carry out, with its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) u32);

type Result<T> = std::result::Result<T, Refused>;

// === Time, entropy, log ===

/// The system clock, microseconds since the epoch; 0 if the host has none.
pub(crate) fn system_us() -> u64 {
    let mut nanoseconds = 0;
    // SAFETY: the host writes one u64 to the address.
    let status = unsafe { raw::proxy_get_current_time_nanoseconds(&mut nanoseconds) };
    check(status).map_or(0, |()| nanoseconds / 1_000)
}

/// Fills the buffer from the proxy's entropy.
#[cfg(target_arch = "wasm32")]
pub(crate) fn fill_random(buffer: &mut [u8]) -> std::result::Result<(), getrandom::Error> {
    // SAFETY: the host writes `len` bytes to the address.
    match unsafe { raw::random_get(buffer.as_mut_ptr(), buffer.len()) } {
        0 => Ok(()),
        _ => Err(getrandom::Error::UNSUPPORTED),
    }
}

/// Sends log records and panics to the proxy's log.
pub(crate) fn install_logger() {
    // Fails only when a logger is installed already, and then there is nothing to do.
    if log::set_logger(&Logger).is_ok() {
        log::set_max_level(log::LevelFilter::Info);
        std::panic::set_hook(Box::new(|panic| write_log(LogLevel::Critical, &panic.to_string())));
    }
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = match record.level() {
                log::Level::Trace => LogLevel::Trace,
                log::Level::Debug => LogLevel::Debug,
                log::Level::Info => LogLevel::Info,
                log::Level::Warn => LogLevel::Warn,
                log::Level::Error => LogLevel::Error,
            };
            write_log(level, &format!("sluicegate: {}", record.args()));
        }
    }

    fn flush(&self) {}
}

fn write_log(level: LogLevel, message: &str) {
    // SAFETY: the host reads the message. A log that cannot be written is nobody's business.
    unsafe { raw::proxy_log(level as u32, message.as_ptr(), message.len()) };
}

// === Configuration and buffers ===

/// The plugin's configuration; empty when there is none.
pub(crate) fn plugin_configuration() -> Vec<u8> {
    buffer(BufferType::PluginConfiguration)
}

/// The body of the callout response that is being delivered.
pub(crate) fn callout_body() -> Vec<u8> {
    buffer(BufferType::HttpCallResponseBody)
}

fn buffer(kind: BufferType) -> Vec<u8> {
    // SAFETY: the host writes an address and a length of a block from our allocator.
    let read = returned(|data, size| unsafe {
        raw::proxy_get_buffer_bytes(kind as u32, 0, usize::MAX >> 1, data, size)
    });
    read.unwrap_or_default()
}

// === Headers and properties ===

/// All request headers, in one call: cheaper than two by name, since the host has to enter our allocator for each.
pub(crate) fn request_headers() -> HeaderMap {
    headers(MapType::HttpRequestHeaders)
}

/// All response headers.
pub(crate) fn response_headers() -> HeaderMap {
    headers(MapType::HttpResponseHeaders)
}

/// A header of the callout response that is being delivered.
pub(crate) fn callout_header(name: &str) -> Option<Vec<u8>> {
    header(MapType::HttpCallResponseHeaders, name)
}

/// Gives a response header this one value, whatever it had.
pub(crate) fn set_response_header(name: &str, value: &[u8]) -> Result<()> {
    let map = MapType::HttpResponseHeaders as u32;
    // SAFETY: the host reads name and value.
    check(unsafe {
        raw::proxy_replace_header_map_value(map, name.as_ptr(), name.len(), value.as_ptr(), value.len())
    })
}

/// An attribute by path.
pub(crate) fn property(path: &[&str]) -> Option<Vec<u8>> {
    let path = path.join("\0");
    // SAFETY: the host reads the path, and writes an address and a length of a block from our allocator.
    returned(|data, size| unsafe { raw::proxy_get_property(path.as_ptr(), path.len(), data, size) }).ok()
}

fn headers(map: MapType) -> HeaderMap {
    // SAFETY: the host writes an address and a length of a block from our allocator.
    HeaderMap(
        returned(|data, size| unsafe { raw::proxy_get_header_map_pairs(map as u32, data, size) })
            .unwrap_or_default(),
    )
}

fn header(map: MapType, name: &str) -> Option<Vec<u8>> {
    // SAFETY: the host reads the name, and writes an address and a length of a block from our allocator.
    returned(|data, size| unsafe {
        raw::proxy_get_header_map_value(map as u32, name.as_ptr(), name.len(), data, size)
    })
    .ok()
}

// === Streams ===

/// Makes the following calls concern this stream; an error when it is gone.
pub(crate) fn enter(stream: u32) -> Result<()> {
    // SAFETY: no memory is shared.
    check(unsafe { raw::proxy_set_effective_context(stream) })
}

/// Lets the request of the entered stream go on. Its headers are gone from here on.
pub(crate) fn resume_request() -> Result<()> {
    // SAFETY: no memory is shared.
    check(unsafe { raw::proxy_continue_stream(StreamType::HttpRequest as u32) })
}

/// Answers the request of the current or entered stream.
pub(crate) fn respond<'a>(
    status: u32,
    details: &str,
    fields: impl ExactSizeIterator<Item = (&'a str, &'a [u8])> + Clone,
    body: &str,
    grpc_status: Option<u8>,
) -> Result<()> {
    let fields = pairs(fields);
    // SAFETY: the host reads details, body and fields.
    check(unsafe {
        raw::proxy_send_local_response(
            status,
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            fields.as_ptr(),
            fields.len(),
            grpc_status.map_or(-1, i32::from),
        )
    })
}

// === Callouts, ticks ===

/// Sends a request to a cluster; its response comes to the active context under the returned token.
///
/// The one SDK wrapper in use: only it can tell the SDK's dispatcher to whom the response belongs. The host answers
/// "bad argument" (no such cluster) or "internal failure" (no endpoint), which the wrapper returns as errors.
pub(crate) fn call(cluster: &str, headers: &[(&str, &str)], body: &[u8], timeout: Duration) -> Result<u32> {
    let body = (!body.is_empty()).then_some(body);
    hostcalls::dispatch_http_call(cluster, headers.to_vec(), body, Vec::new(), timeout)
        .map_err(|status| Refused(status as u32))
}

/// Asks for a tick every so often.
pub(crate) fn set_tick(period: Duration) -> Result<()> {
    let milliseconds = u32::try_from(period.as_millis()).unwrap_or(u32::MAX);
    // SAFETY: no memory is shared.
    check(unsafe { raw::proxy_set_tick_period_milliseconds(milliseconds) })
}

// === Shared data and queues ===

/// A shared value and its version; `None` when it was never written.
pub(crate) fn shared(key: &str) -> Option<(Vec<u8>, u32)> {
    let mut version = 0;
    // SAFETY: the host reads the key, and writes an address and a length of a block from our allocator.
    let value = returned(|data, size| unsafe {
        raw::proxy_get_shared_data(key.as_ptr(), key.len(), data, size, &mut version)
    });
    value.ok().map(|value| (value, version))
}

/// Writes a shared value, if it still has this version; without one, always.
pub(crate) fn set_shared(key: &str, value: &[u8], version: Option<u32>) -> Result<()> {
    // SAFETY: the host reads key and value.
    check(unsafe {
        raw::proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), version.unwrap_or(0))
    })
}

/// Makes this context the reader of a queue.
pub(crate) fn register_queue(name: &str) -> Result<u32> {
    let mut queue = 0;
    // SAFETY: the host reads the name and writes one u32.
    check(unsafe { raw::proxy_register_shared_queue(name.as_ptr(), name.len(), &mut queue) })?;
    Ok(queue)
}

/// Adds an element, which wakes the reader.
pub(crate) fn enqueue(queue: u32, value: &[u8]) -> Result<()> {
    // SAFETY: the host reads the value.
    check(unsafe { raw::proxy_enqueue_shared_queue(queue, value.as_ptr(), value.len()) })
}

/// Takes the oldest element; an error when there is none.
pub(crate) fn dequeue(queue: u32) -> Result<Vec<u8>> {
    // SAFETY: the host writes an address and a length of a block from our allocator.
    returned(|data, size| unsafe { raw::proxy_dequeue_shared_queue(queue, data, size) })
}

// === Metrics ===

/// A metric; the same name is the same metric in every VM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric(u32);

/// The counter of this name.
pub(crate) fn counter(name: &str) -> Result<Metric> {
    define(MetricType::Counter, name)
}

/// The gauge of this name.
pub(crate) fn gauge(name: &str) -> Result<Metric> {
    define(MetricType::Gauge, name)
}

/// The histogram of this name.
pub(crate) fn histogram(name: &str) -> Result<Metric> {
    define(MetricType::Histogram, name)
}

impl Metric {
    /// Adds to a counter or a gauge.
    pub(crate) fn add(self, amount: i64) -> Result<()> {
        // SAFETY: no memory is shared.
        check(unsafe { raw::proxy_increment_metric(self.0, amount) })
    }

    /// Sets a gauge, or records a value in a histogram.
    pub(crate) fn record(self, value: u64) -> Result<()> {
        // SAFETY: no memory is shared.
        check(unsafe { raw::proxy_record_metric(self.0, value) })
    }
}

fn define(kind: MetricType, name: &str) -> Result<Metric> {
    let mut id = 0;
    // SAFETY: the host reads the name and writes one u32.
    check(unsafe { raw::proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &mut id) })?;
    Ok(Metric(id))
}

// === Marshalling ===

fn check(status: u32) -> Result<()> {
    match status {
        0 => Ok(()),
        status => Err(Refused(status)),
    }
}

/// Calls the host, which writes where a block is that it got from our allocator, and takes that block over.
fn returned(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Vec<u8>> {
    let mut data: *mut u8 = std::ptr::null_mut();
    let mut size: usize = 0;
    check(call(&mut data, &mut size))?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the SDK's exported allocator hands out boxed slices of exactly `size` bytes.
    Ok(unsafe { Vec::from_raw_parts(data, size, size) })
}

/// The ABI's encoding of a header map: count, lengths, then names and values with a final zero each.
fn pairs<'a>(pairs: impl ExactSizeIterator<Item = (&'a str, &'a [u8])> + Clone) -> Vec<u8> {
    let len = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(&len(pairs.len()));
    for (name, value) in pairs.clone() {
        bytes.extend_from_slice(&len(name.len()));
        bytes.extend_from_slice(&len(value.len()));
    }
    for text in pairs.flat_map(|(name, value)| [name.as_bytes(), value]) {
        bytes.extend_from_slice(text);
        bytes.push(0);
    }
    bytes
}
