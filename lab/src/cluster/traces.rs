//! Finds kernel state, files and processes that a lab left behind after `lab down`.

use super::Lab;
use std::fs;
use std::path::Path;

/// Namespaces, cgroups, folders, mounts and processes with the lab's name.
pub fn find_traces(lab: &Lab) -> Vec<String> {
    let prefix = lab.name_prefix();
    let mut left = Vec::new();
    let of_lab = |name: &str| name == prefix || name.starts_with(&format!("{prefix}-"));
    for folder in [Path::new("/run/netns"), Path::new("/sys/fs/cgroup")] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if of_lab(&entry.file_name().to_string_lossy()) {
                left.push(entry.path().display().to_string());
            }
            // One level down: the hierarchies of cgroup v1.
            for below in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                if folder.ends_with("cgroup") && of_lab(&below.file_name().to_string_lossy()) {
                    left.push(below.path().display().to_string());
                }
            }
        }
    }
    let folder = lab.folder.to_string_lossy().into_owned();
    if lab.folder.exists() {
        left.push(folder.clone());
    }
    for line in fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines() {
        if line.contains(&folder) || line.contains(&format!("/{prefix}")) {
            left.push(format!("mount {line}"));
        }
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&words).replace('\0', " ");
        if line.contains(&format!("{folder}/")) {
            left.push(format!("process {pid}: {line}"));
        }
    }
    left
}
