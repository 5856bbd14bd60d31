//! Each machine's cgroups: one folder per hierarchy; the kubelet creates the pods' cgroups below it.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MOUNT: &str = "/sys/fs/cgroup";

/// Roots of all hierarchies: one with cgroup v2, one per controller with v1.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let cgroup = |line: &str| {
        let mut words = line.split(' ');
        let (at, kind) = (words.nth(1)?.to_string(), words.next()?.to_string());
        (at.starts_with(MOUNT) && kind.starts_with("cgroup")).then(|| PathBuf::from(at))
    };
    mounts.lines().filter_map(cgroup).collect()
}

/// Creates the folders of `name`. A v1 cpuset is unusable until its CPUs and memory nodes are set.
pub fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let controllers = hierarchy.join("cgroup.controllers");
        if hierarchy == Path::new(MOUNT) && controllers.exists() {
            let all = fs::read_to_string(&controllers).unwrap_or_default();
            let enable: String = all.split_whitespace().map(|c| format!("+{c} ")).collect();
            let _ = fs::write(hierarchy.join("cgroup.subtree_control"), enable.trim());
        }
        let folder = hierarchy.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if hierarchy.join(file).exists() && !hierarchy.join("cgroup.procs").is_dir() {
                let value = fs::read_to_string(hierarchy.join(file)).unwrap_or_default();
                let _ = fs::write(folder.join(file), value.trim());
            }
        }
    }
    Ok(())
}

/// Removes the folders of `name`, deepest first; their processes have been killed.
pub fn remove(name: &str) -> Result<()> {
    let begin = Instant::now();
    loop {
        let left: Vec<PathBuf> = hierarchies()
            .into_iter()
            .map(|h| h.join(name))
            .filter(|f| f.exists() && !remove_tree(f))
            .collect();
        let Some(first) = left.first() else { return Ok(()) };
        if begin.elapsed() > Duration::from_secs(20) {
            let why = fs::remove_dir(first).err().map(|e| e.to_string()).unwrap_or_default();
            anyhow::bail!("cannot remove {}: {why}", first.display());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Removes a cgroup and all cgroups below it; returns whether it is gone.
fn remove_tree(folder: &Path) -> bool {
    if let Ok(entries) = fs::read_dir(folder) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                remove_tree(&entry.path());
            }
        }
    }
    fs::remove_dir(folder).is_ok() || !folder.exists()
}
