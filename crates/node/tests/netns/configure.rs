//! The node's adapters brought to what is wanted, on simulated hardware in a network namespace of its own.

use ferroband_kernel::{Hardware, NetnsMode, Root, firmware::query};
use ferroband_model::{PciAddress, ResourceName};
use ferroband_node::{
    caches::{PodOwner, WatchCache},
    configure::{ConfigurationPass, Configurator, DerivedGuids, DesiredNodeConfig, OriginalStateStore},
    pools::{DevicePool, DevicePoolKind},
};
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use kube::runtime::watcher::Event;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::{fs, process::Command, sync::Arc, thread};
use tokio::sync::watch;

const PF: &str = "0000:86:00.0";

struct ConfiguratorFixture {
    folder: tempfile::TempDir,
    desk: Configurator,
    pools: watch::Receiver<Arc<Vec<DevicePool>>>,
}

impl ConfiguratorFixture {
    fn new(profile: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("var/lib/kubelet")).unwrap();
        let node = Self::again(folder, profile);
        fs::create_dir_all(&node.desk.device_plugins_dir).unwrap();
        node
    }

    /// The machine is switched on, and a daemon starts there.
    fn again(folder: tempfile::TempDir, profile: &str) -> Self {
        let root = Root::at(folder.path());
        fs::create_dir_all(root.run("ferroband")).unwrap();
        let options = SimulationOptions { seed: "node-1".to_owned(), uplink: None };
        Simulation::up(&root, Profile::builtin(profile).unwrap(), options).unwrap();
        let hardware: Arc<dyn Hardware> = ferroband_sim::hardware(&root).unwrap().into();
        let (offer, pools) = watch::channel(Arc::default());
        let desk = Configurator {
            original_states: OriginalStateStore::open(hardware.root()).unwrap(),
            firmware: ferroband_sim::firmware(&root).unwrap().into(),
            hardware,
            guids: Arc::new(DerivedGuids {
                cluster: "c".to_owned(),
                node: "node-1".to_owned(),
                guid_file: None,
            }),
            device_plugins_dir: root.path("var/lib/kubelet/device-plugins"),
            pods: Arc::new(WatchCache::<PodOwner>::default()),
            pools: offer,
            prefix: "spidernet.io".to_owned(),
        };
        Self { folder, desk, pools }
    }

    /// What a boot takes is taken, and the machine comes up again.
    fn reboot(self, profile: &str) -> Self {
        let Self { folder, .. } = self;
        fs::remove_dir_all(folder.path().join("run")).unwrap();
        let _ = Command::new("ip").args(["link", "delete", "ibs5f0"]).output();
        Self::again(folder, profile)
    }

    #[track_caller]
    fn settle(&self, spec: Value) -> (ConfigurationPass, Vec<String>) {
        let (look, failures) = self
            .desk
            .converge(&DesiredNodeConfig::from_spec(&serde_json::from_value(spec).unwrap()))
            .unwrap();
        let faults = look.faults.iter().chain(&failures).map(ToString::to_string).collect();
        (look, faults)
    }

    /// Everything below sysfs, by path and content.
    fn machine(&self) -> String {
        let sys = self.folder.path().join("var/lib/ferroband/sim/sys");
        let seen = Command::new("sh")
            .args(["-c", "find . | sort; find . -type f | sort | xargs md5sum"])
            .current_dir(sys)
            .output();
        // Counters of the interfaces and the numbers of what is made anew go on.
        let text = String::from_utf8(seen.unwrap().stdout).unwrap();
        text.lines()
            .filter(|line| !line.contains("counters") && !line.contains("statistics"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn offered(&self) -> Vec<(ResourceName, usize)> {
        let count = |pool: &DevicePool| match &pool.kind {
            DevicePoolKind::Functions(functions) => {
                functions.selectors.iter().map(|s| s.pci_addresses.len()).sum()
            }
            _ => 0,
        };
        self.pools.borrow().iter().map(|pool| (pool.resource.clone(), count(pool))).collect()
    }

    fn hold(&self, vf: &str, uid: &str) {
        let entry = json!({"PodUID": uid, "ContainerName": "c", "ResourceName": "spidernet.io/r", "DeviceIDs": {"0": [vf]}});
        let notes = json!({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1});
        fs::write(self.desk.device_plugins_dir.join("kubelet_internal_checkpoint"), notes.to_string())
            .unwrap();
        let owner = PodOwner { uid: uid.to_owned(), ..PodOwner::default() };
        self.desk.pods.apply(Event::Apply((("default".to_owned(), "holder".to_owned()), Some(owner))));
    }
}

fn spec(count: usize) -> Value {
    json!({"interfaces": [{
        "pciAddress": PF, "numVfs": count, "linkType": "ib",
        "vfGroups": [{"resourceName": "r", "deviceType": "netdevice", "vfRange": format!("0-{}", count - 1), "isRdma": true, "policyName": "p"}],
    }]})
}

/// On a thread with a network namespace of its own.
fn alone(test: impl FnOnce() + Send + 'static) {
    let done = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        test();
    });
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn c43_c45_functions_are_made_once_named_for_good_and_taken_back() {
    alone(|| {
        let node = ConfiguratorFixture::new("default");
        let before = node.machine();
        let (look, faults) = node.settle(spec(12));
        assert_eq!(faults, [] as [&str; 0]);
        let vfs = &look.observed.adapters[0].vfs;
        assert_eq!(vfs.len(), 12);
        let guids: Vec<_> = vfs.iter().map(|vf| vf.guid.unwrap().to_string()).collect();
        assert!(guids.iter().all(|guid| guid.starts_with("02:")), "{guids:?}");
        assert_eq!(node.offered(), [("spidernet.io/r".parse().unwrap(), 12)]);
        // Nothing is written a second time, by another daemon either.
        let made = node.machine();
        let (look, _) = node.settle(spec(12));
        assert!(look.ready.is_empty());
        assert_eq!(node.machine(), made);
        // The same GUIDs when they are made again, and after a boot.
        node.settle(json!({}));
        assert_eq!(node.machine(), before, "deleting the policy returns the node to the start");
        assert_eq!(node.offered(), []);
        let node = node.reboot("default");
        let (look, _) = node.settle(spec(12));
        let again: Vec<_> =
            look.observed.adapters[0].vfs.iter().map(|vf| vf.guid.unwrap().to_string()).collect();
        assert_eq!(guids, again);
        let status = &look.observed.adapters[0].status;
        assert_eq!(
            (status.link_type.as_deref(), status.total_vfs, status.num_vfs),
            (Some("IB"), Some(16), Some(12))
        );
        assert_eq!(status.vfs[3].guid.as_deref(), Some(again[3].as_str()), "told as sysfs has it");
    });
}

#[test]
fn c44_holders_keep_their_functions_until_they_are_gone() {
    alone(|| {
        let node = ConfiguratorFixture::new("default");
        node.settle(spec(8));
        node.hold("0000:86:00.7", "u1"); // function 5
        // Fewer: nothing is touched, nobody has to go.
        let made = node.machine();
        let (look, _) = node.settle(spec(4));
        assert!(look.holders.is_empty());
        assert_eq!((node.machine(), node.offered()[0].1), (made.clone(), 4));
        // More: the holder has to, and meanwhile nobody gets one.
        let (look, _) = node.settle(spec(12));
        assert_eq!(
            look.holders.iter().map(|h| (h.name.as_str(), h.devices.len())).collect::<Vec<_>>(),
            [("holder", 1)]
        );
        assert_eq!((node.machine(), node.offered()), (made, vec![]));
        // It is gone, though the kubelet's notes still have it.
        node.desk.pods.apply(Event::Delete((("default".to_owned(), "holder".to_owned()), None)));
        let (look, _) = node.settle(spec(12));
        assert_eq!((look.observed.adapters[0].vfs.len(), node.offered()[0].1), (12, 12));
    });
}

#[test]
fn c45_another_daemon_finds_what_was_begun_and_goes_on() {
    alone(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        // Killed after the functions were made, before their GUIDs were given.
        let wanted = DesiredNodeConfig::from_spec(&serde_json::from_value(spec(4)).unwrap());
        let look = node.desk.prepare(&wanted).unwrap();
        node.desk.apply_ready(&look);
        assert_eq!(node.desk.prepare(&wanted).unwrap().observed.adapters[0].vfs.len(), 4);
        // And in the middle of one: without a driver.
        node.desk.hardware.unbind_driver("0000:86:00.3".parse().unwrap()).unwrap();
        assert_eq!(node.offered(), [], "nothing half-made is offered");
        let (look, faults) = node.settle(spec(4));
        assert_eq!(faults, [] as [&str; 0]);
        assert!(look.observed.adapters[0].vfs.iter().all(|vf| vf.driver.is_some() && vf.guid.is_some()));
        // Killed after the functions were taken away, before the record was.
        node.desk.hardware.set_vf_count(pf, 0).unwrap();
        node.settle(json!({}));
        assert!(node.desk.original_states.read_all().unwrap().is_empty());
    });
}

