//! Listens on the CNI socket and starts a thread for each call, up to a limit.

use super::{CniHandler, connection};
use crate::Error;
use ferroband_attach::socket::Channel;
use ferroband_daemon::catch_panic;
use ferroband_kernel::files::remove_file;
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
    time::Duration,
};
use tokio::{runtime::Handle, sync::Semaphore, time::timeout};
use tracing::{debug, error, info, warn};

/// Maximum number of concurrent calls. Further calls wait in the socket's backlog, for example when a booting
/// node starts all its pods at once.
const MAX_CONCURRENT_CALLS: usize = 128;

pub struct CniSocket {
    listener: Arc<UnixListener>,
    /// One permit per call that may run.
    slots: Arc<Semaphore>,
}

impl CniSocket {
    /// Creates the socket at `path` and starts a thread that serves CNI calls on it.
    pub fn open(path: &Path, handler: Arc<CniHandler>, runtime: Handle) -> Result<Self, Error> {
        let listener = Arc::new(bind(path)?);
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
        let thread = thread::Builder::new().name("cni-accept".to_owned()).spawn({
            let (listener, slots) = (listener.clone(), slots.clone());
            move || accept_calls(&listener, &slots, &handler, &runtime)
        });
        thread.map_err(|e| Error::Task { task: "CNI accept thread", source: Some(Box::new(e)) })?;
        info!(socket = %path.display(), "serving CNI calls");
        Ok(Self { listener, slots })
    }

    /// Stops accepting calls. Running calls continue.
    pub fn close(&self) {
        // The shutdown makes accept(2) in the accept thread return EINVAL.
        if let Err(errno) = shutdown(self.listener.as_raw_fd(), Shutdown::Both) {
            warn!(%errno, "cannot shut the CNI socket down");
        }
    }

    /// Waits until no call is running. Returns `false` if that takes longer than `patience`.
    pub async fn wait_idle(&self, patience: Duration) -> bool {
        timeout(patience, self.slots.acquire_many(MAX_CONCURRENT_CALLS as u32)).await.is_ok()
    }
}

/// Creates the socket and atomically replaces an old one. The new socket has mode 0600 before it gets its
/// final name.
fn bind(path: &Path) -> Result<UnixListener, Error> {
    let failed = |source: std::io::Error| Error::Serve { path: path.to_owned(), source: Box::new(source) };
    let temporary = path.with_extension("new");
    remove_file(&temporary).map_err(failed)?;
    let listener = UnixListener::bind(&temporary).map_err(failed)?;
    fs::set_permissions(&temporary, Permissions::from_mode(0o600)).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    Ok(listener)
}

fn accept_calls(
    listener: &UnixListener,
    slots: &Arc<Semaphore>,
    handler: &Arc<CniHandler>,
    runtime: &Handle,
) {
    loop {
        // Acquire a slot before accepting a connection, so that further calls wait in the socket's backlog.
        let slot = runtime.block_on(slots.clone().acquire_owned());
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == ErrorKind::InvalidInput => return debug!("CNI socket closed"),
            Err(e) => {
                warn!(error = %e, "cannot accept a CNI call");
                // The process is probably out of file descriptors. Wait, because an immediate retry would
                // fail, too.
                thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let (handler, runtime) = (handler.clone(), runtime.clone());
        let served =
            thread::Builder::new().name("cni-call".to_owned()).stack_size(512 << 10).spawn(move || {
                let _slot = slot;
                let serve = || connection::serve_connection(Channel::from(stream), &handler, &runtime);
                if let Err(e) = catch_panic(serve) {
                    error!(error = %e, "CNI call failed");
                }
            });
        if let Err(e) = served {
            warn!(error = %e, "cannot start a thread for a CNI call");
        }
    }
}
