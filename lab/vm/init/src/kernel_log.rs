//! What the kernel logged while a test ran.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;

/// Message parts that no test may cause.
const FORBIDDEN: &[&str] = &[
    "BUG:",
    "WARNING: CPU",
    "Oops",
    "general protection fault",
    "unable to handle",
    "refcount_t:",
    "blocked for more than",
    "timeout mr",
    "possible circular locking",
    "sleeping function called from invalid context",
    "scheduling while atomic",
    "Memory cgroup out of memory",
    "Out of memory",
    "page allocation failure",
];

/// A known kernel bug: rdmavt of 6.1 copies a work request over its header field (fixed in 6.12).
const KNOWN_BUG: &str = "rdmavt/qp.c";

/// Reads messages logged after it was opened.
pub struct KernelLog(Option<File>);

impl KernelLog {
    /// Starts at the current end of the log.
    pub fn from_now() -> Self {
        let open = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open("/dev/kmsg");
        let mut file = open.ok();
        if let Some(log) = &mut file
            && log.seek(SeekFrom::End(0)).is_err()
        {
            file = None;
        }
        Self(file)
    }

    /// The first forbidden message since then.
    pub fn first_forbidden(&mut self) -> Option<String> {
        let log = self.0.as_mut()?;
        let mut record = [0; 8192];
        loop {
            match log.read(&mut record) {
                Ok(0) => return None,
                Ok(size) => {
                    let text = String::from_utf8_lossy(&record[..size]);
                    let message = text.split_once(';').map_or(&*text, |(_, message)| message);
                    let message = message.lines().next().unwrap_or_default();
                    if FORBIDDEN.iter().any(|part| message.contains(part)) && !message.contains(KNOWN_BUG) {
                        return Some(message.to_owned());
                    }
                }
                // EPIPE: records were overwritten before they were read; continue with the next ones.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(_) => return None,
            }
        }
    }
}