#[test]
fn c50_c55_guids_that_somebody_took_and_drivers_that_somebody_changed() {
    alone(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        node.settle(spec(2));
        let kind = [ferroband_kernel::rtnetlink::GuidKind::Node, ferroband_kernel::rtnetlink::GuidKind::Port];
        for kind in kind {
            node.desk.hardware.set_vf_guid(pf, 0, kind, ferroband_model::Guid::new(0)).unwrap();
        }
        let vf: PciAddress = "0000:86:00.2".parse().unwrap();
        node.desk.hardware.unbind_driver(vf).unwrap();
        node.desk.hardware.probe_driver(vf).unwrap();
        assert_eq!(
            node.desk
                .prepare(&DesiredNodeConfig::from_spec(&serde_json::from_value(spec(2)).unwrap()))
                .unwrap()
                .ready
                .len(),
            1
        );
        let (look, _) = node.settle(spec(2));
        assert!(look.observed.adapters[0].vfs[0].guid.is_some_and(|guid| !guid.is_unset()));
    });
}

#[test]
fn never_touched_unless_selected() {
    alone(|| {
        let node = ConfiguratorFixture::new("connectx-6");
        let pf: PciAddress = "0000:d8:00.0".parse().unwrap();
        node.desk.hardware.set_vf_count(pf, 3).unwrap();
        let before = node.machine();
        let (look, _) = node.settle(json!({}));
        assert_eq!(look.observed.adapters.len(), 2);
        assert_eq!((node.machine(), node.desk.original_states.read_all().unwrap().len()), (before, 0));
    });
}

