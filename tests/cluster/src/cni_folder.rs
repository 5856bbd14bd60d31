//! Stand-ins for daemons of other networks. Each does to a node's /etc/cni/net.d what the original does.

use crate::exec_on;

/// Cilium with `cni.exclusive=true`, its default: renames every configuration that is not its own.
pub const CILIUM: &str = "for f in *.conf *.conflist *.json; do \
    if [ -e \"$f\" ] && [ \"$f\" != 05-cilium.conflist ]; then mv \"$f\" \"$f.cilium_bak\"; fi; done";
/// Calico: replaces its own file with one that has a new token, by a rename.
pub const CALICO: &str = "sed \"s/\\\"cniVersion\\\"/\\\"token\\\": \\\"$(date +%s)\\\", &/\" /run/own-network > .calico; \
    mv .calico 10-lab.conflist";
/// flannel: copies its own file in place.
pub const FLANNEL: &str = "cp /run/own-network 10-lab.conflist";
/// Multus' daemon with its default `multusConfigFile=auto`: wraps the first configuration that is not its own.
pub const MULTUS: &str = "first=$(ls *.conf *.conflist | grep -v multus | head -n 1); \
    printf '{\"cniVersion\":\"0.3.1\",\"name\":\"multus-cni-network\",\"type\":\"multus\",\"delegates\":[%s]}' \
    \"$(cat \"$first\")\" > .multus; mv .multus 00-multus.conf";

/// A stand-in that repeats its step five times a second. Dropping it stops it and restores the folder.
#[derive(Debug)]
pub struct CniFolderDaemon {
    node: String,
}

impl CniFolderDaemon {
    #[track_caller]
    pub fn start(node: &str, step: &str) -> Self {
        let daemon = Self { node: node.to_owned() };
        let script = format!(
            "cp /etc/cni/net.d/10-lab.conflist /run/own-network\n\
             cat > /run/cni-folder.sh <<'END'\n\
             cd /etc/cni/net.d\necho $$ > /run/cni-folder.pid\n\
             while :; do\n{step}\nsleep 0.2\ndone\nEND\n\
             setsid sh /run/cni-folder.sh < /dev/null > /dev/null 2>&1 &"
        );
        exec_on(node, &script).stdout_or_panic();
        daemon
    }
}

impl Drop for CniFolderDaemon {
    fn drop(&mut self) {
        let script = "kill $(cat /run/cni-folder.pid); cd /etc/cni/net.d; cp /run/own-network 10-lab.conflist; \
                      rm -f 05-cilium.conflist 00-multus.conf .calico .multus 10-lab.conflist.cilium_bak";
        let stopped = exec_on(&self.node, script);
        if !stopped.ok && !std::thread::panicking() {
            panic!("cannot stop the stand-in on {}: {}", self.node, stopped.err);
        }
    }
}
