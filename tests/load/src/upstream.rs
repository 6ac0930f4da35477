//! The sample upstream: a service that can do so much at once, and no more.

mod app;
mod burn;
mod control;
pub(crate) mod count;
mod law;
mod queue;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use hyper::header::HeaderName;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use crate::signal;
use app::App;
use burn::Burner;
use control::Settings;
use law::Law;

/// HTTP/1.1 and HTTP/2 without TLS. Paths of its own: `/healthz`, `/_stats`, `POST /_control?service_ms=40`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; port 0 picks one.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Requests served at once; the others wait in one FIFO queue.
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Mean service time, milliseconds.
    #[arg(long, default_value_t = 20.0)]
    service_ms: f64,
    /// How service times scatter.
    #[arg(long, value_enum, default_value_t = Law::Exp)]
    law: Law,
    /// Burn processor time instead of waiting.
    #[arg(long)]
    burn: bool,
    /// Response header that tells what a request cost; `?cost=N` sets it for one request.
    #[arg(long)]
    cost_header: Option<HeaderName>,
    /// Cost told where a request names none.
    #[arg(long, default_value_t = 1)]
    cost: u64,
    /// Seed of the service times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Serves until the process is told to stop.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let settings = Settings {
        concurrency: args.concurrency.clamp(1, 100_000),
        service_ms: args.service_ms.clamp(0.0, 60_000.0),
        law: args.law,
        cost: args.cost,
    };
    let burner = args.burn.then(Burner::calibrate);
    let app = App::new(settings, args.seed, burner, args.cost_header)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(serve(args.listen, Arc::new(app)))
}

async fn serve(listen: SocketAddr, app: Arc<App>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    println!("sample upstream listens on {}", listener.local_addr()?);
    tokio::select! {
        accepted = accept(&listener, app) => accepted,
        stopped = signal::stopped() => stopped,
    }
}

async fn accept(listener: &TcpListener, app: Arc<App>) -> anyhow::Result<()> {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, or a caller that is gone already: neither is for ever.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        stream.set_nodelay(true)?;
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let app = Arc::clone(&app);
                async move { Ok::<_, Infallible>(app.answer(request).await) }
            });
            // A caller that breaks off is its own affair, and counted as abandoned.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
