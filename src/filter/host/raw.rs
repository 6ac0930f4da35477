//! The calls as the proxy-wasm ABI 0.2.1 declares them.
//!
//! Statuses are plain numbers here: a host may return one that the SDK's enum does not know.

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    pub(super) fn proxy_log(level: u32, message: *const u8, message_len: usize) -> u32;

    pub(super) fn proxy_get_current_time_nanoseconds(nanoseconds: *mut u64) -> u32;

    pub(super) fn proxy_set_tick_period_milliseconds(period: u32) -> u32;

    pub(super) fn proxy_get_buffer_bytes(
        kind: u32,
        start: usize,
        len_max: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;

    pub(super) fn proxy_get_header_map_value(
        map: u32,
        name: *const u8,
        name_len: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;

    pub(super) fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;

    pub(super) fn proxy_replace_header_map_value(
        map: u32,
        name: *const u8,
        name_len: usize,
        value: *const u8,
        value_len: usize,
    ) -> u32;

    pub(super) fn proxy_get_property(
        path: *const u8,
        path_len: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;

    pub(super) fn proxy_set_effective_context(context: u32) -> u32;

    pub(super) fn proxy_continue_stream(stream: u32) -> u32;

    pub(super) fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_len: usize,
        body: *const u8,
        body_len: usize,
        fields: *const u8,
        fields_len: usize,
        grpc_status: i32,
    ) -> u32;

    pub(super) fn proxy_get_shared_data(
        key: *const u8,
        key_len: usize,
        data: *mut *mut u8,
        size: *mut usize,
        version: *mut u32,
    ) -> u32;

    pub(super) fn proxy_set_shared_data(
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        version: u32,
    ) -> u32;

    pub(super) fn proxy_register_shared_queue(name: *const u8, name_len: usize, queue: *mut u32) -> u32;

    pub(super) fn proxy_enqueue_shared_queue(queue: u32, value: *const u8, value_len: usize) -> u32;

    pub(super) fn proxy_dequeue_shared_queue(queue: u32, data: *mut *mut u8, size: *mut usize) -> u32;

    pub(super) fn proxy_define_metric(kind: u32, name: *const u8, name_len: usize, id: *mut u32) -> u32;

    pub(super) fn proxy_increment_metric(id: u32, offset: i64) -> u32;

    pub(super) fn proxy_record_metric(id: u32, value: u64) -> u32;
}

#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    pub(super) fn random_get(buffer: *mut u8, len: usize) -> u32;
}
