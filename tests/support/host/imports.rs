//! The host calls of proxy-wasm ABI 0.2.1 that the filter may make, and WASI's entropy.
//!
//! Everything else that the module imports is linked to a function that traps, so that a test which would need it
//! fails loudly.

use std::time::Duration;

use wasmi::{Caller, Extern, ExternType, Linker, Module, Val};

use super::pairs;
use super::process::{Call, Headers, LocalReply, Metric, Queue, Vm};

const OK: u32 = 0;
const NOT_FOUND: u32 = 1;
const BAD_ARGUMENT: u32 = 2;
const EMPTY: u32 = 7;
const CAS_MISMATCH: u32 = 8;

type Env<'a> = Caller<'a, Vm>;

pub(super) fn define(linker: &mut Linker<Vm>) {
    define_basics(linker);
    define_headers(linker);
    define_streams(linker);
    define_shared(linker);
    define_metrics(linker);
}

/// Links what the SDK could call and the filter never does.
pub(super) fn define_traps(linker: &mut Linker<Vm>, module: &Module) {
    for import in module.imports() {
        let ExternType::Func(kind) = import.ty() else { continue };
        let name = format!("{}.{}", import.module(), import.name());
        let trap = move |_: Env<'_>, _: &[Val], _: &mut [Val]| {
            Err(wasmi::Error::new(format!("unexpected host call {name}")))
        };
        // Those that are defined already stay as they are.
        let _ = linker.func_new(import.module(), import.name(), kind.clone(), trap);
    }
}

fn define_basics(linker: &mut Linker<Vm>) {
    linker
        .func_wrap("env", "proxy_log", |env: Env<'_>, level: u32, data: u32, len: u32| {
            env.data().count("proxy_log");
            let line = String::from_utf8_lossy(&read(&env, data, len)).into_owned();
            let level =
                ["trace", "debug", "info", "warn", "error", "critical"].get(level as usize).unwrap_or(&"?");
            env.data().process.log.borrow_mut().push(format!("[{level}] {line}"));
            OK
        })
        .expect("proxy_log")
        .func_wrap("env", "proxy_get_log_level", |mut env: Env<'_>, to: u32| {
            env.data().count("proxy_get_log_level");
            write_u32(&mut env, to, 2);
            OK
        })
        .expect("proxy_get_log_level")
        .func_wrap("env", "proxy_get_current_time_nanoseconds", |mut env: Env<'_>, to: u32| {
            env.data().count("proxy_get_current_time_nanoseconds");
            let now = env.data().process.system_time().as_nanos() as u64;
            write(&mut env, to, &now.to_le_bytes());
            OK
        })
        .expect("proxy_get_current_time_nanoseconds")
        .func_wrap("env", "proxy_set_tick_period_milliseconds", |mut env: Env<'_>, milliseconds: u32| {
            env.data().count("proxy_set_tick_period_milliseconds");
            let vm = env.data_mut();
            let root = vm.context();
            vm.tick_period.insert(root, Duration::from_millis(milliseconds.into()));
            vm.new_ticks.push(root);
            OK
        })
        .expect("proxy_set_tick_period_milliseconds")
        .func_wrap(
            "env",
            "proxy_get_buffer_bytes",
            |mut env: Env<'_>, kind: u32, start: u32, len: u32, data: u32, size: u32| {
                env.data().count("proxy_get_buffer_bytes");
                let buffer = match kind {
                    4 => env.data().callout_body.clone(),
                    7 => env.data().configuration.clone(),
                    _ => return NOT_FOUND,
                };
                let start = start as usize;
                let end = buffer.len().min(start.saturating_add(len as usize));
                give(&mut env, buffer.get(start..end).unwrap_or_default(), data, size)
            },
        )
        .expect("proxy_get_buffer_bytes")
        .func_wrap("wasi_snapshot_preview1", "random_get", |mut env: Env<'_>, buffer: u32, len: u32| {
            env.data().count("random_get");
            let mut bytes = Vec::new();
            while bytes.len() < len as usize {
                bytes.extend_from_slice(&env.data().process.next_entropy().to_le_bytes());
            }
            write(&mut env, buffer, &bytes[..len as usize]);
            0u32
        })
        .expect("random_get");
}

