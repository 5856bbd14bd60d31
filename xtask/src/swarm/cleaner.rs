//! Who is left when a swarm is killed, and takes what it made away.

use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for its standard input to end, which it does when the swarm's process does. The folder stands in the arguments of
/// the daemons, and among the mounts of whoever keeps a member's namespace.
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

/// That one.
pub struct SwarmCleaner(Child);

impl SwarmCleaner {
    /// For the members in this folder.
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
