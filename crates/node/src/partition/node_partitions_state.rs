//! The desired content of this node's NodePartitions object: virtual functions and partition members. No I/O.

use ferroband_api::ferroband::{
    FabricName, NodeAddressReport, NodeMember, NodePartitions, NodePartitionsSpec,
};
use ferroband_model::{Guid, PciAddress};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePartitionsState {
    functions: BTreeMap<String, String>,
    members: BTreeMap<String, NodeMember>,
    /// By member name, the first generation of the NodePartitions object that contained the member. A member
    /// that is not written to the API server yet has no entry.
    first_generations: BTreeMap<String, i64>,
    /// What the node reports about restores of etcd.
    addresses: Option<NodeAddressReport>,
}

impl NodePartitionsState {
    /// Key of a member in `spec.members` of NodePartitions: `<container ID>.<interface>`.
    pub fn member_name(container: &str, ifname: &str) -> String {
        format!("{container}.{ifname}")
    }

    /// Whether the member `name` belongs to the sandbox `container` and, unless `ifname` is `None`, to that
    /// interface.
    pub fn is_member_of(name: &str, container: &str, ifname: Option<&str>) -> bool {
        match ifname {
            Some(ifname) => name == Self::member_name(container, ifname),
            None => name.split('.').next() == Some(container),
        }
    }

    /// Restores functions, and members whose sandboxes are in `alive`, from the NodePartitions object at
    /// startup. Entries that were added since the daemon started take precedence.
    pub fn restore(&mut self, object: &NodePartitions, alive: &BTreeSet<String>) {
        for (name, member) in &object.spec.members {
            let container = name.split('.').next().unwrap_or_default();
            if alive.contains(container) {
                self.members.entry(name.clone()).or_insert_with(|| member.clone());
            }
        }
        for (pci, guid) in &object.spec.functions {
            self.functions.entry(pci.clone()).or_insert_with(|| guid.clone());
        }
    }

    /// Updates the functions and their GUIDs. A function that the host cannot see, because it is in a pod,
    /// keeps its recorded GUID. A function whose GUID is zero is removed. Returns whether anything changed.
    pub fn update_functions(&mut self, function_guids: &BTreeMap<PciAddress, Option<Guid>>) -> bool {
        let before = self.functions.clone();
        let exists =
            |pci: &String| pci.parse::<PciAddress>().is_ok_and(|pci| function_guids.contains_key(&pci));
        let used_by_members: BTreeSet<String> =
            self.members.values().map(|member| member.device.clone()).collect();
        // A function that a sandbox uses is kept even if it temporarily disappears from sysfs.
        self.functions.retain(|pci, _| exists(pci) || used_by_members.contains(pci));
        for (pci, guid) in function_guids {
            match guid {
                Some(guid) if !guid.is_unset() => {
                    self.functions.insert(pci.to_string(), guid.to_string());
                }
                // The GUID is also zero while a driver is being bound, so a function that a member uses keeps
                // its GUID.
                Some(_) if !used_by_members.contains(&pci.to_string()) => {
                    self.functions.remove(&pci.to_string());
                }
                _ => {}
            }
        }
        self.functions != before
    }

    /// Adds or replaces the member `name`. Returns whether it is new or changed.
    pub fn add_member(&mut self, name: &str, member: NodeMember) -> bool {
        if self.members.get(name) == Some(&member) {
            return false;
        }
        if !member.shared {
            self.functions.insert(member.device.clone(), member.guid.clone());
        }
        self.first_generations.remove(name);
        self.members.insert(name.to_owned(), member);
        true
    }

    /// Removes the members of a sandbox, or of one of its interfaces. Returns whether there were any.
    pub fn remove_members(&mut self, container: &str, ifname: Option<&str>) -> bool {
        let before = self.members.len();
        self.members.retain(|name, _| !Self::is_member_of(name, container, ifname));
        self.first_generations.retain(|name, _| !Self::is_member_of(name, container, ifname));
        self.members.len() != before
    }

    /// Sets what the node reports about restores of etcd. Returns whether it changed.
    pub fn report_addresses(&mut self, report: NodeAddressReport) -> bool {
        let report = Some(report).filter(|report| *report != NodeAddressReport::default());
        let changed = self.addresses != report;
        self.addresses = report;
        changed
    }

    pub fn spec(&self) -> NodePartitionsSpec {
        NodePartitionsSpec {
            fabric: FabricName::Default,
            functions: self.functions.clone(),
            members: self.members.clone(),
            addresses: self.addresses.clone(),
        }
    }

