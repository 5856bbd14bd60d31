//! What the kernel logged while a test ran.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;

/// Beginnings and parts of messages that no test may cause.
const BAD: &[&str] = &[
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

/// The one warning that is the kernel's own: rdmavt of 6.1 copies a work request over its header field (mended in 6.12).
const KNOWN: &str = "rdmavt/qp.c";

/// A reader that stands where the log ended when it was opened.
pub struct KernelLog(Option<File>);

impl KernelLog {
    /// From now on.
    pub fn from_here() -> Self {
        let open = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open("/dev/kmsg");
        let mut file = open.ok();
        if let Some(log) = &mut file
            && log.seek(SeekFrom::End(0)).is_err()
        {
            file = None;
        }
        Self(file)
    }

    /// The first bad message since then.
    pub fn complaint(&mut self) -> Option<String> {
        let log = self.0.as_mut()?;
        let mut record = [0; 8192];
        loop {
            match log.read(&mut record) {
                Ok(0) => return None,
                Ok(size) => {
                    let text = String::from_utf8_lossy(&record[..size]);
                    let message = text.split_once(';').map_or(&*text, |(_, message)| message);
                    let message = message.lines().next().unwrap_or_default();
                    if BAD.iter().any(|bad| message.contains(bad)) && !message.contains(KNOWN) {
                        return Some(message.to_owned());
                    }
                }
                // EPIPE: records were overwritten before they were read; go on with what is there.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(_) => return None,
            }
        }
    }
}
