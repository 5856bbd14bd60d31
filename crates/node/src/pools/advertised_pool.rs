//! Assigns the devices of this node to pools. The result is advertised to the kubelet.

use super::{
    DevicePool, DevicePoolKind, FunctionPool, PoolProblem,
    unhealthy::{device_error, unhealthy_causes},
};
use crate::discover::{DeviceFile, DeviceFileRole, Inventory, InventoryFunction, InventoryRdmaDevice};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A pool with its devices on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedPool {
    pub pool: Arc<DevicePool>,
    /// Devices as the kubelet counts them, healthy or not.
    pub devices: Vec<AdvertisedDevice>,
    /// Device files that a container gets with any device of a shared or whole-node pool. Empty for function pools,
    /// whose devices have their own files.
    pub files: Vec<DeviceFile>,
}

/// A device in the list that is sent to the kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdvertisedDevice {
    /// Device id: the PCI address of a function, or a number. It must be stable across restarts, because the
    /// kubelet remembers which pod holds it.
    pub id: String,
    /// Whether the kubelet may allocate it now.
    pub healthy: bool,
    /// NUMA node reported to the kubelet; `None` if unknown or excluded by the pool.
    pub numa: Option<u32>,
    /// PCI address of the physical function whose port connects the device; empty for shared devices.
    pub uplink: String,
    /// PCI path from the root complex; empty for shared devices.
    pub path: Vec<String>,
}

impl AdvertisedPool {
    /// Whether the resource is registered while it has no devices. As in the upstream plugins, a shared pool
    /// is registered even without devices, and any other pool when it gets its first device.
    pub fn advertise_when_empty(&self) -> bool {
        matches!(self.pool.kind, DevicePoolKind::Shared { .. })
    }
}

/// Assigns the devices of `inventory` to `pools`. A function belongs to at most one function pool; earlier
/// pools take precedence. `held` contains the PCI addresses of functions that pods hold. They are never part
/// of a shared device. `is_up` says whether the ports of a function are up.
pub fn build_advertised_pools(
    pools: &[Arc<DevicePool>],
    inventory: &Inventory,
    held: &BTreeSet<String>,
    is_up: &dyn Fn(&str) -> bool,
) -> (Vec<AdvertisedPool>, Vec<PoolProblem>) {
    let mut builder = AdvertisedPoolBuilder {
        inventory,
        is_up,
        owners: BTreeMap::new(),
        problems: Vec::new(),
        advertised: BTreeMap::new(),
    };
    // Function pools come first, because shared pools only get the functions that are left.
    for (index, pool) in pools.iter().enumerate() {
        if let DevicePoolKind::Functions(functions) = &pool.kind {
            builder.add_function_pool(index, pool, functions);
        }
    }
    // The pool of a held function may have been removed from the configuration while its pod still runs.
    for function in held {
        builder.owners.entry(function).or_insert_with(|| "a running pod".to_owned());
    }
    for (index, pool) in pools.iter().enumerate() {
        match &pool.kind {
            DevicePoolKind::Functions(_) => {}
            DevicePoolKind::WholeNode { count } => builder.add_whole_node_pool(index, pool, *count),
            DevicePoolKind::Shared { .. } => builder.add_shared_pool(index, pool),
        }
    }
    (builder.advertised.into_values().collect(), builder.problems)
}

struct AdvertisedPoolBuilder<'a> {
    inventory: &'a Inventory,
    is_up: &'a dyn Fn(&str) -> bool,
    /// Maps the PCI address of a function to the pool or pod that owns it.
    owners: BTreeMap<&'a str, String>,
    problems: Vec<PoolProblem>,
    advertised: BTreeMap<usize, AdvertisedPool>,
}

