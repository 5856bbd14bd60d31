//! Tests the configuration of adapters on simulated hardware. Each test runs in its own network namespace.

use ferroband_kernel::{Hardware, NetnsMode, Root, firmware::query, rtnetlink::GuidKind};
use ferroband_model::{Guid, LinkLayer, PciAddress, ResourceName};
use ferroband_node::{
    caches::{PodOwner, WatchCache},
    configure::{
        Action, ConfigurationPass, Configurator, DerivedGuids, DesiredNodeConfig, OriginalStateStore,
    },
    partition::GuidLease,
    pools::{DevicePool, DevicePoolKind},
};
use ferroband_sim::{Profile, Simulation, SimulationOptions};
use kube::runtime::watcher::Event;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Command, sync::Arc, thread};
use tokio::sync::watch;

const PF: &str = "0000:86:00.0";

struct ConfiguratorFixture {
    folder: tempfile::TempDir,
    configurator: Configurator,
    pools: watch::Receiver<Arc<Vec<DevicePool>>>,
}

impl ConfiguratorFixture {
    fn new(profile: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("var/lib/kubelet")).unwrap();
        let node = Self::boot(folder, profile);
        fs::create_dir_all(&node.configurator.device_plugins_dir).unwrap();
        node
    }

    /// Boots a simulated host and creates a configurator, as a newly started daemon does.
    fn boot(folder: tempfile::TempDir, profile: &str) -> Self {
        let root = Root::at(folder.path());
        fs::create_dir_all(root.run("ferroband")).unwrap();
        let options = SimulationOptions { seed: "node-1".to_owned(), uplink: None };
        Simulation::up(&root, Profile::builtin(profile).unwrap(), options).unwrap();
        let hardware: Arc<dyn Hardware> = ferroband_sim::hardware(&root).unwrap().into();
        let (pools_sender, pools) = watch::channel(Arc::default());
        let configurator = Configurator {
            original_states: OriginalStateStore::new(hardware.root()),
            firmware: ferroband_sim::firmware(&root).unwrap().into(),
            hardware,
            guids: Some(Arc::new(DerivedGuids { cluster: "c".to_owned(), node: "node-1".to_owned() })),
            // No pod has requested a GUID.
            requested_guids: Arc::new(BTreeSet::<GuidLease>::new()),
            device_plugins_dir: root.path("var/lib/kubelet/device-plugins"),
            pods: Arc::new(WatchCache::<PodOwner>::default()),
            pools: pools_sender,
            prefix: "spidernet.io".to_owned(),
        };
        Self { folder, configurator, pools }
    }

    /// Reboots the simulated host. The reboot clears /run and keeps the state directory.
    fn reboot(self, profile: &str) -> Self {
        let Self { folder, .. } = self;
        fs::remove_dir_all(folder.path().join("run")).unwrap();
        for name in ["ibs5f0", "ens1np0"] {
            let _ = Command::new("ip").args(["link", "delete", name]).output();
        }
        Self::boot(folder, profile)
    }

    #[track_caller]
    fn reconcile(&self, spec: Value) -> (ConfigurationPass, Vec<String>) {
        let desired = DesiredNodeConfig::from_spec(&serde_json::from_value(spec).unwrap());
        let (mut failures, mut refused) = (Vec::new(), Vec::new());
        let mut round = self.configurator.prepare(&desired, Vec::new()).unwrap();
        for _ in 0..Configurator::MAX_ROUNDS {
            if round.diff.actions.is_empty() || !failures.is_empty() {
                break;
            }
            let applied = self.configurator.apply(&round.diff.actions);
            failures = applied.failures;
            refused.extend(applied.refused);
            round = self.configurator.prepare(&desired, refused.clone()).unwrap();
        }
        let faults = round.diff.faults.iter().chain(&failures).map(ToString::to_string).collect();
        (round, faults)
    }

    /// Returns the paths in the simulated sysfs and the checksums of its files.
    fn sysfs_snapshot(&self) -> String {
        let sys = self.folder.path().join("var/lib/ferroband/sim/sys");
        let listing = Command::new("sh")
            .args(["-c", "find . | sort; find . -type f | sort | xargs md5sum"])
            .current_dir(sys)
            .output();
        // Counters change without any configuration, so they are not compared.
        let text = String::from_utf8(listing.unwrap().stdout).unwrap();
        text.lines()
            .filter(|line| !line.contains("counters") && !line.contains("statistics"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn advertised(&self) -> Vec<(ResourceName, usize)> {
        let count = |pool: &DevicePool| match &pool.kind {
            DevicePoolKind::Functions(functions) => {
                functions.selectors.iter().map(|s| s.pci_addresses.len()).sum()
            }
            _ => 0,
        };
        self.pools.borrow().iter().map(|pool| (pool.resource.clone(), count(pool))).collect()
    }

    fn allocate_to_pod(&self, vf: &str, uid: &str) {
        let entry = json!({"PodUID": uid, "ContainerName": "c", "ResourceName": "spidernet.io/r", "DeviceIDs": {"0": [vf]}});
        let checkpoint = json!({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1});
        fs::write(
            self.configurator.device_plugins_dir.join("kubelet_internal_checkpoint"),
            checkpoint.to_string(),
        )
        .unwrap();
        let owner = PodOwner { uid: uid.to_owned(), ..PodOwner::default() };
        self.configurator
            .pods
            .apply(Event::Apply((("default".to_owned(), "holder".to_owned()), Some(owner))));
    }
}

fn spec(count: usize) -> Value {
    json!({"interfaces": [{
        "pciAddress": PF, "numVfs": count, "linkType": "ib",
        "vfGroups": [{"resourceName": "r", "deviceType": "netdevice", "vfRange": format!("0-{}", count - 1), "isRdma": true, "policyName": "p"}],
    }]})
}

/// Runs a test on a thread with its own network namespace.
fn in_own_netns(test: impl FnOnce() + Send + 'static) {
    let done = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        test();
    });
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}

