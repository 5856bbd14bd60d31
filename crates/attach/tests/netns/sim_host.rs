//! A host with simulated adapters.

use crate::fixture::{PodNetnsFixture, host_ip, invocation};
use ferroband_attach::{CallTimeouts, CniContext, Error, Invocation, PluginType};
use ferroband_kernel::rtnetlink::{GuidKind, VfInfo};
use ferroband_kernel::{Hardware, NetnsMode, Root};
use ferroband_model::{Guid, PciAddress};
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::fmt;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

/// PCI addresses of the physical function and of two VFs.
pub const PF: &str = "0000:86:00.0";
pub const VF0: &str = "0000:86:00.2";
pub const VF1: &str = "0000:86:00.3";

/// A host whose adapter has four VFs, each with its own GUIDs.
pub struct SimHostFixture {
    pub root: Root,
    pub hardware: Box<dyn Hardware>,
    folder: tempfile::TempDir,
}

/// Everything that a call may change and must restore.
#[derive(Clone, PartialEq)]
pub struct HostSnapshot {
    links: Vec<Value>,
    rules: Value,
    routes: Value,
    vfs: Vec<VfInfo>,
    active_guids: Vec<(String, Option<Guid>, Vec<Option<Guid>>)>,
    drivers: Vec<Option<String>>,
    files: Vec<PathBuf>,
}

impl fmt::Debug for HostSnapshot {
    /// One fact per line, so that two snapshots are easy to compare.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { links, rules, routes, vfs, active_guids: taken_on, drivers, files } = self;
        links.iter().try_for_each(|link| writeln!(f, "{link}"))?;
        writeln!(f, "{rules}\n{routes}\n{drivers:?}\n{files:?}")?;
        vfs.iter().try_for_each(|vf| writeln!(f, "{vf:?}"))?;
        taken_on.iter().try_for_each(|device| writeln!(f, "{device:?}"))
    }
}

impl SimHostFixture {
    /// Moves the calling thread into a new network namespace. The thread stays there.
    pub fn new(mode: NetnsMode) -> Self {
        Self::with_profile(|profile| profile.netns_mode = mode)
    }

    pub fn with_profile(change: impl FnOnce(&mut Profile)) -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("these tests need root");
        let folder = tempfile::tempdir().unwrap();
        symlink("/proc", folder.path().join("proc")).unwrap();
        for name in ["bin", "leases"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let root = Root::at(folder.path());
        let mut profile = Profile::default();
        change(&mut profile);
        let options = SimulationOptions { seed: "node-1".into(), uplink: None };
        Simulation::up(&root, profile, options).unwrap();
        let hardware = ferroband_sim::hardware(&root).unwrap();
        let host = Self { root, hardware, folder };
        host.hardware.set_vf_count(pci(PF), 4).unwrap();
        for vf in 0..4 {
            host.set_guids(
                vf,
                guid(0x0200_0000_0000_0100 + u64::from(vf)),
                guid(0x0200_0000_0000_0200 + u64::from(vf)),
            );
        }
        host
    }

    /// Set node and port GUID of a VF and rebind it.
    pub fn set_guids(&self, vf: u32, node: Guid, port: Guid) {
        self.hardware.set_vf_guid(pci(PF), vf, GuidKind::Node, node).unwrap();
        self.hardware.set_vf_guid(pci(PF), vf, GuidKind::Port, port).unwrap();
        let function = self.vf_address(vf);
        self.hardware.unbind_driver(function).unwrap();
        self.hardware.probe_driver(function).unwrap();
    }

    pub fn vf_address(&self, vf: u32) -> PciAddress {
        pci(PF).offset_by(2 + u16::try_from(vf).unwrap()).unwrap()
    }

    /// Name of a function's interface in the host.
    pub fn vf_interface(&self, function: &str) -> Option<String> {
        let links = self.hardware.interfaces(pci(function), None).unwrap();
        links.into_iter().next().map(|link| link.name)
    }