impl<'a> AdvertisedPoolBuilder<'a> {
    fn add_function_pool(&mut self, index: usize, pool: &Arc<DevicePool>, functions: &FunctionPool) {
        let mut devices = Vec::new();
        let mut excluded: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut claimed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for function in self.inventory.functions.iter().filter(|function| function.class == functions.class) {
            // Functions with the node's default route, without a driver or with virtual functions are never
            // advertised.
            let always_excluded = [
                ("the node's default route", function.default_route),
                ("missing driver", function.driver.is_none()),
                ("virtual functions", !function.vfs.is_empty()),
            ];
            let reason =
                always_excluded.into_iter().find(|(_, applies)| *applies).map(|(reason, _)| reason).or_else(
                    || {
                        let mut reasons = functions
                            .selectors
                            .iter()
                            .map(|selector| selector.rejecting_field(function, self.inventory));
                        // One matching selector is enough. Otherwise report the reason of the first selector.
                        let first = reasons.next().flatten()?;
                        reasons.all(|reason| reason.is_some()).then_some(first)
                    },
                );
            match (reason, self.owners.get(function.pci.as_str())) {
                (Some(reason), _) => *excluded.entry(reason).or_default() += 1,
                (None, Some(owner)) => claimed.entry(owner.clone()).or_default().push(&function.pci),
                (None, None) => {
                    self.owners.insert(&function.pci, pool.resource.to_string());
                    devices.push(self.device(function, functions.exclude_topology));
                }
            }
        }
        for (owner, addresses) in &claimed {
            let devices = addresses.join(", ");
            let cause = format!("{devices} already assigned to {owner}; a device is in one pool only");
            self.add_problem(pool, "selectors", cause);
        }
        if devices.is_empty() && claimed.is_empty() && !excluded.is_empty() {
            self.add_problem(pool, "selectors", no_match_message(self.inventory, &excluded));
        }
        for cause in unhealthy_causes(self.inventory, &devices) {
            self.add_problem(pool, "", cause);
        }
        self.advertised.insert(index, AdvertisedPool { pool: pool.clone(), devices, files: Vec::new() });
    }

    fn device(&self, function: &InventoryFunction, exclude_topology: bool) -> AdvertisedDevice {
        // The port of an idle virtual function is down, so the health is that of the physical function.
        let uplink = function.pf.as_ref().unwrap_or(&function.pci);
        AdvertisedDevice {
            id: function.pci.clone(),
            healthy: (self.is_up)(uplink) && device_error(self.inventory, &function.pci).is_none(),
            numa: function.numa.filter(|_| !exclude_topology),
            uplink: uplink.clone(),
            path: function.path.clone(),
        }
    }

    fn add_whole_node_pool(&mut self, index: usize, pool: &Arc<DevicePool>, count: usize) {
        let rdma_devices: Vec<_> =
            self.inventory.devices.iter().filter(|device| self.is_usable(device)).collect();
        let taken: BTreeSet<_> = self
            .inventory
            .devices
            .iter()
            .filter(|device| !self.is_usable(device))
            .filter_map(InventoryRdmaDevice::uverbs)
            .collect();
        let verbs = self.inventory.verbs.iter().filter(|path| !taken.contains(path.as_path()));
        let mut files: Vec<DeviceFile> =
            verbs.map(|path| DeviceFile { path: path.clone(), role: DeviceFileRole::Verbs }).collect();
        files.extend(rdma_devices.iter().flat_map(|device| management_files(device, pool)));
        let any = !rdma_devices.is_empty() || !files.is_empty();
        for device in &self.inventory.devices {
            if let Some(error) = &device.error {
                self.add_problem(
                    pool,
                    "",
                    format!("{} is left out: it cannot be read: {error}", device.name),
                );
            }
        }
        // No file requests a whole-node pool, so it is no problem that it is not offered in exclusive mode.
        let count = if any && self.inventory.exclusive != Some(true) { count } else { 0 };
        let healthy = files.iter().any(|file| file.role == DeviceFileRole::Verbs);
        let name = pool.resource.name();
        let devices = (0..count).map(|n| AdvertisedDevice {
            id: format!("{name}-{n}"),
            healthy,
            ..AdvertisedDevice::default()
        });
        self.advertised
            .insert(index, AdvertisedPool { pool: pool.clone(), devices: devices.collect(), files });
    }

