//! Many node daemons on this machine, against one lab's API server: addresses assigned by the thousand, with daemons
//! killed and the API server restarted meanwhile.
//!
//! ```text
//!  Swarm ── Member: its own mount namespace (/run/ferroband, /var/lib/ferroband), its own network namespace
//!    │        ├─ `ferroband node`, in the lab's network, killed and started again at will
//!    │        └─ `whereabouts` (ferroband-cni), executed for each ADD and DEL; what it gave stands on the member's `lo`
//!    └─ Errand: what is asked of it, 1 to 256 at once ──▶ Report: rate, percentiles, what each interface got
//! ```
//!
//! A member has one pod with as many interfaces as it is asked for. The pods are objects only; no kubelet knows them.

mod cleaner;
mod cli;
mod member;
mod report;
mod workload;

pub use cli::{SwarmArgs, run_swarm};
pub use report::SwarmReport;
pub use workload::{SwarmWorkload, run_workload};

use member::SwarmMember;

use crate::command::{output, run_with_input};
use crate::lab::Lab;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The label of everything that a swarm makes in the cluster.
const LABEL: &str = "ferroband.lab/swarm";

/// The members, and what they are made from.
pub struct Swarm {
    lab: Lab,
    folder: PathBuf,
    /// In order.
    pub members: Vec<SwarmMember>,
    /// After the members, as it is written here.
    _cleaner: cleaner::SwarmCleaner,
}

impl Swarm {
    /// `count` members called `<name>-0`, `<name>-1`, …; their daemons are started.
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
                // What is made is taken away again, whatever that says.
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

    /// Nodes that no DaemonSet wants, and one pod on each.
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

    /// Take everything away again: processes, namespaces, objects.
    pub fn stop(self) -> Result<()> {
        drop(self.members);
        let selector = format!("{LABEL}=true");
        let delete = ["delete", "pods,nodes", "-l", &selector, "--grace-period=0", "--force", "--wait=false"];
        output(self.lab.kubectl()?.args(delete).stderr(Stdio::null())).map(drop)
    }
}
