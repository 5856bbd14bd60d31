//! Cleans up after a swarm that is killed.

use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its standard input, i.e. of the swarm's process. The swarm's processes are found by the folder
/// in their arguments (daemons) or their mounts (namespace holders).
const SCRIPT: &str = r#"
cat >/dev/null
for p in /proc/[0-9]*; do
	[ "$p" = "/proc/$$" ] && continue
	tr '\0' ' ' 2>/dev/null <"$p/cmdline" | grep -qF -- "$FOLDER/" || grep -qF -- "$FOLDER/" "$p/mountinfo" 2>/dev/null || continue
	kill -9 "${p#/proc/}" 2>/dev/null
done
for name in $NAMES; do ip netns delete "$name" 2>/dev/null; done
rm -rf -- "$FOLDER"
"#;

/// The cleanup process.
pub struct SwarmCleaner(Child);

impl SwarmCleaner {
    /// Starts it for the members in this folder.
    pub fn start(folder: &Path, names: &[String]) -> Result<Self> {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", SCRIPT]).env("FOLDER", folder).env("NAMES", names.join(" "));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self).context("cannot start setsid")
    }
}

impl Drop for SwarmCleaner {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
