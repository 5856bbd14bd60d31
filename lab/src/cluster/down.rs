//! Removes a lab in any state: processes, mounts, namespaces, links, cgroups and files.

use super::Lab;
use super::machine::LabMachine;
use crate::progress::run_step;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Removes the lab; does nothing if it does not exist.
pub fn down(lab: &Lab) -> Result<()> {
    crate::tools::require_root()?;
    let machines = find_machines(lab);
    if machines.is_empty() && !lab.folder.exists() {
        eprintln!("  · lab {} does not exist", lab.name());
        return Ok(());
    }
    run_step(format!("removing lab {}", lab.name()), |_| {
        for machine in &machines {
            machine.kill()?;
        }
        for machine in &machines {
            machine.remove_kernel_state()?;
        }
        remove_files(lab)
    })
}

/// All machines in the lab's file, its folders or the kernel: the lab may have been killed during start.
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
    // Exclude machines of labs whose names start with this lab's name and a dash.
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
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mount table")?;
    let folder = lab.folder.to_string_lossy();
    if let Some(line) =
        mounts.lines().find(|l| l.split(' ').nth(4).is_some_and(|at| at.starts_with(&*folder)))
    {
        bail!("cannot remove {folder}: still mounted: {line}");
    }
    // A copy started by a killed `lab up` may still write here until it ends.
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
