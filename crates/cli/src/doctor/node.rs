//! Checks of this node: daemon, container runtime, kubelet and hardware.

use super::finding::DoctorFinding;
use ferroband_kernel::Root;
use ferroband_node::{discover::Inventory, install::ConflistRemoval, readiness};
use std::fs;
use std::os::unix::net::UnixStream;

/// File name of Ferroband's CNI configuration in /etc/cni/net.d.
const CONFLIST_NAME: &str = "00-ferroband.conflist";

/// Runs all checks of the host whose file system is mounted at `root`.
pub fn check(root: &Root) -> Vec<DoctorFinding> {
    let mut findings = vec![daemon(root), configuration(root), program(root)];
    findings.extend(["device-plugins", "pod-resources"].map(|folder| kubelet(root, folder)));
    findings.extend(pending_releases(root));
    findings.extend(hardware(root));
    findings
}

fn daemon(root: &Root) -> DoctorFinding {
    match readiness::check(root) {
        Ok(()) => DoctorFinding::ok("node daemon", "ready"),
        Err(fault) => DoctorFinding::problem("node daemon", &fault.cause, &fault.remedy),
    }
}

/// Checks that Ferroband's CNI configuration is the first one in lexical order, which is the one that container
/// runtimes use.
fn configuration(root: &Root) -> DoctorFinding {
    let folder = root.path("etc/cni/net.d");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| [".conf", ".conflist", ".json"].iter().any(|ending| name.ends_with(ending)))
        .collect();
    names.sort();
    if !names.iter().any(|name| name == CONFLIST_NAME)
        && let Some(removal) = ConflistRemoval::find_renamed(&folder)
    {
        return DoctorFinding::problem("CNI configuration", removal.cause, removal.remedy);
    }
    match names.first().map(String::as_str) {
        Some(CONFLIST_NAME) => DoctorFinding::ok(
            "CNI configuration",
            format!("{CONFLIST_NAME} is the first of {} files", names.len()),
        ),
        Some(other) if names.iter().any(|name| name == CONFLIST_NAME) => DoctorFinding::problem(
            "CNI configuration",
            format!("{other} sorts before {CONFLIST_NAME}, so the runtime uses it instead"),
            format!("rename {} so that it sorts after 00-ferroband", folder.join(other).display()),
        ),
        Some(other) => DoctorFinding::problem(
            "CNI configuration",
            format!("{CONFLIST_NAME} is missing; the runtime uses {other}"),
            "check the log of the node daemon, which writes the file once it knows the default network",
        ),
        None => DoctorFinding::problem(
            "CNI configuration",
            format!("no configuration file in {}", folder.display()),
            "install the cluster's default network (Calico, Cilium, flannel, …), which Ferroband wraps",
        ),
    }
}

fn program(root: &Root) -> DoctorFinding {
    let path = root.path("opt/cni/bin/ferroband");
    match path.is_file() {
        true => DoctorFinding::ok("CNI program", path.display().to_string()),
        false => DoctorFinding::problem(
            "CNI program",
            format!("{} is missing", path.display()),
            "check the log of the node daemon, which installs it, and the runtime's CNI directory",
        ),
    }
}

fn kubelet(root: &Root, folder: &str) -> DoctorFinding {
    let (check, path) =
        (format!("kubelet {folder}"), root.path("var/lib/kubelet").join(folder).join("kubelet.sock"));
    match UnixStream::connect(&path) {
        Ok(_) => DoctorFinding::ok(check, "socket accepts connections"),
        Err(error) => DoctorFinding::problem(
            check,
            format!("{}: {error}", path.display()),
            "check that the kubelet runs; its directory must be /var/lib/kubelet",
        ),
    }
}

/// Reports pending releases: pods were deleted while the daemon was down, and their addresses are not released yet.
fn pending_releases(root: &Root) -> Option<DoctorFinding> {
    let count = fs::read_dir(root.state("owed")).into_iter().flatten().flatten().count();
    (count > 0).then(|| {
        let observed = format!("{count} attachments of deleted pods are not released yet");
        DoctorFinding::note(
            "pending releases",
            observed,
            "the node daemon releases them when it reaches the API server; if they remain, check its log",
        )
    })
}

fn hardware(root: &Root) -> Vec<DoctorFinding> {
    let read = ferroband_sim::hardware(root).map_err(anyhow::Error::from).and_then(|host| {
        let _ = host.refresh();
        Ok(Inventory::read(host.root(), host.is_simulated())?)
    });
    match read {
        Ok(inventory) => check_inventory(&inventory),
        Err(error) => {
            vec![DoctorFinding::problem(
                "hardware",
                format!("{error:#}"),
                "check that /sys is the host's sysfs",
            )]
        }
    }
}

/// Checks that there are RDMA devices and that their ports are active.
pub fn check_inventory(inventory: &Inventory) -> Vec<DoctorFinding> {
    if inventory.devices.is_empty() {
        let remedy =
            "no action needed without an adapter; otherwise load its driver: modprobe mlx5_ib ib_ipoib";
        return vec![DoctorFinding::note("hardware", "no RDMA devices", remedy)];
    }
    let mode = match inventory.exclusive {
        Some(true) => "exclusive: each RDMA device belongs to one network namespace",
        Some(false) => "shared: every pod with the device files can use every device",
        None => "unknown: the kernel does not report the RDMA netns mode",
    };
    let mut findings = vec![DoctorFinding::ok("RDMA namespaces", mode)];
    for device in &inventory.devices {
        if let Some(error) = &device.error {
            findings.push(DoctorFinding::problem(
                format!("device {}", device.name),
                error,
                "look for errors of the adapter in the kernel log; reset the adapter, or reboot the node",
            ));
        }
        let virtual_function =
            device.pci.as_deref().and_then(|pci| inventory.function(pci)).is_some_and(|f| f.pf.is_some());
        for port in device.ports.iter().filter(|port| port.link_layer.as_deref() == Some("InfiniBand")) {
            let check = format!("port {}/{}", device.name, port.number);
            let manager = port.sm_lid.unwrap_or_default();
            if port.state != "Active" {
                let remedy =
                    "check the cable and the switch; if it is Initializing, check the subnet manager";
                // The port of a virtual function is down while no pod uses it, so this is only a note.
                findings.push(match virtual_function {
                    true => DoctorFinding::note(check, &port.state, "no action needed unless a pod uses it"),
                    false => DoctorFinding::problem(check, &port.state, remedy),
                });
            } else if manager == 0 {
                let remedy = "start a subnet manager on the fabric (opensm, UFM, or on a switch)";
                findings.push(DoctorFinding::problem(
                    check,
                    "Active, but no subnet manager has configured it",
                    remedy,
                ));
            } else {
                let rate = port.rate.as_deref().unwrap_or("unknown rate");
                findings.push(DoctorFinding::ok(
                    check,
                    format!("Active, {rate}, subnet manager at LID {manager}"),
                ));
            }
        }
    }
    findings
}
