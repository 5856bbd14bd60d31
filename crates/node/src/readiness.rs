//! Whether the daemon is ready, told so that it stays true.
//!
//! A file says it, and it counts only while the socket is answered: a daemon that was killed leaves the file, but not
//! the answer, and a new one removes the file before it answers.

use crate::{Error, install::write_atomically};
use ferroband_attach::{
    message::{DaemonReply, DaemonRequest},
    socket::Channel,
    socket_path,
};
use ferroband_kernel::Root;
use ferroband_model::{Fault, FaultCode};
use std::{fs, io::ErrorKind, os::unix::net::UnixStream, path::PathBuf, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// How long the answer may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);

/// The conditions of readiness.
pub struct ReadinessConditions {
    /// The runtime's configuration names us.
    pub configured: watch::Receiver<bool>,
    /// The kubelet knows our resource, or there is none to know.
    pub registered: watch::Receiver<bool>,
}

fn ready_file(root: &Root) -> PathBuf {
    root.run("ferroband/ready")
}

/// Not ready: before anything is served.
pub fn remove_ready_file(root: &Root) -> Result<(), Error> {
    match fs::remove_file(ready_file(root)) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(Error::File { action: "remove", path: ready_file(root), source })
        }
        _ => Ok(()),
    }
}

/// Keep the file there exactly while all conditions hold.
pub async fn keep_ready_file(
    root: Root,
    conditions: ReadinessConditions,
    stop: CancellationToken,
) -> Result<(), Error> {
    let ReadinessConditions { mut configured, mut registered } = conditions;
    let mut told = false;
    let telling = async {
        loop {
            let ready = *configured.borrow_and_update() && *registered.borrow_and_update();
            if ready != told {
                match ready {
                    true => write_atomically(&ready_file(&root), &mut &b"ready\n"[..], 0o644)?,
                    false => remove_ready_file(&root)?,
                }
                info!(ready, "readiness");
                told = ready;
            }
            // An end of either means that the daemon is ending.
            let changed = tokio::select! {
                changed = configured.changed() => changed,
                changed = registered.changed() => changed,
            };
            if changed.is_err() {
                return std::future::pending().await;
            }
        }
    };
    tokio::select! {
        end = telling => end,
        () = stop.cancelled() => remove_ready_file(&root),
    }
}

/// Ask from outside: is the daemon of this node ready?
pub fn check(root: &Root) -> Result<(), Fault> {
    let away = |cause: String| {
        Fault::new(
            FaultCode::DaemonAway,
            "node daemon",
            cause,
            "see the log of the pod ferroband-node on this node",
        )
    };
    let socket = socket_path(root);
    let stream = UnixStream::connect(&socket).map_err(|e| away(format!("{}: {e}", socket.display())))?;
    let mut channel = Channel::from(stream);
    let asked = channel.set_timeout(Some(STATUS_TIMEOUT)).and_then(|()| channel.send(&DaemonRequest::Status));
    match asked.and_then(|()| channel.recv::<DaemonReply>()).map_err(|e| e.fault())? {
        DaemonReply::Done => {}
        DaemonReply::Fault(fault) => return Err(fault),
        _ => return Err(away("it answered something else than asked".to_owned())),
    }
    if !ready_file(root).exists() {
        return Err(away("it serves, but is not yet registered at runtime and kubelet".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::create_dir_all, os::unix::net::UnixListener, thread, time::Duration};

    async fn eventually(what: impl Fn() -> bool) {
        for _ in 0..250 {
            if what() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it did not happen");
    }

    #[tokio::test]
    async fn the_file_is_there_exactly_while_everything_holds() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        create_dir_all(root.run("ferroband")).unwrap();
        let ((configure, configured), (register, registered)) =
            (watch::channel(false), watch::channel(false));
        let stop = CancellationToken::new();
        let conditions = ReadinessConditions { configured, registered };
        let telling = tokio::spawn(keep_ready_file(root.clone(), conditions, stop.clone()));
        let there = || ready_file(&root).exists();
        configure.send_replace(true);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!there());
        register.send_replace(true);
        eventually(there).await;
        // The kubelet restarts.
        register.send_replace(false);
        eventually(|| !there()).await;
        register.send_replace(true);
        eventually(there).await;
        stop.cancel();
        telling.await.unwrap().unwrap();
        assert!(!there());
    }

    #[test]
    fn case_107_a_daemon_that_ends_is_not_ready_whatever_its_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        create_dir_all(root.run("ferroband")).unwrap();
        fs::write(ready_file(&root), "ready").unwrap();
        assert_eq!(check(&root).unwrap_err().code, FaultCode::DaemonAway);

        let listener = UnixListener::bind(socket_path(&root)).unwrap();
        let answering = thread::spawn(move || {
            for _ in 0..2 {
                let mut channel = Channel::from(listener.accept().unwrap().0);
                assert_eq!(channel.recv::<DaemonRequest>().unwrap(), DaemonRequest::Status);
                channel.send(&DaemonReply::Done).unwrap();
            }
        });
        check(&root).unwrap();
        remove_ready_file(&root).unwrap();
        check(&root).unwrap_err();
        answering.join().unwrap();
    }
}
