//! A host with simulated adapters, and what there is to see of them.

use crate::stage::{PodNetnsFixture, host_ip, invocation};
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

/// The adapter, and two of its functions.
pub const PF: &str = "0000:86:00.0";
pub const VF0: &str = "0000:86:00.2";
pub const VF1: &str = "0000:86:00.3";

/// A host whose adapter has four functions, each with GUIDs of its own.
pub struct SimHostFixture {
    pub root: Root,
    pub hardware: Box<dyn Hardware>,
    folder: tempfile::TempDir,
}

/// Everything that a call could have changed and must have put back.
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
    /// One fact a line, so that two are easily compared.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { links, rules, routes, vfs, active_guids: taken_on, drivers, files } = self;
        links.iter().try_for_each(|link| writeln!(f, "{link}"))?;
        writeln!(f, "{rules}\n{routes}\n{drivers:?}\n{files:?}")?;
        vfs.iter().try_for_each(|vf| writeln!(f, "{vf:?}"))?;
        taken_on.iter().try_for_each(|device| writeln!(f, "{device:?}"))
    }
}

impl SimHostFixture {
    /// Stays for the rest of the calling thread.
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
        let rack = Self { root, hardware, folder };
        rack.hardware.set_vf_count(pci(PF), 4).unwrap();
        for vf in 0..4 {
            rack.set_guids(
                vf,
                guid(0x0200_0000_0000_0100 + u64::from(vf)),
                guid(0x0200_0000_0000_0200 + u64::from(vf)),
            );
        }
        rack
    }

    /// Node and port GUID of a function, taken on.
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

    /// The name of the only interface of a function in the host.
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

    /// An IPAM plugin that holds a lease from ADD to DEL.
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

    pub fn call(&self, command: &str, of: (&str, &str), netns: &str, config: &Value) -> Invocation {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p;K8S_POD_UID=u-1";
        let path = format!("{}:/usr/lib/cni", self.path("bin").display());
        invocation(command, of, netns, (args, &path), config)
    }

    pub fn run(
        &self,
        role: PluginType,
        command: &str,
        of: (&str, &str),
        netns: &str,
        config: &Value,
    ) -> Result<Value, Error> {
        self.run_on(&self.context(), role, &self.call(command, of, netns, config))
    }

    pub fn run_on(
        &self,
        machine: &CniContext<'_>,
        role: PluginType,
        call: &Invocation,
    ) -> Result<Value, Error> {
        let mut out = Vec::new();
        ferroband_attach::run(machine, role, call, &mut out)?;
        Ok(if out.is_empty() { Value::Null } else { serde_json::from_slice(&out).unwrap() })
    }

    /// What is to be seen, by `ip -j` and the adapter.
    pub fn snapshot(&self) -> HostSnapshot {
        let links = host_ip(&["-d", "link", "show"]);
        let shown = |link: &Value| {
            let mut altnames: Vec<_> =
                link["altnames"].as_array().into_iter().flatten().map(Value::to_string).collect();
            altnames.sort();
            let up = link["flags"].as_array().unwrap().contains(&json!("UP"));
            json!([link["ifname"], altnames, link["mtu"], up, link["ifalias"]])
        };
        let mut links: Vec<_> = links.as_array().unwrap().iter().map(shown).collect();
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

    /// All files of ours, and what plugins hold.
    fn files(&self) -> Vec<PathBuf> {
        let kept = ["journal", "device", "owed"].map(|name| self.root.state(name));
        let folders = kept.into_iter().chain([self.root.run("ferroband/lock")]);
        let others = ["leases", "var/lib/cni/ib-sriov", "var/lib/cni/rdma"].map(|name| self.path(name));
        let entries = folders.chain(others).flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The names of the RDMA devices that a pod, or the host, has.
    pub fn rdma_devices(&self, pod: Option<&PodNetnsFixture>) -> Vec<String> {
        let netns = pod.map(|pod| pod.netns.as_ref().unwrap());
        let mut names: Vec<_> =
            self.hardware.rdma_devices(netns).unwrap().into_iter().map(|device| device.name).collect();
        // One that was away is the last.
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

/// A configuration of `ib-sriov` with more than the least.
pub fn ib_sriov_config(more: Value) -> Value {
    let mut config = json!({"cniVersion": "1.1.0", "name": "ib", "type": "ib-sriov", "deviceID": VF0});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}