    fn add_shared_pool(&mut self, index: usize, pool: &Arc<DevicePool>) {
        let DevicePoolKind::Shared { count, selector } = &pool.kind else { return };
        let mut files = Vec::new();
        let mut excluded: BTreeMap<&'static str, usize> = BTreeMap::new();
        for function in &self.inventory.functions {
            let rdma_devices: Vec<_> = self.inventory.rdma_devices_of(&function.pci).collect();
            if function.driver.is_none() || rdma_devices.is_empty() {
                continue;
            }
            let reason = selector
                .rejecting_field(function, self.inventory)
                .or_else(|| {
                    self.owners
                        .contains_key(function.pci.as_str())
                        .then_some("an SR-IOV pool or a pod that has it")
                })
                .or_else(|| {
                    rdma_devices.iter().all(|d| d.uverbs().is_none()).then_some("missing uverbs file")
                });
            if let (None, Some((name, error))) = (reason, device_error(self.inventory, &function.pci)) {
                self.add_problem(
                    pool,
                    "selectors",
                    format!("{name} is left out: it cannot be read: {error}"),
                );
                continue;
            }
            match reason {
                Some(reason) => *excluded.entry(reason).or_default() += 1,
                None => files.extend(rdma_devices.iter().flat_map(|device| container_files(device, pool))),
            }
        }
        if files.is_empty() && !excluded.is_empty() {
            self.add_problem(pool, "selectors", no_match_message(self.inventory, &excluded));
        }
        let count = if files.is_empty() || self.reject_exclusive_mode(pool) { 0 } else { *count };
        let devices = (0..count).map(|n| AdvertisedDevice {
            id: n.to_string(),
            healthy: true,
            ..AdvertisedDevice::default()
        });
        self.advertised
            .insert(index, AdvertisedPool { pool: pool.clone(), devices: devices.collect(), files });
    }

    /// Whether a whole-node device may contain `device`: no other pool or pod owns it, and it can be read.
    fn is_usable(&self, device: &InventoryRdmaDevice) -> bool {
        device.error.is_none() && device.pci.as_deref().is_none_or(|pci| !self.owners.contains_key(pci))
    }

    /// Returns `true` and reports a problem if RDMA devices are in exclusive mode, in which a container cannot use
    /// a device of the host network namespace.
    fn reject_exclusive_mode(&mut self, pool: &DevicePool) -> bool {
        let exclusive = self.inventory.exclusive == Some(true);
        if exclusive {
            let cause = format!(
                "{} is not advertised: RDMA devices of this node belong to one network namespace each \
                 (exclusive mode); remove the pool, or set `rdmaMode: shared` in the node's SriovNetworkPoolConfig",
                pool.resource
            );
            self.add_problem(pool, "", cause);
        }
        exclusive
    }

    fn add_problem(&mut self, pool: &DevicePool, key: &str, cause: String) {
        let field = match (pool.field.is_empty(), key.is_empty()) {
            (false, false) => format!("{}.{key}", pool.field),
            _ => pool.field.clone(),
        };
        self.problems.push(PoolProblem { file: pool.file.clone(), field, cause });
    }
}

pub(crate) fn container_files(device: &InventoryRdmaDevice, pool: &DevicePool) -> Vec<DeviceFile> {
    let verbs = device.files.iter().filter(|file| file.role == DeviceFileRole::Verbs).cloned();
    verbs.chain(management_files(device, pool)).collect()
}

fn management_files(device: &InventoryRdmaDevice, pool: &DevicePool) -> Vec<DeviceFile> {
    let files =
        device.files.iter().filter(|file| pool.management_files && file.role != DeviceFileRole::Verbs);
    files.cloned().collect()
}

/// Explains why no function matched and lists the interfaces of the node.
fn no_match_message(inventory: &Inventory, excluded: &BTreeMap<&'static str, usize>) -> String {
    let reasons: Vec<_> =
        excluded.iter().map(|(reason, count)| format!("{count} excluded by {reason}")).collect();
    let adapters =
        inventory.functions.iter().filter(|function| function.pf.is_none() && !function.netdevs.is_empty());
    let interfaces: Vec<_> = adapters
        .map(|function| {
            let names: Vec<_> = function.netdevs.iter().map(|netdev| netdev.name.as_str()).collect();
            format!("{} ({}:{} at {})", names.join(","), function.vendor, function.device, function.pci)
        })
        .collect();
    let interfaces = if interfaces.is_empty() { "none".to_owned() } else { interfaces.join(", ") };
    format!("no function on this node matches: {}; interfaces on this node: {interfaces}", reasons.join(", "))
}