// Case: operator C43, operator C45
#[test]
fn functions_are_created_once_with_stable_guids_and_removed_with_the_policy() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let before = node.sysfs_snapshot();
        let (round, faults) = node.reconcile(spec(12));
        assert_eq!(faults, [] as [&str; 0]);
        let vfs = &round.observed.adapters[0].vfs;
        assert_eq!(vfs.len(), 12);
        let guids: Vec<_> = vfs.iter().map(|vf| vf.guid.unwrap().to_string()).collect();
        assert!(guids.iter().all(|guid| guid.starts_with("02:")), "{guids:?}");
        assert_eq!(node.advertised(), [("spidernet.io/r".parse().unwrap(), 12)]);
        // Reconciling the same spec again must write nothing.
        let after_creation = node.sysfs_snapshot();
        let (round, _) = node.reconcile(spec(12));
        assert_eq!(round.diff.actions, []);
        assert_eq!(node.sysfs_snapshot(), after_creation);
        // Functions that are removed and recreated after a reboot must have the same GUIDs.
        node.reconcile(json!({}));
        assert_eq!(node.sysfs_snapshot(), before, "deleting the policy restores the node");
        assert_eq!(node.advertised(), []);
        let node = node.reboot("default");
        let (round, _) = node.reconcile(spec(12));
        let again: Vec<_> =
            round.observed.adapters[0].vfs.iter().map(|vf| vf.guid.unwrap().to_string()).collect();
        assert_eq!(guids, again);
        let status = &round.observed.adapters[0].status;
        assert_eq!(
            (status.link_type.as_deref(), status.total_vfs, status.num_vfs),
            (Some("IB"), Some(16), Some(12))
        );
        assert_eq!(status.vfs[3].guid.as_deref(), Some(again[3].as_str()), "reported as in sysfs");
    });
}