    /// Records that `spec` was written and that the NodePartitions object then had this generation.
    pub fn record_written(&mut self, spec: &NodePartitionsSpec, generation: i64) {
        for (name, member) in &spec.members {
            if self.members.get(name) == Some(member) {
                // A recreated object starts at generation 1 again.
                let first = self.first_generations.entry(name.clone()).or_insert(generation);
                *first = generation.min(*first);
            }
        }
    }

    /// Returns the first generation of the NodePartitions object that contained the member, or `None` if the
    /// member is not written yet.
    pub fn first_generation(&self, name: &str) -> Option<i64> {
        self.first_generations.get(name).copied()
    }

    /// Lists the container ID and the pod's UID of each member. A sandbox with several members is listed
    /// several times.
    pub fn list_sandboxes(&self) -> Vec<(String, String)> {
        let container = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        self.members.iter().map(|(name, member)| (container(name), member.uid.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(device: &str, guid: &str) -> NodeMember {
        NodeMember {
            device: device.into(),
            guid: guid.into(),
            pkey: "0x0005".into(),
            ..NodeMember::default()
        }
    }

    // Case: partitions 67
    #[test]
    fn members_are_removed_with_their_sandboxes_and_a_second_del_is_a_no_op() {
        let mut state = NodePartitionsState::default();
        assert!(state.add_member("c1.net1", member("0000:3b:00.2", "02:00:00:00:00:00:00:01")));
        assert!(
            !state.add_member("c1.net1", member("0000:3b:00.2", "02:00:00:00:00:00:00:01")),
            "adding twice changes nothing"
        );
        state.add_member("c1.net2", member("0000:3b:00.3", "02:00:00:00:00:00:00:02"));
        state.add_member("c10.net1", member("0000:3b:00.4", "02:00:00:00:00:00:00:03"));
        let spec = state.spec();
        state.record_written(&spec, 7);
        assert_eq!(state.first_generation("c1.net1"), Some(7));
        assert!(state.remove_members("c1", Some("net1")) && !state.remove_members("c1", Some("net1")));
        assert!(state.remove_members("c1", None));
        assert_eq!(state.spec().members.keys().collect::<Vec<_>>(), ["c10.net1"]);
        assert_eq!(state.spec().functions.len(), 3, "functions keep their GUIDs");
        assert!(!state.remove_members("unknown", None));
    }

    #[test]
    fn only_members_of_living_sandboxes_are_restored() {
        let mut object = NodePartitions::new("n", NodePartitionsSpec::default());
        object.spec.members.insert("alive.net1".into(), member("0000:3b:00.2", "02:00:00:00:00:00:00:01"));
        object.spec.members.insert("dead.net1".into(), member("0000:3b:00.3", "02:00:00:00:00:00:00:02"));
        let mut state = NodePartitionsState::default();
        state.add_member("new.net1", member("0000:3b:00.4", "02:00:00:00:00:00:00:03"));
        state.restore(&object, &BTreeSet::from(["alive".to_owned()]));
        assert_eq!(state.spec().members.keys().collect::<Vec<_>>(), ["alive.net1", "new.net1"]);
    }

    #[test]
    fn function_in_a_pod_keeps_its_guid_and_a_removed_one_does_not() {
        let (here, gone): (PciAddress, PciAddress) =
            ("0000:3b:00.2".parse().unwrap(), "0000:3b:00.3".parse().unwrap());
        let guid = Guid::new(0x0200_0000_0000_0001);
        let mut state = NodePartitionsState::default();
        assert!(state.update_functions(&BTreeMap::from([(here, Some(guid)), (gone, Some(Guid::new(2)))])));
        assert!(state.update_functions(&BTreeMap::from([(here, None)])));
        assert_eq!(state.spec().functions, BTreeMap::from([(here.to_string(), guid.to_string())]));
        assert!(!state.update_functions(&BTreeMap::from([(here, None)])));
        state.add_member("c1.net1", member("0000:3b:00.2", &guid.to_string()));
        assert!(
            !state.update_functions(&BTreeMap::from([(here, Some(Guid::new(0)))])),
            "a function that a member uses keeps its GUID"
        );
        state.remove_members("c1", None);
        assert!(state.update_functions(&BTreeMap::from([(here, Some(Guid::new(0)))])));
        assert!(state.spec().functions.is_empty(), "an unused function without a GUID is removed");
    }
}
