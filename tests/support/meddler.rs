//! A TCP relay that meddles with what passes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// What a relay does with the bytes that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// Passes them on.
    Pass,
    /// Passes them on after this time; their order stays.
    Delay(Duration),
    /// Keeps them: connections stay open and nothing comes through.
    Hold,
    /// Closes connections, those under way included.
    Cut,
}

/// A relay on a port of its own, in a thread of its own.
#[derive(Debug)]
pub struct Meddler {
    address: SocketAddr,
    meddling: Arc<watch::Sender<Meddling>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

// === impl Meddler ===

impl Meddler {
    /// A relay to `target` that passes everything on.
    pub fn start(target: SocketAddr) -> Meddler {
        let (meddling, _) = watch::channel(Meddling::Pass);
        let meddling = Arc::new(meddling);
        let (stop, stopped) = oneshot::channel();
        let (told, address) = std::sync::mpsc::channel();
        let watched = Arc::clone(&meddling);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = accept(&listener, target, &watched) => {}
                    _ = stopped => {}
                }
            });
        });
        Meddler { address: address.recv().unwrap(), meddling, stop: Some(stop), thread: Some(thread) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Does this from now on.
    pub fn set(&self, meddling: Meddling) {
        self.meddling.send_replace(meddling);
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &TcpListener, target: SocketAddr, meddling: &watch::Sender<Meddling>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let meddling = meddling.subscribe();
        tokio::spawn(async move {
            if *meddling.borrow() == Meddling::Cut {
                return;
            }
            // Nobody behind us: closing is what the target would do.
            let Ok(server) = TcpStream::connect(target).await else { return };
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            let mut cut = meddling.clone();
            tokio::select! {
                () = relay(client_read, server_write, meddling.clone()) => {}
                () = relay(server_read, client_write, meddling) => {}
                _ = cut.wait_for(|meddling| *meddling == Meddling::Cut) => {}
            }
        });
    }
}

async fn relay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut meddling: watch::Receiver<Meddling>) {
    let mut buffer = vec![0; 65_536];
    loop {
        let n = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => n,
        };
        let now = *meddling.borrow();
        match now {
            Meddling::Delay(time) => tokio::time::sleep(time).await,
            Meddling::Hold => {
                if meddling.wait_for(|meddling| *meddling != Meddling::Hold).await.is_err() {
                    return;
                }
            }
            Meddling::Pass | Meddling::Cut => {}
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
