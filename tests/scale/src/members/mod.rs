//! Many members in one process against the API server in `KUBECONFIG`, controlled by lines on standard input. Each
//! command is answered by one line of JSON, so that the caller can read the API server's counters in between.
//!
//! ```text
//! start COUNT           starts the members scale-0, scale-1, …
//! assign PODS POOL      each member assigns an address to PODS pods, one after another
//! release               releases what the last `assign` or `fill` assigned
//! sticky POOL           each member assigns an address to a pod of the StatefulSet scale-sticky
//! sticky-release        releases them; they stay reserved
//! sticky-move           each pod starts on the next member, which must get the same address
//! fill ADDRESSES POOL   the members together take that many addresses at the same time
//! restart               all members restart at the same time
//! stop                  ends the process, like the end of standard input
//! ```

mod member;
mod phase;
mod request_counter;

use anyhow::{Context, Result, bail};
use member::{Member, ScalePod};
use phase::{PhaseReport, assign_all, count_requests, release_all};
use std::net::IpAddr;
use std::path::Path;
use tokio::task::spawn_blocking;

/// Name of the StatefulSet that sticky pods belong to. The caller creates it.
const STICKY_SET: &str = "scale-sticky";

/// Runs commands until `stop` or the end of standard input.
pub async fn run_commands() -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a folder for the members")?;
    let mut set = MemberSet::default();
    while let Some(line) = spawn_blocking(|| std::io::stdin().lines().next()).await? {
        let line = line.context("cannot read a command")?;
        let words: Vec<_> = line.split_whitespace().collect();
        if words == ["stop"] {
            break;
        }
        let report = set.run(&words, folder.path()).await.with_context(|| format!("command `{line}`"))?;
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}

#[derive(Default)]
struct MemberSet {
    members: Vec<Member>,
    /// Number of commands so far; part of the names of pods.
    turn: usize,
    /// The pods of the last `assign` or `fill`, by member.
    pods: Vec<Vec<ScalePod>>,
    sticky_pods: Vec<Vec<ScalePod>>,
    sticky_addresses: Vec<Option<IpAddr>>,
}

impl MemberSet {
    async fn run(&mut self, words: &[&str], folder: &Path) -> Result<PhaseReport> {
        self.turn += 1;
        match words {
            ["start", count] => self.start(count.parse()?, folder).await,
            ["restart"] => self.start(self.members.len(), folder).await,
            ["assign", count, pool] => {
                let count: usize = count.parse()?;
                let pods = |member| (0..count).map(|pod| self.pod(member, pod, pool)).collect();
                self.pods = (0..self.members.len()).map(pods).collect();
                Ok(assign_all(&self.members, &self.pods).await.0)
            }
            ["fill", count, pool] => {
                let (count, members): (usize, usize) = (count.parse()?, self.members.len());
                let pods = |member| {
                    (member..count).step_by(members).map(|pod| self.pod(member, pod, pool)).collect()
                };
                self.pods = (0..members).map(pods).collect();
                Ok(assign_all(&self.members, &self.pods).await.0)
            }
            ["release"] => Ok(release_all(&self.members, &std::mem::take(&mut self.pods)).await),
            ["sticky", pool] => self.start_sticky(pool).await,
            ["sticky-release"] => Ok(release_all(&self.members, &self.sticky_pods).await),
            ["sticky-move"] => self.move_sticky().await,
            _ => bail!("unknown command"),
        }
    }

    async fn start(&mut self, count: usize, folder: &Path) -> Result<PhaseReport> {
        self.members.clear();
        let start = (0..count).map(|member| Member::start(format!("scale-{member}"), folder));
        self.members = futures::future::try_join_all(start).await?;
        futures::future::try_join_all(self.members.iter().map(Member::wait_synced)).await?;
        Ok(count_requests(&self.members).await)
    }

    fn pod(&self, member: usize, pod: usize, pool: &str) -> ScalePod {
        let name = format!("scale-pod-{}-{member}-{pod}", self.turn);
        ScalePod { container: format!("{name}-sandbox"), name, pool: pool.to_owned(), sticky: false }
    }

    async fn start_sticky(&mut self, pool: &str) -> Result<PhaseReport> {
        let pod = |ordinal| {
            let (name, turn) = (format!("{STICKY_SET}-{ordinal}"), self.turn);
            vec![ScalePod { container: format!("{name}-{turn}"), name, pool: pool.to_owned(), sticky: true }]
        };
        self.sticky_pods = (0..self.members.len()).map(pod).collect();
        let (report, results) = assign_all(&self.members, &self.sticky_pods).await;
        let address = |results: Vec<phase::TimedResult>| results.into_iter().next()?.result.ok();
        self.sticky_addresses = results.into_iter().map(address).collect();
        Ok(report)
    }

    async fn move_sticky(&mut self) -> Result<PhaseReport> {
        if self.sticky_pods.is_empty() {
            bail!("no sticky pods were started");
        }
        self.sticky_pods.rotate_right(1);
        self.sticky_addresses.rotate_right(1);
        for pod in self.sticky_pods.iter_mut().flatten() {
            pod.container = format!("{}-{}", pod.name, self.turn);
        }
        let (mut report, results) = assign_all(&self.members, &self.sticky_pods).await;
        for (results, before) in results.iter().zip(&self.sticky_addresses) {
            let Some(phase::TimedResult { result: Ok(address), .. }) = results.first() else { continue };
            if before.is_some_and(|before| before != *address) {
                report.unserved += 1;
                report.last_failure = Some(format!("a sticky pod moved from {before:?} to {address}"));
            }
        }
        Ok(report)
    }
}
