//! The cluster daemon under load, and its memory and CPU time from `/proc`.

use anyhow::{Context, Result, bail};
use serde_json::json;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Clock ticks per second in `/proc` (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// A running `ferroband cluster`; killed when dropped.
pub struct LeaderProcess {
    child: Child,
    log: PathBuf,
}

/// Resource usage of the leader.
#[derive(Clone, Copy, Debug)]
pub struct LeaderUsage {
    /// Resident memory in MB, which is 10^6 bytes.
    pub resident: f64,
    pub peak: f64,
    pub cpu_seconds: f64,
}

impl LeaderProcess {
    /// Starts `program` with the API server at `api`. `folder` gets its kubeconfig and its log.
    pub fn start(program: &Path, api: SocketAddr, folder: &Path) -> Result<Self> {
        let (config, log) = (folder.join("kubeconfig"), folder.join("leader.log"));
        fs::write(&config, kubeconfig(api)).context("cannot write the kubeconfig")?;
        let child = Command::new(program)
            .args(["cluster", "--pod-name", "scale-leader", "--webhook-port", "0"])
            .env("KUBECONFIG", config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).context("cannot create the leader's log")?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, log })
    }

    /// Fails with the end of the log if the leader has ended.
    pub fn check_running(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the leader ended: {status}\n{}", self.log_tail());
        }
        Ok(())
    }

    /// Returns the last lines of the leader's log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    pub fn usage(&self) -> Result<LeaderUsage> {
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(folder.join("status")).context("the leader ended")?;
        let stat = fs::read_to_string(folder.join("stat")).context("the leader ended")?;
        parse_usage(&status, &stat).context("cannot read the leader's usage from /proc")
    }
}

/// Returns the kubeconfig of the API server at `api`.
pub fn kubeconfig(api: SocketAddr) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "load",
        "clusters": [{"name": "load", "cluster": {"server": format!("http://{api}")}}],
        "contexts": [{"name": "load", "context": {"cluster": "load", "user": "load"}}],
        "users": [{"name": "load", "user": {}}],
    });
    config.to_string()
}

fn parse_usage(status: &str, stat: &str) -> Option<LeaderUsage> {
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    // The program's name is in parentheses and may contain blanks. User and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(LeaderUsage {
        resident: kilobytes("VmRSS:")? * 1024.0 / 1e6,
        peak: kilobytes("VmHWM:")? * 1024.0 / 1e6,
        cpu_seconds: ticks / TICKS_PER_SECOND,
    })
}

impl Drop for LeaderProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_proc() {
        let status = "Name:\tferroband\nVmHWM:\t  200000 kB\nVmRSS:\t  100000 kB\n";
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 4 0";
        let usage = parse_usage(status, stat).unwrap();
        assert_eq!((usage.resident, usage.peak, usage.cpu_seconds), (102.4, 204.8, 2.0));
        assert!(parse_usage("", stat).is_none());
    }
}
