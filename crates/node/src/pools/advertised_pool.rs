//! Which device is whose: pools and an inventory become what the kubelet is told.

use super::{DevicePool, DevicePoolKind, FunctionPool, PoolProblem};
use crate::discover::{DeviceFile, DeviceFileRole, Inventory, InventoryFunction, InventoryRdmaDevice};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A pool's part of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedPool {
    /// The pool.
    pub pool: Arc<DevicePool>,
    /// What the kubelet may give out.
    pub devices: Vec<AdvertisedDevice>,
    /// The files that come with every unit; functions have their own instead.
    pub files: Vec<DeviceFile>,
}

/// One unit of a resource, as the kubelet counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdvertisedDevice {
    /// Its id, the same after every restart: the kubelet remembers which pod holds which id.
    pub id: String,
    /// Whether a pod may be given it now.
    pub healthy: bool,
    /// The NUMA node that the kubelet is told.
    pub numa: Option<u32>,
    /// The physical function that it shares a cable with.
    pub uplink: String,
    /// The way to it from the root complex.
    pub path: Vec<String>,
}

impl AdvertisedPool {
    /// Whether the kubelet hears of the resource while there is nothing of it. The shared plugin's stay at zero;
    /// the others are not shown before there is a device.
    pub fn advertise_when_empty(&self) -> bool {
        matches!(self.pool.kind, DevicePoolKind::Shared { .. })
    }
}

/// Share the node. `up` says whether the ports of a function carry traffic. The pools stand in the order in which they
/// choose; a function is in one pool only, and one of the `held` is in no unit that others share.
pub fn build_advertised_pools(
    pools: &[Arc<DevicePool>],
    inventory: &Inventory,
    held: &BTreeSet<String>,
    up: &dyn Fn(&str) -> bool,
) -> (Vec<AdvertisedPool>, Vec<PoolProblem>) {
    let mut dealer = AdvertisedPoolBuilder {
        inventory,
        is_up: up,
        owners: BTreeMap::new(),
        problems: Vec::new(),
        advertised: BTreeMap::new(),
    };
    // First those whose devices nobody else may have.
    for (index, pool) in pools.iter().enumerate() {
        if let DevicePoolKind::Functions(functions) = &pool.kind {
            dealer.add_function_pool(index, pool, functions);
        }
    }
    // The pool of a function that a pod holds may be gone from the files; the pod is not.
    for function in held {
        dealer.owners.entry(function).or_insert_with(|| "a running pod".to_owned());
    }
    for (index, pool) in pools.iter().enumerate() {
        match &pool.kind {
            DevicePoolKind::Functions(_) => {}
            DevicePoolKind::WholeNode { count } => dealer.add_whole_node_pool(index, pool, *count),
            DevicePoolKind::Shared { .. } => dealer.add_shared_pool(index, pool),
        }
    }
    (dealer.advertised.into_values().collect(), dealer.problems)
}

struct AdvertisedPoolBuilder<'a> {
    inventory: &'a Inventory,
    is_up: &'a dyn Fn(&str) -> bool,
    /// Which pool has the function.
    owners: BTreeMap<&'a str, String>,
    problems: Vec<PoolProblem>,
    advertised: BTreeMap<usize, AdvertisedPool>,
}

impl<'a> AdvertisedPoolBuilder<'a> {
    fn add_function_pool(&mut self, index: usize, pool: &Arc<DevicePool>, chosen: &FunctionPool) {
        let mut units = Vec::new();
        let mut kept_out: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for function in self.inventory.functions.iter().filter(|function| function.class == chosen.class) {
            // What carries the node's own traffic, what has no driver and what is split up is nobody's.
            let never = [
                ("the node's default route on it", function.default_route),
                ("having no driver", function.driver.is_none()),
                ("having virtual functions", !function.vfs.is_empty()),
            ];
            let out = never.into_iter().find(|(_, holds)| *holds).map(|(why, _)| why).or_else(|| {
                let mut reasons =
                    chosen.selectors.iter().map(|one| one.rejecting_field(function, self.inventory));
                // Chosen by any is chosen; else the first selector's reason is told.
                let first = reasons.next().flatten()?;
                reasons.all(|reason| reason.is_some()).then_some(first)
            });
            match (out, self.owners.get(function.pci.as_str())) {
                (Some(why), _) => *kept_out.entry(why).or_default() += 1,
                (None, Some(other)) => others.entry(other.clone()).or_default().push(&function.pci),
                (None, None) => {
                    self.owners.insert(&function.pci, pool.resource.to_string());
                    units.push(self.device(function, chosen.exclude_topology));
                }
            }
        }
        for (other, functions) in &others {
            let these = functions.join(", ");
            let cause = format!("{other}, which stands before, has {these}; a device is in one pool only");
            self.add_problem(pool, "selectors", cause);
        }
        if units.is_empty() && others.is_empty() && !kept_out.is_empty() {
            self.add_problem(pool, "selectors", no_match_message(self.inventory, &kept_out));
        }
        self.advertised
            .insert(index, AdvertisedPool { pool: pool.clone(), devices: units, files: Vec::new() });
    }