// Case: operator C44
#[test]
fn pods_keep_their_functions_until_they_are_gone() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        node.reconcile(spec(8));
        node.allocate_to_pod("0000:86:00.7", "u1"); // function 5
        // If the policy requests fewer functions, the host must not be changed and no pod must be evicted.
        // Only the pool must shrink.
        let after_creation = node.sysfs_snapshot();
        let (round, _) = node.reconcile(spec(4));
        assert!(round.diff.holders.is_empty());
        assert_eq!((node.sysfs_snapshot(), node.advertised()[0].1), (after_creation.clone(), 4));
        // If the policy requests more functions, the pod that holds one must be named for eviction. As long
        // as it holds the function, nothing must be advertised.
        let (round, _) = node.reconcile(spec(12));
        assert_eq!(
            round.diff.holders.iter().map(|h| (h.name.as_str(), h.devices.len())).collect::<Vec<_>>(),
            [("holder", 1)]
        );
        assert_eq!((node.sysfs_snapshot(), node.advertised()), (after_creation, vec![]));
        // The pod is deleted. The functions must be recreated although the kubelet's checkpoint still lists
        // the pod.
        node.configurator.pods.apply(Event::Delete((("default".to_owned(), "holder".to_owned()), None)));
        let (round, _) = node.reconcile(spec(12));
        assert_eq!((round.observed.adapters[0].vfs.len(), node.advertised()[0].1), (12, 12));
    });
}

// Case: operator C45
#[test]
fn restarted_daemon_completes_interrupted_work() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        // Simulates a daemon that is killed after the functions were created and before their GUIDs were set.
        let desired = DesiredNodeConfig::from_spec(&serde_json::from_value(spec(4)).unwrap());
        let round = node.configurator.prepare(&desired, Vec::new()).unwrap();
        node.configurator.apply(&round.diff.actions);
        assert_eq!(
            node.configurator.prepare(&desired, Vec::new()).unwrap().observed.adapters[0].vfs.len(),
            4
        );
        // Simulates a daemon that is killed while it configures a function, which then has no driver. The
        // next daemon must complete the configuration.
        node.configurator.hardware.unbind_driver("0000:86:00.3".parse().unwrap()).unwrap();
        assert_eq!(node.advertised(), [], "incomplete functions are not advertised");
        let (round, faults) = node.reconcile(spec(4));
        assert_eq!(faults, [] as [&str; 0]);
        assert!(round.observed.adapters[0].vfs.iter().all(|vf| vf.driver.is_some() && vf.guid.is_some()));
        // Simulates a daemon that is killed after it removed the functions and before it deleted the record
        // of their original state. The next daemon must delete the record.
        node.configurator.hardware.set_vf_count(pf, 0).unwrap();
        node.reconcile(json!({}));
        assert!(node.configurator.original_states.read_all().unwrap().is_empty());
    });
}

// Case: operator C50, operator C55
#[test]
fn cleared_guids_and_changed_drivers_are_repaired() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        node.reconcile(spec(2));
        let kind = [ferroband_kernel::rtnetlink::GuidKind::Node, ferroband_kernel::rtnetlink::GuidKind::Port];
        for kind in kind {
            node.configurator.hardware.set_vf_guid(pf, 0, kind, ferroband_model::Guid::new(0)).unwrap();
        }
        let vf: PciAddress = "0000:86:00.2".parse().unwrap();
        node.configurator.hardware.unbind_driver(vf).unwrap();
        node.configurator.hardware.probe_driver(vf).unwrap();
        let desired = DesiredNodeConfig::from_spec(&serde_json::from_value(spec(2)).unwrap());
        let actions = node.configurator.compare(&desired, Vec::new()).unwrap().diff.actions;
        assert_eq!(actions.iter().map(Action::vf).collect::<Vec<_>>(), [Some(vf)], "{actions:?}");
        let (round, _) = node.reconcile(spec(2));
        assert!(round.observed.adapters[0].vfs[0].guid.is_some_and(|guid| !guid.is_unset()));
    });
}

