//! Several labs on one machine, and labs killed during start.

use ferroband_cluster_tests::{lab_cli, lab_program};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A lab of one test, taken down on drop.
struct SeparateLab(String);

impl SeparateLab {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(lab_program());
        command.args(["lab", "--name", &self.0]).args(args);
        command
    }

    #[track_caller]
    fn stdout_or_panic(&self, args: &[&str]) -> String {
        let end = self.command(args).output().expect("the lab program starts");
        assert!(end.status.success(), "lab {args:?}: {}", String::from_utf8_lossy(&end.stderr));
        String::from_utf8_lossy(&end.stdout).into_owned()
    }

    /// Namespaces, mounts, cgroups and processes of the lab on the host.
    fn traces(&self) -> String {
        let script = format!(
            "ip netns | grep -F fblab-{0}; mount | grep -F -e fblab-{0} -e labs/{0}/; \
             ls -d /sys/fs/cgroup/fblab-{0}* /sys/fs/cgroup/*/fblab-{0}* 2>/dev/null; \
             ps -eo pid,args | grep -F labs/{0}/ | grep -v grep; true",
            self.0
        );
        let shown = Command::new("sh").args(["-c", &script]).output().expect("sh starts");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }
}

impl Drop for SeparateLab {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).output();
    }
}

#[test]
fn two_labs_run_in_parallel_and_are_removed_separately() {
    let lab = SeparateLab(format!("side-{}", std::process::id()));
    let owner = std::process::id().to_string();
    lab.stdout_or_panic(&["up", "--node-names", "worker1", "--owner", &owner]);
    assert_eq!(lab.stdout_or_panic(&["kubectl", "--", "get", "nodes", "-o", "name"]).trim(), "node/worker1");
    let nodes = ferroband_cluster_tests::node_names();
    assert!(!nodes.contains(&"worker1".to_string()) && nodes.len() >= 2, "{nodes:?}");
    assert!(!lab.traces().is_empty(), "the check finds no traces of a running lab");
    lab.stdout_or_panic(&["down"]);
    lab.stdout_or_panic(&["down"]);
    assert_eq!(lab.traces(), "");
    assert!(lab_cli(&["status"]).output().expect("the lab program starts").status.success());
}

#[test]
fn lab_killed_during_start_is_removed_without_a_trace() {
    // Killed at several points of the start: before, between and after the machines' init processes.
    for milliseconds in [150, 600, 1500, 3000] {
        let lab = SeparateLab(format!("cut-{}-{milliseconds}", std::process::id()));
        let mut starting = lab.command(&["up", "--nodes", "1"]);
        let mut starting = starting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        starting.kill().unwrap();
        starting.wait().unwrap();
        lab.stdout_or_panic(&["down"]);
        assert_eq!(lab.traces(), "", "killed after {milliseconds} ms");
    }
}

#[test]
fn lab_is_removed_when_its_owner_is_killed() {
    let lab = SeparateLab(format!("orphan-{}", std::process::id()));
    let mut owner = Command::new("sleep").arg("600").spawn().unwrap();
    lab.stdout_or_panic(&["up", "--nodes", "1", "--owner", &owner.id().to_string()]);
    owner.kill().unwrap();
    owner.wait().unwrap();
    ferroband_cluster_tests::eventually("the janitor removes the lab", 30, || match lab.traces() {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    });
}