    fn device(&self, function: &InventoryFunction, exclude_topology: bool) -> AdvertisedDevice {
        // The port of an idle virtual function is down; its cable is the physical one's.
        let rail = function.pf.as_ref().unwrap_or(&function.pci);
        AdvertisedDevice {
            id: function.pci.clone(),
            healthy: (self.is_up)(rail),
            numa: function.numa.filter(|_| !exclude_topology),
            uplink: rail.clone(),
            path: function.path.clone(),
        }
    }

    fn add_whole_node_pool(&mut self, index: usize, pool: &Arc<DevicePool>, count: usize) {
        let names = |device: &&InventoryRdmaDevice| self.is_free(device);
        let devices: Vec<_> = self.inventory.devices.iter().filter(names).collect();
        let others: BTreeSet<_> = self
            .inventory
            .devices
            .iter()
            .filter(|device| !self.is_free(device))
            .filter_map(InventoryRdmaDevice::uverbs)
            .collect();
        let verbs = self.inventory.verbs.iter().filter(|path| !others.contains(path.as_path()));
        let mut files: Vec<DeviceFile> =
            verbs.map(|path| DeviceFile { path: path.clone(), role: DeviceFileRole::Verbs }).collect();
        files.extend(devices.iter().flat_map(|device| management_files(device, pool)));
        let there = !devices.is_empty() || !files.is_empty();
        let count = if there && !self.reject_exclusive_mode(pool) { count } else { 0 };
        let healthy = files.iter().any(|file| file.role == DeviceFileRole::Verbs);
        let name = pool.resource.name();
        let units = (0..count).map(|n| AdvertisedDevice {
            id: format!("{name}-{n}"),
            healthy,
            ..AdvertisedDevice::default()
        });
        self.advertised.insert(index, AdvertisedPool { pool: pool.clone(), devices: units.collect(), files });
    }

    fn add_shared_pool(&mut self, index: usize, pool: &Arc<DevicePool>) {
        let DevicePoolKind::Shared { count, selector } = &pool.kind else { return };
        let mut files = Vec::new();
        let mut kept_out: BTreeMap<&'static str, usize> = BTreeMap::new();
        for function in &self.inventory.functions {
            let devices: Vec<_> = self.inventory.rdma_devices_of(&function.pci).collect();
            if function.driver.is_none() || devices.is_empty() {
                continue;
            }
            let out = selector
                .rejecting_field(function, self.inventory)
                .or_else(|| {
                    self.owners
                        .contains_key(function.pci.as_str())
                        .then_some("being in an SR-IOV pool or held by a pod")
                })
                .or_else(|| devices.iter().all(|d| d.uverbs().is_none()).then_some("having no uverbs file"));
            match out {
                Some(why) => *kept_out.entry(why).or_default() += 1,
                None => files.extend(devices.iter().flat_map(|device| container_files(device, pool))),
            }
        }
        if files.is_empty() && !kept_out.is_empty() {
            self.add_problem(pool, "selectors", no_match_message(self.inventory, &kept_out));
        }
        let count = if files.is_empty() || self.reject_exclusive_mode(pool) { 0 } else { *count };
        let units = (0..count).map(|n| AdvertisedDevice {
            id: n.to_string(),
            healthy: true,
            ..AdvertisedDevice::default()
        });
        self.advertised.insert(index, AdvertisedPool { pool: pool.clone(), devices: units.collect(), files });
    }

    fn is_free(&self, device: &InventoryRdmaDevice) -> bool {
        device.pci.as_deref().is_none_or(|pci| !self.owners.contains_key(pci))
    }

    /// In exclusive mode a container cannot open the device of another namespace.
    fn reject_exclusive_mode(&mut self, pool: &DevicePool) -> bool {
        let exclusive = self.inventory.exclusive == Some(true);
        if exclusive {
            let cause = format!(
                "{} is not offered: RDMA devices of this node belong to one network namespace each \
                 (exclusive mode; `rdma system set netns shared` changes it)",
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

/// The files of `device` that a container of `pool` gets.
pub(crate) fn container_files(device: &InventoryRdmaDevice, pool: &DevicePool) -> Vec<DeviceFile> {
    let verbs = device.files.iter().filter(|file| file.role == DeviceFileRole::Verbs).cloned();
    verbs.chain(management_files(device, pool)).collect()
}

fn management_files(device: &InventoryRdmaDevice, pool: &DevicePool) -> Vec<DeviceFile> {
    let files =
        device.files.iter().filter(|file| pool.management_files && file.role != DeviceFileRole::Verbs);
    files.cloned().collect()
}

/// Why nothing was chosen, and what there would be.
fn no_match_message(inventory: &Inventory, kept_out: &BTreeMap<&'static str, usize>) -> String {
    let reasons: Vec<_> = kept_out.iter().map(|(why, count)| format!("{count} by {why}")).collect();
    let here =
        inventory.functions.iter().filter(|function| function.pf.is_none() && !function.netdevs.is_empty());
    let here: Vec<_> = here
        .map(|function| {
            let names: Vec<_> = function.netdevs.iter().map(|netdev| netdev.name.as_str()).collect();
            format!("{} ({}:{} at {})", names.join(","), function.vendor, function.device, function.pci)
        })
        .collect();
    let here = if here.is_empty() { "no interfaces".to_owned() } else { here.join(", ") };
    format!("choose nothing on this node: kept out {}; here are {here}", reasons.join(", "))
}
