//! Many node daemons on this machine against a lab's API server: thousands of addresses are assigned while daemons are
//! killed and the API server restarts.
//!
//! ```text
//!  Swarm ── SwarmMember: its own mount namespace (/run/ferroband, /var/lib/ferroband), its own network namespace
//!    │        ├─ `ferroband node`, in the lab's network, killed and restarted on request
//!    │        └─ `whereabouts` (ferroband-cni), executed for each ADD and DEL; addresses go to the member's `lo`
//!    └─ SwarmWorkload: requests, 1 to 256 in parallel ──▶ SwarmReport: rate, percentiles, assigned addresses
//! ```
//!
//! A member has one pod with all requested interfaces. The pods are API objects only, without a kubelet.

mod cleaner;
mod cli;
mod member;
mod report;
mod workload;

pub use cli::{SwarmArgs, run_swarm};
pub use report::SwarmReport;
pub use workload::{SwarmWorkload, run_workload};

use member::SwarmMember;

use crate::cluster::Lab;
use crate::command::{output, run_with_input};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Label of all objects of a swarm.
const LABEL: &str = "ferroband.lab/swarm";

/// The members of a swarm.
pub struct Swarm {
    lab: Lab,
    folder: PathBuf,
    pub members: Vec<SwarmMember>,
    /// Dropped after the members, in declaration order.
    _cleaner: cleaner::SwarmCleaner,
}

impl Swarm {
    /// Starts `count` members named `<name>-0`, `<name>-1`, …
    pub fn start(lab: Lab, name: &str, count: usize, programs: Option<&Path>) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("ferroband-swarm-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).context("cannot create the swarm's folder")?;
        let names: Vec<_> = (0..count).map(|number| format!("{name}-{number}")).collect();
        let _last = cleaner::SwarmCleaner::start(&folder, &names)?;
        let mut swarm = Self { lab, folder, members: Vec::new(), _cleaner: _last };
        swarm.create_objects(&names)?;
        match swarm.start_members(names, programs) {
            Ok(()) => Ok(swarm),
            Err(e) => {
                // Clean up; report the first error.
                let _ = swarm.stop();
                Err(e)
            }
        }
    }

    fn start_members(&mut self, names: Vec<String>, programs: Option<&Path>) -> Result<()> {
        let (daemon, cni) = match programs {
            Some(folder) => (folder.join("ferroband"), folder.join("ferroband-cni")),
            None => crate::image::build_binaries().map(|built| (built.ferroband, built.cni))?,
        };
        for name in names {
            let member = SwarmMember::start(&self.lab, &self.folder.join(&name), &name, &daemon, &cni)?;
            self.members.push(member);
        }
        self.members.iter().try_for_each(SwarmMember::wait_ready)
    }

    /// Creates Node objects that match no DaemonSet, and one pod on each.
    fn create_objects(&self, names: &[String]) -> Result<()> {
        let objects: Vec<_> = names
            .iter()
            .flat_map(|name| {
                [
                    format!(
                        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","labels":{{"{LABEL}":"true","kubernetes.io/os":"none"}}}},"spec":{{"unschedulable":true}}}}"#
                    ),
                    format!(
                        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"{LABEL}":"true"}}}},"spec":{{"nodeName":"{name}","tolerations":[{{"operator":"Exists"}}],"containers":[{{"name":"c","image":"none"}}]}}}}"#
                    ),
                ]
            })
            .collect();
        let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, objects.join(","));
        run_with_input(self.lab.kubectl()?.args(["create", "-f", "-"]).stdout(Stdio::null()), &list).map(drop)
    }

    /// Removes processes, namespaces and objects.
    pub fn stop(self) -> Result<()> {
        drop(self.members);
        let selector = format!("{LABEL}=true");
        let delete = ["delete", "pods,nodes", "-l", &selector, "--grace-period=0", "--force", "--wait=false"];
        output(self.lab.kubectl()?.args(delete).stderr(Stdio::null())).map(drop)
    }
}