    pub fn context(&self) -> CniContext<'_> {
        let patience = CallTimeouts {
            daemon_connect: Duration::from_millis(300),
            best_effort: Duration::from_millis(500),
            daemon_reply: Duration::from_secs(20),
            lock: Duration::from_secs(20),
            ipv6_dad: Duration::from_secs(5),
            device_ready: Duration::from_secs(5),
        };
        CniContext { timeouts: patience, ..CniContext::with_hardware(&self.root, self.hardware.as_ref()) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Install an IPAM plugin that holds a lease from ADD to DEL.
    pub fn install_ipam_script(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        let leases = self.path("leases");
        fs::write(
            &file,
            format!(
                "#!/bin/sh\nIN=$(cat)\nlease={}/$CNI_CONTAINERID-$CNI_IFNAME\n\
                 case $CNI_COMMAND in ADD) {script} touch $lease; echo '{}';; DEL) rm -f $lease;; esac\n",
                leases.display(),
                json!({"cniVersion": "1.0.0", "ips": [{"address": "10.9.0.7/24", "gateway": "10.9.0.1"}],
                    "routes": [{"dst": "10.20.0.0/16"}], "dns": {"nameservers": ["10.9.0.53"]}}),
            ),
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn call(&self, command: &str, attachment: (&str, &str), netns: &str, config: &Value) -> Invocation {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p;K8S_POD_UID=u-1";
        let path = format!("{}:/usr/lib/cni", self.path("bin").display());
        invocation(command, attachment, netns, (args, &path), config)
    }

    pub fn run(
        &self,
        plugin_type: PluginType,
        command: &str,
        attachment: (&str, &str),
        netns: &str,
        config: &Value,
    ) -> Result<Value, Error> {
        self.run_on(&self.context(), plugin_type, &self.call(command, attachment, netns, config))
    }

    pub fn run_on(
        &self,
        context: &CniContext<'_>,
        plugin_type: PluginType,
        call: &Invocation,
    ) -> Result<Value, Error> {
        let mut out = Vec::new();
        ferroband_attach::run(context, plugin_type, call, &mut out)?;
        Ok(if out.is_empty() { Value::Null } else { serde_json::from_slice(&out).unwrap() })
    }

    /// The current state, from `ip -j` and the adapter.
    pub fn snapshot(&self) -> HostSnapshot {
        let links = host_ip(&["-d", "link", "show"]);
        let summary = |link: &Value| {
            let mut altnames: Vec<_> =
                link["altnames"].as_array().into_iter().flatten().map(Value::to_string).collect();
            altnames.sort();
            let up = link["flags"].as_array().unwrap().contains(&json!("UP"));
            json!([link["ifname"], altnames, link["mtu"], up, link["ifalias"]])
        };
        let mut links: Vec<_> = links.as_array().unwrap().iter().map(summary).collect();
        links.sort_by_key(Value::to_string);
        let root = self.hardware.root();
        let devices = ferroband_kernel::sysfs::infiniband::devices(root).unwrap();
        let taken_on = devices.into_iter().map(|device| {
            (device.name, device.node_guid, device.ports.iter().map(|port| port.guid).collect())
        });
        let driver = |vf| {
            let function = ferroband_kernel::sysfs::pci::function(root, self.vf_address(vf)).unwrap();
            function.unwrap().driver
        };
        HostSnapshot {
            links,
            rules: host_ip(&["rule", "show"]),
            routes: host_ip(&["-4", "route", "show", "table", "all"]),
            vfs: self.hardware.vfs(pci(PF)).unwrap(),
            active_guids: taken_on.collect(),
            drivers: (0..4).map(driver).collect(),
            files: self.files(),
        }
    }

    /// Ferroband's state files and the plugins' leases.
    fn files(&self) -> Vec<PathBuf> {
        let state = ["journal", "device", "owed"].map(|name| self.root.state(name));
        let folders = state.into_iter().chain([self.root.run("ferroband/lock")]);
        let others = ["leases", "var/lib/cni/ib-sriov", "var/lib/cni/rdma"].map(|name| self.path(name));
        let entries = folders.chain(others).flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Names of the RDMA devices of a pod or of the host.
    pub fn rdma_devices(&self, pod: Option<&PodNetnsFixture>) -> Vec<String> {
        let netns = pod.map(|pod| pod.netns.as_ref().unwrap());
        let mut names: Vec<_> =
            self.hardware.rdma_devices(netns).unwrap().into_iter().map(|device| device.name).collect();
        // A device that was moved and returned is listed last, so sort the names.
        names.sort();
        names
    }
}

pub fn pci(text: &str) -> PciAddress {
    text.parse().unwrap()
}

pub fn guid(value: u64) -> Guid {
    Guid::new(value)
}

/// An `ib-sriov` configuration with additional keys.
pub fn ib_sriov_config(more: Value) -> Value {
    let mut config = json!({"cniVersion": "1.1.0", "name": "ib", "type": "ib-sriov", "deviceID": VF0});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}