#[test]
fn c46_c56_c58_more_functions_and_another_link_by_way_of_the_firmware() {
    alone(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        let (look, faults) = node.settle(spec(32));
        assert_eq!((look.reboot.len(), faults.len()), (1, 0), "{faults:?}");
        assert!(look.observed.adapters[0].vfs.is_empty());
        let now = query(node.desk.firmware.as_ref(), pf).unwrap();
        assert_eq!((now["NUM_OF_VFS"].current.as_str(), now["NUM_OF_VFS"].next.as_str()), ("16", "32"));
        let node = node.reboot("default");
        let (look, faults) = node.settle(spec(32));
        assert_eq!(
            (look.reboot.len(), faults.len(), look.observed.adapters[0].vfs.len()),
            (0, 0, 32),
            "{faults:?}"
        );
        // Left out, the firmware says nothing, and the numbers are named.
        let mut without = spec(64);
        without["system"] = json!({"disablePlugins": ["mellanox"]});
        let (_, faults) = node.settle(without);
        assert!(faults[0].contains("64") && faults[0].contains("32"), "{faults:?}");
        node.settle(json!({}));
        let mut ethernet = spec(4);
        ethernet["interfaces"][0]["linkType"] = json!("ETH");
        let (look, _) = node.settle(ethernet.clone());
        assert_eq!(look.reboot, ["firmware of 0000:86:00.0"]);
        let node = node.reboot("default");
        let (look, _) = node.settle(ethernet);
        assert_eq!(
            (look.reboot.len(), look.observed.adapters[0].status.link_type.as_deref()),
            (0, Some("ETH"))
        );
    });
}

#[test]
fn c63_the_rdma_mode_is_changed_once_and_kept() {
    alone(|| {
        let node = ConfiguratorFixture::new("default");
        let wanted = json!({"system": {"rdmaMode": "exclusive"}});
        let (_, faults) = node.settle(wanted.clone());
        assert_eq!(faults, [] as [&str; 0]);
        assert_eq!(node.desk.hardware.rdma_netns_mode().unwrap(), NetnsMode::Exclusive);
        let options = node.folder.path().join("etc/modprobe.d/ferroband.conf");
        assert_eq!(fs::read_to_string(&options).unwrap(), "options ib_core netns_mode=0\n");
        let (look, _) = node.settle(wanted);
        assert!(look.reboot.is_empty());
        node.settle(json!({}));
        assert!(!options.exists());
    });
}

/// The kernel that runs this test has no RDMA; that of the `vm` tier has.
#[test]
fn c64_a_host_without_ib_core_has_no_mode_and_other_work_goes_on() {
    if ferroband_kernel::RdmaSocket::open().is_ok() {
        return;
    }
    alone(|| {
        let mut node = ConfiguratorFixture::new("ethernet");
        let root = node.desk.hardware.root().clone();
        fs::remove_dir_all(root.sys("class/infiniband")).unwrap();
        node.desk.hardware = Arc::new(ferroband_kernel::LinuxHost::new(root));
        let survey = node.desk.prepare(&DesiredNodeConfig::default()).unwrap().observed;
        let (adapter, interface) = survey
            .adapters
            .iter()
            .find_map(|adapter| Some((adapter.pci, adapter.interface.clone()?)))
            .expect("an adapter");
        assert_eq!(survey.rdma_mode, None);
        // The mode that nobody can give is passed over, the MTU is set.
        let mtu = interface.mtu + 100;
        let (look, faults) = node.settle(json!({
            "system": {"rdmaMode": "exclusive"},
            "interfaces": [{"pciAddress": adapter.to_string(), "numVfs": 0, "mtu": mtu}],
        }));
        assert_eq!((look.observed.rdma_mode, look.reboot.len()), (None, 0));
        assert_eq!(faults, [] as [&str; 0]);
        let now = look.observed.adapters.into_iter().find(|one| one.pci == adapter).unwrap().interface;
        assert_eq!(now.map(|interface| interface.mtu), Some(mtu));
        assert!(!node.folder.path().join("etc/modprobe.d/ferroband.conf").exists());
    });
}