fn define_headers(linker: &mut Linker<Vm>) {
    linker
        .func_wrap(
            "env",
            "proxy_get_header_map_value",
            |mut env: Env<'_>, map: u32, name: u32, len: u32, data: u32, size: u32| {
                env.data().count("proxy_get_header_map_value");
                let name = text(&env, name, len);
                let Some(headers) = headers(env.data_mut(), map) else { return BAD_ARGUMENT };
                let values: Vec<&[u8]> =
                    headers.iter().filter(|(n, _)| *n == name).map(|(_, value)| value.as_slice()).collect();
                if values.is_empty() {
                    return NOT_FOUND;
                }
                let value = values.join(&b","[..]);
                give(&mut env, &value, data, size)
            },
        )
        .expect("proxy_get_header_map_value")
        .func_wrap("env", "proxy_get_header_map_pairs", |mut env: Env<'_>, map: u32, data: u32, size: u32| {
            env.data().count("proxy_get_header_map_pairs");
            let Some(headers) = headers(env.data_mut(), map) else { return BAD_ARGUMENT };
            let bytes = pairs::encode(headers);
            give(&mut env, &bytes, data, size)
        })
        .expect("proxy_get_header_map_pairs")
        .func_wrap(
            "env",
            "proxy_replace_header_map_value",
            |mut env: Env<'_>, map: u32, name: u32, len: u32, value: u32, value_len: u32| {
                env.data().count("proxy_replace_header_map_value");
                let name = text(&env, name, len);
                let value = read(&env, value, value_len);
                let Some(headers) = headers(env.data_mut(), map) else { return BAD_ARGUMENT };
                headers.retain(|(n, _)| *n != name);
                headers.push((name, value));
                OK
            },
        )
        .expect("proxy_replace_header_map_value")
        .func_wrap(
            "env",
            "proxy_get_property",
            |mut env: Env<'_>, path: u32, len: u32, data: u32, size: u32| {
                env.data().count("proxy_get_property");
                let path = text(&env, path, len);
                match env.data_mut().stream().and_then(|stream| stream.properties.get(&path).cloned()) {
                    Some(value) => give(&mut env, &value, data, size),
                    None => NOT_FOUND,
                }
            },
        )
        .expect("proxy_get_property");
}

fn define_streams(linker: &mut Linker<Vm>) {
    linker
        .func_wrap("env", "proxy_set_effective_context", |mut env: Env<'_>, context: u32| {
            env.data().count("proxy_set_effective_context");
            let vm = env.data_mut();
            if !vm.streams.contains_key(&context) && !vm.roots.contains(&context) {
                return BAD_ARGUMENT;
            }
            vm.effective = context;
            OK
        })
        .expect("proxy_set_effective_context")
        .func_wrap("env", "proxy_continue_stream", |mut env: Env<'_>, kind: u32| {
            env.data().count("proxy_continue_stream");
            assert_eq!(kind, 0, "only requests are ever paused");
            let Some(stream) = env.data_mut().stream() else { return BAD_ARGUMENT };
            assert!(!stream.gone_upstream, "resumed twice");
            assert!(stream.local.is_none(), "resumed after a local reply");
            stream.gone_upstream = true;
            OK
        })
        .expect("proxy_continue_stream")
        .func_wrap(
            "env",
            "proxy_send_local_response",
            |mut env: Env<'_>,
             status: u32,
             details: u32,
             details_len: u32,
             body: u32,
             body_len: u32,
             fields: u32,
             fields_len: u32,
             grpc_status: i32| {
                env.data().count("proxy_send_local_response");
                let mut headers = std::collections::BTreeMap::new();
                for (name, value) in pairs::decode(&read(&env, fields, fields_len)) {
                    let twice = headers.insert(name.clone(), value);
                    assert!(twice.is_none(), "two values of {name}");
                }
                let reply = LocalReply {
                    status,
                    headers,
                    body: text(&env, body, body_len),
                    grpc_status,
                    details: text(&env, details, details_len),
                };
                let vm = env.data_mut();
                let context = vm.context();
                let Some(stream) = vm.stream() else { return BAD_ARGUMENT };
                assert!(!stream.gone_upstream, "answered after it went upstream");
                assert!(stream.local.replace(()).is_none(), "answered twice");
                vm.local_replies.push((context, reply));
                OK
            },
        )
        .expect("proxy_send_local_response")
        .func_wrap(
            "env",
            "proxy_http_call",
            |mut env: Env<'_>,
             cluster: u32,
             cluster_len: u32,
             headers: u32,
             headers_len: u32,
             body: u32,
             body_len: u32,
             _trailers: u32,
             _trailers_len: u32,
             timeout: u32,
             to: u32| {
                env.data().count("proxy_http_call");
                let cluster = text(&env, cluster, cluster_len);
                if let Some(status) = env.data().process.refused_clusters.borrow().get(&cluster) {
                    return *status;
                }
                let headers: std::collections::BTreeMap<String, String> =
                    pairs::decode(&read(&env, headers, headers_len)).into_iter().collect();
                if ![":method", ":path", ":authority"].iter().all(|name| headers.contains_key(*name)) {
                    return BAD_ARGUMENT;
                }
                let vm = env.data();
                let token = vm.process.next_token();
                let call = Call {
                    token,
                    worker: vm.worker,
                    cluster,
                    headers,
                    body: read(&env, body, body_len),
                    timeout: Duration::from_millis(timeout.into()),
                    root: vm.current,
                };
                vm.process.calls.borrow_mut().push(call);
                write_u32(&mut env, to, token);
                OK
            },
        )
        .expect("proxy_http_call");
}

