//! What runtimes, pods and damaged disks pass to the CNI plugin, and what the plugin passes to the daemon.

use ferroband_api::annotation::NetworkSelection;
use ferroband_attach::journal::Journal;
use ferroband_attach::message::{DaemonReply, DaemonRequest};
use ferroband_attach::plan::StepKind;
use ferroband_attach::socket::Channel;
use ferroband_attach::{CniCommand, CniEnvironment, CniResult, CniVersion, Invocation, PluginConfig};
use ferroband_kernel::Root;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cell::OnceCell;
use std::fmt::Debug;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tempfile::TempDir;

/// Longest message that is sent, less than what a socket buffers.
const MAX_SENT: usize = 64 << 10;

/// A plugin's standard input, through all parsers that run before any change.
pub fn stdin(bytes: &[u8]) {
    let variables = CniEnvironment::from_iter([
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_IFNAME", "net1"),
        ("CNI_NETNS", "/var/run/netns/t"),
        ("CNI_PATH", "/opt/cni/bin"),
    ]);
    if let Err(error) = Invocation::read(CniCommand::Add, &variables, &mut &*bytes) {
        assert!(!error.fault().remedy.is_empty() && error.code() > 0);
    }
    let Ok(config) = PluginConfig::parse(bytes.to_vec()) else { return };
    if let Err(error) = StepKind::from_config(config.map()) {
        assert!(!error.fault().cause.is_empty());
    }
    if let Some(previous) = config.fields().get("prevResult")
        && let Ok(result) = CniResult::read(previous, CniVersion::NEWEST)
    {
        // A parsed result can be written and parsed again.
        let written = result.write(CniVersion::NEWEST).unwrap_or(Value::Null);
        assert_eq!(CniResult::read(&written, CniVersion::NEWEST).ok(), Some(result));
    }
}

/// A pod's networks annotation.
pub fn annotation(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match NetworkSelection::parse_networks(&text, "default") {
        Ok(selections) => {
            for selection in selections {
                assert!(!selection.display_name().is_empty());
            }
        }
        Err(error) => assert!(!error.fault().remedy.is_empty()),
    }
    let _ = NetworkSelection::parse_default_network(&text, "kube-system");
}

/// Bytes on the socket of the daemon: as they are, and as the body of a message.
pub fn socket(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MAX_SENT)];
    receive::<DaemonRequest>(bytes);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let message = [&length.to_be_bytes(), bytes].concat();
    receive::<DaemonRequest>(&message);
    receive::<DaemonReply>(&message);
}

/// Receives a message. One that is understood can be sent and is then the same.
fn receive<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    let Ok((mut ours, theirs)) = UnixStream::pair() else { return };
    let mut channel = Channel::from(theirs);
    let _ = channel.set_timeout(Some(Duration::from_secs(1)));
    if ours.write_all(bytes).is_err() {
        return;
    }
    drop(ours);
    let Ok(message) = channel.recv::<T>() else { return };
    let text = serde_json::to_string(&message).unwrap_or_default();
    assert_eq!(serde_json::from_str::<T>(&text).ok(), Some(message), "{text}");
}

/// A journal on the disk, as DEL, GC and the daemon read it.
pub fn journal(bytes: &[u8]) {
    thread_local! {
        static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
    }
    FOLDER.with(|cell| {
        let Some(folder) = folder(cell) else { return };
        let root = Root::at(folder.path());
        if fs::write(root.state("journal").join("c1.json"), bytes).is_err() {
            return;
        }
        for file in Journal::list(&root).unwrap_or_default() {
            match file.journal {
                Ok(journal) => {
                    let _ = (journal.is_wrapped_only(), journal.interfaces_gone(), journal.id());
                    assert!(journal.entries.iter().all(|one| one.steps.len() == one.attachment.steps.len()));
                }
                Err(error) => assert!(!error.fault().remedy.is_empty()),
            }
        }
    });
}

fn folder(cell: &OnceCell<TempDir>) -> Option<&TempDir> {
    if cell.get().is_none() {
        let folder = tempfile::tempdir().ok()?;
        fs::create_dir_all(Root::at(folder.path()).state("journal")).ok()?;
        let _ = cell.set(folder);
    }
    cell.get()
}
