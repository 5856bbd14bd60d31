//! The listening socket.

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

/// Calls at once. More wait in the socket's queue: a node that boots starts all its pods at the same time.
const MAX_CONCURRENT_CALLS: usize = 128;

/// The socket, and the thread that accepts on it.
pub struct CniSocket {
    listener: Arc<UnixListener>,
    running: CallLimiter,
}

impl CniSocket {
    /// Serve calls on the socket at `path`, with `decider` for the answers.
    pub fn open(path: &Path, decider: Arc<CniHandler>, runtime: Handle) -> Result<Self, Error> {
        let listener = Arc::new(bind(path)?);
        let running = CallLimiter::new(MAX_CONCURRENT_CALLS);
        let thread = thread::Builder::new().name("cni-accept".to_owned()).spawn({
            let (listener, running) = (listener.clone(), running.clone());
            move || accept_calls(&listener, &running, &decider, &runtime)
        });
        thread.map_err(|e| Error::Task { task: "accepting CNI calls", source: Some(Box::new(e)) })?;
        info!(socket = %path.display(), "serving CNI calls");
        Ok(Self { listener, running })
    }

    /// Take no more calls. Those that run go on.
    pub fn close(&self) -> CallLimiter {
        // Makes accept(2) return EINVAL (unix_accept: no skb and no error means that receiving was shut down).
        if let Err(errno) = shutdown(self.listener.as_raw_fd(), Shutdown::Both) {
            warn!(%errno, "cannot shut the CNI socket down");
        }
        self.running.clone()
    }
}

/// A new socket takes the place of the old one in one step, closed to others from its first moment.
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

fn accept_calls(listener: &UnixListener, running: &CallLimiter, decider: &Arc<CniHandler>, runtime: &Handle) {
    loop {
        // Room first: a call that is not accepted keeps waiting, and one that cannot be served is not taken.
        let call = running.acquire();
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == ErrorKind::InvalidInput => return debug!("the CNI socket is closed"),
            Err(e) => {
                warn!(error = %e, "cannot accept a CNI call");
                // Out of descriptors, most likely; it would fail at once again.
                thread::sleep(std::time::Duration::from_millis(100));
                continue;
            }
        };
        let (decider, runtime) = (decider.clone(), runtime.clone());
        let served =
            thread::Builder::new().name("cni-call".to_owned()).stack_size(512 << 10).spawn(move || {
                let _call = call;
                conversation::serve_connection(Channel::from(stream), &decider, &runtime);
            });
        if let Err(e) = served {
            warn!(error = %e, "cannot start a thread for a CNI call");
        }
    }
}
