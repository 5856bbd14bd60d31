//! Which device is whose: pools and an inventory become what the kubelet is told.

use super::{Functions, Kind, Pool, Problem};
use crate::discover::{DeviceFile, FileRole, Function, Inventory, RdmaDevice};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A pool's part of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The pool.
    pub pool: Arc<Pool>,
    /// What the kubelet may give out.
    pub units: Vec<Unit>,
    /// The files that come with every unit; functions have their own instead.
    pub files: Vec<DeviceFile>,
}

/// One unit of a resource, as the kubelet counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Its id, the same after every restart: the kubelet remembers which pod holds which id.
    pub id: String,
    /// Whether a pod may be given it now.
    pub healthy: bool,
    /// The NUMA node that the kubelet is told.
    pub numa: Option<u32>,
    /// The physical function that it shares a cable with.
    pub rail: String,
    /// The way to it from the root complex.
    pub path: Vec<String>,
}

impl Share {
    /// Whether the kubelet hears of the resource while there is nothing of it. The shared plugin's stay at zero;
    /// the others are not shown before there is a device.
    pub fn told_when_empty(&self) -> bool {
        matches!(self.pool.kind, Kind::Shared { .. })
    }
}

/// Share the node. `up` says whether the ports of a function carry traffic. The pools stand in the order in which they
/// choose; a function is in one pool only, and one of the `held` is in no unit that others share.
pub fn share(
    pools: &[Arc<Pool>],
    inventory: &Inventory,
    held: &BTreeSet<String>,
    up: &dyn Fn(&str) -> bool,
) -> (Vec<Share>, Vec<Problem>) {
    let mut dealer =
        Dealer { inventory, up, taken: BTreeMap::new(), problems: Vec::new(), shares: BTreeMap::new() };
    // First those whose devices nobody else may have.
    for (index, pool) in pools.iter().enumerate() {
        if let Kind::Functions(functions) = &pool.kind {
            dealer.functions(index, pool, functions);
        }
    }
    // The pool of a function that a pod holds may be gone from the files; the pod is not.
    for function in held {
        dealer.taken.entry(function).or_insert_with(|| "a running pod".to_owned());
    }
    for (index, pool) in pools.iter().enumerate() {
        match &pool.kind {
            Kind::Functions(_) => {}
            Kind::Whole { count } => dealer.whole(index, pool, *count),
            Kind::Shared { .. } => dealer.shared(index, pool),
        }
    }
    (dealer.shares.into_values().collect(), dealer.problems)
}

struct Dealer<'a> {
    inventory: &'a Inventory,
    up: &'a dyn Fn(&str) -> bool,
    /// Which pool has the function.
    taken: BTreeMap<&'a str, String>,
    problems: Vec<Problem>,
    shares: BTreeMap<usize, Share>,
}

