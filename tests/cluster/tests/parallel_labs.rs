//! Several labs on one machine, and labs that were killed half-way.

use std::process::{Command, Stdio};
use std::time::Duration;

/// A lab of this test alone.
struct SeparateLab(String);

impl SeparateLab {
    fn command(&self, args: &[&str]) -> Command {
        let xtask = std::env::var("FERROBAND_XTASK").expect("run this by `cargo xtask test cluster`");
        let mut command = Command::new(xtask);
        command.args(["lab", "--name", &self.0]).args(args);
        command
    }

    #[track_caller]
    fn stdout_or_panic(&self, args: &[&str]) -> String {
        let end = self.command(args).output().expect("xtask starts");
        assert!(end.status.success(), "lab {args:?}: {}", String::from_utf8_lossy(&end.stderr));
        String::from_utf8_lossy(&end.stdout).into_owned()
    }

    /// What the machine's own tools still show of it.
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
fn two_labs_live_side_by_side_and_each_goes_alone() {
    let side = SeparateLab(format!("side-{}", std::process::id()));
    let owner = std::process::id().to_string();
    side.stdout_or_panic(&["up", "--node-names", "worker1", "--owner", &owner]);
    assert_eq!(side.stdout_or_panic(&["kubectl", "--", "get", "nodes", "-o", "name"]).trim(), "node/worker1");
    let mine = ferroband_cluster_tests::node_names();
    assert!(!mine.contains(&"worker1".to_string()) && mine.len() >= 2, "{mine:?}");
    assert!(!side.traces().is_empty(), "the check for traces sees nothing of a running lab");
    side.stdout_or_panic(&["down"]);
    side.stdout_or_panic(&["down"]);
    assert_eq!(side.traces(), "");
    ferroband_cluster_tests::run_lab(&["status"]).stdout_or_panic();
}

#[test]
fn a_lab_killed_half_way_goes_without_a_trace() {
    // Cut at several moments of the start: before, between and after the machines' first processes.
    for milliseconds in [150, 600, 1500, 3000] {
        let side = SeparateLab(format!("cut-{}-{milliseconds}", std::process::id()));
        let mut starting = side.command(&["up", "--nodes", "1"]);
        let mut starting = starting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        starting.kill().unwrap();
        starting.wait().unwrap();
        side.stdout_or_panic(&["down"]);
        assert_eq!(side.traces(), "", "killed after {milliseconds} ms");
    }
}

#[test]
fn a_lab_whose_owner_is_killed_goes_by_itself() {
    let side = SeparateLab(format!("orphan-{}", std::process::id()));
    let mut owner = Command::new("sleep").arg("600").spawn().unwrap();
    side.stdout_or_panic(&["up", "--nodes", "1", "--owner", &owner.id().to_string()]);
    owner.kill().unwrap();
    owner.wait().unwrap();
    ferroband_cluster_tests::eventually("the janitor", 30, || match side.traces() {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    });
}
