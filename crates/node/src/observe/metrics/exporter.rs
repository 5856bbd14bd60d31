//! The HTTP endpoint `/metrics`.
//!
//! A scrape is one short request from a trusted network, so a minimal HTTP/1.1 server is enough. It reads the
//! request's head, responds, and closes the connection.

use super::{PodsByPciAddress, RdmaCounterCollector, list_sandboxes};
use crate::{
    Error,
    caches::{PodOwner, WatchCache},
    error::error_chain,
    kubelet::read_checkpoint,
};
use ferroband_daemon::{catch_panic, render_loop_metrics};
use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How long one request may take, including the response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEAD_BYTES: usize = 8192;
const MAX_CONCURRENT_SCRAPES: usize = 4;

#[derive(Clone)]
pub struct MetricsExporter {
    pub counters: RdmaCounterCollector,
    /// The kubelet's device plugin directory, which contains its device checkpoint file.
    pub device_plugins_dir: PathBuf,
    pub pods: Arc<WatchCache<PodOwner>>,
}

impl MetricsExporter {
    /// Serves metrics on `address` until `stop` is cancelled. If the port is in use, binding is retried,
    /// because missing metrics must not stop the daemon.
    pub async fn serve(self, address: SocketAddr, stop: CancellationToken) -> Result<(), Error> {
        let serving = async {
            let listener = loop {
                match TcpListener::bind(address).await {
                    Ok(listener) => break listener,
                    Err(e) => warn!(%address, error = %e, "cannot serve metrics, retrying"),
                }
                sleep(CLIENT_TIMEOUT).await;
            };
            info!(address = ?listener.local_addr().ok(), "serving metrics");
            self.accept_connections(listener).await;
        };
        stop.run_until_cancelled(serving).await;
        Ok(())
    }

    /// Accepts connections and serves one scrape on each. Never returns.
    pub async fn accept_connections(self, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(MAX_CONCURRENT_SCRAPES));
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let exporter = self.clone();
                    tokio::spawn(async move {
                        match timeout(CLIENT_TIMEOUT, exporter.respond(stream)).await {
                            Ok(Err(e)) => debug!(error = %error_chain(&e), "metrics request failed"),
                            Err(_) => debug!("metrics request timed out"),
                            Ok(Ok(())) => {}
                        }
                        drop(permit);
                    });
                }
                Err(e) => {
                    warn!(error = %e, "cannot accept a metrics connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn respond(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if head.len() > MAX_HEAD_BYTES || stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (status, body) = match (method, path.split('?').next()) {
            ("GET" | "HEAD", Some("/metrics")) => ("200 OK", self.render_page().await),
            ("GET" | "HEAD", _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
            _ => ("405 Method Not Allowed", "only GET is allowed\n".to_owned()),
        };
        let length = body.len();
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        if method != "HEAD" {
            stream.write_all(body.as_bytes()).await?;
        }
        stream.shutdown().await
    }

    async fn render_page(&self) -> String {
        let exporter = self.clone();
        let render = move || {
            let held_devices = read_checkpoint(&exporter.device_plugins_dir).unwrap_or_default();
            let holders = PodsByPciAddress::from_checkpoint(&held_devices, &exporter.pods);
            let sandboxes = list_sandboxes(exporter.counters.hardware.root(), &exporter.pods);
            exporter.counters.collect(&holders, &sandboxes).render() + &render_loop_metrics()
        };
        match spawn_blocking(move || catch_panic(render)).await {
            Ok(Ok(page)) => page,
            Ok(Err(panic)) => {
                warn!(error = %panic, "metrics request failed");
                String::new()
            }
            Err(_) => String::new(),
        }
    }
}
