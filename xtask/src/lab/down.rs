//! Take a lab down: no process, mount, namespace, link, cgroup or file of it stays, however it was left.

use super::Lab;
use super::machine::LabMachine;
use crate::progress::run_step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Take it down; fine when there is none.
pub fn down(lab: &Lab) -> Result<()> {
    crate::tools::require_root()?;
    let machines = find_machines(lab);
    if machines.is_empty() && !lab.folder.exists() {
        eprintln!("  · lab {} is not there", lab.name());
        return Ok(());
    }
    run_step(format!("taking lab {} down", lab.name()), |_| {
        for machine in &machines {
            machine.kill()?;
        }
        for machine in &machines {
            machine.remove_kernel_state()?;
        }
        remove_files(lab)
    })
}

/// Every machine that the lab's file, its folders or the kernel knows of: the lab may have been killed half-way.
fn find_machines(lab: &Lab) -> Vec<LabMachine> {
    let mut names: BTreeSet<String> = lab.nodes().unwrap_or_default().into_iter().collect();
    let mut add = |folder: &std::path::Path, cut: &str| {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Some(rest) = entry.file_name().to_string_lossy().strip_prefix(cut) {
                names.insert(rest.to_string());
            }
        }
    };
    add(&lab.folder.join("machines"), "");
    add(std::path::Path::new("/run/netns"), &format!("{}-", lab.name_prefix()));
    // Another lab's name may begin with this one's and a dash: its machines are not ours.
    let others: Vec<String> = fs::read_dir(lab.folder.parent().unwrap_or(&lab.folder))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_prefix(&format!("{}-", lab.name())).map(str::to_string))
        .collect();
    names.remove("control");
    let foreign = |name: &str| others.iter().any(|o| name == o || name.starts_with(&format!("{o}-")));
    let mut machines: Vec<LabMachine> = names
        .iter()
        .filter(|n| lab.folder.join("machines").join(n.as_str()).exists() || !foreign(n))
        .map(|n| lab.node_machine(n))
        .collect();
    let control = lab.control_machine();
    if lab.folder.exists() || control.has_netns() {
        machines.push(control);
    }
    machines
}

fn remove_files(lab: &Lab) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    let folder = lab.folder.to_string_lossy();
    if let Some(line) =
        mounts.lines().find(|l| l.split(' ').nth(4).is_some_and(|at| at.starts_with(&*folder)))
    {
        bail!("something is still mounted below {folder}, so it is not removed: {line}");
    }
    // A copy that a killed `lab up` had started may still be writing here: it ends by itself.
    let begin = Instant::now();
    loop {
        match fs::remove_dir_all(&lab.folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == ErrorKind::DirectoryNotEmpty
                    && begin.elapsed() < Duration::from_secs(10) =>
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error).with_context(|| format!("cannot remove {folder}")),
        }
    }
}