/// Sets the GUID of a function as an administrator, another controller or an ADD with a requested GUID does.
fn set_guid(node: &ConfiguratorFixture, index: u32, guid: Guid) {
    let (hardware, pf) = (&node.configurator.hardware, PF.parse().unwrap());
    hardware.set_vf_guid(pf, index, GuidKind::Node, guid).unwrap();
    hardware.set_vf_guid(pf, index, GuidKind::Port, guid).unwrap();
    let vf = pf.offset_by(2 + index as u16).unwrap();
    hardware.unbind_driver(vf).unwrap();
    hardware.probe_driver(vf).unwrap();
}

fn guids_of(round: &ConfigurationPass) -> Vec<Guid> {
    round.observed.adapters[0].vfs.iter().map(|vf| vf.guid.unwrap()).collect()
}

// Case: operator C52
#[test]
fn difference_of_a_held_function_is_applied_only_after_its_pod_is_gone() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let (round, _) = node.reconcile(spec(4));
        let own = guids_of(&round);
        let other = Guid::new(0x0200_0000_0000_0a01);
        set_guid(&node, 1, other);
        node.allocate_to_pod("0000:86:00.3", "u1"); // function 1
        let before = node.sysfs_snapshot();
        for disable_drain in [false, true] {
            let mut spec = spec(4);
            spec["system"] = json!({"disableDrain": disable_drain});
            let (round, faults) = node.reconcile(spec);
            assert_eq!(faults, [] as [&str; 0]);
            assert_eq!(round.diff.holders, [], "no pod is evicted, disableDrain {disable_drain}");
            assert_eq!(guids_of(&round)[1], other);
            let [waiting] = &round.diff.pending()[..] else { panic!("{:?}", round.diff) };
            assert_eq!(
                (waiting.target.as_str(), waiting.change.clone()),
                ("0000:86:00.3", format!("GUID {}", own[1]))
            );
            assert_eq!(waiting.waits_for.as_deref(), Some("held by default/holder"));
            assert_eq!(node.sysfs_snapshot(), before, "disableDrain {disable_drain}");
            // No new pod may get the function before it is changed. The other functions stay.
            assert_eq!(node.advertised()[0].1, 3);
        }
        node.configurator.pods.apply(Event::Delete((("default".to_owned(), "holder".to_owned()), None)));
        let (round, _) = node.reconcile(spec(4));
        assert_eq!((guids_of(&round), node.advertised()[0].1), (own, 4));
    });
}

// Case: operator C53
#[test]
fn guids_found_at_take_over_are_kept() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        node.configurator.hardware.set_vf_count(pf, 4).unwrap();
        let found = Guid::new(0x0211_2233_4455_6677);
        set_guid(&node, 2, found);
        node.allocate_to_pod("0000:86:00.4", "u1"); // function 2
        let (round, faults) = node.reconcile(spec(4));
        assert_eq!(faults, [] as [&str; 0]);
        assert_eq!((guids_of(&round)[2], node.advertised()[0].1), (found, 4));
        assert!(guids_of(&round).iter().all(|guid| !guid.is_unset()), "functions without a GUID get one");
        // The function keeps the GUID when it is free, and when it is created again.
        node.configurator.pods.apply(Event::Delete((("default".to_owned(), "holder".to_owned()), None)));
        let (round, _) = node.reconcile(spec(4));
        assert_eq!(guids_of(&round)[2], found);
        let (round, _) = node.reconcile(spec(8));
        assert_eq!((guids_of(&round).len(), guids_of(&round)[2]), (8, found));
    });
}

#[test]
fn adapters_without_a_policy_are_not_changed() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("connectx-6");
        let pf: PciAddress = "0000:d8:00.0".parse().unwrap();
        node.configurator.hardware.set_vf_count(pf, 3).unwrap();
        let before = node.sysfs_snapshot();
        let (round, _) = node.reconcile(json!({}));
        assert_eq!(round.observed.adapters.len(), 2);
        assert_eq!(
            (node.sysfs_snapshot(), node.configurator.original_states.read_all().unwrap().len()),
            (before, 0)
        );
    });
}