fn define_shared(linker: &mut Linker<Vm>) {
    linker
        .func_wrap(
            "env",
            "proxy_get_shared_data",
            |mut env: Env<'_>, key: u32, len: u32, data: u32, size: u32, version: u32| {
                env.data().count("proxy_get_shared_data");
                let key = read(&env, key, len);
                let found = env.data().process.data.borrow().get(&key).cloned();
                let Some((value, cas)) = found else { return NOT_FOUND };
                write_u32(&mut env, version, cas);
                give(&mut env, &value, data, size)
            },
        )
        .expect("proxy_get_shared_data")
        .func_wrap(
            "env",
            "proxy_set_shared_data",
            |env: Env<'_>, key: u32, len: u32, value: u32, value_len: u32, version: u32| {
                env.data().count("proxy_set_shared_data");
                let (key, value) = (read(&env, key, len), read(&env, value, value_len));
                let mut data = env.data().process.data.borrow_mut();
                let cas = data.get(&key).map_or(0, |(_, cas)| *cas);
                if version != 0 && version != cas {
                    return CAS_MISMATCH;
                }
                data.insert(key, (value, cas + 1));
                OK
            },
        )
        .expect("proxy_set_shared_data")
        .func_wrap("env", "proxy_register_shared_queue", |mut env: Env<'_>, name: u32, len: u32, to: u32| {
            env.data().count("proxy_register_shared_queue");
            let name = read(&env, name, len);
            let reader = (env.data().worker, env.data().context());
            let queue = {
                let mut queues = env.data().process.queues.borrow_mut();
                match queues.iter().position(|queue| queue.name == name) {
                    // As in Envoy: the last one to register is the one that is woken.
                    Some(place) => {
                        queues[place].reader = reader;
                        place
                    }
                    None => {
                        queues.push(Queue { name, reader, elements: Vec::new() });
                        queues.len() - 1
                    }
                }
            };
            write_u32(&mut env, to, queue as u32 + 1);
            OK
        })
        .expect("proxy_register_shared_queue")
        .func_wrap("env", "proxy_enqueue_shared_queue", |env: Env<'_>, queue: u32, value: u32, len: u32| {
            env.data().count("proxy_enqueue_shared_queue");
            let value = read(&env, value, len);
            let process = &env.data().process;
            let mut queues = process.queues.borrow_mut();
            let Some(place) = queues.get_mut((queue as usize).wrapping_sub(1)) else { return NOT_FOUND };
            place.elements.push(value);
            let (worker, root) = place.reader;
            process.notifications.borrow_mut().push((worker, root, queue));
            OK
        })
        .expect("proxy_enqueue_shared_queue")
        .func_wrap(
            "env",
            "proxy_dequeue_shared_queue",
            |mut env: Env<'_>, queue: u32, data: u32, size: u32| {
                env.data().count("proxy_dequeue_shared_queue");
                let value = {
                    let mut queues = env.data().process.queues.borrow_mut();
                    let Some(place) = queues.get_mut((queue as usize).wrapping_sub(1)) else {
                        return NOT_FOUND;
                    };
                    if place.elements.is_empty() {
                        return EMPTY;
                    }
                    place.elements.remove(0)
                };
                give(&mut env, &value, data, size)
            },
        )
        .expect("proxy_dequeue_shared_queue");
}

