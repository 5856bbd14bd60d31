//! The listening CNI socket.

use super::{CallLimiter, CniHandler, conversation};
use crate::Error;
use ferroband_attach::socket::Channel;
use nix::sys::socket::{Shutdown, shutdown};
use std::{
    fs::{self, Permissions},
    io::ErrorKind,
    os::{
        fd::AsRawFd,
        unix::{fs::PermissionsExt, net::UnixListener},
    },
    path::Path,
    sync::Arc,
    thread,
};
use tokio::runtime::Handle;
use tracing::{debug, info, warn};

/// Maximum number of concurrent calls. Further calls wait in the socket's backlog: a booting node starts all its pods
/// at once.
const MAX_CONCURRENT_CALLS: usize = 128;

pub struct CniSocket {
    listener: Arc<UnixListener>,
    limiter: CallLimiter,
}

impl CniSocket {
    /// Serves CNI calls on the socket at `path`.
    pub fn open(path: &Path, handler: Arc<CniHandler>, runtime: Handle) -> Result<Self, Error> {
        let listener = Arc::new(bind(path)?);
        let limiter = CallLimiter::new(MAX_CONCURRENT_CALLS);
        let thread = thread::Builder::new().name("cni-accept".to_owned()).spawn({
            let (listener, limiter) = (listener.clone(), limiter.clone());
            move || accept_calls(&listener, &limiter, &handler, &runtime)
        });
        thread.map_err(|e| Error::Task { task: "CNI accept thread", source: Some(Box::new(e)) })?;
        info!(socket = %path.display(), "serving CNI calls");
        Ok(Self { listener, limiter })
    }

    /// Stops accepting calls. Running calls continue.
    pub fn close(&self) -> CallLimiter {
        // Makes accept(2) return EINVAL (unix_accept: no skb and no error means that receiving was shut down).
        if let Err(errno) = shutdown(self.listener.as_raw_fd(), Shutdown::Both) {
            warn!(%errno, "cannot shut the CNI socket down");
        }
        self.limiter.clone()
    }
}

/// Atomically replaces the old socket. The new one is private before it gets its final name.
fn bind(path: &Path) -> Result<UnixListener, Error> {
    let failed = |source: std::io::Error| Error::Serve { path: path.to_owned(), source: Box::new(source) };
    let temporary = path.with_extension("new");
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = UnixListener::bind(&temporary).map_err(failed)?;
    fs::set_permissions(&temporary, Permissions::from_mode(0o600)).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    Ok(listener)
}

fn accept_calls(listener: &UnixListener, limiter: &CallLimiter, handler: &Arc<CniHandler>, runtime: &Handle) {
    loop {
        // Acquire a slot first: a call that is not accepted keeps waiting in the backlog.
        let call = limiter.acquire();
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == ErrorKind::InvalidInput => return debug!("CNI socket closed"),
            Err(e) => {
                warn!(error = %e, "cannot accept a CNI call");
                // Probably out of file descriptors; accepting again at once would fail, too.
                thread::sleep(std::time::Duration::from_millis(100));
                continue;
            }
        };
        let (handler, runtime) = (handler.clone(), runtime.clone());
        let served =
            thread::Builder::new().name("cni-call".to_owned()).stack_size(512 << 10).spawn(move || {
                let _call = call;
                conversation::serve_connection(Channel::from(stream), &handler, &runtime);
            });
        if let Err(e) = served {
            warn!(error = %e, "cannot start a thread for a CNI call");
        }
    }
}
