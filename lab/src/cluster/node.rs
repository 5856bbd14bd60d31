//! A node: containerd, kubelet and kube-proxy, the lab's images, and a default pod network.

use super::machine::LabMachine;
use super::network::{POD_RANGE, node_address, node_pod_range};
use super::processes::{self, LabProgram};
use super::{Lab, credentials};
use crate::command::output;
use crate::progress::{ProgressStep, wait_until};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Pause image.
pub const PAUSE_IMAGE: &str = "ferroband.lab/pause:1";

/// Starts missing programs on a running node.
pub fn ensure(
    lab: &Lab,
    machine: &LabMachine,
    position: usize,
    images: &[PathBuf],
    step: &mut ProgressStep,
) -> Result<()> {
    write_config(lab, machine, position)?;
    if machine.emulated {
        // The guest mounts the folder that was just written at /lab/host; its own /etc is separate.
        machine.run_script("cp /lab/host/etc/cni/net.d/10-lab.conflist /etc/cni/net.d/")?;
    }
    step.update(format!("{}: containerd", machine.name));
    processes::ensure(machine, &[LabProgram::new("containerd", ["--config", "/etc/lab/containerd.toml"])])?;
    let limit = Duration::from_secs(if machine.emulated { 600 } else { 60 });
    wait_until("containerd", limit, step, || {
        let socket = "test -S /run/containerd/containerd.sock && ctr version >/dev/null 2>&1";
        machine.run_script(socket).map(drop).map_err(|_| format!("{}: waiting for containerd", machine.name))
    })?;
    for image in images {
        import_image(machine, image, step)?;
    }
    let mut programs = vec![kubelet(&machine.name, position)];
    if !machine.emulated {
        programs.push(kube_proxy(&machine.name));
    }
    processes::ensure(machine, &programs)?;
    Ok(())
}

/// Programs that must run on a node.
pub fn required_programs(machine: &LabMachine) -> &'static [&'static str] {
    if machine.emulated { &["containerd", "kubelet"] } else { &["containerd", "kubelet", "kube-proxy"] }
}

/// Imports an image unless the same archive (by size and time) was imported before.
pub fn import_image(machine: &LabMachine, image: &Path, step: &mut ProgressStep) -> Result<()> {
    let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if fs::read_to_string(import_marker(machine, image))
        .is_ok_and(|m| archive_stamp(image).is_ok_and(|s| s == m))
    {
        return Ok(());
    }
    step.update(format!("{}: image {name}", machine.name));
    let mut ctr = machine.command()?;
    ctr.args(["ctr", "-n", "k8s.io", "images", "import", "--local"]);
    if machine.emulated {
        ctr.arg(format!("/lab/images/{name}")).stdin(Stdio::null());
    } else {
        let archive = fs::File::open(image).with_context(|| format!("cannot read {}", image.display()))?;
        ctr.arg("-").stdin(Stdio::from(archive));
    }
    output(&mut ctr)?;
    mark_imported(machine, image)
}

/// Records that an image has been imported.
pub fn mark_imported(machine: &LabMachine, image: &Path) -> Result<()> {
    fs::write(import_marker(machine, image), archive_stamp(image)?).context("cannot record the import")
}

fn import_marker(machine: &LabMachine, image: &Path) -> PathBuf {
    let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    machine.root().join("var/lib/containerd").join(format!("imported-{name}"))
}

/// Size and modification time, which identify a version of an archive.
pub fn archive_stamp(image: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let about = fs::metadata(image).with_context(|| format!("no image archive {}", image.display()))?;
    Ok(format!("{} {}.{}", about.size(), about.mtime(), about.mtime_nsec()))
}

fn write_config(lab: &Lab, machine: &LabMachine, position: usize) -> Result<()> {
    let etc = machine.root().join("etc/lab");
    let secrets = lab.control_machine().root().join("etc/lab");
    fs::copy(secrets.join("ca.crt"), etc.join("ca.crt")).context("cannot copy the CA's certificate")?;
    for (file, who) in [("kubelet", machine.name.as_str()), ("proxy", "proxy")] {
        let text = credentials::kubeconfig(&secrets, who, Path::new("/etc/lab/ca.crt"))?;
        credentials::write_secret(&etc.join(format!("{file}.kubeconfig")), &text)?;
    }
    fs::write(etc.join("containerd.toml"), containerd_config())?;
    // Longer intervals save CPU time on emulated nodes.
    let (status, sync) = if machine.emulated { ("10s", "10s") } else { ("1s", "5s") };
    fs::write(etc.join("kubelet.yaml"), kubelet_config(&machine.netns, status, sync))?;
    fs::write(etc.join("proxy.yaml"), proxy_config())?;
    fs::write(machine.root().join("etc/cni/net.d/10-lab.conflist"), default_network(position))?;
    Ok(())
}

pub fn containerd_config() -> String {
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.btrfs"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
# Without CAP_SYS_RESOURCE oom_score_adj cannot be lowered, and runc would fail.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"
"#
    )
}

fn kubelet_config(cgroup: &str, status: &str, sync: &str) -> String {
    format!(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: /etc/lab/ca.crt}}}}
authorization: {{mode: Webhook}}
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
failCgroupV1: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: []
evictionHard: {{}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
localStorageCapacityIsolation: false
failSwapOn: false
nodeStatusUpdateFrequency: {status}
syncFrequency: {sync}
# Tests kill daemons repeatedly; by default the tenth restart would be delayed by minutes.
featureGates: {{KubeletCrashLoopBackOffMax: true}}
crashLoopBackOff: {{maxContainerRestartPeriod: 2s}}
readOnlyPort: 0
rotateCertificates: false
resolvConf: /etc/resolv.conf
"#
    )
}

fn proxy_config() -> String {
    // Connection tracking limits are global to the host: do not change them.
    format!(
        r#"apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {{kubeconfig: /etc/lab/proxy.kubeconfig}}
clusterCIDR: {POD_RANGE}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
iptables: {{minSyncPeriod: 0s, syncPeriod: 30s}}
"#
    )
}

/// Routed veth pairs (ptp): all traffic passes the node's IP layer, so service IPs work without bridge netfilter.
fn default_network(position: usize) -> String {
    let range = node_pod_range(position);
    format!(
        r#"{{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [
    {{
      "type": "ptp",
      "mtu": 1500,
      "ipam": {{"type": "host-local", "dataDir": "/var/lib/cni/networks", "ranges": [[{{"subnet": "{range}"}}]], "routes": [{{"dst": "0.0.0.0/0"}}]}}
    }},
    {{"type": "portmap", "capabilities": {{"portMappings": true}}}}
  ]
}}
"#
    )
}

fn kubelet(name: &str, position: usize) -> LabProgram {
    LabProgram::new(
        "kubelet",
        [
            "--config=/etc/lab/kubelet.yaml",
            "--kubeconfig=/etc/lab/kubelet.kubeconfig",
            &format!("--hostname-override={name}"),
            &format!("--node-ip={}", node_address(position)),
        ],
    )
}

fn kube_proxy(name: &str) -> LabProgram {
    LabProgram::new("kube-proxy", ["--config=/etc/lab/proxy.yaml", &format!("--hostname-override={name}")])
}