fn define_metrics(linker: &mut Linker<Vm>) {
    linker
        .func_wrap(
            "env",
            "proxy_define_metric",
            |mut env: Env<'_>, kind: u32, name: u32, len: u32, to: u32| {
                env.data().count("proxy_define_metric");
                let name = text(&env, name, len);
                let id = {
                    let mut metrics = env.data().process.metrics.borrow_mut();
                    match metrics.iter().position(|metric| metric.name == name) {
                        Some(place) => place,
                        None => {
                            metrics.push(Metric { name, kind, value: 0 });
                            metrics.len() - 1
                        }
                    }
                };
                write_u32(&mut env, to, id as u32);
                OK
            },
        )
        .expect("proxy_define_metric")
        .func_wrap("env", "proxy_increment_metric", |env: Env<'_>, id: u32, offset: i64| {
            env.data().count("proxy_increment_metric");
            let mut metrics = env.data().process.metrics.borrow_mut();
            let Some(metric) = metrics.get_mut(id as usize) else { return NOT_FOUND };
            if metric.kind == 0 && offset <= 0 {
                return BAD_ARGUMENT;
            }
            metric.value += offset;
            OK
        })
        .expect("proxy_increment_metric")
        .func_wrap("env", "proxy_record_metric", |env: Env<'_>, id: u32, value: u64| {
            env.data().count("proxy_record_metric");
            let mut metrics = env.data().process.metrics.borrow_mut();
            let Some(metric) = metrics.get_mut(id as usize) else { return NOT_FOUND };
            metric.value = value as i64;
            OK
        })
        .expect("proxy_record_metric");
}

/// The header map of that number, if it can be had now.
fn headers(vm: &mut Vm, map: u32) -> Option<&mut Headers> {
    match map {
        // Once the request went on its headers are out of reach.
        0 => vm.stream().filter(|stream| !stream.gone_upstream).map(|stream| &mut stream.request),
        2 => vm.stream().and_then(|stream| stream.response.as_mut()),
        6 => Some(&mut vm.callout_headers),
        _ => None,
    }
}

/// Copies bytes into a block from the VM's allocator and tells the VM where it is.
fn give(env: &mut Env<'_>, bytes: &[u8], data: u32, size: u32) -> u32 {
    let Some(Extern::Func(malloc)) = env.get_export("malloc") else { panic!("no allocator") };
    let malloc = malloc.typed::<u32, u32>(&*env).expect("malloc");
    let address = malloc.call(&mut *env, bytes.len() as u32).expect("memory");
    write(env, address, bytes);
    write_u32(env, data, address);
    write_u32(env, size, bytes.len() as u32);
    OK
}

fn read(env: &Env<'_>, address: u32, len: u32) -> Vec<u8> {
    let Some(Extern::Memory(memory)) = env.get_export("memory") else { panic!("no memory") };
    let mut bytes = vec![0; len as usize];
    memory.read(env, address as usize, &mut bytes).expect("an address of the VM");
    bytes
}

fn text(env: &Env<'_>, address: u32, len: u32) -> String {
    String::from_utf8_lossy(&read(env, address, len)).into_owned()
}

fn write(env: &mut Env<'_>, address: u32, bytes: &[u8]) {
    let Some(Extern::Memory(memory)) = env.get_export("memory") else { panic!("no memory") };
    memory.write(env, address as usize, bytes).expect("an address of the VM");
}

fn write_u32(env: &mut Env<'_>, address: u32, value: u32) {
    write(env, address, &value.to_le_bytes());
}