// Case: operator C46, operator C56, operator C58
#[test]
fn vf_count_and_link_type_are_changed_through_firmware_and_reboot() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        let (round, faults) = node.reconcile(spec(32));
        assert_eq!((round.diff.reboot.len(), faults.len()), (1, 0), "{faults:?}");
        assert!(round.observed.adapters[0].vfs.is_empty());
        let now = query(node.configurator.firmware.as_ref(), pf).unwrap();
        assert_eq!((now["NUM_OF_VFS"].current.as_str(), now["NUM_OF_VFS"].next.as_str()), ("16", "32"));
        let node = node.reboot("default");
        let (round, faults) = node.reconcile(spec(32));
        assert_eq!(
            (round.diff.reboot.len(), faults.len(), round.observed.adapters[0].vfs.len()),
            (0, 0, 32),
            "{faults:?}"
        );
        // If the firmware plugin is disabled, the fault must name the requested and the supported number of
        // functions.
        let mut without = spec(64);
        without["system"] = json!({"disablePlugins": ["mellanox"]});
        let (_, faults) = node.reconcile(without);
        assert!(faults[0].contains("64") && faults[0].contains("32"), "{faults:?}");
        node.reconcile(json!({}));
        let mut ethernet = spec(4);
        ethernet["interfaces"][0]["linkType"] = json!("ETH");
        let (round, _) = node.reconcile(ethernet.clone());
        assert_eq!(round.diff.reboot, ["firmware of 0000:86:00.0"]);
        let node = node.reboot("default");
        let (round, _) = node.reconcile(ethernet);
        assert_eq!(
            (round.diff.reboot.len(), round.observed.adapters[0].status.link_type.as_deref()),
            (0, Some("ETH"))
        );
    });
}

// Case: operator C56
#[test]
fn node_that_waits_for_its_reboot_offers_no_functions() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("vpi");
        let mut infiniband = spec(4);
        infiniband["interfaces"][0]["pciAddress"] = json!("0000:3b:00.0");
        let (round, faults) = node.reconcile(infiniband.clone());
        assert_eq!(faults, [] as [&str; 0]);
        assert_eq!(
            (round.diff.reboot.len(), round.observed.adapters[0].link_layer),
            (1, Some(LinkLayer::Ethernet))
        );
        assert_eq!((round.observed.adapters[0].vfs.len(), node.advertised()), (0, vec![]));
        let node = node.reboot("vpi");
        let (round, faults) = node.reconcile(infiniband);
        assert_eq!(faults, [] as [&str; 0]);
        assert_eq!((round.diff.reboot.len(), node.advertised()[0].1), (0, 4));
    });
}

// Case: operator C61
#[test]
fn adapter_that_answers_with_errors_does_not_stop_the_others() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("connectx-6");
        let (round, _) = node.reconcile(json!({}));
        let [sick, other] = [0, 1].map(|index: usize| round.observed.adapters[index].pci);
        // The read of a directory fails, as the read from an adapter that hangs does.
        let root = node.configurator.hardware.root();
        let device = root.sys(format!("bus/pci/devices/{sick}/infiniband"));
        let name = fs::read_dir(&device).unwrap().next().unwrap().unwrap().path();
        let state = name.join("ports/1/phys_state");
        fs::remove_file(&state).unwrap();
        fs::create_dir(&state).unwrap();
        let adapter = |pci: PciAddress| {
            json!({
                "pciAddress": pci.to_string(), "numVfs": 2,
                "vfGroups": [{"resourceName": "r", "vfRange": "0-1", "isRdma": true, "policyName": "p"}],
            })
        };
        let (round, faults) = node.reconcile(json!({"interfaces": [adapter(sick), adapter(other)]}));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(&sick.to_string()) && faults[0].contains("phys_state"), "{faults:?}");
        let counts: Vec<_> = round.observed.adapters.iter().map(|adapter| adapter.vfs.len()).collect();
        assert_eq!((counts, node.advertised()[0].1), (vec![0, 2], 2));
    });
}