impl<'a> Dealer<'a> {
    fn functions(&mut self, index: usize, pool: &Arc<Pool>, chosen: &Functions) {
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
                let mut reasons = chosen.selectors.iter().map(|one| one.keeps_out(function, self.inventory));
                // Chosen by any is chosen; else the first selector's reason is told.
                let first = reasons.next().flatten()?;
                reasons.all(|reason| reason.is_some()).then_some(first)
            });
            match (out, self.taken.get(function.pci.as_str())) {
                (Some(why), _) => *kept_out.entry(why).or_default() += 1,
                (None, Some(other)) => others.entry(other.clone()).or_default().push(&function.pci),
                (None, None) => {
                    self.taken.insert(&function.pci, pool.resource.to_string());
                    units.push(self.unit(function, chosen.exclude_topology));
                }
            }
        }
        for (other, functions) in &others {
            let these = functions.join(", ");
            let cause = format!("{other}, which stands before, has {these}; a device is in one pool only");
            self.note(pool, "selectors", cause);
        }
        if units.is_empty() && others.is_empty() && !kept_out.is_empty() {
            self.note(pool, "selectors", nothing(self.inventory, &kept_out));
        }
        self.shares.insert(index, Share { pool: pool.clone(), units, files: Vec::new() });
    }

    fn unit(&self, function: &Function, exclude_topology: bool) -> Unit {
        // The port of an idle virtual function is down; its cable is the physical one's.
        let rail = function.pf.as_ref().unwrap_or(&function.pci);
        Unit {
            id: function.pci.clone(),
            healthy: (self.up)(rail),
            numa: function.numa.filter(|_| !exclude_topology),
            rail: rail.clone(),
            path: function.path.clone(),
        }
    }

    fn whole(&mut self, index: usize, pool: &Arc<Pool>, count: usize) {
        let names = |device: &&RdmaDevice| self.is_free(device);
        let devices: Vec<_> = self.inventory.devices.iter().filter(names).collect();
        let others: BTreeSet<_> = self
            .inventory
            .devices
            .iter()
            .filter(|device| !self.is_free(device))
            .filter_map(RdmaDevice::uverbs)
            .collect();
        let verbs = self.inventory.verbs.iter().filter(|path| !others.contains(path.as_path()));
        let mut files: Vec<DeviceFile> =
            verbs.map(|path| DeviceFile { path: path.clone(), role: FileRole::Verbs }).collect();
        files.extend(devices.iter().flat_map(|device| management(device, pool)));
        let there = !devices.is_empty() || !files.is_empty();
        let count = if there && !self.exclusive(pool) { count } else { 0 };
        let healthy = files.iter().any(|file| file.role == FileRole::Verbs);
        let name = pool.resource.name();
        let units = (0..count).map(|n| Unit { id: format!("{name}-{n}"), healthy, ..Unit::default() });
        self.shares.insert(index, Share { pool: pool.clone(), units: units.collect(), files });
    }

    fn shared(&mut self, index: usize, pool: &Arc<Pool>) {
        let Kind::Shared { count, selector } = &pool.kind else { return };
        let mut files = Vec::new();
        let mut kept_out: BTreeMap<&'static str, usize> = BTreeMap::new();
        for function in &self.inventory.functions {
            let devices: Vec<_> = self.inventory.rdma_of(&function.pci).collect();
            if function.driver.is_none() || devices.is_empty() {
                continue;
            }
            let out = selector
                .keeps_out(function, self.inventory)
                .or_else(|| {
                    self.taken
                        .contains_key(function.pci.as_str())
                        .then_some("being in an SR-IOV pool or held by a pod")
                })
                .or_else(|| devices.iter().all(|d| d.uverbs().is_none()).then_some("having no uverbs file"));
            match out {
                Some(why) => *kept_out.entry(why).or_default() += 1,
                None => files.extend(devices.iter().flat_map(|device| wanted(device, pool))),
            }
        }
        if files.is_empty() && !kept_out.is_empty() {
            self.note(pool, "selectors", nothing(self.inventory, &kept_out));
        }
        let count = if files.is_empty() || self.exclusive(pool) { 0 } else { *count };
        let units = (0..count).map(|n| Unit { id: n.to_string(), healthy: true, ..Unit::default() });
        self.shares.insert(index, Share { pool: pool.clone(), units: units.collect(), files });
    }

    fn is_free(&self, device: &RdmaDevice) -> bool {
        device.pci.as_deref().is_none_or(|pci| !self.taken.contains_key(pci))
    }

    /// In exclusive mode a container cannot open the device of another namespace.
    fn exclusive(&mut self, pool: &Pool) -> bool {
        let exclusive = self.inventory.exclusive == Some(true);
        if exclusive {
            let cause = format!(
                "{} is not offered: RDMA devices of this node belong to one network namespace each \
                 (exclusive mode; `rdma system set netns shared` changes it)",
                pool.resource
            );
            self.note(pool, "", cause);
        }
        exclusive
    }

    fn note(&mut self, pool: &Pool, key: &str, cause: String) {
        let field = match (pool.field.is_empty(), key.is_empty()) {
            (false, false) => format!("{}.{key}", pool.field),
            _ => pool.field.clone(),
        };
        self.problems.push(Problem { file: pool.file.clone(), field, cause });
    }
}

/// The files of `device` that a container of `pool` gets.
pub(crate) fn wanted(device: &RdmaDevice, pool: &Pool) -> Vec<DeviceFile> {
    let verbs = device.files.iter().filter(|file| file.role == FileRole::Verbs).cloned();
    verbs.chain(management(device, pool)).collect()
}

fn management(device: &RdmaDevice, pool: &Pool) -> Vec<DeviceFile> {
    let files = device.files.iter().filter(|file| pool.management && file.role != FileRole::Verbs);
    files.cloned().collect()
}

/// Why nothing was chosen, and what there would be.
fn nothing(inventory: &Inventory, kept_out: &BTreeMap<&'static str, usize>) -> String {
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
