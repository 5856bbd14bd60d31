//! Writes the partitions of a simulated UFM to the P_Key tables of simulated ports, as a subnet manager does.
//!
//! ```text
//! ufm::UfmSimulator ── partitions, when they change ──▶ one line of JSON ──▶ `ferroband sim fabric` on each node
//! ```
//!
//! While the UFM is down, the ports keep their P_Key tables.

use crate::ufm::{SimulatedMember, UfmSimulator};
use anyhow::{Context, Result};
use ferroband_model::Guid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Poll interval for the UFM's partitions; about the time of a sweep of a small fabric.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Keeps the P_Key tables in sync with a simulated UFM. When dropped, it removes all ports from all
/// partitions except the default one.
pub struct PKeyTableWriter {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PKeyTableWriter {
    /// Starts the writer. Each of `writers` is the command that runs `ferroband sim fabric` on one node.
    pub fn start(ufm: Arc<UfmSimulator>, writers: Vec<Command>) -> Result<Self> {
        let start = |mut writer: Command| writer.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut children: Vec<Child> = writers
            .into_iter()
            .map(start)
            .collect::<std::io::Result<_>>()
            .context("cannot start ferroband sim fabric")?;
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        let thread = thread::spawn(move || {
            let mut written = None;
            while !stop.load(Ordering::Relaxed) {
                if !ufm.is_down() {
                    let tables = pkey_tables(&ufm.partitions());
                    if written.as_ref() != Some(&tables) {
                        write_line(&mut children, &tables);
                        written = Some(tables);
                    }
                }
                thread::sleep(POLL_INTERVAL);
            }
            // Reset all ports to the table that a port has before a subnet manager configures it.
            write_line(&mut children, &json!({}));
            for mut child in children {
                drop(child.stdin.take());
                let _ = child.wait();
            }
        });
        Ok(Self { stopped, thread: Some(thread) })
    }
}

impl Drop for PKeyTableWriter {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_line(children: &mut [Child], line: &Value) {
    for child in children {
        if let Some(stdin) = &mut child.stdin {
            // Ignore write errors: a node may no longer exist.
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }
}

/// The P_Key tables of all ports as JSON. A table starts with the P_Keys of members with index 0. The default partition,
/// with limited membership, follows, and then the other P_Keys: a subnet manager puts the default partition at index 0
/// unless another P_Key must be there.
fn pkey_tables(partitions: &BTreeMap<u16, BTreeMap<Guid, SimulatedMember>>) -> Value {
    let mut tables: BTreeMap<Guid, Vec<(bool, bool, u16)>> = BTreeMap::new();
    for (key, members) in partitions {
        for (guid, member) in members {
            let key = if member.full { key | 0x8000 } else { *key };
            tables.entry(*guid).or_default().push((member.index0, false, key));
        }
    }
    let text = |key: u16| format!("{key:#06x}");
    let tables: BTreeMap<String, Vec<String>> = tables
        .into_iter()
        .map(|(guid, mut keys)| {
            keys.push((false, true, 0x7fff));
            keys.sort_unstable_by_key(|(index0, is_default, key)| (!index0, !is_default, *key));
            (guid.to_string(), keys.into_iter().map(|(.., key)| text(key)).collect())
        })
        .collect();
    json!({"tables": tables, "others": [text(0x7fff)]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_partition_is_first_unless_a_member_has_index0() {
        let guid = Guid::new(0x0200_0000_0000_0a01);
        let member = |full, index0| BTreeMap::from([(guid, SimulatedMember { full, index0 })]);
        let line = pkey_tables(&BTreeMap::from([(5, member(false, false)), (0x3e8, member(true, true))]));
        assert_eq!(line["tables"]["02:00:00:00:00:00:0a:01"], json!(["0x83e8", "0x7fff", "0x0005"]));
        let line = pkey_tables(&BTreeMap::from([(5, member(true, false))]));
        assert_eq!(line["tables"]["02:00:00:00:00:00:0a:01"], json!(["0x7fff", "0x8005"]));
    }
}