#[test]
fn comparison_lists_all_changes_and_makes_none() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let pf: PciAddress = PF.parse().unwrap();
        let mut all = spec(32);
        all["system"] = json!({"rdmaMode": "exclusive"});
        let desired = DesiredNodeConfig::from_spec(&serde_json::from_value(all).unwrap());
        let (sysfs, settings) =
            (node.sysfs_snapshot(), query(node.configurator.firmware.as_ref(), pf).unwrap());
        let pass = node.configurator.compare(&desired, Vec::new()).unwrap();
        let changes: Vec<_> = pass.diff.pending().into_iter().map(|action| action.change).collect();
        assert_eq!(
            changes,
            [
                "firmware NUM_OF_VFS=32",
                "modprobe options ib_core netns_mode=0",
                "RDMA mode exclusive",
                "save the original state"
            ]
        );
        assert_eq!(node.sysfs_snapshot(), sysfs);
        assert_eq!(query(node.configurator.firmware.as_ref(), pf).unwrap(), settings);
        assert_eq!(node.configurator.hardware.rdma_netns_mode().unwrap(), NetnsMode::Shared);
        assert!(!node.folder.path().join("etc").exists() && node.advertised().is_empty());
    });
}

// Case: operator C63
#[test]
fn rdma_mode_is_changed_once_and_persisted() {
    in_own_netns(|| {
        let node = ConfiguratorFixture::new("default");
        let desired = json!({"system": {"rdmaMode": "exclusive"}});
        let (_, faults) = node.reconcile(desired.clone());
        assert_eq!(faults, [] as [&str; 0]);
        assert_eq!(node.configurator.hardware.rdma_netns_mode().unwrap(), NetnsMode::Exclusive);
        let options = node.folder.path().join("etc/modprobe.d/ferroband.conf");
        assert_eq!(fs::read_to_string(&options).unwrap(), "options ib_core netns_mode=0\n");
        let (round, _) = node.reconcile(desired);
        assert!(round.diff.reboot.is_empty());
        node.reconcile(json!({}));
        assert!(!options.exists());
    });
}

/// Skipped if the kernel supports RDMA, as the kernel of the `vm` test tier does.
// Case: operator C64
#[test]
fn host_without_ib_core_has_no_rdma_mode_and_other_work_continues() {
    if ferroband_kernel::RdmaSocket::open().is_ok() {
        return;
    }
    in_own_netns(|| {
        let mut node = ConfiguratorFixture::new("ethernet");
        let root = node.configurator.hardware.root().clone();
        fs::remove_dir_all(root.sys("class/infiniband")).unwrap();
        node.configurator.hardware = Arc::new(ferroband_kernel::LinuxHost::new(root));
        let observed = node.configurator.prepare(&DesiredNodeConfig::default(), Vec::new()).unwrap().observed;
        let (adapter, interface) = observed
            .adapters
            .iter()
            .find_map(|adapter| Some((adapter.pci, adapter.interface.clone()?)))
            .expect("an adapter");
        assert_eq!(observed.rdma_mode, None);
        // The RDMA mode cannot be set, so it must be skipped. The MTU must still be set.
        let mtu = interface.mtu + 100;
        let (round, faults) = node.reconcile(json!({
            "system": {"rdmaMode": "exclusive"},
            "interfaces": [{"pciAddress": adapter.to_string(), "numVfs": 0, "mtu": mtu}],
        }));
        assert_eq!((round.observed.rdma_mode, round.diff.reboot.len()), (None, 0));
        assert_eq!(faults, [] as [&str; 0]);
        let now = round.observed.adapters.into_iter().find(|one| one.pci == adapter).unwrap().interface;
        assert_eq!(now.map(|interface| interface.mtu), Some(mtu));
        assert!(!node.folder.path().join("etc/modprobe.d/ferroband.conf").exists());
    });
}
