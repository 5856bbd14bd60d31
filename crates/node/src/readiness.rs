//! Publishes and checks the readiness of the node daemon.
//!
//! The daemon is ready while the ready file exists and the CNI socket answers. A killed daemon leaves the file behind
//! but does not answer; a new daemon removes the file before it starts to answer.

use crate::{
    Error,
    install::{ConflistStatus, write_atomically},
};
use ferroband_attach::{
    message::{DaemonReply, DaemonRequest},
    socket::Channel,
    socket_path,
};
use ferroband_kernel::{Root, files::remove_file};
use ferroband_model::{Fault, FaultCode};
use std::{os::unix::net::UnixStream, path::PathBuf, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

const STATUS_TIMEOUT: Duration = Duration::from_secs(3);

pub struct ReadinessConditions {
    /// Whether the CNI configuration that makes the runtime call Ferroband is installed.
    pub configured: watch::Receiver<ConflistStatus>,
    /// `true` while the kubelet has registered all our resources, or there are none.
    pub registered: watch::Receiver<bool>,
}

fn ready_file(root: &Root) -> PathBuf {
    root.run("ferroband/ready")
}

/// Removes the ready file that an earlier daemon left. Must be called before the daemon serves anything.
pub fn remove_ready_file(root: &Root) -> Result<(), Error> {
    remove_file(&ready_file(root)).map_err(Error::file("remove", &ready_file(root)))
}

/// Creates the ready file when all conditions hold and removes it when one no longer holds, until `stop` is
/// cancelled.
pub async fn keep_ready_file(
    root: Root,
    conditions: ReadinessConditions,
    stop: CancellationToken,
) -> Result<(), Error> {
    let ReadinessConditions { mut configured, mut registered } = conditions;
    let mut announced = false;
    let updating = async {
        loop {
            let ready = configured.borrow_and_update().installed && *registered.borrow_and_update();
            if ready != announced {
                match ready {
                    true => write_atomically(&ready_file(&root), &mut &b"ready\n"[..], 0o644)?,
                    false => remove_ready_file(&root)?,
                }
                info!(ready, "readiness changed");
                announced = ready;
            }
            // A closed channel means that the daemon is stopping.
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
        end = updating => end,
        () = stop.cancelled() => remove_ready_file(&root),
    }
}

/// Checks from another process whether this node's daemon is ready.
pub fn check(root: &Root) -> Result<(), Fault> {
    let not_ready = |cause: String| {
        Fault::new(
            FaultCode::DaemonAway,
            "node daemon",
            cause,
            "check the log of the ferroband-node pod on this node",
        )
    };
    let socket = socket_path(root);
    let stream = UnixStream::connect(&socket).map_err(|e| not_ready(format!("{}: {e}", socket.display())))?;
    let mut channel = Channel::from(stream);
    let sent = channel.set_timeout(Some(STATUS_TIMEOUT)).and_then(|()| channel.send(&DaemonRequest::Status));
    match sent.and_then(|()| channel.recv::<DaemonReply>()).map_err(|e| e.fault())? {
        DaemonReply::Done => {}
        DaemonReply::Fault(fault) => return Err(fault),
        _ => return Err(not_ready("unexpected reply to a status request".to_owned())),
    }
    if !ready_file(root).exists() {
        return Err(not_ready(
            "the CNI configuration is not installed, or the kubelet has not registered the device plugin"
                .to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, create_dir_all},
        os::unix::net::UnixListener,
        thread,
        time::Duration,
    };

    async fn wait_until(condition: impl Fn() -> bool) {
        for _ in 0..250 {
            if condition() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("timed out waiting for the condition");
    }

    #[tokio::test]
    async fn ready_file_exists_exactly_while_all_conditions_hold() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        create_dir_all(root.run("ferroband")).unwrap();
        let ((configure, configured), (register, registered)) =
            (watch::channel(ConflistStatus::default()), watch::channel(false));
        let stop = CancellationToken::new();
        let conditions = ReadinessConditions { configured, registered };
        let keeper = tokio::spawn(keep_ready_file(root.clone(), conditions, stop.clone()));
        let file_exists = || ready_file(&root).exists();
        configure.send_replace(ConflistStatus { installed: true, problem: None });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!file_exists());
        register.send_replace(true);
        wait_until(file_exists).await;
        register.send_replace(false);
        wait_until(|| !file_exists()).await;
        register.send_replace(true);
        wait_until(file_exists).await;
        stop.cancel();
        keeper.await.unwrap().unwrap();
        assert!(!file_exists());
    }

    // Case: cni 107
    #[test]
    fn daemon_that_does_not_answer_is_not_ready_even_if_the_file_exists() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        create_dir_all(root.run("ferroband")).unwrap();
        fs::write(ready_file(&root), "ready").unwrap();
        assert_eq!(check(&root).unwrap_err().code, FaultCode::DaemonAway);

        let listener = UnixListener::bind(socket_path(&root)).unwrap();
        let responder = thread::spawn(move || {
            for _ in 0..2 {
                let mut channel = Channel::from(listener.accept().unwrap().0);
                assert_eq!(channel.recv::<DaemonRequest>().unwrap(), DaemonRequest::Status);
                channel.send(&DaemonReply::Done).unwrap();
            }
        });
        check(&root).unwrap();
        remove_ready_file(&root).unwrap();
        check(&root).unwrap_err();
        responder.join().unwrap();
    }
}
